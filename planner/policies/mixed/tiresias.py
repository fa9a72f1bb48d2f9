"""Tiresias with a queue for each GPU type, which a job joins as it comes and does not leave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuplan.planner.policies.mixed.mixed_policy import Decided, fastest_free, mixed_policy
from gpuplan.planner.policies.mixed.round_state import always
from gpuplan.planner.runs.settings import Setting

if TYPE_CHECKING:
    from gpuplan.planner.policies.mixed.rated_jobs import MixedCluster, RatedJobs
    from gpuplan.planner.policies.mixed.round_state import RoundState
    from gpuplan.simkit.arrays import IntArray

JOIN = ("service", "random")


def prepare(
    jobs: RatedJobs, cluster: MixedCluster, values: Mapping[str, Any], rng: np.random.Generator
) -> Decided:
    """Return the decisions for the jobs of a replay."""
    queue = np.full(jobs.gpus.size, -1, np.int64)
    draws = rng.uniform(size=jobs.gpus.size)

    def choose(state: RoundState) -> IntArray:
        running, rate, width, gpus = state.running, state.rate, state.width, state.gpus
        with np.errstate(divide="ignore"):
            service = (width * state.left)[:, None] / rate  # GPU rounds on each type
        load = np.zeros(gpus.size)
        here = np.flatnonzero(queue[running] >= 0)
        np.add.at(load, queue[running[here]], service[here, queue[running[here]]])
        for j in np.flatnonzero(queue[running] < 0).tolist():
            able = np.flatnonzero((rate[j] > 0) & (width[j] <= gpus))
            if values["join"] == "random":
                kind = int(able[int(draws[running[j]] * able.size)])
            else:
                kind = int(able[np.argmin(load[able] / gpus[able])])
            queue[running[j]] = kind
            load[kind] += service[j, kind]
        on = queue[running]
        order = np.argsort(service[np.arange(running.size), on], kind="stable")
        return fastest_free(order, rate, width, gpus, keeps=on)

    # Work left falls for the jobs that run alone: none that waits gets ahead of them.
    return Decided(choose, lasts=always)


POLICY = mixed_policy(
    "tiresias",
    "several GPU types: a queue for each, least service left first",
    "Gu et al., Tiresias, NSDI 2019, as FFT's evaluation runs it",
    prepare,
    own={
        "join": Setting(
            "choice",
            "queue that a job joins: service (least GPU time left per GPU) or random",
            JOIN,
            default="service",
        ),
    },
)
