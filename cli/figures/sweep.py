"""The picture of ``gpuplan sweep``: cost against mean completion time, one point per replay."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from gpuplan.cli.figures.labels import place_labels
from gpuplan.cli.figures.palette import DASHES, look_of
from gpuplan.cli.figures.style import COLOURS, INK, PAPER, SOFT, new_figure
from gpuplan.cli.units import show_duration, show_threshold, show_usd
from gpuplan.planner.allpass.choice import Case
from gpuplan.planner.allpass.sweep import Sweep

MANY = 16  # of more points only those that matter are named
PANELS = 3  # more price ratios would be too small to read
UNITS = ((172_800.0, 86_400.0, "days"), (7200.0, 3600.0, "hours"), (120.0, 60.0, "minutes"))
FIXED, ADAPTIVE = look_of("fixed"), look_of("allpass")
Place = tuple[float, float]


def draw_sweep(found: Sweep) -> Figure:
    """Draw every replay, thresholds joined per capacity; one panel per price ratio, up to three.

    Circles are fixed thresholds, squares the adaptive one, in the colours of these policies; each
    capacity has a dash of its own. Of several values of time the first is marked. Full marks are
    not dominated at their prices.
    """
    shown = list({case.price_ratio: case for case in reversed(found.cases)}.values())[::-1]
    shown = shown[:PANELS]
    figure = new_figure(rows=(1.0,) * len(shown), height_in=0.5 + 4.0 * len(shown))
    size, unit = _unit(max(point.mean_jct_s for point in found.points))
    at = [(point.mean_jct_s / size, point.cost_usd) for point in found.points]
    for axes, case in zip(figure.axes, shown, strict=True):
        _panel(axes, found, case, at)
        axes.margins(0.14 if len(_lines(found, case)) == 1 else 0.22)  # names of lines are longer
        axes.set_ylabel("cost (US dollars)")
        axes.fmt_ydata = show_usd
        axes.yaxis.set_major_formatter(FuncFormatter(lambda usd, _: f"${usd:,g}"))
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
        axes.grid(axis="y", color=SOFT, alpha=0.25, linewidth=0.6)
    figure.axes[-1].set_xlabel(f"mean job completion time ({unit})")
    _write_title(figure, found, shown)
    for axes, case in zip(figure.axes, shown, strict=True):
        _label_points(axes, found, case, at)
    return figure


def _panel(axes: Axes, found: Sweep, case: Case, at: Sequence[Place]) -> None:
    for place, indices in enumerate(_lines(found, case)):
        fixed = [at[index] for index in indices if found.points[index].policy == "fixed"]
        if len(fixed) > 1:
            axes.plot(*zip(*fixed, strict=True), **_dashed(place), linewidth=1.4, zorder=2)
        for index in indices:
            adaptive = found.points[index].policy == "adaptive"
            colour = (ADAPTIVE if adaptive else FIXED).colour
            axes.plot(
                *at[index],
                "s" if adaptive else "o",
                markeredgecolor=colour,
                markerfacecolor=colour if index in case.non_dominated else PAPER,
                markersize=7,
                zorder=4,
                label=_threshold(found, index),
            )
    ring: dict[str, Any] = {"markerfacecolor": "none", "linestyle": "", "zorder": 5}
    if case.recommended is not None:
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


def _dashed(place: int) -> dict[str, Any]:
    return FIXED._replace(dash=DASHES[place % len(DASHES)]).line()


def _unit(seconds: float) -> tuple[float, str]:
    return next(((size, unit) for least, size, unit in UNITS if seconds >= least), (1.0, "seconds"))


def _label_points(axes: Axes, found: Sweep, case: Case, at: Sequence[Place]) -> None:
    """Name the points; of several lines only what matters, and each line's capacity once."""
    lines = _lines(found, case)
    named = _names_of(found, _loneliest(lines, at), at) if len(lines) > 1 else {}
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
            _label(found, case, index, named.get(index, ""), several=len(lines) > 1)
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


def _names_of(found: Sweep, indices: Iterable[int], at: Sequence[Place]) -> dict[int, str]:
    """Return the capacities of these points; those at one place are named together."""
    places: dict[tuple[str, str], list[int]] = {}
    for index in sorted(indices):
        mean, cost = at[index]
        places.setdefault((f"{mean:.3g}", f"{cost:.3g}"), []).append(index)
    return {
        together[0]: " and ".join(_capacity(found.points[index].capacity) for index in together)
        for together in places.values()
    }


def _threshold(found: Sweep, index: int) -> str:
    point = found.points[index]
    return "adaptive" if point.policy == "adaptive" else show_threshold(point.threshold_s)


def _capacity(workers: int | None) -> str:
    return "no limit" if workers is None else f"{workers:,} workers"


def _label(found: Sweep, case: Case, index: int, named: str, *, several: bool) -> str:
    point = found.points[index]
    roles = ["recommended"] if index == case.recommended else []
    roles += ["knee"] if index == case.knee else []
    if named:
        roles.insert(0, named)
    matters = point.policy == "adaptive" or index in case.non_dominated
    if not roles and (several or (len(found.points) > MANY and not matters)):
        return ""
    name = _threshold(found, index)
    return f"{name} ({', '.join(roles)})" if roles else name


def _write_title(figure: Figure, found: Sweep, shown: Sequence[Case]) -> None:
    title = "What each serverless threshold costs (lower left is better)"
    hollow = (
        "Hollow: another point is no worse in both and better in one. All serverless: "
        f"{show_usd(found.reference.cost_usd)}, {show_duration(found.reference.mean_jct_s)}."
    )
    figure.suptitle(f"{title}\n", x=0.01, ha="left", color=INK, fontsize=11, fontweight="bold")
    below = 1 - 0.31 / figure.get_figheight()  # under the first line, whatever the height
    figure.text(0.01, below, hollow, fontsize=9, color=INK, va="top")
    if len(shown) > 1:
        for panel, case in zip(figure.axes, shown, strict=True):
            panel.set_title(f"price ratio {case.price_ratio:g}", loc="left", fontsize=10)
