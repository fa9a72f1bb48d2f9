"""Replays of a site of Kueue from an instant on, until a new workload has its quota."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from gpuplan.analysis.base.time_units import DAY_S
from gpuplan.planner.quota.model import QuotaModel
from gpuplan.planner.quota_twin.cases import replay_level
from gpuplan.planner.quota_twin.instant import QuotaInstant
from gpuplan.planner.quota_twin.levels import BORROWING, FIFO, QUOTAS
from gpuplan.planner.site.draws import LEAST_SAMPLE, Arrivals, RunTimes, run_times
from gpuplan.planner.site.start_replays import DAYS
from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.quota.site import PodSet, QuotaJobs, QuotaSite
from gpuplan.simkit.twin.simulator import NOT_STARTED

HORIZONS_S = (2 * 3600, 12 * 3600, 2 * DAY_S, 8 * DAY_S, DAYS * DAY_S)
"""Times for which workloads arrive: the next one is replayed where the job has not started."""
LONG = 0.95
"""Share of the run times below which most of the finished workloads must have had time to end."""


@dataclass(frozen=True, slots=True)
class NewWorkload:
    """A workload to submit, as the simulator takes it: its queue, priority and pod sets."""

    queue: int
    priority: int
    pods: tuple[PodSet, ...]


@dataclass(frozen=True, slots=True)
class QuotaStartReplays:
    """Everything that replays from one instant share; see `quota_start_replays`.

    Attributes:
        at: the instant.
        site, level: queues, and the rules of them that count.
        jobs: all workloads that had come, then the new ones, then all that had come once more, as
            they may come again. Those that run come when they had their quota, with pod sets on
            the flavors that they hold; the others come at the instant.
        present: positions of those that run or wait.
        new: position of the first new one.
        unfinished: positions of the workloads whose run times are drawn from ``runs``.
        arrivals: workloads of the past that may come again.
        unplaced: workloads that run though the quotas have no room for them; they are left out.
    """

    at: int
    site: QuotaSite
    level: str
    jobs: QuotaJobs
    present: IntArray
    new: int
    unfinished: IntArray
    runs: RunTimes
    arrivals: Arrivals
    unplaced: int

    def refusal(self, new: int) -> str:
        """Return nothing: whether a workload ever fits is checked when it is made."""
        return ""

    def as_requested(self, new: int) -> int:
        """Return `NOT_STARTED`: workloads of Kueue have no time limits."""
        return NOT_STARTED

    def start(self, new: int, seed: int, draw: int) -> int:
        """Return when a new workload has its quota in a draw; `NOT_STARTED` after 28 days.

        The draw depends on the seed and its number alone, and is the same for all new workloads.
        """
        chance = np.random.default_rng([seed, draw])
        run = self.jobs.run.copy()
        again = run.size - self.arrivals.submit.size
        run[self.unfinished] = run[self.unfinished + again] = self.runs.draw(chance)
        rows, shifts = self.arrivals.draw(chance)
        come, rows = self.arrivals.submit[rows] + shifts, rows + again
        for horizon in HORIZONS_S:
            near = come <= self.at + horizon
            start = self._start(new, run, rows[near], come[near])
            if 0 <= start <= self.at + horizon:
                return start
        return NOT_STARTED

    def _start(self, new: int, run: IntArray, rows: IntArray, come: IntArray) -> int:
        chosen = np.concatenate([self.present, [self.new + new], rows])
        first = self.present.size + 1
        jobs = selected(self.jobs, chosen)
        jobs.submit[first:] = jobs.created[first:] = come
        jobs.run[:] = run[chosen]
        return int(replay_level(self.site, jobs, self.level).start[first - 1])


def selected(jobs: QuotaJobs, chosen: IntArray) -> QuotaJobs:
    """Return some of the workloads, in this order, as arrays of their own."""
    return replace(
        jobs, queue=jobs.queue[chosen], priority=jobs.priority[chosen],
        submit=jobs.submit[chosen], created=jobs.created[chosen], run=jobs.run[chosen],
        pods=jobs.pods[chosen], uid=np.arange(chosen.size),
    )  # fmt: skip


def quota_start_replays(
    instant: QuotaInstant, model: QuotaModel, level: str, new: Sequence[NewWorkload]
) -> QuotaStartReplays:
    """Return what replays from an instant share.

    Args:
        instant: what is known.
        model: the site.
        level: the rules that count.
        new: workloads that are submitted, one at a time.
    """
    quota, at = instant.work.quota, instant.at
    runs, waits = instant.is_running, instant.is_waiting
    shapes = list(quota.shapes)
    pods = quota.pods.copy()
    flavors = instant.jobs["flavor"].fill_null("").to_list()
    pinned: dict[tuple[int, int, str], int] = {}
    for row in np.flatnonzero(runs).tolist():
        key = int(quota.queue[row]), int(pods[row]), flavors[row]
        if key not in pinned:
            pinned[key] = len(shapes)
            shapes.append(on_flavor(model, key[0], quota.shapes[key[1]], key[2]))
        pods[row] = pinned[key]
    start = instant.jobs["start"].fill_null(0).to_numpy().astype(np.int64)
    count, n = len(new), quota.queue.size
    now, second = np.full(count, at), np.ones(count, np.int64)
    jobs = QuotaJobs(
        queue=_joined(quota.queue, [each.queue for each in new], quota.queue),
        priority=_joined(quota.priority, [each.priority for each in new], quota.priority),
        submit=_joined(np.where(runs, np.minimum(start, at - 1), at), now, quota.submit),
        created=_joined(quota.created, now, quota.created),
        run=_joined(quota.run, second, quota.run),
        pods=_joined(pods, len(shapes) + np.arange(count), quota.pods),
        uid=np.arange(2 * n + count),
        shapes=(*shapes, *(each.pods for each in new)),
    )
    running = np.flatnonzero(runs)
    placed = _placed(model.site, level, jobs, running, at)
    present = np.concatenate([placed, np.flatnonzero(waits)])
    unfinished = np.flatnonzero(runs | waits)
    return QuotaStartReplays(
        at=at,
        site=model.site,
        level=level,
        jobs=jobs,
        present=present,
        new=n,
        unfinished=unfinished,
        runs=_run_times(instant, unfinished),
        arrivals=Arrivals(quota.submit, instant.first, at, DAYS),
        unplaced=running.size - placed.size,
    )


def on_flavor(
    model: QuotaModel, queue: int, pods: tuple[PodSet, ...], flavor: str
) -> tuple[PodSet, ...]:
    """Return pod sets that may use only one flavor of the group that it is in."""
    other_flavors = {
        other.name
        for group in model.site.queues[queue].groups
        if any(each.name == flavor for each in group)
        for other in group
        if other.name != flavor
    }
    names = frozenset(model.flavor_types)
    return tuple(replace(each, flavors=(each.flavors or names) - other_flavors) for each in pods)


def _joined(*parts: ArrayLike) -> IntArray:
    return np.concatenate([np.asarray(part, np.int64) for part in parts])


def _placed(site: QuotaSite, level: str, jobs: QuotaJobs, running: IntArray, at: int) -> IntArray:
    """Return the running workloads that have their quota under the rules of a level.

    They got it one after the other, whatever was evicted for them before.
    """
    alone = replace(selected(jobs, running), run=np.full(running.size, DAYS * DAY_S + 1 + at))
    if not running.size:
        return running
    without_evictions = level if level in (FIFO, QUOTAS) else BORROWING
    run = replay_level(site, alone, without_evictions).run
    held = np.zeros(running.size, np.bool_)
    held[run.job[(run.start_s < at) & (run.end_s >= at)]] = True
    return running[held]


def _run_times(instant: QuotaInstant, unfinished: IntArray) -> RunTimes:
    """Return what each unfinished workload may run.

    Of the finished ones those count that came early enough to end: among the last to start only
    short ones have. Nothing bounds a workload that has run as long as any that ended.
    """
    finished = instant.finished
    longest = max(int(instant.jobs.select(pl.col("run_s").max()).item() or 0), 1)
    usual = finished["run_s"].quantile(LONG) or 0
    old_enough = finished.filter(pl.col("start") + usual <= instant.at)
    sample = old_enough if old_enough.height >= max(LEAST_SAMPLE, finished.height / 2) else finished
    traits: list[pl.Expr] = [
        pl.col("namespace").alias("user"), pl.col("queue").alias("partition"), pl.col("gpus"),
        pl.col("run_s"), pl.lit(longest).alias("limit"),
    ]  # fmt: skip
    rows = instant.jobs[unfinished].select(*traits, elapsed=pl.col("run_s"))
    past = sample.select(*traits, start=pl.lit(instant.at - 2 * longest))
    return run_times(rows, past, instant.at, instant.is_outlasting[unfinished])
