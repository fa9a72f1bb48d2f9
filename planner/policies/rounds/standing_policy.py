"""Policies that divide a fixed cluster among the jobs, anew every minute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.planner.policies.policy import Baseline, Policy
from gpuplan.planner.policies.rounds.sizes import cluster_sizes
from gpuplan.planner.policies.scaled_jobs import ScaledJobs, scaled_policy

if TYPE_CHECKING:
    from gpuplan.planner.elastic.job_classes import ClassWorkload
    from gpuplan.planner.elastic.renting import RentedCluster
    from gpuplan.planner.elastic.replay import PlanReplay
    from gpuplan.simkit.run import Run


def standing_policy(name: str, about: str, source: str) -> Policy:
    """Return a policy in rounds on a fixed cluster, which is a baseline of ``pareto`` too.

    Args:
        name: of the policy and of its compiled loop in `gpuplan.simkit.rounds`.
        about: a description in one sentence.
        source: where it comes from.
    """

    def run(jobs: ScaledJobs) -> Run:
        from gpuplan.planner.policies.rounds.replay import play, standing

        return play(jobs.workload, standing(name, jobs.cluster, jobs.standing_gpus))

    def replay(workload: ClassWorkload, cluster: RentedCluster, gpus: float) -> PlanReplay:
        from gpuplan.planner.policies.rounds.replay import replay_rounds, standing

        return replay_rounds(workload, cluster, standing(name, cluster, gpus))

    baseline = Baseline("GPUs of the cluster", cluster_sizes, replay, is_standing=True)
    return scaled_policy(name, about, source, run=run, baseline=baseline)
