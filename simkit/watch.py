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
LEAST_DONE = 0.01
"""Share of the jobs from which on those that are done tell how long the others take."""
LOOK_S = 0.2
MANY = 100_000
"""Fewer jobs take less than a second: their kernel runs where it is called."""

Result = TypeVar("Result")


class ReplayPace:
    """Says how far a replay is, from its first call on: kernels are compiled then.

    Args:
        first_s: seconds until the first line; None for `SAY_S`, as between two lines.
    """

    def __init__(self, first_s: float | None = None) -> None:
        self.begun: float | None = None
        self.next_s = SAY_S if first_s is None else first_s
        self.before = 0

    def say(self, done: int, total: int, what: str, ahead: float | None = None) -> None:
        """Say on stderr that so many of all are done, unless something was said a moment ago.

        Args:
            done, total: jobs; what is left takes as long each as those that are done.
            what: what they are.
            ahead: another estimate, the time left over the time spent.
        """
        now = time.monotonic()
        if self.begun is None:
            self.begun, self.before = now, done
        spent = now - self.begun
        if spent < self.next_s or done <= self.before:
            return
        self.next_s = spent + SAY_S
        estimates = [] if ahead is None else [ahead]
        if not estimates or done >= LEAST_DONE * total:
            estimates.append((total - done) / (done - self.before))
        left = [f"{spent * share:,.0f}" for share in sorted(estimates)]
        LOG.info(
            "%s of %s %s after %.0f s, about %s s left",
            *(f"{done:,}", f"{total:,}", what, spent, " to ".join(dict.fromkeys(left))),
        )


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
        pace, what = ReplayPace(), f"jobs replayed ({name})"
        pace.say(0, jobs, what)
        while thread.is_alive():
            thread.join(LOOK_S)
            pace.say(int(state[COUNT]), jobs, what)
    finally:
        state[STOP] = 1
        thread.join()
        _running[:] = [running for running in _running if running is not state]
    if errors:
        raise errors[0]
    if state[COUNT] < jobs:
        raise KeyboardInterrupt
    return results[0]
