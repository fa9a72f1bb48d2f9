"""Rounds whose decisions come from a callable in plain Python, over several GPU types and hosts.

What is compiled is the round itself; a callable may solve an integer program, which takes longer
than the step anyway. Compiled policies have a loop of their own (`equal`, `pollux`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray
from gpuplan.simkit.rounds import step
from gpuplan.simkit.rounds.simulator import RoundsJobs, RoundsRun, run_of
from gpuplan.simkit.time import to_micros

MOST_IDLE = 10_000


@dataclass(frozen=True, slots=True)
class RoundsCluster:
    """A cluster of fixed size for `run_decisions`.

    Attributes:
        gpus: GPUs of each type; shape (T,).
        gpus_per_host: GPUs of each host, by type; 0 where hosts do not matter; shape (T,).
        interval_s: time between decisions.
    """

    gpus: tuple[int, ...]
    gpus_per_host: tuple[int, ...] = ()
    interval_s: float = 60.0

    def __post_init__(self) -> None:
        each = self.per_host
        if not self.gpus or min(self.gpus) < 0 or len(each) != len(self.gpus) or min(each) < 0:
            raise ValueError("gpus and gpus_per_host must be counts, one of each per type")
        for kind, (gpus, host) in enumerate(zip(self.gpus, each, strict=True)):
            if host and gpus % host:
                raise ValueError(
                    f"{gpus} GPUs of type {kind} are not whole hosts; must be a multiple of {host}"
                )
        if not 1e-6 <= self.interval_s < float("inf"):
            raise ValueError(f"interval_s must be above 0, got {self.interval_s:g}")

    @property
    def per_host(self) -> tuple[int, ...]:
        """GPUs of each host, by type."""
        return self.gpus_per_host or (0,) * len(self.gpus)

    @property
    def host_type(self) -> IntArray:
        """The type of each host, type after type; shape (H,)."""
        pairs = zip(self.gpus, self.per_host, strict=True)
        counts = [gpus // host if host else 0 for gpus, host in pairs]
        return np.repeat(np.arange(len(counts)), counts)


@dataclass(frozen=True, slots=True)
class RoundView:
    """What a policy sees as a round begins; arrays of shape (m,) are of the unfinished jobs.

    Attributes:
        number: of the round; it begins at ``number`` x interval.
        now_us: when it begins.
        jobs: all jobs of the run; a policy looks at those that came, ``jobs.seen`` is what it may
            know of their speedups.
        cluster: the cluster.
        running: the unfinished jobs that came, by submission, as indices.
        epoch: row of each one's epoch.
        width: GPUs it had in the last round, 0 where it waited.
        gpu_type: type it ran on last; 0 before its first start.
        starts: how often it started so far.
        left_us: work left in its epoch, microseconds on one GPU of the first type.
        hosts: GPUs it had on each host when it last ran, a row per job; shape (m, H).
        ended: jobs that ended since the last round, as indices.
    """

    number: int
    now_us: int
    jobs: RoundsJobs
    cluster: RoundsCluster
    running: IntArray
    epoch: IntArray
    width: IntArray
    gpu_type: IntArray
    starts: IntArray
    left_us: FloatArray
    hosts: IntArray
    ended: IntArray


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a policy gives the jobs of a `RoundView`, in their order; arrays of shape (m,).

    Attributes:
        width: GPUs of each job, a gang of one type; 0 to wait.
        gpu_type: their type; None for the first.
        hosts: GPUs on each host; rows add up to the widths; shape (m, H). None: hosts do not
            matter. A job that runs on other hosts than last time starts again.
        pause_us: time without progress of the jobs that start (again); None for that of their
            class. What is longer than a round goes on in the next.
        factor: on the rate of each job, such as the loss of a gang spread over hosts; None for 1.
        more_rounds: rounds to come that decide the same unless a job comes or ends.
    """

    width: IntArray
    gpu_type: IntArray | None = None
    hosts: IntArray | None = None
    pause_us: IntArray | None = None
    factor: FloatArray | None = None
    more_rounds: int = 0


Decide = Callable[[RoundView], Allocation]


def run_decisions(
    jobs: RoundsJobs,
    cluster: RoundsCluster,
    decide: Decide,
    repeated: Callable[[int], None] | None = None,
) -> RoundsRun:
    """Run all jobs to their end; ``decide`` is called once a round, while there are jobs.

    Where a decision lasts for more rounds, those until a job comes, ends or enters another epoch
    repeat it, and ``repeated`` is called with their number, if any.

    The whole cluster is rented from time 0 to the last end. A job that ends inside a round ends at
    that instant; its GPUs stay idle until the round ends.

    Raises:
        ValueError: the cluster has other types than the jobs, or a decision cannot be: more GPUs
            than there are, a width that a job cannot use, hosts that do not fit.
        RuntimeError: no job gets a GPU for `MOST_IDLE` rounds, and none is to come.
    """
    if jobs.types != len(cluster.gpus):
        raise ValueError(f"speedups of {jobs.types} types, but GPUs of {len(cluster.gpus)}")
    r = jobs.rounds(int(to_micros(cluster.interval_s)))
    log, most = np.zeros((256, 4), np.int64), sum(cluster.gpus)
    host_type = cluster.host_type
    hosts = np.zeros((jobs.submit_us.size if host_type.size else 0, host_type.size), np.int32)
    before, idle = np.zeros(0, np.int64), 0
    while step.begin_round(r):
        alive, now = int(r.clock[step.ALIVE]), int(r.clock[step.NOW])
        running = r.running[:alive].copy()
        view = RoundView(
            number=now // r.interval,
            now_us=now,
            jobs=jobs,
            cluster=cluster,
            running=running,
            epoch=r.row[:alive].copy(),
            width=r.width[:alive].copy(),
            gpu_type=r.gpu_type[:alive].copy(),
            starts=r.jobs[running, step.STARTS],
            left_us=r.left[running],
            hosts=hosts[running] if host_type.size else np.zeros((alive, 0), np.int32),
            ended=before[r.jobs[before, step.FINISH] > 0],
        )
        decision = decide(view)
        moved = _take(r, view, decision, host_type)
        if host_type.size and moved is not None:
            runs = r.width[:alive] > 0
            hosts[running[runs]] = moved[runs]
        idle = 0 if r.width[:alive].any() else idle + 1
        if idle > MOST_IDLE and r.clock[step.ARRIVED] == jobs.submit_us.size:
            raise RuntimeError(f"{alive} jobs wait, and the policy gives none of them GPUs")
        log = step.note(log, r, most)
        before = running
        step.end_round(r, 0 if idle else decision.more_rounds)
        rounds = (int(r.clock[step.NOW]) - now) // r.interval - 1
        if rounds and repeated is not None:
            repeated(rounds)
    return run_of(r, log, most, most)


def _take(
    r: step.Rounds, view: RoundView, decision: Allocation, host_type: IntArray
) -> IntArray | None:
    """Check a decision and put it into the state; return the hosts of each job, if any."""
    m = view.running.size
    width = _shaped("width", decision.width, m)
    kind = (
        np.zeros(m, np.int64)
        if decision.gpu_type is None
        else _shaped("gpu_type", decision.gpu_type, m)
    )
    types = len(view.cluster.gpus)
    if width.min(initial=0) < 0 or width.max(initial=0) >= r.speedup.shape[2]:
        raise ValueError(f"widths must be within 0..{r.speedup.shape[2] - 1}, got {width}")
    if kind.min(initial=0) < 0 or kind.max(initial=0) >= types:
        raise ValueError(f"gpu_type must be within 0..{types - 1}, got {kind}")
    runs = width > 0
    if not (r.speedup[kind, view.epoch, width][runs] > 0).all():
        bad = view.running[runs & ~(r.speedup[kind, view.epoch, width] > 0)]
        raise ValueError(f"jobs {bad.tolist()} cannot run on the GPUs that they are given")
    gpus_used = np.bincount(kind, weights=width, minlength=types)
    if (gpus_used > view.cluster.gpus).any():
        raise ValueError(
            f"{gpus_used.tolist()} GPUs are given, there are {list(view.cluster.gpus)}"
        )
    restart = np.zeros(m, np.int64)
    hosts = decision.hosts
    if hosts is not None:
        hosts = np.asarray(hosts)
        _check_hosts(view, width, kind, hosts, host_type)
        restart = (runs & (hosts != view.hosts).any(axis=1)).astype(np.int64)
    r.width[:m], r.restart[:m] = width, restart
    r.gpu_type[:m] = np.where(runs, kind, view.gpu_type)
    if decision.pause_us is not None:
        pause = _shaped("pause_us", decision.pause_us, m)
        if (pause < 0).any():
            raise ValueError("pause_us must be at least 0")
        r.pause[:m] = pause
    else:
        r.pause[:m] = -1
    r.factor[:m] = 1.0
    if decision.factor is not None:
        factor = np.asarray(decision.factor, np.float64)
        if factor.shape != (m,) or not (factor > 0).all():
            raise ValueError(f"factor must be above 0 and of shape ({m},)")
        r.factor[:m] = factor
    return hosts


def _check_hosts(
    view: RoundView, width: IntArray, kind: IntArray, hosts: IntArray, host_type: IntArray
) -> None:
    """Raise ValueError where gangs do not fit on the hosts that they are given."""
    if hosts.shape != (width.size, host_type.size) or (hosts < 0).any():
        raise ValueError(f"hosts must be counts of shape {(width.size, host_type.size)}")
    if (hosts.sum(axis=1) != width).any():
        raise ValueError("the GPUs on the hosts of each job must add up to its width")
    foreign: BoolArray = (hosts > 0) & (host_type != kind[:, None])
    if foreign.any():
        raise ValueError(f"jobs {view.running[foreign.any(axis=1)].tolist()} are on other types")
    if (hosts.sum(axis=0) > np.array(view.cluster.per_host)[host_type]).any():
        raise ValueError("a host is given to more GPUs' worth of jobs than it has")


def _shaped(name: str, values: Sequence[int] | IntArray, size: int) -> IntArray:
    array = np.asarray(values, np.int64)
    if array.shape != (size,):
        raise ValueError(f"{name} must have the shape ({size},) of the jobs, got {array.shape}")
    return array
