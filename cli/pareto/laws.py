"""The table of other laws of speedup in ``gpuplan pareto``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuplan.cli.formats.report import Column, Shown, Table
from gpuplan.cli.formats.units import show_duration
from gpuplan.cli.pareto.widths import BUDGETS_SHOWN
from gpuplan.planner.frontier.model.format_gpus import show_gpus

if TYPE_CHECKING:
    from gpuplan.planner.frontier.uncertainty.sensitivity import Laws


def laws_tables(laws: Laws) -> Iterator[Table]:
    """Yield one row per law: its least budget, and the mean JCT at the budgets of the study."""
    points = laws.points[:BUDGETS_SHOWN]
    columns = (
        Column("law", "speedup"),
        Column("min_budget_gpus", "least budget (GPUs)", show_gpus),
        *(
            Column(f"mean_jct_s_{i}", f"JCT at {show_gpus(point.plan.budget_gpus)}", show_duration)
            for i, point in enumerate(points)
        ),
    )
    rows = []
    for one in (laws.assumed, *laws.others):
        times = [one.jct_s(point.plan.budget_gpus) for point in points]
        cells = [Shown(None, "too few") if jct_s is None else jct_s for jct_s in times]
        rows.append([one.speedup.name, one.frontier.min_budget, *cells])
    title = "If jobs follow another law: the optimum at the same GPUs on average"
    yield Table(title, columns, rows)
