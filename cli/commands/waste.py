"""``gpuplan waste``: who wastes GPUs, what it costs, and what waits would be without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.documents.study_command import StudyView
from gpuplan.cli.formats.waste_text import waste_text
from gpuplan.cli.tables.waste_tables import (
    answer_tables,
    waste_notes,
    waste_tables,
    waste_warnings,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.planner.studies.waste import WasteAnswer


def show(study: WasteAnswer) -> StudyView:
    """Return the waste as people see it."""
    results = study.results

    def draw() -> Figure:
        from gpuplan.cli.figures.waste import draw_waste

        return draw_waste(results)

    return StudyView(
        headline=waste_text(results),
        tables=waste_tables(results),
        answer=answer_tables(results),
        notes=(*waste_notes(results, study.source_format), *study.notes),
        warnings=waste_warnings(results, study.source_format),
        figure=draw,
        frame=study.to_frame,
    )
