"""A plan and its replay on the jobs it was made for: planned and replayed figures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuplan.planner.frontier.model.job_classes import ClassWorkload
from gpuplan.planner.frontier.model.paths import time_per_work
from gpuplan.planner.frontier.model.plan import Plan
from gpuplan.planner.frontier.replay.demand import DemandLaw, demand_law
from gpuplan.planner.frontier.replay.renting import RentedCluster
from gpuplan.planner.frontier.replay.replay import PlanReplay, assign_paths, replay_plan
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.metrics import percentile
from gpuplan.simkit.steps import mean_and_peak
from gpuplan.simkit.time import HOUR_S

BINS = 240  # of the time line


@dataclass(frozen=True, slots=True)
class ReplayedPlan:
    """A plan and its replay.

    Attributes:
        plan: the plan.
        cluster: how GPUs were rented.
        replay: the jobs on that cluster.
        planned_p95_jct_s: P95 of the completion times if GPUs are available immediately.
        law: distribution of the demand for GPUs in the long run, with Poisson arrivals.
        above_max_gpus_share: share of the time in which jobs need more than
            `RentedCluster.max_gpus`, in a replay without that limit, as waiting jobs would add to
            the demand; None without a limit.
        single_rented_gpus: GPUs rented on average with nodes of one GPU.
    """

    plan: Plan
    cluster: RentedCluster
    replay: PlanReplay
    planned_p95_jct_s: float
    law: DemandLaw
    above_max_gpus_share: float | None
    single_rented_gpus: float

    @property
    def p95_jct_s(self) -> float:
        """P95 of the completion times in the replay."""
        return percentile(self.replay.jct_s, 95)

    @property
    def planned_gpu_h(self) -> float:
        """GPU-hours of all jobs by the plan."""
        return self.plan.used_gpus * self.replay.horizon_h

    @property
    def node_rounding_gpus(self) -> float:
        """GPUs rented on average only because nodes are rented as a whole."""
        return self.replay.rented_gpus - self.single_rented_gpus

    def summary(self) -> dict[str, Any]:
        """Return the numbers by name; keys are stable and carry their unit."""
        cap = self.cluster.max_gpus
        return {
            "planned_mean_jct_s": float(self.plan.mean_jct_s),
            "planned_p95_jct_s": self.planned_p95_jct_s,
            "planned_gpu_h": self.planned_gpu_h,
            **self.replay.summary(),
            "lasts_h": self.replay.lasts_h,
            "peak_over_rented": self.replay.peak_over_rented,
            "node_rounding_gpus": self.node_rounding_gpus,
            "demand_law": self.law.summary(),
            "above_max_gpus_share_law": None if cap is None else self.law.above(cap),
            "above_max_gpus_share_replayed": self.above_max_gpus_share,
        }

    def timeline(self) -> list[dict[str, float]]:
        """Return the GPUs rented over time: mean and peak in equal periods."""
        return rented_over_time(self.replay)


def replay_and_measure(workload: ClassWorkload, plan: Plan, cluster: RentedCluster) -> ReplayedPlan:
    """Replay a plan on its own arrivals.

    Raises:
        InfeasibleError, UsageError: see `replay_plan`.
    """
    replay = replay_plan(workload, plan, cluster)
    above, single_rented_gpus = None, replay.rented_gpus
    if cluster.max_gpus is not None:
        unlimited = replay_plan(workload, plan, replace(cluster, max_gpus=None))
        above = unlimited.share_above(cluster.max_gpus)
    if cluster.node_gpus > 1:
        single_rented_gpus = replay_plan(workload, plan, replace(cluster, node_gpus=1)).rented_gpus
    return ReplayedPlan(
        plan=plan,
        cluster=cluster,
        replay=replay,
        planned_p95_jct_s=percentile(planned_jct_s(workload, plan), 95),
        law=demand_law(workload, plan),
        above_max_gpus_share=above,
        single_rented_gpus=single_rented_gpus,
    )


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


def rented_over_time(replay: PlanReplay) -> list[dict[str, float]]:
    """Return the mean and the peak of the GPUs rented in each of `BINS` equal parts of a replay."""
    edges = np.linspace(replay.time_s[0], replay.time_s[-1], BINS + 1)
    mean, peak = mean_and_peak(replay.time_s, replay.gpus.astype(np.float64), edges)
    rows = zip(edges[:-1].tolist(), mean.tolist(), peak.tolist(), strict=True)
    return [{"time_h": at / HOUR_S, "mean_gpus": m, "peak_gpus": p} for at, m, p in rows]
