"""The whole question of ``gpuplan pareto``: a trace, a speedup, some budgets, and the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import polars as pl

from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.analysis.characterize.gpu_mix import GpuMix
from gpuplan.analysis.characterize.today import Today
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.frontier.budget import (
    Budget,
    plan_of,
    refuse_others,
    requested_jct,
    sweep,
)
from gpuplan.planner.frontier.methods.registry import Solved, find_method
from gpuplan.planner.frontier.model.class_options import ClassOptions
from gpuplan.planner.frontier.model.exact import Frontier, solve_frontier
from gpuplan.planner.frontier.model.hull import TOLERANCE
from gpuplan.planner.frontier.model.job_classes import workload_of
from gpuplan.planner.frontier.model.plan import Plan
from gpuplan.planner.frontier.points import BudgetPoint, BudgetStudy
from gpuplan.planner.frontier.replay.plan_replay import ReplayedPlan, replay_and_measure
from gpuplan.planner.frontier.replay.renting import RentedCluster, within_cluster
from gpuplan.planner.frontier.replay.replay import PlanReplay
from gpuplan.planner.frontier.replay.search import OVER, BudgetSearch, Candidate
from gpuplan.planner.frontier.replay.todays_peak import TodaysPeak
from gpuplan.planner.money.price_request import Price
from gpuplan.planner.speedup.model import SpeedupModel
from gpuplan.simkit.time import HOUR_S

EXACT = "exact"
MOST_INSIDE = 8  # budgets for which one that keeps them is looked for
SMALL_STEP = 0.1  # of the least budget; a larger step leaps over half the frontier
Progress = Callable[[float], None]


class Section(Protocol):
    """A further part of a study: comparisons of its plans, or their confidence."""

    @property
    def key(self) -> str:
        """Its name among the results."""

    @property
    def notes(self) -> Sequence[str]:
        """Caveats for the reader."""

    def results(self) -> Any:
        """Return its results as JSON has them: a dataclass, or several."""


@dataclass(frozen=True, slots=True)
class Point(BudgetPoint[Plan, ReplayedPlan, Candidate]):
    """The plan for one of the requested budgets, on one GPU type.

    `inside` is only looked for at the `MOST_INSIDE` budgets that are exceeded most.

    Attributes:
        ends_jct_s: mean completion time at the same budget, in GPUs, with the speedups at the two
            ends of the assumed range; None at an end where the budget cannot keep up.
        within_peak: a replay at this budget with no more GPUs at once than the log ever held; None
            without a replay, without a log of GPUs in use, or if the budget cannot keep up so.
    """

    ends_jct_s: tuple[float | None, ...] = ()
    within_peak: PlanReplay | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierStudy(BudgetStudy[Frontier, Point]):
    """A frontier on one GPU type and the requested points.

    Attributes:
        ends: the frontiers at the two ends of a range of speedups; empty without a range.
        price: of a GPU-hour; None where not given.
        method: what made the plans of the points.
        sections: further parts.
        mix: the GPU-hours on other GPU types than the one planned for; None if there are none.
    """

    ends: tuple[Frontier, ...] = ()
    price: Price | None = None
    method: str = EXACT
    sections: tuple[Section, ...] = ()
    mix: GpuMix | None = None

    @property
    def is_exact(self) -> bool:
        """Return whether the plans are those of the frontier."""
        return self.method == EXACT

    @property
    def mean_rescale_s(self) -> float:
        """Seconds of a start or a change of width, averaged over jobs."""
        classes = self.frontier.classes
        hours = sum(c.rate_per_h * c.rescale_h for c in classes)
        return HOUR_S * hours / self.frontier.rate_per_h

    def step(self) -> str:
        """Return the most useful of `steps`: the dollars or the GPU, if small vs. the least."""
        steps = self.steps(self.frontier.min_budget)
        wanted = "100_usd_month" if "100_usd_month" in steps else "gpu"
        return wanted if steps[wanted] <= SMALL_STEP * self.frontier.min_budget else "1pct"

    def steps(self, gpus: float) -> dict[str, float]:
        """Return the GPUs of each step up from a budget: one, a hundredth, $100 a month."""
        dollars = {} if self.price is None else {"100_usd_month": 100 / self.usd_per_month(1.0)}
        return {"gpu": 1.0, "1pct": gpus / 100, **dollars}

    def usd_per_month(self, gpus: float) -> float:
        """Return the cost of a number of GPUs in a month of 730.5 hours. Raises without a price."""
        if self.price is None:
            raise ValueError("this study has no price")
        return gpus * self.price.usd_per_gpu_h * MONTH_H

    @property
    def over(self) -> list[Point]:
        """The points with replays over their budget by more than `OVER`, the worst first.

        Points for a completion time are left out, as they have no budget to keep.
        """
        found = [point for point in self.points if (self.spent_over_budget(point) or 0) > 1 + OVER]
        asked = [point for point in found if point.target_jct_s is None]
        return sorted(asked, key=lambda point: -(self.spent_over_budget(point) or 0))

    def spent_over_budget(self, point: Point) -> float | None:
        """Return what a replay takes over its budget, 1 where it keeps to it; None without one.

        The GPUs billed count where there is a price, else those rented.
        """
        if point.replayed is None:
            return None
        replay = point.replayed.replay
        taken = replay.rented_gpus if self.price is None else replay.billed_gpus
        return taken / point.plan.budget_gpus

    def optimum(self, gpus: float) -> Plan | None:
        """Return the optimal plan for a budget of average GPUs; None for one that is too small."""
        if gpus < self.frontier.min_budget * (1 - TOLERANCE):
            return None
        return self.frontier.at_budget(gpus)

    def least_mean_jct_s(self, gpus: float) -> float | None:
        """Return the mean completion time of `optimum`, without its plan."""
        if gpus < self.frontier.min_budget * (1 - TOLERANCE):
            return None
        return self.frontier.mean_jct_at(gpus)

    def to_frame(self) -> pl.DataFrame:
        """Return one row per point, class, epoch and width."""
        return pl.concat([point.plan.to_frame() for point in self.points])


def study_frontier(
    trace: Trace,
    speedup: SpeedupModel,
    choices: ClassOptions | None = None,
    *,
    budgets: Sequence[Budget] = (),
    targets_s: Sequence[float] = (),
    price: Price | None = None,
    method: str = EXACT,
    cluster: RentedCluster | None = None,
    today: Today | None = None,
    progress: Progress | None = None,
) -> FrontierStudy:
    """Find the frontier of a trace and the plans for some budgets or completion times.

    Args:
        trace: the jobs.
        speedup: how they scale; a range of parameters gives the frontiers at its ends too.
        choices: how the trace becomes a workload.
        budgets: budgets to plan for; without any and without targets, a sweep of 8 from the least
            to the saturating one, evenly spaced in ratio.
        targets_s: mean completion times to find the least budget for; exact plans only.
        price: of a GPU-hour.
        method: what makes the plans, a name of `METHODS`.
        cluster: how GPUs are rented in the replays; None for none. No job gets more GPUs than it
            can have.
        today: what the log shows; budgets may be relative to it.
        progress: called with the share done, of the frontiers or, with replays, of both: half each.

    Raises:
        InfeasibleError: a budget under the least, or a completion time under the least.
        InputError, UsageError: see `workload_of`; a method that cannot do what is requested.
    """
    choices = within_cluster(choices or ClassOptions(), speedup, cluster)
    if method != EXACT:
        find_method(method)
        refuse_others(method, speedup, targets_s)
    workloads = [workload_of(trace, one, choices) for one in (speedup, *(speedup.ends or ()))]
    workload = workloads[0]
    parts = len(workloads) * (1 if cluster is None else 2)  # the second half is for the replays
    frontier, *ends = (
        solve_frontier(each.classes, progress=_part(progress, position, parts))
        for position, each in enumerate(workloads)
    )
    solved: Solved = frontier if method == EXACT else find_method(method).solve(workload.classes)
    by_request = bool(budgets or targets_s)
    now_gpus = None if today is None else today.at_arrival_rate().usage.mean_gpus
    if by_request:
        plans: list[tuple[Plan, float | None, str | None]] = [
            (plan_of(solved, frontier, budget, price, now_gpus), None, budget.requested)
            for budget in budgets
        ]
        plans += [
            (frontier.at_target_jct(seconds), seconds, requested_jct(seconds))
            for seconds in targets_s
        ]
    else:
        plans = [(plan, None, None) for plan in sweep(solved, frontier)]
    plans.sort(key=lambda asked: asked[0].budget_gpus)

    tried = 0
    peak = None
    if cluster is not None and today is not None:
        peak = TodaysPeak(trace, speedup, choices, workload, cluster, today)

    def point(plan: Plan, target_s: float | None = None, requested: str | None = None) -> Point:
        nonlocal tried
        at_ends = tuple(
            end.mean_jct_at(plan.budget_gpus)
            if plan.budget_gpus >= end.min_budget * (1 - TOLERANCE)
            else None
            for end in ends
        )
        replayed = None if cluster is None else replay_and_measure(workload, plan, cluster)
        tried += 1
        if replayed is not None and progress is not None:
            progress(0.5 + 0.5 * tried / (len(plans) + 1))  # the knee is one more
        within = None if peak is None or replayed is None else peak.replay(plan, replayed.replay)
        return Point(
            plan=plan,
            target_jct_s=target_s,
            replayed=replayed,
            requested=requested,
            ends_jct_s=at_ends,
            within_peak=within,
        )

    searched = getattr(solved, "searched", "")
    study = FrontierStudy(
        workload=workload,
        speedup=speedup,
        frontier=frontier,
        ends=tuple(ends),
        points=tuple(point(*each) for each in plans),
        knee=point(frontier.knee()),
        price=price,
        by_request=by_request,
        method=method,
        cluster=cluster,
        notes=(f"--method {method} tried {searched}",) if searched else (),
        today=today,
    )
    if cluster is None or not by_request:
        return study
    budget_search = BudgetSearch(
        workload, solved.at_budget, frontier.min_budget, frontier.saturation_budget, cluster
    )
    inside = {
        id(point): budget_search.best_within(
            point.plan.budget_gpus, billed=price is not None, up_to=point.plan.budget_gpus
        )
        for point in study.over[:MOST_INSIDE]
    }
    points = [replace(point, inside=inside.get(id(point))) for point in study.points]
    return replace(study, points=tuple(points))


def _part(progress: Progress | None, position: int, parts: int) -> Progress | None:
    """Return what turns the share done of one of some equal parts into that of the whole."""
    return None if progress is None else lambda share: progress((position + share) / parts)
