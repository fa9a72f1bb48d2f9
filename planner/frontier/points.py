"""The plan for one budget, its replay and what more would save, as JSON has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any

import numpy as np
from msgspec import UNSET, UnsetType

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import Hidden
from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.planner.elastic.job_classes import ClassWorkload
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.elastic.replay import PlanReplay
from gpuplan.planner.frontier.methods.registry import Solved
from gpuplan.planner.frontier.model.exact import Frontier
from gpuplan.planner.frontier.model.plan import Assignment, Plan
from gpuplan.planner.frontier.replay.plan_replay import ReplayedPlan, replay_and_measure
from gpuplan.planner.frontier.replay.search import BudgetSearch
from gpuplan.planner.frontier.replay.todays_peak import PeakReplay, TodaysPeak
from gpuplan.planner.frontier.slowdown import RecordedRuns, Slowdown
from gpuplan.planner.money.todays_basis import NO_BASIS, TodaysBasis

CANDIDATES = 48  # smaller budgets in dollars to replay, in search of a bill within the budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The plan for one budget.

    Attributes:
        budget_gpus: average GPUs allowed; on one GPU type.
        budget_usd_per_h: average dollars an hour allowed; on several GPU types.
        mean_jct_s: mean completion time.
        weighted_mean_jct_s: the mean that the plan minimizes, each job counted by the weight of its
            class.
        used_usd_per_h, used_usd_per_month: spent on average; on several GPU types.
        used_gpus: rented on average; by GPU type where there are several.
        utilization: sum of the speedups of running jobs over the GPUs they hold.
        multiplier: weighted hours of completion time saved per GPU-hour spent, at the margin.
        marginal_jct_s_per_gpu: seconds of mean completion time that one more GPU would save.
        marginal_jct_s_per_usd_h: seconds of mean completion time that one more dollar an hour would
            save.
        rounded_mean_jct_s: mean completion time where no class is split over two widths.
        rounded_used_gpus: rented on average without a split.
        rounded_used_usd_per_h: spent on average without a split.
        rounding_gap_s: by how much the plan without a split is worse than any other in the budget,
            at most.
        rounded_over_optimal: weighted mean of the plan without a split over that of the optimum.
        budget_x_load: budget over the load.
        mean_jct_over_one_gpu: mean completion time over that with every job on one GPU.
        optimal_mean_jct_s: of the optimal plan for the budget; null if it is too small.
        budget_usd_per_month: average dollars a month allowed; on several GPU types.
        next_gpu_saves_s, next_1pct_saves_s: seconds of mean completion time that one more GPU, or a
            hundredth of the budget more, would save.
        next_100_usd_month_saves_s: the same for $100 more a month; only with a price.
        usd_per_month: of the GPUs used on average; only with a price.
        marginal_jct_s_per_100_usd_month: seconds of mean completion time that $100 more a month
            would save, at the margin; only with a price.
        ends_mean_jct_s: mean completion time in seconds at the two ends of a range of speedups;
            null where the budget is too small. Only with a range.
        target_jct_s: the mean completion time that this is the least budget for; null where the
            budget itself was requested.
        requested: the budget or completion time as requested; null for a sweep of the frontier.
        slower: jobs that run longer at the planned widths than recorded; null where no job has a
            recorded run.
        replay: only with replays.
        replay_within_today_peak: null without a replay, without GPUs in use in the log, or if no
            plan fits.
        widths: the GPUs of every class and epoch.
        plan: the plan.
        gpus: average GPUs by type; under no name on one type.
        within_peak: the replay with no more GPUs at once than the log ever held.
    """

    budget_gpus: float | UnsetType = UNSET
    budget_usd_per_h: float | UnsetType = UNSET
    mean_jct_s: float
    weighted_mean_jct_s: float
    used_usd_per_h: float | UnsetType = UNSET
    used_usd_per_month: float | UnsetType = UNSET
    used_gpus: float | dict[str, float]
    utilization: float | UnsetType = UNSET
    multiplier: float | UnsetType = UNSET
    marginal_jct_s_per_gpu: float | UnsetType = UNSET
    marginal_jct_s_per_usd_h: float | UnsetType = UNSET
    rounded_mean_jct_s: float
    rounded_used_gpus: float | UnsetType = UNSET
    rounded_used_usd_per_h: float | UnsetType = UNSET
    rounding_gap_s: float
    rounded_over_optimal: float | UnsetType = UNSET
    budget_x_load: float | UnsetType = UNSET
    mean_jct_over_one_gpu: float | UnsetType = UNSET
    optimal_mean_jct_s: float | UnsetType | None = UNSET
    budget_usd_per_month: float | UnsetType = UNSET
    next_gpu_saves_s: float | UnsetType = UNSET
    next_1pct_saves_s: float | UnsetType = UNSET
    next_100_usd_month_saves_s: float | UnsetType = UNSET
    usd_per_month: float | UnsetType = UNSET
    marginal_jct_s_per_100_usd_month: float | UnsetType = UNSET
    ends_mean_jct_s: tuple[float | None, ...] | UnsetType = UNSET
    target_jct_s: float | None
    requested: str | None
    slower: Slowdown | None
    replay: ReplayedPlan | UnsetType = UNSET
    replay_within_today_peak: PeakReplay | UnsetType | None = UNSET
    widths: tuple[Assignment, ...]
    plan: Hidden[Plan]
    gpus: Hidden[Mapping[str, float]]
    within_peak: Hidden[PlanReplay | None] = None

    @property
    def replayed(self) -> ReplayedPlan | None:
        """The plan replayed; None without a replay."""
        return None if isinstance(self.replay, UnsetType) else self.replay

    @property
    def ends_jct_s(self) -> tuple[float | None, ...]:
        """Mean completion times at the ends of a range of speedups, where there is one."""
        return () if isinstance(self.ends_mean_jct_s, UnsetType) else self.ends_mean_jct_s

    @property
    def inside(self) -> float | None:
        """The best smaller budget whose replay keeps to this one; None if there is none.

        It is looked for at the requested budgets that are exceeded most.
        """
        if self.replayed is None:
            return None
        inside, usd = self.replayed.inside_budget, self.replayed.inside_budget_usd_per_h
        if isinstance(usd, float):
            return usd
        return None if inside is None or isinstance(inside, UnsetType) else inside.budget_gpus


def spent_over(point: Point) -> float:
    """Return what a replay takes over its budget, 1 where it keeps to it; 0 without one."""
    return 0.0 if point.replayed is None else point.replayed.spent_over_budget


@dataclass(slots=True)
class Points:
    """What makes the points of a study; for the fields see there."""

    workload: ClassWorkload
    frontier: Frontier
    ends: tuple[Frontier, ...]
    unit_usd: float | None
    cluster: RentedCluster | None
    peak: TodaysPeak | None
    recorded: RecordedRuns | None
    refused: list[str] = field(default_factory=list)
    basis: TodaysBasis = NO_BASIS

    def point(
        self, plan: Plan, target_s: float | None = None, requested: str | None = None
    ) -> Point:
        """Return the point of a plan, with its replay."""
        frontier, usd = self.frontier, self.unit_usd
        replayed, within = self._replayed(plan), None
        if self.peak is not None and replayed is not None:
            within = self.peak.replay(plan, replayed.replay)
        steps = steps_from(frontier, plan.budget, usd)
        saved_s: dict[str, Any] = {
            f"next_{step}_saves_s": frontier.saved_s(plan.budget, more)
            for step, more in steps.items()
        }
        gpus = frontier.gpus_of(plan)
        marginal_s = plan.marginal_jct_s
        if frontier.prices:
            of_unit: dict[str, Any] = {
                "budget_usd_per_h": plan.budget,
                "budget_usd_per_month": plan.budget * MONTH_H,
                "used_usd_per_h": plan.used,
                "used_usd_per_month": plan.used * MONTH_H,
                "used_gpus": gpus,
                "marginal_jct_s_per_usd_h": marginal_s,
                "rounded_used_usd_per_h": plan.rounded_used,
            }
        else:
            of_unit = {
                "budget_gpus": plan.budget,
                "used_gpus": plan.used,
                "utilization": plan.utilization,
                "multiplier": plan.multiplier,
                "marginal_jct_s_per_gpu": marginal_s,
                "rounded_used_gpus": plan.rounded_used,
                "rounded_over_optimal": plan.rounded_over_optimal,
                "budget_x_load": plan.budget / plan.load_gpus,
                "mean_jct_over_one_gpu": plan.mean_jct_s / frontier.one_gpu_jct_s,
                "optimal_mean_jct_s": least_mean_jct_s(frontier, plan.budget),
                "usd_per_month": UNSET
                if usd is None
                else self.basis.usd_per_h(plan.used, usd) * MONTH_H,
                "replay_within_today_peak": None if self.peak is None else self.peak.shown(within),
            }
        return Point(
            **of_unit,
            **saved_s,
            mean_jct_s=plan.mean_jct_s,
            weighted_mean_jct_s=plan.objective_s,
            rounded_mean_jct_s=plan.rounded_mean_jct_s,
            rounding_gap_s=plan.rounding_gap_s,
            marginal_jct_s_per_100_usd_month=(
                UNSET if usd is None else marginal_s * 100 / (usd * MONTH_H)
            ),
            ends_mean_jct_s=tuple(least_mean_jct_s(end, plan.budget) for end in self.ends) or UNSET,
            target_jct_s=target_s,
            requested=requested,
            slower=None
            if self.recorded is None
            else self.recorded.slowdown(frontier.classes, plan),
            replay=UNSET if replayed is None else replayed,
            widths=plan.widths,
            plan=plan,
            gpus=gpus,
            within_peak=within,
        )

    def search(self, solved: Solved, is_priced: bool) -> Callable[[Point], Point]:
        """Return what adds to a point the best smaller budget whose replay keeps to its own."""
        assert self.cluster is not None
        low, high = self.frontier.min_budget, self.frontier.saturation_budget
        budgets = BudgetSearch(self.workload, solved.at_budget, low, high, self.cluster)

        def with_inside(point: Point) -> Point:
            budget = point.plan.budget
            inside = budgets.best_within(budget, billed=is_priced, up_to=budget)
            assert point.replayed is not None
            return replace(point, replay=replace(point.replayed, inside_budget=inside))

        return with_inside

    def inside(self, point: Point) -> Point:
        """Add the smaller budget in dollars whose plan is fastest with a bill within the budget.

        A smaller budget may be billed more, so a grid of them is replayed.
        """
        budget = float(point.plan.budget)
        within = []
        for smaller in np.geomspace(self.frontier.min_budget, budget, CANDIDATES)[:-1].tolist():
            plan = self.frontier.at_budget(min(ceil(100 * smaller) / 100, budget))
            replayed = self._replayed(plan, is_noted=False)
            if replayed is not None and replayed.spent <= budget:
                within.append(replayed)
        best = min(within, key=lambda replayed: replayed.mean_jct_s, default=None)
        if best is None:
            return point
        assert point.replayed is not None
        inside = replace(point.replayed, inside_budget_usd_per_h=float(best.plan.budget))
        return replace(point, replay=inside)

    def _replayed(self, plan: Plan, *, is_noted: bool = True) -> ReplayedPlan | None:
        """Return the replay of a plan; None without a cluster, or where a job changes its type."""
        if self.cluster is None:
            return None
        try:
            replayed = replay_and_measure(
                self.workload, self.frontier, plan, self.cluster, self.unit_usd
            )
        except UsageError as error:
            if not self.frontier.prices:
                raise
            if is_noted:
                self.refused.append(str(error).partition("\n")[0])
            return None
        if self.basis == NO_BASIS or self.unit_usd is None or self.frontier.prices:
            return replayed
        month = self.basis.usd_per_h(replayed.spent, self.unit_usd) * MONTH_H
        return replace(replayed, billed_usd_per_month=month)


def steps_from(frontier: Frontier, budget: float, unit_usd: float | None) -> dict[str, float]:
    """Return each step up from a budget: a GPU and a hundredth on one type, $100 a month.

    ``unit_usd`` is the dollars an hour for a unit of the budget; None without a price.
    """
    gpus = {} if frontier.prices else {"gpu": 1.0, "1pct": budget / 100}
    return gpus | ({} if unit_usd is None else {"100_usd_month": 100 / (unit_usd * MONTH_H)})


def least_mean_jct_s(frontier: Frontier, budget: float) -> float | None:
    """Return the least mean completion time at a budget; None if it cannot keep up."""
    return frontier.mean_jct_at(budget) if frontier.is_enough(budget) else None
