"""The picture of ``gpuplan sweep``: dollars a month against mean completion time, by replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from gpuplan.cli.figures.labels import place_labels
from gpuplan.cli.figures.palette import look_of
from gpuplan.cli.figures.style import COLOURS, INK, PAPER, SOFT, light_grid, new_figure, styled
from gpuplan.cli.formats.units import show_threshold, show_usd, tick_usd
from gpuplan.planner.runs.ties import non_dominated
from gpuplan.planner.sweep.recommendation import Case
from gpuplan.planner.sweep.reference_policy import ReferenceRun
from gpuplan.planner.sweep.scenario import SweepPoint
from gpuplan.planner.sweep.sweep import Sweep

LONGEST = 32  # longer names of today would not fit below the picture
MANY = 16  # of more points only those that matter are named
WIDE = 5  # times and bills that differ by more are on a logarithmic axis
LOG = ", log scale"
PANELS = 3  # more price ratios would be too small to read
UNITS = ((172_800.0, 86_400.0, "days"), (7200.0, 3600.0, "hours"), (120.0, 60.0, "minutes"))
EVERYTHING = "everything serverless"
RENTED = "all on rented workers"
AGAINST = "against"
LOOK = {
    "fixed": look_of("fixed-threshold"),
    "adaptive": look_of("allpass"),
    EVERYTHING: look_of("serverless-only"),
    RENTED: look_of("serverful-only"),
}
MARKS = ("o", "s", "^", "v", "P", "X")  # one per capacity
MARKED: dict[str, Any] = {
    "marker": "s",
    "markersize": 12,
    "markerfacecolor": "none",
    "markeredgecolor": COLOURS["purple"],
    "markeredgewidth": 2,
}
RING: dict[str, Any] = MARKED | {
    "marker": "o",
    "markersize": 15,
    "markeredgecolor": COLOURS["yellow"],
}
KNEE: dict[str, Any] = MARKED | {
    "marker": "D",
    "markersize": 13,
    "markeredgecolor": INK,
    "markeredgewidth": 1,
}
ALONE = {EVERYTHING: "*", AGAINST: "p", RENTED: "d"}
Place = tuple[float, float]


def draw_sweep(sweep: Sweep, marked_s: float | None = None) -> Figure:
    """Draw every replay, everything serverless and everything rented, in dollars a month.

    There is one panel per price ratio, up to three. Fixed thresholds, the adaptive one, everything
    serverless and everything on rented workers have the colours of these policies, and each
    capacity a mark of its own. A line joins the points that are not dominated at their
    prices, which have filled marks. A ring is around the recommended one, also where that is no
    threshold. Of several values of time the first is marked. The reference
    set against, today, has a mark of its own and is neither on the line nor beneath it. A square is
    around every point at the fixed threshold that is marked, in seconds. Where the length of the
    log is not known, dollars are those of the whole log.
    """
    shown = _first_cases(sweep)[:PANELS]
    figure = new_figure(rows=(1.0,) * len(shown), height_in=0.9 + 4.0 * len(shown))
    every = [_point(sweep, index) for index in range(_count(sweep))]
    size, unit = _unit(max(point.mean_jct_s for point in every))
    month = sweep.usd_per_month(1.0) or 1.0
    at = [(point.mean_jct_s / size, point.cost_usd * month) for point in every]
    for axes, case in zip(figure.axes, shown, strict=True):
        _panel(axes, sweep, case, at)
        for index in _indices(sweep, case):
            if index < len(sweep.points) and sweep.points[index].is_fixed_at(marked_s):
                axes.plot(*at[index], linestyle="", zorder=5, **MARKED)
        axes.margins(0.16 if len(_capacities(sweep)) == 1 else 0.22)  # longer names
        axes.fmt_ydata = show_usd
        light_grid(axes)
    _scale(figure, sweep, shown, at, unit)
    _write_title(figure, shown)
    _write_legend(figure, sweep, marked_s)
    for axes, case in zip(figure.axes, shown, strict=True):
        _label_points(axes, sweep, case, at)
    return figure


def ratios_without_panel(sweep: Sweep) -> list[float]:
    """Return the price ratios that do not fit in the picture."""
    return [case.price_ratio for case in _first_cases(sweep)[PANELS:]]


def _first_cases(sweep: Sweep) -> list[Case]:
    """Return the first case of each price ratio."""
    return list({case.price_ratio: case for case in reversed(sweep.cases)}.values())[::-1]


def _scale(
    figure: Figure, sweep: Sweep, shown: Sequence[Case], at: Sequence[Place], unit: str
) -> None:
    """Scale and name the axes, equal in all panels; only the bill of today may differ widely."""
    places = [[at[index] for index in _indices(sweep, case)] for case in shown]
    far_x, far_y = (
        any(_span_is_wide([x[axis] for x in some]) for some in places) for axis in (0, 1)
    )
    far_y = far_y and sweep.against is not None
    for axes in figure.axes:
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
        for far, axis, set_scale in (
            (far_x, axes.xaxis, axes.set_xscale),
            (far_y, axes.yaxis, axes.set_yscale),
        ):
            if far:
                set_scale("log")
                axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                axis.set_minor_formatter(NullFormatter())
        if far_x:
            axes.xaxis.set_major_formatter(FuncFormatter(lambda time, _: f"{time:g}"))
        axes.yaxis.set_major_formatter(FuncFormatter(tick_usd))
        axes.set_ylim(bottom=max(axes.get_ylim()[0], 0.0))
        axes.set_xlim(left=max(axes.get_xlim()[0], 0.0))
        usd = "dollars of the whole log" if sweep.usd_per_month(1.0) is None else "dollars a month"
        axes.set_ylabel(f"cost ({usd}{LOG if far_y else ''})")
    figure.axes[-1].set_xlabel(f"mean job completion time ({unit}{LOG if far_x else ''})")


def _span_is_wide(values: Sequence[float]) -> bool:
    return max(values) > WIDE * min(values) > 0


def _panel(axes: Axes, sweep: Sweep, case: Case, at: Sequence[Place]) -> None:
    best = _front(sweep, case)
    axes.plot(*zip(*(at[index] for index in best), strict=True), color=SOFT, lw=1.2, zorder=2)
    for index in _indices(sweep, case):
        colour = _colour(sweep, index)
        axes.plot(
            *at[index],
            _mark(sweep, index),
            markeredgecolor=colour,
            markerfacecolor=colour if index in best or _rule(sweep, index) == AGAINST else PAPER,
            markersize=7,
            clip_on=False,  # a bill of 0 is at the edge
            zorder=4,
            label=_name(sweep, index),
        )
    axes.plot(*at[_recommended(sweep, case)], linestyle="", zorder=5, **RING)
    if case.knee is not None:
        axes.plot(*at[case.knee], linestyle="", zorder=5, **KNEE)


def _indices(sweep: Sweep, case: Case) -> list[int]:
    """Return the points at the prices of the case, in the order of the sweep, and the others.

    Everything serverless is the one behind the last point, today the one behind that, and
    everything rented at each price ratio behind these.
    """
    runs = [*sweep.points, *(None for _ in range(_first_rented(sweep) - len(sweep.points)))]
    runs += sweep.all_rented
    return [i for i, run in enumerate(runs) if run is None or run.price_ratio == case.price_ratio]


def _first_rented(sweep: Sweep) -> int:
    return len(sweep.points) + 1 + (sweep.against is not None)


def _count(sweep: Sweep) -> int:
    return _first_rented(sweep) + len(sweep.all_rented)


def _front(sweep: Sweep, case: Case) -> list[int]:
    """Return what neither another point nor the reference dominates, the cheapest first."""
    indices = [index for index in _indices(sweep, case) if _rule(sweep, index) != AGAINST]
    some = [_point(sweep, index) for index in indices]
    front = non_dominated(
        np.array([point.cost_usd for point in some]), np.array([point.mean_jct_s for point in some])
    )
    return [indices[place] for place in front]


def _point(sweep: Sweep, index: int) -> SweepPoint | ReferenceRun:
    if index < len(sweep.points):
        return sweep.points[index]
    if index >= _first_rented(sweep):
        return sweep.all_rented[index - _first_rented(sweep)]
    return sweep.reference if sweep.against is None or index == len(sweep.points) else sweep.against


def _recommended(sweep: Sweep, case: Case) -> int:
    """Return the choice of the case: a threshold, everything serverless or everything rented."""
    if case.rented is not None:
        rented = case.rented.point
        return next(i for i in _indices(sweep, case) if _point(sweep, i) is rented)
    return _best(sweep, case)


def _best(sweep: Sweep, case: Case) -> int:
    return len(sweep.points) if case.best is None else case.best


def _capacities(sweep: Sweep) -> list[int | None]:
    return list(dict.fromkeys(point.capacity for point in sweep.points))


def _rule(sweep: Sweep, index: int) -> str:
    if index < len(sweep.points):
        return sweep.points[index].policy
    if index >= _first_rented(sweep):
        return RENTED
    return EVERYTHING if index == len(sweep.points) else AGAINST


def _colour(sweep: Sweep, index: int) -> str:
    point = _point(sweep, index)
    look = look_of(point.policy) if isinstance(point, ReferenceRun) else LOOK[_rule(sweep, index)]
    return look.colour


def _mark(sweep: Sweep, index: int) -> str:
    if index >= len(sweep.points):
        return ALONE[_rule(sweep, index)]
    return MARKS[_capacities(sweep).index(sweep.points[index].capacity) % len(MARKS)]


def _unit(seconds: float) -> tuple[float, str]:
    return next(((size, unit) for least, size, unit in UNITS if seconds >= least), (1.0, "seconds"))


def _label_points(axes: Axes, sweep: Sweep, case: Case, at: Sequence[Place]) -> None:
    """Label the points, the important ones first; of many only these, and the front if it fits."""
    front, indices = _front(sweep, case), _indices(sweep, case)
    order = sorted(
        indices,
        key=lambda index: (
            index != _recommended(sweep, case),
            index != _best(sweep, case),
            index != case.knee,
            index < len(sweep.points),
            _rule(sweep, index) == "fixed",
            index not in front,
        ),
    )
    texts, named = [], set()
    for index in order:  # of several at one place the first is named
        place = tuple(f"{value:.3g}" for value in at[index])
        texts.append("" if place in named else _label(sweep, case, index, front))
        named.add(place)
    line = [at[index] for index in front]
    roles = {_recommended(sweep, case), _best(sweep, case), case.knee}
    roles.update(range(len(sweep.points), _count(sweep)))
    place_labels(
        axes,
        [at[index] for index in order],
        texts,
        [INK] * len(order),
        line,
        needed=sum(index in roles for index in order),
    )


def _label(sweep: Sweep, case: Case, index: int, front: Sequence[int]) -> str:
    """Return the label of a point, with its capacity if the front has several."""
    several, replayed = len(_capacities(sweep)) > 1, index < len(sweep.points)
    is_tied = sweep.verdict is not None and sweep.verdict.tied and case is sweep.cases[0]
    choice = "recommended, others cost the same" if is_tied and not case.rented else "recommended"
    remarks = [choice] if index == _recommended(sweep, case) else []
    if case.rented is not None and index == case.best:
        remarks.append("best threshold")
    remarks += ["best trade-off"] if index == case.knee else []
    matters = remarks or not replayed or index in front
    if not matters and (several or len(sweep.points) > MANY):
        return ""
    fronts = {sweep.points[place].capacity for place in front if place < len(sweep.points)}
    if several and replayed and (remarks or len(fronts) > 1):
        remarks.insert(0, _capacity(sweep.points[index].capacity))
    name = _name(sweep, index)
    return f"{name} ({', '.join(remarks)})" if remarks else name


def _name(sweep: Sweep, index: int) -> str:
    rule = _rule(sweep, index)
    return show_threshold(sweep.points[index].threshold_s) if rule == "fixed" else rule


def _capacity(workers: int | None) -> str:
    if workers is None:
        return "no limit"
    return "1 worker" if workers == 1 else f"{workers:,} workers"


@styled
def _write_legend(figure: Figure, sweep: Sweep, marked_s: float | None) -> None:
    """Explain colors and marks below the panels."""
    rules = list(dict.fromkeys(point.policy for point in sweep.points))
    dot: dict[str, Any] = {"linestyle": "", "markersize": 7}
    swatches = [
        Line2D([], [], marker="o", color=LOOK[rule].colour, label=rule, **dot) for rule in rules
    ]
    alone = {_rule(sweep, index): index for index in range(len(sweep.points), _count(sweep))}
    for rule, index in alone.items():
        name = rule
        if sweep.against is not None and rule == AGAINST:
            full = sweep.against.label
            name = f"{AGAINST}: {full if len(full) <= LONGEST else sweep.against.policy}"
        swatches.append(
            Line2D([], [], marker=ALONE[rule], color=_colour(sweep, index), label=name, **dot)
        )
    swatches.append(Line2D([], [], label="recommended", linestyle="", **RING | {"markersize": 9}))
    if marked_s is not None:
        name = f"marked: {show_threshold(marked_s)}"
        swatches.append(Line2D([], [], label=name, linestyle="", **MARKED | {"markersize": 9}))
    capacities = _capacities(sweep)
    if len(capacities) > 1:
        dot |= {"color": SOFT, "markerfacecolor": PAPER}
        swatches += [
            Line2D([], [], marker=MARKS[place % len(MARKS)], label=_capacity(most), **dot)
            for place, most in enumerate(capacities)
        ]
    rows = 1 if len(swatches) <= 6 else 2
    figure.legend(
        handles=swatches,
        loc="outside lower left",
        ncols=-(-len(swatches) // rows),
        columnspacing=1.5,
        handletextpad=0.1,
    )


def _write_title(figure: Figure, shown: Sequence[Case]) -> None:
    title = "What each serverless threshold costs (lower left is better)"
    hollow = "Hollow points are dominated; the line is the efficient frontier."
    figure.suptitle(f"{title}\n", x=0.01, ha="left", color=INK, fontsize=11, fontweight="bold")
    below = 1 - 0.31 / figure.get_figheight()  # under the first line, whatever the height
    figure.text(0.01, below, hollow, fontsize=9, color=INK, va="top")
    if len(shown) > 1:
        for panel, case in zip(figure.axes, shown, strict=True):
            panel.set_title(f"price ratio {case.price_ratio:g}", loc="left", fontsize=10)
