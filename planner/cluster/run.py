"""Replay a trace on one cluster and say how long jobs took and what the cluster cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from gpuplan.analysis.errors import UsageError
from gpuplan.analysis.words import counted
from gpuplan.planner.cluster.settings import SCHEDULERS
from gpuplan.planner.settings import OF_PRICES, refuse_choice
from gpuplan.planner.simulation import SOON_S, Simulation
from gpuplan.planner.workload import TraceJobs
from gpuplan.simkit.cluster.parameters import Cluster
from gpuplan.simkit.cluster.run import ClusterRun, peak_gpus, run_cluster
from gpuplan.simkit.metrics import distribution, time_average
from gpuplan.simkit.workload import MICROS, FloatArray

GPU_US_PER_GPU_H = 3600.0 * MICROS


def simulate(jobs: TraceJobs, settings: Mapping[str, Any], policy: str) -> Simulation:
    """Run one of `SCHEDULERS` under settings; see `Scheduler.settings`. Nothing is random.

    Raises:
        UsageError: settings that no cluster can have, or a job wider than the cluster.
    """
    scheduler = SCHEDULERS[policy]
    refuse_choice(settings)
    values = scheduler.complete(settings)
    gpus, notes = _gpus(jobs, values)
    cluster = scheduler.cluster(values, gpus)
    notes += _without_effect(policy, settings, cluster)
    widest = int(jobs.workload.gpus.max())
    if widest > gpus:
        raise UsageError(
            f"--gpus {gpus}: the widest job holds {widest} GPUs at once and would never start\n"
            f"  next: --gpus {widest} or more, or leave wide jobs out with "
            f"--where 'num_gpus <= {gpus}'"
        )
    if cluster.as_published and jobs.workload.checkpoint_us is not None:
        raise UsageError(
            "--set reference=true: the published simulator stops jobs at no cost, and is run "
            "without --checkpoints"
        )
    price = float(values["usd_per_gpu_h"])
    if price < 0:
        raise UsageError(f"--set usd_per_gpu_h={price:g}: a price is at least 0")
    try:
        run = run_cluster(jobs.workload, cluster)
    except ValueError as error:
        raise UsageError(
            f"this replay cannot be made: {error}\n  next: leave the longest jobs out with --where"
        ) from error
    return Simulation(
        policy=policy,
        settings={k: v for k, v in values.items() if k not in OF_PRICES} | {"gpus": gpus},
        results=measure(run, price),
        frame=job_frame(jobs, run, price),
        warnings=notes,
        detail=run,
    )


def _gpus(jobs: TraceJobs, values: Mapping[str, Any]) -> tuple[int, tuple[str, ...]]:
    """Return the size of the cluster, and what to say where nobody gave it."""
    if values["gpus"] is not None:
        return int(values["gpus"]), ()
    gpus, each = peak_gpus(jobs.workload), values["gpus_per_node"]
    if each:
        gpus = -(-gpus // each) * each
    return gpus, (
        f"the cluster has {counted(gpus, 'GPU')}, as many as the jobs use at once if none waits; "
        "--gpus N replays a cluster of N",
    )


def _without_effect(policy: str, settings: Mapping[str, Any], cluster: Cluster) -> tuple[str, ...]:
    """Tell of settings that are about stops where no job is ever stopped, or of equal jobs."""
    idle = [name for name in ("checkpoint_s", "restore_s") if settings.get(name)]
    notes = []
    if idle and not cluster.preemptive:
        notes.append(f"{policy} stops no job, so {' and '.join(idle)} changes nothing")
    if not cluster.preemptive and cluster.order in ("attained", "attained_gpu", "gittins"):
        notes.append(
            f"without preemption all jobs that wait are new, so {policy} is first-fit"
            if cluster.skipping
            else f"without preemption all jobs that wait are new, so {policy} is fifo"
        )
    return tuple(notes)


def measure(run: ClusterRun, price: float) -> dict[str, Any]:
    """Return the headline numbers of a run at a price in USD per GPU-hour.

    JQT is time in the queue, and JCT = service + queue + preemption. ``utilization`` is the run
    time of jobs x their GPUs over the GPU time of the cluster until the last finish;
    ``gpu_busy_share`` counts what checkpoints and restores hold too.
    """
    work, cluster = run.workload, run.cluster
    service = work.service_us.astype(np.float64)
    rented = float(run.makespan_us) * cluster.gpus
    jct_s, jqt_s = run.jct_us / MICROS, run.jqt_us / MICROS
    found = {
        "jobs": work.size,
        "gpus": cluster.gpus,
        **distribution(jct_s, "jct", "s"),
        "mean_service_s": float(service.mean() / MICROS),
        **distribution(jqt_s, "jqt", "s"),
        "mean_queue_s": float(jqt_s.mean()),
        "mean_preemption_s": float((run.held_us - work.service_us).mean() / MICROS),
        "cost_usd": cost_usd(run, price),
        "finished_within_10min_share": float((jct_s <= SOON_S).mean()),
        "deadline_miss_share": float((run.finish_us > work.deadline_us).mean()),
        "preemptions": int(run.stops.sum()),
        "preempted_jobs": int((run.stops > 0).sum()),
        "gpu_h": float((service * work.gpus).sum() / GPU_US_PER_GPU_H),
        "utilization": float((service * work.gpus).sum() / rented) if rented else None,
        "gpu_busy_share": float(run.held_gpu_us.sum() / rented) if rented else None,
        "waiting_mean": _mean_over_time(run, run.waiting),
        "waiting_peak": int(run.waiting.max()),
        "makespan_s": run.makespan_us / MICROS,
    }
    if cluster.gpus_per_node:
        found["fragmented_share"] = run.fragmented_gpu_us / rented if rented else None
    return found


def cost_usd(run: ClusterRun, price: float) -> float:
    """Return the bill: every GPU from the first submission to the last finish."""
    return run.makespan_us * run.cluster.gpus / GPU_US_PER_GPU_H * price


def job_usd(run: ClusterRun, price: float) -> FloatArray:
    """Return each job's share of the bill by the GPU time it held; idle GPUs are thus paid by all.

    Where no job held any, by its GPUs.
    """
    held = run.held_gpu_us
    if not held.any():
        held = run.workload.gpus.astype(np.float64)
    shares: FloatArray = cost_usd(run, price) * held / held.sum()
    return shares


def job_frame(jobs: TraceJobs, run: ClusterRun, price: float) -> pl.DataFrame:
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
            "gpu_s": service_s * run.workload.gpus,
            "cost_usd": job_usd(run, price),
            "preemption_s": held_s - service_s,
            "preemptions": run.stops,
        }
    )


def _mean_over_time(run: ClusterRun, values: Any) -> float:
    time_s = (run.time_us - run.time_us[0]) / MICROS
    return time_average(time_s, values.astype(np.float64), run.makespan_us / MICROS)
