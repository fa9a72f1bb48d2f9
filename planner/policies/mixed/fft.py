"""FFT: least cost in every round, where jobs that got less than their share cost less.

Source: FFT (Fast and Fair Training), equations (1), (6) and (7).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuplan.analysis.base.plain import fields_of
from gpuplan.planner.policies.mixed.mixed_policy import Decided, mixed_policy
from gpuplan.planner.policies.mixed.results import FairnessResults
from gpuplan.planner.runs.settings import Setting
from gpuplan.simkit.time import FOREVER

if TYPE_CHECKING:
    from gpuplan.planner.policies.mixed.rated_jobs import MixedCluster, RatedJobs
    from gpuplan.planner.policies.mixed.round_program import RoundAnswer
    from gpuplan.planner.policies.mixed.round_state import RoundState
    from gpuplan.simkit.arrays import FloatArray, IntArray

OWN = {
    "phi": Setting(
        "choice",
        "work in the cost of a job: mixed (total work, then the work left) or total (total work in "
        "both terms, as published)",
        ("mixed", "total"),
        default="mixed",
    ),
    "fairness_weight": Setting(
        "number", "weight of the share that a job has missed so far", default=1.0
    ),
    "switch_weight": Setting(
        "number", "weight of the rounds that a change of type takes", default=1.0
    ),
    "switch_gpu": Setting(
        "flag", "weigh a switch by the GPUs of the job, and include the restart", default=False
    ),
    "work_unit": Setting(
        "choice",
        "unit of work in the cost: fastest (rounds on the fastest type of a job), or given (that "
        "of --throughputs)",
        ("fastest", "given"),
        default="fastest",
    ),
    "exact": Setting(
        "flag", "solve each round to proven optimality, else within 0.1%", default=False
    ),
}


PHI = ("mixed", "total", "remaining")
SURE = 1e-9
"""Share of two costs by which they must differ to be sure which is less: sums are rounded."""


@dataclass(frozen=True, slots=True)
class FftRules:
    """How FFT weighs jobs.

    Attributes:
        phi: work of a job in the two terms of its cost: ``total``, as the paper has it; ``mixed``,
            the work left in the second; ``remaining``, the work left in both.
        is_capped: whether the share of its work that a job does in a round is at most 1; None for
            ``mixed`` alone.
        switch_weight: of the rounds that a change of type takes.
        fairness_weight: of what a job was denied.
        per_gpu: count the GPUs of the job in a switch, and the time to restart it.
        exact: solve each round to proven optimality; else within 0.1%.
    """

    phi: str = "mixed"
    is_capped: bool | None = None
    switch_weight: float = 1.0
    fairness_weight: float = 1.0
    per_gpu: bool = False
    exact: bool = False

    def __post_init__(self) -> None:
        if self.phi not in PHI:
            raise ValueError(f"phi must be one of {', '.join(PHI)}, got {self.phi!r}")

    @property
    def caps(self) -> bool:
        """Whether the share of work done in a round is at most 1."""
        return self.phi == "mixed" if self.is_capped is None else self.is_capped


def rounds_until_dearer(
    rules: FftRules,
    *,
    cost: FloatArray,
    kind: IntArray,
    width: IntArray,
    work: FloatArray,
    rate: FloatArray,
) -> int:
    """Return for how many more rounds the type of each job surely costs it less than any other.

    A round changes costs by the age, which grows by 1, and by the work left, which falls by no more
    than what the chosen type does of it; `FftRounds` sees to all else that is in a cost.

    Args:
        rules: the weights, with ``phi`` other than ``remaining``.
        cost: of each job on each type, as `round_costs` has it; shape (m, T).
        kind: the type of each job, on which it ran before.
        width, work, rate: as `round_costs` has them.
    """
    rows = np.arange(kind.size)
    chosen, at = rate[rows, kind][:, None], cost[rows, kind][:, None]
    others = (rate > 0) & (np.arange(rate.shape[1]) != kind[:, None])
    with np.errstate(divide="ignore", invalid="ignore"):
        done, of_chosen = rate / work[:, None], chosen / work[:, None]
        if rules.caps:
            done, of_chosen = np.minimum(done, 1.0), np.minimum(of_chosen, 1.0)
        fall = np.maximum(of_chosen - done, 0.0)
        if rules.phi != "total":
            fall += width[:, None] * np.maximum(chosen / rate - 1.0, 0.0)
        ahead = (cost - at - SURE * np.maximum(np.abs(cost), np.abs(at)))[others]
        rounds = np.where(ahead > 0, ahead / fall[others], 0.0)
    # One fewer: how much a cost has changed after many rounds is rounded too.
    return max(0, int(rounds.min(initial=FOREVER)) - 1)


def round_costs(
    rules: FftRules,
    *,
    age: IntArray,
    width: IntArray,
    work: FloatArray,
    left: FloatArray,
    rate: FloatArray,
    debt: FloatArray,
    last: IntArray,
    copy_rounds: FloatArray,
) -> FloatArray:
    """Return the cost of each job on each type, infinite where it cannot run; shape (m, T).

    Args:
        rules: the weights.
        age: rounds since the first that each job could run in; shape (m,), as all below.
        width: GPUs.
        work, left: in all, and still to do.
        rate: work per round on each type; shape (m, T).
        debt: rho of the paper, what each was denied.
        last: type that it ran on last; -1 before its first start.
        copy_rounds: rounds that a change of type takes.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        done = rate / (left if rules.phi == "remaining" else work)[:, None]
        if rules.caps:
            done = np.minimum(done, 1.0)
        rest = work if rules.phi == "total" else left
        cost = age[:, None] * done + (width * rest)[:, None] / rate
        types = np.arange(rate.shape[1])
        moves = (last[:, None] >= 0) & (types != last[:, None])
        cost += rules.switch_weight * moves * copy_rounds[:, None]
        cost -= rules.fairness_weight * debt[:, None] * rate
    costs: FloatArray = np.where(rate > 0, cost, np.inf)
    return costs


@dataclass(slots=True)
class FftRounds:
    """FFT as `gpuplan.planner.policies.mixed.mixed_rounds.play` calls it.

    Attributes:
        rules: its weights.
        debt: of every job of the run.
        answers: K, objective and bound of each round, with its number and the sum of debts.
        loose: rounds that are further than 0.1% from the bound.
        cost, missed: of the last round: of each job on each type, and what it got less than its
            share.
    """

    rules: FftRules
    debt: FloatArray | None = None
    answers: list[tuple[int, int, float, float, float]] = field(default_factory=list)
    loose: int = 0
    prices: FloatArray | None = None
    cost: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    missed: FloatArray = field(default_factory=lambda: np.zeros(0))

    def __call__(self, state: RoundState) -> IntArray:
        """Return the type of each job in a round."""
        if self.debt is None:
            self.debt = np.zeros(state.jobs.gpus.size)
        running, width, rate, work = state.running, state.width, state.rate, state.work
        cluster = state.cluster
        copy = state.jobs.state_gb[running] * 8 / cluster.gbps
        if self.rules.per_gpu:
            copy = (copy + cluster.restart_s) * width
        cost = round_costs(
            self.rules,
            age=state.age,
            width=width,
            work=work,
            left=state.left,
            rate=rate,
            debt=self.debt[running],
            last=state.last,
            copy_rounds=copy / cluster.round_s,
        )
        self.cost = cost
        answer = self._solve(cost, width, state.gpus)
        total = float(self.debt[running].sum())
        self.answers.append((state.number, answer.gpus, answer.objective, answer.bound, total))
        self.loose += not answer.is_within
        self._settle(state, answer.kind)
        return answer.kind

    def lasts(self, state: RoundState, kind: IntArray) -> int:
        """Return for how many more rounds a choice is surely that of least cost.

        That is so while each job runs where it costs least, and debts stay what they are: those of
        0 where a job gets more than its share, all where it gets just that.
        """
        assert self.debt is not None
        factors = np.array(state.cluster.cross_host)
        if state.jobs.cross_host is not None:
            factors = np.append(factors, state.jobs.cross_host[state.running])
        changes = (self.missed > 0) | ((self.missed < 0) & (self.debt[state.running] > 0))
        if (kind < 0).any() or changes.any():
            return 0
        if (factors > 1).any() or self.rules.phi == "remaining":  # work may fall faster
            return 0
        return rounds_until_dearer(
            self.rules,
            cost=self.cost,
            kind=kind,
            width=state.width,
            work=state.work,
            rate=state.rate,
        )

    def _solve(self, cost: FloatArray, width: IntArray, gpus: IntArray) -> RoundAnswer:
        from gpuplan.planner.policies.mixed.round_program import solve_round

        answer = solve_round(cost, width, gpus, exact=self.rules.exact, prices=self.prices)
        self.prices = answer.prices
        return answer

    def _settle(self, state: RoundState, kind: IntArray) -> None:
        """Add to the debt of each job what it got less than its share in this round."""
        from gpuplan.planner.policies.mixed.fairness import share_rates

        assert self.debt is not None
        running, rate = state.running, state.rate
        fair = share_rates(rate, state.width, state.gpus, running.size)
        rows = np.arange(running.size)
        got = np.where(kind >= 0, rate[rows, np.maximum(kind, 0)], 0.0)
        self.missed = fair - got
        grown = self.debt[running] + state.age * fair / state.work * self.missed
        self.debt[running] = np.maximum(0.0, grown)


def prepare(
    jobs: RatedJobs, cluster: MixedCluster, values: Mapping[str, Any], _: np.random.Generator
) -> Decided:
    """Return the decisions for the jobs of a replay."""
    rounds = FftRounds(
        FftRules(
            phi=values["phi"],
            switch_weight=values["switch_weight"],
            fairness_weight=values["fairness_weight"],
            per_gpu=values["switch_gpu"],
            exact=values["exact"],
        )
    )

    def results() -> dict[str, Any]:
        gaps = [(best - bound) / max(abs(best), 1e-12) for _, _, best, bound, _ in rounds.answers]
        return fields_of(
            FairnessResults(solver_gap_max=max(gaps, default=0.0), rounds_above_gap=rounds.loose)
        )

    def warnings() -> tuple[str, ...]:
        if not rounds.loose:
            return ()
        return (
            f"{rounds.loose:,} of {len(rounds.answers):,} rounds decided were not solved within "
            "0.1%; they take the best allocation found (gap at most "
            f"{results()['solver_gap_max']:.2%})",
        )

    return Decided(rounds, results, warnings, rounds.lasts)


POLICY = mixed_policy(
    "fft",
    "several GPU types: fair and fast, anew each round",
    "FFT: Fast and Fair Training",
    prepare,
    own=OWN,
)
