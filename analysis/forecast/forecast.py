"""Forecast demand: every model is fitted, the best in validation speaks for each series."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import date

import numpy as np

from gpuplan.analysis.base.arrays import FloatArray
from gpuplan.analysis.forecast.demand import DemandSeries
from gpuplan.analysis.forecast.models import (
    LAST_VALUE,
    LEVELS,
    MODELS,
    Forecasts,
    Split,
    forecasts_of,
    targets,
)

LOG = logging.getLogger("gpuplan")
AUTO = "auto"
LEAST_H = 36
ROUNDING_GPUS = 1e-9
"""By which a demand at its bound may be above it: processors round sums differently."""


@dataclass(frozen=True, slots=True)
class ModelScore:
    """Errors of a model in the test part, all steps together; GPUs where not said otherwise.

    Attributes:
        name: the model.
        validation_mae: mean absolute error in the validation part, by which models are chosen.
        mae: mean absolute error.
        mse: mean squared error.
        rmse: root of it.
        mape: mean absolute error over the demand, in hours of at least 1 GPU; a fraction.
        pinball_90, pinball_95: pinball loss of the bound.
        coverage_90, coverage_95: share of hours with a demand at or below the bound.
    """

    name: str
    validation_mae: float
    mae: float
    mse: float
    rmse: float
    mape: float
    pinball_90: float
    pinball_95: float
    coverage_90: float
    coverage_95: float


def score(
    forecasts: Forecasts, series: FloatArray, validation: range, test: range
) -> list[ModelScore]:
    """Return the score of a model for each series."""
    steps = forecasts.mean.shape[0]
    early, _ = forecasts.at(validation)
    chosen_by = np.abs(targets(series, validation, steps) - early).mean(axis=(0, 2))
    mean, bounds = forecasts.at(test)
    truth = targets(series, test, steps)
    scores = []
    for row in range(series.shape[0]):
        demand, missed = truth[:, row], truth[:, row] - mean[:, row]
        counted = demand >= 1
        over = {level: demand - bounds[at, :, row] for at, level in enumerate(LEVELS)}
        mse = float((missed**2).mean())
        scores.append(
            ModelScore(
                name=forecasts.name,
                validation_mae=float(chosen_by[row]),
                mae=float(np.abs(missed).mean()),
                mse=mse,
                rmse=mse**0.5,
                mape=float(np.abs(missed[counted] / demand[counted]).mean())
                if counted.any()
                else np.nan,
                pinball_90=pinball(over[0.9], 0.9),
                pinball_95=pinball(over[0.95], 0.95),
                coverage_90=float((over[0.9] <= ROUNDING_GPUS).mean()),
                coverage_95=float((over[0.95] <= ROUNDING_GPUS).mean()),
            )
        )
    return scores


def pinball(over: FloatArray, level: float) -> float:
    """Return the mean pinball loss of a quantile, where ``over`` is the demand less the bound."""
    return float(np.maximum(level * over, (level - 1) * over).mean())


def demand_bound(mean: FloatArray, excess: FloatArray, aggregate: str) -> FloatArray:
    """Return an upper bound of the demand of several series together over some hours, GPUs.

    Source: GFS, ASPLOS 2026, Eq. 9.

    Args:
        mean: forecast of each series, GPUs; shape (hours ahead, series, ...).
        excess: by how much the bound of each exceeds its mean; same shape.
        aggregate: ``pool`` takes series as independent, so that excesses add up in squares, and the
            highest hour; ``sum`` adds up the bounds of all, each in its own highest hour.

    Returns:
        The bound; shape (...).
    """
    bound: FloatArray
    if aggregate == "pool":
        spread = np.sqrt((np.maximum(excess, 0.0) ** 2).sum(axis=1))
        bound = (mean.sum(axis=1) + spread).max(axis=0)
    else:
        bound = np.maximum(0.0, mean + excess).max(axis=0).sum(axis=0)
    return bound


@dataclass(frozen=True, slots=True)
class DemandForecast:
    """The next hours of every series, and how good such forecasts were.

    Attributes:
        demand: the hours known.
        split: which of them trained, chose and tested the models.
        chosen: the model of each series.
        scores: of each series, by model in the order of `MODELS`.
        mean: the next hours, shape (steps, series), GPUs.
        bounds: of each of `LEVELS`, shape (levels, steps, series).
        left_out: models that need a longer history.
    """

    demand: DemandSeries
    split: Split
    chosen: tuple[str, ...]
    scores: tuple[tuple[ModelScore, ...], ...]
    mean: FloatArray
    bounds: FloatArray
    left_out: tuple[str, ...]

    def pool_bound(self, level: float, hours: int, members: list[int]) -> float:
        """Return a bound of what some series ask for together in the next hours, GPUs.

        Series are taken as independent; see `demand_bound`.
        """
        mean = self.mean[:hours][:, members]
        bounds = self.bounds[LEVELS.index(level), :hours][:, members]
        return float(demand_bound(mean, bounds - mean, "pool"))


def least_hours(steps: int) -> int:
    """Return how many hours a forecast of so many steps needs."""
    return max(LEAST_H, 5 * (steps + 1))


def forecast(
    demand: DemandSeries, steps: int, model: str = AUTO, holidays: Collection[date] = ()
) -> DemandForecast:
    """Return the next hours of every series.

    Args:
        demand: at least `least_hours` of it.
        steps: hours ahead, 1 to 24.
        model: one of `MODELS`; ``auto`` chooses by the mean absolute error in validation.
        holidays: days, in UTC, on which demand may differ; past ones and those to come.

    Raises:
        ValueError: too few hours, or for this model; or holidays without a calendar.
    """
    if demand.hours < least_hours(steps):
        raise ValueError(
            f"a forecast of {steps} h needs {least_hours(steps)} h, got {demand.hours}"
        )
    if holidays and not demand.has_calendar:
        raise ValueError("holidays need hours with dates")
    is_holiday = demand.holiday_hours(holidays, steps) if holidays else None
    split = Split.of(demand.hours, steps)
    begun = time.process_time()
    forecasts: dict[str, Forecasts] = {}
    for name in MODELS:
        made = forecasts_of(name, demand.gpus, demand.hour_of_week, split, is_holiday=is_holiday)
        if made is None:
            if name == model:
                raise ValueError(f"{name} needs a longer history than {demand.hours} h")
            continue
        forecasts[name] = made
    spent = time.process_time() - begun
    LOG.info("training %d models took %.2g s of CPU time", len(forecasts), spent)
    validation, test = split.validation, split.test
    scores = [score(fitted, demand.gpus, validation, test) for fitted in forecasts.values()]
    by_series = tuple(zip(*scores, strict=True))
    chosen = tuple(
        min(scores, key=lambda score: score.validation_mae).name if model == AUTO else model
        for scores in by_series
    )
    last = range(demand.hours, demand.hours + 1)
    mean = np.empty((steps, len(chosen)))
    bounds = np.empty((len(LEVELS), steps, len(chosen)))
    for at, name in enumerate(chosen):
        own_mean, own_bounds = forecasts[name].at(last)
        mean[:, at], bounds[:, :, at] = own_mean[:, at, 0], own_bounds[:, :, at, 0]
    left_out = tuple(name for name in MODELS if name not in forecasts)
    assert LAST_VALUE in forecasts
    return DemandForecast(demand, split, chosen, by_series, mean, bounds, left_out)
