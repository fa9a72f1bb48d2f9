"""When a job would start: the distribution of its start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from gpuplan.cli.figures.style import COLOURS, INK, new_figure, styled
from gpuplan.cli.formats.units import show_duration

if TYPE_CHECKING:
    from gpuplan.planner.site.eta import EtaResults

HOUR_S = 3600.0


@styled
def draw_eta(results: EtaResults) -> Figure:
    """Draw the share of the replays in which the job started, by hours after its submission."""
    waits = np.sort(results.waits) / HOUR_S
    share = np.arange(1, waits.size + 1) / waits.size
    end = results.p90_s if results.p90_s is not None else 28 * 24 * HOUR_S
    last = max(float(end) / HOUR_S * 1.25, 1.0)
    figure = new_figure(height_in=3.6)
    axes = figure.axes[0]
    if results.p10_s is not None:
        axes.axvspan(
            results.p10_s / HOUR_S, float(end) / HOUR_S, color=COLOURS["sky"], alpha=0.25,
            linewidth=0,
        )  # fmt: skip
    axes.step([0, *waits, last], [0, *share, share[-1]], where="post", color=COLOURS["blue"])
    if results.p50_s is not None:
        axes.axvline(results.p50_s / HOUR_S, color=INK, linewidth=0.8)
        axes.annotate(
            f"P50 {show_duration(results.p50_s, 2)}", (results.p50_s / HOUR_S, 0.04),
            xytext=(5, 0), textcoords="offset points", color=INK, fontsize=9,
        )  # fmt: skip
    axes.set_xlim(0, last)
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    axes.set_xlabel("hours after the submission; shaded: 80% interval")
    axes.set_ylabel("started by then")
    axes.set_title(f"When a {results.job.gpus}-GPU job starts, {results.place} "
                   f"{results.job.partition}")  # fmt: skip
    return figure
