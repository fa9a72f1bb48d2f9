"""Services beside the jobs of a plan: the cheapest point of ``gpuplan share``, on the pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import Hidden
from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.planner.plan.jobs import ServiceLoad
from gpuplan.planner.plan.markets import GpuMarkets
from gpuplan.planner.plan.purchase import Purchase, best
from gpuplan.planner.requests.plan import PurchaseRequest
from gpuplan.planner.requests.share import SharedCluster, ShareRequest
from gpuplan.planner.sharing.coscaling_study import (
    CoscalingResults,
    CoscalingRow,
    FrontierPoint,
    run_point,
)
from gpuplan.planner.studies.share import share

NODES = 1000
FEW_LATE = 0.01
"""Share of late requests that is no reason to take more GPUs."""


@dataclass(frozen=True, slots=True)
class PlannedServices:
    """Services on the pool, at the point of `gpuplan share` that takes the fewest GPU-hours.

    Attributes:
        gpu_type: that they share; empty where the log names none.
        policy: of the point.
        gamma: most that the limits on a GPU add up to.
        capacity_factor: registered capacity over the profiled one.
        mean_gpus, peak_gpus: with an instance.
        worst_violation_rate: share of late requests of the worst service.
        whole_gpus: mean GPUs if every instance had whole ones.
        usd_per_month: by which they raise the bill of the program.
        horizon_s: of the load, which repeats until the log ends.
        points: that were compared.
        load: GPUs that they hold over time.
        inputs: files read.
    """

    gpu_type: str
    policy: str
    gamma: float
    capacity_factor: float
    mean_gpus: float
    peak_gpus: float
    worst_violation_rate: float
    whole_gpus: float
    usd_per_month: float
    horizon_s: float
    points: int
    load: Hidden[ServiceLoad]
    inputs: Hidden[tuple[InputFile, ...]]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader should know of them."""
        late = self.worst_violation_rate
        if late <= FEW_LATE:
            return ()
        return (
            f"services: at the best of {self.points} points {late:.1%} of the requests of the "
            "worst service are late; see gpuplan share for another request, limit or batch",
        )


def service_demand(
    request: PurchaseRequest, markets: Mapping[str, GpuMarkets]
) -> PlannedServices | None:
    """Return the services of a request, not priced yet; None where it has none.

    Raises:
        InfeasibleError, InputError: as ``gpuplan share``.
        UsageError: the GPU type of the services is not said, or no job has it.
    """
    file = request.services.functions_file()
    if file is None:
        return None
    gpu_type = _type_of(file[0], list(markets))
    answer = share(
        ShareRequest(
            functions=file[1],
            load=request.services.load,
            policies=("dilu", "exclusive"),
            cluster=SharedCluster(cluster=f"{NODES}x{markets[gpu_type].gpus_per_node}"),
            seed=request.jobs.seed,
        )
    )
    results = answer.results
    assert isinstance(results, CoscalingResults)
    point, row = cheapest_point(results)
    return PlannedServices(
        gpu_type=gpu_type,
        policy=point.policy,
        gamma=point.gamma,
        capacity_factor=point.capacity_factor,
        mean_gpus=row.mean_gpus,
        peak_gpus=float(row.max_gpus),
        worst_violation_rate=row.worst_violation_rate,
        whole_gpus=results.exclusive.mean_gpus,
        usd_per_month=0.0,
        horizon_s=results.horizon_s,
        points=len(results.frontier),
        load=ServiceLoad(row.run.time_s, row.run.active_gpus.astype(np.float64), row.run.horizon_s),
        inputs=answer.inputs,
    )


def _type_of(name: str, types: Sequence[str]) -> str:
    if name in types:
        return name
    if not name and len(types) == 1:
        return types[0]
    if not name:
        raise UsageError(
            f"--services: the log has the GPU types {listed(types, 6)}\n"
            f"  next: --services {types[-1]}=functions.toml"
        )
    raise UsageError(
        f"--services {name}=...: no job of the log is on {name}; expected "
        f"{listed([each for each in types if each] or ['no type'], 6)}"
    )


def cheapest_point(results: CoscalingResults) -> tuple[FrontierPoint, CoscalingRow]:
    """Return the point with the fewest GPU-hours of those that serve well, and its run.

    A point serves well where its worst service is late no more often than `FEW_LATE`. Where no
    point does, it is the one that is late least.
    """
    point = min(
        results.frontier,
        key=lambda point: (
            max(FEW_LATE, point.worst_violation_rate),
            point.mean_gpus,
            point.max_gpus,
        ),
    )
    return point, run_point(results, point)


def priced(services: PlannedServices, plan: Purchase) -> PlannedServices:
    """Return the services with what they add to the bill of the program of a plan."""
    columns = replace(plan.program.columns, services={})
    without = best(replace(plan.program, columns=columns), plan.exact.start)
    usd_per_h = 0.0 if without is None else plan.exact.usd_per_h - without.usd_per_h
    return replace(services, usd_per_month=usd_per_h * MONTH_H)
