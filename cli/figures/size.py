"""The picture of a size: waits against the bill of a month, and commitments, today marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.cli.figures.cdf import nothing
from gpuplan.cli.figures.commitment import draw_commitment
from gpuplan.cli.figures.labels import place_labels
from gpuplan.cli.figures.style import (
    COLOURS,
    INK,
    SETTINGS,
    SOFT,
    dollar_axis,
    light_grid,
    new_figure,
    on_paper,
)
from gpuplan.cli.formats.units import show_duration

if TYPE_CHECKING:
    from gpuplan.planner.studies.size import CommitmentLine
    from gpuplan.planner.studies.size_results import SizePoint, SizePool, SizeResults

LINES = (
    ("p99_wait_s", "P99 wait", "sky"),
    ("p95_wait_s", "P95 wait", "blue"),
    ("mean_wait_s", "mean wait", "green"),
)
MOST_PANELS = 3
ZERO_S = 1.0
"""Waits below a second are drawn at the bottom of the axis."""


def draw_size(results: SizeResults, lines: Sequence[CommitmentLine] = ()) -> Figure:
    """Return a panel per GPU type: waits at each size against what the size costs a month.

    Below them is one per type with a commitment: dollars by GPUs committed.
    """
    pools = results.pools[:MOST_PANELS] if results.points or not lines else ()
    count = len(pools) + len(lines)
    figure = new_figure(height_in=3.6 * count + 0.6, rows=(1.0,) * count)
    plans = [pool.commitment for pool in results.pools if pool.commitment is not None]
    with matplotlib.rc_context(SETTINGS):
        for axes, pool in zip(figure.axes, pools, strict=False):
            points = [
                point
                for point in results.points
                if point.gpu_type == (pool.name if len(results.pools) > 1 else None)
            ]
            _draw(axes, points, pool, results)
        for axes, line, plan in zip(figure.axes[len(pools) :], lines, plans, strict=True):
            draw_commitment(axes, line, plan, is_one=len(lines) == 1)
    return figure


def _draw(axes: Axes, points: list[SizePoint], pool: SizePool, results: SizeResults) -> None:
    of = "" if len(results.pools) == 1 else f", {pool.name}"
    axes.set_title(f"Waits against cost by cluster size, under {results.policy}{of}")
    if not points:
        nothing(axes, "no sizes: add --target or --gpus")
        return
    usd = [point.usd_per_month for point in points]
    for key, name, shade in LINES:
        waits = [max(getattr(point, key), ZERO_S) for point in points]
        axes.plot(usd, waits, color=COLOURS[shade], marker="o", markersize=4, label=name)
    axes.set_yscale("log")
    most = max(max(point.p99_wait_s for point in points), pool.today.p95_wait_s or 0, 60.0)
    axes.set_ylim(ZERO_S * 0.8, most * 2)
    ticks = [s for s in (1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400) if s <= most * 2]
    axes.set_yticks(ticks, [_tick(s) for s in ticks], minor=False)
    axes.minorticks_off()
    dollar_axis(axes, "x", 6)
    axes.fmt_ydata = show_duration
    axes.set_xlabel("US dollars per month, busy or not")
    axes.set_ylabel("wait (1 s or less at the bottom)")
    light_grid(axes)
    axes.legend(loc="lower left")
    _marks(axes, points, pool)


def _tick(seconds: float) -> str:
    return "1 s or less" if seconds == 1 else show_duration(seconds)


def _marks(axes: Axes, points: list[SizePoint], pool: SizePool) -> None:
    """Mark the size found and today's."""
    marks, texts, shades = [], [], []
    for point in points:
        if point.gpus == pool.gpus:
            at = (point.usd_per_month, max(point.p95_wait_s, ZERO_S))
            axes.plot(*at, marker="D", markersize=9, color=COLOURS["blue"], zorder=5)
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
        axes.plot(*at, marker="*", markersize=13, color=COLOURS["orange"], zorder=5)
        name += ", P95 wait as recorded"
    marks.append(at)
    texts.append(name)
    shades.append(INK if wait is None else on_paper(COLOURS["orange"]))
    others = [(point.usd_per_month, max(point.p95_wait_s, ZERO_S)) for point in points]
    place_labels(axes, marks, texts, shades, others)
