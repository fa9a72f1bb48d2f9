"""The picture of a size: waits against the bill of a month, and commitments, today marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.cli.figures.cdf import write_reason
from gpuplan.cli.figures.commitment import draw_commitment, draw_commitments
from gpuplan.cli.figures.labels import place_labels
from gpuplan.cli.figures.style import (
    COLOURS,
    INK,
    SOFT,
    dollar_axis,
    light_grid,
    new_figure,
    on_paper,
    styled,
)
from gpuplan.cli.formats.units import show_duration

if TYPE_CHECKING:
    from gpuplan.planner.studies.size_results import (
        CommitmentLine,
        SizePoint,
        SizePool,
        SizeResults,
    )

LINES = (
    ("p99_wait_s", "P99 wait", "sky"),
    ("p95_wait_s", "P95 wait", "blue"),
    ("mean_wait_s", "mean wait", "green"),
)
MOST_PANELS = 8
"""GPU types that are drawn; the title tells how many smaller ones are left out."""
SIZES = (8, 6, 4)
"""Of the markers of `LINES`: of equal waits all can be seen."""
TARGET: dict[str, Any] = {"marker": "D", "color": COLOURS["blue"], "linestyle": ""}
TODAY: dict[str, Any] = {"marker": "*", "color": COLOURS["orange"], "linestyle": ""}
ZERO_S = 1.0
"""Waits below a second are drawn at the bottom of the axis."""


Dots = list[tuple[float, float]]
Labels = tuple[Axes, Dots, list[str], list[str], Dots]
"""Arguments of `place_labels`."""


@styled
def draw_size(results: SizeResults, lines: Sequence[CommitmentLine] = ()) -> Figure:
    """Return a panel per GPU type: waits at each size against what the size costs a month.

    Below them is one per type with a commitment: dollars by GPUs committed.
    """
    plans = [pool.commitment for pool in results.pools if pool.commitment is not None]
    if lines and not results.points:
        return draw_commitments(lines, plans)
    pools = results.pools[:MOST_PANELS]
    panel_in, count = 3.6 if len(pools) == 1 else 2.6, len(pools) + len(lines)
    figure = new_figure(height_in=panel_in * count + 1.0, rows=(1.0,) * count)
    panels = figure.axes[: len(pools)]
    for axes, pool in zip(panels, pools, strict=True):
        points = _points(results, pool)
        _scale(axes, points, pool)
        if len(results.pools) > 1:
            axes.set_title(pool.name, fontsize=10)
    title = f"Waits against cost by cluster size, under {results.policy}"
    if rest := len(results.pools) - len(pools):
        title += f" ({rest:,} more GPU types are in the table)"
    figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=11, fontweight="bold")
    panels[-1].set_xlabel("dollars a month, busy or not")
    _legend(figure, is_sized=any(pool.gpus is not None for pool in pools))
    for axes, line, plan in zip(figure.axes[len(pools) :], lines, plans, strict=True):
        draw_commitment(axes, line, plan, is_one=len(lines) == 1)
    labels = [
        _marks(axes, points, pool)
        for axes, pool in zip(panels, pools, strict=True)
        if (points := _points(results, pool))
    ]
    for place, of_panel in enumerate(labels):
        place_labels(*of_panel, is_laid_out=place > 0)
    return figure


def _points(results: SizeResults, pool: SizePool) -> list[SizePoint]:
    name = pool.name if len(results.pools) > 1 else None
    return [point for point in results.points if point.gpu_type == name]


def _legend(figure: Figure, *, is_sized: bool) -> None:
    """Explain the lines and marks of all panels below them, where they cover nothing."""
    handles = [
        Line2D([], [], color=COLOURS[shade], marker="o", markersize=size, label=name)
        for (_, name, shade), size in zip(LINES, SIZES, strict=True)
    ]
    if is_sized:
        handles.append(Line2D([], [], markersize=7, label="meets the target", **TARGET))
    handles.append(Line2D([], [], markersize=10, label="today", **TODAY))
    figure.legend(handles=handles, loc="outside lower left", ncols=len(handles))


def _waits(points: list[SizePoint], key: str) -> list[float]:
    return [max(getattr(point, key), ZERO_S) for point in points]


def _scale(axes: Axes, points: list[SizePoint], pool: SizePool) -> None:
    """Draw the waits of a GPU type, and scale the axes for good."""
    if not points:
        write_reason(axes, "no sizes: add --target or --gpus")
        return
    usd = [point.usd_per_month for point in points]
    for (key, name, shade), size in zip(LINES, SIZES, strict=True):
        style: dict[str, Any] = {"color": COLOURS[shade], "marker": "o", "markersize": size}
        axes.plot(usd, _waits(points, key), label=name, **style)
    axes.set_yscale("log")
    most = max(max(point.p99_wait_s for point in points), pool.today.p95_wait_s or 0, 60.0)
    every = [wait for key, _, _ in LINES for wait in _waits(points, key)]
    least = max(min(*every, pool.today.p95_wait_s or most), ZERO_S)
    low, high = max(least / 6, ZERO_S * 0.6), most * 3
    axes.set_ylim(low, high)
    ticks = [s for s in (1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400) if low <= s <= high]
    axes.set_yticks(ticks, [_tick(s) for s in ticks], minor=False)
    axes.minorticks_off()
    dollar_axis(axes, "x", 6)
    axes.fmt_ydata = show_duration
    axes.set_ylabel("wait")
    light_grid(axes)


def _tick(seconds: float) -> str:
    return "1 s or less" if seconds == 1 else show_duration(seconds)


def _marks(axes: Axes, points: list[SizePoint], pool: SizePool) -> Labels:
    """Mark the size found and today's; return their labels, which are to cross no line."""
    marks: Dots = []
    texts: list[str] = []
    shades: list[str] = []
    for point in points:
        if point.gpus == pool.gpus:
            at = (point.usd_per_month, max(point.p95_wait_s, ZERO_S))
            axes.plot(*at, markersize=9, zorder=5, **TARGET)
            marks.append(at)
            texts.append(f"{point.gpus:,} GPUs meet the target")
            shades.append(on_paper(COLOURS["blue"]))
    today = pool.today
    gpus = today.cluster_gpus
    is_recorded = gpus is not None
    assert pool.usd_per_gpu_h is not None  # sizes have a price
    usd = (gpus if gpus is not None else today.peak_gpus) * pool.usd_per_gpu_h * MONTH_H
    wait = today.p95_wait_s
    name = f"today: {gpus:,} GPUs" if is_recorded else f"today's peak: {today.peak_gpus:,.0f} GPUs"
    if wait is None:
        axes.axvline(usd, color=SOFT, linewidth=1, linestyle=(0, (4, 3)))
        at = (usd, axes.get_ylim()[1] / 3)
        name += ", waits not recorded"
    else:
        at = (usd, max(wait, ZERO_S))
        axes.plot(*at, markersize=13, zorder=5, **TODAY)
        name += ", P95 wait as recorded"
    marks.append(at)
    texts.append(name)
    shades.append(INK if wait is None else on_paper(COLOURS["orange"]))
    lines: Dots = []
    for key, _, _ in LINES:
        usds = [point.usd_per_month for point in points]
        lines += [(np.nan, np.nan), *zip(usds, _waits(points, key), strict=True)]
    return axes, marks, texts, shades, lines
