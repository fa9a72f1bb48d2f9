"""Bills of GPUs: one window for all, and GPU-hours by user, group or type.

A month has 730.5 hours. The window of a log is that of `analysis.history.jobs.JobArrays.window_us`;
everything that is compared on that log is charged over it.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from gpuplan.analysis.base.time_units import HOUR_S, MONTH_H

USAGE_COLUMNS = ("num_gpus", "duration_s")
"""Canonical columns that `gpu_hours_by` reads, besides those it groups by."""


def window_usd(gpus: float, usd_per_gpu_h: float, window_s: float) -> float:
    """Return what GPUs held throughout a window cost, US dollars."""
    return gpus * usd_per_gpu_h * (window_s / HOUR_S)


def month_usd(gpus: float, usd_per_gpu_h: float) -> float:
    """Return what GPUs held throughout a month cost, US dollars."""
    return gpus * usd_per_gpu_h * MONTH_H


def scaled_to_month(usd: float, window_s: float) -> float | None:
    """Return the bill of a window as dollars per month; None where no time passes."""
    return usd * (MONTH_H / (window_s / HOUR_S)) if window_s > 0 else None


def gpu_hours_by(
    jobs: pl.DataFrame, by: str | Sequence[str], held_s: str = "duration_s"
) -> pl.DataFrame:
    """Return jobs and GPU-hours per value of columns such as ``user``, ``group``, ``gpu_type``.

    Args:
        jobs: canonical rows with `USAGE_COLUMNS` and the columns grouped by.
        by: one column or several.
        held_s: the column of how long each holds its GPUs; jobs still running with the time that
            they have run so far.

    Returns:
        One row per group, most GPU-hours first: the columns of ``by`` (null where not recorded),
        ``jobs`` with a run time and GPUs, their ``gpu_h``, and ``gpu_h_share`` of all.
    """
    names = [by] if isinstance(by, str) else list(by)
    is_timed = pl.col(held_s).is_not_null() & (pl.col("num_gpus") > 0)
    gpu_h = (pl.col(held_s) * pl.col("num_gpus")).sum() / HOUR_S
    found = (
        jobs.filter(is_timed)
        .group_by(names, maintain_order=True)
        .agg(jobs=pl.len().cast(pl.Int64), gpu_h=gpu_h)
        .with_columns(gpu_h_share=pl.col("gpu_h") / pl.col("gpu_h").sum())
    )
    return found.sort("gpu_h", descending=True, maintain_order=True)
