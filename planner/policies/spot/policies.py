"""The policies that lend GPUs as spot, as the registry lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuplan.planner.policies.policy import Policy
from gpuplan.planner.policies.spot.settings import ABOUT, defaults_of, settings_of

if TYPE_CHECKING:
    import numpy as np

    from gpuplan.planner.runs.simulation import Simulation
    from gpuplan.planner.runs.trace_jobs import TraceJobs


def _policy(name: str) -> Policy:
    about, source = ABOUT[name]

    def defaults() -> dict[str, Any]:
        return defaults_of(name)

    def run(jobs: TraceJobs, settings: Mapping[str, Any], rng: np.random.Generator) -> Simulation:
        from gpuplan.planner.policies.spot.replay import simulate

        return simulate(jobs, settings, rng, name)

    return Policy(name, about, source, settings_of(name), defaults, run, takes_gpu_types=True)


LENDING = tuple(map(_policy, ABOUT))
