"""The utilization of a job of several runs and components: each GPU-hour counts once.

Figures of runs are weighted by the GPU-hours that they cover. A run without figures lowers the
share covered; it never counts as idle.
"""

from __future__ import annotations

import polars as pl

from gpuplan.analysis.job_table.schema import UTILIZATION_COLUMNS

MOST = ("gpu_mem_used_gib", "gpu_mem_total_gib")
WEIGHTS = ("held_gpu_s", "covered_gpu_s", "util_gpu_s", "idle_gpu_s", "memory_gpu_s", "mem_gpu_s")
SILENT = "has_no_idle"
"""Whether a run tells its mean utilization and not how many of its GPUs were idle."""


def with_weights(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with what of their utilization can be added up."""
    if "gpu_util_mean" not in rows.columns:
        return rows
    held = (pl.col("num_gpus") * pl.col("duration_s")).fill_null(0)
    coverage = pl.col("gpu_util_coverage").fill_null(0)
    covered = held * coverage
    share = pl.col("gpu_mem_used_share")
    idle_share = pl.when(covered > 0).then(pl.col("gpus_idle") / (pl.col("num_gpus") * coverage))
    return rows.with_columns(
        held_gpu_s=held,
        covered_gpu_s=covered,
        util_gpu_s=(covered * pl.col("gpu_util_mean")).fill_null(0),
        idle_gpu_s=(covered * idle_share).fill_null(0),
        memory_gpu_s=pl.when(share.is_not_null()).then(covered).otherwise(0),
        mem_gpu_s=(covered * share).fill_null(0),
        has_no_idle=(covered > 0) & pl.col("gpus_idle").is_null(),
    )


def weight_sums(rows: pl.DataFrame) -> list[pl.Expr]:
    """Return how the figures of several rows become those of all of them."""
    if "gpu_util_mean" not in rows.columns:
        return []
    return [
        pl.col(WEIGHTS).sum(),
        pl.col(MOST).max(),
        pl.col(SILENT).any(),
        pl.col("gpu_util_source").drop_nulls().first(),
    ]


def of_weights(rows: pl.DataFrame) -> list[pl.Expr]:
    """Return `UTILIZATION_COLUMNS` of the sums."""
    if "gpu_util_mean" not in rows.columns:
        return []
    covered = pl.col("covered_gpu_s")
    coverage = pl.when(covered > 0).then((covered / pl.col("held_gpu_s")).clip(0, 1))
    idle = pl.when(~pl.col(SILENT)).then(pl.col("idle_gpu_s") / covered)
    memory = pl.col("memory_gpu_s")
    values = {
        "gpu_util_mean": pl.when(covered > 0).then(pl.col("util_gpu_s") / covered),
        "gpus_idle": pl.when(covered > 0).then(idle * pl.col("num_gpus") * coverage),
        "gpu_util_coverage": coverage,
        "gpu_mem_used_share": pl.when(memory > 0).then(pl.col("mem_gpu_s") / memory),
        **{name: pl.col(name) for name in (*MOST, "gpu_util_source")},
    }
    return [values[name].cast(kind).alias(name) for name, kind in UTILIZATION_COLUMNS.items()]
