"""Every job on the GPUs it held when it was recorded, rented when it comes."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from gpuplan.planner.policies.policy import Baseline
from gpuplan.planner.policies.scaled_jobs import RELEASE, ScaledJobs, scaled_policy

if TYPE_CHECKING:
    from gpuplan.planner.elastic.job_classes import ClassWorkload
    from gpuplan.planner.elastic.renting import RentedCluster
    from gpuplan.planner.elastic.replay import PlanReplay
    from gpuplan.simkit.run import Run


def _run(jobs: ScaledJobs) -> Run:
    from gpuplan.planner.policies.widths.replay import recorded_gpus, run_gpus

    gpus = recorded_gpus(jobs.workload)
    jobs.check_fits(ceil(gpus.max()))
    return run_gpus(jobs.workload, jobs.cluster, gpus)


def _replay(workload: ClassWorkload, cluster: RentedCluster, _: float) -> PlanReplay:
    from gpuplan.planner.policies.widths.replay import recorded_gpus, replay_gpus

    return replay_gpus(workload, cluster, recorded_gpus(workload))


POLICY = scaled_policy(
    "recorded",
    "every job on the GPUs it held when it was recorded",
    "the trace",
    run=_run,
    own=RELEASE,
    is_scaled=False,
    baseline=Baseline("", lambda _: (0.0,), _replay),
)
