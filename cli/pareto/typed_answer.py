"""The tables that ``gpuplan pareto`` over several GPU types shows without ``--full``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.analysis.job_table.gpu_names import UNNAMED
from gpuplan.cli.formats.precision import Precision
from gpuplan.cli.formats.report import Column, Shown, Table
from gpuplan.cli.formats.units import show_count, show_duration
from gpuplan.cli.pareto.answer import BUDGETS_SHOWN, CLASSES_SHOWN, today_jct
from gpuplan.cli.pareto.typed import usd_per_h
from gpuplan.cli.pareto.widths import widths_table
from gpuplan.simkit.metrics import percentile

if TYPE_CHECKING:
    from gpuplan.planner.frontier.types.typed_study import TypedStudy


def typed_answer(study: TypedStudy) -> tuple[Table, ...]:
    """Return what each budget gives beside today, and the GPUs per job of each class."""
    precision, shown = Precision(study.workload.jobs), study.shown.plan.plan
    columns = tuple(_columns(study, precision))
    rows = [[row.get(column.key) for column in columns] for row in _rows(study, precision)]
    how = "planned, not replayed" if study.cluster is None else "in replay"
    priced = "; ".join(price.text for price in study.prices.values())
    budgets = Table(f"What each budget buys, {how}, at {priced}", columns, rows, BUDGETS_SHOWN)
    at, classes = usd_per_h(shown.budget_gpus), study.frontier.frontier.classes
    return budgets, widths_table(classes, [shown], at, usd_per_h, most=CLASSES_SHOWN)


def _columns(study: TypedStudy, precision: Precision) -> Iterator[Column]:
    yield Column("budget", "budget")
    yield Column("usd_per_month", "$/month", precision.usd)
    yield Column("mean_jct_s", "mean JCT", precision.duration)
    if study.cluster is not None:
        yield Column("p95_jct_s", "P95 JCT", precision.duration)
    for name in study.prices:
        yield Column(f"gpus_{name}", f"{name} on average", precision.gpus)
        if study.cluster is not None:
            yield Column(f"peak_{name}", f"{name} at the peak", show_count)


def _rows(study: TypedStudy, precision: Precision) -> Iterator[dict[str, Any]]:
    """Yield today, then the points."""
    if (today := study.today) is not None:
        row: dict[str, Any] = {
            "budget": "today",
            "usd_per_month": today.usage.usd_per_month,
            "mean_jct_s": today_jct(today, precision),
            "p95_jct_s": today.p95_jct_s,
        }
        for usage in today.gpu_types:
            name = study.recorded_on if usage.gpu_type in (None, UNNAMED) else usage.gpu_type
            row[f"gpus_{name}"], row[f"peak_{name}"] = usage.mean_gpus, usage.peak_gpus
        yield row
    for point in study.points:
        plan, replayed = point.plan.plan, point.replayed
        row = {
            "budget": point.requested or usd_per_h(plan.budget_gpus),
            "usd_per_month": plan.budget_gpus * MONTH_H,
            "mean_jct_s": plan.mean_jct_s,
            **{f"gpus_{name}": gpus for name, gpus in point.plan.gpus.items()},
        }
        if point.target_jct_s is not None:
            row["budget"] = f"JCT {show_duration(point.target_jct_s)}"
        if replayed is not None:
            row["mean_jct_s"] = float(replayed.jct_s.mean())
            row["p95_jct_s"] = percentile(replayed.jct_s, 95)
            row |= {f"peak_{name}": gpus for name, gpus in replayed.peak_gpus.items()}
        elif study.cluster is not None:
            row["mean_jct_s"] = Shown(None, "not replayed")
        yield row
