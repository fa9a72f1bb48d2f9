"""Runs of several pools as one: what they answer, and how high-priority and spot jobs fared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuplan.analysis.base.time_units import MONTH_H, WEEK_S
from gpuplan.analysis.history.jobs import PeriodUs
from gpuplan.planner.policies.spot.pools import SpotPools
from gpuplan.planner.policies.spot.results import TenantResults
from gpuplan.planner.runs.simulation import RunBill
from gpuplan.planner.runs.window import share_within, window_of
from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray, distinct
from gpuplan.simkit.run import Leases, Usage, one_lease
from gpuplan.simkit.spot.parameters import SpotScheduler
from gpuplan.simkit.spot.pool import MILLI
from gpuplan.simkit.spot.simulator import RUN_ENDS, SpotRun
from gpuplan.simkit.time import MICROS, MICROS_PER_HOUR


@dataclass(frozen=True, slots=True)
class Runs:
    """Every run of every job, those at the end included; arrays of one shape (k,).

    Attributes:
        job: place of its job among all.
        start_us, stop_us: microseconds after the first submission; of one that goes on, the end.
        milli: milli-GPU it holds.
        is_evicted, goes_on: how it ended.
    """

    job: IntArray
    start_us: IntArray
    stop_us: IntArray
    milli: IntArray
    is_evicted: BoolArray
    goes_on: BoolArray


@dataclass(frozen=True, slots=True)
class LentRun:
    """What happened in all pools; implements `gpuplan.simkit.run.Run`.

    A job that is unfinished at the end counts as finished then.

    Attributes:
        submit_us, start_us, finish_us: after the first submission; shape (n,).
        is_finished: whether each ended by itself.
        evictions: of each.
        wasted_milli_s: lost work and start-ups of each, milli-GPU seconds.
        runs: of all jobs.
        gpus: of all pools.
        end_us: end of the replay.
    """

    submit_us: IntArray
    start_us: IntArray
    finish_us: IntArray
    is_finished: BoolArray
    evictions: IntArray
    wasted_milli_s: IntArray
    runs: Runs
    gpus: int
    end_us: int

    @property
    def ran_us(self) -> IntArray:
        """Time in which each job held GPUs."""
        length = (self.runs.stop_us - self.runs.start_us).astype(np.float64)
        return np.bincount(self.runs.job, length, self.submit_us.size).astype(np.int64)

    @property
    def waited_us(self) -> IntArray:
        """Time of each job without GPUs."""
        waited: IntArray = np.maximum(self.finish_us - self.submit_us - self.ran_us, 0)
        return waited

    @property
    def held_gpu_us(self) -> FloatArray:
        """GPU time that each job held."""
        runs = self.runs
        area = (runs.stop_us - runs.start_us) * (runs.milli / MILLI)
        held: FloatArray = np.bincount(runs.job, area, self.submit_us.size).astype(np.float64)
        return held

    @property
    def stops(self) -> IntArray:
        """How often each job was evicted."""
        return self.evictions

    @property
    def usage(self) -> Usage:
        """GPUs in use and jobs waiting over time."""
        runs = self.runs
        time = distinct(
            np.concatenate((self.submit_us, runs.start_us, runs.stop_us, [self.end_us]))
        )
        milli = _until(runs.start_us, runs.milli, time) - _until(runs.stop_us, runs.milli, time)
        ones = np.ones(runs.job.size, np.int64)
        again = ~runs.goes_on & (runs.stop_us < self.finish_us[runs.job])
        waiting = (
            _until(self.submit_us, np.ones(self.submit_us.size, np.int64), time)
            - _until(runs.start_us, ones, time)
            + _until(runs.stop_us[again], ones[again], time)
        )
        waiting[time >= self.end_us] = 0
        return Usage(time, -(-milli // MILLI), waiting)

    @property
    def capacity(self) -> int:
        """GPUs of the cluster."""
        return self.gpus

    @property
    def rented(self) -> Leases:
        """The cluster, from the first submission to the last finish."""
        return one_lease(int(self.submit_us[0]), int(self.finish_us.max()), self.gpus)


def _until(event_us: IntArray, amount: IntArray, time_us: IntArray) -> IntArray:
    """Return the sum of the amounts of all events up to each time."""
    order = np.argsort(event_us, kind="stable")
    total = np.append(0, np.cumsum(amount[order]))
    until: IntArray = total[np.searchsorted(event_us[order], time_us, side="right")]
    return until


def joined(pools: SpotPools, runs: Sequence[SpotRun], submit_us: IntArray) -> LentRun:
    """Return the runs of all pools as one, in the order of all jobs."""
    n = submit_us.size
    begin_s = pools.offset_us / MICROS
    end_us = max(round((pool_run.end_s - begin_s) * MICROS) for pool_run in runs)
    end_us = max(end_us, int(submit_us[-1]) + 1)
    finish = np.full(n, end_us, np.int64)
    start = np.full(n, end_us, np.int64)
    finished = np.zeros(n, np.bool_)
    evictions, wasted = np.zeros(n, np.int64), np.zeros(n, np.int64)
    parts = []
    for pool, run in zip(pools.pools, runs, strict=True):
        jobs, size = pool.jobs, pool.workload.size_milli
        done, begun = run.finish_s >= 0, run.first_start_s >= 0
        finish[jobs[done]] = run.finish_s[done] * MICROS - pools.offset_us
        start[jobs[begun]] = run.first_start_s[begun] * MICROS - pools.offset_us
        finished[jobs] = done
        evictions[jobs], wasted[jobs] = run.evictions, run.wasted_milli_s
        task = np.concatenate((run.run_task, run.running))
        alive = np.arange(task.size) >= run.run_task.size
        since = np.concatenate((run.run_start_s, run.running_since_s)) * MICROS - pools.offset_us
        until = np.full(task.size, end_us, np.int64)
        until[~alive] = run.run_stop_s * MICROS - pools.offset_us
        evicted = np.zeros(task.size, np.bool_)
        evicted[~alive] = run.run_end == RUN_ENDS.index("evict")
        parts.append((jobs[task], since, np.maximum(until, since), size[task], evicted, alive))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return LentRun(
        submit_us=submit_us,
        start_us=np.minimum(start, finish),
        finish_us=np.maximum(finish, submit_us),
        is_finished=finished,
        evictions=evictions,
        wasted_milli_s=wasted,
        runs=Runs(*columns),
        gpus=sum(pool.gpus for pool in pools.pools),
        end_us=end_us,
    )


def tenant_results(run: LentRun, is_own: BoolArray) -> TenantResults:
    """Return the numbers of high-priority or of spot jobs; means are over those that finished."""
    done = is_own & run.is_finished
    jct = (run.finish_us - run.submit_us)[done] / MICROS
    jqt = run.waited_us[done] / MICROS
    some = jct.size > 0
    return TenantResults(
        jobs=int(is_own.sum()),
        unfinished=int((is_own & ~run.is_finished).sum()),
        mean_jct_s=float(jct.mean()) if some else None,
        p50_jct_s=float(np.percentile(jct, 50)) if some else None,
        p99_jct_s=float(np.percentile(jct, 99)) if some else None,
        mean_jqt_s=float(jqt.mean()) if some else None,
        p99_jqt_s=float(np.percentile(jqt, 99)) if some else None,
        gpu_h=float(run.held_gpu_us[is_own].sum()) / MICROS_PER_HOUR,
    )


def spot_results(
    run: LentRun,
    is_spot: BoolArray,
    scheduler: SpotScheduler,
    spot_usd: float,
    window_us: PeriodUs | None,
) -> dict[str, Any]:
    """Return how spot jobs fared and what they pay within the window.

    A run earns where it finished, or lasted the hours guaranteed. ``wasted_gpu_h`` is work lost
    since checkpoints, and start-ups after evictions.
    """
    runs = run.runs
    is_spot_run = is_spot[runs.job]
    lasted_us = runs.stop_us - runs.start_us
    kept = ~runs.is_evicted | (lasted_us >= scheduler.guarantee_h * MICROS_PER_HOUR)
    count, evictions = int(is_spot_run.sum()), int(runs.is_evicted[is_spot_run].sum())
    first, end = window_of(run, window_us)
    area = np.maximum(np.minimum(runs.stop_us, end) - runs.start_us, 0) * (runs.milli / MILLI)
    earning_h = float(area[is_spot_run & kept].sum()) / MICROS_PER_HOUR
    window_h = max((end - first) / MICROS_PER_HOUR, 1.0)
    return {
        "spot_runs": count,
        "evictions": evictions,
        "eviction_rate": evictions / count if count else None,
        "guarantee_success_share": float(kept[is_spot_run].mean()) if count else None,
        "wasted_gpu_h": float(run.wasted_milli_s[is_spot].sum()) / MILLI / 3600,
        "allocation_rate": allocation_rate(run),
        "paying_spot_gpu_h": earning_h,
        "spot_usd_per_gpu_h": spot_usd,
        "benefit_usd_per_month": earning_h * spot_usd * MONTH_H / window_h,
    }


def allocation_rate(run: LentRun) -> float | None:
    """Return the share of GPU time that jobs hold from the first submission to the last."""
    first, last = int(run.submit_us[0]), int(run.submit_us[-1])
    if last <= first:
        return None
    runs = run.runs
    lasting = np.minimum(runs.stop_us, last) - np.maximum(runs.start_us, first)
    area = np.maximum(lasting, 0) * (runs.milli / MILLI)
    return float(area.sum() / ((last - first) * run.gpus))


def quota_results(runs: Sequence[SpotRun], scheduler: SpotScheduler) -> dict[str, Any]:
    """Return how the quota was steered; null without one."""
    if scheduler.quota != "forecast":
        return {"mean_eta": None, "eta_at_min_share": None, "eta_at_max_share": None}
    eta: FloatArray = np.concatenate([pool_run.eta for pool_run in runs])
    return {
        "mean_eta": float(eta.mean()) if eta.size else None,
        "eta_at_min_share": float((eta <= scheduler.eta_min).mean()) if eta.size else None,
        "eta_at_max_share": float((eta >= scheduler.eta_max).mean()) if eta.size else None,
    }


def starving(run: SpotRun) -> IntArray:
    """Return spot tasks larger than the quota for over a week, from submission to their end."""
    work = run.workload
    size = work.size_milli
    tasks = []
    for task in np.flatnonzero(~work.hp & ((run.finish_s < 0) | (run.wait_s > WEEK_S))):
        until = run.finish_s[task] if run.finish_s[task] >= 0 else run.end_s
        here = (run.tick_s >= work.submit_s[task]) & (run.tick_s <= until) & (run.quota_milli >= 0)
        small = run.quota_milli[here] < size[task]
        time = run.tick_s[here]
        edges = np.flatnonzero(np.diff(np.concatenate(([0], small.astype(np.int8), [0]))))
        if any(time[end - 1] - time[at] > WEEK_S for at, end in edges.reshape(-1, 2)):
            tasks.append(task)
    return np.array(tasks, np.int64)


def kept_share(run: LentRun, bill: RunBill, window_us: PeriodUs | None) -> float | None:
    """Return the utilization by what ran and was kept.

    Neither the rest of unfinished jobs nor lost work counts.
    """
    kept_us = float(run.held_gpu_us.sum()) - float(run.wasted_milli_s.sum()) / MILLI * MICROS
    return kept_us * share_within(run, window_us) / bill.gpu_us if bill.gpu_us else None
