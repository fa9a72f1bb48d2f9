"""The policies a trace can be replayed under, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuplan.analysis.lookup import find_named
from gpuplan.planner.policies.allpass_settings import SETTINGS as ALLPASS_SETTINGS
from gpuplan.planner.policies.allpass_settings import default_settings as allpass_defaults
from gpuplan.planner.policies.allpass_variants import ELASTIC
from gpuplan.planner.policies.allpass_variants import simulate as simulate_elastic
from gpuplan.planner.policies.cluster_settings import SCHEDULERS
from gpuplan.planner.runs.settings import Setting
from gpuplan.planner.runs.simulation import Simulation
from gpuplan.planner.runs.trace_jobs import TraceJobs


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy.

    Attributes:
        about: what it does, one sentence.
        source: where it comes from.
        settings: what may be set, by name.
        defaults: returns the value of each setting where it is not set, by the same names.
        run: replays jobs under settings, with a generator for what is random.
        takes_gpu_types: whether its cluster may have several GPU types.
    """

    about: str
    source: str
    settings: Mapping[str, Setting]
    defaults: Callable[[], Mapping[str, Any]]
    run: Callable[[TraceJobs, Mapping[str, Any], np.random.Generator], Simulation]
    takes_gpu_types: bool = False


def _allpass(jobs: TraceJobs, settings: Mapping[str, Any], rng: np.random.Generator) -> Simulation:
    from gpuplan.planner.policies.allpass import simulate

    return simulate(jobs, settings, rng)


def _on_cluster(name: str) -> Policy:
    def run(jobs: TraceJobs, settings: Mapping[str, Any], _: np.random.Generator) -> Simulation:
        from gpuplan.planner.policies.cluster import simulate

        return simulate(jobs, settings, name)

    known = SCHEDULERS[name]
    return Policy(known.about, known.source, known.settings, known.defaults, run)


def _elastic(name: str) -> Policy:
    known = ELASTIC[name]

    def run(jobs: TraceJobs, settings: Mapping[str, Any], rng: np.random.Generator) -> Simulation:
        return simulate_elastic(jobs, settings, rng, name)

    return Policy(known.about, known.source, known.settings, known.defaults, run)


POLICIES: dict[str, Policy] = {
    "allpass": Policy(
        "starts every job on serverless GPUs and moves long ones to rented workers",
        "Allpass, Algorithms 1 and 2; docs/allpass.md",
        ALLPASS_SETTINGS,
        allpass_defaults,
        _allpass,
    ),
    **{name: _elastic(name) for name in ELASTIC},
    **{name: _on_cluster(name) for name in SCHEDULERS},
}


def find_policy(name: str) -> Policy:
    """Return a policy by name. Raises `UsageError` naming what exists."""
    return find_named(name, POLICIES, "--policy")
