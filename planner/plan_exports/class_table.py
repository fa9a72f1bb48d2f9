"""A plan by class: what its jobs hold in each market, and a table with a row for each route."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from gpuplan.planner.plan.assignment import assigned_jobs, shares_of
from gpuplan.planner.plan.market_use import container_peaks
from gpuplan.planner.plan.plan_file import PlanFile
from gpuplan.planner.plan.purchase import Purchase
from gpuplan.planner.plan.routes import ROUTES, SERVERLESS, SPOT, WIDTH, JobRoute
from gpuplan.simkit.arrays import FloatArray

POOL = "pool"
COLUMNS = {
    "class": pl.String,
    "gpu_type": pl.String,
    "width_bucket": pl.String,
    "jobs": pl.Int64,
    "route": pl.String,
    "market": pl.String,
    "share": pl.Float64,
    "gpus_factor": pl.Float64,
    "leave_after_s": pl.Float64,
    "checkpoint_every_s": pl.Float64,
    "market_mean_gpus": pl.Float64,
    "market_peak_gpus": pl.Float64,
    "mean_time_s": pl.Float64,
}
ROUTE_OF = {route.name: route for route in ROUTES}


MOST_CHARACTERS = 40
"""Of a name, so that words may be added: Kubernetes has at most 63."""


@dataclass(frozen=True, slots=True)
class ClassUses:
    """What the classes of a plan hold.

    Attributes:
        held: label, GPU type and width bucket of a class, and a market -> GPUs held there, in the
            bins of the program.
        container_peaks: GPU type, and seconds after which jobs leave containers -> most GPUs that
            these jobs hold there at once, exact in time.
    """

    held: Mapping[tuple[str, str, str, str], FloatArray]
    container_peaks: Mapping[tuple[str, float], float]


def class_uses(plan: Purchase) -> ClassUses:
    """Return what the classes of a plan hold, in the markets that they use."""
    columns = plan.program.columns
    share = shares_of(columns, plan.whole_nodes.share)
    uses: dict[tuple[str, str, str, str], FloatArray] = {}
    for number, planned in enumerate(columns.classes):
        of_class = columns.class_of == number
        uses[*planned.key, POOL] = (share * of_class) @ columns.pool_gpus
        for market in (SPOT, SERVERLESS):
            rows = of_class & columns.of_kind(market)
            uses[*planned.key, market] = (share * rows) @ columns.outside_gpus
    held = {key: gpus for key, gpus in uses.items() if np.any(gpus > 0)}
    return ClassUses(held, container_peaks(columns, assigned_jobs(columns, plan.whole_nodes.share)))


def market_of(route: JobRoute) -> str:
    """Return where the jobs of a route begin to run."""
    return route.kind if route.kind in (SPOT, SERVERLESS) else POOL


def class_table(plan: PlanFile, uses: ClassUses) -> str:
    """Return the text of a CSV table.

    ``market_mean_gpus`` and ``market_peak_gpus`` are of all jobs of the class in the market,
    ``checkpoint_every_s`` is of gangs on as few nodes as the class has.
    """
    rows = []
    for each in plan.classes:
        for name, share in each.routes.items():
            route = ROUTE_OF[name]
            held = uses.held.get((*each.key, market_of(route)))
            every_s = list(each.checkpoint_every_s.values()) if route.kind == SPOT else []
            leaves = route.kind == SERVERLESS and route.leave_s != float("inf")
            rows.append(
                (
                    *each.key,
                    each.jobs,
                    name,
                    market_of(route),
                    share,
                    float(route.factor) if route.kind == WIDTH else 1.0,
                    route.leave_s if leaves else None,
                    every_s[0] if every_s else None,
                    None if held is None else float(held.mean()),
                    None if held is None else float(held.max()),
                    each.mean_time_s,
                )
            )
    return pl.DataFrame(rows, schema=COLUMNS, orient="row").write_csv()


def plain_names(names: Iterable[str], empty: str) -> dict[str, str]:
    """Return each name with lower-case letters, digits and dashes alone; all differ.

    Args:
        names: each once.
        empty: for a name that has none of them.
    """
    used: set[str] = set()
    plain: dict[str, str] = {}
    for name in names:
        base = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:MOST_CHARACTERS].strip("-")
        base = base or empty
        text, count = base, 2
        while text in used:
            text, count = f"{base}-{count}", count + 1
        used.add(text)
        plain[name] = text
    return plain
