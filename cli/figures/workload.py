"""The picture of a workload: durations beside load."""

from __future__ import annotations

import matplotlib
from matplotlib.figure import Figure

from gpuplan.analysis.characterize import Characterization
from gpuplan.cli.figures.cdf import draw_cdf
from gpuplan.cli.figures.load import draw_load
from gpuplan.cli.figures.style import SETTINGS, new_figure


def draw_workload(result: Characterization) -> Figure:
    """Return two panels: the distribution of durations, and GPUs held over time."""
    figure = new_figure(2, width_in=10.0, height_in=4.2)
    with matplotlib.rc_context(SETTINGS):
        durations, held = figure.axes
        draw_cdf(durations, result.cdf, result.duration)
        draw_load(held, result.load, result.span_s)
    return figure
