"""What lending idle GPUs of a plan brings: those owned or committed to, under a quota.

Source: GFS, `gpuplan.simkit.spot`: the quota of an hour is what a bound of the demand of jobs,
forecast from the hours before, leaves of the pool, and at most what is idle, as in `spot_quota`
there with a factor of 1. What is lent goes back at once where jobs need it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import HOUR_S, MICROS, MONTH_H
from gpuplan.analysis.forecast.demand import DemandSeries
from gpuplan.planner.plan.program import PlanProgram
from gpuplan.planner.plan.purchase import Purchase
from gpuplan.planner.policies.spot.lending import demand_bound_by_hour
from gpuplan.simkit.arrays import FloatArray

FORECAST, EXACT = "auto", "exact"
P, STEPS_H = 0.9, 1
ROUNDING = 1e-9
MOST_HOURS = 100_000
"""Of a log, 11 years: the forecast of twice as many takes over 10 s."""


@dataclass(frozen=True, slots=True)
class LentGpus:
    """Idle GPUs of one type, and what can be lent of them; means over time.

    Attributes:
        name: the GPU type; empty where the log names none.
        pool_gpus: owned or committed to.
        idle_gpus: of these.
        lent_gpus: under the quota.
        known_gpus: that could be lent if the demand of the next hour were known.
        usd_per_month: for those lent.
    """

    name: str
    pool_gpus: float
    idle_gpus: float
    lent_gpus: float
    known_gpus: float
    usd_per_month: float


@dataclass(frozen=True, slots=True)
class PlanLending:
    """Revenue beside a bill.

    Attributes:
        usd_per_gpu_h: price of a GPU that is lent, if all that the quota allows is taken.
        quota_p: probability with which demand stays below its forecast bound.
        usd_per_month: of all types; no part of the bill.
        types: one entry per GPU type with a pool.
    """

    usd_per_gpu_h: float
    quota_p: float
    usd_per_month: float
    types: tuple[LentGpus, ...]


def check_lending(window_s: float) -> None:
    """Raise `UsageError` where a log has more hours than can be forecast."""
    hours = int(window_s // HOUR_S)
    if hours > MOST_HOURS:
        raise UsageError(
            f"--lend forecasts each hour of the log, at most {MOST_HOURS:,}; it has {hours:,}\n"
            "  next: leave jobs out that are far from the others, with --since, --until or --where"
        )


def lending_of(plan: Purchase, usd_per_gpu_h: float) -> PlanLending:
    """Return what lending idle GPUs of a plan brings at a price per GPU-hour."""
    program = plan.program
    columns = program.columns
    pools = plan.whole_nodes.committed + program.owned
    held = program.demand(plan.whole_nodes.share) + plan.whole_nodes.deferred
    types = []
    for number, name in enumerate(columns.types):
        pool = float(pools[number])
        if pool <= 0:
            continue
        used = np.minimum(held[number], pool)
        by_hour = _by_hour(program, held[number])
        lent, foreseen = (
            _mean_lent(program, used, pool, _free(program, by_hour, pool, forecast))
            for forecast in (FORECAST, EXACT)
        )
        usd = lent * usd_per_gpu_h * MONTH_H
        types.append(LentGpus(name, pool, pool - float(used.mean()), lent, foreseen, usd))
    return PlanLending(
        usd_per_gpu_h=usd_per_gpu_h,
        quota_p=P,
        usd_per_month=sum(each.usd_per_month for each in types),
        types=tuple(types),
    )


def _hour_of_bin(program: PlanProgram) -> tuple[FloatArray, FloatArray]:
    """Return the first and the last hour in which each bin is."""
    bins = program.columns.bins
    edges = bins.edges_s / HOUR_S
    return np.floor(edges[:-1] + 1e-9), np.maximum(0, np.ceil(edges[1:] - 1e-9) - 1)


def _by_hour(program: PlanProgram, held: FloatArray) -> FloatArray:
    """Return the highest demand of the bins in each hour of the window."""
    first, last = _hour_of_bin(program)
    demand = np.zeros(int(last[-1]) + 1)
    for hour in range(int((last - first).max()) + 1):
        at = np.minimum(first + hour, last).astype(np.int64)
        np.maximum.at(demand, at, held)
    return demand


def _free(program: PlanProgram, demand: FloatArray, pool: float, forecast: str) -> FloatArray:
    """Return what a bound of the demand leaves of the pool, at the beginning of every hour."""
    begin_us = program.columns.jobs.begin_us
    series = DemandSeries(
        names=("pool",),
        gpus=demand[None, :],
        first_hour=begin_us // round(HOUR_S * MICROS),
        has_calendar=True,
    )
    bound = demand_bound_by_hour(series, forecast, P, STEPS_H, "pool")
    result: FloatArray = np.maximum(0.0, pool - bound)
    return result


def _mean_lent(program: PlanProgram, used: FloatArray, pool: float, free: FloatArray) -> float:
    """Return the mean GPUs lent: whole GPUs up to the quota, and never more than are idle."""
    hour = _hour_of_bin(program)[0].astype(np.int64)
    return float(np.floor(np.minimum(free[hour], pool - used) + ROUNDING).mean())
