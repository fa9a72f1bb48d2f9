"""Replay a trace on one cluster and say how long jobs took and what the cluster cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.history.jobs import PeriodUs
from gpuplan.planner.money.renting_settings import OF_PRICES, RENTED, idle_of_market
from gpuplan.planner.policies.cluster_bill import ClusterBill, bill_of, terms_of
from gpuplan.planner.policies.cluster_settings import SCHEDULERS, Scheduler, whole_nodes
from gpuplan.planner.runs.cluster_setting import pool_of
from gpuplan.planner.runs.panels import usage_lines
from gpuplan.planner.runs.settings import (
    FEWER_JOBS,
    LOWER,
    SettingError,
    check_values,
    check_widest,
)
from gpuplan.planner.runs.simulation import SOON_S, Simulation
from gpuplan.planner.runs.timelines import usage_frame
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.planner.runs.window import share_within
from gpuplan.simkit.cluster.parameters import Cluster
from gpuplan.simkit.cluster.simulator import ClusterRun, enough_gpus, run_cluster
from gpuplan.simkit.cluster_shape import GpuPool
from gpuplan.simkit.metrics import distribution
from gpuplan.simkit.steps import time_average
from gpuplan.simkit.time import MICROS, MICROS_PER_HOUR, TimeOverflow
from gpuplan.simkit.workload import Workload


def simulate(jobs: TraceJobs, settings: Mapping[str, Any], policy: str) -> Simulation:
    """Run one of `SCHEDULERS` under settings; see `Scheduler.settings`. Nothing is random.

    Raises:
        UsageError: settings that no cluster can have, or a job wider than the cluster.
    """
    scheduler = SCHEDULERS[policy]
    check_values(scheduler.settings, settings)
    values = scheduler.complete(settings)
    pool = pool_of(values, policy)
    cluster = _sized(scheduler, pool, jobs.workload, values, settings)
    widest = int(jobs.workload.gpus.max())
    least = whole_nodes(widest, cluster.gpus_per_node)
    size = "gpus" if values["cluster"] is None else "cluster"
    check_widest(widest, cluster.gpus, size, "would never start", least)
    if cluster.as_published and jobs.workload.checkpoint_us is not None:
        raise SettingError(
            ["reference"],
            "the published simulator stops jobs at no cost, and is run without --checkpoints",
        )
    terms = terms_of(values)
    with _replayable(settings):
        run = run_cluster(jobs.workload, cluster, policy)
    bill = bill_of(run, terms, jobs.window_us, cluster.gpus)
    own = scheduler.settings.keys() - OF_PRICES.keys() - RENTED.keys()
    plain = {name: value for name, value in values.items() if name in own}
    return Simulation(
        policy=policy,
        settings=plain | _described(cluster, pool) | terms.effective(),
        results=measure(run, bill, jobs.window_us),
        rows=partial(job_frame, jobs, run, bill),
        warnings=(
            *(() if pool is not None and pool.gpus else (_told(cluster),)),
            *_without_effect(policy, settings, cluster),
            *(idle_of_market(terms.rented) if terms.usd_per_gpu_h is None else ()),
        ),
        timeline=partial(usage_frame, run),
        run=run,
        lines=partial(usage_lines, run),
    )


def _described(cluster: Cluster, pool: GpuPool | None) -> dict[str, Any]:
    """Return the shape of a cluster as settings: its text form, its GPUs, GPUs of a node."""
    gpu_type = None if pool is None else pool.gpu_type
    shape = GpuPool(cluster.gpus, cluster.gpus_per_node, gpu_type)
    return {
        "cluster": str(shape),
        "gpus": cluster.gpus,
        "gpus_per_node": cluster.gpus_per_node,
    }


def _sized(
    scheduler: Scheduler,
    pool: GpuPool | None,
    workload: Workload,
    values: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> Cluster:
    """Return the cluster that complete settings make; where none gives a size, one large enough.

    Raises:
        UsageError: values that no cluster can have.
    """
    one = scheduler.cluster(values, pool or GpuPool(1))
    if pool is not None and pool.gpus is not None:
        return one
    with _replayable(settings):
        return replace(one, gpus=enough_gpus(workload, one))


def _told(cluster: Cluster) -> str:
    """Return the note on a size that was not given."""
    each = cluster.gpus_per_node
    why = (
        f"the fewest nodes of {each} on which no job waits or is stopped"
        if each
        else "as many as the jobs use at once if none waits"
    )
    return f"the cluster has {counted(cluster.gpus, 'GPU')}, {why}; set cluster for another size"


@contextmanager
def _replayable(settings: Mapping[str, Any]) -> Iterator[None]:
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
    offered = [name for name in RENTED if name in settings]
    if offered and settings.get("usd_per_gpu_h") is not None:
        notes.append(f"usd_per_gpu_h is the whole price, so {', '.join(offered)} changes nothing")
    if idle and not cluster.preemptive:
        notes.append(f"{policy} stops no job, so {' and '.join(idle)} changes nothing")
    if not cluster.preemptive and cluster.order in ("attained", "attained_gpu", "gittins"):
        notes.append(
            f"without preemption all jobs that wait are new, so {policy} is first-fit"
            if cluster.skipping
            else f"without preemption all jobs that wait are new, so {policy} is fifo"
        )
    return tuple(notes)


def measure(
    run: ClusterRun, bill: ClusterBill, window_us: PeriodUs | None = None
) -> dict[str, Any]:
    """Return the headline numbers of a run and its bill.

    JQT is time in the queue, and JCT = service + queue + preemption. ``gpu_h`` is run time x GPUs
    (a fraction of one as such). ``utilization`` is the part of it within the window over the GPU
    time paid for; ``gpu_busy_share`` counts the GPUs held, whole ones, with checkpoints and
    restores. Without a window it ends with the last job.
    """
    work, cluster = run.workload, run.cluster
    gpu_us = float((work.service_us * work.billed_gpus).sum())
    within = share_within(run, window_us)
    paid = float(bill.gpu_us)
    makespan = float(run.makespan_us) * cluster.gpus
    jct_s, jqt_s = run.jct_us / MICROS, run.jqt_us / MICROS
    found = {
        "jobs": work.size,
        "gpus": cluster.gpus,
        **distribution(jct_s, "jct", "s"),
        "mean_service_s": float(work.service_us.mean() / MICROS),
        **distribution(jqt_s, "jqt", "s"),
        "mean_queue_s": float(jqt_s.mean()),
        "mean_preemption_s": float((run.held_us - work.service_us).mean() / MICROS),
        **bill.summary(),
        "finished_within_10min_share": float((jct_s <= SOON_S).mean()),
        "deadline_miss_share": float((run.finish_us > work.deadline_us).mean()),
        "preemptions": int(run.stops.sum()),
        "preempted_jobs": int((run.stops > 0).sum()),
        "gpu_h": gpu_us / MICROS_PER_HOUR,
        "utilization": gpu_us * within / paid if paid else None,
        "gpu_busy_share": float(run.held_gpu_us.sum()) * within / paid if paid else None,
        "paid_gpu_h": paid / MICROS_PER_HOUR,
        "waiting_mean": _mean_over_time(run, run.waiting),
        "waiting_peak": int(run.waiting.max()),
        "makespan_s": run.makespan_us / MICROS,
    }
    if cluster.gpus_per_node:
        found["fragmented_share"] = run.fragmented_gpu_us / makespan if makespan else None
    return found


def job_frame(jobs: TraceJobs, run: ClusterRun, bill: ClusterBill) -> pl.DataFrame:
    """Return one row per job; ``cost_usd`` adds up to the whole bill."""
    held_s = run.held_us / MICROS
    service_s = run.workload.service_us / MICROS
    return pl.DataFrame(
        {
            "job_id": jobs.job_id,
            "submit_s": run.workload.submit_us / MICROS,
            "start_s": run.start_us / MICROS,
            "finish_s": run.finish_us / MICROS,
            "jct_s": run.jct_us / MICROS,
            "jqt_s": run.jqt_us / MICROS,
            "gpu_s": service_s * run.workload.billed_gpus,
            "cost_usd": bill.shares(run, run.workload.gpus),
            "preemption_s": held_s - service_s,
            "preemptions": run.stops,
        }
    )


def _mean_over_time(run: ClusterRun, values: Any) -> float:
    time_s = (run.time_us - run.time_us[0]) / MICROS
    return time_average(time_s, values.astype(np.float64), run.makespan_us / MICROS)
