"""Run a policy that works in rounds: check, call its loop, return what happened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpuplan.simkit.arrays import FloatArray, IntArray, for_kernels
from gpuplan.simkit.rounds import step
from gpuplan.simkit.rounds.equal import play_equal
from gpuplan.simkit.rounds.pollux import PolluxRules, play_pollux
from gpuplan.simkit.run import Leases, Usage, leases_of, usage_of_rounds
from gpuplan.simkit.time import to_micros


@dataclass(frozen=True, slots=True)
class RoundsJobs:
    """Jobs whose width may change while they run, and their classes.

    Attributes:
        submit_us: microseconds, ascending from 0 or later; shape (n,).
        group: class of each job; shape (n,).
        work_us: microseconds on one GPU of the first type; shape (n,), >= 0.
        first_epoch: first epoch of each class among all, then their number; shape (C + 1,).
        work_share: share of a job's work in each epoch; shape (E,).
        speedup: s of each epoch at 0, 1, 2, ... GPUs, 0 where a width cannot be used; shape
            (E, K + 1), or (T, E, K + 1) for T types of GPUs.
        rescale_us: pause at a start or a change of width or type, by class; shape (C,).
        belief: the speedup that the policy sees; None for the true one.
    """

    submit_us: IntArray
    group: IntArray
    work_us: FloatArray
    first_epoch: IntArray
    work_share: FloatArray
    speedup: FloatArray
    rescale_us: IntArray
    belief: FloatArray | None = None

    def __post_init__(self) -> None:
        n, epochs = self.submit_us.size, self.work_share.size
        if not n or self.group.shape != (n,) or self.work_us.shape != (n,):
            raise ValueError("submit_us, group and work_us must have one shape (n,), n > 0")
        if self.submit_us[0] < 0 or (np.diff(self.submit_us) < 0).any():
            raise ValueError("submit_us must ascend from 0 or later")
        if self.first_epoch.shape != (self.rescale_us.size + 1,) or (
            self.first_epoch[0] != 0
            or self.first_epoch[-1] != epochs
            or (np.diff(self.first_epoch) < 1).any()
        ):
            raise ValueError("first_epoch must ascend from 0 to the number of epochs")
        if not (0 <= self.group.min() and self.group.max() < self.rescale_us.size):
            raise ValueError("group must be the index of a class")
        for table in (self.speedup, self.seen):
            if (
                table.shape != self.speedup.shape
                or table.ndim not in (2, 3)
                or table.shape[-2] != epochs
            ):
                raise ValueError("speedup and belief must have the shape ([types,] epochs, widths)")
            each = table.reshape(-1, *table.shape[-2:])
            if (each < 0).any() or each[..., 0].any() or not (each > 0).any(axis=(0, 2)).all():
                raise ValueError("every epoch needs a usable width, and s(0) = 0")
        if not np.array_equal(self.speedup > 0, self.seen > 0):
            raise ValueError("speedup and belief must agree on what widths can be used")
        if (self.work_us < 0).any() or (self.rescale_us < 0).any() or (self.work_share < 0).any():
            raise ValueError("work, its shares and pauses must be at least 0")

    @property
    def seen(self) -> FloatArray:
        """The speedup that the policy sees."""
        return self.speedup if self.belief is None else self.belief

    @property
    def types(self) -> int:
        """Number of GPU types."""
        return 1 if self.speedup.ndim == 2 else self.speedup.shape[0]

    @property
    def least_gpus(self) -> int:
        """GPUs without which some job could never run, of one type at least."""
        usable = (self.speedup > 0).reshape(self.types, *self.speedup.shape[-2:])
        narrowest = np.where(usable.any(axis=2), usable.argmax(axis=2), usable.shape[2])
        return int(narrowest.min(axis=0).max())

    def rounds(self, interval_us: int) -> step.Rounds:
        """Return the state of a run at its beginning."""
        n, speedup, seen = self.submit_us.size, self.speedup, self.seen
        shape = (self.types, *speedup.shape[-2:])
        jobs = np.zeros((n, step.COLUMNS), np.int64)
        first = self.first_epoch[self.group]
        jobs[:, step.EPOCH] = first
        return step.Rounds(
            submit=for_kernels(self.submit_us),
            group=for_kernels(self.group),
            work=for_kernels(self.work_us),
            first_epoch=for_kernels(self.first_epoch),
            work_share=for_kernels(self.work_share),
            speedup=for_kernels(speedup.reshape(shape)),
            belief=for_kernels(seen.reshape(shape)),
            delay=self.rescale_us[self.group],
            interval=interval_us,
            jobs=jobs,
            left=self.work_us * self.work_share[first],
            clock=np.zeros(step.ENTRIES, np.int64),
            running=np.zeros(n, np.int64),
            row=np.zeros(n, np.int64),
            width=np.zeros(n, np.int64),
            gpu_type=np.zeros(n, np.int64),
            restart=np.zeros(n, np.int64),
            pause=np.full(n, -1, np.int64),
            factor=np.ones(n),
        )


@dataclass(frozen=True, slots=True)
class RoundsPolicy:
    """A compiled policy and its cluster, which has one type of GPUs.

    Attributes:
        share: how GPUs are shared, one of `LOOPS`.
        max_gpus: GPUs of the cluster, or the most that the autoscaler may rent.
        node_gpus: GPUs of a node; the cluster is whole nodes.
        interval_s: time between decisions.
        target: efficiency (sum of speedups over GPUs) that the autoscaler aims at; None for a
            cluster of fixed size.
        band: the size is left alone while the efficiency is within target +- band ...
        window: ... on average over so many rounds.
        provision_s: time until a requested node is ready.
        power: exponent of the mean of speedups that Pollux maximizes; its authors use -1. More
            negative is more fair.
    """

    share: str
    max_gpus: int
    node_gpus: int = 1
    interval_s: float = 60.0
    target: float | None = None
    band: float = 0.05
    window: int = 1
    provision_s: float = 0.0
    power: float = -1.0

    def __post_init__(self) -> None:
        if self.share not in LOOPS:
            raise ValueError(f"share must be one of {', '.join(LOOPS)}, got {self.share!r}")
        if self.node_gpus < 1 or self.max_gpus < self.node_gpus:
            raise ValueError("node_gpus must be at least 1 and max_gpus at least one node")
        if not 1e-6 <= self.interval_s < float("inf") or self.provision_s < 0 or self.window < 1:
            raise ValueError("interval_s and window must be above 0, provision_s at least 0")
        if self.target is not None and (self.target <= 0 or self.share != "pollux"):
            raise ValueError("a target must be above 0, and only pollux can aim at it")
        if self.band < 0 or not self.power:
            raise ValueError("band must be at least 0, and power not 0")

    @property
    def whole_gpus(self) -> int:
        """`max_gpus` in whole nodes."""
        return self.max_gpus // self.node_gpus * self.node_gpus


def _equal(r: step.Rounds, policy: RoundsPolicy, least: int) -> IntArray:
    log: IntArray = play_equal(r, policy.whole_gpus)
    return log


def _pollux(r: step.Rounds, policy: RoundsPolicy, least: int) -> IntArray:
    rules = PolluxRules(
        node_gpus=policy.node_gpus,
        min_gpus=least,
        max_gpus=policy.whole_gpus,
        provision_us=int(to_micros(policy.provision_s)),
        target=float(policy.target or 0.0),
        band=float(policy.band),
        window=policy.window,
        power=float(policy.power),
    )
    log: IntArray = play_pollux(r, rules)
    return log


LOOPS: dict[str, Callable[[step.Rounds, RoundsPolicy, int], IntArray]] = {
    "equal": _equal,
    "pollux": _pollux,
}
"""The loops of compiled policies; each is given the fewest GPUs on which every job can run."""


@dataclass(frozen=True, slots=True)
class RoundsRun:
    """What happened; times in microseconds, arrays of shape (n,) in the order of the jobs.

    Attributes:
        submit_us: submission of each job.
        start_us: when each job first had GPUs.
        finish_us: when each job ended.
        waited_us: time without GPUs, from submission on.
        held_us: GPU time held, pauses included.
        starts: starts and changes of width, type or hosts.
        time_us: times at which the GPUs rented change, ascending; shape (k,).
        gpus: GPUs rented from then on; the last is 0; shape (k,).
        usage: GPUs in use and jobs waiting over time.
        capacity: most GPUs that may be rented.
    """

    submit_us: IntArray
    start_us: IntArray
    finish_us: IntArray
    waited_us: IntArray
    held_us: IntArray
    starts: IntArray
    time_us: IntArray
    gpus: IntArray
    usage: Usage
    capacity: int | None

    @property
    def held_gpu_us(self) -> FloatArray:
        """GPU time that each job held."""
        return self.held_us.astype(np.float64)

    @property
    def stops(self) -> IntArray:
        """How often each job was stopped or resized: it started again each time."""
        stops: IntArray = np.maximum(self.starts - 1, 0)
        return stops

    @property
    def rented(self) -> Leases:
        """The GPUs rented; what was rented last goes back first."""
        return leases_of(self.time_us, self.gpus)


def run_rounds(jobs: RoundsJobs, policy: RoundsPolicy) -> RoundsRun:
    """Run all jobs to their end under a compiled policy.

    A cluster of fixed size is rented from time 0 to the last end. One that scales is empty while
    there are no jobs; what is added is rented from its request, what is no longer needed is
    returned at the next decision.

    Raises:
        ValueError: some job could never run on ``max_gpus``, or there are several types of GPUs.
    """
    if jobs.types > 1:
        raise ValueError(f"this policy shares one type of GPUs, got {jobs.types}")
    node, most = policy.node_gpus, policy.whole_gpus
    least = -(-jobs.least_gpus // node) * node
    if most < least:
        raise ValueError(f"some job needs {least} GPUs, the cluster has {most}")
    r = jobs.rounds(int(to_micros(policy.interval_s)))
    log = LOOPS[policy.share](r, policy, least)
    return run_of(r, log, None if policy.target is not None else most, most)


def run_of(r: step.Rounds, log: IntArray, fixed: int | None, most: int) -> RoundsRun:
    """Return what a loop left behind.

    Args:
        r: the state after the last round.
        log: its rows, as `step.note` wrote them.
        fixed: GPUs rented from time 0 to the last end; None where the log has them.
        most: GPUs that may be rented.
    """
    log, jobs = log[: int(r.clock[step.NOTES])], r.jobs
    start, finish, waited, held, starts = (
        jobs[:, column].copy()
        for column in (step.START, step.FINISH, step.WAITED, step.HELD, step.STARTS)
    )
    time, gpus = np.array([0, finish.max()]), np.array([fixed or 0, 0])
    if fixed is None:
        changes = np.diff(log[:, step.RENTED], prepend=-1) != 0
        time, gpus = log[changes, step.TIME], log[changes, step.RENTED]
    usage = usage_of_rounds(
        *(log[:, column] for column in (step.TIME, step.USED, step.WAITING)),
        submit_us=r.submit,
        start_us=start,
        finish_us=finish,
        gpus=jobs[:, step.WIDTH],
    )
    return RoundsRun(
        *(r.submit, start, finish, waited, held, starts, time, gpus, usage, most),
    )
