"""Read Parquet files of any tool into text columns, as other sources are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from gpuplan.analysis.errors import InputError
from gpuplan.analysis.ingest.batch import ROW, Batch, Rows
from gpuplan.analysis.ingest.source import SourceStream

if TYPE_CHECKING:
    from pyarrow import RecordBatch, Table
    from pyarrow.parquet import ParquetFile

ROWS_PER_BATCH = 50_000
SAMPLE_ROWS = 20
DAMAGE = (ValueError, LookupError, OSError, MemoryError, NotImplementedError,
          pl.exceptions.PolarsError)  # fmt: skip
"""What reading a damaged Parquet file raises; the errors of pyarrow are of these."""


def open_parquet(stream: SourceStream) -> Rows:
    """Open a Parquet file; its schema and first rows are read at once. Raises `InputError`."""
    # By pyarrow, as polars panics at some damaged files and writes about it on the terminal.
    from pyarrow.parquet import ParquetFile

    try:
        file = ParquetFile(stream.to_file(), pre_buffer=False)
        schema = _frame(file.schema_arrow.empty_table()).schema
        sample = [
            row
            for part in islice(file.iter_batches(SAMPLE_ROWS), 1)
            for row in _frame(part).select(_as_text(schema)).to_dicts()
        ]
    except DAMAGE as error:
        raise _damaged(stream.path, error) from error
    return Rows(
        columns=tuple(schema),
        sample=tuple(sample),
        batches=partial(_batches, stream.path, file, schema),
    )


def _batches(
    path: Path, file: ParquetFile, schema: pl.Schema, wanted: Sequence[str]
) -> Iterator[Callable[[], Batch]]:
    first = 1
    chosen = _as_text({name: schema[name] for name in wanted})
    try:
        for part in file.iter_batches(ROWS_PER_BATCH, columns=list(wanted)):
            cells = _frame(part).select(chosen)
            rows = pl.int_range(first, first + cells.height, eager=True).alias(ROW)
            yield partial(_batch, cells.with_columns(rows))
            first += cells.height
    except DAMAGE as error:
        raise _damaged(path, error) from error


def _frame(part: Table | RecordBatch) -> pl.DataFrame:
    """Return columns of pyarrow, checked, as polars takes text that is no UTF-8 on trust.

    They go one by one, without the metadata of the schema, which it does not check either.
    """
    part.validate(full=True)
    names = part.schema.names
    return pl.DataFrame([pl.Series(n, c) for n, c in zip(names, part.columns, strict=True)])


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
