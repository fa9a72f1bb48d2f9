"""From when to when a trace has jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import polars as pl

from gpuplan.analysis.base.time_units import MICROS
from gpuplan.analysis.job_table.schema import REQUEUE


@dataclass(frozen=True, slots=True)
class LogSpan:
    """From when to when a log has jobs; times in UTC as RFC 3339.

    Attributes:
        first_submit, last_submit: submissions.
        first_end, last_end: ends of the jobs that ended; null where none did.
    """

    first_submit: str
    last_submit: str
    first_end: str | None
    last_end: str | None


def span_of(trace: Path) -> LogSpan | None:
    """Return from when to when a trace has jobs; None for one without."""
    wait_s = pl.col("queue_s").fill_null(0.0)
    requeue_s = pl.col(REQUEUE).fill_null(0.0)
    scan = pl.scan_parquet(trace, glob=False)
    if REQUEUE not in scan.collect_schema():
        requeue_s = pl.lit(0.0)
    total_us = ((wait_s + pl.col("duration_s") + requeue_s) * MICROS).round().cast(pl.Int64)
    ended = pl.when(pl.col("state") != "running").then(
        pl.col("submit_time") + pl.duration(microseconds=total_us)
    )
    submit = pl.col("submit_time")
    first, last, first_end, last_end = (
        scan.select(a=submit.min(), b=submit.max(), c=ended.min(), d=ended.max()).collect().row(0)
    )
    if first is None:
        return None
    return LogSpan(_written(first), _written(last), _or_none(first_end), _or_none(last_end))


def _or_none(moment: datetime | None) -> str | None:
    return None if moment is None else _written(moment)


def _written(moment: datetime) -> str:
    return moment.replace(tzinfo=None).isoformat() + "Z"
