"""Forecast how many GPUs each group asks for in the next hours, and how many can be lent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import date

import numpy as np

from gpuplan.analysis.base.arrays import FloatArray
from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.plain import Hidden
from gpuplan.analysis.base.words import counted, listed
from gpuplan.analysis.forecast.demand import DemandSeries, time_of_hour
from gpuplan.analysis.forecast.forecast import DemandForecast, ModelScore, least_hours
from gpuplan.analysis.forecast.forecast import forecast as run_models
from gpuplan.analysis.forecast.models import LAST_VALUE, LEVELS, Split
from gpuplan.analysis.storage.files import sha256_of
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.analysis.user_tables.holidays import holidays_file
from gpuplan.planner.money.spend.results import SpendResults
from gpuplan.planner.requests.forecast import ALL, ForecastRequest
from gpuplan.planner.runs.cluster_setting import match_pools
from gpuplan.planner.studies.answer import Answer
from gpuplan.planner.studies.forecast_source import DemandSource, demand_source
from gpuplan.planner.studies.forecast_spend import forecast_spend
from gpuplan.simkit.cluster_shape import ClusterShape

LOW = 0.05
"""Demand below this share of the median, at the end alone, is the mark of a log that was cut."""
GUARANTEES = (0.9, 0.95)
GIVEN, PEAK = "given", "peak"


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
        capacity_from: ``given``, or ``peak`` for the most held at once so far; of a table its
            highest demand.
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
        demand: the forecast behind it.
        low_hours: last hours whose demand is far below all before, where the log may have been cut.
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
    demand: Hidden[DemandForecast]
    low_hours: Hidden[int] = 0


@dataclass(frozen=True, slots=True)
class DemandPool:
    """GPUs that some of the series share.

    Attributes:
        name: the series, or ``all``.
        members: places of its series.
        capacity_gpus: GPUs that there are.
        capacity_from: whether they were given, or are the peak so far.
        peak_gpus: the most GPUs held at once so far; of a table the highest demand.
    """

    name: str
    members: list[int]
    capacity_gpus: float
    capacity_from: str
    peak_gpus: float


def forecast(request: ForecastRequest) -> Answer[ForecastRequest, ForecastResults | SpendResults]:
    """Return the next hours of every group, or what the next months cost.

    Raises:
        InputError: the source cannot be used, or is too short.
        UsageError: a time outside of it, or GPU types of a cluster that it does not have; of spend
            as `forecast_spend`.
    """
    request.check()
    if request.spending.spend:
        return forecast_spend(request)
    source = demand_source(request)
    demand, needed = source.demand, least_hours(request.horizon_h)
    if demand.hours < needed:
        raise InputError(
            request.trace,
            f"{counted(max(demand.hours, 0), 'full hour')} before the forecast",
            expected=f"at least {needed} for a horizon of {request.horizon_h} h",
            hint="give a longer log, or a shorter --horizon",
        )
    pools, holidays, notes = pools_of_demand(request, source), request.days(), list[str]()
    if holidays:
        if not demand.has_calendar:
            raise UsageError(f"--holidays: the hours of {request.trace} have no dates")
        notes += _unused(holidays, demand)
    low_hours = _low_hours(demand) if request.at is None else 0
    if low_hours:
        notes.append(_cut_short(demand, low_hours))
    try:
        expected = run_models(demand, request.horizon_h, request.model, holidays)
    except ValueError as error:
        raise UsageError(f"--model {request.model}: {error}") from error
    scores = expected.scores
    pooled = tuple(mean_score([*of_model]) for of_model in zip(*scores, strict=True))
    chosen = [
        next(score for score in of_series if score.name == name)
        for of_series, name in zip(scores, expected.chosen, strict=True)
    ]
    best = [min(of_series, key=lambda score: score.validation_mae).name for of_series in scores]
    results = ForecastResults(
        issued_hour=demand.first_hour + demand.hours,
        issued_at=begin_of(demand, demand.first_hour + demand.hours),
        hours=demand.hours,
        train_hours=expected.split.train,
        validation_hours=expected.split.valid - expected.split.train,
        test_hours=demand.hours - expected.split.valid,
        window_h=expected.split.window_h,
        series=tuple(series_of(expected, at) for at in range(len(demand.names))),
        lendable=tuple(lendable_of(pools, expected)),
        models=pooled,
        maqe_90=float(np.mean([abs(score.coverage_90 - 0.9) for score in chosen])),
        maqe_95=float(np.mean([abs(score.coverage_95 - 0.95) for score in chosen])),
        last_value_wins=best.count(LAST_VALUE),
        models_left_out=expected.left_out,
        demand=expected,
        low_hours=low_hours,
    )
    left_out = (
        (
            f"{counted(demand.hours, 'hour')} are too few for {', '.join(expected.left_out)}; the "
            "other models are compared",
        )
        if expected.left_out
        else ()
    )
    inputs = (source.input, *_holiday_input(request, len(holidays)))
    warnings = (*source.notes, *too_small(pools), *left_out, *notes)
    return Answer(request=request, results=results, inputs=inputs, warnings=warnings)


def _low_hours(demand: DemandSeries) -> int:
    """Return how many hours demand ends far below all that it was; 0 where it was so before."""
    total = demand.gpus.sum(axis=0)
    is_low = total < LOW * float(np.median(total))
    count = int(np.argmin(is_low[::-1])) if is_low[-1] else 0
    return count if count == is_low.sum() else 0


def _cut_short(demand: DemandSeries, count: int) -> str:
    """Return the note that the log may have been cut before so many last hours."""
    hour = demand.first_hour + demand.hours - count
    begin = begin_of(demand, hour)
    return (
        f"demand ends below {LOW:.0%} of its median in the last {counted(count, 'hour')}, as "
        f"never before; if the log was cut there, forecast from --at {begin or hour}"
    )


def _unused(holidays: Sequence[date], demand: DemandSeries) -> list[str]:
    """Return a note where no model can learn from the holidays: none is in the training part."""
    train = Split.of(demand.hours, 1).train
    if demand.holiday_hours(holidays, 0)[:train].any():
        return []
    begin, end = (time_of_hour(demand.first_hour + at).date() for at in (0, train))
    return [
        f"no holiday falls between {begin} and {end}, which is what the models learn from: they "
        "treat holidays as other days"
    ]


def _holiday_input(request: ForecastRequest, count: int) -> tuple[InputFile, ...]:
    path = None if request.holidays is None else holidays_file(request.holidays)
    return () if path is None else (InputFile(str(path), sha256_of(path), count),)


def begin_of(demand: DemandSeries, hour: int) -> str | None:
    """Return when an hour begins, UTC; None without a calendar."""
    if not demand.has_calendar:
        return None
    return time_of_hour(hour).replace(tzinfo=None).isoformat()


def series_of(expected: DemandForecast, at: int) -> SeriesForecast:
    """Return the forecast of the series at this place."""
    demand = expected.demand
    gpus, begin = demand.gpus[at], demand.first_hour + demand.hours
    return SeriesForecast(
        name=demand.names[at],
        mean_gpus=float(gpus.mean()),
        peak_gpus=float(gpus.max()),
        last_gpus=float(gpus[-1]),
        chosen=expected.chosen[at],
        models=expected.scores[at],
        next_hours=tuple(
            NextHour(
                begin + step,
                begin_of(demand, begin + step),
                float(expected.mean[step, at]),
                *(float(expected.bounds[level, step, at]) for level in range(len(LEVELS))),
            )
            for step in range(expected.split.steps)
        ),
    )


def mean_score(scores: list[ModelScore]) -> ModelScore:
    """Return the mean of each error over several series."""

    def mean(name: str) -> float:
        values: FloatArray = np.array([getattr(score, name) for score in scores], np.float64)
        values = values[~np.isnan(values)]
        return float(values.mean()) if values.size else np.nan

    names = (part.name for part in fields(ModelScore) if part.name != "name")
    return ModelScore(scores[0].name, **{name: mean(name) for name in names})


def pools_of_demand(request: ForecastRequest, source: DemandSource) -> list[DemandPool]:
    """Return the pools; those of a cluster with GPU types are the only ones.

    Raises:
        UsageError: the cluster does not match them.
    """
    demand, shape, peaks = source.demand, request.shape(), source.peak_gpus
    typed = shape is not None and shape.gpu_types != ()
    if source.are_pools or (typed and request.by != ALL):
        members = {name: [at] for at, name in enumerate(demand.names)}
    else:
        members = {ALL: list(range(len(demand.names)))}
    if shape is None:
        capacity, origin = {name: peaks.get(name, 0.0) for name in members}, PEAK
    else:
        capacity, origin = _cluster_capacity(shape, list(members)), GIVEN
    return [
        DemandPool(name, places, capacity[name], origin, peaks.get(name, 0.0))
        for name, places in members.items()
        if name in capacity
    ]


def too_small(pools: list[DemandPool]) -> list[str]:
    """Return a note for each pool that has fewer GPUs than its jobs have held."""
    return [
        f"{'' if pool.name == ALL else f'{pool.name}: '}jobs have held {pool.peak_gpus:,.0f} "
        f"GPUs at once, more than the {pool.capacity_gpus:,.0f} there are"
        for pool in pools
        if pool.peak_gpus > pool.capacity_gpus
    ]


def lendable_of(pools: list[DemandPool], expected: DemandForecast) -> list[Lendable]:
    """Return what each pool can lend at each guarantee."""
    hours = [h for h in (1, 2, 4, 8, 12, 24) if h <= expected.split.steps]
    rows = []
    for pool in pools:
        gpus, source = pool.capacity_gpus, pool.capacity_from
        for level in GUARANTEES:
            for guarantee in hours:
                bound = expected.pool_bound(level, guarantee, pool.members)
                free = max(0.0, float(np.floor(gpus - bound + 1e-9)))
                rows.append(Lendable(pool.name, gpus, source, guarantee, level, bound, free))
    return rows


def _cluster_capacity(shape: ClusterShape, pools: list[str]) -> dict[str, float]:
    """Return the GPUs of each pool of a cluster. Raises `UsageError` where they do not match."""
    if not shape.gpu_types or (len(shape.pools) == 1 and len(pools) == 1):
        if len(pools) > 1:
            raise UsageError(
                f"--cluster {shape}: {len(pools)} GPU types are forecast\n  next: give GPUs of "
                f"each, such as --cluster {pools[0]}=64x8"
            )
        return {pools[0]: float(shape.gpus or 0)}
    pool_of = match_pools(shape, pools)
    for pool in shape.pools:
        if pool not in pool_of.values():
            raise UsageError(
                f"--cluster {shape}: no GPU type is called {pool.gpu_type} here; the series are "
                f"{listed(pools)}\n  next: GPUs of each of these, or GPUs without a type where the "
                f"log names none: --cluster {shape.gpus}"
            )
    return {str(name): float(pool.gpus or 0) for name, pool in pool_of.items()}
