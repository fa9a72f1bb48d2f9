"""Forecast how many GPUs each group asks for in the next hours, and how many can be lent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.forecast.demand import DemandSeries, time_of_hour
from gpuplan.analysis.forecast.forecast import DemandForecast, least_hours
from gpuplan.analysis.forecast.forecast import forecast as run_models
from gpuplan.analysis.forecast.models import LAST_VALUE, Split
from gpuplan.analysis.storage.files import sha256_of
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.analysis.user_tables.holidays import holidays_file
from gpuplan.planner.studies.forecast_lending import lendable_of, pools_of_demand, too_small
from gpuplan.planner.studies.forecast_request import ForecastRequest
from gpuplan.planner.studies.forecast_results import (
    ForecastResults,
    begin_of,
    mean_score,
    series_of,
)
from gpuplan.planner.studies.forecast_source import demand_source

LOW = 0.05
"""Demand below this share of the median, at the end alone, is the mark of a log that was cut."""


@dataclass(frozen=True, slots=True)
class ForecastStudy:
    """The next hours of a source.

    Attributes:
        results: the numbers as JSON has them.
        found: the forecast behind them.
        inputs: the file read.
        warnings: what the reader must know.
        low_hours: last hours whose demand is far below all before, where the log may have been cut.
    """

    results: ForecastResults
    found: DemandForecast
    inputs: tuple[InputFile, ...]
    warnings: tuple[str, ...]
    low_hours: int = 0


def forecast(request: ForecastRequest) -> ForecastStudy:
    """Return the next hours of every group.

    Raises:
        InputError: the source cannot be used, or is too short.
        UsageError: a time outside of it, or GPU types of a cluster that it does not have.
    """
    source = demand_source(request)
    demand, needed = source.demand, least_hours(request.horizon_h)
    if demand.hours < needed:
        raise InputError(
            request.source,
            f"{counted(max(demand.hours, 0), 'full hour')} before the forecast",
            expected=f"at least {needed} for a horizon of {request.horizon_h} h",
            hint="give a longer log, or a shorter --horizon",
        )
    pools, holidays, notes = pools_of_demand(request, source), request.days(), list[str]()
    if holidays:
        if not demand.has_calendar:
            raise UsageError(f"--holidays: the hours of {request.source} have no dates")
        notes += _unused(holidays, demand)
    low_hours = _low_hours(demand) if request.at is None else 0
    if low_hours:
        notes.append(_cut_short(demand, low_hours))
    try:
        found = run_models(demand, request.horizon_h, request.model, holidays)
    except ValueError as error:
        raise UsageError(f"--model {request.model}: {error}") from error
    scores = found.scores
    pooled = tuple(mean_score([own[at] for own in scores]) for at in range(len(scores[0])))
    chosen = [
        next(one for one in own if one.name == name)
        for own, name in zip(scores, found.chosen, strict=True)
    ]
    best = [min(own, key=lambda one: one.validation_mae).name for own in scores]
    results = ForecastResults(
        issued_hour=demand.first_hour + demand.hours,
        issued_at=begin_of(demand, demand.first_hour + demand.hours),
        hours=demand.hours,
        train_hours=found.split.train,
        validation_hours=found.split.valid - found.split.train,
        test_hours=demand.hours - found.split.valid,
        window_h=found.split.window_h,
        series=tuple(series_of(found, at) for at in range(len(demand.names))),
        lendable=tuple(lendable_of(pools, found)),
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
    inputs = (source.input, *_holiday_input(request, len(holidays)))
    warnings = (*source.notes, *too_small(pools), *left_out, *notes)
    return ForecastStudy(results, found, inputs, warnings, low_hours)


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
