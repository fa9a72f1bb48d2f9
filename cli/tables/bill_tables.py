"""Tables of ``gpuplan bill``: who pays, by GPU type, by month, and the rows as FOCUS."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gpuplan.analysis.base.plain import fields_of
from gpuplan.analysis.base.time_units import HOUR_S, MONTH_H
from gpuplan.analysis.base.words import price_text
from gpuplan.cli.formats.report import Column, Table, table, value_of
from gpuplan.cli.formats.units import (
    show_duration,
    show_number,
    show_price,
    show_share,
)
from gpuplan.planner.money.bill import POOLS, SPREAD
from gpuplan.planner.money.held_runs import month_words

if TYPE_CHECKING:
    from gpuplan.planner.money.bill_results import BillGroup, BillMonth, BillResults
    from gpuplan.planner.studies.bill import BillAnswer

MOST_GROUPS = 10
MOST_MONTHS = 12
MOST_NAMED = 3
TOTAL = "total"
SMALL = 0.01
"""Labels under this share of the bill are one row."""
MOST_SHOWN = 6
"""Months in the answer."""


def show_month_usd(value: float) -> str:
    """Return dollars as they add up: to the cent."""
    return f"${value:,.2f}"


def groups_table(
    results: BillResults, period: str = "", *, most: int | None = MOST_GROUPS
) -> Table:
    """Return who pays; the rows of the table add up to its last one.

    Args:
        results: the bill, as people see it.
        period: that it is of, in words; empty for a month.
        most: groups with a row of their own; the rest are one row. None for all.
    """
    groups = [group for group in results.groups if not _is_idle(results, group.name)]
    unheld = [{**fields_of(row), "jobs": None} for row in results.groups[len(groups) :]]
    shown = groups if most is None else groups[:most]
    rest = groups[len(shown) :]
    more = [_sum(f"{len(rest):,} more", rest)] if rest else []
    total = _sum(TOTAL, results.groups) | {
        "usd_per_month": results.usd_per_month,
        "usd": results.usd,
        "share": 1.0 if results.usd_per_month else None,
        "jobs": results.jobs,
        "idle_usd_per_month": results.idle_usd_per_month,
        "idle_usd": results.idle_usd,
    }
    spread = results.idle_usd_per_month is not None and len(groups) == len(results.groups)
    return table(
        f"Bill by {results.by} {period}" if period else f"Monthly bill by {results.by}",
        [*shown, *more, *unheld, total],
        {"name": results.by},
        _dollars(period),
        {"share": "of the bill"},
        _gpu_hours(period),
        {"mean_gpus": "GPUs, mean", "jobs": "jobs" if period else "jobs in the log"},
        _dollars(period, "idle_", "idle part" if spread else ""),
    )


def _sum(name: str, groups: Sequence[BillGroup]) -> dict[str, Any]:
    """Return a row of several groups, whose dollars add up to the cent."""
    row: dict[str, Any] = {"name": name}
    for key in ("share", "gpu_h", "mean_gpus", "jobs"):
        row[key] = sum(getattr(group, key) or 0 for group in groups)
    for key in ("usd", "idle_usd", "usd_per_month", "idle_usd_per_month"):
        row[key] = sum(round(100 * (getattr(group, key) or 0.0)) for group in groups) / 100
    return row


def _dollars(period: str, part: str = "", header: str | None = None) -> Column:
    """Return the column of a bill, or of a part of it, in a period or a month."""
    name, what = ("usd", "$ in the period") if period else ("usd_per_month", "$ per month")
    return Column(f"{part}{name}", what if header is None else header, show_month_usd)


def _gpu_hours(period: str) -> Column:
    """Return the column of the GPU-hours in the time that the dollars beside them are of."""
    if period:
        return Column("gpu_h", "GPU-hours")
    return Column("gpu_h_per_month", "GPU-hours per month", read=_gpu_hours_of_month)


def _gpu_hours_of_month(row: Any) -> float:
    return float(value_of(row, "mean_gpus")) * MONTH_H


def _is_idle(results: BillResults, name: str) -> bool:
    last = results.groups[-1]
    return name == last.name and last.jobs == 0 and results.cluster_gpus is not None


def types_table(results: BillResults, period: str = "") -> Table:
    """Return the bill by GPU type; arguments as those of `groups_table`."""
    has_cluster = results.cluster_gpus is not None
    added_up = ", together" if period.startswith("in ") and len(results.months) > 1 else ""
    return table(
        f"By GPU type {period}{added_up}".rstrip(),
        results.gpu_types,
        {"gpu_type": "GPU"},
        Column("usd_per_gpu_h", "$ per GPU-hour", price_text),
        {
            "price_source": "price from",
            "gpus": ("GPUs at end" if _pools_change(results) else "GPUs") if has_cluster else "",
            "mean_gpus": "held, mean",
            "peak_gpus": "peak",
        },
        _gpu_hours(period),
        _dollars(period),
        _dollars(period, "idle_", "idle" if has_cluster else ""),
    )


def months_table(results: BillResults) -> Table:
    """Return the bill of the window by calendar month."""
    return table(
        "By calendar month of the log",
        [fields_of(month) | _largest(results, month) for month in results.months],
        {
            "name": "month",
            "hours": "hours billed",
            "usd": "bill",
            "idle_usd": "idle" if results.cluster_gpus is not None else "",
            "largest": "largest",
            "largest_usd": "its bill",
        },
        most=MOST_MONTHS,
    )


def _largest(results: BillResults, month: BillMonth) -> dict[str, Any]:
    """Return who pays most of the jobs, and how much."""
    parts = (part for part in month.groups if not _is_idle(results, part.name))
    top = max(parts, key=lambda part: part.usd, default=None)
    return {"largest": top and top.name, "largest_usd": top and top.usd}


def label_by_month_table(results: BillResults, *, is_full: bool = False) -> Table:
    """Return who paid how much in each month; labels under 1% of the bill are one row.

    Args:
        results: of several months.
        is_full: show all labels and all months, not the last ones.
    """
    months = results.months if is_full else results.months[-MOST_SHOWN:]
    paid = {month.name: {part.name: part.usd for part in month.groups} for month in months}
    small = [
        group
        for group in results.groups
        if not is_full and group.usd < SMALL * results.usd and not _is_idle(results, group.name)
    ]
    small = small if len(small) > 1 else []
    in_rest = {group.name for group in small}
    rows = [
        {"name": group.name, "usd": group.usd}
        | {month.name: paid[month.name].get(group.name) for month in months}
        for group in results.groups
        if group.name not in in_rest
    ]
    if small:
        rest: dict[str, Any] = {"name": f"{len(small)} under 1%", "usd": sum(g.usd for g in small)}
        for month in months:
            usd = [paid[month.name].get(group.name) for group in small]
            rest[month.name] = sum(filter(None, usd)) if any(usd) else None
        has_idle = _is_idle(results, results.groups[-1].name)
        rows.insert(len(rows) - has_idle, rest)
    rows.append({"name": TOTAL, "usd": results.usd} | {month.name: month.usd for month in months})
    columns = [
        Column(month.name, f"{month.name}*" if month.is_partial else month.name, show_whole_usd)
        for month in months
    ]
    is_cut = len(months) < len(results.months)
    return table(
        f"Dollars by {results.by.partition(',')[0]} and month"
        + (f", the last {len(months)} of {len(results.months)}" if is_cut else "")
        + (" (* part of a month)" if any(month.is_partial for month in months) else ""),
        rows,
        {"name": results.by.partition(",")[0]},
        *columns,
        Column("usd", f"all {len(results.months)} months" if is_cut else "total", show_whole_usd),
    )


def show_whole_usd(usd: float) -> str:
    """Return dollars without cents, for a column that says what they are."""
    return f"{usd:,.0f}"


def focus_table(study: BillAnswer) -> Table:
    """Return the rows in the columns of FOCUS, which CSV has."""
    frame = study.to_frame()
    rows = [
        {name: f"{cell:f}" if isinstance(cell, Decimal) else cell for name, cell in row.items()}
        for row in frame.rows(named=True)
    ]
    return table(
        "The rows as FOCUS",
        rows,
        {name: name for name in frame.columns},
    )


def headline(results: BillResults, period: str) -> str:
    """Return the bill of a month or a period, who pays most, and how much of it is idle.

    Args:
        results: the bill.
        period: that it is of, in words; empty for a month.
    """
    usd, idle = results.usd_per_month, results.idle_usd_per_month
    if period:
        usd, idle = results.usd, results.idle_usd
    is_of_month = period.startswith("in ")
    text = f"${usd:,.0f} {period or 'a month'}"
    if is_of_month:
        text = f"{period[0].upper()}{period[1:]}: ${usd:,.0f}"
    held = _held_words(results, is_by_month=not period)
    if idle is None:
        text += f"{_price_words(results)}: {held}, idle GPUs not counted."
    else:
        text += f" for {_paid_words(results, is_by_month=not period)}{_price_words(results)}."
        which = "these" if _pools_change(results) else f"the {results.cluster_gpus:,}"
        text += (
            f" {show_share(results.idle_usd_share or 0.0)} of it is idle (${idle:,.0f}): {which} "
            f"GPUs are idle {show_share(results.idle_share or 0.0)} of their hours. Jobs held "
            f"{held}."
        )
    groups = [group for group in results.groups if not _is_idle(results, group.name)]
    total = sum(group.usd for group in groups)
    if len(groups) > 1 and total:
        top = max(groups, key=lambda group: group.usd)
        text += (
            f" {results.by.partition(',')[0].capitalize()} {top.name} pays the most, "
            f"{show_share(top.usd / total)} of the bill of all jobs."
        )
    whole_months = [month for month in results.months if not month.is_partial]
    if period and not is_of_month and len(whole_months) == len(results.months):
        count = len(whole_months)
        if count > 1:
            text += f" That is ${results.usd / count:,.0f} a month over {count} calendar months."
    elif period and not is_of_month:
        text += f" That is ${results.usd_per_month:,.0f} a month of {MONTH_H:g} h."
    elif not period and len(results.months) == 1 and results.begin[:7] == results.months[0].name:
        month = results.months[0]
        part = f"the {show_duration(3600 * month.hours)} of the log in " if month.is_partial else ""
        of_idle = f", ${month.idle_usd:,.2f} of it idle" if month.idle_usd else ""
        text += f" For {part}{month_words(month.name)} it is ${month.usd:,.2f}{of_idle}."
    return text


def _pools_change(results: BillResults) -> bool:
    """Return whether other GPUs are owned and committed at the end than before."""
    gpus, mean = results.cluster_gpus, results.mean_cluster_gpus
    return gpus is not None and mean is not None and abs(mean - gpus) > 1e-6 * max(gpus, 1)


def _held_words(results: BillResults, *, is_by_month: bool) -> str:
    """Return the GPU-hours that jobs held, in a month and in the log, or in the period."""
    total, span = show_number(results.gpu_h), show_duration(results.window_s)
    if not is_by_month:
        return f"{total} GPU-hours in {span}"
    return f"{show_number(_gpu_hours_of_month(results))} GPU-hours a month ({total} in {span})"


def _paid_words(results: BillResults, *, is_by_month: bool) -> str:
    """Return what a bill with owned or committed GPUs is for, in a month or in the period."""
    in_pools = f"{results.cluster_gpus:,} GPUs"
    at_end = ""
    if _pools_change(results):
        in_pools = f"{show_number(results.mean_cluster_gpus or 0.0)} GPUs"
        at_end = f" on average ({results.cluster_gpus:,} at the end)"
    above_h = sum(
        market.gpu_h
        for row in results.gpu_types
        for market in row.markets
        if market.market not in (*POOLS, SPREAD)
    )
    if not above_h:
        return f"{in_pools} owned or committed{at_end}" if at_end else in_pools
    if is_by_month:
        above_h *= MONTH_H * HOUR_S / results.window_s
    hours = f"{show_number(above_h)} GPU-hours{' a month' if is_by_month else ''}"
    return f"{in_pools} owned or committed{at_end} and {hours} above them"


def _price_words(results: BillResults) -> str:
    """Return at what price all GPU-hours of a bill are; their mean price where they differ.

    Cents are rounded in each month, row and type.
    """
    prices = {row.usd_per_gpu_h for row in results.gpu_types}
    price = prices.pop() if len(prices) == 1 else None
    if price is not None:
        cents = len(results.months) * len(results.groups)
        idle_h = sum(m.idle_gpu_h for row in results.gpu_types for m in row.markets)
        paid_usd = price * (results.gpu_h + idle_h)
        if abs(paid_usd - results.usd) <= 0.01 * cents:
            return f" at {show_price(price)} per GPU-hour"
    if len(results.gpu_types) > 1:
        return f" at the prices of {len(results.gpu_types)} GPU types"
    if results.cluster_gpus is None and results.gpu_h:
        return f" at {show_price(results.usd / results.gpu_h)} per GPU-hour in the mean"
    return ""
