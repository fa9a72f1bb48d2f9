"""How good forecasts of spend would have been: each model at the end of each past month."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from gpuplan.planner.money.spend.models import MODELS
from gpuplan.planner.money.spend.recorded_use import RecordedUse, Usd
from gpuplan.planner.money.spend_request import AUTO, LAST_MONTH

LEAST_KNOWN = 3
"""Months known at a forecast that is tested."""
MOST_AHEAD = 3
"""Months ahead that are tested."""
ZERO = Fraction(0)


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
    lasts = range(LEAST_KNOWN - 1, use.known - 1)
    able = [name for name, model in MODELS.items() if all(model.can(use, last) for last in lasts)]
    return {
        name: [
            BacktestForecast(
                name, last, month, MODELS[name].forecast(use, last, month).usd, actual[month]
            )
            for last in lasts
            for month in range(last + 1, min(last + 1 + MOST_AHEAD, use.known))
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
