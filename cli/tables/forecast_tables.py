"""Tables and sentences of ``forecast``."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from gpuplan.analysis.base.plain import fields_of
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.forecast.forecast import AUTO
from gpuplan.analysis.forecast.models import LAST_VALUE
from gpuplan.cli.formats.report import Column, Table, table
from gpuplan.cli.formats.units import show_count, show_number, show_share
from gpuplan.planner.requests.forecast import ALL
from gpuplan.planner.studies.forecast import PEAK, ForecastResults

MOST_ROWS = 12


def headline(
    results: ForecastResults, model: str, *, low_hours: int = 0, backtest: bool = False
) -> str:
    """Return the answer in at most three sentences.

    Args:
        results: of the study.
        model: as asked for.
        low_hours: last hours in which demand is far below all before.
        backtest: whether the errors of the test are shown.
    """
    series, steps = results.series, len(results.series[0].next_hours)
    expected = max(sum(each.next_hours[step].mean_gpus for each in series) for step in range(steps))
    begin = results.issued_at or f"hour {results.issued_hour}"
    over = "hour" if steps == 1 else f"{steps} hours"
    who = series[0].name if len(series) == 1 else f"{len(series)} series together"
    return " ".join(
        (
            _lending(results, low_hours),
            f"In the {over} from {begin.removesuffix(':00')} on, {who} will need about "
            f"{show_number(round(expected, 1))} GPUs at the peak.",
            _tested(results) if backtest and model == AUTO else _choice(results, model),
        )
    )


def _lending(results: ForecastResults, low_hours: int) -> str:
    loans = [loan for loan in results.lendable if loan.p == 0.9 and loan.guarantee_h == 1]
    total = sum(loan.gpus for loan in loans)
    capacity = sum(loan.capacity_gpus for loan in loans)
    of = f"{show_count(capacity)} GPUs"
    if loans[0].capacity_from == PEAK:
        of_each = " of each" if loans[0].pool != ALL else ""
        of += f" (the most{of_each} in use at once so far; --cluster for another number)"
    elif len(loans) < len(results.series) and loans[0].pool != ALL:
        of += f" ({listed([loan.pool for loan in loans])} alone, as in --cluster)"
    last = "hour" if low_hours == 1 else f"{low_hours} hours"
    doubt = f", if demand really fell to almost nothing in the last {last}" if low_hours else ""
    return f"You can lend {show_count(total)} of {of} for 1 h with 90% probability{doubt}."


def _choice(results: ForecastResults, model: str) -> str:
    wins, count = results.last_value_wins, len(results.series)
    if model != AUTO:
        return f"Every series is forecast by {model}, as requested."
    if wins == count:
        return "No model beats the last value in validation, so the last value is used."
    if wins:
        return (
            f"For {wins} of {count} series no model beats the last value in validation, so the "
            "last value is used."
        )
    return "In validation, the models do better than the last value on every series."


def _tested(results: ForecastResults) -> str:
    """Return how the chosen models did in the test hours, which the choice has not seen."""
    if results.last_value_wins == len(results.series):
        best = min(results.models, key=lambda model: model.mae)
        last = next(model for model in results.models if model.name == LAST_VALUE)
        text = f"The last value is used: in the test its MAE is {show_number(last.mae)} GPUs"
        if best.mae < last.mae:
            text += f", that of {best.name} {show_number(best.mae)}"
        return f"{text}."
    chosen, last_value = [], []
    for series in results.series:
        errors = {model.name: model.mae for model in series.models}
        chosen.append(errors[series.chosen])
        last_value.append(errors[LAST_VALUE])
    better = sum(mae < last for mae, last in zip(chosen, last_value, strict=True))
    return (
        f"In the test, the models chosen in validation do better than the last value on {better} "
        f"of {len(chosen)} series (MAE {show_number(sum(chosen) / len(chosen))} GPUs, last value "
        f"{show_number(sum(last_value) / len(last_value))})."
    )


def _gpus(value: float) -> str:
    return show_number(round(value, 1))


def forecast_tables(
    results: ForecastResults, backtest: bool
) -> tuple[tuple[Table, ...], tuple[Table, ...]]:
    """Return all tables, and those of the answer."""
    next_hours, every_hour = _next_hours(results), _every_hour(results)
    lent, pooled, each = _lendable_table(results), _pooled(results), _each(results)
    tables = (every_hour, next_hours, lent, pooled, each)
    return tables, ((pooled, next_hours) if backtest else (next_hours, lent))


def _next_hours(results: ForecastResults) -> Table:
    def step_gpus(step: int) -> Column:
        key = f"step_{step}_gpus"
        return Column(key, f"+{step} h", _gpus, lambda row: row.next_hours[step - 1].mean_gpus)

    def highest(key: str, header: str) -> Column:
        read = attrgetter(key)
        return Column(key, header, _gpus, lambda row: max(map(read, row.next_hours)))

    return table(
        "GPUs requested in the next hours",
        results.series,
        Column("series", "series", read=attrgetter("name")),
        Column("last_gpus", "last hour", _gpus),
        *map(step_gpus, _shown(len(results.series[0].next_hours))),
        highest("p90_gpus", "90% bound"),
        highest("p95_gpus", "95% bound"),
        Column("peak_gpus", "peak so far", _gpus),
        {"chosen": "model"},
        most=MOST_ROWS,
    )


def _shown(steps: int) -> tuple[int, ...]:
    return tuple(step for step in (1, 2, 3, 4, 8, 12, 24) if step <= steps)[:5]


def _every_hour(results: ForecastResults) -> Table:
    is_dated = results.issued_at is not None
    return table(
        "Hour by hour",
        [
            {"series": series.name, **fields_of(hour), "model": series.chosen}
            for series in results.series
            for hour in series.next_hours
        ],
        {
            "series": "series",
            "hour": "" if is_dated else "hour",
            "begin": "from (UTC)" if is_dated else "",
        },
        Column("mean_gpus", "expected", _gpus),
        *(Column(f"p{level}_gpus", f"{level}% bound", _gpus) for level in (50, 90, 95)),
        {"model": "model"},
    )


def _lendable_table(results: ForecastResults) -> Table:
    hours = sorted({loan.guarantee_h for loan in results.lendable})
    rows: dict[tuple[str, float], dict[str, Any]] = {}
    for loan in results.lendable:
        row = rows.setdefault((loan.pool, loan.p), fields_of(loan))
        row[f"guarantee_{loan.guarantee_h}h_gpus"] = loan.gpus
    return table(
        "GPUs that can be lent as spot",
        rows.values(),
        {"pool": "lend from"},
        Column("capacity_gpus", "GPUs", _gpus),
        Column("p", "not needed with", lambda p: f"{100 * p:g}%"),
        {f"guarantee_{hour}h_gpus": f"for {hour} h" for hour in hours},
        most=MOST_ROWS,
    )


SCORES = (
    Column("mae", "MAE"),
    Column("rmse", "RMSE"),
    Column("mape", "MAPE", show_share),
    Column("pinball_90", "pinball 90%"),
    Column("coverage_90", "90% covers", show_share),
    Column("coverage_95", "95% covers", show_share),
)


def _pooled(results: ForecastResults) -> Table:
    chosen = [series.chosen for series in results.series]
    return table(
        f"Backtest on the last {results.test_hours} of {results.hours:,} hours (means over the "
        "series, GPUs)",
        results.models,
        Column("model", "model", read=attrgetter("name")),
        *SCORES,
        Column("chosen", "chosen for", read=lambda model: chosen.count(model.name)),
    )


def _each(results: ForecastResults) -> Table:
    return table(
        f"Backtest of each series ({LAST_VALUE} first)",
        [
            fields_of(model)
            | {"series": series.name, "model": model.name, "chosen": model.name == series.chosen}
            for series in results.series
            for model in series.models
        ],
        {"series": "series", "model": "model", "validation_mae": "MAE, validation"},
        *SCORES,
        Column("chosen", "chosen", lambda is_chosen: "yes" if is_chosen else ""),
    )
