"""Forecasts of spend as results: rounded to cents so that rows add up, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from gpuplan.planner.money.bill import IDLE, split_cents, whole_cents
from gpuplan.planner.money.spend.interval import intervals
from gpuplan.planner.money.spend.models import MODELS, BacktestForecast, mean_absolute_error
from gpuplan.planner.money.spend.recorded_use import MonthSpend, RecordedUse, Usd
from gpuplan.planner.money.spend.results import (
    AheadError,
    LabelError,
    ModelRow,
    PastSpend,
    SpendModelResult,
    SpendRow,
    SpendTotal,
)

SoFar = Mapping[str, tuple[Fraction, float]]
"""Month -> what the part of it in the log has cost, and the hours of that part."""


def cents_of(usd: Usd) -> dict[str, int]:
    """Return the cents of each label, which add up to those of the whole; as a bill rounds."""
    names = sorted(name for name, amount in usd.items() if amount)
    parts = [usd[name] for name in names]
    return dict(zip(names, split_cents(whole_cents(sum(parts, Fraction(0))), parts), strict=True))


def ordered_labels(months: Sequence[Usd]) -> list[str]:
    """Return the labels of some months, the most dollars first and idle GPUs last."""
    sums: Usd = {}
    for usd in months:
        for name, amount in usd.items():
            sums[name] = sums.get(name, Fraction(0)) + amount
    return sorted(sums, key=lambda name: (name == IDLE, -sums[name], name))


def forecast_rows(
    use: RecordedUse,
    spends: Sequence[MonthSpend],
    past: Sequence[BacktestForecast],
    so_far: SoFar,
    seed: int,
) -> tuple[list[SpendRow], list[SpendTotal]]:
    """Return the months ahead by label, and their totals.

    Args:
        use: of the whole months known.
        spends: the forecast of each month ahead.
        past: forecasts of past months by the same model.
        so_far: of the months ahead that have begun.
        seed: of the intervals.
    """
    rng = np.random.default_rng(seed)
    labels = ordered_labels([spend.usd for spend in spends])
    rows, totals = [], []
    for place, spend in enumerate(spends):
        month = use.recorded_months + place
        begin, end = use.span(month)
        name, paid = use.months.names[month], use.paid_usd(month)
        around_total, around_label = intervals(
            spend, past, ahead=place + 1, length_us=end - begin, paid_usd=paid, rng=rng
        )  # fmt: skip
        cents = cents_of(spend.usd)
        rows += [
            SpendRow(name, label, *_with_ends(cents[label], around_label[label]))
            for label in labels
            if label in cents
        ]
        part = so_far.get(name)
        totals.append(
            SpendTotal(
                name,
                *_with_ends(sum(cents.values()), around_total),
                paid_usd=whole_cents(paid) / 100,
                so_far_usd=whole_cents(part[0]) / 100 if part else None,
                so_far_hours=part[1] if part else None,
            )
        )
    return rows, totals


def _with_ends(cents: int, ends: tuple[float, float]) -> tuple[float, float, float]:
    """Return dollars and the ends of their interval, to the cent."""
    usd = cents / 100
    return usd, min(usd, round(ends[0], 2)), max(usd, round(ends[1], 2))


def model_rows(
    use: RecordedUse,
    spends: Mapping[str, Sequence[MonthSpend]],
    tested: Mapping[str, Sequence[BacktestForecast]],
    chosen: str,
) -> list[SpendModelResult]:
    """Return what each model says, and its errors, in the order of `MODELS`."""
    results = []
    for name in (name for name in MODELS if name in spends):
        rows = []
        for place, spend in enumerate(spends[name]):
            month, cents = use.months.names[use.recorded_months + place], cents_of(spend.usd)
            labels = ordered_labels([spend.usd])
            rows += [ModelRow(month, row, cents[row] / 100) for row in labels if row in cents]
        past = tested.get(name, ())
        error, mean = _error_and_mean(past)
        results.append(
            SpendModelResult(
                name=name,
                is_chosen=name == chosen,
                mean_absolute_error_usd=None if error is None else float(error),
                mean_absolute_error_share=float(error / mean)
                if error is not None and mean
                else None,
                ahead=tuple(_by_ahead(past)),
                labels=tuple(_by_label(past)),
                months=tuple(rows),
            )
        )
    return results


def _error_and_mean(past: Sequence[BacktestForecast]) -> tuple[float | None, float]:
    """Return the mean absolute error of forecasts, and the mean of what the months cost."""
    if not past:
        return None, 0.0
    actual = sum((sum(row.actual.values(), Fraction(0)) for row in past), Fraction(0))
    return float(mean_absolute_error(past)), float(actual / len(past))


def _by_ahead(past: Sequence[BacktestForecast]) -> list[AheadError]:
    rows = []
    for ahead in sorted({row.ahead for row in past}):
        of_ahead = [row for row in past if row.ahead == ahead]
        rows.append(AheadError(ahead, len(of_ahead), float(mean_absolute_error(of_ahead))))
    return rows


def _by_label(past: Sequence[BacktestForecast]) -> list[LabelError]:
    labels = ordered_labels([row.actual for row in past] + [row.forecast for row in past])
    return [
        LabelError(label, float(sum(abs(row.error_of(label)) for row in past) / len(past)))
        for label in labels
    ]


def past_rows(use: RecordedUse, past: Sequence[BacktestForecast]) -> list[PastSpend]:
    """Return forecasts of past months as results."""
    names = use.months.names
    return [
        PastSpend(
            model=row.model,
            last_month_known=names[row.last],
            target=names[row.month],
            months_ahead=row.ahead,
            forecast_usd=float(sum(row.forecast.values(), Fraction(0))),
            actual_usd=float(sum(row.actual.values(), Fraction(0))),
            error_usd=float(row.error),
        )
        for row in past
    ]
