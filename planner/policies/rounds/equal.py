"""Equal shares of a fixed cluster, anew every minute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.planner.policies.policy import Baseline
from gpuplan.planner.policies.rounds.sizes import cluster_sizes
from gpuplan.planner.policies.scaled_jobs import ScaledJobs, scaled_policy

if TYPE_CHECKING:
    from gpuplan.planner.frontier.model.job_classes import ClassWorkload
    from gpuplan.planner.frontier.replay.renting import RentedCluster
    from gpuplan.planner.frontier.replay.replay import PlanReplay
    from gpuplan.simkit.run import Run


def _run(jobs: ScaledJobs) -> Run:
    from gpuplan.planner.policies.rounds.replay import play, standing

    return play(jobs.workload, standing("equal", jobs.cluster, jobs.standing_gpus))


def _replay(workload: ClassWorkload, cluster: RentedCluster, gpus: float) -> PlanReplay:
    from gpuplan.planner.policies.rounds.replay import replay_rounds, standing

    return replay_rounds(workload, cluster, standing("equal", cluster, gpus))


POLICY = scaled_policy(
    "equal",
    "a fixed cluster shared equally, anew every minute",
    "Berg et al., SIGMETRICS 2018 (EQUI)",
    run=_run,
    baseline=Baseline("GPUs of the cluster", cluster_sizes, _replay, is_standing=True),
)
