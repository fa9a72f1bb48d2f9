"""Pollux on a fixed cluster, or on one that grows and shrinks towards a target efficiency."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.planner.policies.policy import Baseline
from gpuplan.planner.policies.rounds.decided import standing_policy
from gpuplan.planner.policies.scaled_jobs import ScaledJobs, scaled_policy
from gpuplan.planner.runs.settings import Setting

if TYPE_CHECKING:
    from gpuplan.planner.elastic.job_classes import ClassWorkload
    from gpuplan.planner.elastic.renting import RentedCluster
    from gpuplan.planner.elastic.replay import PlanReplay
    from gpuplan.simkit.run import Run

TARGETS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)


def _run(jobs: ScaledJobs) -> Run:
    from gpuplan.planner.policies.rounds.replay import autoscaling, play

    target = jobs.values["target_efficiency"]
    return play(jobs.workload, autoscaling(jobs.cluster, target))


def _replay(workload: ClassWorkload, cluster: RentedCluster, target: float) -> PlanReplay:
    from gpuplan.planner.policies.rounds.replay import autoscaling, replay_rounds

    return replay_rounds(workload, cluster, autoscaling(cluster, target))


POLICIES = (
    standing_policy(
        "pollux",
        "Pollux on a fixed cluster: the best allocation for its fitness every minute",
        "Qiao et al., OSDI 2021",
    ),
    scaled_policy(
        "pollux-autoscaling",
        "Pollux on a cluster that grows and shrinks towards a target efficiency",
        "Qiao et al., OSDI 2021; BOA, section 6.1",
        run=_run,
        own={
            "target_efficiency": Setting(
                "number",
                "sum of speedups over GPUs that the size of the cluster aims at",
                above=0.0,
                default=0.5,
            )
        },
        baseline=Baseline(
            "target efficiency (sum of speedups over GPUs)", lambda _: TARGETS, _replay
        ),
    ),
)
