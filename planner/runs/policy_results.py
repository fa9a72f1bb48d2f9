"""The headline numbers of a replay, as JSON has them: those of every policy, then its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, make_dataclass
from typing import Any, TypeVar

import numpy as np
import polars as pl
from msgspec import UNSET, UnsetType

from gpuplan.planner.runs.group_waits import GroupWaits, group_waits
from gpuplan.planner.runs.simulation import SOON_S, Simulation
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.planner.runs.window import window_results
from gpuplan.simkit.metrics import distribution
from gpuplan.simkit.time import MICROS

P = TypeVar("P", bound="PolicyResults")


@dataclass(frozen=True, kw_only=True)
class CommonResults:
    """What every policy has.

    Attributes:
        jobs: jobs replayed.
        mean_jct_s, median_jct_s, p90_jct_s, p95_jct_s, p99_jct_s: completion times, from
            submission to finish.
        mean_wait_s, p95_wait_s: JCT less run time: queues, start-ups, checkpoints and restores.
        deadline_miss_share: jobs that finish after their deadline.
        finished_within_10min_share: jobs that finish within 10 minutes of their submission.
        cost_usd: the bill of the window.
        gpu_h: run time x GPUs of the jobs, a fraction of a GPU as such.
        paid_gpu_h: GPU-hours billed; null where the policy does not measure its utilization.
        gpus: size of the cluster; of a policy that rents, the most GPUs rented or in use at once.
        usd_per_month: the bill per month of 730.5 h; null for a window of no length.
        window_s: time charged for.
        backlog_jobs: jobs that run or wait at the end of the window.
        backlog_gpu_h: GPU-hours held after the end of the window.
    """

    jobs: int
    mean_jct_s: float
    median_jct_s: float
    p90_jct_s: float
    p95_jct_s: float
    p99_jct_s: float
    mean_wait_s: float
    p95_wait_s: float
    deadline_miss_share: float
    finished_within_10min_share: float
    cost_usd: float
    gpu_h: float
    paid_gpu_h: float | None
    gpus: int
    usd_per_month: float | None
    window_s: float
    backlog_jobs: int
    backlog_gpu_h: float


@dataclass(frozen=True, slots=True)
class PoolDemand:
    """What jobs ask of a pool, where GPUs are lent.

    Attributes:
        pool: the GPU type; ``all`` without types.
        gpus: GPUs of the pool.
        hp_demand_over_capacity, spot_demand_over_capacity: GPU time that each kind of jobs
            requests over that of the pool; above 1 where it is more.
    """

    pool: str
    gpus: int
    hp_demand_over_capacity: float
    spot_demand_over_capacity: float


@dataclass(frozen=True, slots=True)
class TenantResults:
    """How high-priority or spot jobs fared; means are over those that finished.

    Attributes:
        jobs: jobs of this kind.
        unfinished: jobs not done at the end.
        mean_jct_s, p50_jct_s, p99_jct_s: completion times; null where none finished.
        mean_jqt_s, p99_jqt_s: time without GPUs; null where none finished.
        gpu_h: GPU-hours held.
    """

    jobs: int
    unfinished: int
    mean_jct_s: float | None
    p50_jct_s: float | None
    p99_jct_s: float | None
    mean_jqt_s: float | None
    p99_jqt_s: float | None
    gpu_h: float


@dataclass(frozen=True, kw_only=True)
class PolicyResults(CommonResults):
    """What some policies have as well; a policy is without the fields that it does not measure.

    Attributes:
        mean_service_s: mean run time; with pauses for policies that choose widths or GPU types.
        mean_jqt_s, median_jqt_s, p90_jqt_s, p95_jqt_s, p99_jqt_s: time without GPUs.
        mean_startup_s: start-up of containers.
        mean_queue_s: time in the queue.
        mean_preemption_s: checkpoints and restores of jobs that were stopped.
        mean_container_queue_s: wait for containers under a limit, part of the queue.
        mean_demotion_s: checkpoints and restores of jobs that leave their containers.
        cost_if_serverless_usd: the bill had every job stayed in its container.
        cost_serverless_usd: the part of the bill that is for containers.
        cost_marketplace_usd: the part that is for GPUs rented on the marketplace.
        cost_conventional_usd: the part that is for GPUs of a conventional cloud.
        mean_usd_per_gpu_h: mean price of the GPUs; null where they were rented for no time.
        finished_serverless_share: jobs that ended in their containers.
        preemptions: times that a job was stopped.
        preempted_jobs: jobs stopped at least once.
        utilization: run time x GPUs within the window over the GPU time billed.
        gpu_busy_share: GPU time held within the window, over that billed.
        never_demotable_jobs: jobs wider than the capacity, which stay in their containers.
        waiting_mean, waiting_peak: jobs in the queue, mean over time and most at once.
        mean_threshold_s: run time after which a job leaves its container, mean over time; null
            where it is infinite.
        workers_peak, workers_mean: rented GPUs from request to release, most at once and mean.
        worker_busy_share: share of the time of rented GPUs in which jobs use them.
        reclaimed_workers: workers that the marketplace took back.
        mean_marketplace_usd_per_gpu_h: mean price of marketplace GPUs; null without any.
        makespan_s: from the first submission to the last finish.
        fragmented_share: GPU time free while the first job in line fits by count, but not into
            nodes.
        ftf_below_one_share: jobs done sooner than on a 1/N share of the cluster.
        ftf_mean, ftf_median, ftf_p95, ftf_max: completion time over that on a 1/N share of every
            GPU type, N being the unfinished jobs of each round.
        slowdown_mean: completion time over run time alone on the fastest GPU type.
        starvation_mean_s, starvation_max_s: from submission to the first start.
        switches: starts after the first.
        migrations: starts on another GPU type.
        upward_share: share of the migrations that is to a faster GPU type; null without any.
        lost_gpu_h: GPU-hours held without progress.
        productive_share: GPU time with progress, over that of the cluster until the last finish.
        rounds: scheduling rounds with a job in the system.
        utilization_by_type: GPU type -> share of its GPU time held, while jobs were there.
        solver_gap_max: largest distance of a decision from the bound of the solver.
        rounds_above_gap: rounds in which that distance is more than requested.
        demand: one entry per pool of GPUs.
        hp: jobs with high priority.
        spot: jobs that run on lent GPUs.
        spot_runs: starts of spot jobs.
        evictions: spot runs that were stopped for other jobs.
        eviction_rate: evictions per spot run; null without any.
        guarantee_success_share: spot runs that finished or lasted the hours guaranteed; null
            without any.
        wasted_gpu_h: GPU-hours of work lost, and of start-ups after evictions.
        allocation_rate: share of the GPU time held from the first submission to the last; null
            where all come at once.
        paying_spot_gpu_h: GPU-hours of spot runs that kept their guarantee, within the window.
        spot_usd_per_gpu_h: price of lent GPUs.
        benefit_usd_per_month: what lending earns.
        mean_eta: mean factor of the quota over time; null without a forecast, as the next two.
        eta_at_min_share, eta_at_max_share: share of the time in which that factor is at a limit.
        starving_jobs: spot jobs larger than the quota for over a week.
        groups: time without GPUs by group, user, class or GPU type, where requested (``--by``);
            where GPUs are lent that of high-priority jobs that finished.
    """

    mean_service_s: float | None = None
    mean_jqt_s: float | None = None
    median_jqt_s: float | UnsetType = UNSET
    mean_startup_s: float | UnsetType = UNSET
    p90_jqt_s: float | UnsetType = UNSET
    p95_jqt_s: float | UnsetType = UNSET
    p99_jqt_s: float | UnsetType = UNSET
    mean_queue_s: float | None = None
    mean_preemption_s: float | UnsetType = UNSET
    mean_container_queue_s: float | UnsetType = UNSET
    mean_demotion_s: float | UnsetType = UNSET
    cost_if_serverless_usd: float | UnsetType = UNSET
    cost_serverless_usd: float | UnsetType = UNSET
    cost_marketplace_usd: float | UnsetType = UNSET
    cost_conventional_usd: float | UnsetType = UNSET
    mean_usd_per_gpu_h: float | UnsetType | None = UNSET
    finished_serverless_share: float | UnsetType = UNSET
    preemptions: int | UnsetType = UNSET
    preempted_jobs: int | UnsetType = UNSET
    utilization: float | None = None
    gpu_busy_share: float | UnsetType | None = UNSET
    never_demotable_jobs: int | UnsetType = UNSET
    waiting_mean: float | UnsetType = UNSET
    mean_threshold_s: float | UnsetType = UNSET
    waiting_peak: int | UnsetType = UNSET
    workers_peak: int | UnsetType = UNSET
    workers_mean: float | UnsetType = UNSET
    worker_busy_share: float | UnsetType | None = UNSET
    reclaimed_workers: int | UnsetType = UNSET
    mean_marketplace_usd_per_gpu_h: float | UnsetType | None = UNSET
    makespan_s: float | None = None
    fragmented_share: float | UnsetType | None = UNSET
    ftf_below_one_share: float | UnsetType = UNSET
    ftf_mean: float | UnsetType = UNSET
    ftf_median: float | UnsetType = UNSET
    ftf_p95: float | UnsetType = UNSET
    ftf_max: float | UnsetType = UNSET
    slowdown_mean: float | UnsetType = UNSET
    starvation_mean_s: float | UnsetType = UNSET
    starvation_max_s: float | UnsetType = UNSET
    switches: int | UnsetType = UNSET
    migrations: int | UnsetType = UNSET
    upward_share: float | UnsetType | None = UNSET
    lost_gpu_h: float | UnsetType = UNSET
    productive_share: float | UnsetType | None = UNSET
    rounds: int | UnsetType = UNSET
    utilization_by_type: dict[str, float] | UnsetType = UNSET
    solver_gap_max: float | UnsetType = UNSET
    rounds_above_gap: int | UnsetType = UNSET
    demand: tuple[PoolDemand, ...] | UnsetType = UNSET
    hp: TenantResults | UnsetType = UNSET
    spot: TenantResults | UnsetType = UNSET
    spot_runs: int | UnsetType = UNSET
    evictions: int | UnsetType = UNSET
    eviction_rate: float | UnsetType | None = UNSET
    guarantee_success_share: float | UnsetType | None = UNSET
    wasted_gpu_h: float | UnsetType = UNSET
    allocation_rate: float | UnsetType | None = UNSET
    paying_spot_gpu_h: float | UnsetType = UNSET
    spot_usd_per_gpu_h: float | UnsetType = UNSET
    benefit_usd_per_month: float | UnsetType = UNSET
    mean_eta: float | UnsetType | None = UNSET
    eta_at_min_share: float | UnsetType | None = UNSET
    eta_at_max_share: float | UnsetType | None = UNSET
    starving_jobs: int | UnsetType = UNSET
    groups: tuple[GroupWaits, ...] | UnsetType = UNSET


def policy_results(jobs: TraceJobs, run: Simulation, frame: pl.DataFrame) -> PolicyResults:
    """Return the numbers of a replay: what `common_results` has, and what the policy measured.

    Where both have a number, that of the policy counts. ``frame`` is `Simulation.frame`.
    """
    measured = dict(run.results)
    for kind in ("hp", "spot"):
        if kind in measured:
            measured[kind] = TenantResults(**measured[kind])
    if "demand" in measured:
        measured["demand"] = tuple(PoolDemand(**one) for one in measured["demand"])
    if jobs.by:
        wait_s = frame["jqt_s"].to_numpy()
        if "finished" in frame.columns:
            wait_s = np.where(frame["finished"].to_numpy(), wait_s, np.nan)
        measured["groups"] = group_waits(jobs, wait_s, frame["gpu_s"].to_numpy())
    return results_as(PolicyResults, {**vars(common_results(jobs, run, frame)), **measured})


def results_as(kind: type[P], values: Mapping[str, Any]) -> P:
    """Return results of a type; what an installed policy adds to them comes last."""
    known = {one.name for one in fields(kind)}
    more = [(name, Any) for name in values if name not in known]
    if more:
        kind = make_dataclass(kind.__name__, more, bases=(kind,), frozen=True, kw_only=True)
    return kind(**values)


def common_results(jobs: TraceJobs, run: Simulation, frame: pl.DataFrame) -> CommonResults:
    """Return the numbers that follow from ``frame``, the rows of any policy.

    Cost, utilization and size are those that the policy measured, where it did.
    """
    jct_s, work = frame["jct_s"].to_numpy(), jobs.workload
    finish_us = np.rint(frame["finish_s"].to_numpy() * MICROS)
    used, gpu_h = run.results.get("utilization"), float(frame["gpu_s"].sum() / 3600)
    cost_usd = float(frame["cost_usd"].sum())
    wait_s = jct_s - work.service_us / MICROS
    # The sum over jobs rounds; equal clusters have equal bills.
    billed_usd = run.results.get("cost_usd", cost_usd)
    times: dict[str, Any] = {**distribution(jct_s, "jct", "s")}
    return CommonResults(
        jobs=work.size,
        **times,
        mean_wait_s=float(wait_s.mean()),
        p95_wait_s=float(np.percentile(wait_s, 95)),
        deadline_miss_share=float((finish_us > work.deadline_us).mean()),
        finished_within_10min_share=float((jct_s <= SOON_S).mean()),
        cost_usd=cost_usd,
        gpu_h=gpu_h,
        paid_gpu_h=gpu_h / used if used else None,
        **window_results(run.run, jobs.window_us, billed_usd, run.results.get("gpus")),
    )
