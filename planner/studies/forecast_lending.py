"""How many GPUs each pool can lend as spot, by a forecast of the demand of all others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.forecast.forecast import DemandForecast
from gpuplan.planner.runs.cluster_setting import match_pools
from gpuplan.planner.studies.forecast_request import ALL, ForecastRequest
from gpuplan.planner.studies.forecast_results import Lendable
from gpuplan.planner.studies.forecast_source import DemandSource
from gpuplan.simkit.cluster_shape import ClusterShape

GUARANTEES = (0.9, 0.95)
GIVEN, PEAK = "given", "peak"


@dataclass(frozen=True, slots=True)
class DemandPool:
    """GPUs that some of the series share.

    Attributes:
        name: the series, or ``all``.
        members: places of its series.
        capacity_gpus: GPUs that there are.
        capacity_from: whether they were given, or are the peak so far.
        peak_gpus: the most GPUs held at once so far; of a table the highest demand.
    """

    name: str
    members: list[int]
    capacity_gpus: float
    capacity_from: str
    peak_gpus: float


def pools_of_demand(request: ForecastRequest, source: DemandSource) -> list[DemandPool]:
    """Return the pools; those of a cluster with GPU types are the only ones.

    Raises:
        UsageError: the cluster does not match them.
    """
    demand, shape, peaks = source.demand, request.cluster, source.peak_gpus
    typed = shape is not None and shape.gpu_types != ()
    if source.are_pools or (typed and request.by != ALL):
        members = {name: [at] for at, name in enumerate(demand.names)}
    else:
        members = {ALL: list(range(len(demand.names)))}
    if shape is None:
        capacity, origin = {name: peaks.get(name, 0.0) for name in members}, PEAK
    else:
        capacity, origin = _given_capacity(shape, list(members)), GIVEN
    return [
        DemandPool(name, own, capacity[name], origin, peaks.get(name, 0.0))
        for name, own in members.items()
        if name in capacity
    ]


def too_small(pools: list[DemandPool]) -> list[str]:
    """Return a note for each pool that has fewer GPUs than its jobs have held."""
    return [
        f"{'' if one.name == ALL else f'{one.name}: '}jobs have held {one.peak_gpus:,.0f} "
        f"GPUs at once, more than the {one.capacity_gpus:,.0f} there are"
        for one in pools
        if one.peak_gpus > one.capacity_gpus
    ]


def lendable_of(pools: list[DemandPool], found: DemandForecast) -> list[Lendable]:
    """Return what each pool can lend at each guarantee."""
    hours = [h for h in (1, 2, 4, 8, 12, 24) if h <= found.split.steps]
    rows = []
    for pool in pools:
        gpus, source = pool.capacity_gpus, pool.capacity_from
        for level in GUARANTEES:
            for guarantee in hours:
                bound = found.pool_bound(level, guarantee, pool.members)
                free = max(0.0, float(np.floor(gpus - bound + 1e-9)))
                rows.append(Lendable(pool.name, gpus, source, guarantee, level, bound, free))
    return rows


def _given_capacity(shape: ClusterShape, pools: list[str]) -> dict[str, float]:
    """Return the GPUs of each pool of a cluster. Raises `UsageError` where they do not match."""
    if not shape.gpu_types or (len(shape.pools) == 1 and len(pools) == 1):
        if len(pools) > 1:
            raise UsageError(
                f"--cluster {shape}: {len(pools)} GPU types are forecast\n  next: give GPUs of "
                f"each, such as --cluster {pools[0]}=64x8"
            )
        return {pools[0]: float(shape.gpus or 0)}
    pool_of = match_pools(shape, pools)
    for pool in shape.pools:
        if pool not in pool_of.values():
            raise UsageError(
                f"--cluster {shape}: no GPU type is called {pool.gpu_type} here; the series are "
                f"{listed(pools)}\n  next: GPUs of each of these, or GPUs without a type where the "
                f"log names none: --cluster {shape.gpus}"
            )
    return {str(name): float(pool.gpus or 0) for name, pool in pool_of.items()}
