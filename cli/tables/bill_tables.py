"""Tables of ``gpuplan bill``: who pays, by GPU type, by month, and the rows as FOCUS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpuplan.analysis.base.plain import fields_of
from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.cli.formats.report import Column, Table, table, value_of
from gpuplan.cli.formats.units import (
    show_duration,
    show_number,
    show_price,
    show_share,
)

if TYPE_CHECKING:
    from gpuplan.planner.studies.bill import BillGroup, BillResults, BillStudy, MonthPart

MOST_GROUPS = 10
MOST_MONTHS = 12
TOTAL = "total"


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
        "share": 1.0 if results.usd_per_month else None,
        "jobs": results.jobs,
        "idle_usd_per_month": results.idle_usd_per_month,
    }
    spread = results.idle_usd_per_month is not None and len(groups) == len(results.groups)
    return table(
        f"Bill by {results.by} {period}" if period else f"Monthly bill by {results.by}",
        [*shown, *more, *unheld, total],
        {"name": results.by},
        _dollars(period),
        {"share": "of the bill", "gpu_h": "GPU-hours", "mean_gpus": "GPUs, mean", "jobs": "jobs"},
        _dollars(period, "idle_", "idle part" if spread else ""),
    )


def _sum(name: str, groups: Sequence[BillGroup]) -> dict[str, Any]:
    """Return a row of several groups, whose dollars add up to the cent."""
    row: dict[str, Any] = {"name": name}
    for key in ("share", "gpu_h", "mean_gpus", "jobs"):
        row[key] = sum(getattr(group, key) or 0 for group in groups)
    for key in ("usd_per_month", "idle_usd_per_month"):
        row[key] = sum(round(100 * (getattr(group, key) or 0.0)) for group in groups) / 100
    return row


def _dollars(period: str, part: str = "", header: str | None = None) -> Column:
    """Return the column of a bill, or of a part of it, in a period or a month."""
    name, what = ("usd", "$ in the period") if period else ("usd_per_month", "$ per month")
    return Column(
        f"{part}{name}",
        what if header is None else header,
        show_month_usd,
        lambda row: value_of(row, f"{part}usd_per_month"),
    )


def _is_idle(results: BillResults, name: str) -> bool:
    last = results.groups[-1]
    return name == last.name and last.jobs == 0 and bool(results.cluster_gpus)


def types_table(results: BillResults, period: str = "") -> Table:
    """Return the bill by GPU type; arguments as those of `groups_table`."""
    has_cluster = results.cluster_gpus is not None
    return table(
        "By GPU type",
        results.gpu_types,
        {"gpu_type": "GPU"},
        Column("usd_per_gpu_h", "$ per GPU-hour", lambda usd: f"{usd:,.4g}"),
        {
            "price_source": "price from",
            "gpus": "GPUs" if has_cluster else "",
            "mean_gpus": "held, mean",
            "peak_gpus": "peak",
            "gpu_h": "GPU-hours",
        },
        _dollars(period),
        _dollars(period, "idle_", "idle" if has_cluster else ""),
    )


def months_table(results: BillResults) -> Table:
    """Return the bill of the window by calendar month."""
    return table(
        "By calendar month of the log",
        [fields_of(month) | _largest(results, month.groups) for month in results.months],
        {
            "name": "month",
            "hours": "hours in the log",
            "usd": "bill",
            "largest": "largest",
            "largest_usd": "its bill",
        },
        most=MOST_MONTHS,
    )


def _largest(results: BillResults, groups: Sequence[MonthPart]) -> dict[str, Any]:
    """Return who pays most of the jobs, and how much."""
    parts = (part for part in groups if not _is_idle(results, part.name))
    top = max(parts, key=lambda part: part.usd, default=None)
    return {"largest": top and top.name, "largest_usd": top and top.usd}


def focus_table(study: BillStudy) -> Table:
    """Return the rows in the columns of FOCUS, which CSV has."""
    frame = study.to_frame()
    return table(
        "The rows as FOCUS",
        frame.rows(named=True),
        {name: name for name in frame.columns},
    )


def headline(results: BillResults, period: str, usd_per_month: float) -> str:
    """Return the bill of a month or a period, who pays most, and how much of it is idle.

    Args:
        results, period: as those of `groups_table`.
        usd_per_month: the bill of a month, which follows that of a period.
    """
    each, when = results.gpu_types, period or "a month"
    price = (
        f" at {show_price(each[0].usd_per_gpu_h)} per GPU-hour"
        if len({row.usd_per_gpu_h for row in each}) == 1
        else f" at the prices of {len(each)} GPU types"
    )
    held_h, span = show_number(results.gpu_h), show_duration(results.window_s)
    if results.cluster_gpus is None:
        text = (
            f"${results.usd_per_month:,.0f} {when}{price}: {held_h} GPU-hours in {span}, idle "
            "GPUs not counted."
        )
    else:
        text = f"${results.usd_per_month:,.0f} {when} for {results.cluster_gpus:,} GPUs{price}."
        if results.idle_usd_per_month is not None:
            usd = results.usd_per_month
            share = show_share(results.idle_usd_per_month / usd if usd else 0.0)
            text += (
                f" {share} of it is idle (${results.idle_usd_per_month:,.0f}): jobs held {held_h} "
                f"GPU-hours in {span}."
            )
    groups = [group for group in results.groups if not _is_idle(results, group.name)]
    if len(groups) > 1 and results.used_usd_per_month:
        total = sum(group.usd_per_month for group in groups)
        top = groups[0]
        text += (
            f" {results.by.capitalize()} {top.name} pays the most, "
            f"{show_share(top.usd_per_month / total)} of the bill of all jobs."
        )
    if period:
        text += f" That is ${usd_per_month:,.0f} a month of {MONTH_H:g} h."
    return text
