"""The hourly price of a GPU over the time of a log, with the GPUs of each market."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gpuplan.analysis.base.time_units import WEEK_S
from gpuplan.planner.plan.program import rented_gpus
from gpuplan.planner.plan.purchase import Purchase
from gpuplan.planner.plan.routes import SERVERLESS, SPOT
from gpuplan.simkit.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class PricesOverTime:
    """One GPU type bin by bin; arrays of shape (bins,).

    Attributes:
        gpu_type: empty where the log names none.
        bin_s: length of a bin; the first begins at the first submission.
        owned_gpus, committed_gpus: paid for, used or not.
        pool_gpus: in use on owned, committed and on-demand GPUs.
        on_demand_gpus: of these, rented.
        spot_gpus, serverless_gpus: in use outside the pool.
        price_usd: what one more GPU would cost in an hour of the bin: the dual of the program.
        on_demand_usd, committed_usd: prices of the markets; None where there is none.
    """

    gpu_type: str
    bin_s: float
    owned_gpus: float
    committed_gpus: float
    pool_gpus: FloatArray
    on_demand_gpus: FloatArray
    spot_gpus: FloatArray
    serverless_gpus: FloatArray
    price_usd: FloatArray
    on_demand_usd: float | None
    committed_usd: float | None


def prices_over_time(bought: Purchase) -> tuple[PricesOverTime, ...]:
    """Return GPUs and their hourly price by GPU type.

    GPUs are those of the plan in whole nodes, by shares of classes. Prices are those before
    rounding, whose mean over time is the price of the commitment.
    """
    program, plan = bought.program, bought.whole_nodes
    columns = program.columns
    pool = program.demand(plan.share) + plan.deferred
    rented = rented_gpus(program, plan)

    def outside(kind: str, number: int) -> FloatArray:
        rows = np.flatnonzero(columns.of_kind(kind) & (columns.type_of == number))
        gpus: FloatArray = plan.share[rows] @ columns.outside_gpus[rows]
        return gpus

    return tuple(
        PricesOverTime(
            gpu_type=gpu_type,
            bin_s=columns.bins.bin_s,
            owned_gpus=market.owned,
            committed_gpus=market.held + float(plan.committed[number]),
            pool_gpus=pool[number],
            on_demand_gpus=rented[number],
            spot_gpus=outside(SPOT, number),
            serverless_gpus=outside(SERVERLESS, number),
            price_usd=bought.exact.price[number],
            on_demand_usd=market.on_demand_usd,
            committed_usd=market.committed_usd,
        )
        for number, (gpu_type, market) in enumerate(columns.market_of.items())
    )


def typical_week(series: tuple[PricesOverTime, ...]) -> tuple[int, int]:
    """Return the first bin and the one after the last of the whole week that is most usual.

    That is the one whose GPUs on demand and whose prices are nearest to their means over the log,
    of equal ones the first. A log of no whole week is shown whole.
    """
    bins, bin_s = series[0].pool_gpus.size, series[0].bin_s
    weeks = int(bins * bin_s // WEEK_S)
    if weeks == 0:
        return 0, bins
    edges = [round(week * WEEK_S / bin_s) for week in range(weeks + 1)]
    distance = np.zeros(weeks)
    for row in series:
        for values in (row.on_demand_gpus, row.price_usd):
            mean = float(values.mean())
            means = [
                float(values[first : max(last, first + 1)].mean())
                for first, last in pairwise(edges)
            ]
            if mean > 0:
                distance += np.abs(np.array(means) / mean - 1)
    week = int(distance.argmin())
    return edges[week], max(edges[week + 1], edges[week] + 1)
