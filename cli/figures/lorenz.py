"""The Lorenz curve: how unequally jobs share the GPU time."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from gpuplan.analysis.characterize.gpu_time import GpuTime
from gpuplan.cli.figures.cdf import nothing
from gpuplan.cli.figures.style import COLOURS, SOFT, on_paper


def draw_lorenz(axes: Axes, time: GpuTime) -> None:
    """Draw the share of GPU time that the smallest jobs take, beside that of equal jobs."""
    axes.set_title("How unequal jobs are")
    if not time.lorenz or time.gini is None:
        nothing(axes, "no GPU time recorded")
        return
    jobs = [point.share_jobs for point in time.lorenz]
    held = [point.share_gpu_hours for point in time.lorenz]
    axes.plot([0, 1], [0, 1], color=SOFT, linewidth=1, linestyle=(0, (4, 3)))
    axes.plot(jobs, held, color=COLOURS["orange"], clip_on=False)
    axes.fill_between(jobs, held, jobs, color=COLOURS["orange"], alpha=0.12, linewidth=0)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.02)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    axes.set_xlabel("GPU jobs, those of least GPU time first")
    axes.set_ylabel("share of the GPU time")
    axes.text(
        0.47, 0.52, "all jobs equal", ha="right", va="bottom", fontsize=9, color=on_paper(SOFT)
    )
    axes.text(
        0.04,
        0.94,
        f"Gini coefficient {time.gini:.2f}",
        va="top",
        fontsize=10,
        fontweight="bold",
        color=on_paper(COLOURS["orange"]),
    )
