"""From the jobs of a trace to the tasks of one pool per GPU type, and the load of each pool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from gpuplan.analysis.base.time_units import HOUR_US
from gpuplan.analysis.base.words import counted, listed
from gpuplan.planner.policies.spot.results import PoolDemand
from gpuplan.planner.runs.cluster_setting import enough_for, match_pools, shape_of
from gpuplan.planner.runs.settings import SettingError
from gpuplan.planner.runs.trace_jobs import Tenants, TraceJobs
from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray
from gpuplan.simkit.cluster_shape import ClusterShape, GpuPool
from gpuplan.simkit.spot.pool import MILLI, MOST_CARDS
from gpuplan.simkit.spot.simulator import SpotWorkload, never_fits
from gpuplan.simkit.time import MICROS

USUAL_CARDS = 8
"""GPUs of a node where the cluster has no nodes."""
MOST_LOOKS = 20_000_000_000
"""Pods x nodes that a replay takes: a cluster of 165,000 pods on 1,000 nodes has a hundredth."""


@dataclass(frozen=True, slots=True)
class SpotPool:
    """The GPUs of one type, and the jobs that run there.

    Attributes:
        shape: the pool.
        cards: GPUs of each node.
        jobs: places of its jobs among all, ascending.
        workload: these jobs as tasks; second 0 is a full hour.
    """

    shape: GpuPool
    cards: IntArray
    jobs: IntArray
    workload: SpotWorkload

    @property
    def name(self) -> str:
        """The GPU type, or ``all``."""
        return self.shape.gpu_type or "all"

    @property
    def gpus(self) -> int:
        """GPUs of the pool."""
        return int(self.cards.sum())

    @property
    def unplaceable(self) -> IntArray:
        """Jobs that do not fit into the empty pool, by their place among all."""
        jobs: IntArray = self.jobs[never_fits(self.cards, self.workload)]
        return jobs


@dataclass(frozen=True, slots=True)
class SpotPools:
    """All pools of a replay.

    Attributes:
        pools: those with jobs.
        is_spot: which jobs are spot; shape (n,).
        group: whose they are.
        offset_us: the first submission after second 0.
        has_calendar: whether second 0 is one of the calendar, ``origin_us``.
        notes: what was rounded or assumed.
    """

    pools: tuple[SpotPool, ...]
    is_spot: BoolArray
    group: pl.Series
    offset_us: int
    origin_us: int
    has_calendar: bool
    notes: tuple[str, ...]


def tenants_of(jobs: TraceJobs) -> Tenants:
    """Return whose jobs they are; all of high priority where nobody says."""
    if jobs.tenants is not None:
        return jobs.tenants
    n = jobs.workload.size
    nobody = pl.repeat(None, n, dtype=pl.String, eager=True)
    return Tenants(np.zeros(n, np.bool_), nobody, nobody, np.ones(n, np.int64), False)


def pools_of(jobs: TraceJobs, settings: Mapping[str, Any]) -> SpotPools:
    """Return the pools that settings make of a cluster, with the jobs of each.

    Raises:
        SettingError: jobs of no pool's GPU type, nodes of too many GPUs, or more of them than can
            be looked at for every pod.
    """
    work, tenants = jobs.workload, tenants_of(jobs)
    shape, notes = _shape(jobs, settings)
    first = jobs.first_submit_us
    offset = 0 if first is None else int(first % HOUR_US)
    milli, pods, rounded = _pods(work.billed_gpus, tenants.pods, shape)
    if rounded:
        notes.append(
            f"{counted(rounded, 'job')} with a fraction above 1 GPU held whole GPUs, rounded up"
        )
    owner = _owners(tenants.gpu_type, shape)
    submit_s = -(-(work.submit_us + offset) // MICROS)
    duration_s = np.maximum(1, -(-work.service_us // MICROS))
    pools = []
    for at, pool in enumerate(shape.pools):
        jobs_here = np.flatnonzero(owner == at)
        if jobs_here.size:
            tasks = SpotWorkload(
                submit_s=submit_s[jobs_here],
                duration_s=duration_s[jobs_here],
                hp=~tenants.is_spot[jobs_here],
                pods=pods[jobs_here],
                pod_milli=milli[jobs_here],
            )
            pools.append(SpotPool(pool, _cards(pool), jobs_here, tasks))
            _check_size(pools[-1])
    return SpotPools(
        pools=tuple(pools),
        is_spot=tenants.is_spot,
        group=tenants.group,
        offset_us=offset,
        origin_us=0 if first is None else first - offset,
        has_calendar=first is not None,
        notes=tuple(notes),
    )


def _check_size(pool: SpotPool) -> None:
    """Raise `SettingError` where placing each pod once would take minutes."""
    pods, nodes = int(pool.workload.pods.sum()), len(pool.cards)
    if pods * nodes > MOST_LOOKS:
        raise SettingError(
            ["cluster"],
            f"{counted(pods, 'pod')} on {counted(nodes, 'node')}: every pod looks at every node, "
            f"more than {MOST_LOOKS:,} looks. Leave the widest jobs out, or set cluster smaller",
        )


def loads_of(jobs: TraceJobs, pools: SpotPools) -> tuple[PoolDemand, ...]:
    """Return what each pool is asked for; over no time at all by its whole work per hour."""
    span_s = max(jobs.span_s, 3600.0)
    demands = []
    for pool in pools.pools:
        work = pool.workload
        gpu_s = work.size_milli / MILLI * work.duration_s / (pool.gpus * span_s)
        demands.append(
            PoolDemand(
                pool.name, pool.gpus, float(gpu_s[work.hp].sum()), float(gpu_s[~work.hp].sum())
            )
        )
    return tuple(demands)


def _shape(jobs: TraceJobs, settings: Mapping[str, Any]) -> tuple[ClusterShape, list[str]]:
    """Return the cluster with nodes in every pool, and what is assumed of it."""
    shape, notes = shape_of(settings), []
    if shape is None or shape.gpus is None:
        if shape is not None and len(shape.pools) > 1:
            raise SettingError(["cluster"], f"{shape} needs a number of nodes of every type")
        each = (shape.pool.gpus_per_node if shape else None) or USUAL_CARDS
        gpus = _enough(jobs, each)
        shape = ClusterShape((GpuPool(gpus, each, shape.pool.gpu_type if shape else None),))
        notes.append(
            f"the cluster has {counted(gpus // each, 'node')} of {each} GPUs, the fewest on which "
            "no job waits; --cluster is for another size"
        )
    elif any(pool.gpus_per_node is None for pool in shape.pools):
        notes.append(f"nodes of {USUAL_CARDS} GPUs are assumed; set cluster to nodes x GPUs")
    for pool in shape.pools:
        if (pool.gpus_per_node or 0) > MOST_CARDS:
            raise SettingError(
                ["cluster"], f"a node may have {MOST_CARDS} GPUs here, got {pool.gpus_per_node}"
            )
    return shape, notes


def _enough(jobs: TraceJobs, each: int) -> int:
    widest = -(-int(jobs.workload.gpus.max()) // each) * each
    pods = tenants_of(jobs).pods
    one_each = int(pods.max()) * each  # pods of more than half a node have one each
    return enough_for(jobs.workload, each, max(widest, one_each))


def _cards(pool: GpuPool) -> IntArray:
    """Return the GPUs of each node; the last may have fewer where none were given."""
    gpus, each = int(pool.gpus or 0), pool.gpus_per_node or USUAL_CARDS
    full, rest = divmod(gpus, each)
    return np.array([each] * full + [rest] * (rest > 0), np.int64)


def _pods(
    gpus: FloatArray, workers: IntArray, shape: ClusterShape
) -> tuple[IntArray, IntArray, int]:
    """Return milli-GPU of a pod, pods of each job, and how many had no whole GPUs.

    A job without workers that is larger than a node becomes pods of equal size.
    """
    each = max(int(_cards(pool).max()) for pool in shape.pools)
    per_worker = gpus / workers
    split = np.maximum(1, -(-per_worker // each)).astype(np.int64)
    pods, per_pod = workers * split, per_worker / split
    milli = np.maximum(1, np.rint(per_pod * MILLI)).astype(np.int64)
    is_large = milli > MILLI
    rounded = is_large & (milli % MILLI != 0)
    milli = np.where(is_large, -(-milli // MILLI) * MILLI, milli)
    return milli, pods, int((rounded & (split == 1)).sum())


def _owners(gpu_type: pl.Series, shape: ClusterShape) -> IntArray:
    """Return the pool of each job. Raises `SettingError` where it has none."""
    if len(shape.pools) == 1:
        return np.zeros(len(gpu_type), np.int64)
    names = gpu_type.fill_null("")
    every = names.unique(maintain_order=True)
    pools = match_pools(shape, every, one_type_each=False)
    pool_of = {name: shape.pools.index(pool) for name, pool in pools.items()}
    missing = [name or "no type" for name in every if name not in pool_of]
    if missing == ["no type"] and not pool_of:
        total = shape.gpus or 0
        raise SettingError(
            ["cluster"],
            f"the jobs name no GPU type, so {shape} cannot be told apart",
            f"give the GPUs without types, such as {total}",
        )
    if missing:
        raise SettingError(
            ["cluster"],
            f"jobs request {listed(missing)}; {shape} has no such GPUs",
            "add GPUs of these types, or leave the jobs out with --where",
        )
    owners: IntArray = names.replace_strict(pool_of, return_dtype=pl.Int64).to_numpy()
    return owners
