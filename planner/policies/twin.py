"""The twin of a Slurm site: its partitions, priorities, limits and backfill."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuplan.planner.money.renting_settings import OF_CLUSTER
from gpuplan.planner.policies.policy import Policy
from gpuplan.planner.policies.quota_settings import SITE
from gpuplan.planner.runs.settings import Setting

if TYPE_CHECKING:
    import numpy as np

    from gpuplan.planner.runs.simulation import Simulation
    from gpuplan.planner.runs.trace_jobs import TraceJobs
    from gpuplan.simkit.arrays import IntArray

SETTINGS = {
    SITE: Setting(
        "text",
        "the site's rules (--site): the twin.toml that gpuplan calibrate writes",
        unlimited=True,
    ),
    **OF_CLUSTER,
}


def _replays() -> Any:
    """Return the replays, whose kernels a list of policies does not need."""
    from gpuplan.planner.policies import twin_replay

    return twin_replay


def simulate(jobs: TraceJobs, typed: Mapping[str, Any], _: np.random.Generator) -> Simulation:
    """Replay jobs under the rules of a Slurm site. Nothing is random.

    Raises:
        InputError: the settings of the site cannot be used.
        UsageError: none are given, or a job names a partition that they lack.
    """
    replay: Simulation = _replays().twin_replay("twin", SETTINGS, jobs, typed)
    return replay


def never_starts(jobs: TraceJobs, values: Mapping[str, Any]) -> IntArray:
    """Return the jobs that the site refuses, by their places. Raises as `simulate`."""
    places: IntArray = _replays().refused_jobs("twin", jobs, values)
    return places


POLICY = Policy(
    "twin",
    "the rules of a Slurm site: partitions, priorities, limits, backfill (--site)",
    "Slurm's public documentation, slurm.schedmd.com",
    SETTINGS,
    simulate,
    never_starts=never_starts,
)
