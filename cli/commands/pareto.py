"""``gpuplan pareto``: what mean completion time does each GPU budget buy, and with which widths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.documents.study_command import StudyView
from gpuplan.cli.tables.fidelity_text import contradiction, fidelity_table
from gpuplan.cli.tables.pareto_answer import answer_tables
from gpuplan.cli.tables.pareto_headline import caveats, headline, warnings
from gpuplan.cli.tables.pareto_sections import section_tables
from gpuplan.cli.tables.pareto_slower import SHOWN, matters, slower_tables
from gpuplan.cli.tables.pareto_tables import study_tables
from gpuplan.planner.studies.pareto import first_submit_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.planner.studies.pareto import ParetoStudy


def show(study: ParetoStudy) -> StudyView:
    """Return the frontier as people see it."""
    frontier = study.frontier

    def figure() -> Figure:
        from gpuplan.cli.figures.frontier import draw_frontier

        return draw_frontier(frontier, first_submit_of(study.trace))

    checked = fidelity_table(study.fidelity)
    first, *others = study_tables(frontier)
    budgets, *widths = answer_tables(frontier)
    slower, shortened = slower_tables(frontier), slower_tables(frontier, most=SHOWN)
    requested = tuple(section_tables(frontier, requested_only=True))
    return StudyView(
        headline=headline(frontier, contradiction(study.fidelity)),
        tables=(first, budgets, *others, *slower, *section_tables(frontier), *checked),
        answer=(budgets, *(requested or widths), *(shortened if matters(frontier) else ())),
        figure=figure,
        frame=frontier.to_frame,
        warnings=tuple(warnings(frontier)),
        caveats=tuple(caveats(frontier, assumed=study.request.speedup is None)),
    )
