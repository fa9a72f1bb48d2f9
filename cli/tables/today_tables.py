"""What a log shows today, as a sentence and as a table by GPU type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.formats.report import Column, Table
from gpuplan.cli.formats.today_text import today_text
from gpuplan.cli.formats.units import show_about_usd, show_count, show_number, show_share
from gpuplan.cli.tables.characterize_tables import headline

if TYPE_CHECKING:
    from gpuplan.analysis.characterize import Characterization
    from gpuplan.analysis.characterize.today import GpuUsage, Today

MOST_TYPES = 10


def workload_headline(result: Characterization, today: Today | None) -> str:
    """Return today, what the workload is, and which GPU types it runs on if several."""
    parts = (today_text(today), f"{headline(result, with_load=today is None)}.", _mixed(today))
    return " ".join(part for part in parts if part)


def _mixed(today: Today | None) -> str:
    types = () if today is None else today.types
    if len(types) < 2:
        return ""
    total = sum(one.gpu_h for one in types)
    first = f"{types[0].gpu_h / total:.0%} of the GPU-hours are on {types[0].gpu_type}"
    return f"{first}, {types[1].gpu_h / total:.0%} on {types[1].gpu_type}."


def gpu_type_table(today: Today) -> Table:
    """Return a row per GPU type, most GPU-hours first, and one for all if there are several."""
    total = today.usage.gpu_h
    usages = list(today.types)
    if len(usages) > 1:
        usages.insert(0, today.usage)  # so that a long list cannot hide it
    is_priced = any(one.usd_per_gpu_h is not None for one in usages)
    money = (
        Column("usd_per_gpu_h", "$/GPU-h" if is_priced else "", lambda usd: f"{usd:,.3g}"),
        Column("usd_per_month", "$/month" if is_priced else "", show_about_usd),
    )
    columns = (
        Column("gpu_type", "GPU type"),
        Column("jobs", "jobs", show_count),
        Column("gpu_h", "GPU-hours", show_count),
        Column("gpu_h_share", "of all", show_share),
        Column("mean_gpus", "mean GPUs", show_number),
        Column("p95_gpus", "P95", show_number),
        Column("peak_gpus", "peak", show_number),
        *money,
    )
    rows = [_row(one, total) for one in usages]
    return Table("GPUs held today, by type", columns, rows, most=MOST_TYPES)


def _row(usage: GpuUsage, total: float) -> tuple[object, ...]:
    return (
        "all" if usage.gpu_type is None else usage.gpu_type,
        usage.jobs,
        usage.gpu_h,
        usage.gpu_h / total if total else None,
        usage.mean_gpus,
        usage.p95_gpus,
        usage.peak_gpus,
        usage.usd_per_gpu_h,
        usage.usd_per_month,
    )
