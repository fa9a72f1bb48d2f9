"""The picture of a forecast: the past days and the next hours of the largest series."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from gpuplan.analysis.forecast.demand import time_of_hour
from gpuplan.analysis.forecast.forecast import DemandForecast
from gpuplan.cli.figures.style import COLOURS, INK, SOFT, light_grid, new_figure, styled
from gpuplan.cli.figures.time_axis import date_ticks

MOST_SERIES = 5
PAST_H = 72


@styled
def draw_forecast(forecast: DemandForecast) -> Figure:
    """Draw the largest series below each other, each with its bounds."""
    demand = forecast.demand
    order = np.argsort(-demand.gpus.mean(axis=1), kind="stable")[:MOST_SERIES].tolist()
    figure = new_figure(
        rows=(1.0,) * len(order), height_in=max(3.0, 0.8 + 1.7 * len(order)), share_x=True
    )
    for axes, at in zip(figure.axes, order, strict=True):
        _draw(axes, forecast, at)
    figure.axes[0].legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=4)
    if not demand.has_calendar:
        figure.axes[-1].set_xlabel("hour")
    return figure


def _draw(axes: Axes, forecast: DemandForecast, at: int) -> None:
    demand, steps = forecast.demand, forecast.split.steps
    past = min(PAST_H, demand.hours)
    end = demand.first_hour + demand.hours
    time = _times(np.arange(end - past, end + steps), demand.has_calendar)
    elapsed, coming = time[:past], time[past - 1 :]
    last = demand.gpus[at, -1]
    p50, p90, p95 = (np.concatenate(([last], forecast.bounds[level, :, at])) for level in range(3))
    mean = np.concatenate(([last], forecast.mean[:, at]))
    colour = COLOURS["blue"]
    axes.set_title(f"{demand.names[at]} ({forecast.chosen[at]})")
    axes.set_ylabel("GPUs")
    axes.plot(elapsed, demand.gpus[at, -past:], color=INK, linewidth=1.2)
    axes.fill_between(coming, p50, p95, color=colour, alpha=0.2, linewidth=0, label="95% below")
    axes.fill_between(coming, p50, p90, color=colour, alpha=0.35, linewidth=0, label="90%")
    axes.plot(coming, p50, color=colour, linewidth=1, linestyle=(0, (3, 2)), label="50%")
    axes.plot(coming, mean, color=COLOURS["orange"], linewidth=1.4, label="expected")
    axes.axvline(time[past - 1], color=SOFT, linewidth=0.8)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    light_grid(axes)
    axes.title.set(fontsize=10)
    if demand.has_calendar:
        date_ticks(axes)


def _times(hours: Any, has_calendar: bool) -> Any:
    """Return the ends of hours as dates, or their numbers."""
    if not has_calendar:
        return hours
    return [time_of_hour(int(hour)) + timedelta(minutes=30) for hour in hours]
