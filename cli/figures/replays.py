"""Time lines of one replay: GPUs, waiting jobs, and what an Allpass run decides by."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from gpuplan.cli.figures.palette import KINDS, look_of
from gpuplan.cli.figures.style import INK, SETTINGS, SOFT, new_figure
from gpuplan.simkit.allpass.simulator import AllpassRun, Timeline
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.cluster.simulator import ClusterRun
from gpuplan.simkit.time import MICROS

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


def draw_cluster(run: ClusterRun, policy: str = "fifo") -> Figure:
    """Draw the GPUs in use, with those there are, and the queue over time where there is one."""
    rows = (1.0, 1.0) if run.waiting.any() else (1.0,)
    figure = new_figure(rows=rows, height_in=0.5 + 2.0 * len(rows), share_x=True)
    time, unit = time_axis((run.time_us - run.time_us[0]) / MICROS, run.makespan_us / MICROS)
    colour = look_of(policy).colour
    with matplotlib.rc_context(SETTINGS):
        gpus, *queues = figure.axes
        draw_steps(gpus, time, run.used, colour)
        gpus.axhline(run.cluster.gpus, color=INK, linewidth=0.8)
        gpus.set_ylabel("GPUs")
        gpus.set_title(
            f"GPUs in use, of {run.cluster.gpus:,}" + ("" if queues else "; no job waits")
        )
        for queue in queues:
            draw_steps(queue, time, run.waiting, colour)
            queue.set_ylabel("jobs")
            queue.set_title("Jobs waiting")
        for axes in figure.axes:
            axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        finish_timelines(figure, time[-1], unit)
    return figure


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
