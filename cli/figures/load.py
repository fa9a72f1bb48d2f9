"""GPUs held over time."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from gpuplan.analysis.characterize.load import Load
from gpuplan.cli.figures.cdf import nothing
from gpuplan.cli.figures.style import COLOURS, INK, SOFT, on_paper
from gpuplan.cli.formats.units import show_duration, show_number

UNITS = ((2 * 86400, 86400, "days"), (2 * 3600, 3600, "hours"), (120, 60, "minutes"))


def draw_load(axes: Axes, load: Load, span_s: float) -> None:
    """Draw the mean GPUs held per bin, with the offered load and the last submission marked."""
    axes.set_title("GPUs held over time")
    if not load.timeline or load.window_s is None or load.bin_s is None:
        nothing(axes, "no GPU time recorded")
        return
    size, unit = next(
        (s, u) for least, s, u in (*UNITS, (0, 1, "seconds")) if load.window_s > least
    )
    edges = [entry.start_s / size for entry in load.timeline] + [load.window_s / size]
    held = [entry.mean_gpus for entry in load.timeline]
    axes.stairs(held, edges, color=COLOURS["blue"], fill=True, alpha=0.25)
    axes.stairs(held, edges, color=COLOURS["blue"], linewidth=1.2, baseline=None)
    axes.set_xlim(0, edges[-1])
    axes.set_ylim(0, 1.12 * max(*held, load.mean_gpus or 0) or 1)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=edges[-1] >= 6))
    axes.set_xlabel(f"{unit} since the first submission")
    axes.set_ylabel(f"GPUs, mean of each {show_duration(load.bin_s)}")
    if load.mean_gpus is not None:
        axes.hlines(load.mean_gpus, 0, span_s / size, color=COLOURS["orange"], linewidth=1.4)
        axes.annotate(
            f"mean\n{show_number(load.mean_gpus)}",  # in the margin, clear of the bars
            (1, load.mean_gpus),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            ha="left",
            va="center",
            fontsize=9,
            color=on_paper(COLOURS["orange"]),
        )
    if 0 < span_s < 0.97 * load.window_s:
        axes.axvline(span_s / size, color=SOFT, linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(
            "last submission",
            (span_s / size, 1),
            xycoords=("data", "axes fraction"),
            xytext=(-4, -4),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=9,
            color=INK,
        )
