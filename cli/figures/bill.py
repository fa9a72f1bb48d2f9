"""The picture of a bill: what each month cost, stacked by who pays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from gpuplan.cli.figures.style import COLOURS, SOFT, dollar_axis, light_grid, new_figure, styled

if TYPE_CHECKING:
    from gpuplan.planner.money.bill_results import BillResults

CYCLE = ("blue", "orange", "green", "purple", "yellow", "sky", "wine")
MOST_NAMED = len(CYCLE)
MOST_TICKS = 14
LONGEST_NAME = 28


@styled
def draw_bill(results: BillResults) -> Figure:
    """Return one bar per month of the log, stacked by group; the rest and idle GPUs are gray."""
    months = results.months
    idle = results.groups[-1].name if _has_idle(results) else None
    held = [group.name for group in results.groups if group.name != idle]
    named, rest = held[:MOST_NAMED], held[MOST_NAMED:]
    paid = [{part.name: part.usd for part in month.groups} for month in months]
    series = [(name, [month.get(name, 0.0) for month in paid]) for name in named]
    if rest:
        rest_usd = [sum(month.get(name, 0.0) for name in rest) for month in paid]
        series.append((f"{len(rest):,} more", rest_usd))
    if idle is not None:
        series.append((idle, [month.get(idle, 0.0) for month in paid]))
    figure = new_figure(height_in=4.2)
    (axes,) = figure.axes
    axes.set_title(f"What each month cost, by {results.by}")
    places = np.arange(len(months))
    below = np.zeros(len(months))
    for place, (name, usd) in enumerate(series):
        is_idle = name == idle
        shade = COLOURS[CYCLE[place]] if place < len(named) else SOFT
        axes.bar(
            places,
            usd,
            bottom=below,
            width=0.72,
            color=shade,
            alpha=0.35 if is_idle else 1.0,
            linewidth=0,
            label=f"{name[:LONGEST_NAME]} ",  # a name that begins with _ has a label too
        )
        below += np.array(usd)
    step = max(1, -(-len(months) // MOST_TICKS))
    names = [f"{month.name}{'' if not month.is_partial else '*'}" for month in months]
    axes.set_xticks(places[::step], names[::step], rotation=0)
    if len(months) > 6:
        axes.tick_params(axis="x", labelrotation=45)
    room = max(0.6, (3 - len(months)) / 2 + 0.6)  # bars of few months are no wider
    axes.set_xlim(-room, len(months) - 1 + room)
    dollar_axis(axes, "y", 5)
    axes.set_ylabel("dollars")
    is_whole = not any(month.is_partial for month in months)
    axes.set_xlabel("month" if is_whole else "month (* part of a month)")
    light_grid(axes)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside right upper")
    return figure


def _has_idle(results: BillResults) -> bool:
    last = results.groups[-1]
    return results.cluster_gpus is not None and last.jobs == 0
