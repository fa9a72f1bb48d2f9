"""The kinds of waste of each job, each GPU-hour in one of them.

In this order: GPUs of jobs that use none of theirs (`IDLE`); GPUs idle for long at the begin or the
end of a job that used them (`IDLE_ENDS`, from series alone); GPUs that a job never used beside
others that it did, or that have no figures (`PARTLY_IDLE`); GPUs of jobs that use theirs little on
average (`LOW`); the rest of jobs that failed or ran into their limit (`FAILED`). GPU-hours without
figures are `UNKNOWN`, whatever became of the job; all others are `USED`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from gpuplan.analysis.base.arrays import BoolArray, FloatArray
from gpuplan.analysis.base.time_units import HOUR_S
from gpuplan.analysis.history.jobs import COLUMNS as HISTORY_COLUMNS
from gpuplan.analysis.job_table.schema import LIMIT_COLUMN, STATES, UTILIZATION_COLUMNS
from gpuplan.analysis.trace.trace import Trace

IDLE, IDLE_ENDS, PARTLY_IDLE, LOW, FAILED = (
    "idle", "idle_ends", "partly_idle", "low_utilization", "failed",
)  # fmt: skip
KINDS = (IDLE, IDLE_ENDS, PARTLY_IDLE, LOW, FAILED)
UNKNOWN, USED = "unknown", "used"
FAILED_UNKNOWN = "failed_unknown_gpu_h"
"""Column with the part of the unknown GPU-hours that failed: the log knows states without use."""
HAS_STATE = "has_state"
"""Column that tells of which jobs the log has a state: of all others nobody knows what failed."""

COLUMNS = ("job_id", *HISTORY_COLUMNS)
"""Columns of a trace that `kinds_of_waste` reads; `OPTIONAL` where the trace has them."""
OPTIONAL = (*UTILIZATION_COLUMNS, LIMIT_COLUMN)

ROUNDING = 1e-9
"""Of GPU-hours that are sums of seconds."""
ALMOST_ALL = 0.95
"""Share of a job's GPU-hours with figures at which they tell that none of its GPUs was used."""
LOW_PERCENT = 15.0
"""Mean utilization, of the GPUs and hours in use, below which it is low."""
LIMIT_RATIO = 3.0
"""Times its run time above which the limit of a job is long."""
LOST_STATES = ("failed", "timeout")
SERIES_COLUMNS = (
    "covered_gpu_h", "never_used_gpu_h", "idle_begin_gpu_h", "idle_end_gpu_h", "gpu_util_mean",
)  # fmt: skip


def column_of(kind: str) -> str:
    """Return the column of `kinds_of_waste` with the GPU-hours of a kind."""
    return f"{kind}_gpu_h"


def kinds_of_waste(log: Trace, series: pl.DataFrame | None = None) -> pl.DataFrame:
    """Classify the GPU-hours of each job.

    Args:
        log: jobs with `COLUMNS`, and `OPTIONAL` where they have them.
        series: what `gpuplan.analysis.waste.series.read_metrics` found, one row per job.

    Returns:
        A row per job, in the order of the log: ``job_id``; ``held_gpu_h``; a column `column_of`
        each of `KINDS`, `UNKNOWN` and `USED`, which add up to it; ``failed_unknown_gpu_h``, the
        part of the unknown that failed; ``has_state``, whether the log says how the job ended;
        ``is_long_limit``, null without a limit, and ``beyond_limit_gpu_h``, GPU-hours that its
        limit asks for beyond its run time.
    """
    jobs, arrays = log.jobs, log.arrays()
    held = arrays.gpu_s / HOUR_S
    use = _use(jobs, held)
    if series is not None:
        use = _with_series(use, held, _in_order(jobs, series))
    covered = np.where(use.covered >= held * (1 - ROUNDING), held, use.covered)
    use = replace(use, covered=covered)
    is_lost = np.isin(arrays.state, [STATES.index(state) for state in LOST_STATES])
    left = use.covered.copy()
    wasted: dict[str, FloatArray] = {}

    def take(kind: str, hours: FloatArray) -> None:
        wasted[kind] = np.clip(hours, 0, left)
        np.subtract(left, wasted[kind], out=left)

    is_whole = (use.covered > 0) & (use.covered >= held * ALMOST_ALL)
    is_idle = is_whole & (use.unused >= use.covered * (1 - ROUNDING))
    take(IDLE, np.where(is_idle, use.covered, 0.0))
    unused = np.minimum(use.unused, left)
    take(IDLE_ENDS, np.minimum(use.ends, left - unused))
    take(PARTLY_IDLE, unused)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        percent_in_use = use.percent * use.covered / left
    take(LOW, np.where(percent_in_use < LOW_PERCENT, left, 0.0))
    take(FAILED, np.where(is_lost, left, 0.0))
    unknown = np.maximum(held - use.covered, 0.0)
    is_long, beyond = _limits(jobs, arrays.duration_s, arrays.num_gpus)
    return pl.DataFrame(
        {
            "job_id": jobs["job_id"],
            "held_gpu_h": held,
            **{column_of(kind): hours for kind, hours in wasted.items()},
            column_of(UNKNOWN): unknown,
            column_of(USED): left,
            FAILED_UNKNOWN: np.where(is_lost, unknown, 0.0),
            HAS_STATE: arrays.state != STATES.index("unknown"),
            "is_long_limit": is_long,
            "beyond_limit_gpu_h": beyond,
        }
    )


@dataclass(frozen=True, slots=True)
class _Use:
    """What is known of the GPU-hours of jobs; arrays of shape (n,).

    Attributes:
        covered: GPU-hours with figures.
        unused: of these, those of GPUs that were never in use.
        ends: of these, those of other GPUs that idle at an end of the job.
        percent: mean utilization of the GPU-hours covered; NaN without any.
    """

    covered: FloatArray
    unused: FloatArray
    ends: FloatArray
    percent: FloatArray


def _use(jobs: pl.DataFrame, held: FloatArray) -> _Use:
    """Return what the columns of a trace tell; a job without figures has nothing covered."""
    percent, idle, coverage = (
        _numbers(jobs, name) for name in ("gpu_util_mean", "gpus_idle", "gpu_util_coverage")
    )
    if "gpu_util_coverage" not in jobs.columns:  # of another tool
        coverage = np.ones(held.size)
    share = np.where(np.isnan(percent), 0.0, np.clip(np.nan_to_num(coverage), 0, 1))
    covered = held * share
    gpus = _numbers(jobs, "num_gpus") * share
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        idle_share = np.clip(np.nan_to_num(idle) / gpus, 0, 1)
    unused = covered * np.where(gpus > 0, idle_share, 0.0)
    unused = np.where(percent == 0, covered, unused)
    return _Use(covered, unused, np.zeros(held.size), percent)


def _with_series(use: _Use, held: FloatArray, series: pl.DataFrame) -> _Use:
    """Return what is known with series: of a job that both cover, the wider one tells the means."""
    covered, unused, begin, end, percent = (_numbers(series, name) for name in SERIES_COLUMNS)
    of_series = np.clip(np.nan_to_num(covered), 0, held)
    wider: BoolArray = of_series > use.covered
    ends = np.nan_to_num(begin) + np.nan_to_num(end)
    return _Use(
        covered=np.where(wider, of_series, use.covered),
        unused=np.where(wider, np.nan_to_num(unused), use.unused),
        ends=ends,
        percent=np.where(wider, percent, use.percent),
    )


def _in_order(jobs: pl.DataFrame, series: pl.DataFrame) -> pl.DataFrame:
    return jobs.select("job_id").join(series, on="job_id", how="left", maintain_order="left")


def _limits(
    jobs: pl.DataFrame, run_s: FloatArray, gpus: FloatArray
) -> tuple[pl.Series, FloatArray]:
    """Return which limits are long, null without one, and the GPU-hours beyond the run time."""
    limit_s = _numbers(jobs, LIMIT_COLUMN)
    has_both = ~np.isnan(limit_s) & (run_s > 0) & (gpus > 0)
    with np.errstate(invalid="ignore"):
        is_long = pl.Series(limit_s > LIMIT_RATIO * run_s)
        beyond = np.where(has_both, np.maximum(limit_s - run_s, 0.0) * gpus / HOUR_S, 0.0)
    nothing = pl.Series([None], dtype=pl.Boolean).new_from_index(0, limit_s.size)
    return is_long.zip_with(pl.Series(has_both), nothing), beyond


def _numbers(jobs: pl.DataFrame, name: str) -> FloatArray:
    """Return a column as numbers; NaN where it is null or not there."""
    if name not in jobs.columns or not jobs[name].dtype.is_numeric():
        return np.full(jobs.height, np.nan)
    column: FloatArray = jobs[name].cast(pl.Float64).to_numpy()
    return column
