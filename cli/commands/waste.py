"""``gpuplan waste``: who wastes GPUs, what it costs, and what waits would be without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.formats.report import StudyView, picture
from gpuplan.cli.formats.waste_text import waste_text
from gpuplan.cli.tables.waste_tables import (
    answer_tables,
    waste_notes,
    waste_tables,
    waste_warnings,
)

if TYPE_CHECKING:
    from gpuplan.planner.studies.waste import WasteAnswer


def show(study: WasteAnswer) -> StudyView:
    """Return the waste as people see it."""
    results = study.results

    return StudyView(
        headline=waste_text(results),
        tables=waste_tables(results),
        answer=answer_tables(results),
        notes=(*waste_notes(results, study.source_format), *study.notes),
        warnings=waste_warnings(results, study.source_format),
        figure=picture("waste:draw_waste", results),
        frame=study.to_frame,
    )
