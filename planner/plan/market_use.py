"""What the jobs of a plan hold in each market, and what that costs: exact, and by the program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.planner.money.gpus_in_use import GpusInUse, gpus_in_use
from gpuplan.planner.plan.assignment import AssignedJobs
from gpuplan.planner.plan.columns import RouteColumns, outside_price
from gpuplan.planner.plan.purchase import Purchase
from gpuplan.planner.plan.replay import PlanRun, deferred_start_s
from gpuplan.planner.plan.routes import SERVERLESS, SPOT
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.plan.deferral import run_deferred
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


def market_uses(
    bought: Purchase, assigned: AssignedJobs, *, deferred_may_stop: bool = False
) -> tuple[MarketUse, ...]:
    """Return what is bought and used in each market, by GPU type, of the jobs as assigned.

    A deferred job starts when it fits the idle GPUs of the pool, or when it is due, and then runs
    to its end.

    Args:
        bought: the plan.
        assigned: the route of each job.
        deferred_may_stop: deferred work stops and goes on, in the mean of each bin, as in the
            program.
    """
    columns, plan = bought.program.columns, bought.whole_nodes
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
        levels = (
            ("owned", 0.0, owned, 0.0),
            ("committed", owned, owned + committed, usd_per_h),
        )
        for name, low, high, usd in levels:
            if high > low:
                bounds = (low, high)
                uses.append(use_of(name, gpu_type, pool, bounds, usd * MONTH_H, high - low))
        if market.on_demand_usd is not None:
            use = use_of("on_demand", gpu_type, pool, (owned + committed, None))
            uses.append(_rented(use, market.on_demand_usd))
        for name in (SPOT, SERVERLESS):
            in_market = of_type & (assigned.kind == name)
            if in_market.any():
                first_s = jobs.submit_s[in_market]
                last_s = first_s + assigned.outside_s[in_market]
                held = held_between(first_s, last_s, jobs.gpus[in_market], 0.0, window_s)
                uses.append(_rented(use_of(name, gpu_type, held), outside_price(name, market)))
    return tuple(uses)


def container_peaks(
    columns: RouteColumns, assigned: AssignedJobs
) -> dict[tuple[str, float], float]:
    """Return the most GPUs in containers at once, exact in time, by when their jobs leave.

    Returns:
        GPU type, and seconds after which jobs leave containers -> GPUs.
    """
    leave_s = np.array([route.leave_s for route in columns.routes] or [np.inf])[assigned.column]
    first_s = columns.jobs.submit_s
    peaks = {}
    for _, gpu_type, _, of_type in columns.by_type():
        inside = of_type & (assigned.kind == SERVERLESS)
        for after_s in np.unique(leave_s[inside]).tolist():
            rows = inside & (leave_s == after_s)
            last_s = first_s[rows] + assigned.outside_s[rows]
            gpus = columns.jobs.gpus[rows]
            held = held_between(first_s[rows], last_s, gpus, 0.0, columns.bins.window_s)
            peaks[gpu_type, after_s] = use_of(SERVERLESS, gpu_type, held).peak_gpus
    return peaks


def usd_of(bought: Purchase, assigned: AssignedJobs, *, deferred_may_stop: bool = False) -> float:
    """Return dollars a month of a plan, exact in time, of the jobs as assigned."""
    uses = market_uses(bought, assigned, deferred_may_stop=deferred_may_stop)
    return sum(use.usd_per_month for use in uses)


def held_between(
    begin_s: FloatArray, end_s: FloatArray, gpus: FloatArray, from_s: float, until_s: float
) -> GpusInUse:
    """Return what intervals hold together from one time until another, where they are cut."""
    begin, end = (
        to_micros(np.clip(time_s, from_s, until_s) - from_s) for time_s in (begin_s, end_s)
    )
    return gpus_in_use(begin, end, gpus, int(to_micros(np.array([until_s - from_s]))[0]))


def use_of(
    name: str,
    gpu_type: str,
    held: GpusInUse,
    bounds: tuple[float, float | None] = (0.0, None),
    usd_per_month: float = 0.0,
    gpus: float = 0.0,
) -> MarketUse:
    """Return as the use of a market the GPUs of a step function above one level and up to another.

    Args:
        name, gpu_type, usd_per_month, gpus: of the market.
        held: GPUs in use over time.
        bounds: the levels; None for no upper one.
    """
    low, high = bounds
    below = held.levels.gpu_us(Fraction(low)) if low else Fraction(0)
    gpu_us = held.levels.gpu_us(None if high is None else Fraction(high)) - below
    part = np.clip(held.gpus - low, 0.0, None if high is None else high - low)
    at = int(part.argmax())
    used_us = int(np.diff(held.edges_us)[part > ROUNDING].sum())
    return MarketUse(
        name=name,
        gpu_type=gpu_type,
        gpus=gpus,
        mean_gpus=float(gpu_us / held.window_us),
        peak_gpus=float(part[at]),
        peak_s=float(held.edges_us[at]) / MICROS,
        usd_per_month=usd_per_month,
        time_share=used_us / held.window_us,
    )


def _rented(use: MarketUse, usd_per_gpu_h: float) -> MarketUse:
    """Return the use of a market with the price of what is used."""
    return replace(use, usd_per_month=use.mean_gpus * usd_per_gpu_h * MONTH_H)


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
                usd += float(outside @ weights) * outside_price(name, market)
    return usd


@dataclass(frozen=True, slots=True)
class CostStep:
    """What one more thing that the program does not know makes a plan cost.

    Attributes:
        name: ``program``, its value; ``whole_nodes``; ``single_jobs``, each on one route and exact
            in time; ``deferred_jobs``, which run through once they start; ``idle_leases``, rented
            GPUs before they are returned; ``waits``, with losses of spot GPUs and a cap.
        usd_per_month: with this step.
        change_usd_per_month: over the step before.
    """

    name: str
    usd_per_month: float
    change_usd_per_month: float


def cost_steps(
    bought: Purchase, assigned: AssignedJobs, run: PlanRun | None, *, drains: bool = False
) -> list[CostStep]:
    """Return the steps from the program's value to the replay; to single jobs without a replay.

    Args:
        bought: the plan.
        assigned: the route of each job.
        run: the replay; None where the plan cannot be replayed.
        drains: whether what is paid after the window counts, until the last job ends.
    """
    columns, rounded = bought.program.columns, bought.whole_nodes
    usd = {"program": bought.exact.usd_per_h * MONTH_H, "whole_nodes": rounded.usd_per_h * MONTH_H}
    through = usd_of(bought, assigned)
    usd["single_jobs"] = through
    if columns.has_deferred:
        usd["single_jobs"] = usd_of(bought, assigned, deferred_may_stop=True)
        usd["deferred_jobs"] = through
    if run is not None:
        window_s = columns.bins.window_s
        idle = sum(of.idle_usd_per_h(window_s) for of in run.types)
        usd["idle_leases"] = through + idle * MONTH_H
        usd["waits"] = run.usd_per_month(drains=drains)
    steps, before = [], usd["program"]
    for name, usd_per_month in usd.items():
        steps.append(CostStep(name, usd_per_month, usd_per_month - before))
        before = usd_per_month
    return steps
