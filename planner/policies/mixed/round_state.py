"""What a policy on several GPU types sees as a round begins, and what it may answer.

A choice may last, at most until a job comes or ends: the simulator then runs through these rounds
without asking the policy again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuplan.simkit.time import FOREVER

if TYPE_CHECKING:
    from gpuplan.planner.policies.mixed.rated_jobs import MixedCluster, RatedJobs
    from gpuplan.simkit.arrays import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class RoundState:
    """What a policy sees as a round begins; arrays of shape (m,) are of the unfinished jobs.

    Attributes:
        number: of the round.
        jobs, cluster: all jobs, and the cluster.
        running: the jobs, as indices, by submission.
        age: rounds since the first that each could run in.
        left: work left, as estimated.
        last: type that each ran on last, -1 before its first start.
        now_on: type in the last round, -1 where it waited.
        starts: how often each started.
        ran: rounds in which each had GPUs.
        has_changed: whether a job came or ended since the last round.
    """

    number: int
    jobs: RatedJobs
    cluster: MixedCluster
    running: IntArray
    age: IntArray
    left: FloatArray
    last: IntArray
    now_on: IntArray
    starts: IntArray
    ran: IntArray
    has_changed: bool

    @property
    def gpus(self) -> IntArray:
        """GPUs of each type."""
        return np.array(self.cluster.gpus, np.int64)

    @property
    def width(self) -> IntArray:
        """GPUs of each job."""
        width: IntArray = self.jobs.gpus[self.running]
        return width

    @property
    def rate(self) -> FloatArray:
        """Work per round of each job on each type."""
        rate: FloatArray = self.jobs.rate[self.running]
        return rate

    @property
    def work(self) -> FloatArray:
        """Work of each job, as estimated."""
        work: FloatArray = self.jobs.seen_work[self.running]
        return work


Choose = Callable[[RoundState], "IntArray"]
"""Returns the type of each job of a `RoundState`, -1 to wait."""
Lasts = Callable[[RoundState, "IntArray"], int]
"""For how many more rounds what was chosen, the types of the last round, is chosen unless a job
comes or ends.
"""


def never(_state: RoundState, _kind: IntArray) -> int:
    """Say that every round may choose otherwise."""
    return 0


def always(_state: RoundState, _kind: IntArray) -> int:
    """Say that a choice lasts: jobs run to their end, and the order of the others is set."""
    return FOREVER


def rounds_below(limits: FloatArray, held: IntArray, per_round: IntArray | int = 1) -> int:
    """Return in how many more rounds no job reaches the next of some limits.

    Args:
        limits: ascending.
        held: what each job held before this round; shape (m,).
        per_round: what it holds in a round; shape (m,), or of all jobs.
    """
    ahead = limits[None, :] - held[:, None]
    each = np.broadcast_to(per_round, held.shape)[:, None]
    rounds = np.ceil(np.where(ahead > 0, ahead / each, np.inf)).min(initial=np.inf)
    return int(min(rounds - 1, FOREVER))


def where_all_run(_state: RoundState, kind: IntArray) -> int:
    """Say that a choice lasts where no job waits, and jobs that run keep their types."""
    return FOREVER if (kind >= 0).all() else 0


def where_all_run_fastest(state: RoundState, kind: IntArray) -> int:
    """Say that a choice lasts where each job runs on a type that is faster than any other."""
    rate = state.rate
    chosen_rate = rate[np.arange(kind.size), np.maximum(kind, 0)]
    is_fastest = (rate < chosen_rate[:, None]).sum(axis=1) == rate.shape[1] - 1
    return FOREVER if (is_fastest & (kind >= 0)).all() else 0
