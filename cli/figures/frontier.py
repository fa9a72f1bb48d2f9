"""The picture of ``gpuplan pareto``: mean completion time against budget, and GPUs over time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import ArrayLike

from gpuplan.cli.figures.frontier_scene import At, Scene, scene_of, texts_of
from gpuplan.cli.figures.labels import place_labels
from gpuplan.cli.figures.palette import BASELINES, OF_A_PACKAGE
from gpuplan.cli.figures.style import COLOURS, INK, PAPER, SOFT, light_grid, new_figure, on_paper
from gpuplan.cli.figures.time_axis import keep_dates, time_axis
from gpuplan.cli.formats.units import show_duration
from gpuplan.planner.frontier.model.exact import Frontier

if TYPE_CHECKING:
    from gpuplan.planner.frontier.study import FrontierStudy

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
BEYOND = 1.5  # times the slowest plan, where a band without an upper end is cut off


def draw_frontier(study: FrontierStudy, first_submit: datetime | None = None) -> Figure:
    """Draw the frontier in GPUs or dollars, the plans and their replays, baselines and record.

    ``first_submit`` is the time of the first submission, where the log has a calendar.

    A plan is drawn at the GPUs it uses, so one beyond saturation is at the end of the line; replays
    and baselines are drawn at the GPUs they rent.
    """
    return draw_scene(replace(scene_of(study), first_submit=first_submit))


def draw_scene(scene: Scene) -> Figure:
    """Draw a scene; a thin line leads from each plan to its replay."""
    over_time = bool(scene.timeline)
    rows = (3.4, 1.0) if over_time else (1.0,)
    figure = new_figure(height_in=6.0 if over_time else 4.5, rows=rows)
    axes = figure.axes[0]
    frontiers = (scene.frontier, *(end for _, end in scene.ends))
    least = min(f.min_budget for f in frontiers)
    end = max(f.saturation_budget for f in frontiers)
    other_points = [at for _, at in (*scene.replayed, *scene.references)]
    other_points += [at for _, curve in scene.curves for at in curve]
    other_points += [scene.recorded] if scene.recorded is not None else []
    start, most = (
        f([bound, *(x for x, _ in other_points)]) for f, bound in ((min, least), (max, end))
    )
    log = most / start > WIDE
    _range_x(axes, start, most, log=log)
    _grey(axes, scene, least)
    if scene.ends:
        _band(axes, scene, end)
    _line(axes, scene.frontier, end, COLOURS["blue"], 1.8, zorder=3, label="optimum, planned")
    if scene.ribbon:
        x, low, high = np.array(scene.ribbon).T
        high = np.minimum(high, BEYOND * float(scene.frontier.mean_jct_s[0]))
        axes.fill_between(
            x, low, high, color=COLOURS["blue"], alpha=0.15, linewidth=0, label=scene.ribbon_of
        )
    for name, curve in scene.curves:
        colour, marker = BASELINES.get(name, OF_A_PACKAGE)
        x, y = zip(*sorted(curve), strict=True)
        axes.plot(x, y, color=colour, marker=marker, ms=4.5, linewidth=1.0, zorder=4, label=name)
    dot: dict[str, Any] = {"linestyle": "", "clip_on": False}
    if scene.replayed:
        hollow: dict[str, Any] = {
            "markerfacecolor": PAPER,
            "markeredgecolor": COLOURS["blue"],
            "ms": 6,
        }
        for planned, at in scene.replayed:
            axes.plot(*zip(planned, at, strict=True), color=SOFT, linewidth=0.8, zorder=4)
        replayed = [at for _, at in scene.replayed]
        axes.plot(*zip(*replayed, strict=True), "o", **hollow, **dot, zorder=5, label="replayed")
    requested = "your budgets" if scene.by_request else "plans"
    edge = {"markeredgecolor": "white", **dot}
    axes.plot(
        *zip(*scene.points, strict=True), "o", color=COLOURS["blue"], ms=6, zorder=5,
        label=requested, **edge,
    )  # fmt: skip
    axes.plot(
        *scene.knee, marker="D", color=COLOURS["orange"], ms=7, zorder=6, label="_knee", **edge
    )
    if scene.recorded is not None:
        axes.plot(
            *scene.recorded, marker="X", color=INK, ms=8, zorder=6, label="_as recorded", **edge
        )
    for _, at in scene.references:
        axes.plot(*at, marker="*", color=INK, ms=11, zorder=6, label="_known", **edge)
    _scales(axes, scene, log=log)
    if other_points or scene.ribbon:
        axes.legend(loc="upper right", labelcolor=INK, frameon=False)
    if over_time:
        _rented(figure.axes[1], scene)
    _label(axes, scene, [*other_points, *_obstacles(axes, scene, least)], end)
    return figure


def _obstacles(axes: Axes, scene: Scene, least: float) -> list[At]:
    """Return places that labels should leave free: the text of the least budget, and curves."""
    low, high = axes.get_ylim()
    free = [(least, float(y)) for y in np.geomspace(low, high, 30)[:20]]
    for _, curve in scene.curves:
        for (x, y), (to_x, to_y) in pairwise(sorted(curve)):
            free += [(x + t * (to_x - x), y + t * (to_y - y)) for t in (0.25, 0.5, 0.75)]
    return free


def _label(axes: Axes, scene: Scene, other_points: list[At], end: float) -> None:
    """Write the labels of the points, clear of the frontier and of all other points."""
    texts = texts_of(scene, LABELLED)
    low, high = axes.get_xlim()
    span = np.log(high / low) if axes.get_xscale() == "log" else high - low
    at_knee = scene.knee[0]
    speak = (scene.knee, scene.recorded, *(at for _, at in scene.references))
    kept, seen = [], []
    for at, text in texts:
        distance = np.log(at[0] / at_knee) if axes.get_xscale() == "log" else at[0] - at_knee
        if at in speak or abs(distance) > 0.01 * span:
            kept.append((at, text))  # the label of the knee speaks for a point upon it
    seen = [at for at in (*other_points, *scene.points) if at not in [at for at, _ in kept]]
    colours = [on_paper(COLOURS["orange"]) if at == scene.knee else INK for at, _ in kept]
    kept += [((end, float(frontier.mean_jct_s[-1])), name) for name, frontier in scene.ends]
    colours += [on_paper(COLOURS["blue"])] * len(scene.ends)
    budgets, times = scene.frontier.budgets, scene.frontier.mean_jct_s
    x = np.linspace(budgets[0], end, 60)
    line = list(zip(x.tolist(), np.interp(x, budgets, times).tolist(), strict=True))
    for _, curve in scene.curves:
        line += [(np.nan, np.nan), *sorted(curve)]
    for planned, at in scene.replayed:
        line += [(np.nan, np.nan), planned, at]
    place_labels(
        axes,
        [at for at, _ in kept] + seen,
        [text for _, text in kept] + [""] * len(seen),
        colours + [INK] * len(seen),
        line,
    )


def _rented(axes: Axes, scene: Scene) -> None:
    """Draw the rented GPUs over time."""
    hours, mean, peak = zip(*scene.timeline, strict=True)
    at = time_axis(axes, hours, scene.first_submit)
    axes.fill_between(
        at, 0, peak, step="post", color=COLOURS["sky"], alpha=0.35, linewidth=0, label="most"
    )
    axes.step(at, mean, where="post", color=COLOURS["blue"], linewidth=1.0, label="mean")
    axes.set_ylim(0)
    axes.margins(x=0.01)
    keep_dates(axes)
    axes.set_ylabel(scene.timeline_unit)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda gpus, _: f"{gpus:,.0f}"))
    axes.set_title(
        f"{scene.timeline_unit} rented in the replay ({scene.timeline_of})",
        loc="left", fontsize=10, fontweight="bold", parse_math=False,
    )  # fmt: skip
    figure = axes.figure
    assert isinstance(figure, Figure)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(  # below: the title fills the line above
        handles, labels, loc="outside lower right", labelcolor=INK, frameon=False, ncols=2
    )


def _line(
    axes: Axes,
    frontier: Frontier,
    end: float,
    colour: str,
    width: float,
    zorder: int = 2,
    label: str = "",
) -> None:
    """Draw a frontier, and dots over the budgets of which it does not use all."""
    most = frontier.saturation_budget
    x = np.geomspace(frontier.min_budget, most, SAMPLES)
    x[0], x[-1] = frontier.min_budget, most
    y = np.interp(x, frontier.budgets, frontier.mean_jct_s)
    axes.plot(x, y, color=colour, linewidth=width, zorder=zorder, label=label or None)
    if most < end:
        axes.plot((most, end), (y[-1], y[-1]), ":", color=colour, linewidth=width, zorder=zorder)


def _grey(axes: Axes, scene: Scene, least: float) -> None:
    """Shade the budgets below the load."""
    axes.axvspan(0, least, color=SOFT, alpha=0.18, linewidth=0)
    axes.axvline(least, color=SOFT, linewidth=1)
    of = ""
    if scene.ends:
        named = ((scene.name, scene.frontier), *scene.ends)
        of = f" ({min(named, key=lambda pair: pair[1].min_budget)[0]})"
    axes.annotate(
        f"least budget: {scene.show(least)}{of}",
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


def _band(axes: Axes, scene: Scene, end: float) -> None:
    """Shade the range of the mean at each budget over the assumed range of speedups."""
    frontiers = (scene.frontier, *(frontier for _, frontier in scene.ends))
    both = max(f.min_budget for f in frontiers)
    budgets = np.geomspace(both, max(end, both * 1.001), SAMPLES)
    times = [np.interp(budgets, f.budgets, f.mean_jct_s) for f in frontiers]
    low, high = np.min(times, axis=0), np.max(times, axis=0)
    axes.fill_between(budgets, low, high, color=COLOURS["sky"], alpha=0.25, linewidth=0)
    for _, frontier in scene.ends:
        _line(axes, frontier, end, COLOURS["sky"], 1.0)


def _range_x(axes: Axes, start: float, end: float, *, log: bool) -> None:
    """Set the scale of the budgets, with space for the labels at both ends."""
    if log:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda gpus, _: f"{gpus:,g}"))
        axes.set_xlim(start * 0.8, end * 1.05)
    else:
        room = end - start or start
        axes.set_xlim(start - 0.08 * room, end + 0.05 * room)


def _scales(axes: Axes, scene: Scene, *, log: bool) -> None:
    """Label both axes, in dollars too where there is a price."""
    axes.set_yscale("log")
    axes.margins(y=0.1)
    low, high = axes.get_ylim()
    coarse, fine = ([t for t in ticks if low <= t <= high] for ticks in (COARSE_S, FINE_S))
    shown = coarse if len(coarse) > 3 else fine if len(fine) > 2 else _even_ticks(low, high)
    axes.yaxis.set_major_locator(FixedLocator(shown))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(_tick))
    light_grid(axes)
    scale = ", logarithmic" if log else ""
    dots = "; dotted: beyond use" if scene.ends else ""
    axes.set_xlabel(f"{scene.unit}{scale} (grey: cannot keep up with the arrivals{dots})")
    axes.set_ylabel("mean job completion time, logarithmic")
    axes.set_title(scene.title, loc="left", fontsize=11, fontweight="bold")
    month = scene.usd_per_month
    if month is not None:

        def dollars(value: ArrayLike) -> np.ndarray:
            return np.asarray(value) * month

        def gpus(value: ArrayLike) -> np.ndarray:
            return np.asarray(value) / month

        top = axes.secondary_xaxis("top", functions=(dollars, gpus))
        top.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)) if log else MaxNLocator(6))
        top.xaxis.set_minor_locator(NullLocator())
        top.spines["top"].set_color(SOFT)
        top.tick_params(colors=INK, labelsize=9)
        top.set_xlabel("dollars a month", color=INK)
        top.xaxis.set_major_formatter(FuncFormatter(lambda usd, _: f"${usd:,.0f}"))


def _even_ticks(low: float, high: float) -> list[float]:
    """Return times between two that are nearly equal, a round number of their unit apart."""
    size = next(
        size for size in (24 * HOUR_S, HOUR_S, MINUTE_S, 1.0) if high >= 2 * size or size == 1
    )
    steps = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(low / size, high / size)
    return [float(at * size) for at in steps if low <= at * size <= high]


def _tick(seconds: float, _: int) -> str:
    if HOUR_S <= seconds < 2 * HOUR_S:  # a tick reads better in hours than 60 min and 90 min
        return f"{seconds / HOUR_S:g} h"
    return show_duration(seconds)
