"""The policies that lend GPUs as spot, as the registry lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuplan.planner.policies.policy import Policy
from gpuplan.planner.policies.spot.settings import ABOUT, settings_of

if TYPE_CHECKING:
    import numpy as np

    from gpuplan.planner.runs.simulation import Simulation
    from gpuplan.planner.runs.trace_jobs import TraceJobs


LISTED_WITH = {name: "gfs" for name in ABOUT if name.startswith("gfs-")} | {
    name: "yarn-cs" for name in ABOUT if not name.startswith(("gfs", "yarn-cs"))
}
"""Ablations of GFS, and its baselines."""


def _policy(name: str) -> Policy:
    about, source = ABOUT[name]

    def run(jobs: TraceJobs, settings: Mapping[str, Any], rng: np.random.Generator) -> Simulation:
        from gpuplan.planner.policies.spot.replay import simulate

        return simulate(jobs, settings, rng, name)

    return Policy(
        name,
        about,
        source,
        settings_of(name),
        run,
        takes_gpu_types=True,
        listed_with=LISTED_WITH.get(name, ""),
    )


POLICIES = tuple(map(_policy, ABOUT))
