"""The result of a command for the renderers: the JSON contract, its tables and its picture.

A table may hold rows of bars, which show how values change over time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.cli.formats.escape import visible
from gpuplan.cli.formats.units import show_duration, show_named, show_number

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl
    from matplotlib.figure import Figure

    from gpuplan.planner.runs.panels import TimeLines


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
        show: turns a cell into text; without it the unit in the key says how a number is shown.
        read: returns the cell of a row of `table`; without it the key is an attribute of the row.
    """

    key: str
    header: str
    show: Callable[[Any], str] | None = None
    read: Callable[[Any], Any] | None = None

    def cell(self, row: Any) -> Any:
        """Return the raw value of a row: an attribute, or an entry of a mapping."""
        return value_of(row, self.key) if self.read is None else self.read(row)

    def text(self, cell: Any) -> str:
        """Return what people read in a cell; a missing value is a dash."""
        if isinstance(cell, Shown):
            return visible(cell.text)
        if cell is None or cell != cell:  # None or NaN
            return "-"
        if self.show is not None:
            return visible(self.show(cell))
        is_number = isinstance(cell, int | float) and not isinstance(cell, bool)
        return visible(show_named(self.key)(cell) if is_number else str(cell))


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


def table(
    title: str, rows: Iterable[Any], *columns: Mapping[str, str] | Column, most: int | None = None
) -> Table:
    """Return a table of typed rows.

    Args:
        title: a few words.
        rows: dataclasses or mappings.
        columns: keys with their headers, in their order. A key is an attribute of the rows; one
            with dots is an attribute of it, which CSV has under its last name.
        most: as `Table` has it.
    """
    listed = [
        column
        for group in columns
        for column in (
            [group]
            if isinstance(group, Column)
            else [_named(path, header) for path, header in group.items()]
        )
    ]
    return Table(
        title, tuple(listed), [[column.cell(row) for column in listed] for row in rows], most
    )


def cells_table(
    title: str, names: str, rows: Iterable[Sequence[Any]], most: int | None = None
) -> Table:
    """Return a table of cells whose columns have these names, with spaces between, as headers."""
    return Table(title, tuple(Column(name, name) for name in names.split()), list(rows), most)


def _named(path: str, header: str) -> Column:
    _, dot, name = path.rpartition(".")
    return Column(name, header, read=partial(value_of, path=path) if dot else None)


def value_of(row: Any, path: str) -> Any:
    """Return the value at a dotted path of a row; None where a part is missing or None."""
    for name in path.split("."):
        if row is None:
            return None
        row = row.get(name) if isinstance(row, Mapping) else getattr(row, name)
    return row


@dataclass(frozen=True, slots=True)
class StudyView:
    """What people see of an answer.

    Attributes:
        headline: the answer in one to three sentences.
        tables: all that people can read; the first is the main one, which CSV writes.
        answer: the tables that people see without ``--full``; None where these are all of them.
        csv: makes the rows that CSV has; None for those of the first table.
        figure: draws the picture, where there is one.
        frame: rows for a ``.parquet`` output, where there are some.
        timeline: what happened over time, for ``--timeline``, where a study has it.
        notes: what helps whoever typed the command; no part of the result.
        texts: suffix of another form of ``--output`` -> makes the text of a file from its path.
        warnings: what would change the reader's decision.
        caveats: what else limits the result; people see it with ``--full``, JSON has it among the
            warnings.
        title: heading in a document, where it answers another question than its command usually
            does.
    """

    headline: str = ""
    tables: tuple[Table, ...] = ()
    answer: tuple[Table, ...] | None = None
    csv: Callable[[], Table] | None = None
    figure: Callable[[], Figure] | None = None
    frame: Callable[[], pl.DataFrame] | None = None
    timeline: Callable[[], pl.DataFrame] | None = None
    notes: tuple[str, ...] = ()
    texts: Mapping[str, Callable[[Path], str]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(StudyView):
    """The result of a command, ready for every output form.

    Attributes:
        command: the command's name.
        results: the stable JSON contract; plain values, units in the names.
        inputs: the files the result comes from.
        parameters: every effective option.
        failure: why the answer is that nothing will do; the command fails with it in the end.
    """

    command: str
    results: dict[str, Any]
    inputs: tuple[InputFile, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)
    failure: str = ""

    def shown(self, full: bool) -> Report:
        """Return the report with the tables that people see, all of them where ``full``."""
        return self if full or self.answer is None else replace(self, tables=self.answer)


def picture(place: str, *drawn: Any) -> Callable[[], Figure]:
    """Return what draws a picture, with matplotlib imported where it is drawn.

    Args:
        place: module and function of `gpuplan.cli.figures`, ``waste:draw_waste``.
        drawn: arguments of the function.
    """
    module, _, function = place.partition(":")

    def draw() -> Figure:
        figure: Figure = getattr(import_module(f"gpuplan.cli.figures.{module}"), function)(*drawn)
        return figure

    return draw


BARS = "▁▂▃▄▅▆▇█"
CHARS = 32  # of a time line
SHAPE = Column("shape", "shape")
"""The column of bars; left out where the encoding of a terminal lacks them."""

Row = tuple[str, str, str, str]
"""Name, bars, minimum and maximum."""


def sparkline(values: Sequence[float]) -> str:
    """Return a row of bars, one per value >= 0, the tallest for the largest."""
    most = max(values)
    return "".join(BARS[round(value / most * (len(BARS) - 1)) if most else 0] for value in values)


def shapes_table(title: str, rows: Sequence[Row]) -> Table:
    """Return a table of rows of bars."""
    named = [Column(name, name) for name in ("what", "least", "most")]
    return Table(title, (named[0], SHAPE, *named[1:]), rows)


def timeline_row(
    what: str, values: Sequence[float], show: Callable[[float], str] = show_number
) -> Row:
    """Return the row of a time line: values over equal periods; the last may be shorter."""
    each = -(-len(values) // CHARS)
    parts = [values[i : i + each] for i in range(0, len(values), each)]
    line = sparkline([sum(part) / len(part) for part in parts])
    return (what, line, show(min(values)), show(max(values)))


def replay_shapes(lines: TimeLines) -> Iterator[Table]:
    """Yield the table of a replay over time: GPUs and jobs waiting; none where no time passes."""
    import numpy as np

    from gpuplan.simkit.steps import mean_and_peak

    time_us = lines.time_us
    if time_us.size < 2 or time_us[-1] <= time_us[0]:
        return
    edges = np.linspace(time_us[0], time_us[-1], CHARS + 1)
    rows = [
        timeline_row(
            name,
            mean_and_peak(time_us, np.asarray(values, np.float64), edges)[0].tolist(),
            show_duration if unit == "s" else show_number,
        )
        for name, unit, values in lines.rows
        if np.any(values)
    ]
    each = show_duration((edges[1] - edges[0]) / 1e6)
    if rows:
        yield shapes_table(f"Over time, means of each {each}", rows)
