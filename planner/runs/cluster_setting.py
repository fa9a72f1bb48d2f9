"""The setting ``cluster`` of a policy, and ``gpus``, its short form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuplan.analysis.job_table.gpu_names import match_types
from gpuplan.planner.runs.settings import SettingError
from gpuplan.simkit.cluster.parameters import Cluster
from gpuplan.simkit.cluster_shape import ClusterShape, GpuPool
from gpuplan.simkit.limits import MOST_GPUS
from gpuplan.simkit.workload import Workload

SIZES = ("cluster", "gpus")
"""Settings that say how large a cluster is; a policy takes one of them."""


def shape_of(settings: Mapping[str, Any]) -> ClusterShape | None:
    """Return the shape that settings give, in full or in short; None where they give none.

    Raises:
        SettingError: they give both.
    """
    shape: ClusterShape | None = settings.get("cluster")
    gpus: int | None = settings.get("gpus")
    if shape is not None and gpus is not None:
        raise SettingError(SIZES, "both are the size of the cluster", "give one of the two")
    if gpus is None:
        return shape
    try:
        return ClusterShape((GpuPool(gpus),))
    except ValueError as error:
        raise SettingError(["gpus"], str(error)) from error


def gpus_of(settings: Mapping[str, Any]) -> int | None:
    """Return the GPUs of the cluster; None for as many as are needed. Raises `SettingError`."""
    shape = shape_of(settings)
    return None if shape is None else shape.gpus


def pool_of(settings: Mapping[str, Any], policy: str) -> GpuPool | None:
    """Return the GPUs of a policy for one GPU type; None where no size is set.

    Raises:
        SettingError: several GPU types, or two sizes.
    """
    shape = shape_of(settings)
    try:
        return None if shape is None else shape.pool
    except ValueError as error:
        raise SettingError(["cluster"], f"{policy} is for one GPU type: {error}") from error


def match_pools(
    shape: ClusterShape, log_types: Iterable[str | None], *, one_type_each: bool = True
) -> dict[str | None, GpuPool]:
    """Return the pool of each GPU type of a log that the cluster has.

    Arguments and errors are those of `match_types`: ``one_type_each`` allows a pool one type only.
    """
    pools = {pool.gpu_type: pool for pool in shape.pools}
    names = match_types(
        shape.gpu_types, log_types, f"--cluster {shape}", one_type_each=one_type_each
    )
    return {log_type: pools[name] for log_type, name in names.items() if name is not None}


def enough_for(workload: Workload, each: int | None = None, least: int = 0) -> int:
    """Return the fewest GPUs on which no job waits, and at least so many.

    Args:
        workload: the jobs.
        each: GPUs of a node; None for a cluster without nodes.
        least: GPUs that are needed in any case.

    Raises:
        SettingError: a cluster cannot have so many.
    """
    from gpuplan.simkit.cluster.simulator import enough_gpus

    try:
        size = Cluster(order="arrival", gpus=each or 1, gpus_per_node=each)
        gpus = max(enough_gpus(workload, size), least)
        if gpus > MOST_GPUS:
            raise ValueError(f"the widest job needs {gpus:,} GPUs; there are at most {MOST_GPUS:,}")
    except ValueError as error:
        raise SettingError(["cluster"], f"none is set, and {error}", "give its size") from error
    return gpus
