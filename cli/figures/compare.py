"""Several workloads in one picture: their distributions of duration over each other."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from gpuplan.analysis.characterize import Characterization
from gpuplan.cli.figures.cdf import nothing, tick_durations
from gpuplan.cli.figures.style import CYCLE, SETTINGS, new_figure
from gpuplan.cli.formats.units import show_duration


def draw_comparison(names: Sequence[str], results: Sequence[Characterization]) -> Figure:
    """Return two panels: share of jobs, and of GPU time, up to each duration, by trace."""
    figure = new_figure(2, width_in=10.0, height_in=4.2)
    jobs, held = [], []
    for name, result, colour in zip(names, results, CYCLE, strict=False):
        points = [point for point in result.cdf if point.duration_s > 0]
        times = [point.duration_s for point in points]
        median = result.duration.p50
        known = "" if median is None else f", P50 {show_duration(median)}"
        jobs.append((f"{name}{known}", times, [p.share_jobs for p in points], colour))
        shares = [p.share_gpu_hours for p in points if p.share_gpu_hours is not None]
        held.append((name, times if shares else [], shares, colour))
    with matplotlib.rc_context(SETTINGS):
        _panel(figure.axes[0], "How long jobs run", "jobs up to this duration", jobs)
        _panel(figure.axes[1], "Where the GPU time is", "GPU time in jobs up to it", held)
    return figure


Curve = tuple[str, list[float], list[float], str]


def _panel(axes: Axes, title: str, label: str, curves: list[Curve]) -> None:
    axes.set_title(title)
    axes.set_ylabel(label)
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    axes.set_ylim(0, 1.02)
    drawn = [curve for curve in curves if curve[1]]
    if not drawn:
        nothing(axes, "no durations recorded")
        return
    low, high = min(c[1][0] for c in drawn), max(c[1][-1] for c in drawn)
    if low == high:
        low, high = low / 10, high * 10
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    tick_durations(axes, low, high)
    axes.set_xlabel("duration")
    for name, times, shares, colour in drawn:
        # Beyond its own jobs a curve stays at its last value.
        start, end = [times[0]], [high]
        axes.plot([*start, *times, *end], [0, *shares, shares[-1]], color=colour, label=name)
    axes.legend(loc="best")
