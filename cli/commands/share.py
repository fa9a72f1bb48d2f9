"""``gpuplan share``: how many GPUs services and training need if they share cards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.documents.study_command import StudyView
from gpuplan.cli.tables.sharing_tables import (
    coscaling_headline,
    coscaling_tables,
    coscaling_warnings,
    placement_headline,
    placement_tables,
)
from gpuplan.planner.sharing.placement_study import PlacementResults

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.planner.studies.share import ShareAnswer


def show(study: ShareAnswer) -> StudyView:
    """Return what sharing saves as people see it."""
    results = study.results

    def draw() -> Figure:
        from gpuplan.cli.figures.sharing import draw_coscaling, draw_placement

        if isinstance(results, PlacementResults):
            return draw_placement(results)
        return draw_coscaling(results)

    if isinstance(results, PlacementResults):
        return StudyView(
            headline=placement_headline(results), tables=placement_tables(results), figure=draw
        )
    tables = coscaling_tables(results)
    return StudyView(
        headline=coscaling_headline(results),
        tables=tables,
        answer=tables[:3],
        figure=draw,
        warnings=(
            *coscaling_warnings(results),
            "cold start, registered capacity and the curve of training are assumptions",
        ),
    )
