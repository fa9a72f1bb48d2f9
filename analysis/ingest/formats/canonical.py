"""The canonical trace itself, as Parquet or CSV: checked, completed and written anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import polars as pl

from gpuplan.analysis.errors import InputError
from gpuplan.analysis.ingest.batch import ROW, Batch, Rows
from gpuplan.analysis.ingest.format import Format, Sight, has_columns, need
from gpuplan.analysis.ingest.formats.mapped import table_plan
from gpuplan.analysis.ingest.plan import Plan
from gpuplan.analysis.ingest.source import Head, SourceStream
from gpuplan.analysis.ingest.tables import open_table
from gpuplan.analysis.schema import CANONICAL, METADATA_KEY, REQUIRED, Provenance

ROWS_PER_BATCH = 50_000


def _open(stream: SourceStream) -> Rows:
    if not Head(stream.path, stream.head).is_parquet:
        return open_table(stream)
    try:
        scan = pl.scan_parquet(stream.to_file())
        schema = scan.collect_schema()
        sample = scan.head(20).select(_as_text(schema)).collect()
    except pl.exceptions.PolarsError as error:
        raise _damaged(stream.path, error) from error
    return Rows(
        columns=tuple(schema),
        sample=tuple(sample.to_dicts()),
        batches=partial(_batches, stream.path, scan, schema),
    )


def _batches(
    path: Path, scan: pl.LazyFrame, schema: pl.Schema, wanted: Sequence[str]
) -> Iterator[Callable[[], Batch]]:
    first = 1
    chosen = scan.select(_as_text({name: schema[name] for name in wanted}))
    try:
        for cells in chosen.collect_batches(maintain_order=True, chunk_size=ROWS_PER_BATCH):
            rows = pl.int_range(first, first + cells.height, eager=True).alias(ROW)
            yield partial(_batch, cells.with_columns(rows))
            first += cells.height
    except pl.exceptions.PolarsError as error:
        raise _damaged(path, error) from error


def _batch(cells: pl.DataFrame) -> Batch:
    def raw(positions: Sequence[int]) -> list[str]:
        rows = cells.drop(ROW)[list(positions)]
        return [row for (row,) in rows.select(pl.struct(pl.all()).struct.json_encode()).rows()]

    return Batch(cells, raw)


def _as_text(schema: pl.Schema | dict[str, pl.DataType]) -> list[pl.Expr]:
    """Return every column as text, times with their offset; what has no text form is null."""
    columns = []
    for name, kind in schema.items():
        column = pl.col(name)
        if isinstance(kind, pl.Datetime):
            form = "%Y-%m-%d %H:%M:%S%.6f" + ("Z" if kind.time_zone else "")
            utc = column.dt.convert_time_zone("UTC") if kind.time_zone else column
            columns.append(utc.dt.to_string(form))
        elif kind.is_nested() or kind == pl.Binary():
            columns.append(pl.lit(None, pl.String).alias(name))
        else:
            columns.append(column.cast(pl.String))
    return columns


def _damaged(path: Path, error: Exception) -> InputError:
    reason = str(error).splitlines()[0]
    return InputError(path, f"is a damaged Parquet file ({reason})", hint="fetch it again")


def _plan(sight: Sight) -> Plan:
    need(sight, REQUIRED, "canonical")
    plan = table_plan(sight, {name: name for name in CANONICAL if name in sight.columns}, "job")
    before = _provenance(sight.head)
    if before is None:
        return plan
    return replace(plan, relative_time=before.relative_time, time_zone=before.time_zone,
                   notes=before.notes)  # fmt: skip


def _provenance(head: Head) -> Provenance | None:
    if not head.is_parquet:
        return None
    try:
        return Provenance.from_json(pl.read_parquet_metadata(head.file or head.path)[METADATA_KEY])
    except (KeyError, ValueError, TypeError, pl.exceptions.PolarsError):
        return None  # written by another tool


def _recognizes(head: Head) -> str | None:
    if head.is_parquet:
        return "a Parquet file"
    return has_columns(head, REQUIRED)


CANONICAL_FORMAT = Format(
    name="canonical",
    description="a canonical trace, Parquet or CSV, of gpuplan or any other tool",
    source="gpuplan ingest, or your own tool",
    recognizes=_recognizes,
    plan=_plan,
    open=_open,
    takes_zone=True,
)
