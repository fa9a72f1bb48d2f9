"""The picture of a commitment: dollars a month by committed GPUs, with the optimum and today."""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from gpuplan.analysis.base.words import counted
from gpuplan.cli.figures.labels import place_labels
from gpuplan.cli.figures.style import (
    COLOURS,
    INK,
    dollar_axis,
    light_grid,
    new_figure,
    on_paper,
    styled,
)
from gpuplan.cli.formats.units import show_usd

if TYPE_CHECKING:
    from gpuplan.planner.money.commitment import CommitmentResult
    from gpuplan.planner.studies.size_results import CommitmentLine

MOST_PANELS = 8
"""GPU types that are drawn."""
HEADROOM = 0.18
"""Of the height of the curve, above it and below it, for labels."""


@styled
def draw_commitments(lines: Sequence[CommitmentLine], plans: Sequence[CommitmentResult]) -> Figure:
    """Return a panel per GPU type: dollars of every commitment, the best and today's marked."""
    panel_in, drawn = 3.6 if len(lines) == 1 else 2.6, lines[:MOST_PANELS]
    figure = new_figure(height_in=panel_in * len(drawn) + 0.6, rows=(1.0,) * len(drawn))
    for axes, line, plan in zip(figure.axes, drawn, plans, strict=False):
        draw_commitment(axes, line, plan, is_one=len(lines) == 1)
    if rest := len(lines) - len(drawn):
        note = f"{rest:,} more GPU types are in the table"
        figure.suptitle(note, x=0.01, ha="left", color=INK, fontsize=11)
    return figure


def draw_commitment(
    axes: Axes, line: CommitmentLine, plan: CommitmentResult, *, is_one: bool
) -> None:
    """Draw the dollars of every commitment on one GPU type, and mark the best and today's."""
    of = "" if is_one else f", {line.gpu_type}"
    axes.set_title(f"Dollars a month by GPUs committed{of}")
    gpus, usd = zip(*line.points, strict=True)
    axes.plot(gpus, usd, color=COLOURS["blue"], marker="o" if len(gpus) < 3 else "")
    low, high = min(usd), max(usd)
    room = HEADROOM * (high - low or high or 1.0)
    axes.set_ylim(max(0.0, low - room), high + room)
    axes.set_xlim(-0.02 * max(gpus[-1], 1), 1.02 * max(gpus[-1], 1))
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    dollar_axis(axes, "y", 5)
    owned = f", beside {plan.owned_gpus:,} owned" if plan.owned_gpus else ""
    axes.set_xlabel(f"GPUs committed{owned}")
    axes.set_ylabel("US dollars per month")
    light_grid(axes)
    _marks(axes, line, plan)


def _marks(axes: Axes, line: CommitmentLine, plan: CommitmentResult) -> None:
    best, today = plan.committed_gpus, plan.today_gpus
    word = "optimum, today" if today == best else "optimum"
    marks = [(float(best), plan.usd_per_month)]
    texts = [f"{word}: {counted(best, 'GPU')}, {show_usd(plan.usd_per_month)}"]
    shades = [on_paper(COLOURS["blue"])]
    axes.plot(*marks[0], marker="D", markersize=9, color=COLOURS["blue"], zorder=5)
    on_curve = dict(line.points)
    if today is not None and today != best and today in on_curve:
        marks.append((float(today), on_curve[today]))
        axes.plot(*marks[1], marker="*", markersize=13, color=COLOURS["orange"], zorder=5)
        usd = plan.today_usd_per_month
        is_paid = usd is not None and isclose(usd, on_curve[today])
        word = "today: " if is_paid else "today's "
        at = "" if is_paid else " at this price"
        texts.append(f"{word}{counted(today, 'GPU')}{at}, {show_usd(on_curve[today])}")
        shades.append(on_paper(COLOURS["orange"]))
    place_labels(axes, marks, texts, shades, line.points)
