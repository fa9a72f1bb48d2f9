"""``gpuplan share``: how many GPUs services and training need if they share cards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.formats.report import StudyView, picture
from gpuplan.cli.tables.sharing_tables import (
    coscaling_headline,
    coscaling_tables,
    coscaling_warnings,
    placement_headline,
    placement_tables,
)
from gpuplan.planner.sharing.placement_study import PlacementResults

if TYPE_CHECKING:
    from gpuplan.planner.studies.share import ShareAnswer


def show(study: ShareAnswer) -> StudyView:
    """Return what sharing saves as people see it."""
    results = study.results

    if isinstance(results, PlacementResults):
        return StudyView(
            headline=placement_headline(results),
            tables=placement_tables(results),
            figure=picture("sharing:draw_placement", results),
        )
    tables = coscaling_tables(results)
    return StudyView(
        headline=coscaling_headline(results),
        tables=tables,
        answer=tables[:3],
        figure=picture("sharing:draw_coscaling", results),
        warnings=(
            *coscaling_warnings(results),
            "cold start, registered capacity and the curve of training are assumptions",
        ),
    )
