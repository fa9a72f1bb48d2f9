"""Which GPUs of a node a job held, where the log tells the node and not the GPUs.

Jobs of a whole node held all of them. Of others the series tell: GPUs are in use while jobs hold
them, from about when these start until about when they end. Where that does not tell which of two
jobs held which GPU, and the GPUs were not used alike, the use of both is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np
import polars as pl

from gpuplan.analysis.base.arrays import BoolArray, FloatArray, IntArray
from gpuplan.analysis.job_table.schema import RUNS
from gpuplan.analysis.metrics.samples import MetricSeries
from gpuplan.analysis.trace.trace import Trace

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
MOST_STATES = 256
"""Ways to have shared the GPUs that are followed at a time, the best ones."""
MOST_ALIKE = 4
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


def node_lists(log: Trace, job: IntArray, first: IntArray, count: IntArray) -> list[str | None]:
    """Return the nodes of each run; None where the log does not tell them.

    Args:
        job: place of the job of each run, the runs of a job in a row.
        first, count: where the runs of each job begin, and how many it has.
    """
    lists: list[str | None] = [None] * job.size
    if "node_list" not in log.jobs.columns:
        return lists
    of_jobs = log.jobs["node_list"].gather(job[first]).to_list()
    started: list[list[str | None] | None] = [None] * len(of_jobs)
    if RUNS in log.jobs.columns:
        run = pl.element().struct
        of_runs = pl.col(RUNS).list.eval(
            pl.element().filter(run.field("start").is_not_null()).struct.field("node_list")
        )
        started = log.jobs[job[first]].select(of_runs).to_series().to_list()
    for begin, several, of_job, of_its_runs in zip(first, count, of_jobs, started, strict=True):
        lists[begin] = of_job
        if several > 1 and of_its_runs is not None and len(of_its_runs) == several:
            lists[begin : begin + several] = of_its_runs
    return lists


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
    edge_s = max(EDGE_S, EDGE_STEPS * float(np.median([gpu.step_s for gpu in use])))
    if (runs.gpus >= len(busy)).all():
        held = np.ones((runs.job.size, len(busy)), np.bool_)
        unclear = _held_twice(runs, held, edge_s)
        return SharedGpus(held & ~unclear, unclear)
    held, loss_with, loss_without = _best_shared(runs, busy, edge_s)
    means, is_used = _means(runs, use)
    unclear = _held_twice(runs, held, edge_s)
    for gpu, other in permutations(range(len(busy)), 2):
        may_differ = held[:, gpu] & (loss_without[:, gpu] < CLEAR)
        may_differ &= ~held[:, other] & (loss_with[:, other] < CLEAR)
        differs = np.abs(means[:, gpu] - means[:, other]) > ALIKE_PERCENT
        differs |= is_used[:, gpu] != is_used[:, other]
        unclear[:, gpu] |= may_differ & differs
    return SharedGpus(held & ~unclear, unclear)


def _held_twice(runs: NodeRuns, held: BoolArray, edge_s: float) -> BoolArray:
    """Return where two runs would hold a GPU at once, as where only some GPUs have samples."""
    is_twice = np.zeros_like(held)
    for gpu in range(held.shape[1]):
        last, until_s = -1, -np.inf
        for run in np.flatnonzero(held[:, gpu]).tolist():
            end_s = float(runs.end_s[run])
            if min(until_s, end_s) - float(runs.start_s[run]) > edge_s:
                is_twice[[last, run], gpu] = True
            if end_s > until_s:
                last, until_s = run, end_s
    return is_twice


@dataclass(frozen=True, slots=True)
class _Step:
    """How the states before the start of a run become those after it; arrays of shape (m,).

    Attributes:
        parent, child: places of the states.
        uses: GPUs that the run takes; shape (m, GPUs).
        gain: what that fits, in edges.
    """

    parent: IntArray
    child: IntArray
    uses: BoolArray
    gain: FloatArray


def _best_shared(
    runs: NodeRuns, busy: Sequence[BusyTimes], edge_s: float
) -> tuple[BoolArray, FloatArray, FloatArray]:
    """Return the GPUs of each run that together fit best, and how clear that is.

    A dynamic program over the starts of runs. Its state is until when each GPU is held; of those
    that are alike the one that fits best is kept, and `MOST_STATES` of them at most: those that
    fit best so far, as use yet to come may turn out to be of later runs.
    Of runs that start together the longest goes first: its use says most.

    Args:
        runs: on the node, by start.
        busy: when each of its GPUs was.
        edge_s: length of an edge.

    Returns:
        Arrays of shape (runs, GPUs): the GPUs held, and by how many edges less all runs fit at
        best if the run held this GPU, and if it did not.
    """
    fit = np.column_stack([gpu.fit(runs.start_s, runs.end_s, edge_s) for gpu in busy])
    at_start, at_end = (
        np.column_stack([gpu.busy_edges(at_s, edge_s) for gpu in busy])
        for at_s in (runs.start_s, runs.end_s)
    )
    gpus = len(busy)
    until_s, at_until = np.zeros((1, gpus), np.int64), np.zeros((1, gpus))
    scores = np.zeros(1)
    every_score, steps = [scores], list[_Step]()
    ways = {count: _ways(gpus, count) for count in {min(int(n), gpus) for n in runs.gpus}}
    order_of_runs = np.lexsort((-runs.end_s, runs.start_s))
    for run in order_of_runs.tolist():
        start, end = runs.start_s[run], runs.end_s[run]
        until_s[until_s <= start] = 0
        masks = ways[min(int(runs.gpus[run]), gpus)]
        is_held = until_s > 0
        taking = masks @ fit[run] - WORST * (is_held @ masks.T)
        scored = (scores[:, None] + taking).ravel()
        to_come = np.where(is_held, at_until - at_start[run], 0.0).sum(axis=1)
        so_far = scored - np.add.outer(to_come, masks @ (at_end[run] - at_start[run])).ravel()
        tried = _first(so_far, MOST_ALIKE * MOST_STATES)
        tried = tried[_first(scored[tried], tried.size)]
        parent, way = np.divmod(tried, masks.shape[0])
        states = np.where(masks[way], end, until_s[parent])
        _, distinct, of_distinct = np.unique(
            _row_codes(states, np.append(until_s, end)), return_index=True, return_inverse=True
        )
        order = _first(so_far[tried[distinct]], MOST_STATES)
        child = np.full(distinct.size, -1)
        child[order] = np.arange(order.size)
        children, is_kept = child[of_distinct], child[of_distinct] >= 0
        steps.append(
            _Step(
                parent[is_kept].astype(np.int64), children[is_kept], masks[way[is_kept]],
                taking.ravel()[tried[is_kept]],
            )
        )  # fmt: skip
        first = distinct[order]
        at_until = np.where(masks[way], at_end[run], at_until[parent])[first]
        until_s, scores = states[first], scored[tried[first]]
        every_score.append(scores)
    place = np.argsort(order_of_runs)
    held, loss_with, loss_without = _traced(steps, every_score)
    return held[place], loss_with[place], loss_without[place]


def _traced(
    steps: Sequence[_Step], scores: Sequence[FloatArray]
) -> tuple[BoolArray, FloatArray, FloatArray]:
    """Return what `_best_shared` does, from its steps and the scores of the states before each."""
    gpus = steps[0].uses.shape[1]
    held = np.zeros((len(steps), gpus), np.bool_)
    loss_with, loss_without = (np.zeros((len(steps), gpus)) for _ in range(2))
    to_come, state = np.zeros(scores[-1].size), int(np.argmax(scores[-1]))
    best = float(scores[-1][state])
    for run in range(len(steps) - 1, -1, -1):
        step = steps[run]
        reached = step.gain + to_come[step.child]
        loss = best - (scores[run][step.parent] + reached)
        for losses, is_used in ((loss_with, step.uses), (loss_without, ~step.uses)):
            losses[run] = np.where(is_used, loss[:, None], np.inf).min(axis=0)
        to_come = np.full(scores[run].size, -np.inf)
        np.maximum.at(to_come, step.parent, reached)
        at = np.flatnonzero(step.child == state)
        chosen = at[np.argmax(scores[run][step.parent[at]] + step.gain[at])]
        held[run], state = step.uses[chosen], int(step.parent[chosen])
    return held, loss_with, loss_without


def _row_codes(rows: IntArray, values: IntArray) -> IntArray:
    """Return a number for each row, in the order of the rows: sorting rows themselves is slow.

    Args:
        rows: shape (m, n).
        values: all that occur in them, in any order.
    """
    levels = np.unique(values)
    codes = np.zeros(rows.shape[0], np.int64)
    bound = 1
    for column in rows.T:
        if bound * levels.size >= 1 << 62:  # the numbers so far would leave no room
            distinct, codes = np.unique(codes, return_inverse=True)
            bound = distinct.size
        codes = codes * levels.size + np.searchsorted(levels, column)
        bound *= levels.size
    return codes


def _first(values: FloatArray, count: int) -> IntArray:
    """Return the places of the largest values, the largest first; of equals the first."""
    places: IntArray = np.arange(values.size)
    if 0 < count < values.size:
        least = np.partition(values, -count)[-count]
        is_above = values > least
        ties = np.flatnonzero(values == least)[: count - np.count_nonzero(is_above)]
        places = np.sort(np.append(np.flatnonzero(is_above), ties))
    order = np.argsort(-values[places], kind="stable")
    first: IntArray = places[order]
    return first


def _ways(gpus: int, count: int) -> BoolArray:
    """Return all ways to take some GPUs, the first ones first; shape (ways, GPUs)."""
    chosen = list(combinations(range(gpus), count))
    masks = np.zeros((len(chosen), gpus), np.bool_)
    for way, places in enumerate(chosen):
        masks[way, list(places)] = True
    return masks


def _means(runs: NodeRuns, use: list[MetricSeries]) -> tuple[FloatArray, BoolArray]:
    """Return the mean utilization of each GPU in each run, and whether there was any."""
    means = np.zeros((runs.job.size, len(use)))
    for gpu, series in enumerate(use):
        sums = np.append(0.0, np.cumsum(series.values))
        first, last = (np.searchsorted(series.time_s, at) for at in (runs.start_s, runs.end_s))
        means[:, gpu] = (sums[last] - sums[first]) / np.maximum(last - first, 1)
    return means, means > ROUNDING
