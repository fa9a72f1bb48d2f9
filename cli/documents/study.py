"""What a document is made of: plain values, so that a cache can keep them and lose nothing.

A `StudyResult` is a command's report with everything drawn and every number shown. Read back from
its text it gives the same documents, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from gpuplan.analysis.base.version import gpuplan_version
from gpuplan.cli.documents.pictures import Picture, pictures_of
from gpuplan.cli.formats.render import as_json, is_numeric, people_columns, plain

if TYPE_CHECKING:
    from gpuplan.analysis.base.errors import GpuplanError
    from gpuplan.cli.formats.report import Report, Table
    from gpuplan.cli.gates.gates import GateResult


@dataclass(frozen=True, slots=True)
class TableCell:
    """What people read in a cell, and what it is sorted by: a number, a text, or nothing."""

    text: str
    value: bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Heading:
    """The head of a column."""

    text: str
    is_numeric: bool


@dataclass(frozen=True, slots=True)
class TableGrid:
    """A table as people see it."""

    title: str
    headings: tuple[Heading, ...]
    rows: tuple[tuple[TableCell, ...], ...]


@dataclass(frozen=True, slots=True)
class StudyResult:
    """One command's result in a document.

    Attributes:
        name: what the document and its gates call it; letters, digits and underscores.
        command: the command.
        arguments: what it was given, as on a command line.
        headline: one sentence that says the answer.
        contract: the command's JSON output, with inputs, parameters, results and warnings.
        tables: the main one first.
        pictures: drawn.
        title: heading, where it is not that of the command.
    """

    name: str
    command: str
    arguments: tuple[str, ...]
    headline: str
    contract: dict[str, Any]
    tables: tuple[TableGrid, ...]
    pictures: tuple[Picture, ...]
    title: str = ""

    @property
    def results(self) -> dict[str, Any]:
        """The command's results, in which gates find their fields."""
        results: dict[str, Any] = self.contract["results"]
        return results

    @property
    def warnings(self) -> list[str]:
        """What the reader must know to use the result."""
        warnings: list[str] = self.contract["warnings"]
        return warnings

    def to_text(self) -> str:
        """Return everything as JSON, for a cache."""
        return json.dumps(msgspec.to_builtins(self), allow_nan=False)

    @classmethod
    def from_text(cls, text: str) -> StudyResult:
        """Return what `to_text` has written.

        Raises:
            ValueError: the text is damaged, or of another version.
        """
        try:
            return msgspec.convert(json.loads(text), cls)
        except (ValueError, msgspec.MsgspecError) as error:
            raise ValueError(f"not the result of a study: {error}") from error


@dataclass(frozen=True, slots=True)
class Document:
    """Everything that is written.

    Attributes:
        title: what it is about.
        studies: in the order shown; their names differ.
        gates: shown first.
        time: when it was made, as ISO 8601, if it is shown.
        notes: what the reader must know of the whole, as which study could not be made.
        failed: study that could not be made -> why, where the program ends with that once
            everything is written.
    """

    title: str
    studies: tuple[StudyResult, ...]
    gates: tuple[GateResult, ...] = ()
    time: str | None = None
    notes: tuple[str, ...] = ()
    failed: Mapping[str, GpuplanError] = field(default_factory=dict)

    @property
    def inputs(self) -> list[dict[str, Any]]:
        """Every input once, in the order of its first use."""
        sources = [source for study in self.studies for source in study.contract["inputs"]]
        return list({(source["path"], source["sha256"]): source for source in sources}.values())

    @property
    def version(self) -> str:
        """The version of gpuplan that made the results."""
        return gpuplan_version()


def result_of(
    name: str, arguments: Sequence[str], report: Report, *, draws: bool = True
) -> StudyResult:
    """Return a report with its pictures drawn, unless no file holds them, and its numbers shown."""
    return StudyResult(
        name=name,
        command=report.command,
        arguments=tuple(arguments),
        headline=report.headline,
        contract=json.loads(as_json(report)),
        tables=tuple(_shown(table) for table in report.tables),
        pictures=tuple(pictures_of(name, report)) if draws else (),
        title=report.title,
    )


def _shown(table: Table) -> TableGrid:
    kept = people_columns(table)
    return TableGrid(
        title=table.title,
        headings=tuple(Heading(column.header, is_numeric(table, i)) for i, column in kept),
        rows=tuple(
            tuple(TableCell(column.text(row[i]), _sortable(plain(row[i]))) for i, column in kept)
            for row in table.rows
        ),
    )


def _sortable(value: Any) -> bool | int | float | str | None:
    """Return what a cell is sorted by."""
    if value is None or isinstance(value, int | float | str):
        return value
    return str(value)
