"""What the GPU-hours of each class, user and group cost a month, each GPU type at its own price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from gpuplan.analysis.base.time_units import HOUR_S, MICROS, scaled_to_month
from gpuplan.analysis.characterize.shares import Groups
from gpuplan.analysis.characterize.today import UsdOf
from gpuplan.analysis.trace.trace import Trace


def priced_groups(trace: Trace, groups: Mapping[str, Groups], usd_of: UsdOf) -> dict[str, Groups]:
    """Return the tables with the monthly bill of each row.

    The window is the period, or from the first submission to the last submission or end. A row with
    GPU-hours on a type without a price has no bill.

    Args:
        trace: with the columns of the tables, ``gpu_type`` and ``num_gpus``.
        groups: column -> its table.
        usd_of: the price of a GPU type. Without a window nothing changes.
    """
    jobs = trace.arrays()
    begin, end = jobs.window_us()
    if end <= begin or not jobs.holding().any():
        return dict(groups)
    held = trace.jobs.filter(jobs.holding()).with_columns(
        pl.Series("gpu_s", jobs.gpu_s[jobs.holding()])
    )
    return {
        column: with_bills(table, _bills(held, column, usd_of, (end - begin) / MICROS))
        for column, table in groups.items()
    }


def _bills(
    jobs: pl.DataFrame, column: str, usd_of: UsdOf, window_s: float
) -> dict[str | None, float | None]:
    """Return the dollars a month of each name in a column; None where a type has no price."""
    parts = (
        jobs.group_by(column, "gpu_type", maintain_order=True)
        .agg(gpu_h=pl.col("gpu_s").sum() / HOUR_S)
        .sort("gpu_h", descending=True, maintain_order=True)
        .with_columns(pl.col(column, "gpu_type").cast(pl.String))
    )
    bills: dict[str | None, float | None] = {}
    for name, gpu_type, gpu_h in parts.rows():
        usd, so_far = usd_of(gpu_type), bills.get(name, 0.0)
        month = None if usd is None else scaled_to_month(gpu_h * usd, window_s)
        bills[name] = None if so_far is None or month is None else so_far + month
    return bills


def with_bills(table: Groups, bills: Mapping[str | None, float | None]) -> Groups:
    """Return a table with the bill of a month of each row, by its name."""
    shown = {row.name for row in table.rows}
    other_usd = [usd for name, usd in bills.items() if name not in shown]
    prices = [usd for usd in other_usd if usd is not None]
    rest, usd = table.others, sum(prices) if len(prices) == len(other_usd) else None
    return replace(
        table,
        rows=tuple(replace(row, usd_per_month=bills.get(row.name, 0.0)) for row in table.rows),
        others=None if rest is None else replace(rest, usd_per_month=usd),
    )
