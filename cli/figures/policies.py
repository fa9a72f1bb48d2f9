"""Several policies in one picture: completion times and cost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter
from numpy.lib.stride_tricks import sliding_window_view

from gpuplan.analysis.base.plain import plain
from gpuplan.cli.figures.cdf import log_ends, tick_durations, write_reason
from gpuplan.cli.figures.labels import place_labels
from gpuplan.cli.figures.palette import KINDS, Look, look_of
from gpuplan.cli.figures.style import (
    INK,
    dollar_axis,
    lay_out,
    light_grid,
    new_figure,
    on_paper,
    styled,
)
from gpuplan.cli.figures.time_lines import draw_lending, lending_outcomes, lending_rows
from gpuplan.cli.formats.units import show_duration, show_usd
from gpuplan.planner.compare import PolicyComparison, PolicyOutcome
from gpuplan.simkit.arrays import FloatArray

LEVELS = np.linspace(0, 1, 201)  # shares of jobs at which curves are drawn
NAMED = (LEVELS >= 0.08) & (LEVELS <= 0.96)  # possible heights of a curve's name
LINE = 22  # letters of a line of a label
ALIKE = 0.08  # a smaller difference of logarithms is invisible
BESIDE = 4  # levels up and down on which a curve must be alone too, as steps may be apart on one
SEEN = 0.05  # curves must differ at this share of the levels to be distinct
RATIOS = tuple(lead * 10.0**power for power in range(-3, 6) for lead in (1, 2, 5))
MOST_RATIOS = 9
LINES = 4  # of the names of curves that look the same


@styled
def draw_policies(comparison: PolicyComparison, first_submit: datetime | None = None) -> Figure:
    """Return panels by policy: share of jobs done up to each completion time, and cost.

    The bars of cost are stacked by the kind of GPUs paid. In between come fairness, where a policy
    measures it, and of policies that lend GPUs the GPUs of both kinds of jobs, the quota and eta
    over time, from ``first_submit`` on.
    """
    seen: Counter[str] = Counter()
    looks = []
    for outcome in comparison.outcomes:
        looks.append(look_of(outcome.policy, seen[outcome.policy]))
        seen[outcome.policy] += 1
    lending = lending_outcomes(comparison.outcomes, looks)
    fair = [i for i, outcome in enumerate(comparison.outcomes) if outcome.ftf is not None]
    rows = (
        4.2,
        *((3.6,) if fair else ()),
        *lending_rows(lending),
        1.5 + 0.3 * len(comparison.outcomes),
    )
    figure = new_figure(height_in=sum(rows), rows=rows)
    if lending:
        draw_lending(figure.axes[1 + bool(fair) : -1], lending, first_submit)
    _costs(figure.axes[-1], comparison, looks)
    _completion(figure.axes[0], comparison, looks)
    if fair:
        _fairness(figure.axes[1], [comparison.outcomes[i] for i in fair], [looks[i] for i in fair])
    return figure


def _completion(axes: Axes, comparison: PolicyComparison, looks: list[Look]) -> None:
    axes.set_title("How soon jobs are done")
    axes.set_ylabel("jobs done within this time")
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    axes.set_ylim(0, 1.02)
    least = min(
        outcome.jct_s[outcome.jct_s > 0].min(initial=np.inf) for outcome in comparison.outcomes
    )
    most = max(outcome.jct_s[-1] for outcome in comparison.outcomes)
    if not np.isfinite(least):
        write_reason(axes, "every job is done at once")
        return
    low, high = log_ends(least, most)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    tick_durations(axes, low, high)
    axes.set_xlabel("completion time, from submission to finish")
    light_grid(axes)
    curves = [np.maximum(_quantiles(outcome.jct_s), low) for outcome in comparison.outcomes]
    _draw_curves(axes, [outcome.label for outcome in comparison.outcomes], curves, looks)


def _fairness(axes: Axes, outcomes: Sequence[PolicyOutcome], looks: list[Look]) -> None:
    """Draw the share of jobs up to each finish-time fairness, with a line at 1."""
    axes.set_title("How fair it is")
    axes.set_ylabel("jobs at or below")
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    axes.set_ylim(0, 1.02)
    curves = [_quantiles(outcome.ftf) for outcome in outcomes if outcome.ftf is not None]
    low = min(0.5, *(curve[0] for curve in curves))
    high = max(2.0, *(curve[-1] for curve in curves))
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    ticks = [ratio for ratio in RATIOS if low <= ratio <= high]
    while len(ticks) > MOST_RATIOS:
        ticks = [
            ratio for ratio in ticks if ratio == 1 or ticks.index(ratio) % 2 == ticks.index(1) % 2
        ]
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.set_xticklabels([f"{ratio:g}" for ratio in ticks])
    axes.set_xlabel("completion time over that on a 1/N share of the cluster (below 1: sooner)")
    light_grid(axes)
    axes.axvline(1.0, color=INK, linewidth=0.8)
    _draw_curves(axes, [outcome.label for outcome in outcomes], curves, looks)


def _draw_curves(
    axes: Axes, labels: Sequence[str], curves: list[FloatArray], looks: list[Look]
) -> None:
    """Draw quantiles at `LEVELS`, each with its name; those that look the same share one."""
    for label, curve, look in zip(labels, curves, looks, strict=True):
        axes.step(curve, LEVELS, where="post", label=label, **look.line())
    groups = _identical_curves(curves)
    named = _name_places([curves[group[0]] for group in groups])
    lines: list[tuple[float, float]] = []
    for curve in curves:
        steps = zip(np.repeat(curve, 2)[1:], np.repeat(LEVELS, 2)[:-1], strict=True)
        lines += [(np.nan, np.nan), *steps]
    place_labels(
        axes,
        named,
        [_name([labels[i] for i in group]) for group in groups],
        [on_paper(looks[group[0]].colour) if len(group) == 1 else INK for group in groups],
        lines,
        near=0,
    )


def _quantiles(ascending: FloatArray) -> FloatArray:
    """Return the time by which each of `LEVELS` of the jobs is done."""
    at = np.ceil(LEVELS * ascending.size).astype(np.int64) - 1
    quantiles: FloatArray = ascending[np.maximum(at, 0)]
    return quantiles


def _identical_curves(curves: list[FloatArray]) -> list[list[int]]:
    """Return groups of curves that look identical; they share a name."""
    groups: list[list[int]] = []
    for index, curve in enumerate(curves):
        for group in groups:
            if (np.abs(np.log(curve / curves[group[0]])) > ALIKE).mean() <= SEEN:
                group.append(index)
                break
        else:
            groups.append([index])
    return groups


def _name(labels: list[str]) -> str:
    """Return the name of curves that look the same; of very many, or long, the first alone."""
    name = in_lines(", ".join(labels))
    if len(labels) == 1 or name.count("\n") < LINES:
        return name
    return f"{in_lines(labels[0])}\nand {len(labels) - 1} alike"


def _name_places(curves: list[FloatArray]) -> list[tuple[float, float]]:
    """Return for each curve the point for its name: far from other curves and from other names."""
    times = np.log(np.array(curves))
    name_levels: list[float] = []
    points = []
    for index, curve in enumerate(curves):
        gap = np.abs(times - times[index])
        gap[index] = np.inf
        alone = np.minimum(gap.min(axis=0), 0.5)  # in time, by a factor of 1.6 at most
        alone = sliding_window_view(np.pad(alone, BESIDE), 2 * BESIDE + 1).min(axis=1)
        clear = np.min([np.abs(LEVELS - level) for level in name_levels] or [np.ones(1)], axis=0)
        worth = np.where(NAMED, 4 * alone + 2 * np.minimum(clear, 0.12), -1.0)
        level = int(np.argmax(worth))
        name_levels.append(float(LEVELS[level]))
        points.append((float(curve[level]), float(LEVELS[level])))
    return points


def _costs(axes: Axes, comparison: PolicyComparison, looks: list[Look]) -> None:
    axes.set_title("What it costs")
    figure = axes.figure
    assert isinstance(figure, Figure)
    months = [outcome.results.usd_per_month for outcome in comparison.outcomes]
    costs = [usd for usd in months if usd is not None]
    is_monthly = len(costs) == len(months)
    total_usd = [outcome.results.cost_usd for outcome in comparison.outcomes]
    if not is_monthly:  # a window of no length
        costs = total_usd
    scales = [cost / usd if usd else 1.0 for cost, usd in zip(costs, total_usd, strict=True)]
    parts = [cost_by_kind(plain(outcome.results)) for outcome in comparison.outcomes]
    places = range(len(costs))
    begin = np.zeros(len(costs))
    paid = [kind for kind in KINDS if any(part[kind] for part in parts)]
    for kind in paid:
        wide = np.array([part[kind] for part in parts]) * scales
        for place, look in enumerate(looks):
            strength: dict[str, Any] = {
                "color": look.colour,
                "alpha": KINDS[kind].strength,
                "linewidth": 0,
                "label": f"_{kind}",
            }
            if wide[place]:
                axes.barh(place, wide[place], left=begin[place], height=0.62, **strength)
        begin += wide
    axes.barh(
        places, costs, height=0.62, fill=False, edgecolor=[x.colour for x in looks], linewidth=0.8
    )
    for bar, look in zip(axes.containers[-1], looks, strict=True):
        bar.set_linestyle(look.dash)
    swatches = [Patch(facecolor=INK, alpha=KINDS[kind].strength, linewidth=0) for kind in paid]
    figure.legend(swatches, paid, loc="outside lower right", ncols=3)
    texts = [
        axes.annotate(
            f"{show_usd(cost)}, mean {show_duration(outcome.results.mean_jct_s)}",
            (cost, place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=INK,
            in_layout=False,
        )
        for place, outcome, cost in zip(places, comparison.outcomes, costs, strict=True)
    ]
    axes.set_yticks(list(places), [in_lines(outcome.label) for outcome in comparison.outcomes])
    axes.invert_yaxis()
    dollar_axis(axes, "x", 4)
    axes.set_xlabel("dollars a month" if is_monthly else "dollars of the whole log")
    lay_out(figure)  # so that texts and axes have their widths
    wide_px = axes.get_window_extent().width
    room = [wide_px - text.get_window_extent().width - 10 * figure.dpi / 72 for text in texts]
    needed = [cost * wide_px / max(px, wide_px / 4) for cost, px in zip(costs, room, strict=True)]
    axes.set_xlim(0, max(needed) or 1)  # each bar's text ends within the axes


def in_lines(label: str) -> str:
    """Return a label in lines of about `LINE` letters, broken after commas and the colon."""
    lines = [""]
    for part in re.findall(r"[^:,]*[:,]?", label):
        if lines[-1] and len(lines[-1]) + len(part) > LINE:
            lines.append("")
        lines[-1] += part if lines[-1] else part.lstrip()
    return "\n".join(lines)


def cost_by_kind(results: Mapping[str, Any]) -> dict[str, float]:
    """Return the cost in US dollars by kind of GPUs; costs without a kind are conventional."""
    parts = {kind: float(results.get(f"cost_{kind}_usd") or 0.0) for kind in KINDS}
    rest = results["cost_usd"] - sum(parts.values())
    if rest > 1e-9 * results["cost_usd"]:  # a policy of one cluster
        parts["conventional"] += rest
    return parts
