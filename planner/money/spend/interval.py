"""An interval around a forecast of spend: how weeks differ, and how wrong forecasts have been.

The weeks of the use behind a forecast are resampled into months. To each resample an error is
added: Student's t times the root mean square error of past forecasts as far ahead, where a
forecast further ahead never has the smaller one. Past errors hold what weeks do too, so that the
interval is rather too wide than too narrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from scipy.special import stdtrit

from gpuplan.analysis.base.arrays import FloatArray
from gpuplan.planner.money.bill import IDLE
from gpuplan.planner.money.spend.models import BacktestForecast
from gpuplan.planner.money.spend.recorded_use import WEEK_US, MonthSpend, Usd

LEVEL = 0.8
RESAMPLES = 4000
Interval = tuple[float, float]


def intervals(
    spend: MonthSpend,
    past: Sequence[BacktestForecast],
    *,
    ahead: int,
    length_us: int,
    paid_usd: Fraction,
    rng: np.random.Generator,
) -> tuple[Interval, dict[str, Interval]]:
    """Return the interval of the total of a month, and those of its labels and of idle GPUs.

    Args:
        spend: the forecast.
        past: forecasts of the same model that are known to be right or wrong; may be empty.
        ahead: months ahead.
        length_us: of the month.
        paid_usd: what owned and committed GPUs cost in the month, which no use changes.
        rng: for the resamples.
    """
    names = sorted(spend.usd)
    usd = np.array([float(spend.usd[name]) for name in names])
    moved = _moved_by_weeks(spend.weeks(), names, length_us, rng)
    total = float(usd.sum())
    paid = float(paid_usd)
    score = _scores(past, rng)
    drawn_totals = moved.sum(axis=1) + score * _error_usd(
        [float(p.error) for p in past], past, ahead
    )
    labels = {}
    for place, name in enumerate(names):
        errors = [float(row.error_of(name)) for row in past]
        drawn = moved[:, place] + score * _error_usd(errors, past, ahead)
        most = paid if name == IDLE else np.inf
        labels[name] = _interval(usd[place], drawn, 0.0, most)
    return _interval(total, drawn_totals, min(paid, total), np.inf), labels


def _interval(usd: float, moved: FloatArray, least: float, most: float) -> Interval:
    """Return the interval of draws around dollars, within what is possible."""
    low, high = np.quantile(usd + moved, ((1 - LEVEL) / 2, (1 + LEVEL) / 2)).tolist()
    return min(usd, max(low, least)), max(usd, min(high, most))


def _moved_by_weeks(
    weeks: Sequence[Usd], names: Sequence[str], length_us: int, rng: np.random.Generator
) -> FloatArray:
    """Return by how much resampled weeks move each label; shape (resamples, labels)."""
    count = len(weeks)
    if count < 2:
        return np.zeros((RESAMPLES, len(names)))
    each = np.array([[float(week.get(name, 0)) for name in names] for week in weeks])
    in_month = max(1, round(length_us / WEEK_US))
    drawn = rng.multinomial(in_month, np.full(count, 1 / count), size=RESAMPLES) / in_month
    wider = np.sqrt(count / (count - 1))  # a sample varies less than what it is of
    moved: FloatArray = wider * (drawn - 1 / count) @ each
    return moved


def _scores(past: Sequence[BacktestForecast], rng: np.random.Generator) -> FloatArray:
    """Return draws of Student's t, evenly spread, with one degree per month that was forecast."""
    if not past:
        return np.zeros(RESAMPLES)
    degrees = len({row.month for row in past})
    even = (np.arange(RESAMPLES) + 0.5) / RESAMPLES
    drawn: FloatArray = rng.permutation(stdtrit(degrees, even))
    return drawn


def _error_usd(errors: Sequence[float], past: Sequence[BacktestForecast], ahead: int) -> float:
    """Return the root mean square error so many months ahead, at least that of fewer months.

    Months further ahead than any tested have an error that grows as that of a random walk does.
    """
    if not past:
        return 0.0
    tested = sorted({row.ahead for row in past})
    squares, counts = [], []
    for place in tested:
        of_place = [error for error, row in zip(errors, past, strict=True) if row.ahead == place]
        squares.append(float(np.mean(np.square(of_place))))
        counts.append(len(of_place))
    rising = _rising(squares, counts)
    beyond = max(1.0, ahead / tested[-1])
    place = max(i for i, step in enumerate(tested) if step <= max(ahead, tested[0]))
    return float(np.sqrt(rising[place] * beyond))


def _rising(values: Sequence[float], counts: Sequence[int]) -> list[float]:
    """Return values that never fall, nearest to those given (pool adjacent violators)."""
    pools: list[tuple[float, int, int]] = []  # mean, count, values
    for value, count in zip(values, counts, strict=True):
        pools.append((value, count, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (first, n, width), (second, m, other) = pools[-2:]
            pools[-2:] = [((first * n + second * m) / (n + m), n + m, width + other)]
    return [value for value, _, width in pools for _ in range(width)]
