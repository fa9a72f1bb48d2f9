"""GPUs of both kinds of jobs, the quota and eta over time, for several policies that lend GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from matplotlib.axes import Axes

from gpuplan.cli.figures.palette import Look
from gpuplan.cli.figures.replays import draw_panel, draw_steps, time_axis
from gpuplan.cli.figures.style import SOFT
from gpuplan.cli.figures.time_axis import DAY_S, date_number, drawable, show_dates
from gpuplan.planner.compare import PolicyOutcome
from gpuplan.planner.runs.panels import FACTOR, GPUS, TimeLines
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.time import MICROS

MOST_SHOWN = 4
"""Policies with a panel of their own; a picture of more is too tall to read."""

LendingRun = tuple[PolicyOutcome, TimeLines, Look]


def lending_outcomes(outcomes: Sequence[PolicyOutcome], looks: Sequence[Look]) -> list[LendingRun]:
    """Return the policies that lend GPUs, with their looks; a picture shows `MOST_SHOWN`."""
    return [
        (one, one.lines, look)
        for one, look in zip(outcomes, looks, strict=True)
        if one.lines is not None and one.lines.time_us.size
    ]


def lending_rows(runs: Sequence[LendingRun]) -> tuple[float, ...]:
    """Return the heights of the panels in inches: one for each policy, and one for eta."""
    runs = runs[:MOST_SHOWN]
    has_eta = any(panel.unit == FACTOR for _, lines, _ in runs for panel in lines.panels)
    return (1.8,) * len(runs) + (1.6,) * has_eta


def draw_lending(
    panels: Sequence[Axes], runs: Sequence[LendingRun], first_submit: datetime | None
) -> None:
    """Draw GPUs and quota of each policy, and the eta of all; see `lending_rows`."""
    left_out, runs = runs[MOST_SHOWN:], runs[:MOST_SHOWN]
    end_s = max(lines.end_us for _, lines, _ in runs) / MICROS
    first = drawable(first_submit, end_s)
    for axes, (one, lines, look) in zip(panels, runs, strict=False):
        time, _ = _times(lines, end_s, first)
        (own,) = (panel for panel in lines.panels if panel.unit == GPUS)
        draw_panel(axes, own, time, look.colour, ticks=4)
        others = f" ({len(left_out)} more: --timeline)" if left_out and one is runs[-1][0] else ""
        axes.set_title(f"{one.label}: {own.title}{others}", fontsize=10)
    if len(panels) > len(runs):
        axes = panels[-1]
        axes.set_title("Factor of the quota (eta)", fontsize=10)
        axes.set_ylabel(FACTOR)
        axes.axhline(1.0, color=SOFT, linewidth=0.8)
        for one, lines, look in runs:
            time, _ = _times(lines, end_s, first)
            for panel in lines.panels:
                if panel.unit == FACTOR:
                    draw_steps(axes, time, panel.series["eta"], look.colour, one.label)
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=MOST_SHOWN)
    _, unit = time_axis(runs[0][1].time_us / MICROS, end_s)
    begin = 0.0 if first is None else date_number(first)
    scale = DAY_S if first is not None or unit == "days" else 3600.0
    for axes in panels:
        top = axes.get_ylim()[1]
        axes.set_ylim(0, top if axes.dataLim.y1 > 0 else 1)
        axes.set_xlim(begin, begin + max(end_s, 1.0) / scale)
        axes.grid(axis="y", color=SOFT, alpha=0.25, linewidth=0.6)
        if first is not None:
            show_dates(axes)
        else:
            axes.set_xlabel(f"{unit} after the first submission")
        if axes is not panels[-1]:
            axes.set_xlabel("")


def _times(lines: TimeLines, end_s: float, first: datetime | None) -> tuple[FloatArray, str]:
    """Return where the values of a run are on the horizontal axis, and its unit."""
    if first is not None:
        return date_number(first) + lines.time_us / MICROS / DAY_S, "date"
    return time_axis(lines.time_us / MICROS, end_s)
