"""The picture of a price history: price bands next to availability, or either alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import num2date
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter
from numpy.typing import NDArray

from gpuplan.analysis.prices.bands import PriceBand
from gpuplan.cli.figures.style import CYCLE, new_figure, styled
from gpuplan.cli.figures.time_axis import date_ticks, name_dates

MAX_LINES = 6
"""More colors cannot be told apart."""
HOUR = np.timedelta64(3600, "s")
RATIO_FOR_LOG = 8.0
SHORT_DAYS = 5  # of a shorter history the ticks are hours


@styled
def draw_prices(bands: Sequence[PriceBand]) -> Figure:
    """Return prices over time with the band P25-P75, next to the availability if known.

    Without any prices the availability is drawn alone.

    The `MAX_LINES` longest histories are drawn; the title has the number of the others.
    """
    drawn = sorted(bands[:MAX_LINES], key=_last_price, reverse=True)
    rest = len(bands) - len(drawn)
    prices = any(band.has_prices for band in drawn)
    supply = any(band.available is not None or band.sources.max() > 1 for band in drawn)
    figure = new_figure(2, width_in=10.5, height_in=4.4) if prices and supply else new_figure()
    left = figure.axes[0]
    if prices:
        left.set_ylabel("$/GPU-h, median and P25-P75")
        left.set_title("Price")
        _bands(left, drawn)
    if supply:
        right = figure.axes[-1]
        _supply(right, drawn)
        spans = (left.get_xlim(), right.get_xlim())
        left.set_xlim(min(low for low, _ in spans), max(high for _, high in spans))
        right.set_xlim(left.get_xlim())
    if rest:
        left.set_title(f"{left.get_title(loc='left')} ({rest} shorter histories left out)")
    kinds = {band.kind for band in drawn}
    names = [
        band.gpu_type if len(kinds) == 1 else f"{band.gpu_type} {band.kind.replace('_', '-')}"
        for band in drawn
    ]
    handles = [
        Line2D([], [], color=colour, linewidth=1.4) for colour, _ in zip(CYCLE, drawn, strict=False)
    ]
    figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 4))
    return figure


def _last_price(band: PriceBand) -> float:
    prices = band.median[np.isfinite(band.median)]
    return float(prices[-1]) if prices.size else 0.0


def _bands(axes: Axes, drawn: Sequence[PriceBand]) -> None:
    for colour, band in zip(CYCLE, drawn, strict=False):
        times, (middle,) = _with_gaps(band, band.median)
        axes.plot(times, middle, color=colour, linewidth=1.4)
    for colour, band in zip(CYCLE, drawn, strict=False):
        times, (low, high) = _with_gaps(band, band.p25, band.p75)
        axes.fill_between(times, low, high, color=colour, alpha=0.18, linewidth=0)
    priced = [band for band in drawn if band.has_prices]
    lowest = min(float(np.nanmin(band.p25)) for band in priced)
    highest = max(float(np.nanmax(band.p75)) for band in priced)
    if highest > RATIO_FOR_LOG * lowest:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=0)
    _dates(axes)


def _supply(axes: Axes, drawn: Sequence[PriceBand]) -> None:
    recorded = [band.available is not None for band in drawn]
    axes.set_title("Availability" if any(recorded) else "Providers with a price")
    axes.set_ylabel("GPUs available, all providers" if any(recorded) else "providers")
    for colour, band in zip(CYCLE, drawn, strict=False):
        level = band.available if any(recorded) else band.sources
        if level is not None:
            times, (shown,) = _with_gaps(band, level)
            times = np.append(times, times[-1] + band.bin_h * HOUR)  # a step as wide as its bin
            shown = np.append(shown, shown[-1])
            axes.plot(times, shown, color=colour, linewidth=1.4, drawstyle="steps-post")
    axes.set_ylim(bottom=0)
    _dates(axes)


def _with_gaps(
    band: PriceBand, *levels: NDArray[np.float64]
) -> tuple[NDArray[np.datetime64], list[NDArray[np.float64]]]:
    """Return times and levels with a gap where bins are missing."""
    at = np.flatnonzero(np.diff(band.start_h) > 1.5 * band.bin_h) + 1
    times = np.insert(band.start_h, at, band.start_h[at - 1] + band.bin_h)
    return _times(times), [np.insert(level.astype(np.float64), at, np.nan) for level in levels]


def _times(hours: NDArray[np.float64]) -> NDArray[np.datetime64]:
    return np.datetime64(0, "s") + hours.astype(np.int64) * HOUR


def _dates(axes: Axes) -> None:
    date_ticks(axes, has_offset=False)
    first, last = (num2date(at) for at in axes.get_xlim())  # type: ignore[no-untyped-call]
    name_dates(axes, first, last, "%Y-%m-%d" if (last - first).days < SHORT_DAYS else "%Y")
