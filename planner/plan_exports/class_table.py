"""A plan as a table: a row for each route that jobs of a class take."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from gpuplan.planner.plan.plan_file import PlanFile
from gpuplan.planner.plan.routes import ROUTES, SERVERLESS, SPOT, WIDTH, JobRoute
from gpuplan.planner.plan_exports.class_use import POOL, ClassUse

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


def market_of(route: JobRoute) -> str:
    """Return where the jobs of a route begin to run."""
    return route.kind if route.kind in (SPOT, SERVERLESS) else POOL


def class_table(plan: PlanFile, uses: Sequence[ClassUse]) -> str:
    """Return the text of a CSV table.

    ``market_mean_gpus`` and ``market_peak_gpus`` are of all jobs of the class in the market,
    ``checkpoint_every_s`` is of gangs on as few nodes as the class has.
    """
    held = {(use.name, use.gpu_type, use.width_bucket, use.market): use for use in uses}
    rows = []
    for each in plan.classes:
        for name, share in each.routes.items():
            route = ROUTE_OF[name]
            use = held.get((*each.key, market_of(route)))
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
                    None if use is None else use.mean_gpus,
                    None if use is None else use.peak_gpus,
                    each.mean_time_s,
                )
            )
    return pl.DataFrame(rows, schema=COLUMNS, orient="row").write_csv()
