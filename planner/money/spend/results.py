"""What a forecast of spend says, as JSON has it."""

from __future__ import annotations

from dataclasses import dataclass

from gpuplan.planner.money.bill_results import BillMonth


@dataclass(frozen=True, slots=True)
class SpendRow:
    """What a label will cost in a month.

    Attributes:
        month: ``2026-03``; ``month 4`` where the log has no dates.
        label: as in a bill; ``(idle)`` for GPUs that are paid for and that nobody uses.
        usd: the forecast; the rows of a month add up to its total.
        low, high: the month ends between them with the probability ``level``, dollars.
    """

    month: str
    label: str
    usd: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SpendTotal:
    """What a month will cost.

    Attributes:
        month: as in the rows.
        usd: the forecast of all labels and idle GPUs.
        low, high: as in the rows; an interval of the total, not the sum of those of the rows.
        paid_usd: of it, that of owned and committed GPUs, which use does not change.
        so_far_usd: what the part of the month in the log has cost; null where it has none.
        so_far_hours: length of that part; null where it has none.
    """

    month: str
    usd: float
    low: float
    high: float
    paid_usd: float
    so_far_usd: float | None
    so_far_hours: float | None


@dataclass(frozen=True, slots=True)
class PastSpend:
    """What a model would have said of a month that is known now.

    Attributes:
        model: its name.
        last_month_known: the forecast is issued at its end.
        target: the month that is forecast.
        months_ahead: from the one to the other.
        forecast_usd, actual_usd: of the whole month.
        error_usd: forecast less actual.
    """

    model: str
    last_month_known: str
    target: str
    months_ahead: int
    forecast_usd: float
    actual_usd: float
    error_usd: float


@dataclass(frozen=True, slots=True)
class AheadError:
    """The error of a model so many months ahead.

    Attributes:
        months_ahead: 1 to 3.
        forecasts: that are tested.
        mean_absolute_error_usd: of the total.
    """

    months_ahead: int
    forecasts: int
    mean_absolute_error_usd: float


@dataclass(frozen=True, slots=True)
class LabelError:
    """The error of a model for a label, over all its forecasts.

    Attributes:
        label: as in the rows.
        mean_absolute_error_usd: in a month.
    """

    label: str
    mean_absolute_error_usd: float


@dataclass(frozen=True, slots=True)
class ModelRow:
    """What a model says of a label and month; its attributes are those of `SpendRow`."""

    month: str
    label: str
    usd: float


@dataclass(frozen=True, slots=True)
class SpendModelResult:
    """What a model says, and how wrong it has been.

    Attributes:
        name: of the model.
        is_chosen: whether the forecast is its.
        mean_absolute_error_usd: of the total of a month, over all tested forecasts; null where none
            is.
        mean_absolute_error_share: the same over the mean of the months that were forecast.
        ahead: the same by months ahead.
        labels: the same by label.
        months: its forecasts.
    """

    name: str
    is_chosen: bool
    mean_absolute_error_usd: float | None
    mean_absolute_error_share: float | None
    ahead: tuple[AheadError, ...]
    labels: tuple[LabelError, ...]
    months: tuple[ModelRow, ...]


@dataclass(frozen=True, slots=True)
class SpendResults:
    """What the next months will cost.

    Attributes:
        by: the column of the labels.
        model: that the forecast comes from.
        whole_months: that are known.
        level: probability of the intervals.
        usd: the forecast of all months ahead.
        months: by month and label.
        totals: by month.
        backtest: forecasts of past months; empty under 4 whole months.
        models: what each says, and its errors.
        models_left_out: those that need more months, or dates.
        drift_per_month: growth of all GPU-hours per month, a fraction; null under 3 whole months.
        history: the bill of each month of the log.
    """

    by: str
    model: str
    whole_months: int
    level: float
    usd: float
    months: tuple[SpendRow, ...]
    totals: tuple[SpendTotal, ...]
    backtest: tuple[PastSpend, ...]
    models: tuple[SpendModelResult, ...]
    models_left_out: tuple[str, ...]
    drift_per_month: float | None
    history: tuple[BillMonth, ...]
