"""Which GPUs of a node a job held, where the log tells the node and not the GPUs.

Jobs of a whole node held all of them. Of others the series tell: GPUs are in use while jobs hold
them, from about when these start until about when they end. Where that does not tell which of two
jobs held which GPU, and the GPUs were not used alike, the use of both is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
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
MOST_STATES = 48
"""Ways to have shared the GPUs that are followed at a time, the best ones."""
MOST_SHARED = 4
"""Candidates for each of them, of which several may be alike."""
WORST = 1e6
"""Edges that it costs to hold a GPU which another run still holds."""
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
        busy = self.busy_edges(end_s, edge_s) - self.busy_edges(start_s, edge_s)
        fits: FloatArray = busy + has_any * (1.0 * begins + ends)
        return fits

    def busy_edges(self, at_s: IntArray, edge_s: float) -> FloatArray:
        """Return for how long it was busy before some times, in edges."""
        step_s = float(np.median(np.diff(self.time_s))) if self.time_s.size > 1 else 0.0
        samples = np.searchsorted(self.time_s[self.is_busy], at_s)
        return samples.astype(np.float64) * (step_s / edge_s)


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
    if (runs.gpus >= len(busy)).all():
        held = np.ones((runs.job.size, len(busy)), np.bool_)
        return SharedGpus(held, np.zeros_like(held))
    steps = [gpu.step_s for gpu in use]
    edge_s = max(EDGE_S, EDGE_STEPS * float(np.median(steps)))
    fit = np.column_stack([gpu.fit(runs.start_s, runs.end_s, edge_s) for gpu in busy])
    held = _best_shared(runs, busy, fit, edge_s)
    unclear = np.zeros_like(held)
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


def _best_shared(
    runs: NodeRuns, busy: Sequence[BusyTimes], fit: FloatArray, edge_s: float
) -> BoolArray:
    """Return the GPUs of each run that together fit best.

    A dynamic program over the starts of runs. Its state is until when each GPU is held; of those
    that are alike the one that fits best is kept, and `MOST_STATES` of them at most: those that
    fit best so far, as use yet to come may turn out to be of later runs.

    Args:
        runs: on the node, by start.
        busy: when each GPU was.
        fit: how well it fits that a run held a GPU, in edges; shape (runs, GPUs).
        edge_s: length of an edge.
    """
    gpus = fit.shape[1]
    at_start, at_end = (
        np.column_stack([gpu.busy_edges(at_s, edge_s) for gpu in busy])
        for at_s in (runs.start_s, runs.end_s)
    )
    until_s, scores = np.zeros((1, gpus), np.int64), np.zeros(1)
    at_until = np.zeros((1, gpus))
    parents, taken = list[IntArray](), list[BoolArray]()
    ways = {count: _ways(gpus, count) for count in {min(int(n), gpus) for n in runs.gpus}}
    for run, (start, end) in enumerate(zip(runs.start_s, runs.end_s, strict=True)):
        until_s[until_s <= start] = 0
        masks = ways[min(int(runs.gpus[run]), gpus)]
        is_held = until_s > 0
        taking = masks @ fit[run] - WORST * (is_held @ masks.T)
        gains = (scores[:, None] + taking).ravel()
        to_come = np.where(is_held, at_until - at_start[run], 0.0).sum(axis=1)
        so_far = gains - np.add.outer(to_come, masks @ (at_end[run] - at_start[run])).ravel()
        best = np.argsort(-so_far, kind="stable")[: MOST_SHARED * MOST_STATES]
        best = best[np.argsort(-gains[best], kind="stable")]
        parent, way = np.divmod(best, masks.shape[0])
        states = np.where(masks[way], end, until_s[parent])
        alike = np.unique(states, axis=0, return_index=True)[1]
        first = alike[np.argsort(-so_far[best[alike]], kind="stable")][:MOST_STATES]
        at_until = np.where(masks[way], at_end[run], at_until[parent])[first]
        until_s, scores = states[first], gains[best[first]]
        parents.append(parent[first])
        taken.append(masks[way[first]])
    held = np.zeros((runs.job.size, gpus), np.bool_)
    state = int(np.argmax(scores))
    for run in range(runs.job.size - 1, -1, -1):
        held[run] = taken[run][state]
        state = int(parents[run][state])
    return held


def _ways(gpus: int, count: int) -> BoolArray:
    """Return all ways to take some GPUs, the first ones first; shape (ways, GPUs)."""
    chosen = list(combinations(range(gpus), count))
    masks = np.zeros((len(chosen), gpus), np.bool_)
    for way, places in enumerate(chosen):
        masks[way, list(places)] = True
    return masks


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
