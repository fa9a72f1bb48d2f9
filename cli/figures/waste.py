"""The picture of waste: GPUs that did nothing over time, while others waited or none did."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from gpuplan.analysis.characterize.clock import in_zone
from gpuplan.cli.figures.style import COLOURS, SOFT, light_grid, new_figure, styled
from gpuplan.cli.figures.time_axis import date_number, show_dates
from gpuplan.cli.formats.waste_text import KIND_WORDS

if TYPE_CHECKING:
    from gpuplan.planner.studies.waste_results import WasteResults
    from gpuplan.planner.waste.clock import WasteClock

DAY_H = 24.0


@styled
def draw_waste(results: WasteResults) -> Figure:
    """Return the GPUs that did nothing over time; by kind where no wait is known."""
    figure = new_figure(height_in=4.2)
    if results.clock is None:
        _by_kind(figure, results)
    else:
        _over_time(figure, results.clock, results.zone)
    return figure


def _over_time(figure: Figure, clock: WasteClock, zone: str) -> None:
    (axes,) = figure.axes
    axes.set_title("GPUs that did nothing")
    starts = (in_zone(datetime.fromisoformat(row.start), zone) for row in clock.timeline)
    days = np.array([date_number(start.replace(tzinfo=UTC)) for start in starts])
    hours = float(days[1] - days[0]) * DAY_H if days.size > 1 else 1.0
    waited = np.array([row.waited_gpu_h for row in clock.timeline]) / hours
    free = np.array([row.free_gpu_h for row in clock.timeline]) / hours
    below = np.zeros(days.size)
    for name, shade, gpus in (
        ("while others waited ", COLOURS["orange"], waited),
        ("while none waited ", SOFT, free),
    ):
        axes.bar(
            days, gpus, bottom=below, width=hours / DAY_H, align="edge", color=shade,
            linewidth=0, label=name,
        )  # fmt: skip
        below += gpus
    show_dates(axes, zone)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("idle GPUs that jobs held, on average")
    light_grid(axes)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside right upper")


def _by_kind(figure: Figure, results: WasteResults) -> None:
    (axes,) = figure.axes
    axes.set_title("GPU-hours by kind of waste")
    kinds = results.kinds[::-1]
    axes.barh([KIND_WORDS[kind.name] for kind in kinds], [kind.gpu_h for kind in kinds],
              color=COLOURS["orange"])  # fmt: skip
    axes.set_xlabel("GPU-hours")
    light_grid(axes)
