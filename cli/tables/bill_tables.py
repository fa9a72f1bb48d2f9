"""Tables of ``gpuplan bill``: who pays, by GPU type, by month, and the rows as FOCUS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.cli.formats.report import Column, Table
from gpuplan.cli.formats.units import (
    show_count,
    show_duration,
    show_number,
    show_price,
    show_share,
    show_usd,
)

if TYPE_CHECKING:
    from gpuplan.planner.studies.bill import BillResults, BillStudy, MonthPart

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
    held = [one for one in results.groups if not _is_idle(results, one.name)]
    shown = held if most is None else held[:most]
    rest = held[len(shown) :]
    rows = [
        [one.name, one.usd_per_month, one.share, one.gpu_h, one.mean_gpus, one.jobs,
         one.idle_usd_per_month]
        for one in shown
    ]  # fmt: skip
    if rest:
        rows.append(
            [
                f"{len(rest):,} more",
                sum(round(100 * one.usd_per_month) for one in rest) / 100,
                sum(one.share or 0.0 for one in rest),
                sum(one.gpu_h for one in rest),
                sum(one.mean_gpus for one in rest),
                sum(one.jobs for one in rest),
                sum(round(100 * one.idle_usd_per_month) for one in rest) / 100,
            ]
        )
    rows += [
        [one.name, one.usd_per_month, one.share, one.gpu_h, one.mean_gpus, None,
         one.idle_usd_per_month]
        for one in results.groups[len(held) :]
    ]  # fmt: skip
    gpu_h = sum(one.gpu_h for one in results.groups)
    rows.append(
        [TOTAL, results.usd_per_month, 1.0 if results.usd_per_month else None, gpu_h,
         sum(one.mean_gpus for one in results.groups), results.jobs, results.idle_usd_per_month]
    )  # fmt: skip
    spread = results.idle_usd_per_month is not None and len(held) == len(results.groups)
    return Table(
        f"Bill by {results.by} {period}" if period else f"Monthly bill by {results.by}",
        (
            Column("name", results.by),
            _dollars(period),
            Column("share", "of the bill", show_share),
            Column("gpu_h", "GPU-hours", show_number),
            Column("mean_gpus", "GPUs, mean", show_number),
            Column("jobs", "jobs", show_count),
            _dollars(period, "idle_", "idle part" if spread else ""),
        ),
        rows,
    )


def _dollars(period: str, part: str = "", header: str | None = None) -> Column:
    """Return the column of a bill, or of a part of it, in a period or a month."""
    name, what = ("usd", "$ in the period") if period else ("usd_per_month", "$ per month")
    return Column(f"{part}{name}", what if header is None else header, show_month_usd)


def _is_idle(results: BillResults, name: str) -> bool:
    last = results.groups[-1]
    return name == last.name and last.jobs == 0 and bool(results.cluster_gpus)


def types_table(results: BillResults, period: str = "") -> Table:
    """Return the bill by GPU type; arguments as those of `groups_table`."""
    has_cluster = results.cluster_gpus is not None
    return Table(
        "By GPU type",
        (
            Column("gpu_type", "GPU"),
            Column("usd_per_gpu_h", "$ per GPU-hour", lambda usd: f"{usd:,.4g}"),
            Column("price_source", "price from"),
            Column("gpus", "GPUs" if has_cluster else "", show_count),
            Column("mean_gpus", "held, mean", show_number),
            Column("peak_gpus", "peak", show_count),
            Column("gpu_h", "GPU-hours", show_number),
            _dollars(period),
            _dollars(period, "idle_", "idle" if has_cluster else ""),
        ),
        [
            [
                one.gpu_type, one.usd_per_gpu_h, one.price_source, one.gpus, one.mean_gpus,
                one.peak_gpus, one.gpu_h, one.usd_per_month, one.idle_usd_per_month,
            ]
            for one in results.gpu_types
        ],
    )  # fmt: skip


def months_table(results: BillResults) -> Table:
    """Return the bill of the window by calendar month."""
    return Table(
        "By calendar month of the log",
        (
            Column("name", "month"),
            Column("hours", "hours in the log", show_number),
            Column("usd", "bill", show_usd),
            Column("largest", "largest"),
            Column("largest_usd", "its bill", show_usd),
        ),
        [
            [one.name, one.hours, one.usd, *_largest(results, one.groups)]
            for one in results.months
        ],
        most=MOST_MONTHS,
    )  # fmt: skip


def _largest(results: BillResults, groups: Sequence[MonthPart]) -> tuple[str | None, float | None]:
    """Return who pays most of the jobs, and how much."""
    held = (part for part in groups if not _is_idle(results, part.name))
    top = max(held, key=lambda part: part.usd, default=None)
    return (None, None) if top is None else (top.name, top.usd)


def focus_table(study: BillStudy) -> Table:
    """Return the rows in the columns of FOCUS, which CSV has."""
    frame = study.to_frame()
    columns = tuple(Column(name, name) for name in frame.columns)
    return Table("The rows as FOCUS", columns, frame.rows())


def headline(results: BillResults, period: str, usd_per_month: float) -> str:
    """Return the bill of a month or a period, who pays most, and how much of it is idle.

    Args:
        results, period: as those of `groups_table`.
        usd_per_month: the bill of a month, which follows that of a period.
    """
    each, when = results.gpu_types, period or "a month"
    price = (
        f" at {show_price(each[0].usd_per_gpu_h)} per GPU-hour"
        if len({one.usd_per_gpu_h for one in each}) == 1
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
    held = [one for one in results.groups if not _is_idle(results, one.name)]
    if len(held) > 1 and results.used_usd_per_month:
        total = sum(one.usd_per_month for one in held)
        top = held[0]
        text += (
            f" {results.by.capitalize()} {top.name} pays the most, "
            f"{show_share(top.usd_per_month / total)} of the bill of all jobs."
        )
    if period:
        text += f" That is ${usd_per_month:,.0f} a month of {MONTH_H:g} h."
    return text
