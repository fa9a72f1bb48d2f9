"""The table of the GPUs per job of each class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gpuplan.cli.formats.report import Column, Table
from gpuplan.cli.formats.units import show_count, show_duration, show_share, show_usd
from gpuplan.planner.frontier.model.format_gpus import show_gpus
from gpuplan.simkit.time import HOUR_S

if TYPE_CHECKING:
    from gpuplan.planner.elastic.job_class import JobClass
    from gpuplan.planner.frontier.model.plan import ClassPlan, Plan
    from gpuplan.planner.frontier.points import Point
    from gpuplan.planner.frontier.study import FrontierStudy

CLASSES_SHOWN = 15
BUDGETS_SHOWN = 5  # columns of widths
HOLDS = "held GPUs"


def widths_table(
    classes: Sequence[JobClass],
    plans: Sequence[Plan],
    at: str,
    budget: Callable[[float], str],
    *,
    most: int = CLASSES_SHOWN,
) -> Table:
    """Return the GPUs per job of each class: at each of some budgets, or at one in detail.

    Args:
        classes: in the order of the plans.
        plans: one or more.
        at: what the only one is, or what the budgets count, for the title.
        budget: shows a budget.
        most: classes shown.
    """
    if len(plans) > 1:
        title, columns, rows = _by_budget(classes[:most], plans, at, budget)
    else:
        title, columns, rows = _in_detail(classes[:most], plans[0], at)
    if not all(part.rounded for plan in plans for part in plan.widths):
        capped = any(
            not row.rounded for plan in plans for c in plan.classes for row in c.paths[0][1]
        )
        title += (
            "; percentages are the share of jobs at each width; to avoid splitting, use the "
            f"first{', or the second where --require sets a time' if capped else ''}"
        )
    if len(classes) > most:
        title += f" ({most} of {len(classes)} classes, by load; all in JSON)"
    return Table(title, columns, rows)


def shown_widths(study: FrontierStudy) -> list[Point]:
    """Return the points with widths to show: the requested ones, if few, else one."""
    is_few = study.by_request and 1 < len(study.points) <= BUDGETS_SHOWN
    return list(study.points) if is_few else [study.shown]


Parts = tuple[str, tuple[Column, ...], list[list[Any]]]
CLASS_COLUMNS = (
    Column("job_class", "job class"),
    Column("jobs", "jobs", show_count),
    Column("load_gpus", "load (GPUs)", show_gpus),
)


def _by_budget(
    classes: Sequence[JobClass], plans: Sequence[Plan], at: str, budget: Callable[[float], str]
) -> Parts:
    """Return one row per class and one column per budget."""
    columns = [Column(f"widths_{i}", f"at {budget(plan.budget)}") for i, plan in enumerate(plans)]
    rows: list[list[Any]] = []
    for position, c in enumerate(classes):
        cells = []
        for plan in plans:
            stretches = _stretches(plan.classes[position])
            is_whole = len(stretches) == 1
            cells.append("; ".join(text if is_whole else f"{on}: {text}" for on, text in stretches))
        rows.append([c.name, c.jobs, c.load_gpus, *cells])
    title = f"GPUs per job at each budget, in {at}"
    if _have_epochs(classes):
        title += ", as epochs: GPUs"
    return title, (*CLASS_COLUMNS, *columns), rows


def _in_detail(classes: Sequence[JobClass], plan: Plan, at: str) -> Parts:
    """Return one row per class and stretch of epochs with the same widths."""
    priced = any(c.cost_per_h is not None for c in classes)
    columns = (
        *CLASS_COLUMNS,
        Column("epochs", "epochs" if _have_epochs(classes) else ""),
        Column("widths", "GPUs per job"),
        Column("mean_jct_s", "mean JCT", show_duration),
        Column("usd_per_h", "$/h", show_usd) if priced else Column("gpus", HOLDS, show_gpus),
    )
    rows: list[list[Any]] = []
    for job_class, part in zip(classes, plan.classes, strict=False):
        for position, (epochs, text) in enumerate(_stretches(part)):
            class_cells = [job_class.name, job_class.jobs, job_class.load_gpus]
            totals = [part.time_h * HOUR_S, part.used]
            first = position == 0
            rows.append(
                [*(class_cells if first else ["", None, None]), epochs, text]
                + (totals if first else [None, None])
            )
    return f"GPUs per job at {at}", columns, rows


def _have_epochs(classes: Sequence[JobClass]) -> bool:
    return any(c.work_h.size > 1 for c in classes)


def _percent(share: float) -> str:
    """Return a share of a split, which is neither none nor all."""
    if share < 0.001:
        return "<0.1%"
    return show_share(share) if share < 0.999 else ">99.9%"


def _stretches(plan: ClassPlan) -> list[tuple[str, str]]:
    """Return (epochs, widths) of a class as text, epochs of equal widths together, from 1."""
    by_epoch: dict[int, list[str]] = {}
    for part in plan.widths:
        share = "" if part.share == 1 else f" ({_percent(part.share)})"
        on = "" if part.gpu_type is None else f" {part.gpu_type}"
        by_epoch.setdefault(part.epoch, []).append(f"{part.width:g}{on}{share}")
    stretches: list[tuple[int, int, str]] = []
    for epoch, parts in by_epoch.items():
        text = " or ".join(parts)
        if stretches and stretches[-1][2] == text:
            stretches[-1] = (stretches[-1][0], epoch, text)
        else:
            stretches.append((epoch, epoch, text))
    if len(stretches) == 1:
        return [("all", stretches[0][2])]
    return [
        (f"{first + 1}" if first == last else f"{first + 1}-{last + 1}", text)
        for first, last, text in stretches
    ]
