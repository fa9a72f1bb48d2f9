"""Keep the scheduler's fields of a log in its trace: what ``ingest --twin`` adds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.job_table.schema import METADATA_KEY
from gpuplan.analysis.site.log import SiteLog, read_site_log
from gpuplan.analysis.storage.files import atomic_output
from gpuplan.analysis.storage.parquet import write_parquet

TEXT, WHOLE = pl.String(), pl.Int64()
KEPT_COLUMNS: dict[str, pl.DataType] = {
    "eligible_time": pl.Datetime("us", "UTC"),
    "limit_s": pl.Float64(),
    "partition": TEXT,
    "qos": TEXT,
    "account": TEXT,
    "req_nodes": pl.Int32(),
    "recorded_priority": WHOLE,
    "reason": TEXT,
    "cancel_time": pl.Datetime("us", "UTC"),
    "billing": pl.Float64(),
}
"""Columns that ``ingest --twin`` adds to a trace; all may be null."""


FORMATS = ("slurm", "swf")


def read_site_columns(sources: Sequence[Path], zone: str = "UTC") -> tuple[pl.DataFrame, list[str]]:
    """Return the columns of `KEPT_COLUMNS` of logs by job, before anything is written.

    Returns:
        One row per job, and what each missing field switches off, one sentence each.

    Raises:
        InputError: a log cannot be read.
        UsageError: a source is a folder or standard input.
    """
    for source in sources:
        if not source.is_file():
            raise UsageError(f"--twin: {source} is not a file; name the logs one by one")
    logs = [read_site_log(source, zone) for source in sources]
    kept = pl.concat([_columns(log) for log in logs]).unique(
        "job_id", keep="first", maintain_order=True
    )
    return kept, list(dict.fromkeys(text for log in logs for text in log.switched_off()))


def add_site_columns(trace: Path, kept: pl.DataFrame) -> None:
    """Add the columns to a trace that was made of the same logs."""
    metadata = pl.read_parquet_metadata(trace)
    jobs = pl.read_parquet(trace).join(kept, on="job_id", how="left", maintain_order="left")
    with atomic_output(trace) as temporary:
        write_parquet(jobs, temporary, {METADATA_KEY: metadata[METADATA_KEY]})


def _columns(log: SiteLog) -> pl.DataFrame:
    def moment(name: str) -> pl.Expr:
        return (pl.col(name) * 1_000_000).cast(pl.Datetime("us", "UTC"))

    never = pl.col("start").is_null()
    return log.jobs.select(
        "job_id",
        moment("eligible").alias("eligible_time"),
        pl.col("limit_s").cast(pl.Float64),
        "partition",
        "qos",
        "account",
        pl.col("nodes").cast(pl.Int32).alias("req_nodes"),
        pl.col("priority").alias("recorded_priority"),
        "reason",
        pl.when(never).then(moment("end")).alias("cancel_time"),
        "billing",
    ).select("job_id", *(pl.col(name).cast(kind) for name, kind in KEPT_COLUMNS.items()))
