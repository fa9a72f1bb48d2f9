"""The picture of waits: hours waited over time, stacked by reason."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from gpuplan.analysis.characterize.clock import in_zone
from gpuplan.analysis.waits.spells import NO_ROOM, ROOM
from gpuplan.cli.figures.style import COLOURS, SOFT, light_grid, new_figure, styled
from gpuplan.cli.figures.time_axis import date_number, show_dates

if TYPE_CHECKING:
    from gpuplan.planner.studies.waits import WaitsResults

SHADES = {NO_ROOM: "blue", ROOM: "orange"}
CYCLE = ("green", "purple", "yellow", "sky", "wine")
"""Colors of the reasons that a log names."""
DAY_H = 24.0


@styled
def draw_waits(results: WaitsResults) -> Figure:
    """Return the number of jobs that wait over time, stacked by reason, most hours first."""
    bins = results.timeline
    starts = (in_zone(datetime.fromisoformat(row.start), results.zone) for row in bins)
    days = np.array([date_number(start.replace(tzinfo=UTC)) for start in starts])
    hours = float(days[1] - days[0]) * DAY_H if len(bins) > 1 else 1.0
    series: list[tuple[str, str, np.ndarray]] = []
    rest = iter(CYCLE)
    rest_waiting: list[np.ndarray] = []
    for reason in results.summary.reasons:
        if reason.wait_h <= 0:
            continue
        waiting = np.array([row.wait_h.get(reason.name, 0.0) for row in bins]) / hours
        shade = SHADES.get(reason.name) or next(rest, None)
        if shade is None:
            rest_waiting.append(waiting)
        else:
            series.append((reason.name, COLOURS[shade], waiting))
    if rest_waiting:
        series.append((f"{len(rest_waiting):,} more", SOFT, np.sum(rest_waiting, axis=0)))
    figure = new_figure(height_in=4.2)
    (axes,) = figure.axes
    axes.set_title("Jobs that wait, by reason")
    below = np.zeros(len(bins))
    for name, shade, waiting in series:
        axes.bar(
            days, waiting, bottom=below, width=hours / DAY_H, align="edge", color=shade,
            linewidth=0, label=f"{name} ",
        )  # fmt: skip
        below += waiting
    show_dates(axes, results.zone)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("jobs waiting, on average")
    light_grid(axes)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside right upper")
    return figure
