"""The demand that a forecast starts from: a trace or a table, up to the hour it is issued."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.time_units import HOUR_US
from gpuplan.analysis.base.words import counted, listed
from gpuplan.analysis.characterize import today
from gpuplan.analysis.characterize.shares import names_of
from gpuplan.analysis.forecast.demand import (
    MOST_HOURS,
    NO_NAME,
    DemandSeries,
    demand_of_jobs,
    is_series,
    read_series,
    time_of_hour,
)
from gpuplan.analysis.ingest.logs import read_trace
from gpuplan.analysis.job_table.gpu_names import UNNAMED, is_known_gpu
from gpuplan.analysis.job_table.schema import REQUEUE
from gpuplan.analysis.storage.files import sha256_of
from gpuplan.analysis.trace.input_files import InputFile, trace_input
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.requests.forecast import ALL, ForecastRequest
from gpuplan.simkit.time import to_micros

MOST_SERIES = 100
OF_TABLE = ("group", "gpu_type", ALL)
COLUMNS = (*today.COLUMNS, "priority")
GPU_TYPE = "gpu_type"


@dataclass(frozen=True, slots=True)
class DemandSource:
    """Demand as read, up to the hour at which the forecast is issued.

    Attributes:
        demand: of each series.
        peak_gpus: the most GPUs that jobs held at once so far, of `ALL` and of each GPU type; of a
            table the highest demand of `ALL` and of each series.
        are_pools: whether each series has GPUs of its own.
        input: the file.
        notes: what the reader must know.
    """

    demand: DemandSeries
    peak_gpus: Mapping[str, float]
    are_pools: bool
    input: InputFile
    notes: tuple[str, ...]


def demand_source(request: ForecastRequest) -> DemandSource:
    """Return the demand of a trace or a table.

    Raises:
        InputError: the source cannot be used.
        UsageError: a time outside of it, or options that it has no use for.
    """
    return _from_series(request) if is_series(request.trace) else _from_trace(request)


def _from_series(request: ForecastRequest) -> DemandSource:
    demand = read_series(request.trace)
    if request.by not in OF_TABLE:
        raise UsageError(
            f"--by {request.by}: {request.trace} is a table of demand; its columns are the series"
        )
    wrong = [name for name, value in request.jobs.parameters().items() if value not in (None, 1, 0)]
    if wrong:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in wrong)
        raise UsageError(f"{options}: {request.trace} is a table of demand and has no jobs")
    rows = demand.hours
    end = demand.first_hour + demand.hours
    hour = end if request.at is None else _hour_of(request.at, demand.has_calendar)
    if not demand.first_hour < hour <= end:
        raise _outside(request, demand.first_hour, end, demand.has_calendar)
    demand = demand.before(hour)
    return DemandSource(
        demand,
        {
            ALL: float(demand.gpus.sum(axis=0).max()),
            **dict(zip(demand.names, demand.gpus.max(axis=1).tolist(), strict=True)),
        },
        request.by == "gpu_type"
        or (request.by == "group" and all(map(is_known_gpu, demand.names))),
        InputFile(str(request.trace), sha256_of(request.trace), rows),
        (),
    )


def _from_trace(request: ForecastRequest) -> DemandSource:
    by = () if request.by == ALL else (request.by,)
    columns = dict.fromkeys((*COLUMNS, REQUEUE, GPU_TYPE, *by))
    trace = read_trace(request.trace, request.jobs, columns=tuple(columns))
    jobs, notes = trace.jobs, list(trace.notes)
    is_spot = (jobs["priority"] == "spot").fill_null(False)
    timeless = jobs["duration_s"].is_null()
    kept = ~is_spot & ~timeless & (jobs["num_gpus"] > 0)
    if is_spot.any():
        notes.append(
            f"{counted(int(is_spot.sum()), 'spot job')} left out: the forecast is of the others"
        )
    if (timeless & ~is_spot).any():
        count = int((timeless & ~is_spot).sum())
        notes.append(f"{counted(count, 'job')} left out without a duration")
    if not kept.any():
        raise InputError(
            request.trace,
            "every job is spot, or has no GPUs or no duration",
            expected="jobs of high priority",
            hint="check --where and --spot",
        )
    last = jobs["submit_time"].dt.epoch("us").max()
    jobs = jobs.filter(kept)
    types = jobs[GPU_TYPE].drop_nulls().unique().sort().to_list()
    if len(types) > 1 and request.by != GPU_TYPE:
        notes.append(
            f"GPUs of {len(types)} types ({listed(types, 4)}) count as one pool, though a job "
            "needs those of its own type\n  next: --by gpu_type tells them apart"
        )
    submit = jobs["submit_time"].dt.epoch("us").to_numpy()
    is_running = (jobs["state"] == "running").fill_null(False).to_numpy()
    # A job asks for its GPUs until it ends, or until the log was taken.
    waited_s = jobs["queue_s"].fill_null(0.0) + jobs[REQUEUE].fill_null(0.0)
    requested_s = waited_s.to_numpy() + jobs["duration_s"].to_numpy()
    requested = to_micros(np.minimum(requested_s, 1e9))
    gpus = jobs["num_gpus"].to_numpy()
    has_calendar = not trace.provenance.relative_time
    assert isinstance(last, int)
    last = max(last, int((submit + requested)[is_running].max(initial=0)))
    first, end = int(submit[0] // HOUR_US), last // HOUR_US
    hour = end if request.at is None else _hour_of(request.at, has_calendar)
    if request.at is not None and not first < hour <= end + 1:
        raise _outside(request, first, end + 1, has_calendar)
    names = (
        pl.repeat(ALL, jobs.height, eager=True) if request.by == ALL else names_of(jobs[request.by])
    )
    if names.null_count() == len(names):
        notes.append(f"no job has a {request.by}: all make one series")
        names = pl.repeat(ALL, jobs.height, eager=True)
    if hour - first > MOST_HOURS:
        begin, last_hour = (
            time_of_hour(edge).date() if has_calendar else edge for edge in (first, hour)
        )
        raise InputError(
            request.trace,
            f"its jobs span {hour - first:,} hours, from {begin} to {last_hour}",
            expected=f"at most {MOST_HOURS:,} hours (22 years)",
            hint="leave out jobs with a wrong date: --since, or --where",
        )
    if hour <= first:
        demand = DemandSeries((ALL,), np.zeros((1, 0)), first, has_calendar)
        return DemandSource(demand, {}, False, trace_input(trace), tuple(notes))
    demand = demand_of_jobs(
        submit, requested, gpus, names, has_calendar=has_calendar, until_hour=hour, most=MOST_SERIES
    )
    return DemandSource(
        demand,
        _most_held(trace, None if request.at is None else hour),
        request.by == "gpu_type",
        trace_input(trace),
        tuple(notes),
    )


def _most_held(trace: Trace, hour: int | None) -> dict[str, float]:
    """Return the most GPUs that all jobs held at once before an hour, spot jobs included."""
    if hour is not None:
        begin = trace.jobs["submit_time"].dt.epoch("us")[0]
        trace = replace(trace, period=(begin, hour * HOUR_US))
    held = today.today(trace)
    if held is None:
        return {}
    peaks = {of_type.gpu_type or "": of_type.peak_gpus for of_type in held.gpu_types}
    if UNNAMED in peaks:
        peaks[NO_NAME] = peaks.pop(UNNAMED)
    return {ALL: held.usage.peak_gpus, **peaks}


def _hour_of(at: datetime | int, has_calendar: bool) -> int:
    """Return the number of an hour. Raises `UsageError` where the source counts otherwise."""
    if isinstance(at, int):
        if has_calendar:
            raise UsageError(f"--at {at}: expected a time such as 2026-01-31T12:00")
        return at
    return int(at.timestamp()) // 3600


def _outside(request: ForecastRequest, first: int, end: int, has_calendar: bool) -> UsageError:
    low, high = (
        (time_of_hour(hour).isoformat()[:16] if has_calendar else str(hour))
        for hour in (first + 1, end)
    )
    return UsageError(f"--at {request.at}: {request.trace} allows {low} to {high}")
