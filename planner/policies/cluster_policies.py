"""The classic schedulers of one cluster, as the registry lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuplan.planner.policies.cluster_settings import SCHEDULERS as KNOWN
from gpuplan.planner.policies.mixed.ranked import on_several_types
from gpuplan.planner.policies.policy import Policy

if TYPE_CHECKING:
    import numpy as np

    from gpuplan.planner.runs.simulation import Simulation
    from gpuplan.planner.runs.trace_jobs import TraceJobs


def _scheduler(name: str) -> Policy:
    known = KNOWN[name]

    def run(jobs: TraceJobs, settings: Mapping[str, Any], _: np.random.Generator) -> Simulation:
        from gpuplan.planner.policies.cluster import simulate

        return simulate(jobs, settings, name)

    return Policy(
        *(name, known.about, known.source, known.settings, run),
        decides_by_deadlines=known.order == "deadline",
    )


POLICIES = tuple(on_several_types(_scheduler(name)) for name in KNOWN)
