"""The utilization of a job's GPUs in ``sacct``: jobstats summaries, and Slurm's own of its steps.

Unknown is null everywhere and never counts as idle.
"""

from __future__ import annotations

from collections.abc import Set

import polars as pl

from gpuplan.analysis.job_table.schema import UTILIZATION_COLUMNS
from gpuplan.analysis.log_formats.jobstats import (
    NONE,
    READ,
    SHORT,
    SUMMARY,
    TOO_LARGE,
    UNREADABLE,
    WITHOUT_GPUS,
    summaries,
)
from gpuplan.analysis.reading.batch import Tally
from gpuplan.analysis.reading.plan import Field

JOBSTATS = "jobstats"
SUMMARY_COLUMN = "admincomment"
SUMMARY_FIELD = "summary of jobstats"
HELD_TOLERANCE = 1e-6


def utilization_columns(has: Set[str]) -> dict[str, pl.DataType]:
    """Return the columns on utilization that the trace of a log has."""
    return UTILIZATION_COLUMNS if SUMMARY_COLUMN in has else {}


def utilization_fields(has: Set[str]) -> tuple[Field, ...]:
    """Return the cells that `utilization_values` reads; none of them refuses a row."""
    if SUMMARY_COLUMN not in has:
        return ()
    read = pl.col(SUMMARY_COLUMN).map_batches(summaries, return_dtype=SUMMARY, is_elementwise=True)
    return (Field(SUMMARY_FIELD, SUMMARY_COLUMN, read),)


def utilization_values(has: Set[str], held: pl.Expr, never: pl.Expr) -> dict[str, pl.Expr]:
    """Return `UTILIZATION_COLUMNS` as expressions over fields.

    Args:
        has: the columns of the log.
        held: the GPUs that a job held.
        never: whether a job never started.
    """
    if SUMMARY_COLUMN not in has:
        return {}
    is_read = _is_read(held) & ~never
    has_memory = is_read & (_of("mem_total_gib") > 0)
    counters = _of("known")
    return {
        "gpu_util_mean": pl.when(is_read).then(_of("percent") / counters),
        "gpus_idle": pl.when(is_read).then(_of("idle")),
        "gpu_util_coverage": pl.when(is_read).then((counters / held).clip(0, 1)),
        "gpu_mem_used_share": pl.when(has_memory).then(_of("mem_used_gib") / _of("mem_total_gib")),
        "gpu_mem_used_gib": pl.when(has_memory).then(_of("mem_most_gib")),
        "gpu_mem_total_gib": pl.when(has_memory).then(_of("mem_of_one_gib")),
        "gpu_util_source": pl.when(is_read).then(pl.lit(JOBSTATS)),
    }


def utilization_tallies(has: Set[str], held: pl.Expr) -> tuple[Tally, ...]:
    """Return what to count of the summaries among the rows."""
    if SUMMARY_COLUMN not in has:
        return ()
    status, is_read = _of("status"), _is_read(held)
    has_gpus = held > 0
    return (
        Tally("runs with a summary of jobstats (GPU utilization, in AdminComment)", is_read),
        Tally("runs that jobstats calls too short (utilization unknown)",
              (status == SHORT) & has_gpus),
        Tally("runs without a summary of jobstats (utilization unknown)",
              (status == NONE) & has_gpus),
        Tally("summaries of jobstats that cannot be read (utilization unknown)",
              status == UNREADABLE),
        Tally("summaries of jobstats that are too large when unpacked (utilization unknown)",
              status == TOO_LARGE),
        Tally("summaries of jobstats without GPU counters, of jobs with GPUs (utilization unknown)",
              (status == WITHOUT_GPUS) & has_gpus),
        Tally("summaries of jobstats with more GPUs than the job held (utilization unknown)",
              (status == READ) & ~is_read & has_gpus),
        Tally("summaries of jobstats with fewer GPUs than the job held (the others are unknown)",
              is_read & (_of("known") < held)),
        Tally("GPUs with memory but no utilization in jobstats, which counts as 0%",
              pl.when(is_read).then(_of("unlisted").cast(pl.Int64))),
        Tally("GPU counters of jobstats above 100% (unknown)",
              _of("above").cast(pl.Int64)),
    )  # fmt: skip


def _of(name: str) -> pl.Expr:
    return pl.col(SUMMARY_FIELD).struct.field(name)


def _is_read(held: pl.Expr) -> pl.Expr:
    """Return whether a summary tells of GPUs that the job held; of which ones it is silent."""
    listed = _of("listed")
    return ((_of("status") == READ) & (listed <= held + HELD_TOLERANCE)).fill_null(False)
