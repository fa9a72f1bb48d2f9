"""Tables and sentences of ``forecast``."""

from __future__ import annotations

from gpuplan.analysis.base.words import listed
from gpuplan.analysis.forecast.forecast import AUTO
from gpuplan.analysis.forecast.models import LAST_VALUE
from gpuplan.cli.formats.report import Column, Table
from gpuplan.cli.formats.units import show_count, show_number, show_share
from gpuplan.planner.studies.forecast import ForecastResults
from gpuplan.planner.studies.forecast_lending import PEAK, Lendable
from gpuplan.planner.studies.forecast_request import ALL

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
    expected = max(sum(one.next_hours[step].mean_gpus for one in series) for step in range(steps))
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
    first = [one for one in results.lendable if one.p == 0.9 and one.guarantee_h == 1]
    total, capacity = sum(one.gpus for one in first), sum(one.capacity_gpus for one in first)
    of = f"{show_count(capacity)} GPUs"
    if first[0].capacity_from == PEAK:
        of += " (the most in use so far; --cluster for another number)"
    elif len(first) < len(results.series) and first[0].pool != ALL:
        of += f" ({listed([one.pool for one in first])} alone, as in --cluster)"
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
        best = min(results.models, key=lambda one: one.mae)
        last = next(one for one in results.models if one.name == LAST_VALUE)
        text = f"The last value is used: in the test its MAE is {show_number(last.mae)} GPUs"
        if best.mae < last.mae:
            text += f", that of {best.name} {show_number(best.mae)}"
        return f"{text}."
    chosen, last_value = [], []
    for one in results.series:
        errors = {model.name: model.mae for model in one.models}
        chosen.append(errors[one.chosen])
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
    lent, pooled, each = _lent(results), _pooled(results), _each(results)
    tables = (every_hour, next_hours, lent, pooled, each)
    return tables, ((pooled, next_hours) if backtest else (next_hours, lent))


def _next_hours(results: ForecastResults) -> Table:
    steps = len(results.series[0].next_hours)
    columns = (
        Column("series", "series"),
        Column("last_gpus", "last hour", _gpus),
        *(Column(f"step_{step}_gpus", f"+{step} h", _gpus) for step in _shown(steps)),
        Column("p90_gpus", "90% bound", _gpus),
        Column("p95_gpus", "95% bound", _gpus),
        Column("peak_gpus", "peak so far", _gpus),
        Column("chosen", "model"),
    )
    rows = [
        (
            one.name,
            one.last_gpus,
            *(one.next_hours[step - 1].mean_gpus for step in _shown(steps)),
            max(hour.p90_gpus for hour in one.next_hours),
            max(hour.p95_gpus for hour in one.next_hours),
            one.peak_gpus,
            one.chosen,
        )
        for one in results.series
    ]
    return Table("GPUs requested in the next hours", columns, rows, most=MOST_ROWS)


def _shown(steps: int) -> tuple[int, ...]:
    return tuple(step for step in (1, 2, 3, 4, 8, 12, 24) if step <= steps)[:5]


def _every_hour(results: ForecastResults) -> Table:
    columns = (
        Column("series", "series"),
        Column("hour", "hour" if results.issued_at is None else ""),
        Column("begin", "" if results.issued_at is None else "from (UTC)"),
        Column("mean_gpus", "expected", _gpus),
        Column("p50_gpus", "50% bound", _gpus),
        Column("p90_gpus", "90% bound", _gpus),
        Column("p95_gpus", "95% bound", _gpus),
        Column("model", "model"),
    )
    rows = [
        (
            one.name, hour.hour, hour.begin, hour.mean_gpus, hour.p50_gpus, hour.p90_gpus,
            hour.p95_gpus, one.chosen,
        )
        for one in results.series
        for hour in one.next_hours
    ]  # fmt: skip
    return Table("Hour by hour", columns, rows)


def _lent(results: ForecastResults) -> Table:
    hours = sorted({one.guarantee_h for one in results.lendable})
    columns = (
        Column("pool", "lend from"),
        Column("capacity_gpus", "GPUs", _gpus),
        Column("p", "not needed with", lambda p: f"{100 * p:g}%"),
        *(Column(f"guarantee_{hour}h_gpus", f"for {hour} h", show_count) for hour in hours),
    )
    grouped: dict[tuple[str, float], list[Lendable]] = {}
    for one in results.lendable:
        grouped.setdefault((one.pool, one.p), []).append(one)
    rows = [
        (pool, own[0].capacity_gpus, p, *(one.gpus for one in own))
        for (pool, p), own in grouped.items()
    ]
    return Table("GPUs that can be lent as spot", columns, rows, most=MOST_ROWS)


SCORES = (
    Column("mae", "MAE", show_number),
    Column("rmse", "RMSE", show_number),
    Column("mape", "MAPE", show_share),
    Column("pinball_90", "pinball 90%", show_number),
    Column("coverage_90", "90% covers", show_share),
    Column("coverage_95", "95% covers", show_share),
)


def _pooled(results: ForecastResults) -> Table:
    chosen = [one.chosen for one in results.series]
    columns = (
        Column("model", "model"),
        *SCORES,
        Column("chosen", "chosen for", show_count),
    )
    rows = [
        (one.name, *(getattr(one, column.key) for column in SCORES), chosen.count(one.name))
        for one in results.models
    ]
    return Table(
        f"Backtest on the last {results.test_hours} of {results.hours:,} hours (means over the "
        "series, GPUs)",
        columns,
        rows,
    )


def _each(results: ForecastResults) -> Table:
    columns = (
        Column("series", "series"),
        Column("model", "model"),
        Column("validation_mae", "MAE, validation", show_number),
        *SCORES,
        Column("chosen", "chosen", lambda is_chosen: "yes" if is_chosen else ""),
    )
    rows = [
        (
            one.name, model.name, model.validation_mae,
            *(getattr(model, column.key) for column in SCORES), model.name == one.chosen,
        )
        for one in results.series
        for model in one.models
    ]  # fmt: skip
    return Table(f"Backtest of each series ({LAST_VALUE} first)", columns, rows)
