"""Every job on the same number of GPUs, rented when it comes. Source: BOA, section 6.1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.planner.policies.policy import Baseline
from gpuplan.planner.policies.scaled_jobs import RELEASE, ScaledJobs, scaled_policy
from gpuplan.planner.runs.settings import Setting

if TYPE_CHECKING:
    from gpuplan.planner.elastic.job_classes import ClassWorkload
    from gpuplan.planner.elastic.renting import RentedCluster
    from gpuplan.planner.elastic.replay import PlanReplay
    from gpuplan.simkit.run import Run

WIDTHS = (1.0, 2.0, 4.0, 8.0)


def widths(workload: ClassWorkload) -> tuple[float, ...]:
    """Return the widths 1, 2, 4 and 8 as far as some class may have so many."""
    widest = max(float(c.widths.max()) for c in workload.classes)
    return tuple(width for width in WIDTHS if width <= widest) or (widest,)


def _run(jobs: ScaledJobs) -> Run:
    from gpuplan.planner.policies.widths.replay import nearest_gpus, run_gpus

    width = jobs.values["width"]
    return run_gpus(jobs.workload, jobs.cluster, nearest_gpus(jobs.workload, width))


def _replay(workload: ClassWorkload, cluster: RentedCluster, gpus: float) -> PlanReplay:
    from gpuplan.planner.policies.widths.replay import nearest_gpus, replay_gpus

    return replay_gpus(workload, cluster, nearest_gpus(workload, gpus))


POLICY = scaled_policy(
    "fixed-width",
    "every job on the same number of GPUs, or the nearest its class may have",
    "BOA, section 6.1",
    run=_run,
    own={"width": Setting("count", "GPUs of every job", at_least=1, default=1), **RELEASE},
    baseline=Baseline("GPUs per job", widths, _replay),
)
