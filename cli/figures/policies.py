"""Several policies in one picture: how soon jobs are done, and what it costs."""

from __future__ import annotations

from collections import Counter

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from gpuplan.cli.figures.cdf import nothing, tick_durations
from gpuplan.cli.figures.labels import place_labels
from gpuplan.cli.figures.palette import Look, look_of
from gpuplan.cli.figures.style import INK, SETTINGS, SOFT, new_figure
from gpuplan.cli.units import show_duration, show_usd
from gpuplan.planner.compare import Comparison
from gpuplan.simkit.workload import FloatArray

LEVELS = np.linspace(0, 1, 201)  # shares of jobs at which curves are drawn
NAMED = (LEVELS >= 0.08) & (LEVELS <= 0.97)  # where a curve's name may stand


def draw_policies(found: Comparison) -> Figure:
    """Return two panels: share of jobs done up to each completion time, and cost, by policy."""
    seen: Counter[str] = Counter()
    looks = []
    for one in found.outcomes:
        looks.append(look_of(one.policy, seen[one.policy]))
        seen[one.policy] += 1
    rows = len(found.outcomes)
    figure = new_figure(2, width_in=10.0, height_in=max(4.2, 1.4 + 0.34 * rows))
    with matplotlib.rc_context(SETTINGS):
        _costs(figure.axes[1], found, looks)
        _completion(figure.axes[0], found, looks)
    return figure


def _completion(axes: Axes, found: Comparison, looks: list[Look]) -> None:
    axes.set_title("How soon jobs are done")
    axes.set_ylabel("jobs done within this time")
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    axes.set_ylim(0, 1.02)
    least = min(one.jct_s[one.jct_s > 0].min(initial=np.inf) for one in found.outcomes)
    most = max(one.jct_s[-1] for one in found.outcomes)
    if not np.isfinite(least):
        nothing(axes, "every job is done at once")
        return
    low, high = (least, most) if least < most else (least / 10, most * 10)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    tick_durations(axes, low, high)
    axes.set_xlabel("completion time, from submission to finish")
    axes.grid(axis="y", color=SOFT, alpha=0.25, linewidth=0.6)
    curves = [np.maximum(_quantiles(one.jct_s), low) for one in found.outcomes]
    for curve, look in zip(curves, looks, strict=True):
        axes.step(curve, LEVELS, where="post", **look.line())
    named = _apart(curves)
    dots = [(x, y) for curve in curves for x, y in zip(curve[::8], LEVELS[::8], strict=True)]
    place_labels(
        axes,
        [*named, *dots],
        [*(one.label for one in found.outcomes), *("" for _ in dots)],
        [*(look.colour for look in looks), *(INK for _ in dots)],
    )


def _quantiles(ascending: FloatArray) -> FloatArray:
    """Return the time by which each of `LEVELS` of the jobs is done."""
    at = np.ceil(LEVELS * ascending.size).astype(np.int64) - 1
    found: FloatArray = ascending[np.maximum(at, 0)]
    return found


def _apart(curves: list[FloatArray]) -> list[tuple[float, float]]:
    """Return for each curve the point for its name: far from other curves and from other names."""
    times = np.log(np.array(curves))
    taken: list[float] = []
    points = []
    for index, curve in enumerate(curves):
        gap = np.abs(times - times[index])
        gap[index] = np.inf
        alone = np.minimum(gap.min(axis=0), 0.5)  # in time, by a factor of 1.6 at most
        clear = np.min([np.abs(LEVELS - level) for level in taken] or [np.ones(1)], axis=0)
        worth = np.where(NAMED, 4 * alone + 2 * np.minimum(clear, 0.12), -1.0)
        level = int(np.argmax(worth))
        taken.append(float(LEVELS[level]))
        points.append((float(curve[level]), float(LEVELS[level])))
    return points


def _costs(axes: Axes, found: Comparison, looks: list[Look]) -> None:
    axes.set_title("What it costs")
    costs = [one.results["cost_usd"] for one in found.outcomes]
    places = range(len(costs))
    axes.barh(places, costs, color=[look.colour for look in looks], height=0.62)
    for place, one, cost in zip(places, found.outcomes, costs, strict=True):
        axes.annotate(
            f"{show_usd(cost)}, mean {show_duration(one.results['mean_jct_s'])}",
            (cost, place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=INK,
        )
    axes.set_yticks(list(places), [one.label for one in found.outcomes])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.45 * max(costs) or 1)  # leaves room for the longest bar's text
    axes.xaxis.set_major_formatter(FuncFormatter(lambda usd, _: show_usd(usd) if usd else "$0"))
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    axes.set_xlabel("cost of the whole trace (US dollars)")
