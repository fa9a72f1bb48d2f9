"""Gavel: time fractions on each GPU type from a linear program, rounded to allocations.

The program is solved again where jobs came or ended and `RESOLVE_S` passed. In each round, type
after type, the jobs run that got least of their fraction so far.

Source: Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning
Workloads", OSDI 2020, and the behavior of its simulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuplan.planner.policies.mixed.mixed_policy import Decided, mixed_policy
from gpuplan.planner.runs.settings import Setting
from gpuplan.planner.solver.linear_program import Program, solve
from gpuplan.simkit.time import FOREVER

if TYPE_CHECKING:
    from gpuplan.planner.policies.mixed.rated_jobs import MixedCluster, RatedJobs
    from gpuplan.planner.policies.mixed.round_state import RoundState
    from gpuplan.simkit.arrays import FloatArray, IntArray

OBJECTIVES = ("max-min", "finish-time", "sjf")
RESOLVE_S = 1920.0
BISECTIONS = 30
CLOSE = 1e-3
HALF = 0.5
"""Rounds that a job counts as received before it ran, so that ranks are finite."""


def max_min_fractions(weight: FloatArray, width: IntArray, gpus: IntArray) -> FloatArray:
    """Return fractions of time whose least weighted sum is greatest; shape (m, T).

    Args:
        weight: of each job's time on each type, 0 where it cannot run; shape (m, T).
    """
    m, types = weight.shape
    job, kind = np.nonzero(weight > 0)
    # Columns: fractions, then the least sum. Rows: each job's time, each type's GPUs, each sum.
    cost = np.append(np.zeros(job.size), -1.0)
    row = np.column_stack((job, m + kind, m + types + job)).reshape(-1)
    stacked = np.column_stack((np.ones(job.size), width[job], weight[job, kind])).reshape(-1)
    value: FloatArray = stacked.astype(np.float64)
    row = np.concatenate((row, m + types + np.arange(m))).astype(np.int64)
    value = np.concatenate((value, np.full(m, -1.0))).astype(np.float64)
    start = np.append(np.arange(0, 3 * job.size + 1, 3), 3 * job.size + m).astype(np.int64)
    least = np.concatenate((np.full(m + types, -np.inf), np.zeros(m)))
    most = np.concatenate((np.ones(m), gpus, np.full(m, np.inf)))
    upper = np.append(np.ones(job.size), np.inf).astype(np.float64)
    solution = solve(Program(cost, upper, start, row, value, least, most))
    fractions = np.zeros((m, types))
    if solution is not None:
        fractions[job, kind] = solution.x[:-1]
    return fractions


def weighted_fractions(weight: FloatArray, width: IntArray, gpus: IntArray) -> FloatArray:
    """Return fractions of time with the greatest weighted sum; arguments as `max_min_fractions`."""
    m, types = weight.shape
    job, kind = np.nonzero(weight > 0)
    program = Program(
        cost=-weight[job, kind],
        upper=np.ones(job.size),
        start=np.arange(0, 2 * job.size + 1, 2),
        row=np.column_stack((job, m + kind)).reshape(-1),
        value=np.column_stack((np.ones(job.size), width[job])).reshape(-1).astype(np.float64),
        least=np.full(m + types, -np.inf),
        most=np.concatenate((np.ones(m), gpus)),
    )
    solution = solve(program)
    fractions = np.zeros((m, types))
    if solution is not None:
        fractions[job, kind] = solution.x
    return fractions


@dataclass(slots=True)
class GavelRounds:
    """Gavel as `gpuplan.planner.policies.mixed.mixed_rounds.play` calls it.

    Attributes:
        objective: ``max-min``, ``finish-time`` or ``sjf``.
        resolve_s: least time between two solutions.
        jobs: all jobs.
        round_s: length of a round.
        last: number of the last round that was decided, and the jobs that ran in it, with types.
    """

    objective: str
    resolve_s: float
    jobs: RatedJobs
    round_s: float
    share: FloatArray = field(init=False)
    received: FloatArray = field(init=False)
    deficit: FloatArray = field(init=False)
    isolated: FloatArray = field(init=False)
    alone_rate: FloatArray = field(init=False)
    left: FloatArray = field(init=False)
    solved_at: float = -np.inf
    is_due: bool = False
    last: tuple[int, IntArray, IntArray] | None = None

    def __post_init__(self) -> None:
        shape = self.jobs.rate.shape
        self.share, self.deficit = np.zeros(shape), np.zeros(shape)
        self.received = np.full(shape, HALF)
        self.isolated, self.alone_rate = np.zeros(shape[0]), np.zeros(shape[0])
        self.left = self.jobs.seen_work.copy()

    def __call__(self, state: RoundState) -> IntArray:
        """Return the type of each job in a round."""
        now = state.number * self.round_s
        if self.last is not None:  # the rounds since then repeated it
            number, running, on = self.last
            self.received[running, on] += state.number - number - 1
        self.is_due |= state.has_changed
        if self.is_due and now - self.solved_at >= self.resolve_s:
            self._restart(state, (now - self.solved_at) / self.round_s)
            self.share[state.running] = self._fractions(state)
            self.solved_at, self.is_due = now, False
        kind = self._rounded(state)
        runs = np.flatnonzero(kind >= 0)
        self.received[state.running[runs], kind[runs]] += 1.0
        self.last = (state.number, state.running[runs], kind[runs])
        return kind

    def lasts(self, state: RoundState, _kind: IntArray) -> int:
        """Return for how many more rounds a choice is the same: all where no type lacks GPUs."""
        if self.is_due:
            return 0
        waits = np.ones(state.running.size, bool)
        for i in self._fastest_first(state.rate):
            on = waits & (state.rate[:, i] > 0)
            if state.width[on].sum() > state.gpus[i]:
                return 0
            waits &= ~on
        return FOREVER

    def _restart(self, state: RoundState, rounds: float) -> None:
        """Add to deficits what jobs did not get of their fractions in these rounds, and count anew.

        Rounds are infinite before the first solution.
        """
        running = state.running
        got = self.received[running] - HALF
        if np.isfinite(rounds):
            self.deficit[running] += self.share[running] * rounds - got
        self.received[running] = HALF

    def _fractions(self, state: RoundState) -> FloatArray:
        rate, width, gpus = state.rate, state.width, state.gpus
        usable = np.where(width[:, None] <= gpus, rate, 0.0)
        if self.objective == "sjf":
            fastest = usable.max(axis=1)
            rank = np.argsort(np.argsort(state.left / fastest, kind="stable"))
            weight = (rank.size - rank)[:, None] * usable / fastest[:, None]
            return weighted_fractions(weight, width, gpus)
        if self.objective == "max-min":
            equal = usable @ (gpus / gpus.sum())
            return max_min_fractions(usable / equal[:, None] * width[:, None], width, gpus)
        return self._fair_ends(state, usable)

    def _fair_ends(self, state: RoundState, usable: FloatArray) -> FloatArray:
        """Return fractions whose greatest (time shared / time alone) is least, by bisection."""
        running, width, gpus = state.running, state.width, state.gpus
        part = gpus / running.size / width[:, None]
        part = part / np.maximum(part.sum(axis=1), 1.0)[:, None]
        alone = (usable * part).sum(axis=1)
        before = self.alone_rate[running]
        done = self.left[running] - state.left
        self.isolated[running] += np.where(before > 0, done / np.maximum(before, 1e-300), 0.0)
        self.alone_rate[running], self.left[running] = alone, state.left
        age, left = state.age.astype(np.float64), state.left
        isolated = self.isolated[running] + left / alone
        # The greatest ratio r needs the rate left / (r isolated - age) of every job.
        low = float((age / isolated).max())
        high = max(2 * low, 1.0)
        best = np.zeros_like(usable)
        while True:
            best, least = self._with_ends(left, isolated, age, high, usable, width, gpus)
            if least >= 1 or high > 1e9:
                break
            low, high = high, 2 * high
        for _ in range(BISECTIONS):
            if high - low <= CLOSE * high:
                break
            middle = (low + high) / 2
            fractions, least = self._with_ends(left, isolated, age, middle, usable, width, gpus)
            if least >= 1:
                best, high = fractions, middle
            else:
                low = middle
        return best

    @staticmethod
    def _with_ends(
        left: FloatArray,
        isolated: FloatArray,
        age: FloatArray,
        ratio: float,
        usable: FloatArray,
        width: IntArray,
        gpus: IntArray,
    ) -> tuple[FloatArray, float]:
        """Return fractions for a ratio, and the least share of the rate needed that they give."""
        spare = ratio * isolated - age
        if (spare <= 0).any():
            return np.zeros_like(usable), 0.0
        weight = usable * (spare / left)[:, None]
        fractions = max_min_fractions(weight, width, gpus)
        return fractions, float((fractions * weight).sum(axis=1).min())

    def _rounded(self, state: RoundState) -> IntArray:
        """Return types by how little of its fraction each job received."""
        running, rate, width = state.running, state.rate, state.width
        share, received = self.share[running], self.received[running]
        rank = share * received.sum(axis=0) / received
        kind = np.full(running.size, -1, np.int64)
        for i in self._fastest_first(rate):
            free = int(state.gpus[i])
            order = np.lexsort((-share[:, i], -self.deficit[running, i], -rank[:, i]))
            for j in order.tolist():
                if kind[j] < 0 and rate[j, i] > 0 and width[j] <= free:
                    kind[j] = i
                    free -= int(width[j])
        return kind

    @staticmethod
    def _fastest_first(rate: FloatArray) -> list[int]:
        """Return the types by the mean rate of the jobs that they can run."""
        speed = rate.sum(axis=0) / np.maximum((rate > 0).sum(axis=0), 1)
        order: list[int] = np.argsort(-speed, kind="stable").tolist()
        return order


def prepare(
    jobs: RatedJobs, cluster: MixedCluster, values: Mapping[str, Any], _: np.random.Generator
) -> Decided:
    """Return the decisions for the jobs of a replay."""
    rounds = GavelRounds(values["objective"], values["resolve_s"], jobs, cluster.round_s)
    return Decided(rounds, lasts=rounds.lasts)


POLICY = mixed_policy(
    "gavel",
    "several GPU types: time fractions by a linear program",
    "Narayanan et al., Gavel, OSDI 2020",
    prepare,
    own={
        "objective": Setting(
            "choice",
            "max-min (fair rates), finish-time (fair completion times) or sjf (shortest first)",
            OBJECTIVES,
            default="max-min",
        ),
        "resolve_s": Setting("duration", "least time between two solutions", default=RESOLVE_S),
    },
)
