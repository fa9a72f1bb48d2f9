"""How well the models follow the data: survival functions on two logarithmic axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator

from gpuplan.cli.figures.cdf import nothing, tick_durations
from gpuplan.cli.figures.style import COLOURS, INK, SOFT
from gpuplan.cli.formats.model_names import model_name
from gpuplan.cli.formats.units import show_duration

if TYPE_CHECKING:
    from gpuplan.analysis.fits.models import Fits

SHOWN = 4
CYCLE = ("orange", "blue", "green", "purple")


def draw_fits(axes: Axes, fits: Fits) -> None:
    """Draw the share of positive durations above each value, and the best models."""
    axes.set_title("How the models follow the tail")
    if fits.curve_s is None or fits.survival is None:
        nothing(axes, "no fit")
        return
    x = fits.curve_s
    seen = fits.survival > 0  # no job is above the longest
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(x[0], x[-1])
    axes.set_ylim(0.5 / fits.values, 1.5)
    tick_durations(axes, x[0], x[-1])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}%"))
    axes.set_xlabel("duration")
    axes.set_ylabel("jobs that run longer")
    axes.plot(x[seen], fits.survival[seen], color=INK, linewidth=4, alpha=0.3, label="jobs")
    for fit, colour in zip(fits.fits[:SHOWN], CYCLE, strict=False):
        positive = fit.survival > 0
        first = fit is fits.best
        axes.plot(
            x[positive],
            fit.survival[positive],
            color=COLOURS[colour],
            linewidth=2.0 if first else 1.2,
            label=model_name(fit.model.name),
        )
    name = fits.best.model.name if fits.best is not None else ""
    if fits.tail is not None and name.endswith("pareto"):
        at = fits.tail.threshold_s
        axes.axvline(at, color=SOFT, linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(
            f"tail from {show_duration(at)}",
            (at, 1),
            xycoords=("data", "axes fraction"),
            xytext=(4, -4),
            textcoords="offset points",
            va="top",
            fontsize=9,
            color=INK,
        )
    axes.legend(loc="lower left")
