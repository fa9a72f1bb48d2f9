"""The picture of a forecast of spend: what each month cost and will cost, by who pays."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gpuplan.analysis.base.arrays import IntArray
from gpuplan.cli.figures.bill import CYCLE, LONGEST_NAME
from gpuplan.cli.figures.style import (
    COLOURS,
    INK,
    SOFT,
    dollar_axis,
    light_grid,
    new_figure,
    styled,
)
from gpuplan.planner.money.bill import IDLE
from gpuplan.planner.money.spend.results import SpendResults

MOST_PAST = 12
"""Months of the log that are drawn."""
MOST_NAMED = 6
SMALL = 0.01
"""Labels under this share of all dollars are one part."""
FORECAST_ALPHA = 0.55


@styled
def draw_spend(results: SpendResults) -> Figure:
    """Return one bar per month, stacked by label; the months ahead are lighter, with intervals."""
    past = [month for month in results.history if not month.is_partial][-MOST_PAST:]
    paid = [{part.name: part.usd for part in month.groups} for month in past]
    ahead = [
        {row.label: row.usd for row in results.months if row.month == total.month}
        for total in results.totals
    ]
    names = [*(month.name for month in past), *(total.month for total in results.totals)]
    figure = new_figure(height_in=4.2)
    (axes,) = figure.axes
    axes.set_title(f"What months cost, and the next {len(ahead)}, by {results.by}")
    places, below = np.arange(len(names)), np.zeros(len(names))
    for name, shade, usd in _series([*paid, *ahead]):
        values = np.array(usd)
        for part, alpha, label in (
            (slice(0, len(past)), 1.0, f"{name[:LONGEST_NAME]} "),
            (slice(len(past), None), FORECAST_ALPHA, ""),
        ):
            axes.bar(
                places[part],
                values[part],
                bottom=below[part],
                width=0.72,
                color=shade,
                alpha=alpha * (0.35 if name == IDLE else 1.0),
                linewidth=0,
                label=label,
            )
        below += values
    _draw_intervals(axes, results, places[len(past) :])
    axes.axvline(len(past) - 0.5, color=SOFT, linewidth=0.8, linestyle=(0, (3, 2)))
    axes.set_xticks(places, names)
    if len(names) > 6:
        axes.tick_params(axis="x", labelrotation=45)
    axes.set_xlim(-0.6, max(len(names), 3) - 0.4)
    dollar_axis(axes, "y", 5)
    axes.set_ylabel("US dollars")
    axes.set_xlabel("month; lighter: forecast")
    light_grid(axes)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside right upper")
    return figure


def _series(months: list[dict[str, float]]) -> list[tuple[str, str, list[float]]]:
    """Return name, color and dollars of each part of the bars, from below."""
    sums: dict[str, float] = {}
    for month in months:
        for name, usd in month.items():
            sums[name] = sums.get(name, 0.0) + usd
    held = sorted((name for name in sums if name != IDLE), key=lambda name: (-sums[name], name))
    large = [name for name in held if sums[name] >= SMALL * sum(sums.values())]
    named = large[:MOST_NAMED] if len(held) > len(large) + 1 else held[:MOST_NAMED]
    rest = held[len(named) :]
    series = [
        (name, COLOURS[shade], [month.get(name, 0.0) for month in months])
        for name, shade in zip(named, CYCLE, strict=False)
    ]
    if rest:
        rest_usd = [sum(month.get(name, 0.0) for name in rest) for month in months]
        series.append((f"{len(rest):,} more", SOFT, rest_usd))
    if IDLE in sums:
        series.append((IDLE, SOFT, [month.get(IDLE, 0.0) for month in months]))
    return series


def _draw_intervals(axes: Axes, results: SpendResults, places: IntArray) -> None:
    usd = np.array([total.usd for total in results.totals])
    low = np.array([total.low for total in results.totals])
    high = np.array([total.high for total in results.totals])
    axes.errorbar(
        places,
        usd,
        yerr=np.stack([usd - low, high - usd]),
        fmt="o",
        markersize=4,
        color=INK,
        elinewidth=1.2,
        capsize=4,
        label=f"total, {results.level:.0%} interval",
    )
