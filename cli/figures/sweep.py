"""The picture of ``gpuplan sweep``: cost against mean completion time, one point per replay."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from gpuplan.cli.figures.labels import place_labels
from gpuplan.cli.figures.style import COLOURS, INK, SOFT, new_figure
from gpuplan.cli.units import show_duration, show_threshold, show_usd
from gpuplan.planner.allpass.sweep import Sweep

MANY = 16  # of more points only those that matter are named
UNITS = ((172_800.0, 86_400.0, "days"), (7200.0, 3600.0, "hours"), (120.0, 60.0, "minutes"))


def draw_sweep(found: Sweep) -> Figure:
    """Draw every replay, join the non-dominated ones, name the knee and the recommended one."""
    figure = new_figure()
    axes = figure.axes[0]
    size, unit = _unit(max(point.mean_jct_s for point in found.points))
    at = [(point.mean_jct_s / size, point.cost_usd) for point in found.points]
    front = [at[index] for index in found.non_dominated]
    axes.plot(*zip(*front, strict=True), color=COLOURS["sky"], linewidth=1.4, zorder=2)
    for index, (point, place) in enumerate(zip(found.points, at, strict=True)):
        best = index in found.non_dominated
        adaptive = point.policy == "adaptive"
        colour = COLOURS["green"] if adaptive else COLOURS["blue"] if best else SOFT
        axes.plot(*place, "s" if adaptive else "o", color=colour, markersize=7, zorder=4)
    axes.plot(
        *at[found.recommended],
        "o",
        markersize=15,
        markerfacecolor="none",
        markeredgecolor=COLOURS["orange"],
        markeredgewidth=1.8,
        zorder=5,
    )
    if found.knee is not None:
        axes.plot(*at[found.knee], "D", color=COLOURS["purple"], markersize=7, zorder=5)
    axes.margins(0.14)
    _dress(axes, found, unit)
    order = sorted(range(len(at)), key=lambda index: _weight(found, index))
    place_labels(
        axes,
        [at[index] for index in order],
        [_label(found, index) for index in order],
        [_colour(found, index) for index in order],
        front,
    )
    return figure


def _unit(seconds: float) -> tuple[float, str]:
    return next(((size, unit) for least, size, unit in UNITS if seconds >= least), (1.0, "seconds"))


def _weight(found: Sweep, index: int) -> tuple[bool, bool, int]:
    """Sort key: the points that matter are labelled first and get the best places."""
    return (index != found.recommended, index != found.knee, index)


def _label(found: Sweep, index: int) -> str:
    point = found.points[index]
    roles = ["recommended"] if index == found.recommended else []
    roles += ["knee"] if index == found.knee else []
    plain = point.policy == "fixed" and index not in found.non_dominated
    if len(found.points) > MANY and plain and not roles:
        return ""
    name = "adaptive" if point.policy == "adaptive" else show_threshold(point.threshold_s)
    return f"{name} ({', '.join(roles)})" if roles else name


def _colour(found: Sweep, index: int) -> str:
    if index == found.recommended:
        return COLOURS["orange"]
    return INK if index in found.non_dominated else "#6e7781"


def _dress(axes: Axes, found: Sweep, unit: str) -> None:
    everything = found.reference
    axes.set_xlabel(f"mean job completion time ({unit})")
    axes.set_ylabel("cost of the whole trace (US dollars)")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda usd, _: show_usd(usd)))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.grid(axis="y", color=SOFT, alpha=0.25, linewidth=0.6)
    axes.set_title(
        "What each serverless threshold costs (lower left is better)\n",
        loc="left",
        fontsize=11,
        fontweight="bold",
    )
    axes.text(
        0,
        1.02,
        "Grey: another point is no worse in both and better in one. All serverless: "
        f"{show_usd(everything.cost_usd)}, {show_duration(everything.mean_jct_s)}.",
        transform=axes.transAxes,
        fontsize=9,
        color=INK,
        va="bottom",
    )
