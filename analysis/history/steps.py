"""Step functions of time, as stretches that hold a level: prices, availability, GPUs held.

Times are whole microseconds. GPUs are whole parts of one, so that sums are exact.
``gpuplan.simkit.steps`` is for replays, in which the intervals have no gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.base.arrays import CountArray, FloatArray, IntArray


def time_weighted_quantiles(
    level: IntArray, lasting: IntArray, shares: Sequence[float]
) -> tuple[int, ...]:
    """Return the least levels that are not exceeded for these shares of the time.

    ``level[i]`` holds for ``lasting[i]``; both of shape (m,), in any order.
    """
    order = np.argsort(level)
    return tuple(quantiles_of_sorted(level[order], lasting[order], shares).tolist())


def quantiles_of_sorted(
    ascending: IntArray, lasting: CountArray | IntArray, shares: Sequence[float]
) -> IntArray:
    """Return what `time_weighted_quantiles` does, for levels in ascending order."""
    passed = np.cumsum(lasting)
    quantiles: IntArray = ascending[
        np.searchsorted(passed, np.asarray(shares) * passed[-1], side="left")
    ]
    return quantiles


def means_within(
    edges: IntArray, start: IntArray, end: IntArray, *levels: FloatArray
) -> tuple[FloatArray, tuple[FloatArray, ...]]:
    """Return the share of each bin that is covered, and the mean of each level over that part.

    Args:
        edges: of the bins, ascending; shape (m + 1,).
        start, end: stretches in order that do not overlap; shape (n,).
        levels: values within the stretches; shape (n,).
    """
    lasting = (end - start).astype(np.float64)
    times = np.stack([start, end], axis=1).ravel()

    def within(value: FloatArray) -> FloatArray:
        total = np.cumsum(np.stack([np.zeros_like(lasting), lasting * value], axis=1).ravel())
        return np.diff(np.interp(edges, times, total))

    cover = within(np.ones_like(lasting))
    with np.errstate(invalid="ignore", divide="ignore"):
        means = tuple(np.where(cover > 0, within(level) / cover, np.nan) for level in levels)
    return cover / np.diff(edges), means


def sum_between(
    edges: IntArray, start: IntArray, end: IntArray, level: IntArray
) -> tuple[IntArray, IntArray]:
    """Return the sum of the levels of stretches that may overlap, and how many there are.

    Args:
        edges: ascending; every start and end is one of them; shape (m + 1,).
        start, end, level: the stretches; shape (n,).

    Returns:
        Both between successive edges; shape (m,).
    """
    change, count = np.zeros((2, edges.size), np.int64)
    for at, sign in ((np.searchsorted(edges, start), 1), (np.searchsorted(edges, end), -1)):
        np.add.at(change, at, sign * level)
        np.add.at(count, at, sign)
    return change.cumsum()[:-1], count.cumsum()[:-1]


@dataclass(frozen=True, slots=True)
class StepFunction:
    """A level over time: ``level[i]`` from ``time[i]`` to ``time[i + 1]``, 0 before and after.

    Attributes:
        time: ascending and distinct; shape (m,).
        level: shape (m,); the last one is 0.
    """

    time: IntArray
    level: IntArray

    @classmethod
    def of(cls, start: IntArray, end: IntArray, level: IntArray) -> StepFunction:
        """Return the sum of stretches that may overlap; arrays of shape (n,)."""
        if not start.size:
            return cls(np.zeros(1, np.int64), np.zeros(1, np.int64))
        first, last = np.argsort(start, kind="stable"), np.argsort(end, kind="stable")
        time = np.concatenate([start[first], end[last]])
        change = np.concatenate([level[first], -level[last]])
        order = np.argsort(time, kind="stable")  # it merges two sorted halves
        time, levels = time[order], np.cumsum(change[order])
        is_last = np.append(time[1:] != time[:-1], True)
        return cls(time[is_last], levels[is_last])

    @property
    def peak(self) -> int:
        """The highest level."""
        return int(self.level.max())

    def time_above(self, level: int, begin: IntArray, end: IntArray) -> IntArray:
        """Return for how long it is above a level >= 0 in each stretch; shape (k,)."""
        change = np.flatnonzero(np.diff(self.level > level, prepend=False))
        rise, fall = self.time[change[::2]], self.time[change[1::2]]
        if not rise.size:
            return np.zeros(begin.size, np.int64)
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(fall - rise)])

        def upto(times: IntArray) -> IntArray:
            place = np.searchsorted(rise, times, side="right")
            last = np.maximum(place - 1, 0)
            inside = np.minimum(times, fall[last]) - rise[last]
            total: IntArray = np.where(place > 0, before[last] + inside, 0)
            return total

        return upto(end) - upto(begin)


def time_without_room(
    held: StepFunction, size: int, need: IntArray, begin: IntArray, end: IntArray
) -> IntArray:
    """Return for how long the free GPUs of a pool are fewer than each job needs.

    A pool is GPUs of one type, or those of them on the nodes that a partition may use.
    A job that needs more than the pool has waits for all of it. The work is one pass over the
    steps for each number of GPUs that jobs need.

    Args:
        held: GPUs held of the pool.
        size: GPUs of the pool.
        need: GPUs of each job; shape (n,).
        begin, end: its wait; shape (n,).

    Returns:
        Microseconds; shape (n,).
    """
    blocked = np.zeros(need.size, np.int64)
    waited = np.flatnonzero(end > begin)
    most = np.minimum(need[waited], max(size, 0))
    for need_parts in np.unique(most).tolist():
        level = size - int(need_parts)
        if held.peak > level:
            rows = waited[most == need_parts]
            blocked[rows] = held.time_above(level, begin[rows], end[rows])
    return blocked
