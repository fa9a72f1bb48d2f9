"""The models of spend by name: each says what a month will cost from the whole months before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import exp

import numpy as np

from gpuplan.planner.money.spend.recorded_use import (
    SEASON_DAYS,
    MonthSpend,
    RecordedUse,
    mean_of,
)
from gpuplan.planner.money.spend_request import DRIFT, LAST_MONTH, MEAN_OF_3, SEASONAL

MEAN_MONTHS = 3
FINEST = 100
"""Largest denominator of a growth factor: coarse enough for whole numbers, fine enough for use."""
MOST_GROWTH = 100


@dataclass(frozen=True, slots=True)
class SpendModel:
    """A model of spend.

    Attributes:
        needs: the whole months or days that it needs, in words.
        can: whether it can be issued at the end of a month.
        forecast: what a month costs, of use, the place of the last month known and of the month.
    """

    needs: str
    can: Callable[[RecordedUse, int], bool]
    forecast: Callable[[RecordedUse, int, int], MonthSpend]


def _has_three(_: RecordedUse, last: int) -> bool:
    return last + 1 >= MEAN_MONTHS


def _mean_of_3(use: RecordedUse, last: int, month: int) -> MonthSpend:
    past = range(last + 1 - MEAN_MONTHS, last + 1)
    return mean_of([use.like(place, month) for place in past])


def _drift(use: RecordedUse, last: int, month: int) -> MonthSpend:
    growth = min(exp(monthly_drift(use, last) * (month - last)), MOST_GROWTH)
    return use.like(last, month, Fraction(growth).limit_denominator(FINEST))


def monthly_drift(use: RecordedUse, last: int) -> float:
    """Return the slope of the logarithm of GPU-hours per hour over the months up to the last one.

    It is the median of the slopes between any two months (Theil 1950, Sen 1968), so that one
    unusual month does not count. Months without use are left out.
    """
    hours = np.diff(use.months.edges_us[: last + 2])
    rate = use.gpu_h[: last + 1] / hours
    used = np.flatnonzero(rate > 0).tolist()
    log = np.log(np.where(rate > 0, rate, 1.0))
    slopes = [
        (log[after] - log[before]) / (after - before) for before, after in combinations(used, 2)
    ]
    return float(np.median(slopes)) if slopes else 0.0


MODELS = {
    LAST_MONTH: SpendModel(
        "1 whole month",
        lambda _use, last: last >= 0,
        lambda use, last, month: use.like(last, month),
    ),
    MEAN_OF_3: SpendModel(
        f"{MEAN_MONTHS} whole months",
        _has_three,
        _mean_of_3,
    ),
    DRIFT: SpendModel(
        f"{MEAN_MONTHS} whole months",
        _has_three,
        _drift,
    ),
    SEASONAL: SpendModel(
        f"{SEASON_DAYS} days of whole months, with dates",
        RecordedUse.has_season,
        RecordedUse.like_weekdays,
    ),
}
"""The models of `SPEND_MODELS`, which says what each of them is."""
