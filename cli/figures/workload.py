"""The picture of a workload: durations, inequality, load, and fitted models of durations."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator, PercentFormatter
from msgspec import UnsetType

from gpuplan.analysis.characterize import Characterization
from gpuplan.analysis.characterize.gpu_time import GpuTime
from gpuplan.analysis.characterize.load import Load
from gpuplan.cli.figures.cdf import draw_cdf, log_ends, tick_durations, write_reason
from gpuplan.cli.figures.style import COLOURS, INK, SOFT, new_figure, on_paper, styled
from gpuplan.cli.figures.time_axis import DAY_S, date_number, drawable, show_dates
from gpuplan.cli.formats.model_names import model_name
from gpuplan.cli.formats.units import show_duration, show_number

if TYPE_CHECKING:
    from gpuplan.analysis.fits.results import Fits

SHOWN = 4
CYCLE = ("orange", "blue", "green", "purple")


def draw_fits(axes: Axes, fits: Fits) -> None:
    """Draw the share of positive durations above each value, and the best models."""
    axes.set_title("How the models follow the tail")
    if fits.curve_s is None or fits.survival is None:
        write_reason(axes, "no fit")
        return
    x = fits.curve_s
    seen = fits.survival > 0  # no job is above the longest
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(*log_ends(x[0], x[-1]))
    axes.set_ylim(0.5 / fits.values, 1.5)
    tick_durations(axes, x[0], x[-1])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}%"))
    axes.set_xlabel("duration")
    axes.set_ylabel("jobs that run longer")
    axes.plot(x[seen], fits.survival[seen], color=INK, linewidth=4, alpha=0.3, label="jobs")
    for fit, colour in zip(fits.models[:SHOWN], CYCLE, strict=False):
        positive = fit.survival > 0
        first = fit is fits.best
        axes.plot(
            x[positive],
            fit.survival[positive],
            color=COLOURS[colour],
            linewidth=2.0 if first else 1.2,
            label=model_name(fit.model),
        )
    name = fits.best.model if fits.best is not None else ""
    if fits.tail is not None and name.endswith("pareto"):
        at = fits.tail.threshold_s
        axes.axvline(at, color=SOFT, linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(
            f"tail from {show_duration(at)}",
            (at, 1),
            xycoords=("data", "axes fraction"),
            xytext=(4, -4),
            textcoords="offset points",
            va="top",
            fontsize=9,
            color=INK,
        )
    axes.legend(loc="lower left")


UNITS = ((2 * 86400, 86400, "days"), (2 * 3600, 3600, "hours"), (120, 60, "minutes"))


def draw_load(axes: Axes, load: Load, span_s: float, first_submit: datetime | None = None) -> None:
    """Draw the mean GPUs held per bin, and mark the offered load and the last submission.

    The axis has dates where the first submission has one.
    """
    axes.set_title("GPUs held over time")
    if not load.timeline or load.window_s is None or load.bin_s is None:
        write_reason(axes, "no GPU time recorded")
        return
    size: float
    size, unit = next(
        (s, u) for least, s, u in (*UNITS, (0, 1, "seconds")) if load.window_s > least
    )
    first, first_submit = 0.0, drawable(first_submit, load.window_s)
    if first_submit is not None:
        size, first = DAY_S, date_number(first_submit)
    edges = [first + entry.start_s / size for entry in load.timeline]
    edges.append(first + load.window_s / size)
    held = [entry.mean_gpus for entry in load.timeline]
    axes.stairs(held, edges, color=COLOURS["blue"], fill=True, alpha=0.25)
    axes.stairs(held, edges, color=COLOURS["blue"], linewidth=1.2, baseline=None)
    axes.set_xlim(first, edges[-1])
    axes.set_ylim(0, 1.12 * max(*held, load.mean_gpus or 0) or 1)
    if first_submit is None:
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=edges[-1] >= 6))
        axes.set_xlabel(f"{unit} since the first submission")
    else:
        show_dates(axes)
    axes.set_ylabel(f"GPUs, mean of each {show_duration(load.bin_s)}")
    if load.mean_gpus is not None:
        axes.hlines(
            load.mean_gpus, first, first + span_s / size, color=COLOURS["orange"], linewidth=1.4
        )
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
        axes.axvline(first + span_s / size, color=SOFT, linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(
            "last submission",
            (first + span_s / size, 1),
            xycoords=("data", "axes fraction"),
            xytext=(-4, -4),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=9,
            color=INK,
        )


def draw_lorenz(axes: Axes, time: GpuTime) -> None:
    """Draw the share of GPU time of the smallest jobs, and that of equal jobs."""
    axes.set_title("How unequal jobs are")
    if not time.lorenz or time.gini is None:
        write_reason(axes, "no GPU time recorded")
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


@styled
def draw_workload(result: Characterization) -> Figure:
    """Return panels: distribution of durations, Lorenz curve, GPUs held over time, and any fits.

    Of a trace without durations one panel says so.
    """
    if not result.duration_cdf and not result.load.timeline:
        figure = new_figure(1, width_in=6.0, height_in=4.2)
        draw_cdf(figure.axes[0], result.duration_cdf, result.duration_s)
        return figure
    figure = new_figure(width_in=10.0, height_in=7.8)
    figure.clear()
    fits = None if isinstance(result.fits, UnsetType) else result.fits
    last = "load" if fits is None else "fits"
    panels = figure.subplot_mosaic([["cdf", "lorenz"], ["load", last]])
    draw_cdf(panels["cdf"], result.duration_cdf, result.duration_s)
    draw_lorenz(panels["lorenz"], result.gpu_time)
    first = result.first_submit and datetime.fromisoformat(result.first_submit)
    draw_load(panels["load"], result.load, result.span_s, first or None)
    if fits is not None:
        draw_fits(panels["fits"], fits.duration_s)
    return figure
