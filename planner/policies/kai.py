"""KAI: queues that deserve GPUs, share what is left by weight, and reclaim it from each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuplan.planner.money.renting_settings import OF_CLUSTER
from gpuplan.planner.policies.policy import Policy
from gpuplan.planner.policies.quota_settings import OF_QUOTA
from gpuplan.planner.runs.settings import Setting

if TYPE_CHECKING:
    import numpy as np

    from gpuplan.planner.runs.simulation import Simulation
    from gpuplan.planner.runs.trace_jobs import TraceJobs
    from gpuplan.simkit.arrays import IntArray

OF_KAI: dict[str, Setting] = {
    "node_size": Setting(
        "count",
        "GPUs of a node of a site that tells no nodes",
        default=8,
        at_least=1,
        at_most=1024,
    ),
    "unpreemptible_priority": Setting(
        "count",
        "jobs of this priority or a higher one are never evicted, and stay within what their queue "
        "deserves",
        default=100,
    ),
    "usage_weight": Setting(
        "number",
        "how much past use lowers the share of a queue (time-based fair share); 0: not at all",
        default=0.0,
        at_most=1000,
    ),
    "half_life_s": Setting(
        "duration", "after this time past use counts half; 0: it does not decay", default=600.0
    ),
}
SETTINGS = {
    **{name: setting for name, setting in OF_QUOTA.items() if name != "flavor"},
    **OF_KAI,
    **OF_CLUSTER,
}


def _replays() -> Any:
    """Return the replays, whose kernels a list of policies does not need."""
    from gpuplan.planner.policies import quota_replay

    return quota_replay


def simulate(jobs: TraceJobs, typed: Mapping[str, Any], _: np.random.Generator) -> Simulation:
    """Replay jobs under the queues of a site as KAI does. Nothing is random.

    Raises:
        InputError: the site cannot be used.
        UsageError: no site is given, or a job names none of its queues.
    """
    replay: Simulation = _replays().kai_replay("kai", SETTINGS, jobs, typed)
    return replay


def never_starts(jobs: TraceJobs, values: Mapping[str, Any]) -> IntArray:
    """Return the jobs that no quota could hold, by their places. Raises as `simulate`."""
    places: IntArray = _replays().kai_refusals(jobs, values)
    return places


POLICY = Policy(
    "kai",
    "the queues of a site of KAI, over-quota shares by weight (--site)",
    "kai-scheduler/KAI-Scheduler, 2026",
    SETTINGS,
    simulate,
    never_starts=never_starts,
)
