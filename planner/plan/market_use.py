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

ROUNDING = 1e-9
"""Of GPUs; fewer are none."""


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
        time_share: of the time, in which any is in use.
    """

    name: str
    gpu_type: str
    gpus: float
    mean_gpus: float
    peak_gpus: float
    peak_s: float
    usd_per_month: float
    time_share: float


@dataclass(frozen=True, slots=True)
class GpusBetween:
    """GPUs in use above one level and up to another, exact in time.

    Attributes:
        mean_gpus, peak_gpus, peak_s, time_share: as in `MarketUse`.
    """

    mean_gpus: float
    peak_gpus: float
    peak_s: float
    time_share: float

    def use(self, name: str, gpu_type: str, usd_per_month: float, gpus: float = 0.0) -> MarketUse:
        """Return them as the use of a market."""
        return MarketUse(
            name=name,
            gpu_type=gpu_type,
            gpus=gpus,
            mean_gpus=self.mean_gpus,
            peak_gpus=self.peak_gpus,
            peak_s=self.peak_s,
            usd_per_month=usd_per_month,
            time_share=self.time_share,
        )


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
    bin_edges = columns.bins.edges_s
    start_s, runs = jobs.submit_s, assigned.column >= 0
    if not deferred_may_stop:
        start_s = deferred_start_s(columns, assigned, plan.committed)
        runs = np.ones(jobs.size, bool)
    for number, gpu_type, market, of_type in columns.by_type():
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
                part = gpus_between(pool, low, high)
                uses.append(part.use(name, gpu_type, usd * MONTH_H, high - low))
        if market.on_demand_usd is not None:
            above = gpus_between(pool, owned + committed)
            usd = above.mean_gpus * market.on_demand_usd * MONTH_H
            uses.append(above.use("on_demand", gpu_type, usd))
        for name in (SPOT, SERVERLESS):
            in_market = of_type & (assigned.kind == name)
            if in_market.any():
                first_s = jobs.submit_s[in_market]
                last_s = first_s + assigned.outside_s[in_market]
                held = held_between(first_s, last_s, jobs.gpus[in_market], 0.0, window_s)
                outside = gpus_between(held)
                route = next(route for route in columns.routes if route.kind == name)
                usd = outside.mean_gpus * outside_price(route, market) * MONTH_H
                uses.append(outside.use(name, gpu_type, usd))
    return tuple(uses)


def held_between(
    begin_s: FloatArray, end_s: FloatArray, gpus: FloatArray, from_s: float, until_s: float
) -> GpusInUse:
    """Return what intervals hold together from one time until another, where they are cut."""
    begin, end = (
        to_micros(np.clip(time_s, from_s, until_s) - from_s) for time_s in (begin_s, end_s)
    )
    return gpus_in_use(begin, end, gpus, int(to_micros(np.array([until_s - from_s]))[0]))


def gpus_between(held: GpusInUse, low: float = 0.0, high: float | None = None) -> GpusBetween:
    """Return the GPUs of a step function above one level and up to another."""
    below = held.levels.gpu_us(Fraction(low)) if low else Fraction(0)
    gpu_us = held.levels.gpu_us(None if high is None else Fraction(high)) - below
    part = np.clip(held.gpus - low, 0.0, None if high is None else high - low)
    at = int(part.argmax())
    used_us = int(np.diff(held.edges_us)[part > ROUNDING].sum())
    return GpusBetween(
        mean_gpus=float(gpu_us / held.window_us),
        peak_gpus=float(part[at]),
        peak_s=float(held.edges_us[at]) / MICROS,
        time_share=used_us / held.window_us,
    )
