"""The time lines of one Allpass run: threshold, pressure, workers, queue, price."""

from __future__ import annotations

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from gpuplan.cli.figures.steps import draw_steps
from gpuplan.cli.figures.style import COLOURS, INK, SETTINGS, SOFT, new_figure
from gpuplan.simkit.allpass.run import AllpassRun
from gpuplan.simkit.workload import MICROS


def draw_timeline(run: AllpassRun) -> Figure:
    """Draw threshold, pressure, GPUs by provider, queue and the mean price paid over time."""
    figure = new_figure(height_in=9.0)
    figure.clear()
    with matplotlib.rc_context(SETTINGS):
        threshold, pressure, gpus, queue, price = figure.subplots(5, 1, sharex=True)
    line = run.timeline
    days = run.end_us / MICROS >= 172_800
    size, unit = (86_400, "days") if days else (3600, "hours")
    time = line.time_us / MICROS / size
    if time.size == 0:
        threshold.text(0.5, 0.5, "the run ended before the first tick", ha="center", va="center")
        return figure

    if np.isfinite(run.parameters.threshold_s):
        draw_steps(threshold, time, line.threshold_us / MICROS / 60, COLOURS["blue"])
    threshold.set_ylabel("minutes")
    threshold.set_title("Threshold: run time after which a job leaves its container")

    draw_steps(pressure, time, line.pressure, COLOURS["blue"])
    pressure.axhline(1, color=SOFT, linewidth=0.8)
    pressure.set_ylabel("pressure")
    pressure.set_yscale("symlog", linthresh=1)
    pressure.set_title("Pressure: work due over what the ready workers can do by then")

    draw_steps(gpus, time, line.serverless, COLOURS["orange"], "serverless")
    draw_steps(gpus, time, line.marketplace, COLOURS["green"], "marketplace")
    conventional = line.ready + line.starting - line.marketplace
    draw_steps(gpus, time, conventional, COLOURS["purple"], "conventional")
    gpus.set_ylabel("GPUs")
    gpus.set_title("GPUs held")
    gpus.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False, fontsize=9)

    draw_steps(queue, time, line.queued, COLOURS["purple"])
    queue.set_ylabel("jobs")
    queue.set_title("Jobs waiting for workers")

    draw_steps(price, time, line.mean_price, COLOURS["orange"])
    price.set_ylabel("$/GPU-h")
    price.set_title("Mean price of a rented worker")
    price.set_xlabel(f"{unit} after the first submission")
    for axes in (threshold, pressure, gpus, queue, price):
        axes.set_ylim(bottom=0)
        axes.set_xlim(0, time[-1])
        axes.grid(axis="y", color=SOFT, alpha=0.25, linewidth=0.6)
        axes.title.set(fontsize=10, fontweight="bold", color=INK, ha="left", x=0)
    return figure
