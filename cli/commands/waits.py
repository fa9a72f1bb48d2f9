"""``gpuplan waits``: why jobs wait, who waits, and whether the cluster is too small."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.formats.report import StudyView, picture
from gpuplan.cli.formats.waits_text import waits_text
from gpuplan.cli.tables.wait_tables import (
    groups_table,
    reasons_table,
    wait_tables,
    waiting_tables,
)

if TYPE_CHECKING:
    from gpuplan.planner.requests.waits import WaitsRequest
    from gpuplan.planner.studies.answer import Answer
    from gpuplan.planner.studies.waits import WaitsResults


def show(study: Answer[WaitsRequest, WaitsResults]) -> StudyView:
    """Return the waits as people see them."""
    results = study.results

    return StudyView(
        headline=waits_text(
            results.summary,
            waiting=results.waiting,
            waits_as=results.waits_as,
            quotas=results.quotas or None,
        ),
        tables=wait_tables(results),
        answer=(
            reasons_table(results.summary),
            *waiting_tables(results),
            groups_table(results),
        ),
        notes=study.notes,
        figure=picture("waits:draw_waits", results),
    )
