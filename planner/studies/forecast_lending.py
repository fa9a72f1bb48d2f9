"""How many GPUs each pool can lend as spot, by a forecast of the demand of all others."""

from __future__ import annotations

import numpy as np

from gpuplan.analysis.errors import UsageError
from gpuplan.analysis.forecast.forecast import DemandForecast
from gpuplan.analysis.gpu_names import gpu_name, same_gpu
from gpuplan.analysis.words import listed
from gpuplan.planner.studies.forecast_request import ALL, ForecastRequest
from gpuplan.planner.studies.forecast_results import Lendable
from gpuplan.planner.studies.forecast_source import DemandSource
from gpuplan.simkit.cluster_shape import ClusterShape

GUARANTEES = (0.9, 0.95)
GIVEN, PEAK = "given", "peak"


def lendable_of(
    request: ForecastRequest, source: DemandSource, found: DemandForecast
) -> tuple[list[Lendable], tuple[str, ...]]:
    """Return what each pool can lend at each guarantee, and which pools are too small already."""
    demand, shape = source.demand, request.cluster
    names, notes = demand.names, []
    typed = shape is not None and shape.gpu_types != ()
    if source.are_pools or (typed and request.by != "all"):
        pools = {name: [at] for at, name in enumerate(names)}
    else:
        pools = {ALL: list(range(len(names)))}
    capacity: dict[str, tuple[float, str]] = {}
    for name, members in pools.items():
        peak = source.peak_gpus if name == ALL else float(demand.gpus[members].sum(axis=0).max())
        capacity[name] = (peak, PEAK)
    if shape is not None:
        for name, given in _given_capacity(shape, list(pools)).items():
            (peak, _), capacity[name] = capacity[name], given
            if peak > given[0]:
                of = "" if name == ALL else f"{name}: "
                notes.append(
                    f"{of}jobs have asked for {peak:,.0f} GPUs at once, more than the "
                    f"{given[0]:,.0f} there are"
                )
    hours = [h for h in (1, 2, 4, 8, 12, 24) if h <= found.split.steps]
    rows = []
    for name, members in pools.items():
        gpus, source_of = capacity[name]
        for level in GUARANTEES:
            for guarantee in hours:
                bound = found.pool_bound(level, guarantee, members)
                free = max(0.0, float(np.floor(gpus - bound + 1e-9)))
                rows.append(Lendable(name, gpus, source_of, guarantee, level, bound, free))
    return rows, tuple(notes)


def _given_capacity(shape: ClusterShape, pools: list[str]) -> dict[str, tuple[float, str]]:
    """Return the GPUs of each pool of a cluster. Raises `UsageError` where they do not match."""
    if not shape.gpu_types or (len(shape.pools) == 1 and len(pools) == 1):
        if len(pools) > 1:
            raise UsageError(
                f"--cluster {shape}: {len(pools)} GPU types are forecast\n  next: give GPUs of "
                f"each, such as --cluster {pools[0]}=64x8"
            )
        return {pools[0]: (float(shape.gpus or 0), GIVEN)}
    found: dict[str, tuple[float, str]] = {}
    for pool in shape.pools:
        own = [
            name
            for name in pools
            if name == pool.gpu_type or same_gpu(gpu_name(name), gpu_name(str(pool.gpu_type)))
        ]
        if len(own) != 1:
            raise UsageError(
                f"--cluster {shape}: {pool.gpu_type} is none of the series {listed(pools)}"
            )
        found[own[0]] = (float(pool.gpus or 0), GIVEN)
    return found
