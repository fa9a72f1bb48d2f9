"""Replays under the classic schedulers of one cluster."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from msgspec import UNSET, UnsetType

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import fields_of
from gpuplan.planner.policies.cluster_replay import (
    ClusterReplay,
    ClusterResults,
    ReplaySettings,
    replay_settings,
    replayed,
    size_note,
    size_shown,
)
from gpuplan.planner.policies.cluster_settings import SCHEDULERS, whole_nodes
from gpuplan.planner.runs.cluster_setting import pool_of
from gpuplan.planner.runs.settings import FEWER_JOBS, LOWER, SettingError, check_widest
from gpuplan.planner.runs.simulation import RunBill, Simulation
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.planner.runs.window import share_within
from gpuplan.simkit.cluster.parameters import Cluster
from gpuplan.simkit.cluster.simulator import ClusterRun, enough_gpus, run_cluster
from gpuplan.simkit.cluster_shape import GpuPool
from gpuplan.simkit.time import MICROS, TimeOverflow
from gpuplan.simkit.workload import Workload

MOST_DEMOTIONS, MOST_DEMOTIONS_OF_A_JOB = 1_000_000, 1_000
"""How often jobs may leave the first queue: in all, and for each job beyond that."""


def simulate(jobs: TraceJobs, typed: Mapping[str, Any], policy: str) -> Simulation:
    """Run one of `SCHEDULERS` under settings; see `Scheduler.settings`. Nothing is random.

    Raises:
        UsageError: settings that no cluster can have, or a job wider than the cluster.
    """
    scheduler = SCHEDULERS[policy]
    settings = replay_settings(policy, scheduler.settings, typed, scheduler.complete(typed))
    sized = sized_cluster(jobs, settings, partial(scheduler.cluster, settings.values))
    cluster = sized.cluster
    if cluster.as_published and jobs.workload.checkpoint_us is not None:
        raise SettingError(
            ["reference"],
            "the published simulator stops jobs at no cost, and is run without --checkpoints",
        )
    with replayable(typed):
        run = run_cluster(jobs.workload, cluster, policy)
    return on_one_cluster(jobs, settings, sized, run, _without_effect(policy, typed, cluster))


@dataclass(frozen=True, slots=True)
class SizedCluster:
    """A cluster with the size that is set, or on which no job waits.

    Attributes:
        cluster: its size and rules.
        size: the settings that say so.
        notes: on a size that was not set.
    """

    cluster: Cluster
    size: Mapping[str, Any]
    notes: tuple[str, ...]


def sized_cluster(
    jobs: TraceJobs, settings: ReplaySettings, cluster_of: Callable[[GpuPool], Cluster]
) -> SizedCluster:
    """Return the cluster of the jobs, which fit into it.

    Args:
        cluster_of: its rules; a pool of as many nodes as are needed makes a cluster of one.

    Raises:
        UsageError: values that no cluster can have, or a job wider than the cluster.
    """
    pool = pool_of(settings.values, settings.policy)
    cluster, notes = cluster_of(pool or GpuPool(1)), tuple[str, ...]()
    each = cluster.gpus_per_node
    if pool is None or pool.gpus is None:
        with replayable(settings.typed):
            cluster = replace(cluster, gpus=enough_gpus(jobs.workload, cluster))
        nodes = f"the fewest nodes of {each} on which no job waits or is stopped"
        notes = (size_note(cluster.gpus, nodes) if each else size_note(cluster.gpus),)
    _check_falls(jobs.workload, cluster)
    widest = int(jobs.workload.gpus.max())
    check_widest(
        *(widest, cluster.gpus, settings.size_setting, "would never start"),
        whole_nodes(widest, each),
    )
    size = size_shown(cluster.gpus, each, None if pool is None else pool.gpu_type)
    return SizedCluster(cluster, size, notes)


def _check_falls(workload: Workload, cluster: Cluster) -> None:
    """Refuse queues that jobs leave and come back to without end. Raises `SettingError`.

    A job that comes back has waited ``starvation`` times all that it ran, so the waits before n
    demotions add up to n^2 / 2 times that of the first, within the makespan.
    """
    if not cluster.starvation or not cluster.limits:
        return
    service_s = workload.service_us / MICROS
    limit_s: Any = cluster.limits[0]
    if cluster.order == "attained_gpu":
        limit_s = limit_s / np.maximum(workload.gpus, 1)
    makespan_s = float(np.ptp(workload.submit_us)) / MICROS + float(service_s.sum())
    by_waits = np.sqrt(2 * makespan_s / (cluster.starvation * limit_s))
    demotions = float(np.minimum(service_s / limit_s, by_waits).sum())
    if demotions > MOST_DEMOTIONS + MOST_DEMOTIONS_OF_A_JOB * workload.size:
        name = "limits_gpu_s" if cluster.order == "attained_gpu" else "limits_s"
        raise SettingError(
            ["starvation"],
            f"jobs could be demoted {demotions:,.0f} times with {name} of {cluster.limits[0]:g}. "
            f"Raise {name}, or leave out starvation",
        )


@contextmanager
def replayable(settings: Mapping[str, Any]) -> Iterator[None]:
    """Raise `UsageError` where the replay inside the block cannot be made."""
    try:
        yield
    except ValueError as error:
        problem = f"this replay cannot be made: {error}"
        longest = error.longest if isinstance(error, TimeOverflow) else None
        if longest in settings:
            raise SettingError([str(longest)], problem, LOWER.format(longest)) from error
        raise UsageError(f"{problem}\n  next: {FEWER_JOBS}") from error


def _without_effect(policy: str, settings: Mapping[str, Any], cluster: Cluster) -> tuple[str, ...]:
    """Warn of settings that change nothing: no job is stopped, all are equal, nothing is rented."""
    idle = [name for name in ("checkpoint_s", "restore_s") if settings.get(name)]
    notes = []
    if idle and not cluster.preemptive:
        have = "has" if len(idle) == 1 else "have"
        notes.append(f"{policy} never stops a job, so {' and '.join(idle)} {have} no effect")
    if not cluster.preemptive and cluster.order in ("attained", "attained_gpu", "gittins"):
        notes.append(
            f"without preemption all jobs that wait are new, so {policy} is first-fit"
            if cluster.skipping
            else f"without preemption all jobs that wait are new, so {policy} is fifo"
        )
    return tuple(notes)


def on_one_cluster(
    jobs: TraceJobs,
    settings: ReplaySettings,
    sized: SizedCluster,
    run: ClusterRun,
    notes: tuple[str, ...],
) -> Simulation:
    """Return the replay of a scheduler of one cluster; ``notes`` besides those on its size."""
    work, makespan = run.workload, float(run.makespan_us) * run.cluster.gpus
    pauses_s = (run.held_us - work.service_us) / MICROS

    def measured(bill: RunBill) -> dict[str, Any]:
        held = float(run.held_gpu_us.sum()) * share_within(run, jobs.window_us)
        fragmented: float | UnsetType | None = UNSET
        if run.cluster.gpus_per_node and not math.isnan(run.fragmented_gpu_us):
            fragmented = run.fragmented_gpu_us / makespan if makespan else None
        return fields_of(
            ClusterResults(
                mean_preemption_s=float(pauses_s.mean()),
                gpu_busy_share=held / bill.gpu_us if bill.gpu_us else None,
                fragmented_share=fragmented,
            )
        )

    return replayed(
        jobs,
        settings,
        ClusterReplay(
            run=run,
            size=sized.size,
            measured=measured,
            notes=(*sized.notes, *notes),
            columns=lambda: {"preemption_s": pauses_s},
        ),
    )
