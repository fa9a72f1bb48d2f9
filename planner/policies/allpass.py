"""Replays under Allpass and its variants: the run, its rows over time, and its warnings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.words import counted
from gpuplan.planner.money.renting_settings import idle_of_market
from gpuplan.planner.policies.allpass_results import bill_of_allpass, measure
from gpuplan.planner.policies.allpass_settings import parameters_from, settings_of
from gpuplan.planner.runs.panels import GPUS, JOBS, RATIO, SECONDS, USD, Panel, TimeLines
from gpuplan.planner.runs.settings import FEWER_JOBS, LOWER, SettingError, check_widest
from gpuplan.planner.runs.simulation import RunBill, Simulation
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.simkit.allpass.allpass_run import AllpassRun
from gpuplan.simkit.allpass.gangs import NeverDone
from gpuplan.simkit.allpass.parameters import Allpass, Draws, StartUp
from gpuplan.simkit.allpass.simulator import run_allpass
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.renting.pool import MOST_GANG, TooWide
from gpuplan.simkit.time import FOREVER, MICROS, TimeOverflow

FEWER_WORKERS = {
    "literal": (("scaling",), "set scaling=bounded, or a lower capacity"),
    "bounded": ((), "set a lower capacity, or leave jobs out with --where"),
    "utilization": (
        ("target_utilization", "min_workers"),
        "set a higher target_utilization, a lower min_workers or capacity, or leave jobs out with "
        "--where",
    ),
}
"""What may be to blame where too many workers are rented, and what to do, by ``scaling``."""
RECLAIMED = (
    ("reclaim", "save_every_s", "restore_s", "lease_s"),
    "set save_every_s and restore_s lower, until both fit into the time that offers last after a "
    "worker's start-up; or a longer lease_s, or reclaim=false",
)
"""The same where workers are taken back sooner than a job can be restored and saved on them."""

NARROWER = (
    f"leave such jobs out with --where 'num_gpus <= {MOST_GANG}', or keep them serverless with a "
    f"capacity of {MOST_GANG} workers or less"
)
"""What to do where one job would take too many workers."""


def simulate(
    jobs: TraceJobs,
    settings: Mapping[str, Any],
    rng: np.random.Generator,
    name: str = "allpass",
    fixed: Mapping[str, Any] | None = None,
) -> Simulation:
    """Replay jobs; see `gpuplan.planner.policies.allpass_settings.SETTINGS`.

    Raises:
        UsageError: settings that no run can have, or a job wider than ``serverless_limit``.
    """
    parameters = parameters_from(settings, fixed or {})
    check_fits(jobs, parameters)
    run = replay(jobs, parameters, rng)
    bill, results = bill_of_allpass(run, jobs.window_us), measure(run, jobs.window_us)
    return Simulation(
        policy=name,
        settings=settings_of(run.parameters),
        jobs=jobs,
        run=run,
        bill=RunBill(bill.usd, bill.paid_s * MICROS, lambda: bill.jobs_usd),
        gpus=int(run.usage.used.max(initial=0)),
        measured=results,
        warnings=warnings_of(parameters, results, parameters.move_s(jobs.workload)),
        timeline=partial(timeline_frame, run),
        lines=partial(time_lines, run),
        columns=partial(job_columns, run),
    )


def check_fits(jobs: TraceJobs, parameters: Allpass) -> None:
    """Raise `SettingError` where a job needs more containers at once than may exist."""
    widest, most = int(jobs.workload.gpus.max()), parameters.serverless_limit
    check_widest(widest, most, "serverless_limit", "starts in the serverless tier")


def replay(jobs: TraceJobs, parameters: Allpass, draws: Draws | np.random.Generator) -> AllpassRun:
    """Return `run_allpass`. Raises `UsageError` where the run would be too long or too wide."""
    try:
        return run_allpass(jobs.workload, parameters, draws)
    except ValueError as error:
        raise _impossible(error, parameters) from error


def _impossible(error: ValueError, parameters: Allpass) -> UsageError:
    """Return the error of a replay that cannot be made: by which settings, and what next."""
    suspects: tuple[str, ...] = ()
    advice = FEWER_JOBS
    if isinstance(error, TimeOverflow):
        suspects = () if error.longest is None else (error.longest,)
    elif isinstance(error, NeverDone):
        suspects, advice = RECLAIMED
    elif isinstance(error, TooWide):
        advice = NARROWER
    else:
        suspects, advice = FEWER_WORKERS[parameters.scaling]
    usual, problem = Allpass(), f"this replay cannot be made: {error}"
    blamed = [name for name in suspects if getattr(parameters, name) != getattr(usual, name)]
    if not blamed:
        return UsageError(f"{problem}\n  next: {advice}")
    if isinstance(error, TimeOverflow):
        (name,) = blamed
        if isinstance(drawn := getattr(parameters, name), StartUp):
            name += "_s" if drawn.mean_s >= drawn.sd_s else "_sd_s"
        return SettingError([name], problem, LOWER.format(name))
    return SettingError(blamed, problem, advice)


def job_columns(run: AllpassRun) -> dict[str, FloatArray]:
    """Return where the time of each job went, by column."""
    times = {
        "serverless_s": run.serverless_us,
        "serverful_s": run.workload.service_us - run.serverless_us,
        "startup_s": run.startup_us,
        "queue_s": run.queue_us,
        "demotion_s": run.demotion_us,
    }
    return {name: _seconds(times_us) for name, times_us in times.items()}


def timeline_frame(run: AllpassRun) -> pl.DataFrame:
    """Return one row per tick at which anything changed, after what it decided.

    Columns: ``time_s`` after the first submission, ``threshold_s`` (inf where it is), ``pressure``,
    ``queued`` jobs, ``serverless_gpus``, workers that are ``ready``, ``starting`` and ``idle``,
    those of the ``marketplace`` and ``conventional`` ones, ``offers``, and ``paid_usd_per_h`` for
    all workers.
    """
    line = run.timeline
    threshold_s = np.where(line.threshold_us < FOREVER, _seconds(line.threshold_us), np.inf)
    return pl.DataFrame(
        {
            "time_s": _seconds(line.time_us),
            "threshold_s": threshold_s,
            "pressure": line.pressure,
            "queued": line.queued,
            "serverless_gpus": line.serverless,
            "ready": line.ready,
            "starting": line.starting,
            "idle": line.idle,
            "marketplace": line.marketplace,
            "conventional": line.ready + line.starting - line.marketplace,
            "offers": line.offers,
            "paid_usd_per_h": line.paid_usd_per_h,
        }
    )


def time_lines(run: AllpassRun) -> TimeLines:
    """Return GPUs by kind, and threshold, pressure, queue and mean price where there is any."""
    line = run.timeline
    workers = line.ready + line.starting
    gpus = {
        "serverless": line.serverless,
        "marketplace": line.marketplace,
        "conventional": workers - line.marketplace,
    }
    is_moving = bool(np.isfinite(run.parameters.threshold_s))
    threshold_s, price = _seconds(line.threshold_us), line.mean_price
    panels = (
        Panel(
            "Threshold: run time after which a job leaves its container",
            SECONDS,
            {"threshold": threshold_s if is_moving else np.zeros(line.time_us.size)},
        ),
        Panel(
            "Pressure: work due over what the ready workers can do by then",
            RATIO,
            {"pressure": line.pressure},
            limit=1,
        ),
        Panel("GPUs held", GPUS, gpus),
        Panel("Jobs waiting for workers", JOBS, {"jobs": line.queued}),
        Panel("Mean price of a rented worker", USD, {"price": price}),
    )
    rows: tuple[tuple[str, str, Any], ...] = (
        ("serverless GPUs", GPUS, line.serverless),
        ("workers (GPUs)", GPUS, workers),
        ("jobs waiting for workers", JOBS, line.queued),
    )
    if is_moving:
        rows = (*rows, ("threshold", SECONDS, line.threshold_us / 1e6))
    return TimeLines(line.time_us, run.end_us, tuple(filter(_is_worth_it, panels)), rows)


def _is_worth_it(panel: Panel) -> bool:
    """Return whether a panel shows anything; GPUs always do."""
    if panel.unit == GPUS:
        return True
    return any(np.any(np.nan_to_num(values)) for values in panel.series.values())


def warnings_of(parameters: Allpass, results: Mapping[str, Any], move_s: float) -> tuple[str, ...]:
    """Return what a reader of the numbers of `measure` must know beside them.

    ``move_s`` is what a move of these jobs takes (`Allpass.move_s`).
    """
    warnings = [
        *idle_of_market(
            parameters.rental_terms, reclaim=parameters.reclaim, grace_s=parameters.grace_s
        )
    ]
    if results["never_demotable_jobs"]:
        warnings.append(
            f"{counted(results['never_demotable_jobs'], 'job')} of more GPUs than the capacity of "
            f"{counted(parameters.capacity or 0, 'worker')} can only stay serverless to the end"
        )
    if results["cost_usd"] > results["cost_if_serverless_usd"] and parameters.scaling == "literal":
        warnings.append(
            f"the bill is above the ${results['cost_if_serverless_usd']:,.2f} of serverless alone: "
            "late jobs rent more workers than they can use; --set scaling=bounded rents no more "
            "(docs/allpass.md)"
        )
    for_containers_s = results["mean_container_queue_s"]
    if for_containers_s > results["mean_service_s"]:
        warnings.append(
            "jobs wait longer for containers than they run: at most "
            f"{counted(parameters.serverless_limit or 0, 'GPU')} may be serverless at once; "
            "--set serverless_limit=N allows more"
        )
    waits = results["mean_queue_s"] - for_containers_s > results["mean_service_s"]
    if waits and results["workers_peak"] == parameters.capacity:
        warnings.append(
            f"jobs wait longer for workers than they run: all {parameters.capacity} workers of the "
            "capacity are taken at times"
        )
    elif waits and parameters.scale_out == "window":
        warnings.append(
            "jobs wait longer for workers than they run, because workers are rented only for "
            f"deadlines less than {parameters.window_s / 60:g} min ahead; --set scale_out=queue "
            "rents for every job that waits (docs/allpass.md)"
        )
    if parameters.controller == "adaptive" and results["mean_threshold_s"] < move_s:
        limits = ("threshold_s", "max_threshold_s")
        needed = [name for name in limits if getattr(parameters, name) < math.ceil(move_s)]
        least = ("min_threshold_s", *needed)
        keep = " ".join(f"--set {name}={math.ceil(move_s)}" for name in least)
        warnings.append(
            f"the adaptive threshold was {results['mean_threshold_s']:.3g} s on average, less than "
            f"the {move_s:g} s that a move takes, so jobs about to end are moved; "
            f"{keep} {'keep' if needed else 'keeps'} it there (docs/allpass.md)"
        )
    return tuple(warnings)


def _seconds(micros: Any) -> Any:
    return np.asarray(micros) / MICROS
