"""The time lines of one cluster: GPUs in use, jobs that wait."""

from __future__ import annotations

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from gpuplan.cli.figures.palette import look_of
from gpuplan.cli.figures.steps import draw_steps, finish_timelines, time_axis
from gpuplan.cli.figures.style import INK, SETTINGS, new_figure
from gpuplan.simkit.cluster.simulator import ClusterRun
from gpuplan.simkit.time import MICROS


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
