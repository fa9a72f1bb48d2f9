"""The description of a format as data: how to read cells, which rules hold, what to count.

`gpuplan.analysis.reading.outcome.apply` reads a batch by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from gpuplan.analysis.job_table.schema import CANONICAL
from gpuplan.analysis.reading.batch import ROW, Tally
from gpuplan.analysis.reading.joins import Join

TEXT = "text"
NUMBER = "a number"
FORMS = (str, str.lower, str.upper, str.capitalize)


@dataclass(frozen=True, slots=True)
class Field:
    """One value read from one source column.

    Attributes:
        name: canonical name, or any other for a value that only expressions use.
        source: source column.
        value: its reading; null where the cell is empty or cannot be read.
        expected: what a cell should be, for messages.
        required: whether a row with an empty cell is refused.
        zone: zone of a local time, to detect a time that its clock skips.
        least: the smallest number that is allowed, for a count.
        thorough: a slower reading, for a batch in which ``value`` cannot read a cell.
    """

    name: str
    source: str
    value: pl.Expr
    expected: str = TEXT
    required: bool = False
    zone: str | None = None
    least: int | None = None
    thorough: pl.Expr | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition that refuses a row.

    Attributes:
        reason: short machine word.
        source: source column to name and quote.
        expected: what the cell should be.
        broken: true where the rule is broken; over fields and canonical columns.
    """

    reason: str
    source: str
    expected: str
    broken: pl.Expr


@dataclass(frozen=True, slots=True)
class ReadingPlan:
    """How rows of a source become jobs.

    Attributes:
        fields: values read from cells.
        jobs: canonical column -> expression over fields. A column that is not here is the field
            of its name; where there is none it is the default of the schema.
        schema: columns of the result; those of jobs by default.
        rules: in order; the first broken one gives the reason.
        tallies: what to count among the kept rows.
        notes: notes about any log of the format.
        time_zone: zone or offset of the source's times; None where they are relative.
        zone_columns: source columns of times whose offsets determine the zone, submissions first.
        relative_time: whether times count from the start of the log.
        made_ids: whether the log has no ids, so that equal rows are noted and kept.
        empty_words: words that mean an empty cell, in any column but those of ``verbatim``.
        verbatim: source columns in which these words mean something.
        left_out: lines that are not jobs, such as the steps of a job: over source columns. They are
            counted in a note, and are neither kept nor rejected.
        join: how the rows of one job become one; None where a second row of an id is a mistake.
    """

    fields: tuple[Field, ...]
    jobs: Mapping[str, pl.Expr] = field(default_factory=dict)
    schema: Mapping[str, pl.DataType] = field(default_factory=lambda: CANONICAL)
    rules: tuple[Rule, ...] = ()
    tallies: tuple[Tally, ...] = ()
    notes: tuple[str, ...] = ()
    time_zone: str | None = None
    zone_columns: tuple[str, ...] = ()
    relative_time: bool = False
    made_ids: bool = False
    empty_words: tuple[str, ...] = ()
    verbatim: tuple[str, ...] = ()
    left_out: tuple[Tally, ...] = ()
    join: Join | None = None

    def counted(self) -> tuple[str, ...]:
        """Return the names of the counts of an `outcome.Outcome`, in their order."""
        return tuple(tally.what for tally in self.left_out + self.tallies)

    def sources(self) -> list[str]:
        """Return the source columns it reads, each once."""
        named = [f.source for f in self.fields] + [rule.source for rule in self.rules]
        values = [f.value for f in self.fields] + [tally.counted for tally in self.left_out]
        read = [name for value in values for name in value.meta.root_names()]
        return [name for name in dict.fromkeys(named + read) if name != ROW]


def text(name: str, source: str, *, required: bool = False) -> Field:
    """Return a field that takes a cell as it is."""
    return Field(name, source, pl.col(source), TEXT, required)


def number(name: str, source: str, *, required: bool = False, expected: str = NUMBER) -> Field:
    """Return a field of finite numbers."""
    return Field(name, source, pl.col(source).cast(pl.Float64, strict=False), expected, required)


def count(name: str, source: str, *, least: int = 1) -> Field:
    """Return a field of whole numbers, at least ``least``; ``2.0`` is one too."""
    value = pl.col(source).cast(pl.Float64, strict=False)
    whole_number = pl.when(value == value.floor()).then(value).cast(pl.Int32, strict=False)
    return Field(
        name,
        source,
        pl.col(source).cast(pl.Int32, strict=False),
        f"a whole number, at least {least}",
        least=least,
        thorough=whole_number,
    )


def states(
    source: str, meanings: Mapping[str, str], name: str = "state", suffix: str | None = None
) -> Field:
    """Return the field of canonical states for a source's words; others and none are unknown.

    A word may be written as it stands in ``meanings``, in lower case, UPPER or Capitalized.
    ``suffix`` is a pattern of what may follow it.
    """
    forms = {form(word): meaning for word, meaning in meanings.items() for form in FORMS}
    kind = CANONICAL["state"]
    cell = pl.col(source)
    word = cell if suffix is None else cell.str.replace(suffix, "")
    state = word.replace_strict(forms, default="unknown", return_dtype=kind)
    return Field(name, source, state)


def made_id(prefix: str, number: int) -> pl.Expr:
    """Return ids for rows without one: ``philly-000002`` is line 2 of the first source.

    Rows of a second source (``number`` 1) are ``philly-2-000002`` and so on.
    """
    start = prefix if number == 0 else f"{prefix}-{number + 1}"
    return pl.lit(f"{start}-") + pl.col(ROW).cast(pl.String).str.zfill(6)
