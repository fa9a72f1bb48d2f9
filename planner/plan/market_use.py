"""What the jobs of a plan hold in each market, and what that costs, exact in time."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.planner.money.gpus_in_use import GpusInUse, gpus_in_use
from gpuplan.planner.plan.assignment import AssignedJobs
from gpuplan.planner.plan.columns import RouteColumns, outside_price
from gpuplan.planner.plan.program import PlanOptimum
from gpuplan.planner.plan.replay import deferred_start_s
from gpuplan.planner.plan.routes import SERVERLESS, SPOT
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.time import MICROS, to_micros


@dataclass(frozen=True, slots=True)
class MarketUse:
    """GPUs of one market and GPU type over the window, exact in time.

    Attributes:
        name: ``owned``, ``committed``, ``on_demand``, ``spot`` or ``serverless``.
        gpu_type: empty where the log names none.
        gpus: bought for the whole time; 0 for a market in which GPUs are rented.
        mean_gpus, peak_gpus: in use.
        peak_s: when the peak begins, seconds after the first submission.
        usd_per_month: what they cost.
    """

    name: str
    gpu_type: str
    gpus: float
    mean_gpus: float
    peak_gpus: float
    peak_s: float
    usd_per_month: float


def market_uses(
    columns: RouteColumns,
    plan: PlanOptimum,
    assigned: AssignedJobs,
    *,
    deferred_may_stop: bool = False,
) -> tuple[MarketUse, ...]:
    """Return what is bought and used in each market, by GPU type, of the jobs as assigned.

    A deferred job starts when it fits the idle GPUs of the pool, or when it is due, and then runs
    to its end.

    Args:
        columns: the routes, with the jobs.
        plan: what is bought.
        assigned: the route of each job.
        deferred_may_stop: deferred work stops and goes on, in the mean of each bin, as in the
            program.
    """
    uses: list[MarketUse] = []
    window_s, jobs = columns.bins.window_s, columns.jobs
    is_planned = assigned.column >= 0
    kinds = np.array([route.kind for route in columns.routes] or [""])
    kind = np.where(is_planned, kinds[assigned.column], "")
    type_names = jobs.gpu_type.to_numpy()
    bin_edges = np.arange(columns.bins.count + 1) * columns.bins.bin_s
    start_s, runs = jobs.submit_s, is_planned
    if not deferred_may_stop:
        start_s = deferred_start_s(columns, assigned, plan.committed)
        runs = np.ones(jobs.size, bool)
    for number, (gpu_type, market) in enumerate(zip(columns.types, columns.markets, strict=True)):
        of_type = type_names == gpu_type
        on_pool = of_type & runs
        begin_s = start_s[on_pool]
        in_bins = columns.service_gpus[number]
        if deferred_may_stop:
            in_bins = in_bins + plan.deferred[number]
        pool = held_between(
            np.append(begin_s + assigned.pool_from_s[on_pool], bin_edges[:-1]),
            np.append(begin_s + assigned.time_s[on_pool], bin_edges[1:]),
            np.append(assigned.pool_gpus[on_pool], in_bins),
            0.0,
            window_s,
        )
        owned, new = market.owned, float(plan.committed[number])
        committed = market.held + new
        usd_per_h = market.held_usd_per_h + (market.committed_usd or 0.0) * new
        bought = (
            ("owned", 0.0, owned, 0.0),
            ("committed", owned, owned + committed, usd_per_h),
        )
        for name, low, high, usd in bought:
            if high > low:
                mean, peak, peak_s = _between(pool, low, high)
                gpus = high - low
                usd_per_month = usd * MONTH_H
                uses.append(MarketUse(name, gpu_type, gpus, mean, peak, peak_s, usd_per_month))
        if market.on_demand_usd is not None:
            mean, peak, peak_s = _between(pool, owned + committed, None)
            usd = mean * market.on_demand_usd * MONTH_H
            uses.append(MarketUse("on_demand", gpu_type, 0.0, mean, peak, peak_s, usd))
        for name in (SPOT, SERVERLESS):
            in_market = of_type & is_planned & (kind == name)
            if in_market.any():
                first_s = jobs.submit_s[in_market]
                last_s = first_s + assigned.outside_s[in_market]
                held = held_between(first_s, last_s, jobs.gpus[in_market], 0.0, window_s)
                mean, peak, peak_s = _between(held, 0.0, None)
                route = next(route for route in columns.routes if route.kind == name)
                usd = mean * outside_price(route, market) * MONTH_H
                uses.append(MarketUse(name, gpu_type, 0.0, mean, peak, peak_s, usd))
    return tuple(uses)


def held_between(
    begin_s: FloatArray, end_s: FloatArray, gpus: FloatArray, from_s: float, until_s: float
) -> GpusInUse:
    """Return what intervals hold together from one time until another, where they are cut."""
    begin, end = (
        to_micros(np.clip(time_s, from_s, until_s) - from_s) for time_s in (begin_s, end_s)
    )
    return gpus_in_use(begin, end, gpus, int(to_micros(np.array([until_s - from_s]))[0]))


def _between(held: GpusInUse, low: float, high: float | None) -> tuple[float, float, float]:
    """Return the mean and the peak of the GPUs above one level and up to another, and when."""
    below = held.levels.gpu_us(Fraction(low)) if low else Fraction(0)
    gpu_us = held.levels.gpu_us(None if high is None else Fraction(high)) - below
    part = np.clip(held.gpus - low, 0.0, None if high is None else high - low)
    at = int(part.argmax())
    return float(gpu_us / held.window_us), float(part[at]), float(held.edges_us[at]) / MICROS
