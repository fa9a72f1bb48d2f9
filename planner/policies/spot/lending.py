"""What a forecast of high-priority demand leaves to lend, hour by hour of a replay.

Every forecast is made from the hours before it: models are fitted anew to a history that grows.
"""

from __future__ import annotations

import threading
from hashlib import sha256
from itertools import pairwise

import numpy as np
import polars as pl
from scipy.special import ndtri

from gpuplan.analysis.forecast.demand import WEEK_H, DemandSeries, demand_of_jobs
from gpuplan.analysis.forecast.forecast import demand_bound
from gpuplan.analysis.forecast.models import (
    LAST_VALUE,
    ORGLINEAR,
    SEASONAL_DAY,
    SEASONAL_WEEK,
    Forecasts,
    Split,
    forecasts_of,
    targets,
)
from gpuplan.simkit.arrays import FloatArray, IntArray

CANDIDATES = (LAST_VALUE, SEASONAL_DAY, SEASONAL_WEEK, ORGLINEAR)
"""What ``auto`` chooses among."""

MOST_KEPT = 8
_KEPT: dict[tuple[object, ...], tuple[FloatArray, FloatArray]] = {}
_LOCK = threading.Lock()

MOST_GROUPS = 20
REFITS_H = (36, 72, 168, 336, 672)
"""Hours of history at which models are fitted anew, and then every four weeks."""
REFIT_SHARE = 0.04
"""Share of its history after which a model is fitted anew at the earliest: 4 weeks of 100."""
MOST_H = 104 * WEEK_H
"""Hours of history that a model learns from: the last two years."""


def hourly_demand(
    submit_us: IntArray, duration_us: IntArray, gpus: FloatArray, group: pl.Series, *,
    has_calendar: bool, hours: int,
) -> DemandSeries:  # fmt: skip
    """Return the demand of the largest groups over the hours of a replay; all others make one.

    A job asks for its GPUs for its run time: the waits of the log are not those of a replay.
    """
    first = int(submit_us[0] // 3_600_000_000)
    return demand_of_jobs(
        submit_us, duration_us, gpus, group,
        has_calendar=has_calendar, until_hour=first + hours, most=MOST_GROUPS,
    )  # fmt: skip


def demand_bound_by_hour(
    demand: DemandSeries, forecast: str, p: float, steps: int, aggregate: str
) -> FloatArray:
    """Return a bound of demand over the next hours, at the beginning of every hour; shape (hours,).

    Args:
        demand: hours of the replay.
        forecast: one of `gpuplan.planner.policies.spot.settings.FORECASTS`.
        p: probability with which demand stays below it.
        steps: hours that it is for.
        aggregate: ``pool`` or ``sum``, as `demand_bound` has it.
    """
    series = demand.gpus
    total = series.sum(axis=0)
    if forecast == "exact":
        padded = np.concatenate([total, np.full(steps, total[-1])])
        windows = np.lib.stride_tricks.sliding_window_view(padded, steps)
        exact: FloatArray = windows[: total.size].max(axis=1)
        return exact
    if forecast == "last-week-peak":
        padded = np.concatenate([np.zeros(WEEK_H), total])
        windows = np.lib.stride_tricks.sliding_window_view(padded, WEEK_H)[: total.size]
        peak: FloatArray = windows.max(axis=1)
        peak[0] = np.inf
        return peak
    mean, bound = _forecast(demand, forecast, p, steps)
    bound_by_hour = demand_bound(mean, bound - mean, aggregate)
    bound_by_hour[0] = np.inf  # nothing is known of demand, so nothing is lent
    return bound_by_hour


def _forecast(
    demand: DemandSeries, forecast: str, p: float, steps: int
) -> tuple[FloatArray, FloatArray]:
    """Return what `_fitted` does; policies that share a forecast share its cost."""
    content = sha256(demand.gpus.tobytes()).hexdigest()
    key = (content, demand.gpus.shape, demand.hour_of_week, forecast, p, steps)
    with _LOCK:
        if key not in _KEPT:
            while len(_KEPT) >= MOST_KEPT:
                del _KEPT[next(iter(_KEPT))]
            _KEPT[key] = _fitted(demand, forecast, p, steps)
        return _KEPT[key]


def _fitted(
    demand: DemandSeries, forecast: str, p: float, steps: int
) -> tuple[FloatArray, FloatArray]:
    """Return mean and bound at the beginning of every hour, shape (steps, groups, hours)."""
    series, hours = demand.gpus, demand.hours
    mean = np.empty((steps, series.shape[0], hours))
    bound = np.empty_like(mean)
    begins = _refits(hours, steps)
    _early(series[:, : (begins or [hours])[0]], p, mean, bound)
    for begin, end in pairwise([*begins, hours]):
        first = max(0, begin - MOST_H)
        past_hours = begin - first
        split = Split(3 * past_hours // 4, past_hours, past_hours, steps)
        past, hour_of_week = series[:, first:end], (demand.hour_of_week + first) % WEEK_H
        names = CANDIDATES if forecast == "auto" else (forecast,)
        if (
            past[:, :past_hours] == past[:, :1]
        ).all():  # demand did not change: it is expected to stay
            names = (LAST_VALUE,)
        models = [
            forecasts
            for name in names
            if (forecasts := forecasts_of(name, past, hour_of_week, split, (p,))) is not None
        ] or [_needed(past, hour_of_week, split, p)]
        errors = np.stack([_errors(forecasts, past, split) for forecasts in models])
        best = errors.argmin(axis=0)
        part = slice(begin, end)
        for group, at in enumerate(best.tolist()):
            own_mean, own_bound = models[at].at(range(past_hours, end - first))
            mean[:, group, part] = own_mean[:, group]
            bound[:, group, part] = own_bound[0, :, group]
    return mean, bound


def _refits(hours: int, steps: int) -> list[int]:
    """Return the hours of a replay at which models are fitted anew.

    The quarter of the history that tests a model holds at least one forecast of all steps.
    """
    begins = [h for h in REFITS_H if h < hours and h - 3 * h // 4 >= steps]
    while begins and begins[-1] >= REFITS_H[-1]:
        following = begins[-1] + max(REFITS_H[-1], int(REFIT_SHARE * begins[-1]))
        if following >= hours:
            break
        begins.append(following)
    return begins


def _needed(series: FloatArray, hour_of_week: int, split: Split, p: float) -> Forecasts:
    """Return the last value, where a history is too short for the model that was asked for."""
    forecasts = forecasts_of(LAST_VALUE, series, hour_of_week, split, (p,))
    assert forecasts is not None
    return forecasts


def _errors(forecasts: Forecasts, series: FloatArray, split: Split) -> FloatArray:
    mean, _ = forecasts.at(split.validation)
    error: FloatArray = np.abs(targets(series, split.validation, split.steps) - mean).mean(
        axis=(0, 2)
    )
    return error


def _early(series: FloatArray, p: float, mean: FloatArray, bound: FloatArray) -> None:
    """Fill in the first hours: the last value, and the deviation of all changes so far."""
    steps, z = mean.shape[0], float(ndtri(p))
    for hour in range(series.shape[1]):
        last = series[:, hour - 1] if hour else np.zeros(series.shape[0])
        for step in range(steps):
            change = series[:, step + 1 : hour] - series[:, : max(0, hour - step - 1)]
            sigma = np.sqrt((change**2).mean(axis=1)) if change.shape[1] > 1 else last
            mean[step, :, hour] = last
            bound[step, :, hour] = last + z * sigma
