"""The classic schedulers, as the registry lists them; some run on several GPU types too.

There the best jobs run on the fastest free type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuplan.planner.policies.cluster_replay import replay_settings
from gpuplan.planner.policies.cluster_settings import SCHEDULERS
from gpuplan.planner.policies.mixed.mixed_policy import ROUNDS, Decided, fastest_free, simulate
from gpuplan.planner.policies.mixed.round_state import always, rounds_below, where_all_run_fastest
from gpuplan.planner.policies.policy import Policy

if TYPE_CHECKING:
    from gpuplan.planner.policies.mixed.rated_jobs import MixedCluster, RatedJobs
    from gpuplan.planner.policies.mixed.round_state import RoundState
    from gpuplan.planner.runs.simulation import Simulation
    from gpuplan.planner.runs.trace_jobs import TraceJobs
    from gpuplan.simkit.arrays import FloatArray, IntArray

ORDERS = ("fifo", "srtf", "las")
MOVES = ("checkpoint_s", "restore_s")
"""What a stop takes on one GPU type; on several it is what a move takes."""


def prepare(
    name: str,
    jobs: RatedJobs,
    cluster: MixedCluster,
    values: Mapping[str, Any],
    _: np.random.Generator,
) -> Decided:
    """Make one of `ORDERS`: ``srtf`` by the time left on the fastest type, ``las`` by run time.

    Where it may stop jobs, all jobs get types anew in each round; otherwise those that run stay.
    """
    preemptive, skipping = values["preemptive"], values["skipping"]
    limits = np.array(values.get("limits_s", ()), np.float64) / cluster.round_s

    def choose(state: RoundState) -> IntArray:
        order = np.argsort(_rank(name, state, limits), kind="stable")
        stays = state.now_on >= 0
        if preemptive:
            return fastest_free(order, state.rate, state.width, state.gpus, skipping=skipping)
        first = np.concatenate((np.flatnonzero(stays), order[~stays[order]]))
        return fastest_free(
            first, state.rate, state.width, state.gpus, keeps=state.now_on, skipping=skipping
        )

    def until_next_limit(state: RoundState, kind: IntArray) -> int:
        """Say that a choice lasts until a job that runs has run for the next of its limits."""
        return rounds_below(limits, state.ran[kind >= 0])

    # The order of jobs that wait is set, and that of jobs that run only under `srtf`.
    if preemptive and name == "srtf":
        return Decided(choose, lasts=where_all_run_fastest)
    return Decided(choose, lasts=until_next_limit if preemptive and name == "las" else always)


def _rank(name: str, state: RoundState, limits: FloatArray) -> FloatArray:
    if name == "srtf":
        left: FloatArray = state.left / state.rate.max(axis=1)
        return left
    if name == "las":
        return np.searchsorted(limits, state.ran, side="right").astype(np.float64)
    return np.zeros(state.running.size)


def on_several_types(classic: Policy) -> Policy:
    """Return a scheduler of one cluster that runs on several GPU types too, if it is of `ORDERS`.

    On one type it is what it was; on several it decides in rounds.
    """
    if classic.name not in ORDERS:
        return classic

    settings = {**classic.settings, **ROUNDS}

    def run(jobs: TraceJobs, typed: Mapping[str, Any], rng: np.random.Generator) -> Simulation:
        shape = typed.get("cluster")
        if shape is None or len(shape.pools) == 1:
            plain = {key: value for key, value in typed.items() if key not in ROUNDS}
            return classic.run(jobs, plain, rng)
        counted = {
            name: setting
            for name, setting in settings.items()
            if name not in MOVES or name in typed
        }
        replay = replace(replay_settings(classic.name, settings, typed), declared=counted)
        return simulate(jobs, replay, partial(prepare, classic.name), rng)

    return replace(classic, settings=settings, run=run, takes_gpu_types=True)


def _scheduler(name: str) -> Policy:
    scheduler = SCHEDULERS[name]

    def run(jobs: TraceJobs, settings: Mapping[str, Any], _: np.random.Generator) -> Simulation:
        from gpuplan.planner.policies.cluster import simulate

        return simulate(jobs, settings, name)

    return Policy(
        *(name, scheduler.about, scheduler.source, scheduler.settings, run),
        decides_by_deadlines=scheduler.order == "deadline",
    )


POLICIES = tuple(on_several_types(_scheduler(name)) for name in SCHEDULERS)
