"""A plan and its replay on the jobs it was made for: planned and replayed figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from msgspec import UNSET, UnsetType

from gpuplan.analysis.base.plain import Hidden, fields_of
from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.planner.elastic.job_classes import ClassWorkload
from gpuplan.planner.elastic.paths import time_per_work
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.elastic.replay import PlanReplay, ReplayResults
from gpuplan.planner.frontier.model.exact import Frontier
from gpuplan.planner.frontier.model.plan import Plan
from gpuplan.planner.frontier.replay.demand import DemandLaw, demand_law
from gpuplan.planner.frontier.replay.plans import assign_paths, replay_types
from gpuplan.planner.frontier.replay.search import Candidate
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.metrics import distribution, percentile
from gpuplan.simkit.steps import mean_and_peak, value_at
from gpuplan.simkit.time import HOUR_S

BINS = 240  # of the time line


@dataclass(frozen=True)
class ReplayedJobs(ReplayResults):
    """Jobs of a plan on the rented GPUs of one type, all jobs if there is one type only.

    Attributes:
        peak_over_rented: the peak over the GPUs rented on average; null where the replay far
            outlasts the arrivals.
        node_rounding_gpus: GPUs rented on average only because nodes are rented as a whole.
        demand_law: the demand for GPUs in the long run.
        above_max_gpus_share_law: share of the time in which jobs need more GPUs than the limit, by
            the long-run demand; null without a limit.
        above_max_gpus_share_replayed: the same in a replay without the limit, as waiting jobs would
            add to the demand.
        replay: the jobs on that cluster.
        single_rented_gpus: GPUs rented on average with nodes of one GPU.
    """

    peak_over_rented: float | None
    node_rounding_gpus: float
    demand_law: DemandLaw
    above_max_gpus_share_law: float | None
    above_max_gpus_share_replayed: float | None
    replay: Hidden[PlanReplay]
    single_rented_gpus: Hidden[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class RentedPeriod:
    """What is rented in one part of a replay.

    Attributes:
        time_h: when it begins, after the first submission.
        mean_usd_per_h, peak_usd_per_h: dollars an hour; on several GPU types only.
        mean_gpus, peak_gpus: on average and at most; by GPU type where there are several.
        mean, peak: the same in the unit of the budget.
    """

    time_h: float
    mean_usd_per_h: float | UnsetType = UNSET
    peak_usd_per_h: float | UnsetType = UNSET
    mean_gpus: float | dict[str, float]
    peak_gpus: float | dict[str, float]
    mean: Hidden[float]
    peak: Hidden[float]


@dataclass(frozen=True, kw_only=True)
class ReplayedPlan:
    """The replay of a plan against its budget, on a cluster of each GPU type that jobs run on.

    Attributes:
        planned_mean_jct_s: mean completion time by the plan.
        planned_p95_jct_s: P95 of completion times if GPUs are there at once.
        planned_gpu_h: GPU-hours by the plan.
        jobs: replayed.
        mean_jct_s, median_jct_s, p95_jct_s, p99_jct_s: completion time, from submission to finish.
        mean_jqt_s: time without GPUs.
        rescales_per_job: starts and changes of width of a job, on average.
        held_gpu_h, rented_gpu_h, billed_gpu_h: GPU-hours that jobs hold, that are rented, and that
            are billed.
        held_gpus, rented_gpus, billed_gpus: the same over the hours in which jobs arrive.
        peak_gpus: most GPUs rented at once.
        efficiency: work done per GPU-hour rented: the sum of the speedups of running jobs over the
            GPUs rented.
        lasts_h: from the first submission to the return of the last GPU.
        peak_over_rented: the peak over the GPUs rented on average; null where the replay far
            outlasts the arrivals.
        node_rounding_gpus: GPUs rented on average only because nodes are rented as a whole.
        demand_law: the demand for GPUs in the long run.
        above_max_gpus_share_law: share of the time in which jobs need more GPUs than the limit, by
            the long-run demand; null without a limit.
        above_max_gpus_share_replayed: the same in a replay without the limit.
        rented_usd_per_h: for the GPUs rented, over the hours in which jobs arrive.
        billed_usd_per_h: as billed, over the same hours.
        peak_usd_per_h: for the GPUs rented at once, at most.
        node_rounding_usd_per_h: for GPUs rented only because nodes are rented as a whole.
        spent_over_budget: what is rented over the budget; what is billed, where there is a price.
        types: the replay by GPU type, of types that jobs run on; on several GPU types only.
        inside_budget: the best smaller budget that keeps to this one in the replay; null if the
            plan itself keeps to it, or no budget does.
        inside_budget_usd_per_h: the same in dollars, on several GPU types.
        billed_usd_per_month: the bill of the replay; on one GPU type with a price.
        plan: the plan.
        by_type: the replay of the jobs on each GPU type; under no name on one type.
        prices: dollars per GPU-hour by type; empty on one type.
        jct_s: completion times of all jobs, type by type.
        spent: what is rented, billed where there is a price, in the unit of the budget.
        peak: what is rented at once, at most, in that unit.
    """

    planned_mean_jct_s: float
    planned_p95_jct_s: float
    planned_gpu_h: float | UnsetType = UNSET
    jobs: int | UnsetType = UNSET
    mean_jct_s: float
    median_jct_s: float
    p95_jct_s: float
    p99_jct_s: float
    mean_jqt_s: float | UnsetType = UNSET
    rescales_per_job: float | UnsetType = UNSET
    held_gpu_h: float | UnsetType = UNSET
    rented_gpu_h: float | UnsetType = UNSET
    billed_gpu_h: float | UnsetType = UNSET
    held_gpus: float | UnsetType = UNSET
    rented_gpus: float | UnsetType = UNSET
    billed_gpus: float | UnsetType = UNSET
    peak_gpus: int | UnsetType = UNSET
    efficiency: float | UnsetType = UNSET
    lasts_h: float | UnsetType = UNSET
    peak_over_rented: float | UnsetType | None = UNSET
    node_rounding_gpus: float | UnsetType = UNSET
    demand_law: DemandLaw | UnsetType = UNSET
    above_max_gpus_share_law: float | UnsetType | None = UNSET
    above_max_gpus_share_replayed: float | UnsetType | None = UNSET
    rented_usd_per_h: float | UnsetType = UNSET
    billed_usd_per_h: float | UnsetType = UNSET
    peak_usd_per_h: float | UnsetType = UNSET
    node_rounding_usd_per_h: float | UnsetType = UNSET
    spent_over_budget: float
    types: dict[str, ReplayedJobs] | UnsetType = UNSET
    inside_budget: Candidate | UnsetType | None = UNSET
    inside_budget_usd_per_h: float | UnsetType | None = UNSET
    billed_usd_per_month: float | UnsetType = UNSET
    plan: Hidden[Plan]
    by_type: Hidden[Mapping[str, ReplayedJobs]]
    prices: Hidden[Mapping[str, float]]
    jct_s: Hidden[FloatArray]
    spent: Hidden[float]
    peak: Hidden[float]

    @property
    def on_one_type(self) -> ReplayedJobs:
        """The replay of all jobs, where there is one GPU type."""
        (jobs,) = self.by_type.values()
        return jobs

    @property
    def replay(self) -> PlanReplay:
        """The jobs on the rented cluster, where there is one GPU type."""
        return self.on_one_type.replay

    @property
    def run_h(self) -> float:
        """Hours from the first submission to the return of the last GPU."""
        replays = [jobs.replay for jobs in self.by_type.values()]
        first_s = min(float(replay.arrivals.submit_s.min()) for replay in replays)
        return (max(float(replay.time_s[-1]) for replay in replays) - first_s) / HOUR_S

    def timeline(self) -> tuple[RentedPeriod, ...]:
        """Return what is rented over time: mean and peak in each of `BINS` equal parts."""
        replays = {name: jobs.replay for name, jobs in self.by_type.items()}
        return rented_over_time(replays, self.prices)


def rented_over_time(
    replays: Mapping[str, PlanReplay], prices: Mapping[str, float] | None = None
) -> tuple[RentedPeriod, ...]:
    """Return the mean and the peak rented in each of `BINS` equal parts, in GPUs and dollars.

    Args:
        replays: by GPU type.
        prices: dollars per GPU-hour by type, where there are several.
    """
    time_s, spent = _spent_over_time(replays, prices or {})
    edges = np.linspace(time_s[0], time_s[-1], BINS + 1)
    mean, peak = mean_and_peak(time_s, spent, edges)
    by_type = {
        name: mean_and_peak(replay.time_s, replay.gpus.astype(np.float64), edges)
        for name, replay in replays.items()
    }
    periods = []
    for i, (at_s, mean_then, peak_then) in enumerate(
        zip(edges[:-1].tolist(), mean.tolist(), peak.tolist(), strict=True)
    ):
        gpus = [{t: float(ends[k][i]) for t, ends in by_type.items()} for k in (0, 1)]
        periods.append(
            RentedPeriod(
                time_h=at_s / HOUR_S,
                mean_usd_per_h=mean_then if prices else UNSET,
                peak_usd_per_h=peak_then if prices else UNSET,
                mean_gpus=gpus[0] if prices else mean_then,
                peak_gpus=gpus[1] if prices else peak_then,
                mean=mean_then,
                peak=peak_then,
            )
        )
    return tuple(periods)


def _spent_over_time(
    replays: Mapping[str, PlanReplay], prices: Mapping[str, float]
) -> tuple[FloatArray, FloatArray]:
    """Return the times at which the GPUs rented change, and what they take of a budget then."""
    if not prices:
        (replay,) = replays.values()
        return replay.time_s, replay.gpus.astype(np.float64)
    time_s = np.unique(np.concatenate([replay.time_s for replay in replays.values()]))
    spent = np.zeros(time_s.size)
    for gpu_type, replay in replays.items():
        spent += prices[gpu_type] * value_at(replay.time_s, replay.gpus, time_s)
    return time_s, spent


def replay_and_measure(
    workload: ClassWorkload,
    frontier: Frontier,
    plan: Plan,
    cluster: RentedCluster,
    unit_usd: float | None = None,
) -> ReplayedPlan:
    """Replay a plan on its own arrivals, on a cluster of each GPU type.

    Args:
        workload: the jobs.
        frontier: what the plan is of.
        plan: the widths.
        cluster: how the GPUs of each type are rented.
        unit_usd: dollars an hour for a unit of the budget; None without a price.

    Raises:
        InfeasibleError, UsageError: see `replay_types`.
    """
    by_type = _measured(workload, frontier, plan, cluster)
    replays = {name: jobs.replay for name, jobs in by_type.items()}
    rented = frontier.spent({name: replay.rented_gpus for name, replay in replays.items()})
    billed = frontier.spent({name: replay.billed_gpus for name, replay in replays.items()})
    spent = rented if unit_usd is None else billed
    peak = float(_spent_over_time(replays, frontier.prices)[1].max())
    jct_s = np.concatenate([replay.jct_s for replay in replays.values()])
    common: dict[str, Any] = {
        "planned_mean_jct_s": float(plan.mean_jct_s),
        "planned_p95_jct_s": percentile(planned_jct_s(workload, plan), 95),
        "spent_over_budget": spent / plan.budget,
        **distribution(jct_s, "jct", "s", (50, 95, 99)),
    }
    hidden: dict[str, Any] = {
        "plan": plan,
        "by_type": by_type,
        "prices": frontier.prices,
        "jct_s": jct_s,
        "spent": spent,
        "peak": peak,
    }
    if frontier.prices:
        rounding = {name: jobs.node_rounding_gpus for name, jobs in by_type.items()}
        return ReplayedPlan(
            **common,
            **hidden,
            rented_usd_per_h=rented,
            billed_usd_per_h=billed,
            peak_usd_per_h=peak,
            node_rounding_usd_per_h=frontier.spent(rounding),
            types=by_type,
            inside_budget_usd_per_h=None,
        )
    (jobs,) = by_type.values()
    return ReplayedPlan(
        **{**fields_of(jobs), **common},
        **hidden,
        planned_gpu_h=plan.used * jobs.replay.horizon_h,
        lasts_h=jobs.replay.lasts_h,
        inside_budget=None,
        billed_usd_per_month=UNSET if unit_usd is None else billed * unit_usd * MONTH_H,
    )


def _measured(
    workload: ClassWorkload, frontier: Frontier, plan: Plan, cluster: RentedCluster
) -> dict[str, ReplayedJobs]:
    """Replay a plan, also without the limit of its cluster and on nodes of one GPU."""
    types, most = tuple(frontier.prices) or ("",), cluster.max_gpus

    def replay(rented: RentedCluster) -> dict[str, PlanReplay]:
        return replay_types(workload, plan, dict.fromkeys(types, rented))

    replays = replay(cluster)
    unlimited = replays if most is None else replay(replace(cluster, max_gpus=None))
    single = replays if cluster.node_gpus == 1 else replay(replace(cluster, node_gpus=1))
    by_type = {}
    for gpu_type, jobs in replays.items():
        law = demand_law(workload, plan, gpu_type=gpu_type or None)
        single_gpus = single[gpu_type].rented_gpus
        by_type[gpu_type] = ReplayedJobs(
            **fields_of(jobs.results()),
            peak_over_rented=jobs.peak_over_rented,
            node_rounding_gpus=jobs.rented_gpus - single_gpus,
            demand_law=law,
            above_max_gpus_share_law=None if most is None else law.above(most),
            above_max_gpus_share_replayed=(
                None if most is None else unlimited[gpu_type].share_above(most)
            ),
            replay=jobs,
            single_rented_gpus=single_gpus,
        )
    return by_type


def planned_jct_s(workload: ClassWorkload, plan: Plan) -> FloatArray:
    """Return the completion time of each job by a plan if its GPUs are available immediately."""
    paths, path_of = assign_paths(workload, plan)
    assert workload.arrivals is not None  # `assign_paths` saw to it
    per_work, starts_h = [], []
    for path in paths:
        job_class, gpus = workload.classes[path.job_class], path.gpus
        per_work.append(time_per_work(job_class, gpus, path.gpu_type).diagonal().sum())
        changes = 1 + np.count_nonzero(np.diff(gpus))
        starts_h.append(job_class.rescale_h * changes)
    hours = workload.arrivals.work_h * np.array(per_work)[path_of] + np.array(starts_h)[path_of]
    result: FloatArray = HOUR_S * hours
    return result
