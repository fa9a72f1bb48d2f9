"""Replay a trace under Allpass and say what it cost and how long jobs took."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.history.jobs import PeriodUs
from gpuplan.planner.money.renting_settings import idle_of_market
from gpuplan.planner.policies.allpass_bill import bill_of_allpass
from gpuplan.planner.policies.allpass_settings import parameters_from, settings_of
from gpuplan.planner.runs.panels import GPUS, JOBS, RATIO, SECONDS, USD, Panel, TimeLines
from gpuplan.planner.runs.settings import FEWER_JOBS, LOWER, SettingError, check_widest
from gpuplan.planner.runs.simulation import SOON_S, Simulation
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.planner.runs.window import share_within
from gpuplan.simkit.allpass.allpass_run import AllpassRun
from gpuplan.simkit.allpass.gangs import NeverDone
from gpuplan.simkit.allpass.parameters import Allpass, Draws, StartUp
from gpuplan.simkit.allpass.simulator import run_allpass
from gpuplan.simkit.metrics import distribution
from gpuplan.simkit.renting.pool import MOST_GANG, TooWide
from gpuplan.simkit.steps import peak_overlap, time_average
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


def simulate(jobs: TraceJobs, settings: Mapping[str, Any], rng: np.random.Generator) -> Simulation:
    """Run the policy ``allpass``; see `gpuplan.planner.policies.allpass_settings.SETTINGS`.

    Raises:
        UsageError: settings that no run can have, or a job wider than ``serverless_limit``.
    """
    parameters = parameters_from(settings)
    check_fits(jobs, parameters)
    run = replay(jobs, parameters, rng)
    results = measure(run, jobs.window_us)
    return Simulation(
        policy="allpass",
        settings=settings_of(run.parameters),
        results=results,
        rows=partial(job_frame, jobs, run),
        warnings=warnings_of(parameters, results, parameters.move_s(jobs.workload)),
        timeline=partial(timeline_frame, run),
        run=run,
        lines=partial(time_lines, run),
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


def measure(run: AllpassRun, window_us: PeriodUs | None = None) -> dict[str, Any]:
    """Return the headline numbers of a run, charged within a window; None charges everything.

    Waiting is split into ``startup`` (of containers), ``queue`` (for containers under a limit,
    ``container_queue``, and for workers) and ``demotion`` (checkpoint and restore); JQT is the
    first two. Means are over all jobs, workers are counted from request to release.
    ``cost_if_serverless_usd`` is the bill had every job stayed in its container. ``gpu_h`` is run
    time x GPUs (a fraction of one as such), and ``utilization`` the part of it within the window
    over ``paid_gpu_h``, the GPU time that is paid for by price and time.
    """
    work, rentals = run.workload, run.rentals
    market = rentals.offer >= 0
    bill = bill_of_allpass(run, window_us)
    bills = bill.rental_usd
    serverless_usd = float(bill.serverless_usd.sum())
    market_usd, conventional_usd = float(bills[market].sum()), float(bills[~market].sum())
    held_s = _seconds(rentals.release_us - rentals.request_us)
    end_s = float(_seconds(run.end_us))
    capacity = run.parameters.capacity
    stuck = 0 if capacity is None else int((work.gpus > capacity).sum())
    startup_s, queue_s = _mean_s(run.startup_us), _mean_s(run.queue_us)
    gpu_s = _seconds(work.service_us) * work.billed_gpus
    paid_s = float((_seconds(bill.container_us) * work.billed_gpus).sum()) + float(
        _seconds(bill.worker_us).sum()
    )
    return {
        "jobs": work.size,
        **distribution(_seconds(run.jct_us), "jct", "s"),
        "mean_service_s": _mean_s(work.service_us),
        "mean_jqt_s": startup_s + queue_s,
        "mean_startup_s": startup_s,
        "mean_queue_s": queue_s,
        "mean_container_queue_s": _mean_s(run.start_us - work.submit_us - run.startup_us),
        "mean_demotion_s": _mean_s(run.demotion_us),
        "cost_usd": serverless_usd + market_usd + conventional_usd,
        "cost_if_serverless_usd": float(bill.if_serverless_usd.sum()),
        "cost_serverless_usd": serverless_usd,
        "cost_marketplace_usd": market_usd,
        "cost_conventional_usd": conventional_usd,
        "finished_serverless_share": float(1 - run.demoted.mean()),
        "finished_within_10min_share": float((_seconds(run.jct_us) <= SOON_S).mean()),
        "deadline_miss_share": float((run.finish_us > work.deadline_us).mean()),
        "gpu_h": float(gpu_s.sum() / 3600),
        "utilization": _share(gpu_s.sum() * share_within(run, window_us), paid_s),
        "paid_gpu_h": paid_s / 3600,
        "never_demotable_jobs": stuck,
        "mean_threshold_s": mean_threshold_s(run),
        "workers_peak": peak_overlap(rentals.request_us, rentals.release_us),
        "workers_mean": float(held_s.sum() / end_s) if end_s else 0.0,
        "worker_busy_share": _share(_seconds(rentals.busy_us).sum(), held_s.sum()),
        "reclaimed_workers": int(rentals.reclaimed.sum()),
        "mean_marketplace_usd_per_gpu_h": _share(
            rentals.metered_usd[market].sum(), held_s[market].sum() / 3600
        ),
        "makespan_s": end_s - float(_seconds(work.submit_us[0])),
    }


def job_frame(jobs: TraceJobs, run: AllpassRun) -> pl.DataFrame:
    """Return one row per job; ``cost_usd`` adds up to the whole bill."""
    service_us = run.workload.service_us
    serverful_us = service_us - run.serverless_us
    columns = {
        "submit_s": run.workload.submit_us,
        "start_s": run.start_us,
        "finish_s": run.finish_us,
        "jct_s": run.jct_us,
        "jqt_s": run.startup_us + run.queue_us,
        "serverless_s": run.serverless_us,
        "serverful_s": serverful_us,
        "startup_s": run.startup_us,
        "queue_s": run.queue_us,
        "demotion_s": run.demotion_us,
    }
    frame = pl.DataFrame({name: _seconds(values) for name, values in columns.items()})
    return frame.select(
        jobs.job_id.alias("job_id"),
        "submit_s",
        "start_s",
        "finish_s",
        "jct_s",
        "jqt_s",
        pl.Series("gpu_s", _seconds(service_us) * run.workload.billed_gpus),
        pl.Series("cost_usd", bill_of_allpass(run, jobs.window_us).jobs_usd),
        "serverless_s",
        "serverful_s",
        "startup_s",
        "queue_s",
        "demotion_s",
    )


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
    found = [
        *idle_of_market(
            parameters.rental_terms, reclaim=parameters.reclaim, grace_s=parameters.grace_s
        )
    ]
    if results["never_demotable_jobs"]:
        found.append(
            f"{counted(results['never_demotable_jobs'], 'job')} of more GPUs than the capacity of "
            f"{counted(parameters.capacity or 0, 'worker')} can only stay serverless to the end"
        )
    if results["cost_usd"] > results["cost_if_serverless_usd"] and parameters.scaling == "literal":
        found.append(
            f"the bill is above the ${results['cost_if_serverless_usd']:,.2f} of serverless alone: "
            "late jobs rent more workers than they can use; --set scaling=bounded rents no more "
            "(docs/allpass.md)"
        )
    for_containers_s = results["mean_container_queue_s"]
    if for_containers_s > results["mean_service_s"]:
        found.append(
            "jobs wait longer for containers than they run: at most "
            f"{counted(parameters.serverless_limit or 0, 'GPU')} may be serverless at once; "
            "--set serverless_limit=N allows more"
        )
    waits = results["mean_queue_s"] - for_containers_s > results["mean_service_s"]
    if waits and results["workers_peak"] == parameters.capacity:
        found.append(
            f"jobs wait longer for workers than they run: all {parameters.capacity} workers of the "
            "capacity are taken at times"
        )
    elif waits and parameters.scale_out == "window":
        found.append(
            "jobs wait longer for workers than they run, because workers are rented only for "
            f"deadlines less than {parameters.window_s / 60:g} min ahead; --set scale_out=queue "
            "rents for every job that waits (docs/allpass.md)"
        )
    if parameters.controller == "adaptive" and results["mean_threshold_s"] < move_s:
        limits = ("threshold_s", "max_threshold_s")
        needed = [name for name in limits if getattr(parameters, name) < math.ceil(move_s)]
        least = ("min_threshold_s", *needed)
        keep = " ".join(f"--set {name}={math.ceil(move_s)}" for name in least)
        found.append(
            f"the adaptive threshold was {results['mean_threshold_s']:.3g} s on average, less than "
            f"the {move_s:g} s that a move takes, so jobs about to end are moved; "
            f"{keep} {'keep' if needed else 'keeps'} it there (docs/allpass.md)"
        )
    return tuple(found)


def mean_threshold_s(run: AllpassRun) -> float:
    """Return the time average of the threshold, seconds; inf where it is."""
    first = run.parameters.threshold_s
    if run.parameters.controller == "fixed" or run.timeline.time_us.size == 0:
        return first
    time_s = np.concatenate(([0.0], _seconds(run.timeline.time_us)))
    value_s = np.concatenate(([first], _seconds(run.timeline.threshold_us)))
    return time_average(time_s, value_s, float(_seconds(run.end_us)))


def _seconds(micros: Any) -> Any:
    return np.asarray(micros) / MICROS


def _mean_s(micros: Any) -> float:
    return float(micros.mean() / MICROS)


def _share(part: Any, whole: Any) -> float | None:
    return float(part / whole) if whole else None
