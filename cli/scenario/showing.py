"""A document as text for a terminal: the tables of its studies, then its gates."""

from __future__ import annotations

import shlex
from typing import TextIO

from gpuplan.cli.documents.study import Document, StudyResult, TableGrid
from gpuplan.cli.formats.escape import terminal
from gpuplan.cli.formats.report import Column, Report, Shown, Table

GATES = (Column("gate", "gate"), Column("state", "state"), Column("detail", "detail"))


def as_text(document: Document, stream: TextIO) -> str:
    """Return every study under its command, as wide as ``stream`` where it is a terminal."""
    from gpuplan.cli.formats.render import as_text as report_text

    parts = [
        f"# {study.name}\n"
        f"{terminal(f'$ gpuplan {study.command} {shlex.join(study.arguments)}')}\n\n"
        f"{report_text(_report(study), stream)}"
        for study in document.studies
    ]
    if document.gates:
        rows = [(gate.condition, gate.state, gate.detail) for gate in document.gates]
        gates = Report(command="run", results={}, tables=(Table("Gates", GATES, rows),))
        parts.append(report_text(gates, stream))
    return "\n".join(parts)


def _report(study: StudyResult) -> Report:
    """Return a result as the renderer takes it, its cells as they were shown."""
    return Report(
        command=study.command,
        results=study.results,
        tables=tuple(_table(grid) for grid in study.tables),
        headline=study.headline,
    )


def _table(grid: TableGrid) -> Table:
    columns = tuple(Column(heading.text, heading.text) for heading in grid.headings)
    return Table(
        grid.title, columns, [[Shown(cell.value, cell.text) for cell in row] for row in grid.rows]
    )
