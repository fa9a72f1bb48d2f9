"""``gpuplan pareto``: what mean completion time does each GPU budget buy, and with which widths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.formats.report import StudyView, picture
from gpuplan.cli.formats.units import show_about_usd
from gpuplan.cli.tables.fidelity_text import contradiction, fidelity_table
from gpuplan.cli.tables.pareto_answer import answer_tables
from gpuplan.cli.tables.pareto_headline import caveats, headline, warnings
from gpuplan.cli.tables.pareto_sections import section_tables
from gpuplan.cli.tables.pareto_slower import SHOWN, matters, slower_tables
from gpuplan.cli.tables.pareto_tables import study_tables
from gpuplan.planner.studies.pareto import first_submit_of

if TYPE_CHECKING:
    from gpuplan.planner.studies.pareto import ParetoStudy


def show(study: ParetoStudy) -> StudyView:
    """Return the frontier as people see it."""
    frontier = study.frontier

    checked = fidelity_table(study.fidelity)
    first, *other_tables = study_tables(frontier)
    budgets, *widths = answer_tables(frontier)
    slower, shortened = slower_tables(frontier), slower_tables(frontier, most=SHOWN)
    requested = tuple(section_tables(frontier, requested_only=True))
    refusal = contradiction(study.fidelity, study.trace.provenance.source_format)
    basis = "" if refusal else _on_other_basis(study)
    return StudyView(
        headline=f"{headline(frontier, refusal)}{basis}",
        tables=(first, budgets, *other_tables, *slower, *section_tables(frontier), *checked),
        answer=(budgets, *(requested or widths), *(shortened if matters(frontier) else ())),
        figure=picture("frontier:draw_frontier", frontier, first_submit_of(study.trace)),
        frame=frontier.to_frame,
        warnings=tuple(warnings(frontier)),
        caveats=tuple(caveats(frontier, assumed=study.request.speedup is None)),
    )


def _on_other_basis(study: ParetoStudy) -> str:
    """Return what today's GPUs cost at the prices of the plans, where its bill is no such sum."""
    month = study.today_at_plan_prices
    if month is None:
        return ""
    return (
        " Plans pay pay-per-use prices alone, at which today's GPUs cost "
        f"{show_about_usd(month)} a month: compare plans with that, not with today's bill."
    )
