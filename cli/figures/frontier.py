"""The picture of ``gpuplan pareto``: mean completion time against GPU budget."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import ArrayLike

from gpuplan.cli.figures.style import COLOURS, INK, SOFT, new_figure
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
    """Draw the whole frontier, the budgets asked for, the knee and the least budget."""
    figure = new_figure()
    axes = figure.axes[0]
    frontier = study.frontier
    asked = [point.plan.budget_gpus for point in study.points]
    end = max(frontier.saturation_budget * 1.03, *asked)
    start = frontier.min_budget
    if study.ends:
        _band(axes, study, end)
    budgets, times = _curve(frontier, end)
    axes.plot(budgets, times, color=COLOURS["blue"], zorder=3)
    _ends(axes, frontier)
    axes.plot(
        asked,
        [point.plan.mean_jct_s for point in study.points],
        "o",
        color=COLOURS["blue"],
        markersize=6,
        markeredgecolor="white",
        zorder=5,
        clip_on=False,
    )
    knee = study.knee
    axes.plot(
        knee.budget_gpus,
        knee.mean_jct_s,
        "D",
        color=COLOURS["orange"],
        markersize=7,
        markeredgecolor="white",
        zorder=6,
    )
    _write(
        axes,
        f"knee: {show_gpus(knee.budget_gpus)} GPUs, {show_duration(knee.mean_jct_s)}",
        (knee.budget_gpus, knee.mean_jct_s),
        (8, 9),
        COLOURS["orange"],
    )
    if len(asked) <= LABELLED:
        for point in study.points:
            at = (point.plan.budget_gpus, point.plan.mean_jct_s)
            beyond = (at[0] - knee.budget_gpus) / (end - start)
            if abs(beyond) > 0.01:  # the label of the knee speaks for a point upon it
                crowded = 0 < beyond < 0.2  # there the label of the knee is in the way
                shift, align = ((-4, -10), "right") if crowded else ((5, 9), "left")
                _write(axes, show_duration(at[1]), at, shift, INK, align=align)
    _scales(axes, study, start, end)
    return figure


def _curve(frontier: Frontier, end: float) -> tuple[np.ndarray, np.ndarray]:
    """Return budgets and times dense enough for a logarithmic axis; flat after saturation."""
    budgets = np.geomspace(frontier.min_budget, max(end, frontier.min_budget), SAMPLES)
    budgets[0] = frontier.min_budget
    return budgets, np.interp(budgets, frontier.budget_gpus, frontier.mean_jct_s)


def _ends(axes: Axes, frontier: Frontier) -> None:
    """Shade the budgets that do not keep up and mark where more GPUs stop helping."""
    axes.axvspan(0, frontier.min_budget, color=SOFT, alpha=0.18, linewidth=0)
    axes.axvline(frontier.min_budget, color=SOFT, linewidth=1)
    axes.annotate(
        f"least budget: {show_gpus(frontier.min_budget)} GPUs",
        (frontier.min_budget, 0.03),
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
    """Shade what the frontier may be over the assumed range of speedups."""
    low, high = study.ends
    start = max(low.min_budget, high.min_budget)
    budgets = np.geomspace(start, max(end, start * 1.001), SAMPLES)
    one, other = (np.interp(budgets, f.budget_gpus, f.mean_jct_s) for f in (low, high))
    axes.fill_between(budgets, one, other, color=COLOURS["sky"], alpha=0.25, linewidth=0)
    names = study.speedup.ends or ()
    for frontier, model in zip(study.ends, names, strict=True):
        x, y = _curve(frontier, end)
        axes.plot(x, y, color=COLOURS["sky"], linewidth=1.0)
        _write(axes, model.name, (x[-1], y[-1]), (-2, 7), COLOURS["blue"], align="right")


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
    )


def _scales(axes: Axes, study: Study, start: float, end: float) -> None:
    """Label both axes, in dollars too where there is a price."""
    axes.set_yscale("log")
    if end / start > WIDE:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda gpus, _: f"{gpus:,g}"))
        axes.set_xlim(start * 0.8, end * 1.05)
    else:
        axes.set_xlim(start - 0.08 * (end - start), end + 0.05 * (end - start))
    low, high = axes.get_ylim()
    coarse, fine = ([t for t in ticks if low <= t <= high] for ticks in (COARSE_S, FINE_S))
    axes.yaxis.set_major_locator(FixedLocator(coarse if len(coarse) > 3 else fine))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(_tick))
    axes.grid(axis="y", color=SOFT, alpha=0.25, linewidth=0.6)
    axes.set_xlabel("GPUs rented on average (grey: cannot keep up with the arrivals)")
    axes.set_ylabel("mean job completion time")
    axes.set_title(
        f"What each GPU budget buys ({study.speedup.name})",
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
        wide = axes.get_xscale() == "log"
        top.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)) if wide else MaxNLocator(6))
        top.xaxis.set_minor_locator(NullLocator())
        top.spines["top"].set_color(SOFT)
        top.tick_params(colors=INK, labelsize=9)
        top.set_xlabel(f"dollars per month at ${price:g} per GPU-hour", color=INK)
        top.xaxis.set_major_formatter(FuncFormatter(lambda usd, _: f"${usd:,.0f}"))


def _tick(seconds: float, _: int) -> str:
    if HOUR_S <= seconds < 2 * HOUR_S:  # a tick reads better in hours than 60 min and 90 min
        return f"{seconds / HOUR_S:g} h"
    return show_duration(seconds)
