"""Read Parquet files of any tool into text columns, as other sources are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from gpuplan.analysis.base.casts import PER_S, kind_in_words, no_pattern
from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.time_units import DAY_S
from gpuplan.analysis.job_table.run_cells import is_runs, runs_text
from gpuplan.analysis.job_table.schema import RUNS
from gpuplan.analysis.reading.batch import ROW, Batch, Rows
from gpuplan.analysis.reading.source import SourceStream

if TYPE_CHECKING:
    from pyarrow import Array, ChunkedArray, RecordBatch, Table
    from pyarrow.parquet import ParquetFile

ROWS_PER_BATCH = 50_000
SAMPLE_ROWS = 20
DAMAGE = (ValueError, LookupError, OSError, MemoryError, NotImplementedError,
          pl.exceptions.PolarsError, pl.exceptions.PanicException)  # fmt: skip
"""What reading a damaged Parquet file raises; the errors of pyarrow are of these."""
CALENDAR_S = (-9_000 * 366 * DAY_S, 9_000 * 366 * DAY_S)
"""Range of seconds after 1970 that can be written as a time; other times are invalid."""
NOT_TEXT = "bytes that are not UTF-8 text"


def open_parquet(stream: SourceStream, *, nested_as_json: bool = False) -> Rows:
    """Open a Parquet file; its schema and first rows are read at once.

    Args:
        stream: the file.
        nested_as_json: whether lists, records and maps are read as JSON, a record of their name;
            otherwise they cannot be read.

    Raises:
        InputError: it is damaged.
    """
    # By pyarrow, as polars panics at some damaged files and writes about it on the terminal.
    from pyarrow.parquet import ParquetFile

    try:
        file = ParquetFile(stream.to_file(), pre_buffer=False)
        whole = _frame(file.schema_arrow.empty_table()).schema
        schema = pl.Schema({n: kind for n, kind in whole.items() if no_pattern(n) == n})
        sample = [
            row
            for part in islice(file.iter_batches(SAMPLE_ROWS), 1)
            for row in _frame(part).select(_as_text(schema, nested_as_json)).to_dicts()
        ]
    except DAMAGE as error:
        raise _damaged(stream.path, error) from error
    return Rows(
        columns=tuple(schema),
        sample=tuple(sample),
        batches=partial(_batches, stream.path, file, schema, nested_as_json),
    )


def _batches(
    path: Path, file: ParquetFile, schema: pl.Schema, nested_as_json: bool, wanted: Sequence[str]
) -> Iterator[Callable[[], Batch]]:
    first = 1
    for name in wanted:
        if _has_no_text(name, schema[name]) and not nested_as_json:
            raise InputError(
                path,
                f"holds {kind_in_words(schema[name])}",
                column=name,
                expected="text, numbers or times",
                hint="leave the column out, or write it as one of these",
            )
    chosen = _as_text({name: schema[name] for name in wanted}, nested_as_json)
    try:
        for part in file.iter_batches(ROWS_PER_BATCH, columns=list(wanted)):
            cells = _frame(part).select(chosen)
            rows = pl.int_range(first, first + cells.height, eager=True).alias(ROW)
            yield partial(_batch, cells.with_columns(rows))
            first += cells.height
    except DAMAGE as error:
        raise _damaged(path, error) from error


def _frame(part: Table | RecordBatch) -> pl.DataFrame:
    """Return columns of pyarrow, checked, as polars does not validate UTF-8 text.

    They go one by one, without the metadata of the schema, which it does not check either.
    """
    part.validate(full=True)
    names = part.schema.names
    columns = [_readable(column) for column in part.columns]
    return pl.DataFrame([pl.Series(n, c) for n, c in zip(names, columns, strict=True)])


def _readable(column: ChunkedArray | Array) -> ChunkedArray | Array:
    """Return a column in a type of polars, which panics at unknown zones and long decimals."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return column.cast(pa.timestamp(kind.unit, "UTC"))
    return column.cast(pa.string()) if pa.types.is_decimal256(kind) else column


def _batch(cells: pl.DataFrame) -> Batch:
    def raw(positions: Sequence[int]) -> list[str]:
        rows = cells.drop(ROW)[list(positions)]
        return [row for (row,) in rows.select(pl.struct(pl.all()).struct.json_encode()).rows()]

    return Batch(cells, raw)


def _as_text(
    schema: pl.Schema | dict[str, pl.DataType], nested_as_json: bool = False
) -> list[pl.Expr]:
    """Return every column as text, times with their offset; lists and records but
    runs are null, or JSON."""
    return [
        (
            pl.struct(name).struct.json_encode()
            if nested_as_json and kind.is_nested()
            else _text_of(name, kind)
        ).alias(name)
        for name, kind in schema.items()
    ]


def _text_of(name: str, kind: pl.DataType) -> pl.Expr:
    """Return a column as text. Times that cannot be written become numbers."""
    column = pl.col(name)
    number = column.to_physical().cast(pl.String)
    if isinstance(kind, pl.Datetime):
        form = "%Y-%m-%d %H:%M:%S%.6f" + ("Z" if kind.time_zone else "")
        utc = column.dt.convert_time_zone("UTC") if kind.time_zone else column
        least, most = (second * PER_S[kind.time_unit] for second in CALENDAR_S)
        recorded = _within(utc, least, most, kind).dt.to_string(form)
        return recorded.fill_null(number + f" {kind.time_unit} after 1970")
    if kind == pl.Date():
        least, most = (second // DAY_S for second in CALENDAR_S)
        return (
            _within(column, least, most, kind)
            .cast(pl.String)
            .fill_null(number + " days after 1970")
        )
    if isinstance(kind, pl.Duration):
        return (column.to_physical() / PER_S[kind.time_unit]).cast(pl.String)
    if _has_no_text(name, kind):
        return pl.lit(None, pl.String)
    if kind.is_nested():
        return runs_text(kind)
    recorded = column.cast(pl.String)
    if kind == pl.Binary():
        recorded = column.map_batches(_decoded, return_dtype=pl.String)
    return pl.when(recorded != "").then(recorded)  # an empty cell is null, as in other sources


def _decoded(cells: pl.Series) -> pl.Series:
    """Return bytes as text, as some tools write it."""
    try:
        return cells.cast(pl.String)
    except pl.exceptions.PolarsError:
        return pl.Series(cells.name, [_decoded_cell(cell) for cell in cells], pl.String)


def _decoded_cell(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return NOT_TEXT


def _within(column: pl.Expr, least: int, most: int, kind: pl.DataType) -> pl.Expr:
    """Return temporal values between two, which polars can write; others are null."""
    value = column.to_physical()
    return pl.when(value.is_between(least, most)).then(value).cast(kind)


def _has_no_text(name: str, kind: pl.DataType) -> bool:
    is_nested = kind.is_nested() and not (name == RUNS and is_runs(kind))
    return is_nested or kind == pl.Object()


def _damaged(path: Path, error: BaseException) -> InputError:
    reason = str(error).partition("\n")[0]
    return InputError(path, f"is a damaged Parquet file ({reason})", hint="fetch it again")
