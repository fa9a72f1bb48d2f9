"""Policies that share a fixed cluster anew every minute: by a compiled loop, or in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import TYPE_CHECKING, Any

from gpuplan.planner.policies.policy import Baseline, Policy
from gpuplan.planner.policies.scaled_jobs import ScaledJobs, scaled_policy
from gpuplan.planner.runs.settings import Setting, defaults_of

if TYPE_CHECKING:
    from gpuplan.planner.elastic.job_classes import ClassWorkload
    from gpuplan.planner.elastic.renting import RentedCluster
    from gpuplan.planner.elastic.replay import PlanReplay
    from gpuplan.simkit.rounds.decisions import Allocation, RoundView
    from gpuplan.simkit.run import Run

DecideWith = Callable[["RoundView", Mapping[str, Any]], "Allocation"]
"""Returns the GPUs of each job of a round, given the values of the settings."""
LOADS = (1.1, 1.25, 1.5, 2.0, 3.0, 4.0)


def cluster_sizes(workload: ClassWorkload) -> tuple[float, ...]:
    """Return clusters of 1.1 to 4 times the load, wide enough for every class."""
    load = sum(c.load_gpus for c in workload.classes)
    least = max(ceil(c.widths.min()) for c in workload.classes)
    return tuple(sorted({float(max(least, round(load * multiple))) for multiple in LOADS}))


def standing_policy(name: str, about: str, source: str) -> Policy:
    """Return a policy in rounds on a fixed cluster, which is a baseline of ``pareto`` too.

    It has the name of its compiled loop in `gpuplan.simkit.rounds`.
    """

    def run(jobs: ScaledJobs) -> Run:
        from gpuplan.planner.policies.rounds.replay import play, standing

        return play(jobs.workload, standing(name, jobs.cluster, jobs.standing_gpus))

    def replay(workload: ClassWorkload, cluster: RentedCluster, gpus: float) -> PlanReplay:
        from gpuplan.planner.policies.rounds.replay import replay_rounds, standing

        return replay_rounds(workload, cluster, standing(name, cluster, gpus))

    baseline = Baseline("GPUs of the cluster", cluster_sizes, replay, is_standing=True)
    return scaled_policy(name, about, source, run=run, baseline=baseline)


def decided_policy(
    name: str,
    about: str,
    source: str,
    decide: DecideWith,
    *,
    own: Mapping[str, Setting] | None = None,
) -> Policy:
    """Return a policy for a cluster of fixed size that ``decide`` shares anew every minute.

    It may give a job any width its class has; see `gpuplan.simkit.rounds.decisions`.
    ``gpuplan simulate``, ``compare`` and ``pareto --baseline`` can run it, the last with the usual
    settings.
    """

    def run(jobs: ScaledJobs) -> Run:
        from gpuplan.planner.policies.rounds.replay import play_decisions

        values = jobs.values
        return play_decisions(jobs.workload, jobs.standing_gpus, lambda view: decide(view, values))

    def replay(workload: ClassWorkload, cluster: RentedCluster, gpus: float) -> PlanReplay:
        from gpuplan.planner.policies.rounds.replay import replay_decisions

        values = defaults_of(own or {})
        return replay_decisions(workload, cluster, gpus, lambda view: decide(view, values))

    baseline = Baseline("GPUs of the cluster", cluster_sizes, replay, is_standing=True)
    return scaled_policy(name, about, source, run=run, baseline=baseline, own=own)
