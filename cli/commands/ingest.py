"""``gpuplan ingest``: bring a job log into the canonical schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.base.words import counted
from gpuplan.cli.formats.report import StudyView, cells_table

if TYPE_CHECKING:
    from gpuplan.analysis.ingest.ingest import IngestResult
    from gpuplan.planner.requests.ingest import IngestRequest
    from gpuplan.planner.studies.answer import Answer


def show(study: Answer[IngestRequest, IngestResult]) -> StudyView:
    """Return the account of every row as people see it."""
    result = study.results
    summary = plain(result)
    rejected, by_reason = summary["rows_rejected"], summary["rejected_by_reason"]
    provenance = result.provenance
    facts = [
        (key, value)
        for key, value in summary.items()
        if not isinstance(value, dict | list) and key != "recognized_by"  # a long sentence
    ]
    tables = [cells_table("Trace", "field value", facts)]
    if by_reason:
        tables.append(cells_table("Rejected rows", "reason rows", by_reason.items()))
    if provenance.notes:
        tables.append(cells_table("Notes", "note", [(note,) for note in provenance.notes]))
    unused = f"{counted(rejected, 'row')} cannot be used; see {result.rejects_file}"
    return StudyView(
        headline=f"{counted(provenance.rows_kept, 'job')} in {result.output}",
        tables=tuple(tables),
        warnings=(unused,) if rejected else (),
    )
