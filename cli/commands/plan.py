"""``gpuplan plan``: what to commit to, what to rent, and which jobs run elsewhere."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from gpuplan.analysis.base.plain import plain
from gpuplan.cli.documents.study_command import StudyView
from gpuplan.cli.tables.plan_beside_tables import (
    lending_headline,
    lending_table,
    services_table,
)
from gpuplan.cli.tables.plan_kept_tables import differing, kept_headline, kept_table
from gpuplan.cli.tables.plan_outlook_tables import (
    assumptions_table,
    cheaper_table,
    growth_table,
    markets_table,
)
from gpuplan.cli.tables.plan_replay_tables import (
    cost_steps_table,
    gap_text,
    replay_tables,
    spot_table,
)
from gpuplan.cli.tables.plan_tables import classes_table, headline, levers_table, program_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.planner.studies.plan_document import PlanAnswer


def show(study: PlanAnswer) -> StudyView:
    """Return the plan as people see it."""
    results, kept = study.results, study.results.kept
    outlook = results.outlook

    def figure() -> Figure:
        from gpuplan.cli.figures.plan import draw_plan

        return draw_plan(outlook.prices)

    def frame() -> pl.DataFrame:
        return pl.DataFrame([plain(use) for use in results.markets])

    def plan_toml(_: Path) -> str:
        return study.toml()

    def exported(name: str, _: Path) -> str:
        return study.exported(name)

    levers = (levers_table(results),) if len(results.levers) > 1 else ()
    cheaper = (cheaper_table(results),) if outlook.cheaper else ()
    growth = (growth_table(results),) if outlook.growth else ()
    assumptions = (assumptions_table(results),) if outlook.assumptions else ()
    replays = replay_tables(results)
    losses = (spot_table(results),) if results.spot_replays else ()
    beside = (
        *(() if results.services is None else (services_table(results.services),)),
        *(() if results.lending is None else (lending_table(results.lending),)),
    )
    gap = gap_text(results)
    sentences = (
        *((gap,) if gap else ()),
        *(() if kept is None else (kept_headline(kept),)),
        *(() if results.lending is None else (lending_headline(results.lending),)),
    )
    program = program_table(results, study.rounding_share)
    older = () if kept is None else (kept_table(kept),)
    differs = () if kept is None or not differing(kept) else (kept_table(kept, has_all=False),)
    answer = (markets_table(results), *beside, *levers, *replays, *cheaper, *growth)
    return StudyView(
        headline=" ".join([headline(results, study.request), *sentences]),
        tables=(
            *(*older, *answer, *losses, *assumptions, classes_table(results)),
            *(program, cost_steps_table(results)),
        ),
        answer=(*differs, *answer),
        notes=study.notes,
        warnings=tuple(_warnings(study)),
        figure=figure,
        frame=frame,
        texts={
            ".toml": plan_toml,
            **{name: partial(exported, name) for name in study.request.folder_files},
        },
    )


def _warnings(study: PlanAnswer) -> list[str]:
    """Return what to give so that there is something to decide."""
    request, results = study.request, study.results
    if request.budget is not None and request.speedup is None:
        return ["without --speedup no budget makes a job faster, so this is the cheapest plan"]
    if request.budget is None and not results.levers:
        if any(use.name == "committed" for use in results.markets):
            return [
                "no price on demand: commitments must cover the peak; add --on-demand USD to rent "
                "what is rarely used"
            ]
        return [
            "nothing to decide: every job runs as recorded on demand; add --commit USD, and what "
            "else there is of --spot, --serverless, --speedup and --defer"
        ]
    return []
