"""The picture of ``gpuplan sweep``: cost against mean completion time, one point per replay."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from gpuplan.cli.figures.labels import place_labels
from gpuplan.cli.figures.style import COLOURS, INK, PAPER, SOFT, new_figure
from gpuplan.cli.units import show_duration, show_threshold, show_usd
from gpuplan.planner.allpass.choice import Case
from gpuplan.planner.allpass.sweep import Sweep

MANY = 16  # of more points only those that matter are named
PANELS = 3  # more price ratios would be too small to read
UNITS = ((172_800.0, 86_400.0, "days"), (7200.0, 3600.0, "hours"), (120.0, 60.0, "minutes"))
LINES = tuple(COLOURS[name] for name in ("blue", "green", "purple", "sky", "yellow"))
"""Of the capacities, in turn; orange is for the recommended point."""
Place = tuple[float, float]


def draw_sweep(found: Sweep) -> Figure:
    """Draw every replay, thresholds joined per capacity; one panel per price ratio, up to three.

    Of several values of time the first is marked. Full marks are not dominated at their prices.
    """
    shown = list({case.price_ratio: case for case in reversed(found.cases)}.values())[::-1]
    shown = shown[:PANELS]
    figure = new_figure(len(shown), width_in=8.0 + 3.5 * (len(shown) - 1))
    size, unit = _unit(max(point.mean_jct_s for point in found.points))
    at = [(point.mean_jct_s / size, point.cost_usd) for point in found.points]
    for axes, case in zip(figure.axes, shown, strict=True):
        _panel(axes, found, case, at)
        axes.margins(0.14 if len(_lines(found, case)) == 1 else 0.22)  # names of lines are longer
        axes.set_xlabel(f"mean job completion time ({unit})")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda usd, _: show_usd(usd)))
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
        axes.grid(axis="y", color=SOFT, alpha=0.25, linewidth=0.6)
    figure.axes[0].set_ylabel("cost of the whole trace (US dollars)")
    _write_title(figure, found, shown)
    for axes, case in zip(figure.axes, shown, strict=True):
        _label_points(axes, found, case, at)
    return figure


def _panel(axes: Axes, found: Sweep, case: Case, at: Sequence[Place]) -> None:
    for colour, indices in zip(_colours(found), _lines(found, case), strict=True):
        fixed = [at[index] for index in indices if found.points[index].policy == "fixed"]
        if len(fixed) > 1:
            axes.plot(*zip(*fixed, strict=True), color=colour, linewidth=1.4, zorder=2)
        for index in indices:
            axes.plot(
                *at[index],
                "s" if found.points[index].policy == "adaptive" else "o",
                markeredgecolor=colour,
                markerfacecolor=colour if index in case.non_dominated else PAPER,
                markersize=7,
                zorder=4,
            )
    ring: dict[str, Any] = {"markerfacecolor": "none", "linestyle": "", "zorder": 5}
    axes.plot(
        *at[case.recommended],
        marker="o",
        markersize=15,
        markeredgecolor=COLOURS["orange"],
        markeredgewidth=2,
        **ring,
    )
    if case.knee is not None:
        axes.plot(*at[case.knee], marker="D", markersize=13, markeredgecolor=INK, **ring)


def _lines(found: Sweep, case: Case) -> list[list[int]]:
    """Return the points of each capacity at the prices of the case, in the order of the sweep."""
    lines: dict[int | None, list[int]] = {}
    for index, point in enumerate(found.points):
        if point.price_ratio == case.price_ratio:
            lines.setdefault(point.capacity, []).append(index)
    return list(lines.values())


def _colours(found: Sweep) -> list[str]:
    capacities = list(dict.fromkeys(point.capacity for point in found.points))
    return [LINES[place % len(LINES)] for place in range(len(capacities))]


def _unit(seconds: float) -> tuple[float, str]:
    return next(((size, unit) for least, size, unit in UNITS if seconds >= least), (1.0, "seconds"))


def _label_points(axes: Axes, found: Sweep, case: Case, at: Sequence[Place]) -> None:
    """Name the points; of several lines only what matters, and each line's capacity once."""
    lines = _lines(found, case)
    named = _loneliest(lines, at) if len(lines) > 1 else set()
    order = sorted(
        (index for line in lines for index in line),
        key=lambda index: (index != case.recommended, index != case.knee, index not in named),
    )
    drawn: list[Place] = []
    for line in lines:
        fixed = [at[index] for index in line if found.points[index].policy == "fixed"]
        drawn += [*fixed, (math.nan, math.nan)]
    place_labels(
        axes,
        [at[index] for index in order],
        [
            _label(found, case, index, several=len(lines) > 1, named=index in named)
            for index in order
        ],
        [INK] * len(order),
        drawn,
    )


def _loneliest(lines: Sequence[Sequence[int]], at: Sequence[Place]) -> set[int]:
    """Return the point of each line that is farthest from all others, where a name is clear."""
    places = np.array([at[index] for line in lines for index in line])
    size = np.maximum(np.ptp(places, axis=0), 1e-12)

    def room(line: Sequence[int], index: int) -> float:
        others = [at[other] for rest in lines if rest is not line for other in rest]
        return float(np.hypot(*((np.array(others) - at[index]) / size).T).min())

    return {max(line, key=lambda index: room(line, index)) for line in lines}


def _label(found: Sweep, case: Case, index: int, *, several: bool, named: bool) -> str:
    point = found.points[index]
    roles = ["recommended"] if index == case.recommended else []
    roles += ["knee"] if index == case.knee else []
    if named:
        roles.insert(0, "no limit" if point.capacity is None else f"{point.capacity:,} workers")
    matters = point.policy == "adaptive" or index in case.non_dominated
    if not roles and (several or (len(found.points) > MANY and not matters)):
        return ""
    name = "adaptive" if point.policy == "adaptive" else show_threshold(point.threshold_s)
    return f"{name} ({', '.join(roles)})" if roles else name


def _write_title(figure: Figure, found: Sweep, shown: Sequence[Case]) -> None:
    title = "What each serverless threshold costs (lower left is better)"
    hollow = (
        "Hollow: another point is no worse in both and better in one. All serverless: "
        f"{show_usd(found.reference.cost_usd)}, {show_duration(found.reference.mean_jct_s)}."
    )
    bold: dict[str, Any] = {"fontsize": 11, "fontweight": "bold"}
    axes = figure.axes[0]
    if len(shown) == 1:
        axes.set_title(f"{title}\n", loc="left", **bold)
        axes.text(0, 1.02, hollow, transform=axes.transAxes, fontsize=9, color=INK, va="bottom")
        return
    # Above several panels, as a text over the first would widen it.
    figure.suptitle(f"{title}\n", x=0.01, ha="left", color=INK, **bold)
    figure.text(0.01, 0.93, hollow, fontsize=9, color=INK, va="top")
    for panel, case in zip(figure.axes, shown, strict=True):
        panel.set_title(f"price ratio {case.price_ratio:g}", loc="left", fontsize=10)
