"""EASY and conservative backfill on one cluster, planned with time limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuplan.analysis.base.words import counted
from gpuplan.planner.policies.cluster_settings import SHARED
from gpuplan.planner.policies.policy import Policy
from gpuplan.planner.runs.settings import Setting, SettingError
from gpuplan.simkit.cluster.parameters import Cluster
from gpuplan.simkit.run import usage_of_gangs
from gpuplan.simkit.twin.jobs import NEVER, SiteJobs
from gpuplan.simkit.twin.site import SchedulerConfig, SiteCluster, SiteNode, SitePartition

if TYPE_CHECKING:
    from gpuplan.planner.runs.simulation import Simulation
    from gpuplan.planner.runs.trace_jobs import TraceJobs
    from gpuplan.simkit.arrays import IntArray
    from gpuplan.simkit.cluster.simulator import ClusterRun
    from gpuplan.simkit.workload import Workload

WITHOUT = ("preemptive", "skipping", "checkpoint_s", "restore_s")
LIMIT_FACTOR = 2.0
MOST_NODES, MOST_GPUS_OF_A_NODE = (1 << 20) - 1, (1 << 24) - 1
"""What the simulator of sites can count."""
SETTINGS: dict[str, Setting] = {
    **{name: setting for name, setting in SHARED.items() if name not in WITHOUT},
    "limit_factor": Setting(
        "number",
        "time limit of a job over its run time; 1 is exact. Without it recorded limits count, and "
        "where there are none 2 times the run time",
        at_least=1,
        at_most=1000,
        optional=True,
    ),
}


def simulate(jobs: TraceJobs, typed: Mapping[str, Any], name: str) -> Simulation:
    """Replay jobs under ``easy`` or ``conservative`` backfill. Nothing is random.

    Raises:
        UsageError: settings that no cluster can have, or a job wider than the cluster.
    """
    from gpuplan.planner.policies.cluster import on_one_cluster, sized_cluster
    from gpuplan.planner.policies.cluster_replay import replay_settings

    settings = replay_settings(name, SETTINGS, typed)
    limit_us, used_factor, limits_note = time_limits(jobs, settings.values["limit_factor"])
    sized = sized_cluster(
        *(jobs, settings),
        lambda pool: Cluster(
            pool.gpus or pool.gpus_per_node or 1, gpus_per_node=pool.gpus_per_node
        ),
    )
    each = sized.cluster.gpus_per_node
    many = sized.cluster.gpus // (each or 1)
    most = MOST_GPUS_OF_A_NODE if each is None else MOST_NODES
    if many > most:
        raise SettingError(
            [settings.size_setting],
            f"{name} takes at most {most:,} {'GPUs' if each is None else 'nodes'}, got {many:,}",
            "a smaller cluster, or first-fit, which takes more",
        )
    sized = replace(sized, size={**sized.size, "limit_factor": used_factor})
    run = backfill_run(jobs.workload, sized.cluster, name, limit_us)
    return on_one_cluster(jobs, settings, sized, run, (limits_note,))


def time_limits(jobs: TraceJobs, factor: float | None) -> tuple[IntArray, float | None, str]:
    """Return the time limit of each job in microseconds, and where the limits come from.

    Args:
        jobs: the jobs, with the limits that their trace recorded.
        factor: limit over run time for every job; None for the recorded limits, and
            `LIMIT_FACTOR` for jobs without one.

    Returns:
        The limits; the factor used, None where every limit is recorded; a sentence that says so.
    """
    service, recorded = jobs.workload.service_us, jobs.limit_us
    by_factor = factor if factor is not None else LIMIT_FACTOR
    assumed = np.maximum(np.ceil(service * by_factor), 1).astype(np.int64)
    times = f"{by_factor:g} times the run time of each job (limit_factor)"
    if factor is not None or recorded is None:
        return assumed, by_factor, f"time limits are assumed: {times}"
    has_limit = recorded >= 0
    if has_limit.all():
        return recorded, None, "time limits are those that the trace recorded"
    without = counted(int((~has_limit).sum()), "job")
    return (
        np.where(has_limit, recorded, assumed),
        by_factor,
        f"time limits are those that the trace recorded; for {without} without one they are "
        f"assumed: {times}",
    )


def backfill_run(
    workload: Workload, cluster: Cluster, backfill: str, limit_us: IntArray
) -> ClusterRun:
    """Replay a workload in whole microseconds under ``easy`` or ``conservative``.

    A gang takes equal shares of as few nodes as can hold it. No job is wider than the cluster, of
    which only the size matters.
    """
    from gpuplan.simkit.cluster.simulator import ClusterRun
    from gpuplan.simkit.twin.simulator import replay_site

    size = cluster.gpus_per_node or cluster.gpus  # without nodes all GPUs are on one
    names = tuple(f"n{i}" for i in range(cluster.gpus // size))
    site = SiteCluster(
        tuple(SiteNode(name, size) for name in names), (SitePartition("all", names),)
    )
    n, submit = workload.size, workload.submit_us
    nodes = -(-workload.gpus // size)
    none, zero = np.full(n, NEVER, np.int64), np.zeros(n, np.int64)
    jobs = SiteJobs(
        np.arange(n), submit, submit, nodes, -(-workload.gpus // nodes), limit_us,
        workload.service_us, none, none, zero, workload.gpus.astype(np.float64),
        zero, zero, zero, zero, zero, ("",), ("",), ("all",), ("",), ("",),
    )  # fmt: skip
    run = replay_site(site, jobs, SchedulerConfig(backfill=backfill))
    usage = usage_of_gangs(submit, run.start, run.end, workload.gpus)
    return ClusterRun(
        workload, cluster, run.start, run.end, workload.service_us, zero, usage.time_us,
        usage.used, usage.waiting, np.nan, 0,  # not measured
    )  # fmt: skip


def _policy(name: str, about: str, source: str) -> Policy:
    def run(jobs: TraceJobs, settings: Mapping[str, Any], _: np.random.Generator) -> Simulation:
        return simulate(jobs, settings, name)

    return Policy(name, about, source, SETTINGS, run)


EASY = _policy(
    "easy",
    "first come, first served; a job passes that does not delay the first in line",
    "Lifka, 1995 (EASY backfill)",
)
CONSERVATIVE = _policy(
    "conservative",
    "first come, first served; a job passes others if it delays none of them",
    "Mu'alem and Feitelson, TPDS 2001",
)
POLICIES = (EASY, CONSERVATIVE)
