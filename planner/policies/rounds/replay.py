"""Policies that share a cluster anew in every round, on the jobs of a workload.

Sources: Qiao et al., "Pollux", OSDI 2021; the autoscaler as "BOA Constrictor", section 6.1, has it.
Where they depart from the originals: docs/boa.md, "Baselines".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuplan.analysis.base.errors import InfeasibleError, UsageError
from gpuplan.planner.elastic.job_class import JobClass
from gpuplan.planner.elastic.job_classes import ClassWorkload
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.elastic.replay import PlanReplay, jobs_of
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.renting.billing import billed_gpu_us
from gpuplan.simkit.rounds.decisions import Decide, RoundsCluster, run_decisions
from gpuplan.simkit.rounds.simulator import RoundsJobs, RoundsPolicy, RoundsRun, run_rounds
from gpuplan.simkit.run import leases_of
from gpuplan.simkit.time import (
    FOREVER,
    HOUR_S,
    MICROS,
    MICROS_PER_HOUR,
    TimeOverflow,
    to_micros,
)

INTERVAL_S = 60.0
BAND = 0.05
MOST_PAUSE_S = 6 * HOUR_S
"""Longest start or resize under a policy that scales its cluster every minute."""
NO_LIMIT = 1 << 30


def standing(share: str, cluster: RentedCluster, gpus: float) -> RoundsPolicy:
    """Return a policy on a fixed cluster of ``gpus``, rounded down to whole nodes.

    It has one node at least, and no more than ``cluster.max_gpus``.
    """
    node, most = cluster.node_gpus, cluster.max_gpus or NO_LIMIT
    return RoundsPolicy(share, max(node, min(int(gpus), most)), node, INTERVAL_S)


def autoscaling(cluster: RentedCluster, target: float) -> RoundsPolicy:
    """Return Pollux on a cluster that aims at an efficiency.

    The size whose best allocation has the efficiency closest to ``target`` is chosen whenever the
    efficiency (sum of speedups over GPUs) is off by more than `BAND`; nodes come after
    ``cluster.provision_s``, and the cluster is empty while there are no jobs.

    Raises:
        UsageError: a target of 0 or less.
    """
    if not 0 < target < float("inf"):
        raise UsageError(f"a target efficiency must be above 0, got {target:g}")
    return RoundsPolicy(
        "pollux",
        max_gpus=cluster.max_gpus or NO_LIMIT,
        node_gpus=cluster.node_gpus,
        interval_s=INTERVAL_S,
        target=target,
        band=BAND,
        provision_s=cluster.provision_s,
    )


def replay_rounds(
    workload: ClassWorkload,
    cluster: RentedCluster,
    policy: RoundsPolicy,
    *,
    believed: Sequence[JobClass] = (),
) -> PlanReplay:
    """Run the jobs of a workload under a policy.

    Args:
        workload: the jobs; their epochs have the speedups of its classes.
        cluster: how GPUs are billed; the rest is up to the policy.
        policy: the policy and its cluster.
        believed: the classes with the speedups that the policy sees; the true ones by default.

    Raises:
        InfeasibleError: some job could never run on ``policy.max_gpus``.
        UsageError: as `rounds_jobs`, or times too long to be counted.
    """
    try:
        run = play(workload, policy, believed=believed)
    except TimeOverflow as error:
        raise UsageError(f"the jobs cannot be replayed: {error}\n  next: --no-replay") from error
    return _replay_of(workload, cluster, run, waits=policy.provision_s)


def replay_decisions(
    workload: ClassWorkload, cluster: RentedCluster, gpus: float, decide: Decide
) -> PlanReplay:
    """Run the jobs of a workload on a fixed cluster under decisions in plain Python.

    The cluster has ``gpus`` as `standing` has them; raises as `replay_rounds`.
    """
    size = standing("equal", cluster, gpus).whole_gpus
    try:
        run = play_decisions(workload, size, decide)
    except TimeOverflow as error:
        raise UsageError(f"the jobs cannot be replayed: {error}\n  next: --no-replay") from error
    return _replay_of(workload, cluster, run, waits=0.0)


def _replay_of(
    workload: ClassWorkload, cluster: RentedCluster, run: RoundsRun, *, waits: float
) -> PlanReplay:
    """Return what a run measured, with the bill of its cluster."""
    return PlanReplay(
        jobs_of(workload),
        workload.horizon_h,
        jct_s=(run.finish_us - run.submit_us) / MICROS,
        jqt_s=run.waited_us / MICROS,
        rescales=run.starts,
        held_gpu_h=float(run.held_us.sum()) / MICROS / HOUR_S,
        time_s=run.time_us / MICROS,
        gpus=run.gpus,
        billed_gpu_h=billed_gpu_h(run.time_us, run.gpus, cluster, waits=waits),
    )


def play(
    workload: ClassWorkload, policy: RoundsPolicy, *, believed: Sequence[JobClass] = ()
) -> RoundsRun:
    """Run the jobs as `replay_rounds` does and return what the simulator measured.

    Raises:
        InfeasibleError, UsageError: as there.
        TimeOverflow: times too long to be counted.
    """
    jobs = rounds_jobs(workload, believed=believed)
    _check_room(jobs, policy.max_gpus, policy.whole_gpus)
    _check_range(jobs)
    if policy.target is not None:
        _check_pauses(jobs)
    return run_rounds(jobs, policy)


def play_decisions(workload: ClassWorkload, gpus: int, decide: Decide) -> RoundsRun:
    """Run the jobs on a cluster of ``gpus`` under decisions in plain Python; raises as `play`."""
    jobs = rounds_jobs(workload)
    _check_room(jobs, gpus, gpus)
    _check_range(jobs)
    return run_decisions(jobs, RoundsCluster((gpus,), interval_s=INTERVAL_S), decide)


def _check_pauses(jobs: RoundsJobs) -> None:
    """Refuse pauses in which a policy that scales would decide hundreds of times for nothing."""
    longest_s = int(jobs.rescale_us.max()) / MICROS
    if longest_s > MOST_PAUSE_S:
        raise UsageError(
            f"pollux-autoscaling decides every {INTERVAL_S:g} s, and a start or resize takes "
            f"{longest_s:g} s; at most {MOST_PAUSE_S:g} s can be replayed\n"
            "  next: a shorter --rescale, or another policy"
        )


def _check_room(jobs: RoundsJobs, gpus: float, whole_node_gpus: int) -> None:
    """Refuse jobs that could never run on ``whole_node_gpus``, those of whole nodes."""
    if jobs.least_gpus > whole_node_gpus:
        raise InfeasibleError(
            f"some jobs need {jobs.least_gpus} GPUs at least, and a cluster of {gpus:g} "
            f"has {whole_node_gpus} in whole nodes"
        )


def _check_range(jobs: RoundsJobs) -> None:
    """Refuse what could leave the range of int64: all jobs one by one, at their least speedup."""
    usable = jobs.speedup > 0
    widths = np.arange(jobs.speedup.shape[-1])
    slowest = float((widths / np.where(usable, jobs.speedup, np.inf)).max())
    slowest = max(slowest, float((1 / np.where(usable, jobs.speedup, np.inf)).max()))
    pauses = float(jobs.rescale_us.max()) * widths.size * jobs.submit_us.size
    if float(jobs.submit_us[-1]) + slowest * float(jobs.work_us.sum()) + pauses > FOREVER:
        raise TimeOverflow("the jobs add up to more than 36,000 years of GPU time")


def rounds_jobs(workload: ClassWorkload, *, believed: Sequence[JobClass] = ()) -> RoundsJobs:
    """Return the jobs of a workload with their speedups at whole numbers of GPUs.

    Raises:
        UsageError: a class has widths of several GPU types, or no whole one.
    """
    classes, arrivals = workload.classes, jobs_of(workload)
    epochs = [c.work_h.size for c in classes]
    shares = [c.work_h / c.work_h.sum() if c.work_h.any() else np.ones(1) for c in classes]
    return RoundsJobs(
        submit_us=to_micros(arrivals.submit_s),
        group=arrivals.job_class,
        work_us=arrivals.work_h * HOUR_S * MICROS,
        first_epoch=np.concatenate(([0], np.cumsum(epochs))).astype(np.int64),
        work_share=np.concatenate(shares),
        speedup=_speedups(classes),
        rescale_us=to_micros([c.rescale_h * HOUR_S for c in classes]),
        belief=_speedups(believed) if believed else None,
    )


def billed_gpu_h(
    time_us: IntArray, gpus: IntArray, cluster: RentedCluster, *, waits: float
) -> float:
    """Return the GPU-hours billed for a time line of rented GPUs; the last rented goes first.

    ``waits`` is the time in seconds until a node is ready; it is not billed where the bill begins
    when a node is ready.
    """
    free_us = int(to_micros(waits)) if cluster.billed_from == "ready" else 0
    step_us = int(to_micros(cluster.billing_s))
    leases = leases_of(time_us, gpus)
    held_us = leases.end_us - leases.begin_us
    return billed_gpu_us(held_us, leases.gpus, step_us, free_us) / MICROS_PER_HOUR


def _speedups(classes: Sequence[JobClass]) -> FloatArray:
    """Return s at 0, 1, 2, ... GPUs, a row per epoch; 0 where a class has no such width."""
    widest = max(int(c.widths.max()) for c in classes)
    rows = []
    for job_class in classes:
        if len(set(job_class.gpu_types)) > 1:
            raise UsageError(
                f"class {job_class.name!r} has widths of several GPU types, and this policy one "
                "cluster of one type\n  next: plan for one GPU type to compare with it"
            )
        is_whole = job_class.widths == np.floor(job_class.widths)
        if not is_whole.any():
            raise UsageError(f"class {job_class.name!r} has no width of whole GPUs to run on")
        table = np.zeros((job_class.work_h.size, widest + 1))
        table[:, job_class.widths[is_whole].astype(np.int64)] = job_class.speedup[:, is_whole]
        rows.append(table)
    return np.concatenate(rows)
