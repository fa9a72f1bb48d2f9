"""Tables and sentences of ``forecast --spend``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from gpuplan.analysis.base.plain import fields_of
from gpuplan.analysis.base.words import counted
from gpuplan.cli.formats.report import Column, Shown, Table, table
from gpuplan.cli.formats.units import show_about_usd, show_share, significant
from gpuplan.cli.tables.bill_tables import SMALL, TOTAL, show_whole_usd
from gpuplan.planner.money.bill import IDLE
from gpuplan.planner.money.spend.results import SpendModelResult, SpendResults, SpendRow
from gpuplan.planner.money.spend_request import SPEND_MODELS

MOST_MONTHS = 3
"""Months ahead in the answer."""
LEAST_TESTED = 3
"""Past forecasts under which their error is told to be little known."""
LEAST_ON_A_SIDE = 4
"""Past forecasts from which on it is told that they were nearly all too low, or too high."""
FEW_OF = 6
"""One in so many may be on the other side."""
CENT = 0.005


def spend_headline(results: SpendResults) -> str:
    """Return the next month and the sum, how good such forecasts were, and what is paid anyway."""
    first, last = results.totals[0], results.totals[-1]
    low, high = show_about_usd(first.low), show_about_usd(first.high)
    text = (
        f"{first.month} will cost about {show_about_usd(first.usd)} "
        f"({results.level:.0%} interval {low} to {high})"
    )
    is_over = (first.so_far_usd or 0.0) > first.usd
    if is_over:
        text = (
            f"{first.month} has already cost ${first.so_far_usd:,.0f}, more than the "
            f"{show_about_usd(first.usd)} ({results.level:.0%} interval {low} to {high}) forecast "
            "for the whole month: use has changed"
        )
    if len(results.totals) > 1:
        whole = show_about_usd(results.usd)
        months = f"the {len(results.totals)} months to {last.month}"
        text += (
            f". The {whole} forecast for {months} is then too low"
            if is_over
            else f", and {months} about {whole}"
        )
    if first.so_far_usd and not is_over:
        text += f". ${first.so_far_usd:,.0f} of {first.month} is billed already"
    text += f". {_tested(results)}"
    if first.paid_usd:
        text += (
            f" Owned and committed GPUs are {show_about_usd(first.paid_usd)} of {first.month}, "
            "whatever jobs use."
        )
    return text


def _tested(results: SpendResults) -> str:
    """Return the model, and how wrong it was in past months."""
    model = f"The model {results.model} ({SPEND_MODELS[results.model]})"
    chosen = next(row for row in results.models if row.is_chosen)
    tested = len([row for row in results.backtest if row.model == results.model])
    if chosen.mean_absolute_error_usd is None:
        return f"{model} is not tested on past months."
    share = chosen.mean_absolute_error_share
    part = "" if share is None else f" ({show_share(share)})"
    error = show_about_usd(chosen.mean_absolute_error_usd)
    count = counted(tested, "past forecast")
    text = f"{model} was off by {error} a month{part} in {count}{_best(results)}."
    if tested < LEAST_TESTED:
        text += " So few tell little of its error, and the interval may be too narrow."
    return f"{text}{_side(results)}"


def _side(results: SpendResults) -> str:
    """Return on which side of what came the past forecasts were, where it is nearly always one."""
    errors = [row.error_usd for row in results.backtest if row.model == results.model]
    low = sum(error < -CENT for error in errors)
    high = sum(error > CENT for error in errors)
    if len(errors) < LEAST_ON_A_SIDE or len(errors) - max(low, high) > len(errors) // FEW_OF:
        return ""
    count = f"All {len(errors)}" if max(low, high) == len(errors) else f"{max(low, high)} of these"
    mean = show_about_usd(abs(sum(errors)) / len(errors))
    word, then = ("low", "more") if low > high else ("high", "less")
    return (
        f" {count} were too {word}, on average by {mean}: expect {then} than the middle of the "
        "interval, which does not correct for it."
    )


def _best(results: SpendResults) -> str:
    """Return how the model compares with the others in past months."""
    errors = {
        model.name: model.mean_absolute_error_usd
        for model in results.models
        if model.mean_absolute_error_usd is not None
    }
    least = min(errors.values())
    if errors[results.model] == least:
        return f", the least of {len(errors)} models" if len(errors) > 1 else ""
    best = next(name for name, error in errors.items() if error == least)
    return f"; {best} was off by {show_about_usd(least)}"


def spend_table(results: SpendResults, *, is_full: bool = False) -> Table:
    """Return who will pay how much in each month; labels under 1% are one row.

    Args:
        results: of the study.
        is_full: show all labels and all months, not the next ones.
    """
    totals = results.totals if is_full else results.totals[:MOST_MONTHS]
    months = [total.month for total in totals]
    cells = {(row.label, row.month): row for row in results.months}
    labels = list(dict.fromkeys(row.label for row in results.months))
    labels.sort(key=lambda label: label == IDLE)
    small = [
        label
        for label in labels
        if not is_full and label != IDLE and _sum(results.months, [label]) < SMALL * results.usd
    ]
    small = small if len(small) > 1 else []
    rows: list[dict[str, Any]] = [
        {"label": label}
        | _cells({month: cells.get((label, month)) for month in months})
        | {"usd": _sum(results.months, [label])}
        for label in labels
        if label not in small
    ]
    if small:
        rest: dict[str, Any] = {"label": f"{len(small)} under 1%"}
        for month in months:
            of_month = [row for row in results.months if row.month == month]
            rest |= {month: _sum(of_month, small), f"{month} interval": None}
        rows.insert(len(rows) - (labels[-1] == IDLE), rest | {"usd": _sum(results.months, small)})
    all_types = _cells({total.month: total for total in totals})
    rows.append({"label": TOTAL} | all_types | {"usd": results.usd})
    columns: list[Column] = []
    for month in months:
        columns += [
            Column(month, month, show_whole_usd),
            Column(f"{month} interval", f"{results.level:.0%} interval"),
        ]
    count = len(results.totals)
    return table(
        f"Dollars by {results.by} and month ahead",
        rows,
        {"label": results.by},
        *columns,
        Column("usd", f"{count} months" if count > 1 else "", show_whole_usd),
    )


def _sum(rows: Sequence[SpendRow], labels: Sequence[str]) -> float:
    """Return the dollars of some labels, which add up to the cent."""
    return sum(round(row.usd * 100) for row in rows if row.label in labels) / 100


def _cells(months: dict[str, Any]) -> dict[str, Any]:
    """Return the dollars of months, each with its interval beside it."""
    cells: dict[str, Any] = {}
    for month, row in months.items():
        cells[month] = None if row is None else row.usd
        ends = None if row is None else Shown(row.high - row.low, _ends(row.low, row.high))
        cells[f"{month} interval"] = ends
    return cells


def _ends(low: float, high: float) -> str:
    """Return an interval with three digits, in thousands from a thousand on."""
    if high < 1000:
        return f"{significant(low, 3):,.0f} to {significant(high, 3):,.0f}"
    return f"{significant(low / 1000, 3):g}k to {significant(high / 1000, 3):g}k"


def spend_rows_table(results: SpendResults) -> Table:
    """Return one row per month and label, then the total of each month."""
    rows = [
        row
        for total, (_, of_month) in zip(
            results.totals, groupby(results.months, key=lambda row: row.month), strict=True
        )
        for row in [*map(fields_of, of_month), fields_of(total) | {"label": TOTAL}]
    ]
    level = f"{results.level:.0%}"
    return table(
        "Month by month",
        rows,
        {"month": "month", "label": results.by},
        Column("usd", "$", show_whole_usd),
        Column("low", f"{level} low", show_whole_usd),
        Column("high", f"{level} high", show_whole_usd),
    )


def models_table(results: SpendResults) -> Table:
    """Return what each model says of the next months, and how wrong it has been."""
    ahead = sorted({error.months_ahead for model in results.models for error in model.ahead})

    def error(step: int) -> Column:
        def read(model: SpendModelResult) -> float | None:
            errors = (row for row in model.ahead if row.months_ahead == step)
            return next((row.mean_absolute_error_usd for row in errors), None)

        return Column(f"error_{step}_usd", f"{step} ahead", show_whole_usd, read)

    tested = len([row for row in results.backtest if row.model == results.model])
    return table(
        f"Models, with the mean absolute error of {counted(tested, 'past forecast')} ($ a month)"
        if tested
        else "Models, not tested",
        results.models,
        Column("model", "model", read=lambda model: model.name),
        Column("about", "forecast", read=lambda model: SPEND_MODELS[model.name]),
        Column("mean_absolute_error_usd", "error" if tested else "", show_whole_usd),
        *map(error, ahead),
        Column("usd", "next months", show_whole_usd, _total_usd),
        Column("is_chosen", "chosen", lambda is_chosen: "yes" if is_chosen else ""),
    )


def _total_usd(model: SpendModelResult) -> float:
    return sum(round(row.usd * 100) for row in model.months) / 100


def backtest_table(results: SpendResults) -> Table:
    """Return every past forecast beside what came of it."""
    return table(
        "Past forecasts of the total",
        results.backtest,
        {
            "model": "model",
            "last_month_known": "known to",
            "target": "month",
            "months_ahead": "ahead",
        },
        Column("forecast_usd", "forecast $", show_whole_usd),
        Column("actual_usd", "actual $", show_whole_usd),
        Column("error_usd", "error $", lambda usd: f"{usd:+,.0f}"),
    )


def history_table(results: SpendResults) -> Table:
    """Return what each month of the log has cost."""
    return table(
        "The bill so far" + (" (* part of a month)" if _has_parts(results) else ""),
        results.history,
        Column("month", "month", read=lambda month: month.name + "*" * month.is_partial),
        Column("usd", "$", show_whole_usd),
        Column("idle_usd", "idle $", show_whole_usd),
    )


def _has_parts(results: SpendResults) -> bool:
    return any(month.is_partial for month in results.history)
