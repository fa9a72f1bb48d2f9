"""The time lines of one cluster: GPUs in use, jobs that wait."""

from __future__ import annotations

import matplotlib
from matplotlib.figure import Figure

from gpuplan.cli.figures.steps import draw_steps
from gpuplan.cli.figures.style import COLOURS, INK, SETTINGS, SOFT, new_figure
from gpuplan.simkit.cluster.run import ClusterRun
from gpuplan.simkit.workload import MICROS


def draw_cluster(run: ClusterRun) -> Figure:
    """Draw the GPUs in use, with those there are, and the queue over time."""
    figure = new_figure(height_in=4.5)
    figure.clear()
    with matplotlib.rc_context(SETTINGS):
        gpus, queue = figure.subplots(2, 1, sharex=True)
    days = run.makespan_us / MICROS >= 172_800
    size, unit = (86_400, "days") if days else (3600, "hours")
    time = (run.time_us - run.time_us[0]) / MICROS / size
    draw_steps(gpus, time, run.used, COLOURS["blue"])
    gpus.axhline(run.cluster.gpus, color=INK, linewidth=0.8)
    gpus.set_ylabel("GPUs")
    gpus.set_title(f"GPUs in use, of {run.cluster.gpus:,}")
    draw_steps(queue, time, run.waiting, COLOURS["purple"])
    queue.set_ylabel("jobs")
    queue.set_title("Jobs waiting")
    queue.set_xlabel(f"{unit} after the first submission")
    for axes in (gpus, queue):
        axes.set_ylim(bottom=0)
        if time[-1] > 0:
            axes.set_xlim(0, time[-1])
        axes.grid(axis="y", color=SOFT, alpha=0.25, linewidth=0.6)
        axes.title.set(fontsize=10, fontweight="bold", color=INK, ha="left", x=0)
    return figure
