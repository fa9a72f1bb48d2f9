"""The picture of a plan: a week of GPUs in use, paid for and rented, and the price of one more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from gpuplan.cli.figures.style import COLOURS, INK, PAPER, SOFT, light_grid, new_figure, styled
from gpuplan.planner.plan.prices_over_time import typical_week
from gpuplan.simkit.arrays import FloatArray

if TYPE_CHECKING:
    from gpuplan.planner.plan.prices_over_time import PricesOverTime

MOST_TYPES = 3
"""GPU types that are drawn; those with the most GPUs in use."""
DAY_S = 86_400.0
LONG_S = 2 * DAY_S
HOUR_S = 3600.0
HEADROOM = 1.25


@styled
def draw_plan(prices: Sequence[PricesOverTime]) -> Figure:
    """Return two panels per GPU type: its GPUs over a usual week, and their hourly price."""
    drawn = sorted(prices, key=lambda row: -float(row.pool_gpus.mean()))[:MOST_TYPES]
    first, last = typical_week(tuple(prices))
    figure = new_figure(
        height_in=0.5 + 4.2 * len(drawn), rows=(1.6, 1.0) * len(drawn), share_x=True
    )
    for place, row in enumerate(drawn):
        gpus_axes, price_axes = figure.axes[2 * place : 2 * place + 2]
        of = f", {row.gpu_type}" if len(prices) > 1 else ""
        time, unit = _times(row, first, last)
        _draw_gpus(gpus_axes, row, time, slice(first, last), of)
        _draw_price(price_axes, row, time, slice(first, last), of)
        for axes in (gpus_axes, price_axes):
            axes.set_xlim(time[0], time[-1])
            light_grid(axes)
    figure.axes[-1].set_xlabel(f"{unit} after the first submission")
    if rest := len(prices) - len(drawn):
        note = f"{rest:,} more GPU types are in the table"
        figure.suptitle(note, x=0.01, ha="left", color=INK, fontsize=11)
    return figure


def _times(row: PricesOverTime, first: int, last: int) -> tuple[FloatArray, str]:
    """Return the edges of the bins on the horizontal axis, and its unit."""
    unit, unit_s = ("days", DAY_S) if (last - first) * row.bin_s > LONG_S else ("hours", HOUR_S)
    edges: FloatArray = np.arange(first, last + 1, dtype=np.float64) * row.bin_s / unit_s
    return edges, unit


def _draw_gpus(axes: Axes, row: PricesOverTime, time: FloatArray, part: slice, of: str) -> None:
    """Draw GPUs in use, those paid for, those rented, and those outside the pool."""
    paid = row.owned_gpus + row.committed_gpus
    pool = _steps(row.pool_gpus[part])
    axes.set_title(f"GPUs in use{of}")
    axes.set_ylabel("GPUs")
    axes.fill_between(
        time, np.minimum(pool, paid), step="post", color=COLOURS["blue"], alpha=0.35, linewidth=0
    )
    if row.on_demand_gpus[part].any():
        axes.fill_between(
            time,
            paid,
            np.maximum(pool, paid),
            step="post",
            color=COLOURS["orange"],
            alpha=0.45,
            linewidth=0,
            label="on demand",
        )
    axes.step(
        time, pool, where="post", color=COLOURS["blue"], linewidth=1.2, label="in use on the pool"
    )
    if paid:
        name = "owned and committed" if row.owned_gpus and row.committed_gpus else "committed"
        name = "owned" if not row.committed_gpus else name
        axes.axhline(paid, color=INK, linewidth=1.2, linestyle="--", label=f"{name}: {paid:,.0f}")
    outside = ((row.spot_gpus, "spot", "green"), (row.serverless_gpus, "containers", "purple"))
    for gpus, name, colour in outside:
        if gpus.any():
            axes.step(
                time,
                _steps(gpus[part]),
                where="post",
                color=COLOURS[colour],
                linewidth=1.2,
                label=name,
            )
    top = max(float(pool.max()), paid, *(float(gpus[part].max()) for gpus, _, _ in outside), 1.0)
    axes.set_ylim(0, HEADROOM * top)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.legend(loc="upper right", ncols=5)


def _draw_price(axes: Axes, row: PricesOverTime, time: FloatArray, part: slice, of: str) -> None:
    """Draw the price of one more GPU in each hour, with the prices of the markets."""
    price = _steps(row.price_usd[part])
    axes.set_title(f"Price of one more GPU for an hour{of}")
    axes.set_ylabel("$ per GPU-hour")
    axes.step(time, price, where="post", color=COLOURS["blue"], linewidth=1.2)
    marks = (("on demand", row.on_demand_usd), ("committed", row.committed_usd))
    top = float(price.max())
    for name, usd in marks:
        if usd is not None:
            axes.axhline(usd, color=SOFT, linewidth=0.8, linestyle=":")
            axes.annotate(
                f"{name} ${usd:,.2f}",
                (1, usd),
                xycoords=("axes fraction", "data"),
                xytext=(-4, 2),
                textcoords="offset points",
                ha="right",
                color=INK,
                fontsize=9,
                bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 0.5},
            )
            top = max(top, usd)
    axes.set_ylim(0, HEADROOM * (top or 1.0))
    axes.yaxis.set_major_locator(MaxNLocator(4))


def _steps(values: FloatArray) -> FloatArray:
    """Return values at the edges of their bins, the last once more."""
    return np.append(values, values[-1])
