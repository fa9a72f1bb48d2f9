"""Search for the plan that does best in a replay among those that rent at most some GPUs.

Whole nodes, delays and a limit make a plan rent something else than its budget, and not in
proportion: a larger budget may rent less, or end jobs later. So plans are replayed over a grid of
budgets, and between the budgets of the grid around the best one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from math import sqrt

import numpy as np

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.planner.elastic.job_classes import ClassWorkload
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.elastic.replay import PlanReplay
from gpuplan.planner.frontier.model.format_gpus import round_up
from gpuplan.planner.frontier.model.plan import Plan
from gpuplan.planner.frontier.replay.plans import replay_plan

GRID = 64  # budgets from the least to the saturating one, evenly spaced in ratio
SPLITS = 24  # of the gaps that promise most
NEAR = 0.003  # relative difference of GPUs rented that hardly counts
OVER = 0.03  # a replay that takes so much more than its budget does not keep it


@dataclass(frozen=True, slots=True)
class Candidate:
    """The result of replaying the plan for a budget.

    Attributes:
        budget_gpus: the budget, rounded as by `show_gpus`, so that a user can request it.
        rented_gpus: GPUs rented on average.
        billed_gpus: GPUs billed on average.
        weighted_mean_jct_s: weighted mean completion time; the mean where all weights are equal.
    """

    budget_gpus: float
    rented_gpus: float
    billed_gpus: float
    weighted_mean_jct_s: float


@dataclass(slots=True)
class BudgetSearch:
    """Replays of the plans for many budgets, each made once and when it is needed.

    Attributes:
        workload: the jobs.
        at_budget: makes the plan for a budget; `InfeasibleError` where there is none.
        low: least budget to try.
        high: largest.
        cluster: how GPUs are rented.
    """

    workload: ClassWorkload
    at_budget: Callable[[float], Plan]
    low: float
    high: float
    cluster: RentedCluster
    _evaluated: dict[float, Candidate | None] = field(default_factory=dict)

    def best_within(
        self, gpus: float, *, billed: bool = False, up_to: float = float("inf")
    ) -> Candidate | None:
        """Return the budget of the least mean completion time that rents no more than ``gpus``.

        Args:
            gpus: most GPUs rented on average.
            billed: whether to count the GPUs billed instead of those rented.
            up_to: largest budget to try.

        Returns:
            The best budget evaluated; None if all of them rent more.
        """

        high = min(self.high, up_to)
        grid = [
            budget for budget in np.geomspace(self.low, self.high, GRID).tolist() if budget < high
        ]
        grid.append(high)
        replayed = [self._at(budget, high) for budget in grid]
        evaluated = {row.budget_gpus: row for row in replayed if row is not None}
        if not evaluated:
            return None

        def excess(row: Candidate) -> float:
            return max(0.0, (row.billed_gpus if billed else row.rented_gpus) / gpus - 1)

        def rank(row: Candidate) -> tuple[float, float]:
            return excess(row), row.weighted_mean_jct_s

        for _ in range(SPLITS):
            best = min(evaluated.values(), key=rank)

            def promise(gap: tuple[Candidate, Candidate], best: Candidate = best) -> float:
                """Rate gaps high that are wide and next to a good plan slightly over the limit."""
                quick = [row for row in gap if row.weighted_mean_jct_s <= best.weighted_mean_jct_s]
                width = gap[1].budget_gpus / gap[0].budget_gpus - 1
                return width / (NEAR + min(map(excess, quick))) if quick else 0.0

            gaps = pairwise(sorted(evaluated.values(), key=lambda row: row.budget_gpus))
            a, b = max(gaps, key=promise, default=(best, best))
            middle = self._at(sqrt(a.budget_gpus * b.budget_gpus), high)
            if middle is None or middle.budget_gpus in evaluated:
                break
            evaluated[middle.budget_gpus] = middle
        best = min(evaluated.values(), key=rank)
        return None if excess(best) else best

    def replay(self, candidate: Candidate) -> PlanReplay:
        """Return the full replay of an evaluated budget."""
        return replay_plan(self.workload, self.at_budget(candidate.budget_gpus), self.cluster)

    def _at(self, budget: float, most: float) -> Candidate | None:
        budget = min(round_up(budget), most)
        if budget not in self._evaluated:
            self._evaluated[budget] = self._replay_budget(budget)
        return self._evaluated[budget]

    def _replay_budget(self, budget: float) -> Candidate | None:
        try:
            plan = self.at_budget(budget)
        except InfeasibleError:  # another method needs more than the least budget
            return None
        replay = replay_plan(self.workload, plan, self.cluster)
        return Candidate(
            budget, replay.rented_gpus, replay.billed_gpus, objective_s(self.workload, replay)
        )


def objective_s(workload: ClassWorkload, replay: PlanReplay) -> float:
    """Return the mean completion time of a replay, each job counted by the weight of its class."""
    weights = np.array([job_class.weight for job_class in workload.classes])
    return float(np.average(replay.jct_s, weights=weights[replay.arrivals.job_class]))
