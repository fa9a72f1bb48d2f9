"""EASY and conservative backfill on one cluster, planned with time limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuplan.analysis.base.words import counted
from gpuplan.planner.money.renting_settings import (
    OF_PRICES,
    RENTED,
    idle_of_market,
    priced_values,
)
from gpuplan.planner.policies.cluster_settings import SHARED, whole_nodes
from gpuplan.planner.policies.policy import Policy
from gpuplan.planner.runs.settings import (
    Setting,
    SettingError,
    check_values,
    check_widest,
    defaults_of,
)

if TYPE_CHECKING:
    from gpuplan.planner.runs.simulation import Simulation
    from gpuplan.planner.runs.trace_jobs import TraceJobs
    from gpuplan.simkit.arrays import IntArray
    from gpuplan.simkit.cluster.parameters import Cluster
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


def simulate(jobs: TraceJobs, settings: Mapping[str, Any], name: str) -> Simulation:
    """Replay jobs under ``easy`` or ``conservative`` backfill. Nothing is random.

    Raises:
        UsageError: settings that no cluster can have, or a job wider than the cluster.
    """
    from gpuplan.planner.policies.cluster import job_frame, measure
    from gpuplan.planner.policies.cluster_bill import bill_of, terms_of
    from gpuplan.planner.runs.cluster_setting import pool_of
    from gpuplan.planner.runs.panels import usage_lines
    from gpuplan.planner.runs.simulation import Simulation
    from gpuplan.planner.runs.timelines import usage_frame
    from gpuplan.simkit.cluster.parameters import Cluster
    from gpuplan.simkit.cluster.simulator import enough_gpus
    from gpuplan.simkit.cluster_shape import GpuPool

    check_values(SETTINGS, settings)
    values = priced_values(defaults_of(SETTINGS), settings)
    limit_us, used_factor, limits_note = time_limits(jobs, values["limit_factor"])
    pool = pool_of(values, name)
    each = None if pool is None else pool.gpus_per_node
    cluster = Cluster((pool and pool.gpus) or each or 1, gpus_per_node=each)
    is_sized = pool is not None and pool.gpus is not None
    if not is_sized:
        cluster = replace(cluster, gpus=enough_gpus(jobs.workload, cluster))
    widest = int(jobs.workload.gpus.max())
    size = "gpus" if values["cluster"] is None else "cluster"
    check_widest(widest, cluster.gpus, size, "would never start", whole_nodes(widest, each))
    many = cluster.gpus if each is None else cluster.gpus // each
    most = MOST_GPUS_OF_A_NODE if each is None else MOST_NODES
    if many > most:
        raise SettingError(
            [size],
            f"{name} takes at most {most:,} {'GPUs' if each is None else 'nodes'}, got {many:,}",
            "a smaller cluster, or first-fit, which takes more",
        )
    terms = terms_of(values)
    run = backfill_run(jobs.workload, cluster, name, limit_us)
    bill = bill_of(run, terms, jobs.window_us, cluster.gpus)
    shape = GpuPool(cluster.gpus, each, None if pool is None else pool.gpu_type)
    own = SETTINGS.keys() - OF_PRICES.keys() - RENTED.keys()
    described = {"cluster": str(shape), "gpus": cluster.gpus, "gpus_per_node": each}
    results = measure(run, bill, jobs.window_us)
    results.pop("fragmented_share", None)  # not measured here
    return Simulation(
        policy=name,
        settings={key: values[key] for key in values if key in own}
        | {"limit_factor": used_factor}
        | described
        | terms.effective(),
        results=results,
        rows=partial(job_frame, jobs, run, bill),
        warnings=(
            *(() if is_sized else (f"the cluster has {cluster.gpus:,} GPUs, as many as the jobs "
                                   "use at once if none waits; set cluster for another size",)),
            limits_note,
            *(idle_of_market(terms.rented) if terms.usd_per_gpu_h is None else ()),
        ),
        timeline=partial(usage_frame, run),
        run=run,
        lines=partial(usage_lines, run),
    )  # fmt: skip


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
    known = recorded >= 0
    if known.all():
        return recorded, None, "time limits are those that the trace recorded"
    without = counted(int((~known).sum()), "job")
    return (
        np.where(known, recorded, assumed),
        by_factor,
        f"time limits are those that the trace recorded; for {without} without one they are "
        f"assumed: {times}",
    )


def backfill_run(
    workload: Workload, cluster: Cluster, backfill: str, limit_us: IntArray
) -> ClusterRun:
    """Replay a workload in whole microseconds.

    A gang takes equal shares of as few nodes as can hold it.

    Args:
        workload: the jobs, sorted by submission; none is wider than the cluster.
        cluster: its size; the rest of its rules does not matter.
        backfill: ``easy`` or ``conservative``.
        limit_us: time limit of each job.
    """
    from gpuplan.simkit.cluster.simulator import ClusterRun
    from gpuplan.simkit.run import usage_of_gangs
    from gpuplan.simkit.twin.jobs import NEVER, SiteJobs
    from gpuplan.simkit.twin.simulator import replay_site
    from gpuplan.simkit.twin.site import SchedulerConfig, SiteCluster, SiteNode, SitePartition

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
        usage.used, usage.waiting, 0.0, 0,
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
