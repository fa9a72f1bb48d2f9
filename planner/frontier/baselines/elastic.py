"""Policies that share a cluster anew every minute: equal share, Pollux, Pollux with autoscaling.

Sources: Qiao et al., "Pollux", OSDI 2021; the autoscaler as "BOA Constrictor", section 6.1, has it.
Where they depart from the originals: docs/boa.md, "Baselines".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuplan.analysis.errors import InfeasibleError, UsageError
from gpuplan.planner.frontier.model.exact import JobClass
from gpuplan.planner.frontier.model.job_classes import ClassWorkload
from gpuplan.planner.frontier.replay.renting import RentedCluster
from gpuplan.planner.frontier.replay.replay import PlanReplay, jobs_of, replay_of
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.renting.billing import billed_gpu_us, leases_of
from gpuplan.simkit.rounds.simulator import ElasticJobs, RoundsPolicy, run_rounds
from gpuplan.simkit.time import HOUR_S, MICROS, MICROS_PER_HOUR, to_micros

INTERVAL_S = 60.0
BAND = 0.05
NO_LIMIT = 1 << 30


def equal_share(workload: ClassWorkload, cluster: RentedCluster, gpus: float) -> PlanReplay:
    """Run the jobs on a fixed cluster of ``gpus``, shared equally; raises as `pollux`."""
    return run_elastic(workload, cluster, _fixed("equal", cluster, gpus))


def pollux(workload: ClassWorkload, cluster: RentedCluster, gpus: float) -> PlanReplay:
    """Run the jobs under Pollux on a fixed cluster of ``gpus``, rounded down to whole nodes.

    It has one node at least, and no more than ``cluster.max_gpus``.

    Raises:
        InfeasibleError: some job could never run on so few.
        UsageError: as `elastic_jobs`.
    """
    return run_elastic(workload, cluster, _fixed("pollux", cluster, gpus))


def pollux_autoscaled(workload: ClassWorkload, cluster: RentedCluster, target: float) -> PlanReplay:
    """Run the jobs under Pollux on a cluster that aims at an efficiency.

    The size whose best allocation has the efficiency closest to ``target`` is chosen whenever the
    efficiency (sum of speedups over GPUs) is off by more than `BAND`; nodes come after
    ``cluster.provision_s``, and the cluster is empty while there are no jobs.

    Raises:
        InfeasibleError: some job could never run on ``cluster.max_gpus``.
        UsageError: as `elastic_jobs`, or a target of 0 or less.
    """
    return run_elastic(workload, cluster, autoscaling(cluster, target))


def run_elastic(
    workload: ClassWorkload,
    cluster: RentedCluster,
    policy: RoundsPolicy,
    *,
    believed: Sequence[JobClass] = (),
) -> PlanReplay:
    """Run the jobs of a workload under an elastic policy.

    Args:
        workload: the jobs; their epochs have the speedups of its classes.
        cluster: how GPUs are billed; the rest is up to the policy.
        policy: the policy and its cluster.
        believed: the classes with the speedups that the policy sees; the true ones by default.

    Raises:
        InfeasibleError: some job could never run on ``policy.max_gpus``.
        UsageError: as `elastic_jobs`.
    """
    jobs = elastic_jobs(workload, believed=believed)
    room = policy.max_gpus // policy.node_gpus * policy.node_gpus
    if jobs.least_gpus > room:
        raise InfeasibleError(
            f"some jobs need {jobs.least_gpus} GPUs at least, and a cluster of {policy.max_gpus:g} "
            f"has {room} in whole nodes"
        )
    run = run_rounds(jobs, policy)
    time_s = run.time_us / MICROS
    return replay_of(
        jobs_of(workload),
        workload.horizon_h,
        jct_s=(run.finish_us - jobs.submit_us) / MICROS,
        jqt_s=run.waited_us / MICROS,
        rescales=run.starts,
        held_gpu_h=float(run.held_us.sum()) / MICROS / HOUR_S,
        time_s=time_s,
        gpus=run.gpus,
        billed_gpu_h=billed_gpu_h(run.time_us, run.gpus, cluster, waits=policy.provision_s),
    )


def elastic_jobs(workload: ClassWorkload, *, believed: Sequence[JobClass] = ()) -> ElasticJobs:
    """Return the jobs of a workload with their speedups at whole numbers of GPUs.

    Raises:
        UsageError: a class has widths of several GPU types, or no whole one.
    """
    classes, arrivals = workload.classes, jobs_of(workload)
    epochs = [c.work_h.size for c in classes]
    shares = [c.work_h / c.work_h.sum() if c.work_h.any() else np.ones(1) for c in classes]
    return ElasticJobs(
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
    return billed_gpu_us(*leases_of(time_us, gpus), step_us, free_us) / MICROS_PER_HOUR


def autoscaling(cluster: RentedCluster, target: float) -> RoundsPolicy:
    """Return Pollux with autoscaling towards a target; raises `UsageError` if that is not > 0."""
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


def _fixed(share: str, cluster: RentedCluster, gpus: float) -> RoundsPolicy:
    node, most = cluster.node_gpus, cluster.max_gpus or NO_LIMIT
    return RoundsPolicy(share, max(node, min(int(gpus), most)), node, INTERVAL_S)


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
        whole = job_class.widths == np.floor(job_class.widths)
        if not whole.any():
            raise UsageError(f"class {job_class.name!r} has no width of whole GPUs to run on")
        table = np.zeros((job_class.work_h.size, widest + 1))
        table[:, job_class.widths[whole].astype(np.int64)] = job_class.speedup[:, whole]
        rows.append(table)
    return np.concatenate(rows)
