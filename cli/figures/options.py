"""Options of a site: what each costs a month against the waits that it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from gpuplan.cli.figures.style import COLOURS, INK, new_figure, on_paper, styled
from gpuplan.planner.site.options import MET, MISSED
from gpuplan.planner.sizing.targets import MEAN

if TYPE_CHECKING:
    from gpuplan.planner.site.options import OptionsResults
    from gpuplan.planner.sizing.targets import Target

HOUR_S = 3600.0
NAME_SHARE = 0.35
"""Room for names beside the most expensive option, of the range of dollars."""
LABEL_SHARE = 0.055
"""Height of a label, of that of the picture."""


@styled
def draw_options(results: OptionsResults, targets: Sequence[Target]) -> Figure:
    """Draw dollars a month against the wait that the target is on (P95 without one)."""
    target = targets[0] if targets else None
    is_mean = target is not None and target.statistic == MEAN
    figure = new_figure(height_in=4.2)
    colours = {MET: COLOURS["green"], MISSED: COLOURS["orange"]}
    axes = figure.axes[0]
    points = []
    if results.today is not None:
        today = results.today
        wait = today.mean_wait_s if is_mean else today.p95_wait_s
        points.append(("today", 0.0, wait, 0.0, INK))
    for option in results.options:
        if option.waits is None:
            continue
        waits = option.waits
        wait, error = (
            (waits.mean_wait_s, waits.error_s) if is_mean else (waits.p95_wait_s, waits.p95_error_s)
        )
        colour = colours.get(option.target or "", COLOURS["blue"])
        points.append((option.name, option.usd_per_month, wait, error, colour))
    for _, usd, wait, error, colour in points:
        axes.errorbar(usd, wait / HOUR_S, yerr=error / HOUR_S, fmt="o", capsize=3, color=colour)
    top = max((wait + error for _, _, wait, error, _ in points), default=HOUR_S) / HOUR_S
    heights = _spread_out([wait / HOUR_S for _, _, wait, _, _ in points], LABEL_SHARE * top)
    for (name, usd, _, _, colour), height in zip(points, heights, strict=True):
        axes.annotate(
            name, (usd, height), xytext=(8, 0), textcoords="offset points", va="center",
            color=on_paper(colour), fontsize="small",
        )  # fmt: skip
    if target is not None:
        axes.axhline(target.limit / HOUR_S, color=INK, linewidth=0.9, linestyle="--")
        axes.annotate(
            target.text, (1, target.limit / HOUR_S), xycoords=("axes fraction", "data"),
            xytext=(-4, 4), textcoords="offset points", fontsize="small", ha="right",
        )  # fmt: skip
    axes.set_ylim(bottom=0)
    usds = [usd for _, usd, *_ in points] or [0.0]
    span = (max(usds) - min(usds)) or max(abs(usds[0]), 1.0)
    axes.set_xlim(min(usds) - 0.06 * span, max(usds) + NAME_SHARE * span)
    axes.xaxis.set_major_formatter(FuncFormatter(_dollars))
    axes.set_xlabel("dollars a month more than today")
    axes.set_ylabel(f"{'mean' if is_mean else 'P95'} wait, h; bars: error")
    axes.set_title("Options: cost and waits")
    return figure


def _spread_out(heights: Sequence[float], gap: float) -> list[float]:
    """Return heights in the same order, moved up so that no two are closer than a gap."""
    moved, last = list(heights), float("-inf")
    for i in sorted(range(len(moved)), key=lambda i: moved[i]):
        moved[i] = last = max(moved[i], last + gap)
    return moved


def _dollars(usd: float, _place: int | None = None) -> str:
    return f"{'-' if usd < 0 else ''}${abs(usd):,.0f}"
