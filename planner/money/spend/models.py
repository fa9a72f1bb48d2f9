"""The models of spend by name, and how good they would have been at the end of each past month.

Each says what a month will cost from the whole months before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import exp

import numpy as np

from gpuplan.planner.money.spend.recorded_use import (
    SEASON_DAYS,
    MonthSpend,
    RecordedUse,
    Usd,
    mean_of,
)
from gpuplan.planner.money.spend_request import AUTO, DRIFT, LAST_MONTH, MEAN_OF_3, SEASONAL

MEAN_MONTHS = 3
FINEST = 100
"""Largest denominator of a growth factor: coarse enough for whole numbers, fine enough for use."""
MOST_GROWTH = 100
LEAST_KNOWN = 3
"""Months known at a forecast that is tested."""
MOST_AHEAD = 3
"""Months ahead that are tested."""
ZERO = Fraction(0)


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
    return mean_of([use.as_in_month(place, month) for place in past])


def _drift(use: RecordedUse, last: int, month: int) -> MonthSpend:
    growth = min(exp(monthly_drift(use, last) * (month - last)), MOST_GROWTH)
    return use.as_in_month(last, month, Fraction(growth).limit_denominator(FINEST))


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
        lambda use, last, month: use.as_in_month(last, month),
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
        RecordedUse.as_weekdays,
    ),
}
"""The models of `SPEND_MODELS`, which says what each of them is."""


@dataclass(frozen=True, slots=True)
class BacktestForecast:
    """What a model would have said of a month that is known now.

    Attributes:
        model: its name.
        last: place of the last month known then.
        month: place of the month.
        forecast, actual: dollars by label.
    """

    model: str
    last: int
    month: int
    forecast: Usd
    actual: Usd

    @property
    def ahead(self) -> int:
        """Months ahead."""
        return self.month - self.last

    @property
    def error(self) -> Fraction:
        """The error of the total: forecast less actual dollars."""
        return sum(self.forecast.values(), ZERO) - sum(self.actual.values(), ZERO)

    def error_of(self, label: str) -> Fraction:
        """Return the error of a label; one without dollars has 0."""
        return self.forecast.get(label, ZERO) - self.actual.get(label, ZERO)


def past_forecasts(use: RecordedUse, actual: Sequence[Usd]) -> dict[str, list[BacktestForecast]]:
    """Return the forecasts of each model that can be issued at the end of each tested month.

    Args:
        use: of the whole months.
        actual: what each of these cost.

    Raises:
        UsageError: use that would have been above the pools in a month without a price.
    """
    lasts = range(LEAST_KNOWN - 1, use.recorded_months - 1)
    able = [name for name, model in MODELS.items() if all(model.can(use, last) for last in lasts)]
    return {
        name: [
            BacktestForecast(
                name, last, month, MODELS[name].forecast(use, last, month).usd, actual[month]
            )
            for last in lasts
            for month in range(last + 1, min(last + 1 + MOST_AHEAD, use.recorded_months))
        ]
        for name in able
        if lasts
    }


def mean_absolute_error(forecasts: Sequence[BacktestForecast]) -> Fraction:
    """Return the mean absolute error of the total in dollars."""
    return sum((abs(past.error) for past in forecasts), ZERO) / len(forecasts)


def chosen_model(wanted: str, tested: Mapping[str, Sequence[BacktestForecast]]) -> str:
    """Return the model wanted; of ``auto`` that of the least error, the simplest of equal ones."""
    if wanted != AUTO:
        return wanted
    if not tested:
        return LAST_MONTH
    return min(tested, key=lambda name: mean_absolute_error(tested[name]))
