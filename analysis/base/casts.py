"""Cast the columns of a Parquet file from any tool to the types of a canonical table."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import polars as pl

from gpuplan.analysis.base.errors import InputError, shortened
from gpuplan.analysis.base.time_units import DAY_S

PER_S = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
MOST_MS = 2**62 // 1000
MOST_WHOLE = 2**31 - 1
SECONDS_PER_YEAR = 365.2425 * DAY_S


def canonical_cast(
    path: Path, name: str, dtype: pl.DataType, kind: pl.DataType, hint: str
) -> pl.Expr:
    """Return a column in its canonical type.

    A number or a time out of the range of the type becomes the nearest one that fits, which is
    still outside the range of a canonical table; a fraction in a column of integers becomes 0.

    Args:
        path: the file, for messages.
        name: the column.
        dtype: its type.
        kind: its canonical type.
        hint: how to fix a column of another kind.

    Raises:
        InputError: the column has another kind of values.
    """
    column = pl.col(name)
    if dtype == kind:
        return column
    if isinstance(kind, pl.Datetime) and isinstance(dtype, pl.Datetime):
        moment = _within_64_bits(column, dtype).dt.cast_time_unit("us")
        if dtype.time_zone is None:
            return moment.dt.replace_time_zone("UTC")
        return moment.dt.convert_time_zone("UTC")
    if dtype == pl.Null():
        return column.cast(kind)
    if kind.is_integer() and dtype.is_numeric():
        return _as_integers(column).cast(kind).alias(name)
    if kind.is_float() and dtype.is_numeric():
        return column.cast(kind)
    if kind == pl.String() and _has_text(dtype):
        return column.cast(kind)
    if isinstance(kind, pl.Enum) and _is_words(dtype):
        return column.cast(pl.String).cast(kind, strict=False)  # an unknown word becomes null
    raise InputError(
        path,
        f"holds {kind_in_words(dtype)}",
        column=name,
        expected=kind_in_words(kind),
        hint=hint,
    )


def found_cell(table: pl.LazyFrame, name: str, row: int) -> str:
    """Return the value of a cell as shown in a message, of a time its year; rows count from 0."""
    kind = table.collect_schema()[name]
    column = pl.col(name).to_physical() if kind.is_temporal() else pl.col(name)
    value = table.select(column).slice(row, 1).collect().item()
    if value is None:
        return "nothing"
    if isinstance(kind, pl.Datetime):
        year = 1970 + value / PER_S[kind.time_unit] // SECONDS_PER_YEAR
        return f"a time of about the year {year:.0f}"
    return shortened(str(value) if isinstance(value, Decimal) else repr(value))


def kind_in_words(kind: pl.DataType) -> str:
    """Return a plain name for the values of a type."""
    if isinstance(kind, pl.Enum):
        return f"one of {', '.join(kind.categories)}"
    if kind.is_numeric():
        return "numbers"
    words = {pl.String: "text", pl.Boolean: "true or false", pl.Datetime: "times",
             pl.Date: "dates", pl.Binary: "bytes", pl.Duration: "spans of time",
             pl.Time: "times of the day", pl.Categorical: "text"}  # fmt: skip
    return next((word for dtype, word in words.items() if kind == dtype), "lists or records")


def _within_64_bits(column: pl.Expr, dtype: pl.Datetime) -> pl.Expr:
    """Return times within the range of microseconds; the others are refused later, unchanged."""
    if dtype.time_unit != "ms":
        return column
    return column.to_physical().clip(-MOST_MS, MOST_MS).cast(dtype)


def _as_integers(column: pl.Expr) -> pl.Expr:
    """Return numbers as 32-bit integers; see `canonical_cast`."""
    value = column.cast(pl.Float64)
    near = value.clip(-MOST_WHOLE, MOST_WHOLE)
    return pl.when(value.is_nan() | (near != near.floor())).then(0.0).otherwise(near)


def _has_text(dtype: pl.DataType) -> bool:
    """Whether all values of a type can be shown as text."""
    return dtype.is_numeric() or dtype == pl.Boolean() or _is_words(dtype)


def _is_words(dtype: pl.DataType) -> bool:
    return dtype == pl.String() or isinstance(dtype, pl.Categorical | pl.Enum)


def no_pattern(name: str) -> str:
    """Return a column name that polars does not take for several, as ``*`` and ``^...$``."""
    return f" {name}" if name == "*" or (name[:1] == "^" and name[-1:] == "$") else name
