"""Which GPUs of a node a job held, where the log tells the node and not the GPUs.

Jobs of a whole node held all of them. Of others the series tell: GPUs are in use while jobs hold
them, from about when these start until about when they end. Where that does not tell which of two
jobs held which GPU, and the GPUs were not used alike, the use of both is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gpuplan.analysis.base.arrays import BoolArray, FloatArray, IntArray
from gpuplan.analysis.metrics.samples import MetricSeries

BUSY_MIB = 256.0
"""Memory in use above which some job holds a GPU; drivers alone use less."""


EDGE_S = 600.0
EDGE_STEPS = 3
"""Time between the begin of a job and that of its use at which they are of one another, in seconds
and in steps of the samples, whichever is longer. As much use outside any job weighs as an edge."""
CLEAR = 1.0
"""Edges by which one way to share GPUs must fit better than another."""
ALIKE_PERCENT = 10.0
"""Difference of mean utilization up to which two GPUs are used alike, unless one is never used."""
MOST_SWEEPS = 8
ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class NodeRuns:
    """Runs of jobs on one node, by start; arrays of shape (n,).

    Attributes:
        job: place of the job in the log.
        start_s, end_s: seconds since 1970.
        gpus: GPUs held on this node.
    """

    job: IntArray
    start_s: IntArray
    end_s: IntArray
    gpus: IntArray


@dataclass(frozen=True, slots=True)
class BusyTimes:
    """When a GPU was busy; arrays of shape (m,).

    Attributes:
        time_s: of the samples.
        is_busy: whether a job held it then, as far as its metrics show.
    """

    time_s: IntArray
    is_busy: BoolArray

    def share(self, start_s: IntArray, end_s: IntArray) -> FloatArray:
        """Return the share of the samples of each span in which it was busy; 0 without any."""
        before = np.append(0, np.cumsum(self.is_busy))
        first, last = (np.searchsorted(self.time_s, edge) for edge in (start_s, end_s))
        samples = last - first
        busy = (before[last] - before[first]).astype(np.float64)
        share: FloatArray = np.zeros(samples.size)
        np.divide(busy, samples, out=share, where=samples > 0)
        return share

    def fit(self, start_s: IntArray, end_s: IntArray, edge_s: float) -> FloatArray:
        """Return how well it fits that jobs of some spans held it, in edges.

        That is the busy time within each span, and 1 each where it begins and ends with the span.
        """
        at = np.flatnonzero(self.is_busy)
        if not at.size:
            return np.zeros(start_s.size)
        busy_s = self.time_s[at]
        first = np.searchsorted(busy_s, start_s)
        last = np.searchsorted(busy_s, end_s)
        has_any = last > first
        inside = busy_s.size - 1
        begins = busy_s[np.minimum(first, inside)] - start_s <= edge_s
        ends = end_s - busy_s[np.maximum(last - 1, 0)] <= edge_s
        step_s = float(np.median(np.diff(self.time_s))) if self.time_s.size > 1 else 0.0
        fits = (last - first) * step_s / edge_s + has_any * (1.0 * begins + ends)
        return fits.astype(np.float64)


def busy_times(memory_mib: MetricSeries | None, use: MetricSeries) -> BusyTimes:
    """Return when a GPU was busy: by its memory where that is there, else by its use."""
    if memory_mib is None:
        return BusyTimes(use.time_s, use.values > 0)
    return BusyTimes(memory_mib.time_s, memory_mib.values > BUSY_MIB)


@dataclass(frozen=True, slots=True)
class SharedGpus:
    """Which GPUs of a node each run held; arrays of shape (runs, GPUs).

    Attributes:
        held: where the series tell it.
        unclear: that it may have held, or another run in its place: their use is unknown.
    """

    held: BoolArray
    unclear: BoolArray


def held_gpus(runs: NodeRuns, busy: list[BusyTimes], use: list[MetricSeries]) -> SharedGpus:
    """Return which GPUs of a node each run held.

    A run of more GPUs than the node has samples of holds all of them.

    Args:
        runs: on the node.
        busy: when each of its GPUs was.
        use: utilization of each of them.
    """
    held = _taken_in_turn(runs, busy)
    unclear = np.zeros_like(held)
    if held.all():
        return SharedGpus(held, unclear)
    steps = [gpu.step_s for gpu in use]
    edge_s = max(EDGE_S, EDGE_STEPS * float(np.median(steps)))
    fit = np.column_stack([gpu.fit(runs.start_s, runs.end_s, edge_s) for gpu in busy])
    pairs = list(combinations(range(len(busy)), 2))
    for _ in range(MOST_SWEEPS):
        changes = [_swap(runs, held, fit, pair) for pair in pairs]
        if not any(changes):
            break
    means, is_used = _means(runs, use)
    for pair in pairs:
        rows, group, gain = _gains(runs, held, fit, pair)
        differs = (np.abs(means[rows, pair[0]] - means[rows, pair[1]]) > ALIKE_PERCENT) | (
            is_used[rows, pair[0]] != is_used[rows, pair[1]]
        )
        is_open = (gain > -CLEAR) & (np.bincount(group, differs, gain.size) > 0)
        for gpu in pair:
            unclear[rows, gpu] |= is_open[group] & held[rows, gpu]
    return SharedGpus(held & ~unclear, unclear)


def _taken_in_turn(runs: NodeRuns, busy: list[BusyTimes]) -> BoolArray:
    """Return GPUs that runs may have held: of the free ones those that were busy the longest."""
    held = np.zeros((runs.job.size, len(busy)), np.bool_)
    held[runs.gpus >= len(busy)] = True
    if held.all():
        return held
    shares = np.column_stack([gpu.share(runs.start_s, runs.end_s) for gpu in busy])
    free_from = np.full(len(busy), np.iinfo(np.int64).min)
    for run, (start, end, gpus) in enumerate(
        zip(runs.start_s.tolist(), runs.end_s.tolist(), runs.gpus.tolist(), strict=True)
    ):
        if gpus < len(busy):
            is_free = free_from <= start
            # Stable: of equals the first GPU. One that is not free comes last.
            order = np.argsort(-(shares[run] + 2.0 * is_free), kind="stable")
            held[run, order[:gpus]] = True
        free_from[held[run]] = np.maximum(free_from[held[run]], end)
    return held


def _gains(
    runs: NodeRuns, held: BoolArray, fit: FloatArray, pair: tuple[int, int]
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return what it gains to exchange two GPUs, for each group of runs that overlap in time.

    Returns:
        The runs that hold one of the two; the group of each; the gain of each group, in edges.
    """
    of_first, of_second = held[:, pair[0]], held[:, pair[1]]
    rows = np.flatnonzero(of_first != of_second)
    latest = np.maximum.accumulate(runs.end_s[rows])
    begins = np.append(True, runs.start_s[rows][1:] >= latest[:-1]) if rows.size else latest > 0
    group = np.cumsum(begins) - 1
    gain = np.where(of_first[rows], 1.0, -1.0) * (fit[rows, pair[1]] - fit[rows, pair[0]])
    groups = int(group[-1]) + 1 if rows.size else 0
    gains = np.bincount(group, gain, groups).astype(np.float64)
    return rows.astype(np.int64), group.astype(np.int64), gains


def _swap(runs: NodeRuns, held: BoolArray, fit: FloatArray, pair: tuple[int, int]) -> bool:
    """Exchange two GPUs where that fits better; returns whether it does anywhere."""
    rows, group, gain = _gains(runs, held, fit, pair)
    swapped = rows[(gain > ROUNDING)[group]] if rows.size else rows
    held[np.ix_(swapped, np.array(pair))] = held[np.ix_(swapped, np.array(pair[::-1]))]
    return bool(swapped.size)


def _means(runs: NodeRuns, use: list[MetricSeries]) -> tuple[FloatArray, BoolArray]:
    """Return the mean utilization of each GPU in each run, and whether there was any."""
    means = np.zeros((runs.job.size, len(use)))
    for gpu, series in enumerate(use):
        sums = np.append(0.0, np.cumsum(series.values))
        first, last = (np.searchsorted(series.time_s, at) for at in (runs.start_s, runs.end_s))
        means[:, gpu] = (sums[last] - sums[first]) / np.maximum(last - first, 1)
    return means, means > ROUNDING
