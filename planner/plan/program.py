"""The linear program of a plan: GPUs to commit to and shares of routes, at the least dollars.

    minimize    commitments + on demand in the mean bin + routes outside the pool
    subject to  GPUs on demand + committed + owned >= GPUs on the pool      by type and bin
                the shares of a class add up to 1
                bounds on the mean time, on the time of each class, on spot GPUs, on dollars
                deferred work runs after it arrived and before it is due    by type and bin

Solved over groups of bins (`partition`), exact for the bins; with deferred work over all bins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuplan.planner.plan.columns import RouteColumns, undominated
from gpuplan.planner.plan.markets import GpuMarkets
from gpuplan.planner.plan.warm_start import ProgramStart
from gpuplan.simkit.arrays import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """What a plan must keep to; None for no bound.

    Attributes:
        mean_time_s: most mean time of a job, without the waits of the replay.
        wait_s: mean wait of the replay, already taken from the mean time.
        slower: most mean time of a class over its recorded one.
        spot_max: most share of the recorded GPU time on spot GPUs.
        usd_per_h: most dollars an hour.
    """

    mean_time_s: float | None = None
    slower: float | None = None
    spot_max: float | None = None
    usd_per_h: float | None = None
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True)
class PlanProgram:
    """A program to solve.

    Attributes:
        columns: of all routes.
        limits: what the plan must keep to.
        weights: of the bins, in all means over time; they add up to 1; shape (bins,).
        used: the columns that are not dominated.
        outside_usd_per_h: of a whole class outside the pool; shape (r,).
        most_share: most of a class on each route; None for all of it; shape (r,).
        least_committed: fewest GPUs to commit to by type, so that fewer jobs wait for others; None
            for none.
    """

    columns: RouteColumns
    limits: PlanLimits
    weights: FloatArray
    used: IntArray
    outside_usd_per_h: FloatArray
    most_share: FloatArray | None = None
    least_committed: FloatArray | None = None

    @property
    def owned(self) -> FloatArray:
        """GPUs that are there whatever is bought, by type: owned, or committed to before."""
        return np.array([market.standing for market in self.columns.markets], np.float64)

    @property
    def held(self) -> FloatArray:
        """GPUs committed to before, by type."""
        return np.array([market.held for market in self.columns.markets], np.float64)

    @property
    def held_usd_per_h(self) -> float:
        """Dollars an hour of commitments that were made before."""
        return sum(market.held_usd_per_h for market in self.columns.markets)

    def under(self, **limits: Any) -> PlanProgram:
        """Return the program with other limits, by their names in `PlanLimits`."""
        return replace(self, limits=replace(self.limits, **limits))

    def with_market(self, number: int, market: GpuMarkets) -> PlanProgram:
        """Return the program with other markets of a GPU type."""
        markets = list(self.columns.markets)
        markets[number] = market
        return replace(self, columns=replace(self.columns, markets=tuple(markets)))

    def demand(self, share: FloatArray) -> FloatArray:
        """Return the GPUs on the pool by type and bin, without deferred work."""
        columns = self.columns
        held = columns.service_gpus.copy()
        for number in range(len(columns.types)):
            rows = np.flatnonzero((columns.type_of == number) & (share != 0))
            held[number] += share[rows] @ columns.pool_gpus[rows]
        return held


def plan_program(
    columns: RouteColumns,
    limits: PlanLimits,
    *,
    weights: FloatArray | None = None,
    keep_dominated: bool = False,
) -> PlanProgram:
    """Return the program of some columns.

    Args:
        columns: of all routes.
        limits: what the plan must keep to.
        weights: of the bins; None for equal ones.
        keep_dominated: keep columns that another dominates; the optimum is the same.
    """
    count = columns.bins.count
    weights = np.full(count, 1 / count) if weights is None else weights
    used = np.arange(columns.class_of.size) if keep_dominated else undominated(columns)
    return PlanProgram(
        columns=columns,
        limits=limits,
        weights=weights,
        used=used,
        outside_usd_per_h=columns.outside_usd * (columns.outside_gpus @ weights),
    )


@dataclass(frozen=True, slots=True)
class PlanOptimum:
    """The optimum of a program.

    Attributes:
        share: of each class on each route; shape (r,), from 0 to 1.
        committed: GPUs to commit to, beyond those owned; by type.
        deferred: GPUs on which deferred work runs, by type and bin.
        usd_per_h: dollars of commitments, on demand, spot and containers.
        mean_time_s: of the jobs of classes; 0 without any.
        price: hourly price of one more GPU, by type and bin.
        usd_per_h_per_s: dollars an hour that a second less mean time costs.
        start: the groups of bins and the basis with which it was found.
        extra_usd_per_h: dollars an hour that a whole class on each route would cost over its
            cheapest, at these prices; NaN for a dominated route; shape (r,).
    """

    share: FloatArray
    committed: FloatArray
    deferred: FloatArray
    usd_per_h: float
    mean_time_s: float
    price: FloatArray
    usd_per_h_per_s: float
    start: ProgramStart
    extra_usd_per_h: FloatArray


def cost_of(program: PlanProgram, answer: PlanOptimum) -> float:
    """Return the dollars an hour of shares and commitments, exact for the bins."""
    rented = rented_gpus(program, answer)
    markets = program.columns.markets
    committed = [market.committed_usd or 0.0 for market in markets]
    on_demand = [market.on_demand_usd or 0.0 for market in markets]
    return float(
        program.held_usd_per_h
        + np.dot(committed, answer.committed)
        + np.dot(on_demand, rented @ program.weights)
        + program.outside_usd_per_h @ answer.share
    )


def rented_gpus(program: PlanProgram, answer: PlanOptimum) -> FloatArray:
    """Return the GPUs on demand by type and bin."""
    held = program.demand(answer.share) + answer.deferred
    result: FloatArray = np.maximum(0.0, held - (answer.committed + program.owned)[:, None])
    return result
