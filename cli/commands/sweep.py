"""``gpuplan sweep``: which serverless threshold, at what cost and completion time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.cli.app import messages
from gpuplan.cli.formats.report import StudyView
from gpuplan.cli.tables.price_notes import price_notes
from gpuplan.cli.tables.sweep_answer import answer_tables, headline, sweep_warnings
from gpuplan.cli.tables.sweep_tables import sweep_tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gpuplan.planner.studies.sweep import SweepAnswer


def show(study: SweepAnswer) -> StudyView:
    """Return the thresholds as people see them."""
    request, replays = study.request, study.replays
    marked_s = request.marked_s()

    def figure() -> Figure:
        from gpuplan.cli.figures.sweep import draw_sweep, ratios_without_panel

        missing = ", ".join(f"{ratio:g}" for ratio in ratios_without_panel(replays))
        if missing:
            messages.note(f"the picture has no panel for the price ratio {missing}")
        return draw_sweep(replays, marked_s)

    hints: tuple[str, ...] = ()
    if request.replay.prices is None and not request.price.is_own:
        hints = price_notes(study.policies, are_scaled=bool(request.price_ratios))
    answer = answer_tables(replays, marked_s)
    return StudyView(
        headline=headline(replays),
        tables=(*sweep_tables(replays, marked_s), answer[0]),
        warnings=tuple(sweep_warnings(replays)),
        answer=answer,
        notes=hints,
        figure=figure,
        frame=study.to_frame,
        timeline=replays.timeline,
    )
