"""The picture of a workload: durations, inequality, load, and the models of durations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib
from matplotlib.figure import Figure

from gpuplan.analysis.characterize import Characterization
from gpuplan.cli.figures.cdf import draw_cdf
from gpuplan.cli.figures.fits import draw_fits
from gpuplan.cli.figures.load import draw_load
from gpuplan.cli.figures.lorenz import draw_lorenz
from gpuplan.cli.figures.style import SETTINGS, new_figure

if TYPE_CHECKING:
    from gpuplan.analysis.fits.models import TraceFits


def draw_workload(result: Characterization, fits: TraceFits | None = None) -> Figure:
    """Return panels: distribution of durations, Lorenz curve, GPUs held over time, and any fits.

    Of a trace without durations one panel says so.
    """
    if not result.cdf and not result.load.timeline:
        figure = new_figure(1, width_in=6.0, height_in=4.2)
        with matplotlib.rc_context(SETTINGS):
            draw_cdf(figure.axes[0], result.cdf, result.duration)
        return figure
    figure = new_figure(width_in=10.0, height_in=7.8)
    figure.clear()
    with matplotlib.rc_context(SETTINGS):
        last = "load" if fits is None else "fits"
        panels = figure.subplot_mosaic([["cdf", "lorenz"], ["load", last]])
        draw_cdf(panels["cdf"], result.cdf, result.duration)
        draw_lorenz(panels["lorenz"], result.gpu_time)
        draw_load(panels["load"], result.load, result.span_s)
        if fits is not None:
            draw_fits(panels["fits"], fits.duration)
    return figure
