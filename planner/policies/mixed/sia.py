"""Sia: an integer program of normalized rates in each round, with a factor for restarts.

For gangs of fixed size a job's goodput on a type is its rate over its least. A job that runs
counts (its rate, less what a restart takes) ** power, one that waits the penalty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuplan.planner.policies.mixed.mixed_policy import Decided, mixed_policy
from gpuplan.planner.policies.mixed.round_state import never, where_all_run_fastest
from gpuplan.planner.runs.settings import Setting

if TYPE_CHECKING:
    from gpuplan.planner.policies.mixed.rated_jobs import MixedCluster, RatedJobs
    from gpuplan.planner.policies.mixed.round_state import RoundState
    from gpuplan.simkit.arrays import IntArray

LEAST_FACTOR = 0.01
LEAST_POWER, MOST_PENALTY = -100.0, 1e6
"""Beyond them costs leave the range of floating-point numbers."""


def prepare(
    jobs: RatedJobs, cluster: MixedCluster, values: Mapping[str, Any], _: np.random.Generator
) -> Decided:
    """Return the decisions for the jobs of a replay."""
    from gpuplan.planner.policies.mixed.round_program import assign_types

    power, penalty = values["power"], values["waiting_penalty"]
    restart = (jobs.state_gb * 8 / cluster.gbps + cluster.restart_s) / cluster.round_s
    unproven = 0

    def choose(state: RoundState) -> IntArray:
        nonlocal unproven
        rate = state.rate
        able = rate > 0
        least = np.where(able, rate, np.inf).min(axis=1)
        takes, age = restart[state.running], np.maximum(state.age, 1)
        factor = np.maximum((age - state.starts * takes) / (age + takes), LEAST_FACTOR)
        stays = np.arange(rate.shape[1]) == state.now_on[:, None]
        new = (state.starts == 0)[:, None]
        factors = np.where(stays | new, 1.0, factor[:, None])
        with np.errstate(divide="ignore"):
            cost = np.where(able, (factors * rate / least[:, None]) ** power - penalty, np.inf)
        kind, proven = assign_types(cost, state.width, state.gpus)
        unproven += not proven
        return kind

    def warnings() -> tuple[str, ...]:
        if not unproven:
            return ()
        return (f"{unproven:,} rounds take the best allocation found, without proof",)

    lasts = where_all_run_fastest if power < 0 else never
    return Decided(choose, warnings=warnings, lasts=lasts)


POLICY = mixed_policy(
    "sia",
    "several GPU types: best sum of scaled rates each round (gangs of fixed size)",
    "Jayaram Subramanya et al., Sia, SOSP 2023",
    prepare,
    own={
        "power": Setting(
            "number",
            "exponent of normalized rates, below 0",
            at_least=LEAST_POWER,
            at_most=0,
            default=-0.5,
        ),
        "waiting_penalty": Setting(
            "number",
            "cost of a job that waits; above 1",
            above=1.0,
            at_most=MOST_PENALTY,
            default=1.1,
        ),
    },
)
