"""``gpuplan ingest``: bring a job log into the canonical schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.base.words import counted
from gpuplan.cli.documents.study_command import StudyView, declared_command
from gpuplan.cli.formats.report import Column, Table
from gpuplan.cli.options.shared_options import OutputFormat, ResultFormat

if TYPE_CHECKING:
    from gpuplan.analysis.ingest.ingest import IngestResult


@dataclass(frozen=True, slots=True)
class IngestOutput:
    """How the account of an ingest is shown."""

    output_format: OutputFormat = ResultFormat.table


def show(result: IngestResult) -> StudyView:
    """Return the account of every row as people see it."""
    summary = plain(result.results)
    rejected, by_reason = summary["rows_rejected"], summary["rejected_by_reason"]
    provenance = result.provenance
    facts = [
        (key, value)
        for key, value in summary.items()
        if not isinstance(value, dict | list) and key != "recognized_by"  # a long sentence
    ]
    tables = [Table("Trace", (Column("field", "field"), Column("value", "value")), facts)]
    if by_reason:
        reasons = (Column("reason", "reason"), Column("rows", "rows"))
        tables.append(Table("Rejected rows", reasons, list(by_reason.items())))
    if provenance.notes:
        tables.append(
            Table("Notes", (Column("note", "note"),), [(note,) for note in provenance.notes])
        )
    unused = f"{counted(rejected, 'row')} cannot be used; see {result.rejects_file}"
    return StudyView(
        headline=f"{counted(provenance.rows_kept, 'job')} in {result.output}",
        tables=tuple(tables),
        warnings=(unused,) if rejected else (),
    )


COMMAND = declared_command("ingest", show, output=IngestOutput)
register = COMMAND.register
