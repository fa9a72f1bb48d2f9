"""Policies of a cluster of several GPU types: settings, jobs, and what a run measured."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import DAY_S
from gpuplan.analysis.base.words import counted
from gpuplan.planner.money.renting_settings import (
    OF_CLUSTER,
    OF_PRICES,
    RENTED,
    idle_of_market,
    priced_values,
)
from gpuplan.planner.policies.allpass_settings import SETTINGS
from gpuplan.planner.policies.cluster_bill import ClusterBill, bill_of, terms_of
from gpuplan.planner.policies.cluster_settings import SHARED
from gpuplan.planner.policies.policy import Policy
from gpuplan.planner.policies.scaled_jobs import job_frame, measure
from gpuplan.planner.runs.cluster_setting import SIZES, enough_for, shape_of
from gpuplan.planner.runs.panels import GPUS, Panel, TimeLines, usage_lines
from gpuplan.planner.runs.settings import (
    FEWER_JOBS,
    Setting,
    SettingError,
    check_values,
    defaults_of,
)
from gpuplan.planner.runs.simulation import Simulation
from gpuplan.planner.runs.timelines import usage_frame
from gpuplan.simkit.cluster_shape import ClusterShape, GpuPool
from gpuplan.simkit.run import Run
from gpuplan.simkit.time import MICROS, TimeOverflow

if TYPE_CHECKING:
    from gpuplan.planner.policies.mixed.mixed_rounds import Choose, MixedRun
    from gpuplan.planner.policies.mixed.rated_jobs import MixedCluster, RatedJobs
    from gpuplan.planner.runs.trace_jobs import TraceJobs

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

MANY_DECISIONS = 1e9
"""Rounds x jobs from which a replay can take minutes: 55,000 jobs of Philly in 30,000 rounds."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A policy for one run, and what it knows after it.

    Attributes:
        choose: decides each round.
        results: more numbers, after the run.
        warnings: what a reader must know, after the run.
    """

    choose: Choose
    results: Callable[[], dict[str, Any]] = dict
    warnings: Callable[[], tuple[str, ...]] = tuple


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
    """Return a policy that decides in rounds, on one GPU type or several.

    Args:
        name, about, source: of `Policy`.
        prepare: makes its decisions.
        own: settings that others do not have.
    """
    size = {key: SHARED[key] for key in SIZES}
    settings = {**size, **ROUNDS, **(own or {}), **OF_CLUSTER}

    def run(jobs: TraceJobs, given: Mapping[str, Any], rng: np.random.Generator) -> Simulation:
        return simulate(jobs, settings, given, name, prepare, rng)

    with_fft = "" if name == "fft" else "fft"
    return Policy(
        *(name, about, source, settings, run),
        takes_gpu_types=True,
        listed_with=with_fft,
    )


def simulate(
    jobs: TraceJobs,
    settings: Mapping[str, Setting],
    given: Mapping[str, Any],
    name: str,
    prepare: Prepare,
    rng: np.random.Generator,
) -> Simulation:
    """Replay jobs in rounds under a policy with these settings, some of them given.

    Raises:
        InfeasibleError: a gang that no type of the cluster can hold.
        UsageError: settings that no run can have.
    """
    from gpuplan.planner.policies.mixed.mixed_rounds import play
    from gpuplan.planner.policies.mixed.rated_trace import check_fits, rated_jobs

    check_values(settings, given)
    values = priced_values(defaults_of(settings), given)
    terms = terms_of(values)
    shape, notes = _shape(jobs, values)
    gpu_types = shape.gpu_types or (ANY,)
    errors, draws = rng.spawn(2)
    cluster = _cluster(shape, values)
    rated = rated_jobs(jobs, shape, cluster, values, given, errors)
    check_fits(jobs, rated, gpu_types, shape)
    _check_pauses(rated, cluster)
    _warn_of_long(name, rated, cluster)
    decided = prepare(rated, cluster, values, draws)
    try:
        found = play(rated, cluster, decided.choose)
    except TimeOverflow as error:
        raise UsageError(f"this replay cannot be made: {error}\n  next: {FEWER_JOBS}") from error
    return _simulation(jobs, found, decided, name, values, given, shape, notes, terms)


def _simulation(
    jobs: TraceJobs,
    found: MixedRun,
    decided: Decided,
    name: str,
    values: Mapping[str, Any],
    given: Mapping[str, Any],
    shape: ClusterShape,
    notes: tuple[str, ...],
    terms: Any,
) -> Simulation:
    from gpuplan.planner.policies.mixed.fairness_metrics import fairness_results

    gpu_types = shape.gpu_types or (ANY,)
    share = jobs.workload.billed_gpus / jobs.workload.gpus  # of a GPU, where a job has a fraction
    run = replace(found.run, held_us=np.rint(found.run.held_us * share).astype(np.int64))
    bill = bill_of(run, terms, jobs.window_us, shape.gpus)
    hidden = {*OF_PRICES, *RENTED, "cluster", "gpus"}
    plain = {key: value for key, value in values.items() if key not in hidden}
    is_known = "state_gb" in given or (
        jobs.rates is not None and jobs.rates.details is not None and jobs.rates.details.has_states
    )
    state = () if is_known else (_state_note(values),)
    return Simulation(
        policy=name,
        settings={k: v for k, v in plain.items() if k in given or k in _known(values)}
        | {"cluster": str(shape), "gpus": shape.gpus}
        | terms.effective(),
        results=measure(jobs, run, bill, shape.gpus)
        | fairness_results(found, gpu_types)
        | decided.results(),
        rows=partial(_rows, jobs, found, run, bill, gpu_types),
        warnings=(
            *notes,
            *decided.warnings(),
            *state,
            *(idle_of_market(terms.rented) if terms.usd_per_gpu_h is None else ()),
        ),
        timeline=partial(_timeline, found, gpu_types),
        run=run,
        lines=partial(_lines, found, gpu_types, jobs.job_id),
    )


def _known(values: Mapping[str, Any]) -> set[str]:
    return values.keys() - SETTINGS.keys() | {"usd_per_gpu_h"}


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
    notes = (
        f"the cluster has {counted(gpus, 'GPU')}, as many as the jobs use at once if none "
        "waits; set cluster for another size",
    )
    per_node = None if pool is None else pool.gpus_per_node
    return ClusterShape((GpuPool(gpus, per_node, pool.gpu_type if pool else None),)), notes


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


def _rows(
    jobs: TraceJobs, found: MixedRun, run: Run, bill: ClusterBill, gpu_types: tuple[str, ...]
) -> pl.DataFrame:
    from gpuplan.planner.policies.mixed.fairness_metrics import fairness_columns

    frame = job_frame(jobs, run, bill)
    return frame.with_columns(**fairness_columns(found, gpu_types))


def _timeline(found: MixedRun, gpu_types: tuple[str, ...]) -> pl.DataFrame:
    from gpuplan.planner.policies.mixed.fairness_metrics import types_frame

    whole, each = usage_frame(found.run), types_frame(found, gpu_types)
    return whole.sort("time_s").join_asof(each.sort("time_s"), on="time_s").fill_null(0)


def _lines(found: MixedRun, gpu_types: tuple[str, ...], job_id: pl.Series) -> TimeLines:
    """Return GPUs in use by type, jobs waiting, and where each job of a small run ran."""
    from gpuplan.planner.policies.mixed.fairness_metrics import job_bars, types_frame

    lines = usage_lines(found.run)
    if len(gpu_types) == 1:
        return lines
    each = types_frame(found, gpu_types)
    at = np.searchsorted(each["time_s"].to_numpy() * MICROS, lines.time_us + 0.5, side="right")
    series = {name: np.append(0, each[f"used_{name}"].to_numpy())[at] for name in gpu_types}
    first, *others = lines.panels
    title = f"GPUs held by type, of {sum(found.cluster.gpus):,}"
    panel = Panel(title, GPUS, series, first.limit)
    rows = tuple((f"GPUs held, {name}", GPUS, values) for name, values in series.items())
    return TimeLines(
        time_us=lines.time_us,
        end_us=lines.end_us,
        panels=(panel, *others),
        rows=(*rows, *lines.rows),
        bars=job_bars(found, job_id, gpu_types),
    )
