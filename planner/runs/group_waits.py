"""The waits of a replay by who submitted the jobs, or by what they run on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.history.jobs import BY
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.time import HOUR_S

MOST_BY = 2
UNNAMED = "unknown"


@dataclass(frozen=True, slots=True)
class GroupWaits:
    """The jobs of one group, or of one group and GPU type.

    Attributes:
        name: of the group; of two columns both, with a slash between them, one with a slash of its
            own in quotes. ``unknown`` where the log names none, or ``(unknown)`` beside a group of
            this name.
        jobs: its jobs.
        gpu_h: their run time x GPUs.
        mean_wait_s, p50_wait_s, p95_wait_s: their time without GPUs.
    """

    name: str
    jobs: int
    gpu_h: float
    mean_wait_s: float
    p50_wait_s: float
    p95_wait_s: float


def check_by(by: Sequence[str]) -> None:
    """Refuse what waits cannot be split by. Raises `UsageError`."""
    for name in by:
        if name not in BY:
            raise UsageError(f"--by {name}: expected one of {', '.join(BY)}")
    if len(set(by)) < len(by) or len(by) > MOST_BY:
        raise UsageError(f"--by {','.join(by)}: expected one or two different columns")


def group_waits(jobs: TraceJobs, wait_s: FloatArray, gpu_s: FloatArray) -> tuple[GroupWaits, ...]:
    """Return the waits of each group, most GPU-hours first; where GPUs are lent without spot jobs.

    Args:
        jobs: with the columns that they are split by in `TraceJobs.labels`.
        wait_s: of each job; NaN for one that does not count; shape (n,).
        gpu_s: GPU time of each; shape (n,).
    """
    if jobs.labels is None:
        raise ValueError("the jobs have no labels")
    is_spot = pl.lit(False) if jobs.tenants is None else pl.Series(jobs.tenants.is_spot)
    rows = jobs.labels.with_columns(
        wait_s=pl.Series(wait_s), gpu_h=pl.Series(gpu_s) / HOUR_S, is_spot=is_spot
    )
    return _by_group(rows.filter(~pl.col("is_spot") & pl.col("wait_s").is_not_nan()), jobs.by)


def recorded_waits(jobs: pl.DataFrame, by: Sequence[str]) -> tuple[GroupWaits, ...]:
    """Return the recorded waits of each group, as `group_waits` does; empty where none are known.

    Args:
        jobs: rows of a trace with the columns of `gpuplan.analysis.characterize.today` and those
            that waits are split by; with ``priority`` spot jobs do not count.
        by: what they are split by; nothing is returned for nothing.
    """
    if not by:
        return ()
    ran = (pl.col("num_gpus") > 0) & (pl.col("duration_s") >= 0) & (pl.col("queue_s") >= 0)
    ended = (pl.col("state") != "running").fill_null(True)
    hp = (pl.col("priority") != "spot").fill_null(True) if "priority" in jobs.columns else True
    kept = jobs.filter(ran & ended & hp).with_columns(
        wait_s=pl.col("queue_s"), gpu_h=pl.col("duration_s") * pl.col("num_gpus") / HOUR_S
    )
    return _by_group(kept, by)


def _by_group(jobs: pl.DataFrame, by: Sequence[str]) -> tuple[GroupWaits, ...]:
    names = [_names(jobs[BY[name]], alone=len(by) == 1) for name in by]
    rows = (
        jobs.select(pl.concat_str(names, separator="/").alias("name"), "wait_s", "gpu_h")
        .group_by("name")
        .agg(
            jobs=pl.len(),
            gpu_h=pl.col("gpu_h").sum(),
            mean_wait_s=pl.col("wait_s").mean(),
            p50_wait_s=pl.col("wait_s").quantile(0.5, "linear"),
            p95_wait_s=pl.col("wait_s").quantile(0.95, "linear"),
        )
        .sort(pl.col("gpu_h").round(9), "name", descending=[True, False])
    )
    return tuple(GroupWaits(**row) for row in rows.rows(named=True))


def _names(column: pl.Series, alone: bool) -> pl.Series:
    """Return names that differ where the groups do, also when two of them are joined."""
    text = column.cast(pl.String)
    nameless = f"({UNNAMED})" if (text == UNNAMED).any() else UNNAMED
    quoted = pl.concat_str(pl.lit('"'), pl.col(column.name), pl.lit('"'))
    has_slash = pl.lit(not alone) & pl.col(column.name).str.contains("/", literal=True)
    kept = pl.when(has_slash).then(quoted).otherwise(pl.col(column.name)).fill_null(nameless)
    return text.to_frame().select(kept).to_series()
