"""The picture of a price history: price bands beside availability."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from numpy.typing import NDArray

from gpuplan.analysis.prices.bands import Band
from gpuplan.cli.figures.style import CYCLE, INK, SETTINGS, new_figure

MAX_LINES = len(CYCLE)
HOUR = np.timedelta64(3600, "s")
RATIO_FOR_LOG = 8.0


def draw_prices(bands: Sequence[Band]) -> Figure:
    """Return prices over time with the band P25-P75, beside what is available where that is known.

    The longest histories are drawn, `MAX_LINES` of them; the title tells how many are left out.
    """
    drawn = sorted(bands[:MAX_LINES], key=lambda band: -float(band.median[-1]))
    rest = len(bands) - len(drawn)
    supply = any(band.available is not None or band.sources.max() > 1 for band in drawn)
    figure = new_figure(2, width_in=10.5, height_in=4.4) if supply else new_figure()
    with matplotlib.rc_context(SETTINGS):
        left = figure.axes[0]
        left.set_title("Price" + (f" ({rest} shorter histories left out)" if rest else ""))
        left.set_ylabel("US dollars per GPU-hour, median and P25-P75")
        _bands(left, drawn)
        if supply:
            _supply(figure.axes[1], drawn)
        kinds = {band.kind for band in drawn}
        names = [
            band.gpu_type if len(kinds) == 1 else f"{band.gpu_type} {band.kind.replace('_', '-')}"
            for band in drawn
        ]
        handles = left.get_lines()[: len(drawn)]
        figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 4))
    return figure


def _bands(axes: Axes, drawn: Sequence[Band]) -> None:
    for colour, band in zip(CYCLE, drawn, strict=False):
        times, (middle,) = _with_gaps(band, band.median)
        axes.plot(times, middle, color=colour, linewidth=1.4)
    for colour, band in zip(CYCLE, drawn, strict=False):
        times, (low, high) = _with_gaps(band, band.p25, band.p75)
        axes.fill_between(times, low, high, color=colour, alpha=0.18, linewidth=0)
    low, high = min(b.p25.min() for b in drawn), max(b.p75.max() for b in drawn)
    if high > RATIO_FOR_LOG * low:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=0)
    _dates(axes)


def _supply(axes: Axes, drawn: Sequence[Band]) -> None:
    recorded = [band.available is not None for band in drawn]
    axes.set_title("Availability" if any(recorded) else "Providers with a price")
    axes.set_ylabel("available, all providers" if any(recorded) else "providers")
    for colour, band in zip(CYCLE, drawn, strict=False):
        level = band.available if any(recorded) else band.sources
        if level is not None:
            times, (shown,) = _with_gaps(band, level)
            axes.plot(times, shown, color=colour, linewidth=1.4, drawstyle="steps-post")
    axes.set_ylim(bottom=0)
    _dates(axes)


def _with_gaps(
    band: Band, *levels: NDArray[np.float64]
) -> tuple[NDArray[np.datetime64], list[NDArray[np.float64]]]:
    """Return times and levels with a break wherever bins are missing."""
    at = np.flatnonzero(np.diff(band.start_h) > 1.5 * band.bin_h) + 1
    times = np.insert(band.start_h, at, band.start_h[at - 1] + band.bin_h)
    return _times(times), [np.insert(level.astype(np.float64), at, np.nan) for level in levels]


def _times(hours: NDArray[np.float64]) -> NDArray[np.datetime64]:
    return np.datetime64(0, "s") + hours.astype(np.int64) * HOUR


def _dates(axes: Axes) -> None:
    locator = AutoDateLocator(minticks=3, maxticks=8)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axes.xaxis.get_offset_text().set_color(INK)
