"""What makes a price format: a name, the signs it is recognized by, and a plan for its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.reading.batch import Rows
from gpuplan.analysis.reading.delimited import open_table
from gpuplan.analysis.reading.plan import ReadingPlan
from gpuplan.analysis.reading.source import Head, SourceStream


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
