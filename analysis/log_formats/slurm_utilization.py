"""The utilization of a job's GPUs in ``sacct``: jobstats summaries, and Slurm's own of its steps.

Unknown is null everywhere and never counts as idle.
"""

from __future__ import annotations

import re
from collections.abc import Set

import polars as pl

from gpuplan.analysis.job_table.notation import expand_hosts
from gpuplan.analysis.job_table.schema import UTILIZATION_COLUMNS
from gpuplan.analysis.log_formats.jobstats import (
    FIELDS,
    NONE,
    READ,
    SHORT,
    TOO_LARGE,
    UNREADABLE,
    WITHOUT_GPUS,
    summaries,
)
from gpuplan.analysis.log_formats.slurm_steps import GPU_MEM, GPU_UTIL, USAGE
from gpuplan.analysis.reading.batch import Tally
from gpuplan.analysis.reading.memo import ColumnMemo
from gpuplan.analysis.reading.plan import Field

JOBSTATS, STEPS = "jobstats", "slurm steps"
SUMMARY_COLUMN = "admincomment"
SUMMARY_FIELD, USAGE_FIELD = "summary of jobstats", "usage of steps"
NODES_COLUMN, FOREIGN = "nodelist", "foreign"
CHECKED_FIELDS = (*(name for name in FIELDS if name != "nodes"), FOREIGN)
CHECKED = pl.Struct({name: FIELDS.get(name, pl.Boolean()) for name in CHECKED_FIELDS})
"""What is kept of a summary: with whether it is of nodes that the job did not hold."""
HELD_TOLERANCE = 1e-6
PERCENT_TOLERANCE = 1.01
NO_NODES = re.compile(r"(?i)none assigned|unknown|^\(?(null|none)\)?$")
NO_COUNTERS = r"(?i)mig|[0-9]g\.|gh200|^mi[0-9]|amd|instinct|radeon"
"""GPU types on which Slurm writes 0 where it has no counter."""


def utilization_columns(has: Set[str]) -> dict[str, pl.DataType]:
    """Return the columns on utilization that the trace of a log has."""
    return UTILIZATION_COLUMNS if has & {SUMMARY_COLUMN, USAGE} else {}


def utilization_fields(has: Set[str], memo: ColumnMemo) -> tuple[Field, ...]:
    """Return the cells that `utilization_values` reads; none of them refuses a row.

    Args:
        has: the columns of the log.
        memo: summaries that an earlier pass has read.
    """
    fields = []
    if SUMMARY_COLUMN in has:

        def read(cells: pl.Series) -> pl.Series:
            held = cells.struct.field(NODES_COLUMN) if NODES_COLUMN in has else None
            return _checked(memo.of(cells.struct.field(SUMMARY_COLUMN), summaries), held)

        cells = pl.struct(name for name in (SUMMARY_COLUMN, NODES_COLUMN) if name in has)
        value = cells.map_batches(read, return_dtype=CHECKED, is_elementwise=True)
        fields.append(Field(SUMMARY_FIELD, SUMMARY_COLUMN, value))
    if USAGE in has:
        fields.append(Field(USAGE_FIELD, USAGE, pl.col(USAGE)))
    return tuple(fields)


def utilization_values(
    has: Set[str], held: pl.Expr, gpu_type: pl.Expr, never: pl.Expr
) -> dict[str, pl.Expr]:
    """Return `UTILIZATION_COLUMNS` as expressions over fields; jobstats goes before steps.

    Args:
        has: the columns of the log.
        held: the GPUs that a job held.
        gpu_type: their type as the log writes it; empty or null where it does not.
        never: whether a job never started.
    """
    sources = []
    if SUMMARY_COLUMN in has:
        sources.append(_of_summary(held, never))
    if USAGE in has:
        sources.append(_of_steps(held, gpu_type, never))
    if not sources:
        return {}
    first, *other_sources = sources
    is_first = first["gpu_util_source"].is_not_null()
    if not other_sources:
        return first
    return {
        name: pl.when(is_first).then(first[name]).otherwise(other_sources[0][name])
        for name in UTILIZATION_COLUMNS
    }


def _of_summary(held: pl.Expr, never: pl.Expr) -> dict[str, pl.Expr]:
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


def _of_steps(held: pl.Expr, gpu_type: pl.Expr, never: pl.Expr) -> dict[str, pl.Expr]:
    """Return what steps tell: the sum over GPUs, so that which of several idled is unknown."""
    percent = percent_of_usage(held, gpu_type)
    is_read = percent.is_not_null() & ~never
    nothing = pl.lit(None, pl.Float64)
    idle = pl.when(percent == 0).then(held).when(held <= 1).then(0.0)
    return {
        "gpu_util_mean": pl.when(is_read).then(percent),
        "gpus_idle": pl.when(is_read).then(idle),
        "gpu_util_coverage": pl.when(is_read).then(1.0),
        **dict.fromkeys(("gpu_mem_used_share", "gpu_mem_used_gib", "gpu_mem_total_gib"), nothing),
        "gpu_util_source": pl.when(is_read).then(pl.lit(STEPS)),
    }


def percent_of_usage(held: pl.Expr, gpu_type: pl.Expr) -> pl.Expr:
    """Return the mean percent of a GPU from the usage of steps; null where that is unknown.

    More than 100% of each GPU is no measurement. 0 is one where the GPU has counters: where its
    type is named and does not lack them, or where memory was in use.
    """
    usage = pl.col(USAGE_FIELD)
    percent = usage.str.extract(GPU_UTIL).cast(pl.Float64, strict=False) / held
    kind = gpu_type.fill_null("")
    has_counters = (kind != "") | usage.str.contains(GPU_MEM)
    is_zero = (percent > 0) | (has_counters & ~kind.str.contains(NO_COUNTERS))
    is_known = (held > 0) & (percent <= 100 * PERCENT_TOLERANCE) & is_zero
    return pl.when(is_known).then(percent.clip(0, 100))


def utilization_tallies(has: Set[str], held: pl.Expr, gpu_type: pl.Expr) -> tuple[Tally, ...]:
    """Return what to count of the figures among the rows."""
    tallies = _summary_tallies(held) if SUMMARY_COLUMN in has else ()
    if USAGE not in has:
        return tallies
    percent = percent_of_usage(held, gpu_type)
    has_usage = pl.col(USAGE_FIELD).str.contains(GPU_UTIL) & (held > 0)
    return (
        *tallies,
        Tally("runs with GPU utilization of their steps (TRESUsageInAve)", percent.is_not_null()),
        Tally("runs whose steps have a GPU utilization that is no measurement (unknown)",
              has_usage & percent.is_null()),
    )  # fmt: skip


def _summary_tallies(held: pl.Expr) -> tuple[Tally, ...]:
    status, is_read, is_foreign = _of("status"), _is_read(held), _of(FOREIGN)
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
              (status == READ) & ~is_read & has_gpus & ~is_foreign),
        Tally("summaries of jobstats of nodes that the job did not hold (utilization unknown)",
              (status == READ) & has_gpus & is_foreign),
        Tally("summaries of jobstats with fewer GPUs than the job held (the others are unknown)",
              is_read & (_of("known") < held)),
        Tally("GPUs with memory but no utilization in jobstats, which counts as 0%",
              pl.when(is_read).then(_of("unlisted").cast(pl.Int64))),
        Tally("GPU counters of jobstats above 100% (unknown)",
              _of("above").cast(pl.Int64)),
    )  # fmt: skip


def _of(name: str) -> pl.Expr:
    return pl.col(SUMMARY_FIELD).struct.field(name)


def _checked(read: pl.Series, held: pl.Series | None) -> pl.Series:
    """Return summaries with whether they are of other nodes than those of the run.

    Args:
        read: what `summaries` returns.
        held: the nodes of its run; None where the log does not tell them.
    """
    columns = read.struct.unnest()
    foreign = pl.lit(False) if held is None else _has_other_nodes(columns["nodes"], held)
    return columns.with_columns(foreign.alias(FOREIGN)).select(CHECKED_FIELDS).to_struct(read.name)


def _has_other_nodes(listed: pl.Series, held: pl.Series) -> pl.Series:
    """Return whether the first of two lists of nodes has some that the second one has not."""
    pairs = pl.DataFrame({"listed": listed, "held": held})
    may_differ = (pairs["listed"] != pairs["held"]).fill_null(False)
    if not may_differ.any():
        return may_differ
    differing = pairs.filter(may_differ).unique()
    differ = [_names_other_nodes(listed, held) for listed, held in differing.iter_rows()]
    odd = differing.with_columns(differs=pl.Series(differ, dtype=pl.Boolean))
    joined = pairs.join(odd, on=["listed", "held"], how="left", maintain_order="left")
    return joined["differs"].fill_null(False)


def _names_other_nodes(listed: str, held: str) -> bool:
    try:
        hosts = {name.partition(".")[0] for name in expand_hosts(held)}
    except ValueError:
        return False
    is_recorded = held.strip() != "" and not NO_NODES.search(held)
    return (
        is_recorded and not {name.partition(".")[0] for name in listed.split(",") if name} <= hosts
    )


def _is_read(held: pl.Expr) -> pl.Expr:
    """Return whether a summary tells of GPUs that the job held; of which ones it is silent."""
    listed = _of("listed")
    fits = (listed <= held + HELD_TOLERANCE) & ~_of(FOREIGN)
    return ((_of("status") == READ) & fits).fill_null(False)
