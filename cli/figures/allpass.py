"""The time lines of one Allpass run: threshold, pressure, workers, queue, price."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from gpuplan.cli.figures.palette import KINDS, look_of
from gpuplan.cli.figures.steps import draw_steps, finish_timelines, time_axis
from gpuplan.cli.figures.style import INK, SETTINGS, SOFT, new_figure
from gpuplan.simkit.allpass.simulator import AllpassRun, Timeline
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.time import MICROS


def draw_timeline(run: AllpassRun, policy: str = "allpass") -> Figure:
    """Draw GPUs by kind, and threshold, pressure, queue and mean price where there is any."""
    line = run.timeline
    if line.time_us.size == 0:
        figure = new_figure(height_in=1.8)
        figure.axes[0].text(
            0.5, 0.5, "the run ended before the first tick", ha="center", va="center", color=INK
        )
        return figure
    time, unit = time_axis(line.time_us / MICROS, run.end_us / MICROS)
    colour = look_of(policy).colour
    drawn: list[Callable[[Axes, Timeline, FloatArray, str], None]] = [
        draw
        for draw, values in (
            (_threshold, line.threshold_us if np.isfinite(run.parameters.threshold_s) else 0),
            (_pressure, line.pressure),
            (_gpus, 1),
            (_queue, line.queued),
            (_price, np.nan_to_num(line.mean_price)),
        )
        if np.any(values)
    ]
    figure = new_figure(rows=(1.0,) * len(drawn), height_in=1.8 * len(drawn), share_x=True)
    with matplotlib.rc_context(SETTINGS):
        for axes, draw in zip(figure.axes, drawn, strict=True):
            draw(axes, line, time, colour)
        finish_timelines(figure, time[-1], unit)
    return figure


def _threshold(axes: Axes, line: Timeline, time: FloatArray, colour: str) -> None:
    draw_steps(axes, time, line.threshold_us / MICROS / 60, colour)
    axes.set_ylabel("minutes")
    axes.set_title("Threshold: run time after which a job leaves its container")


def _pressure(axes: Axes, line: Timeline, time: FloatArray, colour: str) -> None:
    draw_steps(axes, time, line.pressure, colour)
    axes.axhline(1, color=SOFT, linewidth=0.8)
    axes.set_yscale("symlog", linthresh=1)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda ratio, _: f"{ratio:,g}"))
    axes.set_ylabel("ratio")
    axes.set_title("Pressure: work due over what the ready workers can do by then")


def _gpus(axes: Axes, line: Timeline, time: FloatArray, colour: str) -> None:
    conventional = line.ready + line.starting - line.marketplace
    for (kind, look), gpus in zip(
        KINDS.items(), (line.serverless, line.marketplace, conventional), strict=True
    ):
        if np.any(gpus):
            draw_steps(axes, time, gpus, look.colour, kind)
    axes.set_ylabel("GPUs")
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.set_title("GPUs held")
    if axes.lines:
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3)


def _queue(axes: Axes, line: Timeline, time: FloatArray, colour: str) -> None:
    draw_steps(axes, time, line.queued, colour)
    axes.set_ylabel("jobs")
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.set_title("Jobs waiting for workers")


def _price(axes: Axes, line: Timeline, time: FloatArray, colour: str) -> None:
    draw_steps(axes, time, line.mean_price, colour)
    axes.set_ylabel("$/GPU-h")
    axes.set_title("Mean price of a rented worker")
