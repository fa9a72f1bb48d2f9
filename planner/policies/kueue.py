"""Kueue: queues with quotas that borrow from each other, and take back what they lent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuplan.planner.money.renting_settings import OF_CLUSTER
from gpuplan.planner.policies.policy import Policy
from gpuplan.planner.policies.quota_settings import OF_QUOTA

if TYPE_CHECKING:
    import numpy as np

    from gpuplan.planner.runs.simulation import Simulation
    from gpuplan.planner.runs.trace_jobs import TraceJobs
    from gpuplan.simkit.arrays import IntArray

SETTINGS = {**OF_QUOTA, **OF_CLUSTER}


def _replays() -> Any:
    """Return the replays, whose kernels a list of policies does not need."""
    from gpuplan.planner.policies import quota_replay

    return quota_replay


def simulate(jobs: TraceJobs, typed: Mapping[str, Any], _: np.random.Generator) -> Simulation:
    """Replay jobs under the queues of a site. Nothing is random.

    Raises:
        InputError: the site cannot be used.
        UsageError: no site is given, or a job names none of its queues.
    """
    replay: Simulation = _replays().kueue_replay("kueue", SETTINGS, jobs, typed)
    return replay


def never_starts(jobs: TraceJobs, values: Mapping[str, Any]) -> IntArray:
    """Return the jobs that no quota could hold, by their places. Raises as `simulate`."""
    places: IntArray = _replays().kueue_refusals(jobs, values)
    return places


POLICY = Policy(
    "kueue",
    "the queues, cohorts and quotas of a site of Kueue (--site)",
    "kubernetes-sigs/kueue, v0.20",
    SETTINGS,
    simulate,
    never_starts=never_starts,
)
