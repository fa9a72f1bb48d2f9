"""Make one trace of logs of several formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.version import gpuplan_version
from gpuplan.analysis.ingest.trace_reading import ROW_GROUP_ROWS, Reading
from gpuplan.analysis.job_table.schema import METADATA_KEY, SOURCE, Provenance


def merge(readings: Sequence[Reading], output: Path) -> Provenance:
    """Write the traces of several formats as one, with the format of each job in a column.

    An id that several of them have gets the format's name in front.

    Args:
        readings: what was read of each format; each has its trace.
        output: the trace to write.

    Raises:
        InputError: only some of the logs have a calendar.
    """
    parts = {one.format.name: pl.scan_parquet(_trace(one), glob=False) for one in readings}
    own_ids = [part.select(pl.col("job_id").unique()) for part in parts.values()]
    shared = pl.concat(own_ids).filter(pl.col("job_id").is_duplicated()).unique().collect()
    is_shared = pl.col("job_id").is_in(shared["job_id"].to_list())
    named = [
        part.with_columns(
            pl.when(is_shared)
            .then(pl.lit(f"{name}:") + pl.col("job_id"))
            .otherwise("job_id")
            .alias("job_id"),
            _source(name, part),
        )
        for name, part in parts.items()
    ]
    provenance = _provenance(readings, shared.height)
    try:
        pl.concat(named, how="diagonal").sink_parquet(
            output,
            row_group_size=ROW_GROUP_ROWS,
            metadata={METADATA_KEY: provenance.to_json()},
        )
    except pl.exceptions.PolarsError as error:  # a full disk, for example
        raise OSError(str(error)) from error
    return provenance


def _source(name: str, part: pl.LazyFrame) -> pl.Expr:
    """Return the format of each job; a trace of several formats has it already."""
    known = SOURCE in part.collect_schema().names()
    return (pl.col(SOURCE).fill_null(name) if known else pl.lit(name)).alias(SOURCE)


def _trace(reading: Reading) -> Path:
    assert reading.trace is not None
    return reading.trace


def _provenance(readings: Sequence[Reading], shared_ids: int) -> Provenance:
    accounts = [one.provenance() for one in readings]
    first = accounts[0]
    for one in accounts[1:]:
        if one.relative_time is not first.relative_time:
            relative, dated = (one, first) if one.relative_time else (first, one)
            raise InputError(
                relative.sources[0].name,
                f"has times from the start of the log, {dated.sources[0].name} has dates",
                expected="logs that share a calendar",
                hint="ingest them one by one; if one is misread, force the format "
                "with --source-format",
            )
    zones = {one.time_zone for one in accounts}
    notes = [f"{one.source_format}: {note}" for one in accounts for note in one.notes]
    if len(zones) > 1:
        notes.append("the logs are of several time zones; the time of day is in UTC")
    if shared_ids:
        notes.append(f"job ids in several logs, now with the format in front: {shared_ids:,}")
    rejected: Counter[str] = Counter()
    for one in accounts:
        rejected.update(one.rows_rejected or {})
    return Provenance(
        source_format="+".join(one.source_format for one in accounts),
        sources=tuple(source for one in accounts for source in one.sources),
        rows_read=sum(one.rows_read for one in accounts),
        rows_kept=sum(one.rows_kept for one in accounts),
        rows_rejected=dict(sorted(rejected.items())),
        relative_time=first.relative_time,
        time_zone=first.time_zone if len(zones) == 1 else "UTC",
        notes=tuple(notes),
        gpuplan_version=gpuplan_version(),
    )
