"""What jobs with routes cost by the program in a part of the time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuplan.planner.plan.assignment import AssignedJobs
from gpuplan.planner.plan.columns import RouteColumns, outside_price
from gpuplan.planner.plan.routes import SERVERLESS, SPOT
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.plan.deferral import run_deferred


class TimePart(NamedTuple):
    """A part of the window, seconds after the first submission."""

    begin_s: float
    end_s: float


def weights_in(columns: RouteColumns, part: TimePart) -> FloatArray:
    """Return the share of a part of the time that each bin is; they add up to 1."""
    edges = columns.bins.edges_s.clip(*part)
    inside = np.diff(edges)
    weights: FloatArray = inside / inside.sum()
    return weights


def assigned_usd_per_h(
    columns: RouteColumns, assigned: AssignedJobs, committed: FloatArray, part: TimePart
) -> float:
    """Return the dollars an hour of the program in a part of the time, for jobs with routes."""
    jobs, bins = columns.jobs, columns.bins
    weights = weights_in(columns, part)
    services = columns.service_gpus
    usd = 0.0
    for number, _, market, is_of_type in columns.by_type():
        of_type = is_of_type & ~jobs.is_deferred
        begin = jobs.submit_s[of_type]
        held = bins.means(
            begin + assigned.pool_from_s[of_type],
            begin + assigned.time_s[of_type],
            assigned.pool_gpus[of_type],
        )
        fixed = market.standing + committed[number]
        held = held + services[number]
        held = held + run_deferred(columns.arrived[number], columns.due[number], fixed - held)
        usd += market.held_usd_per_h + committed[number] * (market.committed_usd or 0.0)
        usd += float(np.maximum(0.0, held - fixed) @ weights) * (market.on_demand_usd or 0.0)
        for name in (SPOT, SERVERLESS):
            rows = of_type & (assigned.kind == name)
            if rows.any():
                first = jobs.submit_s[rows]
                outside = bins.means(first, first + assigned.outside_s[rows], jobs.gpus[rows])
                route = next(route for route in columns.routes if route.kind == name)
                usd += float(outside @ weights) * outside_price(route, market)
    return usd
