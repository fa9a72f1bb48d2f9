"""Run an elastic policy on a workload: check, call the loop, return what happened."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.rounds import loop
from gpuplan.simkit.rounds.shares import STARTS
from gpuplan.simkit.time import to_micros

SHARES = {"equal": loop.EQUAL, "pollux": loop.POLLUX}


@dataclass(frozen=True, slots=True)
class ElasticJobs:
    """Jobs whose width may change while they run, and their classes.

    Attributes:
        submit_us: microseconds, ascending from 0 or later; shape (n,).
        group: class of each job; shape (n,).
        work_us: microseconds on one GPU; shape (n,), >= 0.
        first_epoch: first epoch of each class among all, then their number; shape (C + 1,).
        work_share: share of a job's work in each epoch; shape (E,).
        speedup: s of each epoch at 0, 1, 2, ... GPUs, 0 where a width cannot be used; shape
            (E, K + 1).
        rescale_us: pause at a start or a change of width, by class; shape (C,).
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
            if table.shape != self.speedup.shape or table.shape[0] != epochs or table.ndim != 2:
                raise ValueError("speedup and belief must have the shape (epochs, widths)")
            if (table < 0).any() or table[:, 0].any() or not (table > 0).any(axis=1).all():
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
    def least_gpus(self) -> int:
        """GPUs without which some job could never run."""
        return int((self.speedup > 0).argmax(axis=1).max())


@dataclass(frozen=True, slots=True)
class RoundsPolicy:
    """An elastic policy and its cluster.

    Attributes:
        share: ``equal`` or ``pollux``: how GPUs are shared.
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
        if self.share not in SHARES:
            raise ValueError(f"share must be one of {', '.join(SHARES)}, got {self.share!r}")
        if self.node_gpus < 1 or self.max_gpus < self.node_gpus:
            raise ValueError("node_gpus must be at least 1 and max_gpus at least one node")
        if not 1e-6 <= self.interval_s < float("inf") or self.provision_s < 0 or self.window < 1:
            raise ValueError("interval_s and window must be above 0, provision_s at least 0")
        if self.target is not None and (self.target <= 0 or self.share != "pollux"):
            raise ValueError("a target must be above 0, and only pollux can aim at it")
        if self.band < 0 or not self.power:
            raise ValueError("band must be at least 0, and power not 0")


@dataclass(frozen=True, slots=True)
class RoundsRun:
    """What happened; times in microseconds, arrays of shape (n,) in the order of the jobs.

    Attributes:
        finish_us: when each job ended.
        waited_us: time without GPUs, from submission on.
        held_us: GPU time held, pauses included.
        starts: starts and changes of width.
        time_us: times at which the GPUs rented change, ascending; shape (k,).
        gpus: GPUs rented from then on; the last is 0; shape (k,).
    """

    finish_us: IntArray
    waited_us: IntArray
    held_us: IntArray
    starts: IntArray
    time_us: IntArray
    gpus: IntArray


def run_rounds(jobs: ElasticJobs, policy: RoundsPolicy) -> RoundsRun:
    """Run all jobs to their end.

    A cluster of fixed size is rented from time 0 to the last end. One that scales is empty while
    there are no jobs; what is added is rented from its request, what is no longer needed is
    returned at the next decision.

    Raises:
        ValueError: some job could never run on ``max_gpus``.
    """
    node = policy.node_gpus
    least = -(-jobs.least_gpus // node) * node
    most = policy.max_gpus // node * node
    if most < least:
        raise ValueError(f"some job needs {least} GPUs, the cluster has {most}")
    rules = loop.RoundRules(
        policy=SHARES[policy.share],
        interval_us=int(to_micros(policy.interval_s)),
        node_gpus=node,
        min_gpus=least,
        max_gpus=most,
        provision_us=int(to_micros(policy.provision_s)),
        target=float(policy.target or 0.0),
        band=float(policy.band),
        window=policy.window,
        power=float(policy.power),
    )
    table, timeline = loop.play(
        jobs.submit_us,
        jobs.group,
        jobs.work_us,
        jobs.first_epoch,
        jobs.work_share,
        jobs.speedup,
        jobs.seen,
        jobs.rescale_us,
        rules,
    )
    finish = table[:, loop.FINISH].copy()
    time, gpus = timeline[:, 0], timeline[:, 1]
    if policy.target is None:
        time, gpus = np.array([0, finish.max()]), np.array([most, 0])
    return RoundsRun(
        finish_us=finish,
        waited_us=table[:, loop.WAITED].copy(),
        held_us=table[:, loop.HELD].copy(),
        starts=table[:, STARTS].copy(),
        time_us=time,
        gpus=gpus,
    )
