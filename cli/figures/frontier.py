"""The picture of ``gpuplan pareto``: mean completion time against GPU budget."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import ArrayLike

from gpuplan.cli.figures.style import COLOURS, INK, PAPER, SOFT, new_figure
from gpuplan.cli.units import show_duration
from gpuplan.planner.boa.frontier import Frontier
from gpuplan.planner.boa.show import show_gpus
from gpuplan.planner.boa.study import MONTH_H, Study

SAMPLES = 1000
LABELLED = 6  # more points than this speak for themselves
MINUTE_S, HOUR_S = 60.0, 3600.0
COARSE_S = (  # ticks for times that differ much
    *(1, 5, 20),
    *(MINUTE_S * m for m in (1, 2, 5, 10, 30)),
    *(HOUR_S * 2**i for i in range(12)),
)
FINE_S = (  # and for times that do not
    *(1, 2, 5, 10, 15, 20, 30, 45),
    *(MINUTE_S * m for m in (1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 45)),
    *(HOUR_S * h for h in (1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 36, 48, 72, 96)),
)
WIDE = 8.0  # a frontier over more than this ratio of budgets gets a logarithmic axis


def draw_frontier(study: Study) -> Figure:
    """Draw the whole frontier, the budgets asked for, the knee and the least budget.

    A point stands at the GPUs its plan uses, so one beyond saturation stands where the line ends.
    """
    figure = new_figure()
    axes = figure.axes[0]
    frontiers = (study.frontier, *study.ends)
    start = min(f.min_budget for f in frontiers)
    end = max(f.saturation_budget for f in frontiers)
    log = end / start > WIDE
    _range_x(axes, start, end, log=log)
    _grey(axes, study, start)
    if study.ends:
        _band(axes, study, end)
    _line(axes, study.frontier, end, COLOURS["blue"], 1.8, zorder=3)
    knee = (study.knee.budget_gpus, study.knee.mean_jct_s)
    at = [(min(p.plan.used_gpus, end), p.plan.mean_jct_s) for p in study.points]
    dot: dict[str, Any] = {"markeredgecolor": "white", "linestyle": "", "clip_on": False}
    axes.plot(*zip(*at, strict=True), marker="o", color=COLOURS["blue"], ms=6, zorder=5, **dot)
    axes.plot(*knee, marker="D", color=COLOURS["orange"], ms=7, zorder=6, **dot)
    text = f"knee: {show_gpus(knee[0])} GPUs, {show_duration(knee[1])}"
    _write(axes, text, knee, (8, 9), COLOURS["orange"], align=_side(knee[0], start, end, log=log))
    if len(at) <= LABELLED:
        for point in sorted(set(at)):
            beyond = _along(point[0], start, end, log=log) - _along(knee[0], start, end, log=log)
            if abs(beyond) > 0.01:  # the label of the knee speaks for a point upon it
                # Right of the knee its label is in the way, at the end the frame: there is room
                # under the curve.
                under = 0 < beyond < 0.2 or _side(point[0], start, end, log=log) == "right"
                shift, side = ((-4, -11), "right") if under else ((5, 10), "left")
                _write(axes, show_duration(point[1]), point, shift, INK, align=side)
    _scales(axes, study, log=log)
    return figure


def _along(x: float, start: float, end: float, *, log: bool) -> float:
    """Return where a budget stands between the ends of the axis, 0 to 1."""
    if end <= start:
        return 0.0
    if log:
        return float(np.log(x / start) / np.log(end / start))
    return (x - start) / (end - start)


def _side(x: float, start: float, end: float, *, log: bool) -> str:
    """Return on which side of its text a point stands, so that the text stays in the picture."""
    return "right" if _along(x, start, end, log=log) > 0.75 else "left"


def _line(
    axes: Axes, frontier: Frontier, end: float, colour: str, width: float, zorder: int = 2
) -> None:
    """Draw a frontier, and dots over the budgets of which it does not use all."""
    most = frontier.saturation_budget
    x = np.geomspace(frontier.min_budget, most, SAMPLES)
    x[0], x[-1] = frontier.min_budget, most
    y = np.interp(x, frontier.budget_gpus, frontier.mean_jct_s)
    axes.plot(x, y, color=colour, linewidth=width, zorder=zorder)
    if most < end:
        axes.plot((most, end), (y[-1], y[-1]), ":", color=colour, linewidth=width, zorder=zorder)


def _grey(axes: Axes, study: Study, least: float) -> None:
    """Shade the budgets that do not keep up."""
    axes.axvspan(0, least, color=SOFT, alpha=0.18, linewidth=0)
    axes.axvline(least, color=SOFT, linewidth=1)
    of = ""
    if study.ends:
        models = (study.speedup, *(study.speedup.ends or ()))
        frontiers = (study.frontier, *study.ends)
        first = min(zip(frontiers, models, strict=True), key=lambda pair: pair[0].min_budget)
        of = f" ({first[1].name})"
    axes.annotate(
        f"least budget: {show_gpus(least)} GPUs{of}",
        (least, 0.03),
        xycoords=axes.get_xaxis_transform(),
        xytext=(-4, 0),
        textcoords="offset points",
        rotation=90,
        ha="right",
        va="bottom",
        fontsize=9,
        color=INK,
    )


def _band(axes: Axes, study: Study, end: float) -> None:
    """Shade what the mean may be at each budget over the assumed range of speedups."""
    frontiers = (study.frontier, *study.ends)
    both = max(f.min_budget for f in frontiers)
    budgets = np.geomspace(both, max(end, both * 1.001), SAMPLES)
    times = [np.interp(budgets, f.budget_gpus, f.mean_jct_s) for f in frontiers]
    low, high = np.min(times, axis=0), np.max(times, axis=0)
    axes.fill_between(budgets, low, high, color=COLOURS["sky"], alpha=0.25, linewidth=0)
    last = [float(f.mean_jct_s[-1]) for f in study.ends]
    for frontier, model in zip(study.ends, study.speedup.ends or (), strict=True):
        _line(axes, frontier, end, COLOURS["sky"], 1.0)
        jct_s = float(frontier.mean_jct_s[-1])
        above = jct_s == max(last)
        _write(axes, model.name, (end, jct_s), (0, 16 if above else -8), COLOURS["blue"], "right")


def _write(
    axes: Axes,
    text: str,
    at: tuple[float, float],
    shift: tuple[float, float],
    colour: str,
    align: str = "left",
) -> None:
    axes.annotate(
        text,
        at,
        xytext=shift,
        textcoords="offset points",
        fontsize=9,
        color=colour,
        ha=align,
        va="center",
        zorder=7,
        bbox={"facecolor": PAPER, "edgecolor": "none", "alpha": 0.75, "pad": 0.5},
    )


def _range_x(axes: Axes, start: float, end: float, *, log: bool) -> None:
    """Set the scale of the budgets, with room for the labels at both ends."""
    if log:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda gpus, _: f"{gpus:,g}"))
        axes.set_xlim(start * 0.8, end * 1.05)
    else:
        room = end - start or start
        axes.set_xlim(start - 0.08 * room, end + 0.05 * room)


def _scales(axes: Axes, study: Study, *, log: bool) -> None:
    """Label both axes, in dollars too where there is a price."""
    axes.set_yscale("log")
    axes.margins(y=0.1)
    low, high = axes.get_ylim()
    coarse, fine = ([t for t in ticks if low <= t <= high] for ticks in (COARSE_S, FINE_S))
    axes.yaxis.set_major_locator(FixedLocator(coarse if len(coarse) > 3 else fine))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(_tick))
    axes.grid(axis="y", color=SOFT, alpha=0.25, linewidth=0.6)
    scale = ", logarithmic" if log else ""
    dots = "; dotted: beyond use" if study.ends else ""
    axes.set_xlabel(f"GPUs rented on average{scale} (grey: cannot keep up with the arrivals{dots})")
    axes.set_ylabel("mean job completion time, logarithmic")
    low_high = " to ".join(model.name for model in study.speedup.ends or ())
    speedup = study.speedup.name
    axes.set_title(
        f"What each GPU budget buys ({f'{low_high}; line: ' if low_high else ''}{speedup})",
        loc="left",
        fontsize=11,
        fontweight="bold",
    )
    price = study.price_usd_per_gpu_h
    if price is not None:
        month = price * MONTH_H

        def dollars(value: ArrayLike) -> np.ndarray:
            return np.asarray(value) * month

        def gpus(value: ArrayLike) -> np.ndarray:
            return np.asarray(value) / month

        top = axes.secondary_xaxis("top", functions=(dollars, gpus))
        top.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)) if log else MaxNLocator(6))
        top.xaxis.set_minor_locator(NullLocator())
        top.spines["top"].set_color(SOFT)
        top.tick_params(colors=INK, labelsize=9)
        top.set_xlabel(f"dollars per month at ${price:g} per GPU-hour", color=INK)
        top.xaxis.set_major_formatter(FuncFormatter(lambda usd, _: f"${usd:,.0f}"))


def _tick(seconds: float, _: int) -> str:
    if HOUR_S <= seconds < 2 * HOUR_S:  # a tick reads better in hours than 60 min and 90 min
        return f"{seconds / HOUR_S:g} h"
    return show_duration(seconds)
