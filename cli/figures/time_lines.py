"""Time lines of one replay (GPUs, waiting jobs, the rest), or of the policies that lend GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from gpuplan.cli.figures.palette import CLASSES, KINDS, Look, look_of
from gpuplan.cli.figures.style import CYCLE, INK, SOFT, light_grid, new_figure, styled
from gpuplan.cli.figures.time_axis import DAY_S, date_number, drawable, show_dates
from gpuplan.planner.compare import PolicyOutcome
from gpuplan.planner.runs.panels import (
    FACTOR,
    GPUS,
    JOBS,
    RATIO,
    SECONDS,
    JobBars,
    Panel,
    TimeLines,
)
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.time import MICROS

SECONDS_PER_MINUTE = 60.0
HOUR_S = 3600.0
TALL = 3  # fewer panels than this have more room each
STEPS = 800  # as many as a picture has columns to show
DAYS_FROM_S = 172_800.0


def _times(
    lines: TimeLines, span_s: float, first: datetime | None
) -> tuple[FloatArray, str, float]:
    """Return where the values of a run are on the horizontal axis, its unit, and its seconds.

    They are dates from ``first`` on, or days or hours by how long all of it lasts.
    """
    is_long = first is not None or span_s >= DAYS_FROM_S
    unit, unit_s = ("days", DAY_S) if is_long else ("hours", HOUR_S)
    begin = 0.0 if first is None else date_number(first)
    return begin + lines.time_us / MICROS / unit_s, unit, unit_s


def _finish(panels: Sequence[Axes], end: float, unit: str, first_submit: datetime | None) -> None:
    """Give panels of time lines one look up to ``end``; the last one names the time.

    With a ``first_submit`` the times are date numbers from there on.
    """
    begin = 0.0 if first_submit is None else date_number(first_submit)
    for axes in panels:
        top = axes.get_ylim()[1]
        axes.set_ylim(0, top if axes.dataLim.y1 > 0 else 1)
        if end > begin:
            axes.set_xlim(begin, end)
        light_grid(axes)
        axes.title.set(fontsize=10)
        if first_submit is not None:
            show_dates(axes)
        else:
            axes.set_xlabel(f"{unit} after the first submission")
        if axes is not panels[-1]:
            axes.set_xlabel("")


def draw_steps(axes: Axes, time: FloatArray, value: object, colour: str, label: str = "") -> None:
    """Draw a step function; of a long one the largest value in each of `STEPS` stretches."""
    height = np.asarray(value, np.float64)
    if time.size > STEPS:
        begin = np.linspace(time[0], time[-1], STEPS)
        most = height[np.searchsorted(time, begin, side="right") - 1]  # carried into the stretch
        np.fmax.at(most, np.searchsorted(begin, time, side="right") - 1, height)
        time, height = begin, most
    axes.step(time, height, where="post", color=colour, linewidth=1.2, label=label)


@styled
def draw_time_lines(lines: TimeLines, policy: str, first_submit: datetime | None = None) -> Figure:
    """Draw the panels of a run below each other, in the color of its policy.

    The axis has dates where the first submission has one.
    """
    if lines.time_us.size == 0:
        figure = new_figure(height_in=1.8)
        figure.axes[0].text(
            0.5, 0.5, "the run ended before the first tick", ha="center", va="center", color=INK
        )
        return figure
    first_submit = drawable(first_submit, lines.end_us / MICROS)
    time, unit, unit_s = _times(lines, lines.end_us / MICROS, first_submit)
    colour, panels = look_of(policy).colour, lines.panels
    is_tall = len(panels) < TALL
    height_in = 0.5 + 2.0 * len(panels) if is_tall else 1.8 * len(panels)
    rows, bars = (1.0,) * len(panels), lines.bars
    if bars is not None:
        more_in = 0.7 + 0.16 * len(bars.job_id)
        rows = (*rows, more_in / (height_in / len(panels)))
        height_in += more_in
    figure = new_figure(rows=rows, height_in=height_in, share_x=True)
    for axes, panel in zip(figure.axes, panels, strict=False):
        draw_panel(axes, panel, time, colour, ticks=5 if is_tall else 4)
    _finish(figure.axes, time[-1], unit, first_submit)
    if bars is not None:
        begin = 0.0 if first_submit is None else date_number(first_submit)
        _draw_bars(figure.axes[-1], bars, begin, unit_s * MICROS)
    return figure


def _draw_bars(axes: Axes, bars: JobBars, begin: float, unit_us: float) -> None:
    """Draw a row per job, colored by the GPU type that it ran on."""
    axes.set_title(f"Where each of {len(bars.job_id)} jobs ran", fontsize=10)
    axes.set_ylabel("jobs by first start")
    for place, name in enumerate(bars.kinds):
        is_here = bars.kind == place
        axes.barh(
            bars.row[is_here],
            (bars.end_us - bars.begin_us)[is_here] / unit_us,
            left=begin + bars.begin_us[is_here] / unit_us,
            height=0.8,
            color=CYCLE[place % len(CYCLE)],
            edgecolor=CYCLE[place % len(CYCLE)],
            linewidth=1,  # so that the shortest run is seen
            label=name,
        )
    axes.set_ylim(len(bars.job_id) - 0.4, -0.6)
    axes.set_yticks(range(len(bars.job_id)), bars.job_id, fontsize=8)
    axes.grid(visible=False, axis="y")


def draw_panel(axes: Axes, panel: Panel, time: FloatArray, colour: str, *, ticks: int) -> None:
    """Draw the values of a panel at these times, with a legend where there are several."""
    axes.set_title(panel.title)
    axes.set_ylabel("minutes" if panel.unit == SECONDS else panel.unit)
    kinds = [name for name in panel.series if name in KINDS and np.any(panel.series[name])]
    for name in kinds:
        draw_steps(axes, time, panel.series[name], KINDS[name].colour, name)
    other_names = [name for name in panel.series if name not in CLASSES and name not in KINDS]
    colours = CYCLE if len(other_names) > 1 else (colour,)
    for name, values in panel.series.items():
        if name in CLASSES:
            look = CLASSES[name]
            draw_steps(axes, time, values, look.colour, name)
            axes.lines[-1].set_linestyle(look.dash)
        elif name in other_names:
            scaled = values / SECONDS_PER_MINUTE if panel.unit == SECONDS else values
            shade = colours[other_names.index(name) % len(colours)]
            draw_steps(axes, time, scaled, shade, name if len(other_names) > 1 else "")
    if kinds or len(other_names) > 1 or any(name in CLASSES for name in panel.series):
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3)
    if panel.limit is not None:
        axes.axhline(panel.limit, color=INK if panel.unit == GPUS else SOFT, linewidth=0.8)
    if panel.unit == RATIO:
        axes.set_yscale("symlog", linthresh=1)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda ratio, _: f"{ratio:,g}"))
    elif panel.unit in (GPUS, JOBS):
        axes.yaxis.set_major_locator(MaxNLocator(ticks, integer=True))


MOST_SHOWN = 4
"""Policies with a panel of their own; a picture of more is too tall to read."""

LendingRun = tuple[PolicyOutcome, TimeLines, Look]


def lending_outcomes(outcomes: Sequence[PolicyOutcome], looks: Sequence[Look]) -> list[LendingRun]:
    """Return the policies that lend GPUs, with their looks; a picture shows `MOST_SHOWN`."""
    return [
        (outcome, outcome.lines, look)
        for outcome, look in zip(outcomes, looks, strict=True)
        if outcome.lines is not None and outcome.lines.time_us.size
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
    for axes, (outcome, lines, look) in zip(panels, runs, strict=False):
        time = _times(lines, end_s, first)[0]
        (gpus,) = (panel for panel in lines.panels if panel.unit == GPUS)
        draw_panel(axes, gpus, time, look.colour, ticks=4)
        more = f" ({len(left_out)} more: --timeline)" if left_out and outcome is runs[-1][0] else ""
        axes.set_title(f"{outcome.label}: {gpus.title}{more}", fontsize=10)
    if len(panels) > len(runs):
        axes = panels[-1]
        axes.set_title("Factor of the quota (eta)", fontsize=10)
        axes.set_ylabel(FACTOR)
        axes.axhline(1.0, color=SOFT, linewidth=0.8)
        for outcome, lines, look in runs:
            time = _times(lines, end_s, first)[0]
            for panel in lines.panels:
                if panel.unit == FACTOR:
                    draw_steps(axes, time, panel.series["eta"], look.colour, outcome.label)
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=MOST_SHOWN)
    _, unit, unit_s = _times(runs[0][1], end_s, first)
    begin = 0.0 if first is None else date_number(first)
    _finish(panels, begin + max(end_s, 1.0) / unit_s, unit, first)
