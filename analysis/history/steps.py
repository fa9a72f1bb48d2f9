"""Step functions of time, as stretches that hold a level: prices, availability, GPUs held.

``gpuplan.simkit.steps`` is for replays, in which the intervals have no gaps.
"""

from __future__ import annotations

from collections.abc import Sequence

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
