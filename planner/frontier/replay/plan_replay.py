"""A plan and its replay on the jobs it was made for: planned and replayed figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from gpuplan.analysis.base.plain import fields_of
from gpuplan.planner.frontier.model.job_classes import ClassWorkload
from gpuplan.planner.frontier.model.paths import time_per_work
from gpuplan.planner.frontier.model.plan import Plan
from gpuplan.planner.frontier.replay.demand import DemandLaw, demand_law
from gpuplan.planner.frontier.replay.renting import RentedCluster
from gpuplan.planner.frontier.replay.replay import PlanReplay, assign_paths, replay_plan
from gpuplan.planner.frontier.replay.results import (
    PlanReplayResults,
    RentedPeriod,
    TypeReplayResults,
)
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.metrics import percentile
from gpuplan.simkit.steps import mean_and_peak
from gpuplan.simkit.time import HOUR_S

BINS = 240  # of the time line
GpuType = TypeVar("GpuType", str, None)


@dataclass(frozen=True, slots=True)
class ReplayedJobs:
    """Jobs of a plan on the rented GPUs of one type, all jobs if there is one type only.

    Attributes:
        replay: the jobs on that cluster.
        law: distribution of the demand for its GPUs in the long run, with Poisson arrivals.
        max_gpus: most GPUs at once; None without a limit.
        above_max_gpus_share: share of the time in which jobs need more, in a replay without the
            limit, as waiting jobs would add to the demand; None without a limit.
        single_rented_gpus: GPUs rented on average with nodes of one GPU.
    """

    replay: PlanReplay
    law: DemandLaw
    max_gpus: int | None
    above_max_gpus_share: float | None
    single_rented_gpus: float

    @property
    def node_rounding_gpus(self) -> float:
        """GPUs rented on average only because nodes are rented as a whole."""
        return self.replay.rented_gpus - self.single_rented_gpus

    @property
    def above_max_gpus_share_law(self) -> float | None:
        """Share of the time in which jobs need more than the limit, by the distribution."""
        return None if self.max_gpus is None else self.law.above(self.max_gpus)

    def results(self) -> TypeReplayResults:
        """Return the numbers as JSON has them."""
        return TypeReplayResults(
            **fields_of(self.replay.results()),
            peak_over_rented=self.replay.peak_over_rented,
            node_rounding_gpus=self.node_rounding_gpus,
            demand_law=self.law.results(),
            above_max_gpus_share_law=self.above_max_gpus_share_law,
            above_max_gpus_share_replayed=self.above_max_gpus_share,
        )


@dataclass(frozen=True, slots=True)
class ReplayedPlan:
    """A plan over one GPU type and its replay.

    Attributes:
        plan: the plan.
        planned_p95_jct_s: P95 of the completion times if GPUs are available immediately.
        jobs: the replay of all jobs.
    """

    plan: Plan
    planned_p95_jct_s: float
    jobs: ReplayedJobs

    @property
    def replay(self) -> PlanReplay:
        """The jobs on the rented cluster."""
        return self.jobs.replay

    @property
    def p95_jct_s(self) -> float:
        """P95 of the completion times in the replay."""
        return percentile(self.replay.jct_s, 95)

    @property
    def planned_gpu_h(self) -> float:
        """GPU-hours of all jobs by the plan."""
        return self.plan.used_gpus * self.replay.horizon_h

    def results(self) -> PlanReplayResults:
        """Return the numbers as JSON has them."""
        return PlanReplayResults(
            planned_mean_jct_s=float(self.plan.mean_jct_s),
            planned_p95_jct_s=self.planned_p95_jct_s,
            planned_gpu_h=self.planned_gpu_h,
            lasts_h=self.replay.lasts_h,
            **fields_of(self.jobs.results()),
        )

    def timeline(self) -> tuple[RentedPeriod, ...]:
        """Return the GPUs rented over time: mean and peak in equal periods."""
        return rented_over_time(self.replay)


def replay_and_measure(workload: ClassWorkload, plan: Plan, cluster: RentedCluster) -> ReplayedPlan:
    """Replay a plan on its own arrivals.

    Raises:
        InfeasibleError, UsageError: see `replay_plan`.
    """
    jobs = measure_replays(
        workload, plan, cluster, lambda cluster: {None: replay_plan(workload, plan, cluster)}
    )
    return ReplayedPlan(plan, percentile(planned_jct_s(workload, plan), 95), jobs[None])


def measure_replays(
    workload: ClassWorkload,
    plan: Plan,
    cluster: RentedCluster,
    replay: Callable[[RentedCluster], Mapping[GpuType, PlanReplay]],
) -> dict[GpuType, ReplayedJobs]:
    """Replay a plan, also without the limit of its cluster and on nodes of one GPU.

    Args:
        workload: the jobs.
        plan: their widths.
        cluster: how the GPUs of each type are rented.
        replay: replays the plan on such clusters; returns the jobs by GPU type.
    """
    found, most = replay(cluster), cluster.max_gpus
    unlimited = found if most is None else replay(replace(cluster, max_gpus=None))
    single = found if cluster.node_gpus == 1 else replay(replace(cluster, node_gpus=1))
    return {
        gpu_type: ReplayedJobs(
            replay=jobs,
            law=demand_law(workload, plan, gpu_type=gpu_type),
            max_gpus=most,
            above_max_gpus_share=None if most is None else unlimited[gpu_type].share_above(most),
            single_rented_gpus=single[gpu_type].rented_gpus,
        )
        for gpu_type, jobs in found.items()
    }


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


def rented_over_time(replay: PlanReplay) -> tuple[RentedPeriod, ...]:
    """Return the mean and the peak of the GPUs rented in each of `BINS` equal parts of a replay."""
    edges = np.linspace(replay.time_s[0], replay.time_s[-1], BINS + 1)
    mean, peak = mean_and_peak(replay.time_s, replay.gpus.astype(np.float64), edges)
    rows = zip(edges[:-1].tolist(), mean.tolist(), peak.tolist(), strict=True)
    return tuple(RentedPeriod(at / HOUR_S, m, p) for at, m, p in rows)
