"""The result of a command for the renderers: the JSON contract, its tables and its picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.cli.formats.escape import visible

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Shown:
    """A cell with its own text instead of its column's format, if each row has its own unit.

    Attributes:
        value: the raw value, for CSV.
        text: what people read.
    """

    value: Any
    text: str


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        key: machine name with its unit, used by CSV; an empty one keeps the column out of CSV.
        header: what people read, with its unit; an empty one keeps the column from people.
        show: turns a cell into text; None leaves text as it is and hides a missing value.
    """

    key: str
    header: str
    show: Callable[[Any], str] | None = None

    def text(self, cell: Any) -> str:
        """Return what people read in a cell; a missing value is a dash."""
        if isinstance(cell, Shown):
            return visible(cell.text)
        if cell is None or cell != cell:  # None or NaN
            return "-"
        return visible(str(cell) if self.show is None else self.show(cell))


@dataclass(frozen=True, slots=True)
class Table:
    """Rows with a title; cells are raw values, formatted by their `Column`.

    Attributes:
        title: a few words.
        columns: in the order of the cells.
        rows: all of them, which CSV has.
        most: number of rows shown to people; None for all.
    """

    title: str
    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Any]]
    most: int | None = None

    def cut(self) -> tuple[Table, str]:
        """Return the table as shown to people, and a note about rows that are left out."""
        if self.most is None or len(self.rows) <= self.most:
            return self, ""
        more = len(self.rows) - self.most
        text = f"And {more:,} more {'row' if more == 1 else 'rows'}; JSON has all."
        return replace(self, rows=self.rows[: self.most]), text


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a command, ready for every output form.

    Attributes:
        command: the command's name.
        results: the stable JSON contract; plain values, units in the names.
        tables: all that people can read; the first is the main one, which CSV writes.
        inputs: the files the result comes from.
        parameters: every effective option.
        headline: the answer in one to three sentences.
        warnings: what would change the reader's decision.
        caveats: what else limits the result; people see it with ``--full``, JSON has it among the
            warnings.
        notes: what helps whoever typed the command; no part of the result.
        answer: the tables that people see without ``--full``; None where these are all of them.
        csv: the rows that CSV has; None for those of the first table.
        figure: draws the picture, where there is one.
        frame: rows for a ``.parquet`` output, where there are some.
        timeline: what happened over time, for ``--timeline``, where a study has it.
        texts: suffix of another form of ``--output`` -> makes the text of such a file.
    """

    command: str
    results: dict[str, Any]
    tables: tuple[Table, ...]
    inputs: tuple[InputFile, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)
    headline: str = ""
    warnings: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    answer: tuple[Table, ...] | None = None
    csv: Table | None = None
    figure: Callable[[], Figure] | None = None
    frame: Callable[[], pl.DataFrame] | None = None
    timeline: Callable[[], pl.DataFrame] | None = None
    texts: Mapping[str, Callable[[], str]] = field(default_factory=dict)

    def shown(self, full: bool) -> Report:
        """Return the report with the tables that people see, all of them where ``full``."""
        return self if full or self.answer is None else replace(self, tables=self.answer)
