"""Scenarios for the tests of the engines: of a module, so that other processes find them."""

import os
from itertools import count

from gpuplan.analysis.base.errors import UsageError

_loads = count()


class Sent:
    """An array that knows how many were unpickled in its process before it."""

    def __init__(self, array):
        self.array = array
        self.loaded = None

    def __getstate__(self):
        return self.array

    def __setstate__(self, array):
        self.array, self.loaded = array, next(_loads)


def square(item):
    return item * item


def fail(item):
    raise UsageError(f"item {item}")


def total(item, array):
    return int(array.sum()) + item


def pid_and_sum(item, shared):
    """Return the process, the sum, and how the array came; then write to a bare one."""
    if isinstance(shared, Sent):
        return os.getpid(), total(item, shared.array), shared.loaded
    value = total(item, shared)
    shared[0] = 1
    return os.getpid(), value, type(shared).__name__
