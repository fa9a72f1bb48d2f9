"""``gpuplan bill``: what a log costs a month or in a period, and who pays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.documents.study_command import StudyView
from gpuplan.cli.tables.bill_tables import (
    focus_table,
    groups_table,
    headline,
    months_table,
    types_table,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.planner.studies.bill import BillStudy


def show(study: BillStudy) -> StudyView:
    """Return the bill as people see it."""
    results, shown, period = study.results, study.shown, study.period
    types = types_table(shown, period)
    is_mixed = len(results.gpu_types) > 1

    def figure() -> Figure:
        from gpuplan.cli.figures.bill import draw_bill

        return draw_bill(results)

    return StudyView(
        headline=headline(shown, period, results.usd_per_month),
        tables=(groups_table(shown, period, most=None), types, months_table(results)),
        answer=(groups_table(shown, period), *([types] if is_mixed else [])),
        csv=focus_table(study),
        figure=figure,
        frame=study.to_frame,
    )
