"""From shares of classes to the route of each job, and what the jobs then hold and cost."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.planner.money.gpus_in_use import GpusInUse, gpus_in_use
from gpuplan.planner.plan.columns import RouteColumns, outside_price, paths_of
from gpuplan.planner.plan.program import PlanOptimum
from gpuplan.planner.plan.routes import SERVERLESS, SPOT
from gpuplan.simkit.apportion import apportion
from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray
from gpuplan.simkit.time import MICROS, to_micros

LEAST_SHARE = 1e-6
"""Smaller shares are 0."""


@dataclass(frozen=True, slots=True)
class AssignedJobs:
    """The route of each job, and what it holds there; arrays of the jobs of the plan, shape (n,).

    Attributes:
        column: of the route in `RouteColumns`; -1 for a deferred job.
        fits: whether the route takes the job; one that it does not take runs as recorded.
        time_s, pool_from_s, pool_gpus, outside_s, tau_s: as in `JobPaths`.
    """

    column: IntArray
    fits: BoolArray
    time_s: FloatArray
    pool_from_s: FloatArray
    pool_gpus: FloatArray
    outside_s: FloatArray
    tau_s: FloatArray


def shares_of(columns: RouteColumns, share: FloatArray) -> FloatArray:
    """Return the shares without those that are too small to mean anything; they add up to 1."""
    kept = np.where(share < LEAST_SHARE, 0.0, share)
    total = np.bincount(columns.class_of, kept, len(columns.classes))
    result: FloatArray = kept / total[columns.class_of]
    return result


def assigned_jobs(columns: RouteColumns, share: FloatArray) -> AssignedJobs:
    """Return the route of each job, in order of submission by largest remainder in its class."""
    jobs, size = columns.jobs, columns.jobs.size
    share = shares_of(columns, share)
    column = np.full(size, -1)
    fits = np.zeros(size, bool)
    time_s, pool_gpus = jobs.run_s.copy(), jobs.gpus.copy()
    pool_from_s, outside_s = np.zeros((2, size))
    tau_s = np.full(size, np.inf)
    markets = dict(zip(columns.types, columns.markets, strict=True))
    for number, planned in enumerate(columns.classes):
        routes = np.flatnonzero(columns.class_of == number)
        chosen = routes[apportion(share[routes], planned.jobs.size)]
        column[planned.jobs] = chosen
        market = markets[planned.gpu_type]
        paths = dict(paths_of(jobs, planned, market, columns.speedup, columns.settings))
        for route in np.unique(chosen).tolist():
            path = paths[columns.routes[route]]
            is_taken = chosen == route
            rows = planned.jobs[is_taken]
            fits[rows], time_s[rows] = path.fits[is_taken], path.time_s[is_taken]
            pool_from_s[rows], pool_gpus[rows] = (
                path.pool_from_s[is_taken],
                path.pool_gpus[is_taken],
            )
            outside_s[rows], tau_s[rows] = path.outside_s[is_taken], path.tau_s[is_taken]
    return AssignedJobs(column, fits, time_s, pool_from_s, pool_gpus, outside_s, tau_s)


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
    columns: RouteColumns, plan: PlanOptimum, assigned: AssignedJobs
) -> tuple[MarketUse, ...]:
    """Return what is bought and used in each market, by GPU type, of the jobs as assigned.

    Deferred work runs as in the program, in the mean of each bin.
    """
    uses: list[MarketUse] = []
    window_s, jobs = columns.bins.window_s, columns.jobs
    is_planned = assigned.column >= 0
    kinds = np.array([route.kind for route in columns.routes] or [""])
    kind = np.where(is_planned, kinds[assigned.column], "")
    type_names = jobs.gpu_type.to_numpy()
    bin_edges = np.arange(columns.bins.count + 1) * columns.bins.bin_s
    for number, (gpu_type, market) in enumerate(zip(columns.types, columns.markets, strict=True)):
        of_type = is_planned & (type_names == gpu_type)
        begin_s = jobs.submit_s[of_type]
        pool = held_between(
            np.append(begin_s + assigned.pool_from_s[of_type], bin_edges[:-1]),
            np.append(begin_s + assigned.time_s[of_type], bin_edges[1:]),
            np.append(
                assigned.pool_gpus[of_type], plan.deferred[number] + columns.service_gpus[number]
            ),
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
            in_market = of_type & (kind == name)
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
