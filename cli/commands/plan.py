"""``gpuplan plan``: what to commit to, what to rent, and which jobs run elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from gpuplan.analysis.base.plain import plain
from gpuplan.cli.documents.study_command import StudyView
from gpuplan.cli.tables.plan_replay_tables import replay_tables
from gpuplan.cli.tables.plan_tables import (
    classes_table,
    headline,
    levers_table,
    markets_table,
)

if TYPE_CHECKING:
    from gpuplan.planner.requests.plan import PurchaseRequest
    from gpuplan.planner.studies.answer import Answer
    from gpuplan.planner.studies.plan import PlanResults


def show(study: Answer[PurchaseRequest, PlanResults]) -> StudyView:
    """Return the plan as people see it."""
    results = study.results

    def frame() -> pl.DataFrame:
        return pl.DataFrame([plain(use) for use in results.markets])

    levers = (levers_table(results),) if results.levers else ()
    replays = replay_tables(results)
    return StudyView(
        headline=headline(results),
        tables=(markets_table(results), *levers, *replays, classes_table(results)),
        answer=(markets_table(results), *levers, *replays),
        notes=study.notes,
        frame=frame,
    )
