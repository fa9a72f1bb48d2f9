"""Policies of a cluster of several GPU types: settings, jobs, and what a run measured."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import fields_of
from gpuplan.analysis.base.time_units import DAY_S, HOUR_S
from gpuplan.analysis.base.words import counted, length_words
from gpuplan.planner.money.renting_settings import OF_CLUSTER
from gpuplan.planner.policies.cluster_replay import (
    ClusterReplay,
    ReplaySettings,
    replay_settings,
    replayed,
    size_note,
)
from gpuplan.planner.policies.cluster_settings import SHARED
from gpuplan.planner.policies.mixed.round_state import Lasts, never
from gpuplan.planner.policies.policy import Policy
from gpuplan.planner.runs.cluster_setting import SIZES, enough_for, shape_of
from gpuplan.planner.runs.settings import FEWER_JOBS, Setting, SettingError
from gpuplan.planner.runs.simulation import Simulation
from gpuplan.simkit.cluster_shape import ClusterShape, GpuPool
from gpuplan.simkit.time import MICROS, TimeOverflow

if TYPE_CHECKING:
    from gpuplan.planner.policies.mixed.rated_jobs import MixedCluster, RatedJobs
    from gpuplan.planner.policies.mixed.round_state import Choose
    from gpuplan.planner.runs.trace_jobs import TraceJobs
    from gpuplan.simkit.arrays import FloatArray, IntArray

ANY = "GPU"
"""What GPUs are called in results where their type is not named."""

ROUNDS: dict[str, Setting] = {
    "round_s": Setting("duration", "time between decisions", at_least=1, default=300.0),
    "state_gb": Setting(
        "number",
        "state of a job that moves with it, GB, where --throughputs does not give it",
        default=2.0,
    ),
    "dataset_gb": Setting(
        "number",
        "data that a job fetches before its first start, GB; 0 if it has them by then",
        default=0.0,
    ),
    "gbps": Setting("number", "rate at which the state moves, Gb/s", above=0.0, default=10.0),
    "restart_s": Setting(
        "duration", "pause of any start but the first, on top of the move", default=30.0
    ),
    "cross_host": Setting(
        "number",
        "factor on the rate of a gang on more nodes than it needs, where --throughputs does not "
        "give it",
        above=0.0,
        at_most=1,
        default=0.9,
    ),
    "estimate_error": Setting(
        "number",
        "work that the policy sees is wrong by up to this share, at random",
        at_most=0.99,
        default=0.0,
    ),
}
"""Settings of rounds on several GPU types."""

LOG = logging.getLogger("gpuplan")
LONGEST_PAUSE_S = 30 * DAY_S
"""Of a move or a fetch, with the restart: a longer one is a mistake in its unit."""

MOST_ROUNDS_OF_A_JOB = 2016
"""Rounds that a tenth of the jobs take, above which rounds are longer: a week of 5 minutes."""
MOST_ROUNDS_OF_THE_LONGEST = 50_000
"""Rounds that the longest job takes, above which they are longer: 174 days of 5 minutes."""
MOST_NODES, MOST_PLACES = 1_000_000, 2_000_000_000
"""Nodes, and jobs x nodes: 850,000 jobs on 2,300 nodes."""
MANY_DECISIONS = 1e9
"""Rounds x jobs from which a replay can take minutes: 55,000 jobs of Philly in 30,000 rounds."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A policy for one run, and what it knows after it.

    Attributes:
        choose: decides each round.
        results: more numbers, after the run.
        warnings: what a reader must know, after the run.
        lasts: for how many more rounds a choice is the same unless a job comes or ends.
    """

    choose: Choose
    results: Callable[[], dict[str, Any]] = dict
    warnings: Callable[[], tuple[str, ...]] = tuple
    lasts: Lasts = never


Prepare = Callable[["RatedJobs", "MixedCluster", Mapping[str, Any], np.random.Generator], Decided]
"""Makes a policy for the jobs, the cluster, the value of every setting, and what is random."""


def mixed_policy(
    name: str,
    about: str,
    source: str,
    prepare: Prepare,
    *,
    own: Mapping[str, Setting] | None = None,
) -> Policy:
    """Return a policy in rounds, on one GPU type or several; ``prepare`` makes its decisions."""
    size = {key: SHARED[key] for key in SIZES}
    settings = {**size, **ROUNDS, **(own or {}), **OF_CLUSTER}

    def run(jobs: TraceJobs, typed: Mapping[str, Any], rng: np.random.Generator) -> Simulation:
        return simulate(jobs, replay_settings(name, settings, typed), prepare, rng)

    with_fft = "" if name == "fft" else "fft"
    return Policy(
        *(name, about, source, settings, run),
        takes_gpu_types=True,
        listed_with=with_fft,
    )


def simulate(
    jobs: TraceJobs, settings: ReplaySettings, prepare: Prepare, rng: np.random.Generator
) -> Simulation:
    """Replay jobs in rounds under a policy with these settings, some of them given.

    Raises:
        InfeasibleError: a gang that no type of the cluster can hold.
        UsageError: settings that no run can have.
    """
    from gpuplan.planner.policies.mixed.fairness import (
        fairness_columns,
        fairness_results,
        type_lines,
        type_timeline,
    )
    from gpuplan.planner.policies.mixed.mixed_rounds import play
    from gpuplan.planner.policies.mixed.rated_jobs import check_fits, rated_jobs

    settings, long_jobs = _in_rounds(jobs, settings)
    values, typed = settings.values, settings.typed
    shape, notes = _shape(jobs, values)
    gpu_types = shape.gpu_types or (ANY,)
    errors, draws = rng.spawn(2)
    _check_hosts(jobs.workload.size, shape)
    cluster = _cluster(shape, values)
    rated = rated_jobs(jobs, shape, cluster, values, typed, errors)
    check_fits(jobs, rated, gpu_types, shape)
    _check_pauses(rated, cluster)
    _warn_of_long(settings.policy, rated, cluster)
    decided = prepare(rated, cluster, values, draws)
    try:
        played = play(rated, cluster, decided.choose, decided.lasts)
    except TimeOverflow as error:
        raise UsageError(f"this replay cannot be made: {error}\n  next: {FEWER_JOBS}") from error
    share = jobs.workload.billed_gpus / jobs.workload.gpus  # of a GPU, where a job has a fraction
    run = replace(played.run, held_us=np.rint(played.run.held_us * share).astype(np.int64))
    has_states = jobs.rates is not None and bool(
        jobs.rates.details is not None and jobs.rates.details.has_states
    )
    state = () if "state_gb" in typed or has_states else (_state_note(values),)
    fairness = fairness_results(played, gpu_types)
    return replayed(
        jobs,
        settings,
        ClusterReplay(
            run=run,
            size={"cluster": str(shape), "gpus": shape.gpus},
            is_rescaled=True,
            measured=lambda _: {**fields_of(fairness), **decided.results()},
            notes=(*notes, *long_jobs, *decided.warnings(), *state),
            columns=partial(fairness_columns, played, gpu_types),
            timeline=partial(type_timeline, played, gpu_types),
            lines=partial(type_lines, played, gpu_types, jobs.job_id),
        ),
    )


def _in_rounds(jobs: TraceJobs, settings: ReplaySettings) -> tuple[ReplaySettings, tuple[str, ...]]:
    """Return settings with longer rounds where jobs take weeks and none were typed; say so."""
    usual = float(settings.values["round_s"])
    run_us = jobs.workload.service_us
    long_s = float(np.percentile(run_us, 90, method="lower")) / MICROS
    longest_s = float(run_us.max(initial=0)) / MICROS
    least_s = max(long_s / MOST_ROUNDS_OF_A_JOB, longest_s / MOST_ROUNDS_OF_THE_LONGEST)
    if "round_s" in settings.typed or least_s <= usual:
        return settings, ()
    if long_s / MOST_ROUNDS_OF_A_JOB < least_s:
        round_s = usual * np.ceil(least_s / usual)
        who = f"the longest job takes {length_words(longest_s)}"
    else:
        round_s = HOUR_S * np.ceil(least_s / HOUR_S)
        who = f"a tenth of the jobs take {length_words(long_s)} or more"
    note = f"{who}, so rounds are of {length_words(round_s)}, not {usual:g} s; round_s sets them"
    return replace(settings, values={**settings.values, "round_s": float(round_s)}), (note,)


def _state_note(values: Mapping[str, Any]) -> str:
    return (
        f"every job is assumed to have {values['state_gb']:g} GB of state, which moves with it; "
        "set state_gb for another size"
    )


def _shape(jobs: TraceJobs, values: Mapping[str, Any]) -> tuple[ClusterShape, tuple[str, ...]]:
    """Return the cluster, and what to know of its size."""
    shape = shape_of(values)
    if shape is not None and shape.gpus is not None:
        return shape, ()
    if shape is not None and len(shape.pools) > 1:
        raise SettingError(["cluster"], "needs the number of GPUs of each type", "V100=8x4,T4=8x4")
    pool = None if shape is None else shape.pools[0]
    each = (None if pool is None else pool.gpus_per_node) or 1
    gpus = -(-enough_for(jobs.workload) // each) * each
    per_node = None if pool is None else pool.gpus_per_node
    shape = ClusterShape((GpuPool(gpus, per_node, pool.gpu_type if pool else None),))
    return shape, (size_note(gpus),)


def _cluster(shape: ClusterShape, values: Mapping[str, Any]) -> MixedCluster:
    from gpuplan.planner.policies.mixed.rated_jobs import MixedCluster

    return MixedCluster(
        gpus=tuple(int(pool.gpus or 0) for pool in shape.pools),
        gpus_per_host=tuple(pool.gpus_per_node or 0 for pool in shape.pools),
        round_s=values["round_s"],
        gbps=values["gbps"],
        restart_s=values["restart_s"],
        cross_host=(values["cross_host"], 1.0),
    )


def _check_hosts(jobs: int, shape: ClusterShape) -> None:
    """Refuse more jobs times nodes than memory has places for. Raises `SettingError`."""
    each = [(pool.gpus or 0) // pool.gpus_per_node for pool in shape.pools if pool.gpus_per_node]
    if sum(each) > MOST_NODES or jobs * sum(each) > MOST_PLACES:
        raise SettingError(
            ["cluster"],
            f"{counted(jobs, 'job')} on {counted(sum(each), 'node')}: expected at most "
            f"{MOST_NODES:,} nodes, and {MOST_PLACES:,} jobs x nodes. Give GPUs without nodes, or "
            "fewer jobs with --where",
        )


def _warn_of_long(name: str, rated: RatedJobs, cluster: MixedCluster) -> None:
    """Say before a long replay how many decisions it takes, and how to have fewer."""
    rounds = float(np.ptp(rated.submit_s)) / cluster.round_s
    if rounds * rated.gpus.size > MANY_DECISIONS:
        LOG.info(
            "%s decides every %g s over %s jobs, some %s times, and can take minutes; a longer "
            "round_s or --sample takes less",
            *(name, cluster.round_s, f"{rated.gpus.size:,}", f"{rounds:,.0f}"),
        )


def _check_pauses(rated: RatedJobs, cluster: MixedCluster) -> None:
    """Refuse moves and fetches that take longer than `LONGEST_PAUSE_S`."""
    most = {"state_gb": float(rated.state_gb.max(initial=0.0))}
    if rated.dataset_gb is not None:
        most["dataset_gb"] = float(rated.dataset_gb.max(initial=0.0))
    name = max(most, key=most.__getitem__)
    pause_s = most[name] * 8 / cluster.gbps + cluster.restart_s
    if pause_s > LONGEST_PAUSE_S:
        raise SettingError(
            [name, "gbps", "restart_s"],
            f"make a job pause for up to {pause_s:.3g} s ({most[name]:g} GB at {cluster.gbps:g} "
            f"Gb/s); expected at most {LONGEST_PAUSE_S:,.0f} s (30 days)",
        )


def fastest_free(
    order: IntArray,
    rate: FloatArray,
    width: IntArray,
    gpus: IntArray,
    *,
    keeps: IntArray | None = None,
    skipping: bool = True,
) -> IntArray:
    """Return the type of each job, -1 to wait: the fastest that has enough free GPUs.

    Args:
        order: the jobs, best first.
        rate: work per round of each job on each type; shape (m, T).
        width: GPUs of each job.
        gpus: of each type.
        keeps: types that jobs stay on if they run, -1 for any.
        skipping: whether jobs may pass one that does not fit.
    """
    from gpuplan.simkit.rounds.hosts import take_fastest

    stays = np.full(width.size, -1, np.int64) if keeps is None else keeps
    kind: IntArray = take_fastest(order, rate, width, gpus, stays, skipping)
    return kind
