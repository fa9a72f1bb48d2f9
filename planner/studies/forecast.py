"""Forecast how many GPUs each group asks for in the next hours, and how many can be lent."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl

from gpuplan.analysis.arrays import FloatArray
from gpuplan.analysis.errors import InputError, UsageError
from gpuplan.analysis.files import sha256_of
from gpuplan.analysis.forecast.demand import (
    DemandSeries,
    demand_of_jobs,
    time_of_hour,
)
from gpuplan.analysis.forecast.forecast import (
    AUTO,
    DemandForecast,
    least_hours,
)
from gpuplan.analysis.forecast.forecast import forecast as run_models
from gpuplan.analysis.forecast.models import LAST_VALUE, LEVELS, MODELS
from gpuplan.analysis.forecast.scores import ModelScore
from gpuplan.analysis.forecast.series_file import is_series, read_series
from gpuplan.analysis.gpu_names import gpu_name, is_known_gpu, same_gpu
from gpuplan.analysis.ingest.logs import read_trace
from gpuplan.analysis.input_files import InputFile, trace_input
from gpuplan.analysis.lookup import find_named
from gpuplan.analysis.time_units import HOUR_US
from gpuplan.analysis.trace import Selection, written_utc
from gpuplan.analysis.words import counted, listed
from gpuplan.simkit.cluster_shape import ClusterShape
from gpuplan.simkit.time import to_micros

BY = ("group", "user", "job_class", "gpu_type", "all")
MOST_SERIES = 100
MOST_STEPS = 24
ALL = "all"
GUARANTEES = (0.9, 0.95)
COLUMNS = ("submit_time", "duration_s", "num_gpus", "state", "priority")
GIVEN, PEAK = "given", "peak"


@dataclass(frozen=True, slots=True)
class ForecastParameters:
    """What was asked for, as JSON has it."""

    by: str
    horizon_h: int
    at: str | None
    model: str
    cluster: str | None
    backtest: bool
    spot: str | None
    where: str | None
    since: str | None
    until: str | None
    sample: int | None
    scale_duration: float
    scale_interarrival: float
    seed: int


@dataclass(frozen=True, slots=True)
class ForecastRequest:
    """Whose demand to forecast, and when.

    Attributes:
        source: a trace, a log, or a CSV of hourly demand.
        jobs: which jobs of a trace.
        by: one of `BY`, what makes a series; of a CSV whether its columns are GPU types.
        horizon_h: hours ahead, 1 to 24.
        at: the forecast is issued at the beginning of this hour, a time or, without a calendar, an
            hour; None for the end of what is known.
        model: one of `MODELS`, or ``auto``.
        cluster: GPUs that there are; None for the most asked for so far.
        backtest: whether the errors of every model are asked for too.
    """

    source: Path
    jobs: Selection = field(default_factory=Selection)
    by: str = "group"
    horizon_h: int = 4
    at: datetime | int | None = None
    model: str = AUTO
    cluster: ClusterShape | None = None
    backtest: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.horizon_h <= MOST_STEPS:
            raise UsageError(f"--horizon: expected 1h to {MOST_STEPS}h, got {self.horizon_h}h")
        if self.by not in BY:
            raise UsageError(f"--by {self.by}: expected one of {', '.join(BY)}")
        find_named(self.model, {AUTO: "", **MODELS}, "--model", "model")
        if self.cluster is not None and self.cluster.gpus is None:
            raise UsageError("--cluster: expected a number of GPUs, such as 64x8")

    @property
    def reads(self) -> tuple[Path, ...]:
        """The files it reads."""
        return (self.source,)

    @property
    def writes(self) -> tuple[Path, ...]:
        """The files it writes: none."""
        return ()

    def check(self) -> None:
        """Check what can be checked before the source is read: nothing more than the fields."""

    def parameters(self) -> ForecastParameters:
        """Return what goes under ``parameters`` in the JSON output."""
        at = self.at
        written = written_utc(at) if isinstance(at, datetime) else None if at is None else str(at)
        return ForecastParameters(
            by=self.by,
            horizon_h=self.horizon_h,
            at=written,
            model=self.model,
            cluster=None if self.cluster is None else str(self.cluster),
            backtest=self.backtest,
            **{"spot": None, **self.jobs.parameters()},
        )


@dataclass(frozen=True, slots=True)
class NextHour:
    """What is expected of an hour.

    Attributes:
        hour: its number, since 1970 in UTC where the source has a calendar.
        begin: when it begins, UTC; null without a calendar.
        mean_gpus: GPUs expected at its peak.
        p50_gpus, p90_gpus, p95_gpus: GPUs that its peak stays at or below with this probability.
    """

    hour: int
    begin: str | None
    mean_gpus: float
    p50_gpus: float
    p90_gpus: float
    p95_gpus: float


@dataclass(frozen=True, slots=True)
class SeriesForecast:
    """The forecast of one series.

    Attributes:
        name: the group.
        mean_gpus: mean of its hourly peaks so far.
        peak_gpus: the highest so far.
        last_gpus: that of the last hour.
        chosen: the model that the next hours come from.
        models: the errors of every model in the test part.
        next_hours: what is expected.
    """

    name: str
    mean_gpus: float
    peak_gpus: float
    last_gpus: float
    chosen: str
    models: tuple[ModelScore, ...]
    next_hours: tuple[NextHour, ...]


@dataclass(frozen=True, slots=True)
class Lendable:
    """How many GPUs can be lent as spot.

    Attributes:
        pool: the series, or ``all`` of them together.
        capacity_gpus: GPUs that there are.
        capacity_from: whether they were given, or are the peak of the demand so far.
        guarantee_h: hours for which they are lent.
        p: probability that the lender does not need them before.
        demand_bound_gpus: demand in these hours stays at or below with this probability.
        gpus: what can be lent.
    """

    pool: str
    capacity_gpus: float
    capacity_from: str
    guarantee_h: int
    p: float
    demand_bound_gpus: float
    gpus: float


@dataclass(frozen=True, slots=True)
class ForecastResults:
    """The next hours.

    Attributes:
        issued_hour: number of the first hour forecast.
        issued_at: when it begins, UTC; null without a calendar.
        hours: hours known before.
        train_hours, validation_hours, test_hours: which fit, choose and test the models.
        window_h: hours that the linear models look back; null where they are left out.
        series: the forecast of each.
        lendable: what can be lent.
        models: errors of every model, the mean over the series.
        maqe_90, maqe_95: mean over the series of the distance of the coverage of the chosen models
            from 0.9 and 0.95.
        last_value_wins: series for which no model was better than the last value in validation.
        models_left_out: models that need a longer history.
    """

    issued_hour: int
    issued_at: str | None
    hours: int
    train_hours: int
    validation_hours: int
    test_hours: int
    window_h: int | None
    series: tuple[SeriesForecast, ...]
    lendable: tuple[Lendable, ...]
    models: tuple[ModelScore, ...]
    maqe_90: float
    maqe_95: float
    last_value_wins: int
    models_left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ForecastStudy:
    """The next hours of a source.

    Attributes:
        results: the numbers as JSON has them.
        found: the forecast behind them.
        inputs: the file read.
        warnings: what the reader must know.
    """

    results: ForecastResults
    found: DemandForecast
    inputs: tuple[InputFile, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Source:
    """Demand as read, up to the hour at which the forecast is issued."""

    demand: DemandSeries
    peak_gpus: float
    are_pools: bool
    input: InputFile
    notes: tuple[str, ...]


def forecast(request: ForecastRequest) -> ForecastStudy:
    """Return the next hours of every group.

    Raises:
        InputError: the source cannot be used, or is too short.
        UsageError: a time outside of it, or GPU types of a cluster that it does not have.
    """
    source = _from_series(request) if is_series(request.source) else _from_trace(request)
    demand, needed = source.demand, least_hours(request.horizon_h)
    if demand.hours < needed:
        raise InputError(
            request.source,
            f"{counted(max(demand.hours, 0), 'full hour')} before the forecast",
            expected=f"at least {needed} for a horizon of {request.horizon_h} h",
            hint="give a longer log, or a shorter --horizon",
        )
    try:
        found = run_models(demand, request.horizon_h, request.model)
    except ValueError as error:
        raise UsageError(f"--model {request.model}: {error}") from error
    scores = found.scores
    pooled = tuple(_mean_score([own[at] for own in scores]) for at in range(len(scores[0])))
    chosen = [
        next(one for one in own if one.name == name)
        for own, name in zip(scores, found.chosen, strict=True)
    ]
    best = [min(own, key=lambda one: one.validation_mae).name for own in scores]
    results = ForecastResults(
        issued_hour=demand.first_hour + demand.hours,
        issued_at=_written(demand, demand.first_hour + demand.hours),
        hours=demand.hours,
        train_hours=found.split.train,
        validation_hours=found.split.valid - found.split.train,
        test_hours=demand.hours - found.split.valid,
        window_h=found.split.window_h,
        series=tuple(_series(found, at) for at in range(len(demand.names))),
        lendable=tuple(_lendable(request, source, found)),
        models=pooled,
        maqe_90=float(np.mean([abs(one.coverage_90 - 0.9) for one in chosen])),
        maqe_95=float(np.mean([abs(one.coverage_95 - 0.95) for one in chosen])),
        last_value_wins=best.count(LAST_VALUE),
        models_left_out=found.left_out,
    )
    left_out = (
        (
            f"{counted(demand.hours, 'hour')} are too few for {', '.join(found.left_out)}; the "
            "other models are compared",
        )
        if found.left_out
        else ()
    )
    return ForecastStudy(results, found, (source.input,), (*source.notes, *left_out))


def _from_series(request: ForecastRequest) -> _Source:
    demand = read_series(request.source)
    wrong = [name for name, value in request.jobs.parameters().items() if value not in (None, 1, 0)]
    if wrong:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in wrong)
        raise UsageError(f"{options}: {request.source} is a table of demand and has no jobs")
    rows = demand.hours
    end = demand.first_hour + demand.hours
    hour = end if request.at is None else _hour_of(request.at, demand.has_calendar)
    if not demand.first_hour < hour <= end:
        raise _outside(request, demand.first_hour, end, demand.has_calendar)
    demand = demand.before(hour)
    return _Source(
        demand,
        float(demand.gpus.sum(axis=0).max()),
        request.by == "gpu_type"
        or (request.by == "group" and all(map(is_known_gpu, demand.names))),
        InputFile(str(request.source), sha256_of(request.source), rows),
        (),
    )


def _from_trace(request: ForecastRequest) -> _Source:
    by = () if request.by == ALL else (request.by,)
    trace = read_trace(request.source, request.jobs, columns=(*COLUMNS, *by))
    jobs, notes = trace.jobs, list(trace.notes)
    is_spot = (jobs["priority"] == "spot").fill_null(False)
    timeless = jobs["duration_s"].is_null()
    kept = ~is_spot & ~timeless & (jobs["num_gpus"] > 0)
    if is_spot.any():
        notes.append(
            f"{counted(int(is_spot.sum()), 'spot job')} left out: only others have a claim"
        )
    if (timeless & ~is_spot).any():
        count = int((timeless & ~is_spot).sum())
        notes.append(f"{counted(count, 'job')} left out without a duration")
    if not kept.any():
        raise InputError(
            request.source,
            "no job has GPUs, a duration and a claim to its GPUs",
            expected="jobs that are not spot",
            hint="check --where and --spot",
        )
    last = jobs["submit_time"].dt.epoch("us").max()
    jobs = jobs.filter(kept)
    submit = jobs["submit_time"].dt.epoch("us").to_numpy()
    duration = to_micros(np.minimum(jobs["duration_s"].to_numpy(), 1e9))
    gpus = jobs["num_gpus"].to_numpy()
    has_calendar = not trace.provenance.relative_time
    assert isinstance(last, int)
    first, end = int(submit[0] // HOUR_US), last // HOUR_US
    hour = end if request.at is None else _hour_of(request.at, has_calendar)
    if request.at is not None and not first < hour <= end + 1:
        raise _outside(request, first, end + 1, has_calendar)
    names = pl.repeat(ALL, jobs.height, eager=True) if request.by == ALL else jobs[request.by]
    if names.null_count() == len(names):
        notes.append(f"no job has a {request.by}: all make one series")
        names = pl.repeat(ALL, jobs.height, eager=True)
    if hour <= first:
        demand = DemandSeries((ALL,), np.zeros((1, 0)), first, has_calendar)
        return _Source(demand, 0.0, False, trace_input(trace), tuple(notes))

    def demanded(names: pl.Series) -> DemandSeries:
        return demand_of_jobs(
            submit, duration, gpus, names,
            has_calendar=has_calendar, until_hour=hour, most=MOST_SERIES,
        )  # fmt: skip

    together = demanded(pl.repeat(ALL, jobs.height, eager=True))
    return _Source(
        demanded(names),
        float(together.gpus.max()),
        request.by == "gpu_type",
        trace_input(trace),
        tuple(notes),
    )


def _hour_of(at: datetime | int, has_calendar: bool) -> int:
    """Return the number of an hour. Raises `UsageError` where the source counts otherwise."""
    if isinstance(at, int):
        if has_calendar:
            raise UsageError(f"--at {at}: expected a time such as 2026-01-31T12:00")
        return at
    return int(at.timestamp()) // 3600


def _outside(request: ForecastRequest, first: int, end: int, has_calendar: bool) -> UsageError:
    low, high = (
        (time_of_hour(one).isoformat()[:16] if has_calendar else str(one))
        for one in (first + 1, end)
    )
    return UsageError(f"--at {request.at}: {request.source} allows {low} to {high}")


def _written(demand: DemandSeries, hour: int) -> str | None:
    if not demand.has_calendar:
        return None
    return time_of_hour(hour).replace(tzinfo=None).isoformat()


def _series(found: DemandForecast, at: int) -> SeriesForecast:
    demand = found.demand
    own, begin = demand.gpus[at], demand.first_hour + demand.hours
    return SeriesForecast(
        name=demand.names[at],
        mean_gpus=float(own.mean()),
        peak_gpus=float(own.max()),
        last_gpus=float(own[-1]),
        chosen=found.chosen[at],
        models=found.scores[at],
        next_hours=tuple(
            NextHour(
                begin + step,
                _written(demand, begin + step),
                float(found.mean[step, at]),
                *(float(found.bounds[level, step, at]) for level in range(len(LEVELS))),
            )
            for step in range(found.split.steps)
        ),
    )


def _mean_score(scores: list[ModelScore]) -> ModelScore:
    """Return the mean of each error over several series."""

    def mean(name: str) -> float:
        values: FloatArray = np.array([getattr(one, name) for one in scores], np.float64)
        known = values[~np.isnan(values)]
        return float(known.mean()) if known.size else np.nan

    names = (one.name for one in fields(ModelScore) if one.name != "name")
    return ModelScore(scores[0].name, **{name: mean(name) for name in names})


def _lendable(request: ForecastRequest, source: _Source, found: DemandForecast) -> list[Lendable]:
    """Return what each pool can lend at each guarantee."""
    demand, shape = source.demand, request.cluster
    names = demand.names
    typed = shape is not None and shape.gpu_types != ()
    if source.are_pools or (typed and request.by != "all"):
        pools = {name: [at] for at, name in enumerate(names)}
    else:
        pools = {ALL: list(range(len(names)))}
    capacity: dict[str, tuple[float, str]] = {}
    for name, members in pools.items():
        peak = source.peak_gpus if name == ALL else float(demand.gpus[members].sum(axis=0).max())
        capacity[name] = (peak, PEAK)
    if shape is not None:
        capacity |= _given_capacity(shape, list(pools))
    hours = [h for h in (1, 2, 4, 8, 12, 24) if h <= found.split.steps]
    rows = []
    for name, members in pools.items():
        gpus, source_of = capacity[name]
        for level in GUARANTEES:
            for guarantee in hours:
                bound = found.pool_bound(level, guarantee, members)
                free = max(0.0, float(np.floor(gpus - bound + 1e-9)))
                rows.append(Lendable(name, gpus, source_of, guarantee, level, bound, free))
    return rows


def _given_capacity(shape: ClusterShape, pools: list[str]) -> dict[str, tuple[float, str]]:
    """Return the GPUs of each pool of a cluster. Raises `UsageError` where they do not match."""
    if not shape.gpu_types or (len(shape.pools) == 1 and len(pools) == 1):
        if len(pools) > 1:
            raise UsageError(
                f"--cluster {shape}: {len(pools)} GPU types are forecast\n  next: give GPUs of "
                f"each, such as --cluster {pools[0]}=64x8"
            )
        return {pools[0]: (float(shape.gpus or 0), GIVEN)}
    found: dict[str, tuple[float, str]] = {}
    for pool in shape.pools:
        own = [
            name
            for name in pools
            if name == pool.gpu_type or same_gpu(gpu_name(name), gpu_name(str(pool.gpu_type)))
        ]
        if len(own) != 1:
            raise UsageError(
                f"--cluster {shape}: {pool.gpu_type} is none of the series {listed(pools)}"
            )
        found[own[0]] = (float(pool.gpus or 0), GIVEN)
    return found
