"""Least attained service on several GPU types, where a job keeps its type while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuplan.planner.policies.mixed.mixed_policy import Decided, fastest_free, mixed_policy
from gpuplan.planner.policies.mixed.round_state import rounds_below
from gpuplan.planner.runs.settings import Setting

if TYPE_CHECKING:
    from gpuplan.planner.policies.mixed.rated_jobs import MixedCluster, RatedJobs
    from gpuplan.planner.policies.mixed.round_state import RoundState
    from gpuplan.simkit.arrays import IntArray


def prepare(
    jobs: RatedJobs, cluster: MixedCluster, values: Mapping[str, Any], _: np.random.Generator
) -> Decided:
    """Return the decisions for the jobs of a replay."""
    limits = np.array(values["limits_gpu_s"], np.float64) / cluster.round_s

    def choose(state: RoundState) -> IntArray:
        queue = np.searchsorted(limits, state.ran * state.width, side="right")
        order = np.argsort(queue, kind="stable")
        return fastest_free(order, state.rate, state.width, state.gpus, keeps=state.now_on)

    def until_next_limit(state: RoundState, kind: IntArray) -> int:
        """Say that a choice lasts until a job that runs has held the next of its limits."""
        held = (state.ran * state.width)[kind >= 0]
        return rounds_below(limits, held, state.width[kind >= 0])

    return Decided(choose, lasts=until_next_limit)


POLICY = mixed_policy(
    "pal",
    "several GPU types: least GPU time first, type kept while running",
    "after Jain et al., PAL, SC 2024; its order as FFT's evaluation runs it, assumed",
    prepare,
    own={
        "limits_gpu_s": Setting(
            "numbers", "GPU-s at which a job falls one queue", above=0.0, default=(3250.0,)
        ),
    },
)
