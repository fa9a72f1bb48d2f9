"""Run a workload on one cluster under one policy: checks, kernel, and results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from gpuplan.simkit.arrays import FloatArray, IntArray, distinct
from gpuplan.simkit.cluster import kernel, reference
from gpuplan.simkit.cluster.parameters import PUBLISHED, Cluster
from gpuplan.simkit.heap import sections
from gpuplan.simkit.limits import MOST_GPUS
from gpuplan.simkit.run import Leases, Usage, one_lease
from gpuplan.simkit.steps import peak_overlap
from gpuplan.simkit.time import FOREVER, MICROS, TimeOverflow, to_micros
from gpuplan.simkit.watch import watched
from gpuplan.simkit.workload import Workload

SORTED_AS_PUBLISHED = {
    "width": reference.NARROWEST,
    "remaining": reference.REMAINING,
    "remaining_gpu": reference.REMAINING_GPUS,
}


@dataclass(frozen=True, slots=True)
class ClusterRun:
    """The results of a run; times in microseconds after the first submission, arrays of shape (n,).

    Attributes:
        workload: the jobs.
        cluster: the cluster and its rules.
        start_us, finish_us: first start and end of each job.
        held_us: how long it held its GPUs; its run time plus the overhead of its stops.
        stops: how often it was stopped.
        time_us, used, waiting: GPUs in use and jobs waiting from each time on; of their own shape.
        fragmented_gpu_us: idle GPU time in which a job waited for nodes alone.
        most_nodes: most nodes in use at once; 0 without nodes.
    """

    workload: Workload
    cluster: Cluster
    start_us: IntArray
    finish_us: IntArray
    held_us: IntArray
    stops: IntArray
    time_us: IntArray
    used: IntArray
    waiting: IntArray
    fragmented_gpu_us: float
    most_nodes: int

    @property
    def jct_us(self) -> IntArray:
        """Finish - submit."""
        jct: IntArray = self.finish_us - self.workload.submit_us
        return jct

    @property
    def jqt_us(self) -> IntArray:
        """Time without GPUs, after stops included."""
        jqt: IntArray = self.jct_us - self.held_us
        return jqt

    @property
    def held_gpu_us(self) -> FloatArray:
        """GPU time that each job held."""
        held: FloatArray = self.held_us.astype(np.float64) * self.workload.gpus
        return held

    @property
    def submit_us(self) -> IntArray:
        """Submission of each job."""
        return self.workload.submit_us

    @property
    def waited_us(self) -> IntArray:
        """Time without GPUs, as `jqt_us`."""
        return self.jqt_us

    @property
    def usage(self) -> Usage:
        """GPUs in use and jobs waiting over time."""
        return Usage(self.time_us, self.used, self.waiting)

    @property
    def capacity(self) -> int:
        """GPUs of the cluster."""
        return self.cluster.gpus

    @property
    def rented(self) -> Leases:
        """The whole cluster, from the first submission to the last finish."""
        first = int(self.workload.submit_us[0])
        return one_lease(first, first + self.makespan_us, self.cluster.gpus)

    @property
    def makespan_us(self) -> int:
        """Time from the first submission to the last finish."""
        return int(self.finish_us.max() - self.workload.submit_us[0])


def enough_gpus(workload: Workload, cluster: Cluster) -> int:
    """Return the fewest GPUs, whole nodes if there are any, on which no job waits or is stopped.

    As long as all jobs fit they get the same nodes on any larger cluster. So the fewest are the
    nodes in use at once on a cluster with a separate node for every part of a gang. A job of length
    0 holds its GPUs for an instant.

    Args:
        workload: the jobs.
        cluster: the rules; its size does not matter.

    Raises:
        ValueError: they are more than a cluster can have; or as `run_cluster` and `Cluster` do.
    """
    if cluster.as_published:
        workload = _whole_seconds(workload)
    each = cluster.gpus_per_node or 1
    ample = _peak(workload, -(-workload.gpus // each))
    most = MOST_GPUS // each
    if cluster.gpus_per_node and _peak(workload, workload.gpus) <= most * each:
        size = min(ample, most) * each
        run = run_cluster(workload, replace(cluster, gpus=size, preemptive=False))
        if ample <= most or (run.start_us == workload.submit_us).all():
            return run.most_nodes * each
    elif ample <= most:
        return ample
    raise ValueError(
        f"for no job to wait, {ample * each:,} GPUs are needed, and a cluster has at most "
        f"{MOST_GPUS:,}"
    )


def _peak(workload: Workload, gpus: IntArray) -> int:
    """Return the most in use at once if no job waits and each takes its amount."""
    end = workload.submit_us + np.maximum(workload.service_us, 1)
    return peak_overlap(workload.submit_us, end, gpus)


def run_cluster(workload: Workload, cluster: Cluster, name: str = "") -> ClusterRun:
    """Run a workload on a cluster; ``name`` is for lines on how far it is.

    Raises:
        ValueError: a job is wider than the cluster, or times are so long that whole microseconds
            overflow.
    """
    widest = int(workload.gpus.max())
    if widest > cluster.gpus:
        raise ValueError(f"a job holds {widest} GPUs, the cluster has {cluster.gpus}")
    gpu_us = float((workload.service_us.astype(np.float64) * workload.gpus).sum())
    overhead_us = _overhead_us(workload, cluster)
    worst_us = gpu_us + 4.0 * workload.size * float(overhead_us.max()) * widest
    if float(workload.submit_us[-1]) + worst_us > FOREVER:
        save_us, load_us = workload.overheads_us(cluster.checkpoint_s, cluster.restore_s)
        longest = "checkpoint_s" if save_us.max() > load_us.max() else "restore_s"
        raise TimeOverflow(
            "the jobs add up to more than 36,000 years of GPU time",
            longest if worst_us > 2 * gpu_us else None,
        )
    if cluster.as_published:
        if overhead_us.any():
            raise ValueError("the published simulator is run without checkpoint and restore")
        workload = _whole_seconds(workload)
        if cluster.order in PUBLISHED:
            return _as_published(workload, cluster)
    return _replay(workload, cluster, name)


def _overhead_us(workload: Workload, cluster: Cluster) -> IntArray:
    """Return the overhead of a stop for each job; of shape (1,) where it is that of all."""
    if workload.checkpoint_us is None and workload.restore_us is None:
        return to_micros(np.array([cluster.checkpoint_s])) + to_micros(
            np.array([cluster.restore_s])
        )
    save_us, load_us = workload.overheads_us(cluster.checkpoint_s, cluster.restore_s)
    return save_us + load_us


def _replay(workload: Workload, cluster: Cluster, name: str) -> ClusterRun:
    n = workload.size
    widths = distinct(workload.gpus)
    of_width = np.searchsorted(widths, workload.gpus).astype(np.int32)
    each_width = np.bincount(of_width)
    capacity = each_width if cluster.skipping else np.array([n])
    first = capacity.size
    if cluster.preemptive:
        capacity = np.concatenate((capacity, np.minimum(each_width, cluster.gpus // widths)))
    else:
        widths = widths[:0]
    queues = sections(capacity)

    ones, zero = np.ones(1, np.int64), np.zeros(1, np.int64)
    keys, static = kernel.STATIC, zero
    by_gpu = cluster.order in ("remaining_gpu", "attained_gpu", "gittins")
    scale = workload.gpus if by_gpu else ones
    factors = widths if cluster.order == "remaining_gpu" else np.ones_like(widths)
    limits, ranks = np.zeros(0, np.int64), np.zeros(1, np.int64)
    match cluster.order:
        case "arrival":
            pass
        case "width":
            static = workload.gpus
        case "duration":
            static = workload.service_us
        case "deadline":
            static = workload.deadline_us
        case "remaining" | "remaining_gpu":
            keys = kernel.REMAINING
        case "attained" | "attained_gpu":
            keys, limits = kernel.LEVELS, to_micros(cluster.limits)
            ranks = np.arange(limits.size + 1)
        case "gittins":
            keys = kernel.LEVELS
            limits, ranks = gittins_levels(workload.service_us * workload.gpus, cluster.levels)
        case order:
            raise ValueError(f"the order {order!r} has no rule in simkit/cluster/simulator.py")
    rules = kernel.ClusterRules(
        gpus=cluster.gpus,
        gpus_per_node=cluster.gpus_per_node or 0,
        keys=keys,
        preemptive=cluster.preemptive,
        starvation=float(cluster.starvation or 0.0),
    )
    overhead = _overhead_us(workload, cluster) if cluster.preemptive else zero
    lines = kernel.Lines(queues, first, widths, factors)
    call = partial(
        kernel.replay,
        *(workload.submit_us, workload.service_us, workload.gpus, static, scale, overhead),
        *(of_width, lines, limits, ranks, rules),
    )
    jobs, timeline, fragmented, most_nodes = watched(call, n, name or cluster.order)
    del call, queues, lines, of_width, static, overhead  # copies need the room
    start, finish = jobs[:, kernel.START].copy(), jobs[:, kernel.FINISH].copy()
    held, stops = workload.service_us, np.zeros(n, np.int64)
    if cluster.preemptive:
        held, stops = jobs[:, kernel.HELD].copy(), jobs[:, kernel.STOPS].copy()
    time_us, used, waiting = timeline
    return ClusterRun(
        *(workload, cluster, start, finish, held, stops, time_us, used, waiting),
        fragmented_gpu_us=float(fragmented),
        most_nodes=int(most_nodes),
    )


def _whole_seconds(workload: Workload) -> Workload:
    """Return the workload with every time rounded to a second, half up."""
    in_seconds = (
        (times + MICROS // 2) // MICROS * MICROS
        for times in (workload.submit_us, workload.service_us, workload.deadline_us)
    )
    submit, service, deadline = in_seconds
    return Workload(submit, service, workload.gpus, deadline, workload.billed_gpus)


def _as_published(workload: Workload, cluster: Cluster) -> ClusterRun:
    submit_s, service_s = workload.submit_us // MICROS, workload.service_us // MICROS
    if cluster.order in SORTED_AS_PUBLISHED:
        order = SORTED_AS_PUBLISHED[cluster.order]
        jobs, timeline = reference.refill(submit_s, service_s, workload.gpus, cluster.gpus, order)
    else:
        widths, of_width = np.unique(workload.gpus, return_inverse=True)
        jobs, timeline = reference.fill_queues(
            *(submit_s, service_s, widths, of_width.astype(np.int64)),
            np.asarray(cluster.limits, np.int64),
            cluster.gpus,
            cluster.order == "attained_gpu",
        )
    start, finish = jobs[:, 0] * MICROS, jobs[:, 1] * MICROS
    time, used, waiting = (column.copy() for column in timeline.T)
    return ClusterRun(
        workload=workload,
        cluster=cluster,
        start_us=start,
        finish_us=finish,
        held_us=workload.service_us,
        stops=jobs[:, 2].copy(),
        time_us=time * MICROS,
        used=used,
        waiting=waiting,
        fragmented_gpu_us=0.0,
        most_nodes=0,
    )


def gittins_levels(sizes: IntArray, levels: int) -> tuple[IntArray, IntArray]:
    """Return limits of attained service, and the rank of the index on each level between them.

    A job that has attained ``a`` has the index

        max over b > a of  P(size <= b | size > a) / E[min(size, b) - a | size > a],

    the best chance to end per service unit. Both ``a`` and ``b`` are 0 or a limit; the limits are
    sizes, about evenly spaced by their logarithms from the lower quartile to the greatest.

    Source: Gittins, "Bandit processes and dynamic allocation indices", J. R. Stat. Soc. B, 1979;
    for queues Aalto, Ayesta and Righter, "On the Gittins index in the M/G/1 queue", 2009; with GPU
    time as size Gu et al., "Tiresias", NSDI 2019.

    Args:
        sizes: of all jobs; shape (n,), >= 0.
        levels: most limits.

    Returns:
        Limits, ascending from above 0, shape (m,), m <= levels, the last the greatest size; and
        ranks, shape (m + 1,), the highest index 0; nothing attains the last level.
    """
    ordered = np.sort(sizes)
    if ordered[-1] == 0:
        return np.zeros(0, np.int64), np.zeros(1, np.int64)
    spaced = np.geomspace(max(ordered[ordered.size // 4], 1), ordered[-1], levels)
    above = np.searchsorted(ordered, spaced * (1 - 1e-9))  # not above all sizes
    limits = np.unique(ordered[above])
    edges = np.concatenate(([0], limits))
    ended = np.searchsorted(ordered, edges, side="right")
    total = np.concatenate(([0.0], np.cumsum(ordered.astype(np.float64))))
    index = np.zeros(edges.size)
    for i in range(edges.size - 1):
        later = slice(i + 1, None)
        ends = ended[later] - ended[i]
        # The service of the jobs beyond a if each is served up to b.
        within = total[ended[later]] - total[ended[i]] - ends * float(edges[i])
        beyond = (ordered.size - ended[later]) * (edges[later] - edges[i]).astype(np.float64)
        index[i] = (ends / (within + beyond)).max()
    return limits, np.unique(-index, return_inverse=True)[1].astype(np.int64)
