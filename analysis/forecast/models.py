"""The models of demand by name: each forecasts every hour from the hours before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from gpuplan.analysis.base.arrays import BoolArray, FloatArray
from gpuplan.analysis.forecast.demand import DAY_H, WEEK_H
from gpuplan.analysis.forecast.linear import fit_linear

LEVELS = (0.5, 0.9, 0.95)
"""The share of hours in which demand should stay at or below each bound."""
LENGTHS_H = (672, 336, 168, 72, 48, 24)
LAST_VALUE, ORGLINEAR, DLINEAR = "last-value", "orglinear", "dlinear"
SEASONAL_DAY, SEASONAL_WEEK, WEEK_PEAK = "seasonal-24h", "seasonal-168h", "last-week-peak"
MODELS = {
    LAST_VALUE: "the next hours are as the last one",
    SEASONAL_DAY: "as the same hour a day before",
    SEASONAL_WEEK: "as the same hour a week before",
    WEEK_PEAK: "as the highest hour of the past week",
    DLINEAR: "linear in trend and remainder of the past four weeks",
    ORGLINEAR: "linear as well, with hours, weekdays and groups, and a width of its own",
}
"""What is chosen among; of equal ones the first."""


@dataclass(frozen=True, slots=True)
class Split:
    """Which hours train, choose and test a model.

    Attributes:
        train, valid: the first hour of the validation part, and of the test part.
        hours: all hours.
        steps: hours ahead.
    """

    train: int
    valid: int
    hours: int
    steps: int

    @classmethod
    def of(cls, hours: int, steps: int) -> Split:
        """Return the split 60/20/20."""
        return cls(6 * hours // 10, 8 * hours // 10, hours, steps)

    @property
    def validation(self) -> range:
        """Hours at which forecasts of the validation part are issued."""
        return range(self.train, self.valid - self.steps + 1)

    @property
    def test(self) -> range:
        """Hours at which forecasts of the test part are issued."""
        return range(self.valid, self.hours - self.steps + 1)

    @property
    def window_h(self) -> int | None:
        """Hours that a linear model looks back; None where the training part is too short."""
        fits = (
            length_h for length_h in LENGTHS_H if self.train - length_h - self.steps + 1 >= length_h
        )
        return next(fits, None)


@dataclass(frozen=True, slots=True)
class Forecasts:
    """What a model says at the beginning of every hour from ``first`` on, the one after the last
    included.

    Attributes:
        name: one of `MODELS`.
        first: the first hour at which it is issued.
        mean: shape (steps, series, issues), GPUs, >= 0.
        bounds: of each level, shape (levels, steps, series, issues), >= 0.
    """

    name: str
    first: int
    mean: FloatArray
    bounds: FloatArray

    def at(self, issues: range) -> tuple[FloatArray, FloatArray]:
        """Return the mean and the bounds issued at these hours."""
        part = slice(issues.start - self.first, issues.stop - self.first)
        return self.mean[:, :, part], self.bounds[:, :, :, part]


def targets(series: FloatArray, issues: range, steps: int) -> FloatArray:
    """Return what came of the hours that were forecast; shape (steps, series, issues)."""
    return np.stack([series[:, issues.start + s : issues.stop + s] for s in range(steps)])


def forecasts_of(
    name: str,
    series: FloatArray,
    hour_of_week: int,
    split: Split,
    levels: Sequence[float] = LEVELS,
    is_holiday: BoolArray | None = None,
) -> Forecasts | None:
    """Return the forecasts of a model, fitted on the training part; None where that is too short.

    Args:
        name: one of `MODELS`.
        series: GPUs, shape (series, hours); hours after the validation part change nothing in
            forecasts issued before them.
        hour_of_week: of the first value.
        split: the parts.
        levels: shares of hours in which demand should stay at or below each bound.
        is_holiday: of each hour and each step beyond, for ``orglinear``; None where unknown.
    """
    if name in (ORGLINEAR, DLINEAR):
        return _linear(name, series, hour_of_week, split, levels, is_holiday)
    back, rule = _RULES[name]
    if split.train < back:
        return None
    mean = rule(series, split.train, split.steps)
    return _with_residual_bounds(name, series, split, mean, levels)


def _last_value(series: FloatArray, first: int, steps: int) -> FloatArray:
    return np.repeat(series[None, :, first - 1 :], steps, axis=0)


def _seasonal(period_h: int) -> Callable[[FloatArray, int, int], FloatArray]:
    def rule(series: FloatArray, first: int, steps: int) -> FloatArray:
        issues = series.shape[1] - first + 1
        begins = [first + step % period_h - period_h for step in range(steps)]
        return np.stack([series[:, begin : begin + issues] for begin in begins])

    return rule


def _week_peak(series: FloatArray, first: int, steps: int) -> FloatArray:
    windows = np.lib.stride_tricks.sliding_window_view(series, WEEK_H, axis=1)
    return np.repeat(windows[None, :, first - WEEK_H :].max(axis=3), steps, axis=0)


_RULES: dict[str, tuple[int, Callable[[FloatArray, int, int], FloatArray]]] = {
    LAST_VALUE: (1, _last_value),
    SEASONAL_DAY: (DAY_H, _seasonal(DAY_H)),
    SEASONAL_WEEK: (WEEK_H, _seasonal(WEEK_H)),
    WEEK_PEAK: (WEEK_H, _week_peak),
}
"""Model -> hours it looks back, and its rule."""


def _with_residual_bounds(
    name: str, series: FloatArray, split: Split, mean: FloatArray, levels: Sequence[float]
) -> Forecasts:
    """Add the quantiles of the errors in validation, by series and step."""
    issues = split.validation
    missed = targets(series, issues, split.steps) - mean[:, :, : len(issues)]
    excess = np.quantile(missed, levels, axis=2)
    bounds = np.maximum(mean[None] + excess[:, :, :, None], 0.0)
    return Forecasts(name, split.train, mean, bounds)


def _linear(
    name: str, series: FloatArray, hour_of_week: int, split: Split, levels: Sequence[float],
    is_holiday: BoolArray | None,
) -> Forecasts | None:  # fmt: skip
    length = split.window_h
    if length is None:
        return None
    is_full = name == ORGLINEAR
    model = fit_linear(
        series, hour_of_week, length, split.steps, split.train, split.valid,
        is_full=is_full, is_holiday=is_holiday,
    )  # fmt: skip
    mean, sigma = model.forecast(series, hour_of_week, is_holiday)
    first = split.train - length
    mean, sigma = np.maximum(mean[:, :, first:], 0.0), sigma[:, :, first:]
    if not is_full:
        return _with_residual_bounds(name, series, split, mean, levels)
    z = ndtri(levels)[:, None, None, None]
    return Forecasts(name, split.train, mean, np.maximum(mean[None] + z * sigma[None], 0.0))
