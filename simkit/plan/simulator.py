"""Run the jobs of a plan on one GPU type: check, call the kernels, return what happened."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray, for_kernels
from gpuplan.simkit.heap import sections
from gpuplan.simkit.plan.policies import FIFO, FIRST_FIT, QUEUE_POLICIES, SHORTEST
from gpuplan.simkit.plan.pool import PoolJobs, PoolRules, replay_pool
from gpuplan.simkit.plan.spot import SpotRules, replay_spot
from gpuplan.simkit.renting.billing import billed_gpu_us
from gpuplan.simkit.run import Leases
from gpuplan.simkit.time import FOREVER, TimeOverflow
from gpuplan.simkit.watch import watched

PARTS_PER_GPU = 1_000_000
NO_LIMIT = 1 << 32
"""Leases at once, where there is no limit."""


@dataclass(frozen=True, slots=True)
class JointJobs:
    """What each job does, whichever market it runs on; times in microseconds, shape (n,).

    Attributes:
        submit_us: its submission, ascending.
        gpus: that it holds outside the pool; may be a fraction.
        outside_us: in containers, from its submission; 0 for none.
        pool_us: on the pool, once it has left containers; -1 for a job that is never there.
        pool_gpus: that it then holds.
        due_us: until when it may wait for idle GPUs of the pool; -1 for a job that is not deferred.
        spot_us: work on spot GPUs; -1 for a job that is not there.
        tau_us: work between two checkpoints there; `FOREVER` for none.
        loss_us: instants at which gangs on spot GPUs are lost, one job after another.
        first_loss: where those of each job begin, and the end of all; shape (n + 1,).
    """

    submit_us: IntArray
    gpus: FloatArray
    outside_us: IntArray
    pool_us: IntArray
    pool_gpus: FloatArray
    due_us: IntArray
    spot_us: IntArray
    tau_us: IntArray
    loss_us: IntArray
    first_loss: IntArray

    @property
    def size(self) -> int:
        """How many there are."""
        return self.submit_us.size


@dataclass(frozen=True, slots=True)
class JointCluster:
    """The pool, and how GPUs above it are rented.

    Attributes:
        fixed: GPUs owned or committed to, always there.
        most: GPUs with those on demand; `fixed` where none are to be had, None for no limit.
        node: GPUs that are ordered together; they are returned one by one.
        provision_us: from an order to when a lease joins.
        release_us: after which an idle lease is returned.
        billing_us: a lease is billed in steps of this, rounded up.
        checkpoint_us, restart_us: on spot GPUs.
        gone_us: rows (from, until) in which there are no spot GPUs; apart and ascending.
        policy: of the queue of the pool, one of `QUEUE_POLICIES`.
    """

    fixed: float
    most: float | None = None
    node: int = 1
    provision_us: int = 0
    release_us: int = 0
    billing_us: int = 1
    checkpoint_us: int = 30_000_000
    restart_us: int = 90_000_000
    gone_us: IntArray = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    policy: str = FIRST_FIT

    def __post_init__(self) -> None:
        if self.policy not in QUEUE_POLICIES:
            raise ValueError(
                f"policy must be one of {', '.join(QUEUE_POLICIES)}, got {self.policy!r}"
            )


@dataclass(frozen=True, slots=True)
class JointRun:
    """What happened to the jobs and the GPUs; times in microseconds, arrays of shape (n,).

    Attributes:
        jobs: in whose order the arrays are.
        cluster: on which they ran.
        start_us: when each first held a GPU, of any market.
        finish_us: when it ended.
        pool_start_us: when it started on the pool or leases; -1 where it never did.
        spot_held_us: that it held spot GPUs, checkpoints and restarts included.
        checkpoints: on spot GPUs.
        stops: losses that it met there.
        rented: leases, from joining to return.
        peak_leased: most GPUs leased at once.
    """

    jobs: JointJobs
    cluster: JointCluster
    start_us: IntArray
    finish_us: IntArray
    pool_start_us: IntArray
    spot_held_us: IntArray
    checkpoints: IntArray
    stops: IntArray
    rented: Leases
    peak_leased: int

    @property
    def waited_us(self) -> IntArray:
        """Time of each job in the queue of the pool, or for idle GPUs, or for spot GPUs."""
        jobs = self.jobs
        joined = jobs.submit_us + jobs.outside_us
        waited: IntArray = np.where(
            self.is_on_pool, self.pool_start_us - joined, self.start_us - jobs.submit_us
        )
        return waited

    @property
    def is_on_pool(self) -> BoolArray:
        """Which jobs run on the pool or leases, in the end."""
        is_there: BoolArray = self.jobs.pool_us >= 0
        return is_there

    @property
    def jct_us(self) -> IntArray:
        """Finish - submit."""
        jct: IntArray = self.finish_us - self.jobs.submit_us
        return jct

    def gpu_us_outside(self, begin_us: int = 0, end_us: int = FOREVER) -> FloatArray:
        """Return the GPU time of each job on spot GPUs or in containers, between two times.

        The time without spot GPUs is not held; what of it lies between is not known apart, so each
        part of a job's time on spot GPUs counts in the same proportion.
        """
        jobs = self.jobs
        begin = np.where(jobs.spot_us >= 0, self.start_us, jobs.submit_us)
        end = np.where(jobs.spot_us >= 0, self.finish_us, jobs.submit_us + jobs.outside_us)
        inside = np.clip(end, begin_us, end_us) - np.clip(begin, begin_us, end_us)
        lasting = end - begin
        held = np.where(jobs.spot_us >= 0, self.spot_held_us, lasting)
        share = np.divide(held, lasting, out=np.ones(jobs.size), where=lasting > 0)
        gpu_us: FloatArray = inside * share * jobs.gpus
        return gpu_us

    def billed_gpu_us(self, begin_us: int = 0, end_us: int = FOREVER) -> int:
        """Return the GPU time on demand that is billed, of the part of leases between two times."""
        leases = self.rented
        begin = np.clip(leases.begin_us, begin_us, end_us)
        held = np.clip(leases.end_us, begin_us, end_us) - begin
        return billed_gpu_us(held, leases.gpus, self.cluster.billing_us)


def run_plan(jobs: JointJobs, cluster: JointCluster, name: str = "plan") -> JointRun:
    """Run the jobs of a plan on one GPU type; ``name`` is for lines on how far it is.

    Raises:
        ValueError: a job is wider than what can be had.
        TimeOverflow: times so long that whole microseconds overflow.
    """
    longest = np.maximum(np.maximum(jobs.pool_us, jobs.spot_us), 0).astype(np.float64)
    if jobs.size and float(jobs.submit_us[-1]) + float(longest.sum()) * 4 > FOREVER:
        raise TimeOverflow("the jobs add up to more than 36,000 years")
    n = jobs.size
    start, finish = jobs.submit_us.copy(), jobs.submit_us + jobs.outside_us
    pool_start = np.full(n, -1)
    held, checkpoints, stops = np.zeros((3, n), np.int64)
    on_spot = np.flatnonzero(jobs.spot_us >= 0)
    if on_spot.size:
        start[on_spot], finish[on_spot], held[on_spot], checkpoints[on_spot], stops[on_spot] = (
            _on_spot(jobs, cluster, on_spot).T
        )
    on_pool = np.flatnonzero(jobs.pool_us >= 0)
    if cluster.policy == SHORTEST:  # the kernel ranks jobs by their place
        on_pool = on_pool[np.argsort(jobs.pool_us[on_pool], kind="stable")]
    pool_start[on_pool], rented, peak = _on_pool(jobs, cluster, on_pool, name)
    finish[on_pool] = pool_start[on_pool] + jobs.pool_us[on_pool]
    is_first = on_pool[jobs.outside_us[on_pool] == 0]
    start[is_first] = pool_start[is_first]
    return JointRun(
        *(jobs, cluster, start, finish, pool_start),
        *(held, checkpoints, stops, rented, peak),
    )


def _on_spot(jobs: JointJobs, cluster: JointCluster, rows: IntArray) -> IntArray:
    counts = np.diff(jobs.first_loss)[rows]
    first = np.append(0, np.cumsum(counts))
    inside = np.arange(first[-1]) - np.repeat(first[:-1], counts)
    loss = jobs.loss_us[np.repeat(jobs.first_loss[rows], counts) + inside]
    table: IntArray = replay_spot(
        *(jobs.submit_us[rows], jobs.spot_us[rows], jobs.tau_us[rows], loss, first),
        for_kernels(cluster.gone_us),
        SpotRules(cluster.checkpoint_us, cluster.restart_us),
    )
    return table


def _on_pool(
    jobs: JointJobs, cluster: JointCluster, rows: IntArray, name: str
) -> tuple[IntArray, Leases, int]:
    """Return the starts of the jobs on the pool, the leases, and most GPUs leased at once."""
    parts = np.rint(jobs.pool_gpus[rows] * PARTS_PER_GPU).astype(np.int64)
    fixed = round(cluster.fixed * PARTS_PER_GPU)
    unit = int(np.gcd.reduce(np.append(parts, (fixed, PARTS_PER_GPU))))
    most = NO_LIMIT if cluster.most is None else max(0, int(cluster.most - cluster.fixed))
    widest = int(parts.max(initial=0))
    if widest > fixed + most * PARTS_PER_GPU:
        raise ValueError(
            f"a job holds {widest / PARTS_PER_GPU:g} GPUs, but at most "
            f"{fixed / PARTS_PER_GPU + most:g} can be had"
        )
    widths, of_width = np.unique(parts // unit, return_inverse=True)
    join_us, due_us = (jobs.submit_us + jobs.outside_us)[rows], jobs.due_us[rows]
    is_deferred = due_us >= 0
    deferred = np.flatnonzero(is_deferred)
    each = np.bincount(of_width, minlength=widths.size)
    later = np.bincount(of_width[deferred], minlength=widths.size)
    if not rows.size:
        return np.zeros(0, np.int64), Leases(*np.zeros((3, 0), np.int64)), 0
    call = partial(
        replay_pool,
        PoolJobs(
            join_us,
            np.argsort(join_us, kind="stable"),
            jobs.pool_us[rows],
            due_us,
            deferred[np.argsort(due_us[deferred], kind="stable")],
            of_width.astype(np.int64),
        ),
        widths,
        sections(np.append(each, later)),
        PoolRules(
            *(fixed // unit, PARTS_PER_GPU // unit, cluster.node, most),
            *(cluster.provision_us, cluster.release_us, cluster.policy != FIFO),
        ),
    )
    start, returned, peak = watched(call, rows.size, name)
    leases = Leases(*(column.copy() for column in returned.T))
    return start, leases, int(peak)
