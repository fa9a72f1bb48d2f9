"""``gpuplan plan``: what to commit to, what to rent, and which jobs run elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from gpuplan.analysis.base.plain import plain
from gpuplan.cli.documents.study_command import StudyView
from gpuplan.cli.tables.plan_outlook_tables import (
    assumptions_table,
    cheaper_table,
    growth_table,
    markets_table,
)
from gpuplan.cli.tables.plan_tables import classes_table, headline, levers_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.planner.requests.plan import PurchaseRequest
    from gpuplan.planner.studies.answer import Answer
    from gpuplan.planner.studies.plan import PlanResults


def show(study: Answer[PurchaseRequest, PlanResults]) -> StudyView:
    """Return the plan as people see it."""
    results = study.results
    outlook = results.outlook

    def figure() -> Figure:
        from gpuplan.cli.figures.plan import draw_plan

        return draw_plan(outlook.prices)

    def frame() -> pl.DataFrame:
        return pl.DataFrame([plain(use) for use in results.markets])

    levers = (levers_table(results),) if results.levers else ()
    cheaper = (cheaper_table(results),) if outlook.cheaper else ()
    growth = (growth_table(results),) if outlook.growth else ()
    assumptions = (assumptions_table(results),) if outlook.assumptions else ()
    answer = (markets_table(results), *levers, *cheaper, *growth)
    return StudyView(
        headline=headline(results, study.request),
        tables=(*answer, *assumptions, classes_table(results)),
        answer=answer,
        notes=study.notes,
        warnings=tuple(_warnings(study)),
        figure=figure,
        frame=frame,
    )


def _warnings(study: Answer[PurchaseRequest, PlanResults]) -> list[str]:
    """Return what to give so that there is something to decide."""
    request, results = study.request, study.results
    if request.budget is not None and request.speedup is None:
        return ["without --speedup no budget makes a job faster, so this is the cheapest plan"]
    if request.budget is None and not results.levers:
        return [
            "nothing to decide: every job runs as recorded on demand; add --commit USD, and what "
            "else there is of --spot, --serverless, --speedup and --defer"
        ]
    return []
