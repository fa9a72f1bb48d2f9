"""What a forecast of demand finds: every series, its next hours, its errors, what can be lent."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from gpuplan.analysis.base.arrays import FloatArray
from gpuplan.analysis.forecast.demand import DemandSeries, time_of_hour
from gpuplan.analysis.forecast.forecast import DemandForecast, ModelScore
from gpuplan.analysis.forecast.models import LEVELS


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


def begin_of(demand: DemandSeries, hour: int) -> str | None:
    """Return when an hour begins, UTC; None without a calendar."""
    if not demand.has_calendar:
        return None
    return time_of_hour(hour).replace(tzinfo=None).isoformat()


def series_of(found: DemandForecast, at: int) -> SeriesForecast:
    """Return the forecast of the series at this place."""
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
                begin_of(demand, begin + step),
                float(found.mean[step, at]),
                *(float(found.bounds[level, step, at]) for level in range(len(LEVELS))),
            )
            for step in range(found.split.steps)
        ),
    )


def mean_score(scores: list[ModelScore]) -> ModelScore:
    """Return the mean of each error over several series."""

    def mean(name: str) -> float:
        values: FloatArray = np.array([getattr(one, name) for one in scores], np.float64)
        known = values[~np.isnan(values)]
        return float(known.mean()) if known.size else np.nan

    names = (one.name for one in fields(ModelScore) if one.name != "name")
    return ModelScore(scores[0].name, **{name: mean(name) for name in names})
