"""What makes a price format: a name, the signs it is recognized by, and a plan for its rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.job_table.gpu_names import gpu_name
from gpuplan.analysis.price_formats.schema import (
    LEAST_USD,
    MOST_USD,
    PRICE,
    TIME_EXPECTED,
    TIME_TYPE,
    is_plausible_time,
)
from gpuplan.analysis.reading.batch import Rows
from gpuplan.analysis.reading.delimited import open_table
from gpuplan.analysis.reading.plan import ReadingPlan, Rule
from gpuplan.analysis.reading.source import Head, SourceStream

MB_PER_GB = 1024
DATE = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")


@dataclass(frozen=True, slots=True)
class PriceChoices:
    """The user's options about facts missing in the sources.

    Attributes:
        as_of: when the prices held, for a list without times (``--as-of``).
        gpu: the GPU of a source that names none (``--gpu``).
        provider: the provider of a source that names none (``--provider``).
        sampling: ``snapshot`` or ``change``, overriding the format (``--sampling``).
    """

    as_of: datetime | None = None
    gpu: str | None = None
    provider: str | None = None
    sampling: str | None = None


@dataclass(frozen=True, slots=True)
class PriceSourceContext:
    """What a price format knows of a source when it makes its plan.

    Attributes:
        head: the first bytes, and the path.
        columns: names of the source columns.
        choices: the user's options.
    """

    head: Head
    columns: tuple[str, ...]
    choices: PriceChoices


@dataclass(frozen=True, slots=True)
class Skip:
    """Rows that do not belong in a price table, counted and left out.

    Attributes:
        reason: their description.
        skipped: true in such a row; over the text cells.
        source: column whose values are shown with the count; None for no values.
    """

    reason: str
    skipped: pl.Expr
    source: str | None = None


@dataclass(frozen=True, slots=True)
class PricePlan:
    """How the rows of a source become prices.

    Attributes:
        plan: reading of the cells; its schema is that of prices.
        skips: applied before it, in order.
        changes: true in a row that is a change and not a snapshot; over canonical columns.
    """

    plan: ReadingPlan
    skips: tuple[Skip, ...] = ()
    changes: pl.Expr = field(default_factory=lambda: pl.lit(False))


@dataclass(frozen=True, slots=True)
class PriceFormat:
    """A price format.

    Attributes:
        name: what ``--source-format`` takes.
        description: one line for lists.
        source: where such a file comes from.
        recognizes: returns the evidence that a file is of this format, or None.
        plan: returns how its rows become prices. Raises `InputError` if they cannot.
        open: brings a source into columns.
    """

    name: str
    description: str
    source: str
    recognizes: Callable[[Head], str | None]
    plan: Callable[[PriceSourceContext], PricePlan]
    open: Callable[[SourceStream], Rows] = open_table


def by_columns(columns: tuple[str, ...]) -> Callable[[Head], str | None]:
    """Return what recognizes a table that has all of these columns."""

    def recognizes(head: Head) -> str | None:
        return f"the columns {', '.join(columns)}" if set(columns) <= set(head.columns) else None

    return recognizes


def gigabytes(column: str | pl.Expr) -> pl.Expr:
    """Return a column of memory in GB; what is above 1024 is in MB, as some sources write."""
    memory = (pl.col(column) if isinstance(column, str) else column).cast(pl.Float64, strict=False)
    return pl.when(memory > MB_PER_GB).then(memory / MB_PER_GB).otherwise(memory)


def gpu_with_memory(
    written: pl.Expr, memory: pl.Expr, usual_gb: Mapping[str, int] | None = None
) -> pl.Expr:
    """Return GPUs in their one name, from a name as written and the memory of each row.

    Args:
        written: the name.
        memory: in GB; null where unknown.
        usual_gb: memory by name, where a row has none.
    """
    usual = usual_gb or {}

    def named(cells: pl.Series) -> pl.Series:
        """Return the names of structs of a name and a memory; each distinct one once."""
        name_of = {
            (name, gb): None
            if name is None
            else gpu_name(name, usual.get(gpu_name(name)) if gb is None else gb)
            for name, gb in cells.struct.unnest().unique().rows()
        }
        return pl.Series(cells.name, [name_of[row] for row in cells.struct.unnest().rows()],
                         pl.String)  # fmt: skip

    both = pl.struct(written.alias("name"), memory.alias("memory"))
    return both.map_batches(named, return_dtype=pl.String())


def need(context: PriceSourceContext, names: tuple[str, ...], format_name: str) -> None:
    """Refuse a source that lacks a column. Raises `InputError` with the missing ones."""
    missing = [name for name in names if name not in context.columns]
    if missing:
        raise InputError(
            context.head.path,
            f"no column {', '.join(missing)}; found {', '.join(context.columns[:12]) or 'none'}",
            expected=f"the columns of the format {format_name}: {', '.join(names)}",
            hint="leave out --source-format to detect it",
        )


def rules(time: str, price: str) -> tuple[Rule, ...]:
    """Return the rules of every price, for a format with these source columns.

    A free GPU is not an offer, one of 10,000 dollars an hour is a placeholder, and a history that
    spans centuries has a mistyped year.
    """
    usd = pl.col(PRICE)
    return (
        Rule("bad_time", time, TIME_EXPECTED, ~is_plausible_time("timestamp")),
        Rule(
            "bad_price",
            price,
            "US dollars per GPU-hour, above 0 and at most 10,000",
            ~usd.is_between(LEAST_USD, MOST_USD),
        ),
    )


def price_or_availability(price: str) -> Rule:
    """Return the rule that a row has a price or an availability."""
    nothing = pl.col(PRICE).is_null() & pl.col("available").is_null()
    return Rule("missing", price, "a price, or a count of what is available", nothing)


def fixed(value: str) -> pl.Expr:
    """Return one word in every row."""
    return pl.repeat(value, pl.len(), dtype=pl.String())


def same_time(context: PriceSourceContext) -> tuple[pl.Expr, str]:
    """Return the common time of a list without times in its rows, and a note about it.

    It is ``--as-of``, else a date in the name of the file or its folder.

    Raises:
        InputError: there is neither.
    """
    moment, origin = context.choices.as_of, "--as-of"
    if moment is None:
        dates = [_date(part) for part in context.head.path.parts[:-3:-1]]
        moment, origin = next((date for date in dates if date), None), "the name of the file"
    if moment is None:
        raise InputError(
            context.head.path,
            "its prices have no date",
            hint="say when they held: --as-of 2026-01-05",
        )
    note = f"prices as of {moment:%Y-%m-%d}, from {origin}: {context.head.path.name}"
    return pl.repeat(moment, pl.len(), dtype=TIME_TYPE), note


def _date(text: str) -> datetime | None:
    match = DATE.search(text)
    if match is None:
        return None
    year, month, day = map(int, match.groups())
    try:
        return datetime(year, month, day, tzinfo=UTC)
    except ValueError:
        return None
