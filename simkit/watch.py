"""Kernels that run for minutes: how far they are, and an end when the user interrupts them.

A kernel takes an array, writes the number of jobs done into `COUNT` and ends early where `STOP` is
set. It runs in a thread of its own, so that signals reach the thread that waits for it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from gpuplan.simkit.arrays import IntArray

LOG = logging.getLogger("gpuplan")
COUNT, STOP = range(2)
SAY_S = 20.0
"""Seconds between two lines on how far a replay is."""
LOOK_S = 0.2
MANY = 100_000
"""Fewer jobs take less than a second: their kernel runs where it is called."""

Result = TypeVar("Result")
_running: list[IntArray] = []


def stop_all() -> None:
    """End the kernels that run in other threads; each raises `KeyboardInterrupt` there."""
    for state in _running:
        state[STOP] = 1


def watched(call: Callable[[IntArray], Result], jobs: int, name: str) -> Result:
    """Return what a kernel returns; say every `SAY_S` how many jobs are done.

    Args:
        call: runs the kernel with the array of `COUNT` and `STOP`.
        jobs: how many there are to run.
        name: what the lines call the replay.

    Raises:
        KeyboardInterrupt: on a signal, or after `stop_all`; the kernel has ended.
    """
    state = np.zeros(2, np.int64)
    if jobs < MANY:
        return call(state)
    results: list[Result] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(call(state))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    _running.append(state)
    try:
        thread.start()
        begun = said = time.monotonic()
        while thread.is_alive():
            thread.join(LOOK_S)
            now = time.monotonic()
            if now - said >= SAY_S and state[COUNT]:
                said, spent, done = now, now - begun, int(state[COUNT])
                LOG.info(
                    "%s: %s of %s jobs replayed after %.0f s, about %.0f s left",
                    *(name, f"{done:,}", f"{jobs:,}", spent, spent * (jobs / done - 1)),
                )
    finally:
        state[STOP] = 1
        thread.join()
        _running[:] = [running for running in _running if running is not state]
    if errors:
        raise errors[0]
    if state[COUNT] < jobs:
        raise KeyboardInterrupt
    return results[0]
