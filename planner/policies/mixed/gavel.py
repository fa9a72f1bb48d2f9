"""Gavel: time fractions on each GPU type from a linear program, rounded to allocations.

The program is solved again where jobs came or ended and `RESOLVE_S` passed. In each round, type
after type, the jobs run that got least of their fraction so far.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuplan.planner.policies.mixed.mixed_policy import Decided, mixed_policy
from gpuplan.planner.runs.settings import Setting

if TYPE_CHECKING:
    import numpy as np

    from gpuplan.planner.policies.mixed.rated_jobs import MixedCluster, RatedJobs

OBJECTIVES = ("max-min", "finish-time", "sjf")
RESOLVE_S = 1920.0


def prepare(
    jobs: RatedJobs, cluster: MixedCluster, values: Mapping[str, Any], _: np.random.Generator
) -> Decided:
    """Return the decisions for the jobs of a replay."""
    from gpuplan.planner.policies.mixed.gavel_rounds import GavelRounds

    return Decided(GavelRounds(values["objective"], values["resolve_s"], jobs, cluster.round_s))


POLICY = mixed_policy(
    "gavel",
    "several GPU types: time fractions by a linear program",
    "Narayanan et al., Gavel, OSDI 2020",
    prepare,
    own={
        "objective": Setting(
            "choice",
            "max-min (fair rates), finish-time (fair completion times) or sjf (shortest first)",
            OBJECTIVES,
            default="max-min",
        ),
        "resolve_s": Setting("duration", "least time between two solutions", default=RESOLVE_S),
    },
)
