"""The pictures of ``profile`` and ``share``: efficacy, GPUs over time, the frontier."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gpuplan.analysis.user_tables.sharing_profiles import ProfileTable
from gpuplan.cli.figures.style import COLOURS, CYCLE, INK, PAPER, SOFT, new_figure
from gpuplan.planner.sharing.coscaling_study import MARKED, CoscalingResults
from gpuplan.planner.sharing.placement_study import PlacementResults
from gpuplan.planner.sharing.profile_search import ServiceChoice

MOST_PROFILES = 6
MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0
MARKS = ("o", "X", "s", "^")


def draw_profiles(chosen: Sequence[tuple[ProfileTable, ServiceChoice]]) -> Figure:
    """Draw throughput per share over batch and share, one panel per model, up to six.

    Darker is more; hollow points miss the SLO, the star is the choice, the line the search.
    """
    shown = chosen[:MOST_PROFILES]
    count = len(shown)
    figure = new_figure(rows=(1.0,) * count, height_in=0.6 + 3.2 * count)
    for axes, (table, choice) in zip(figure.axes, shown, strict=False):
        _profile(axes, table, choice)
    return figure


def _profile(axes: Axes, table: ProfileTable, choice: ServiceChoice) -> None:
    te = table.throughput / table.sm_percent
    rows = np.arange(table.batch.size)
    image = axes.pcolormesh(
        np.arange(table.sm_percent.size + 1) - 0.5,
        np.arange(table.batch.size + 1) - 0.5,
        te,
        cmap="Blues",
    )
    columns = {float(percent): at for at, percent in enumerate(table.sm_percent)}
    batches = {int(batch): at for at, batch in enumerate(table.batch)}
    path = [(columns[step.sm_percent], batches[step.batch], step.feasible) for step in choice.path]
    x, y, _ = zip(*path, strict=True)
    axes.plot(x, y, color=SOFT, linewidth=1.0, zorder=3)
    for good, face, label in (
        (True, COLOURS["blue"], "evaluated"),
        (False, PAPER, "misses the SLO"),
    ):
        points = [(at_x, at_y) for at_x, at_y, keeps in path if keeps == good]
        if points:
            axes.plot(
                *zip(*points, strict=True), "o", ms=5, markerfacecolor=face, markeredgecolor=INK,
                linestyle="none", zorder=4, label=label,
            )  # fmt: skip
    star = (columns[choice.sm_percent], batches[choice.batch])
    axes.plot(
        *star, "*", color=COLOURS["orange"], ms=14, markeredgecolor=INK, zorder=5,
        linestyle="none", label="choice",
    )  # fmt: skip
    axes.legend(
        frameon=False, labelcolor=INK, ncols=3, loc="lower right", bbox_to_anchor=(1, 1),
        borderaxespad=0.2,
    )  # fmt: skip
    axes.set_xticks(range(table.sm_percent.size), [f"{percent:g}" for percent in table.sm_percent])
    axes.set_yticks(rows, [str(size) for size in table.batch])
    axes.set_xlabel("share of the SMs (%)")
    axes.set_ylabel("batch size")
    axes.set_title(
        f"{table.name}: batch {choice.batch} at {choice.sm_percent:g}%", loc="left", fontsize=10,
        fontweight="bold", parse_math=False,
    )  # fmt: skip
    bar = axes.figure.colorbar(image, ax=axes)
    bar.set_label("items/s per % of the SMs", color=INK)
    bar.ax.tick_params(colors=INK)


def draw_placement(study: PlacementResults) -> Figure:
    """Draw GPUs in use over time, one step line per policy, and over gamma where it varies."""
    sweep = len(study.request.gammas) > 1
    figure = new_figure(rows=(1.6, 1.0) if sweep else (1.0,), height_in=6.4 if sweep else 4.2)
    axes = figure.axes[0]
    unit, per = _unit(max(float(outcome.time_s[-1]) for outcome in study.policies))
    drawn = {outcome.policy: outcome for outcome in study.policies}
    for at, (policy, outcome) in enumerate(drawn.items()):
        colour = CYCLE[at % len(CYCLE)]
        axes.step(
            outcome.time_s / per, outcome.run.active_gpus, where="post", color=colour, label=policy
        )
    axes.set_xlabel(f"{unit} after the first start")
    axes.set_ylabel("GPUs in use")
    axes.set_ylim(0)
    axes.legend(frameon=False, labelcolor=INK)
    if sweep:
        below = figure.axes[1]
        for at, policy in enumerate(drawn):
            points = [
                (outcome.gamma, outcome.max_gpus)
                for outcome in study.policies
                if outcome.policy == policy
            ]
            x, y = zip(*points, strict=True)
            below.plot(x, y, "o-", ms=4, color=CYCLE[at % len(CYCLE)])
        below.set_xlabel("gamma: most that the limits on a GPU add up to")
        below.set_ylabel("most GPUs")
    return figure


def draw_coscaling(study: CoscalingResults) -> Figure:
    """Draw the GPUs in use over time, and the frontier of GPUs against the worst service."""
    with_frontier = bool(study.frontier)
    figure = new_figure(
        rows=(1.0, 1.2) if with_frontier else (1.0,), height_in=7.0 if with_frontier else 4.2
    )
    axes = figure.axes[0]
    unit, per = _unit(study.exclusive.run.horizon_s)
    for at, outcome in enumerate(study.policies):
        x = np.append(outcome.run.time_s, outcome.run.horizon_s) / per
        y = np.append(outcome.run.active_gpus, outcome.run.active_gpus[-1:])
        axes.step(x, y, where="post", color=CYCLE[at % len(CYCLE)], label=outcome.policy)
    axes.set_xlabel(unit)
    axes.set_ylabel("GPUs in use")
    axes.set_ylim(0)
    axes.legend(frameon=False, labelcolor=INK)
    if with_frontier:
        _frontier(figure.axes[1], study)
    return figure


def _frontier(axes: Axes, study: CoscalingResults) -> None:
    points = study.frontier
    line = sorted(
        (outcome.max_gpus, 100 * outcome.worst_violation_rate)
        for outcome in points
        if outcome.efficient
    )
    axes.step(*zip(*line, strict=True), where="post", color=SOFT, linewidth=1.0, zorder=2)
    rest = [
        (outcome.max_gpus, 100 * outcome.worst_violation_rate) for outcome in points[len(MARKED) :]
    ]
    if rest:
        axes.plot(
            *zip(*rest, strict=True), "o", ms=4, color=COLOURS["sky"],
            label="dilu, other gamma and capacity",
        )  # fmt: skip
    for at, outcome in enumerate(points[: len(MARKED)]):
        axes.plot(
            outcome.max_gpus, 100 * outcome.worst_violation_rate, MARKS[at % len(MARKS)], ms=9,
            color=CYCLE[at % len(CYCLE)], markeredgecolor=INK, label=outcome.policy, zorder=4,
        )  # fmt: skip
    axes.set_xlabel("most GPUs in use")
    axes.set_ylabel("worst service over its SLO (%)")
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    axes.legend(frameon=False, labelcolor=INK)


def _unit(span_s: float) -> tuple[str, float]:
    if span_s > 4 * DAY_S:
        return "days", DAY_S
    if span_s > 4 * HOUR_S:
        return "hours", HOUR_S
    return ("minutes", MINUTE_S) if span_s > 4 * MINUTE_S else ("seconds", 1.0)
