"""Time lines: step functions over time, also very long ones, below each other."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gpuplan.cli.figures.style import SOFT
from gpuplan.simkit.arrays import FloatArray

STEPS = 800  # as many as a picture has columns to show
DAYS_FROM_S = 172_800.0


def time_axis(time_s: FloatArray, span_s: float) -> tuple[FloatArray, str]:
    """Return times in days or hours, by how long they span, and the name of that unit."""
    size, unit = (86_400.0, "days") if span_s >= DAYS_FROM_S else (3600.0, "hours")
    return time_s / size, unit


def finish_timelines(figure: Figure, end: float, unit: str) -> None:
    """Give the panels of time lines one look; the last one names the time."""
    for axes in figure.axes:
        top = axes.get_ylim()[1]
        axes.set_ylim(0, top if axes.dataLim.y1 > 0 else 1)
        if end > 0:
            axes.set_xlim(0, end)
        axes.grid(axis="y", color=SOFT, alpha=0.25, linewidth=0.6)
        axes.title.set(fontsize=10)
    figure.axes[-1].set_xlabel(f"{unit} after the first submission")


def draw_steps(axes: Axes, time: FloatArray, value: object, colour: str, label: str = "") -> None:
    """Draw a step function; of a long one the largest value in each of `STEPS` stretches."""
    height = np.asarray(value, np.float64)
    if time.size > STEPS:
        begin = np.linspace(time[0], time[-1], STEPS)
        most = height[np.searchsorted(time, begin, side="right") - 1]  # carried into the stretch
        np.fmax.at(most, np.searchsorted(begin, time, side="right") - 1, height)
        time, height = begin, most
    axes.step(time, height, where="post", color=colour, linewidth=1.2, label=label)
