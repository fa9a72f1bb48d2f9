"""Allpass and the policies made of it, as the registry lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuplan.planner.policies.allpass_settings import SETTINGS, default_settings
from gpuplan.planner.policies.allpass_variants import VARIANTS as KNOWN
from gpuplan.planner.policies.allpass_variants import simulate
from gpuplan.planner.policies.policy import Policy

if TYPE_CHECKING:
    import numpy as np

    from gpuplan.planner.runs.simulation import Simulation
    from gpuplan.planner.runs.trace_jobs import TraceJobs


def _allpass(jobs: TraceJobs, settings: Mapping[str, Any], rng: np.random.Generator) -> Simulation:
    from gpuplan.planner.policies.allpass import simulate

    return simulate(jobs, settings, rng)


def _variant(name: str) -> Policy:
    known = KNOWN[name]

    def run(jobs: TraceJobs, settings: Mapping[str, Any], rng: np.random.Generator) -> Simulation:
        return simulate(jobs, settings, rng, name)

    return Policy(
        *(name, known.about, known.source, known.settings, known.defaults, run),
        decides_by_deadlines=name in ("fixed-threshold", "serverful-only"),
    )


ALLPASS = Policy(
    "allpass",
    "starts every job on serverless GPUs and moves long ones to rented workers",
    "Allpass, Algorithms 1 and 2; docs/allpass.md",
    SETTINGS,
    default_settings,
    _allpass,
    decides_by_deadlines=True,
)
VARIANTS = tuple(map(_variant, KNOWN))
