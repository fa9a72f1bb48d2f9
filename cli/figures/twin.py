"""Replayed against recorded waits: by partition, and over time; and the effects of changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from gpuplan.cli.figures.style import COLOURS, INK, new_figure, styled
from gpuplan.planner.site.effects import UNCLEAR
from gpuplan.planner.twin.score import scored_mask

if TYPE_CHECKING:
    from gpuplan.planner.site.change_effects import WhatIfResults
    from gpuplan.planner.twin.calibrate import CalibrateResults

MOST_GROUPS = 12
BINS = 40
HOUR_S = 3600.0


@styled
def draw_calibration(calibration: CalibrateResults) -> Figure:
    """Draw mean waits from submission, recorded and replayed, by partition and over time."""
    work, run = calibration.work, calibration.run
    mask = scored_mask(work, run)
    held = work.held[mask]
    recorded = (held + work.recorded_wait[mask]) / HOUR_S
    replayed = (held + run.wait[mask]) / HOUR_S
    names = work.names("partition")[mask]
    kinds, counts = np.unique(names.astype(str), return_counts=True)
    kinds = kinds[np.argsort(-counts, kind="stable")][:MOST_GROUPS]
    figure = new_figure(panels=2, width_in=9.0)
    series = (("recorded", recorded, INK), ("replayed", replayed, COLOURS["blue"]))
    bars, lines = figure.axes
    for i, (label, waits, colour) in enumerate(series):
        means = [float(waits[names == kind].mean()) for kind in kinds]
        at = np.arange(len(kinds)) + (i - 0.5) * 0.4
        bars.barh(at, means, height=0.38, color=colour, label=label)
    bars.set_yticks(np.arange(len(kinds)), [str(kind) for kind in kinds])
    bars.invert_yaxis()
    bars.set_xlabel("mean wait, h")
    bars.set_title("By partition")
    bars.legend(loc="lower right")
    submit = work.jobs.submit[mask]
    days = (submit - submit.min()) / 86400
    edges = np.linspace(0, max(float(days.max()), 1e-9), BINS + 1)
    which = np.clip(np.digitize(days, edges) - 1, 0, BINS - 1)
    middle = (edges[:-1] + edges[1:]) / 2
    for label, waits, colour in series:
        total = np.bincount(which, weights=waits, minlength=BINS)
        jobs = np.bincount(which, minlength=BINS)
        by_day = np.where(jobs > 0, total / np.maximum(jobs, 1), np.nan)
        width = 4.0 if label == "recorded" else 1.8  # where they agree, both are seen
        lines.plot(middle, by_day, color=colour, linewidth=width, label=label)
    lines.set_xlabel("days after the warm-up")
    lines.set_ylabel("mean wait, h")
    lines.set_title("Over time")
    lines.set_ylim(bottom=0)
    return figure


@styled
def draw_whatif(effects: WhatIfResults) -> Figure:
    """Draw the effects of changes on the mean and the P95 wait of groups, with their errors."""
    rows = [
        (f"{change.name}: {group.name}" if len(effects.changes) > 1 else group.name, group)
        for change in effects.changes
        for group in sorted(change.groups[1:], key=lambda group: -group.jobs)[:MOST_GROUPS]
    ] or [(change.name, group) for change in effects.changes for group in change.groups]
    figure = new_figure(panels=2, width_in=9.0, height_in=1.4 + 0.35 * max(len(rows), 2))
    panels = (("mean", ""), ("95th percentile", "p95_"))
    for axes, (measure, kind) in zip(figure.axes, panels, strict=True):
        for i, (_, group) in enumerate(rows):
            effect, error = getattr(group, f"{kind}effect_s"), getattr(group, f"{kind}error_s")
            is_clear = getattr(group, f"{kind}verdict") != UNCLEAR
            colour = COLOURS["orange"] if effect > 0 else COLOURS["green"]
            axes.errorbar(
                effect / HOUR_S, i, xerr=error / HOUR_S, fmt="o", capsize=3,
                color=colour if is_clear else COLOURS["sky"],
            )  # fmt: skip
        axes.axvline(0, color=INK, linewidth=0.8)
        axes.set_yticks(range(len(rows)), [name for name, _ in rows])
        axes.set_ylim(max(len(rows), 1) - 0.5, -0.5)
        axes.set_xlabel(f"change of the {measure} of waits, h")
    figure.axes[1].tick_params(labelleft=False)
    figure.axes[0].set_title(f"Effect by {effects.by}, with its error")
    figure.axes[1].set_title("Light blue: too small to tell")
    return figure
