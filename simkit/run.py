"""What every simulator answers about a run, whatever the policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gpuplan.simkit.arrays import FloatArray, IntArray, distinct


@dataclass(frozen=True, slots=True)
class Usage:
    """GPUs in use and jobs waiting over time; arrays of one shape (k,).

    Attributes:
        time_us: when either changes, microseconds, ascending.
        used: GPUs in use from then on.
        waiting: jobs that wait for GPUs from then on.
    """

    time_us: IntArray
    used: IntArray
    waiting: IntArray


@dataclass(frozen=True, slots=True)
class Leases:
    """GPUs rented together and returned together; arrays of one shape (k,).

    Attributes:
        begin_us, end_us: from the request to the return, microseconds.
        gpus: how many.
    """

    begin_us: IntArray
    end_us: IntArray
    gpus: IntArray

    @property
    def gpu_us(self) -> int:
        """GPU time rented."""
        return int(((self.end_us - self.begin_us).astype(object) * self.gpus).sum())


class Run(Protocol):
    """What happened to the jobs and the GPUs of one replay; times in microseconds.

    Arrays of shape (n,) are in the order of the jobs.
    """

    @property
    def submit_us(self) -> IntArray:
        """Submission of each job; ascending."""

    @property
    def start_us(self) -> IntArray:
        """When each job first ran."""

    @property
    def finish_us(self) -> IntArray:
        """When each job ended."""

    @property
    def waited_us(self) -> IntArray:
        """Time of each job without GPUs, from its submission to its end."""

    @property
    def held_gpu_us(self) -> FloatArray | IntArray:
        """GPU time that each job held."""

    @property
    def stops(self) -> IntArray:
        """How often each job was stopped, moved or resized."""

    @property
    def usage(self) -> Usage:
        """GPUs in use and jobs waiting over time."""

    @property
    def capacity(self) -> int | None:
        """Most GPUs that may be held at once; None for no limit."""

    @property
    def rented(self) -> Leases:
        """The GPUs rented, whether in use or not."""


def leases_of(time_us: IntArray, gpus: IntArray) -> Leases:
    """Return the leases behind a time line of rented GPUs; what was rented last goes back first.

    Args:
        time_us: when the number of GPUs changes, ascending; shape (k,).
        gpus: GPUs rented from then on; 0 at the end; shape (k,).

    Returns:
        The leases in the order of their ends.
    """
    rented: list[tuple[int, int]] = []  # since when, GPUs
    held: list[tuple[int, int, int]] = []
    now = 0
    for at, count in zip(time_us.tolist(), gpus.tolist(), strict=True):
        if count > now:
            rented.append((at, count - now))
        while now > count:
            since, leased = rented.pop()
            back = min(leased, now - count)
            if leased > back:
                rented.append((since, leased - back))
            held.append((since, at, back))
            now -= back
        now = count
    table = np.array(held, np.int64).reshape(-1, 3)
    return Leases(*table.T.copy())


def one_lease(begin_us: int, end_us: int, gpus: int) -> Leases:
    """Return GPUs that are held from the beginning to the end."""
    return Leases(*(np.array([value], np.int64) for value in (begin_us, end_us, gpus)))


def usage_of_gangs(
    submit_us: IntArray, start_us: IntArray, finish_us: IntArray, gpus: IntArray
) -> Usage:
    """Return the usage of jobs that wait once and then hold the same GPUs to their end."""
    time = distinct(np.concatenate((submit_us, start_us, finish_us)))
    used = _until(start_us, gpus, time) - _until(finish_us, gpus, time)
    ones = np.ones(submit_us.size, np.int64)
    waiting = _until(submit_us, ones, time) - _until(start_us, ones, time)
    return Usage(time, used, waiting)


def usage_of_rounds(
    round_us: IntArray,
    used: IntArray,
    waiting: IntArray,
    *,
    submit_us: IntArray,
    start_us: IntArray,
    finish_us: IntArray,
    gpus: IntArray,
) -> Usage:
    """Return the usage of a run in rounds.

    Args:
        round_us: rounds, ascending: every one after a submission or an end; shape (k,).
        used, waiting: GPUs in use and jobs waiting as each begins; shape (k,).
        submit_us, start_us, finish_us: of each job; it waits for the next round, and what it leaves
            is idle until then; shape (n,).
        gpus: GPUs of each job at its end; shape (n,).
    """
    ends = np.maximum(finish_us, start_us + 1)  # a job of no length takes its GPUs for an instant
    time = distinct(np.concatenate((round_us, submit_us, ends)))
    at = np.searchsorted(round_us, time, side="right")  # 0 before the first round
    begin = np.append(-1, round_us)[at]
    ones = np.ones(submit_us.size, np.int64)
    left = _until(ends, gpus, time) - _until(ends, gpus, begin)
    come = _until(submit_us, ones, time) - _until(submit_us, ones, begin)
    return Usage(time, np.append(0, used)[at] - left, np.append(0, waiting)[at] + come)


def _until(event_us: IntArray, amount: IntArray, time_us: IntArray) -> IntArray:
    """Return the sum of the amounts of all events up to each time."""
    order = np.argsort(event_us, kind="stable")
    total = np.append(0, np.cumsum(amount[order]))
    sums: IntArray = total[np.searchsorted(event_us[order], time_us, side="right")]
    return sums
