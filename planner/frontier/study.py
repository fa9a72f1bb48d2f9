"""The whole question of ``gpuplan pareto``: a trace, a speedup, some budgets, and the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log
from typing import Any, Protocol

import polars as pl

from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.analysis.characterize.gpu_mix import GpuMix
from gpuplan.analysis.characterize.today import Today
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.elastic.candidates import within_cluster
from gpuplan.planner.elastic.class_options import ClassOptions
from gpuplan.planner.elastic.job_classes import ClassWorkload, workload_of
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.frontier.budget import (
    Budget,
    plan_of,
    refuse_exact_only,
    requested_jct,
    sweep,
)
from gpuplan.planner.frontier.methods.registry import Solved, find_method
from gpuplan.planner.frontier.model.exact import Frontier, solve_frontier
from gpuplan.planner.frontier.model.gpu_types import solve_types, workloads_by_type
from gpuplan.planner.frontier.model.plan import Plan
from gpuplan.planner.frontier.points import Point, Points, least_mean_jct_s, spent_over, steps_from
from gpuplan.planner.frontier.replay.search import OVER
from gpuplan.planner.frontier.replay.todays_peak import TodaysPeak
from gpuplan.planner.frontier.slowdown import RecordedRuns
from gpuplan.planner.money.price_request import Price
from gpuplan.planner.money.todays_basis import NO_BASIS, TodaysBasis
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
class PlanRequest:
    """Which plans to make, and how to replay them.

    Attributes:
        budgets: budgets to plan for; without any and without targets, a sweep of 8 from the least
            to the saturating one, evenly spaced in ratio. In dollars on several GPU types.
        targets_s: mean completion times to find the least budget for; exact plans only.
        method: what makes the plans, a name of `METHODS`.
        cluster: how GPUs of each type are rented in the replays; None for none. No job gets more
            GPUs than it can have.
        prices: of a GPU-hour by GPU type, under any name on one type; several types make budgets
            dollars.
        recorded_on: the one of several types that the jobs were recorded on; None for the first of
            the speedups.
        basis: what the dollars of budgets on one GPU type have in common with today's bill.
    """

    budgets: Sequence[Budget] = ()
    targets_s: Sequence[float] = ()
    method: str = EXACT
    cluster: RentedCluster | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)
    recorded_on: str | None = None
    basis: TodaysBasis = NO_BASIS

    @property
    def is_mixed(self) -> bool:
        """Whether there are several GPU types to choose from."""
        return len(self.prices) > 1

    @property
    def by_request(self) -> bool:
        """Whether some budgets or times are named."""
        return bool(self.budgets or self.targets_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierStudy:
    """A frontier and the requested points, on one GPU type or several.

    Attributes:
        workload: the job classes of the trace, with the candidates of all types.
        speedup: the speedups assumed or measured.
        frontier: the optimum at every budget.
        points: by budget, ascending.
        knee: the optimal plan where the frontier bends most, and its replay.
        ends: the frontiers at the two ends of a range of speedups; empty without a range.
        prices: of a GPU-hour by type, under any name on one type; empty without.
        recorded_on: the type that the jobs were recorded on; None on one type.
        method: what made the plans of the points.
        by_request: whether the points were requested, and are not a sweep of the frontier.
        cluster: how GPUs of each type were rented in the replays; None without replays.
        today: what the log shows; None if no job has a run time and GPUs.
        notes: caveats for readers of the plans.
        sections: further parts.
        mix: the GPU-hours on other GPU types than the one planned for; None if there are none.
        recommends: whether a plan may be called the best.
        basis: of the request.
    """

    workload: ClassWorkload
    speedup: SpeedupModel
    frontier: Frontier
    points: tuple[Point, ...]
    knee: Point
    ends: tuple[Frontier, ...] = ()
    prices: Mapping[str, Price] = field(default_factory=dict)
    recorded_on: str | None = None
    method: str = EXACT
    by_request: bool = True
    cluster: RentedCluster | None = None
    today: Today | None = None
    notes: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    mix: GpuMix | None = None
    recommends: bool = True
    basis: TodaysBasis = NO_BASIS

    @property
    def is_mixed(self) -> bool:
        """Whether there are several GPU types, and budgets are dollars an hour."""
        return bool(self.frontier.prices)

    @property
    def price(self) -> Price | None:
        """The price on one GPU type; None without one, and on several types."""
        return None if self.is_mixed else next(iter(self.prices.values()), None)

    @property
    def priced(self) -> str:
        """The prices with where they come from, for people."""
        return "; ".join(price.text for price in self.prices.values())

    @property
    def is_exact(self) -> bool:
        """Return whether the plans are those of the frontier."""
        return self.method == EXACT

    @property
    def now_gpus(self) -> float | None:
        """Today's GPU-hours over the hours in which jobs arrive: the base of budgets and loads."""
        return _now_gpus(self.today)

    @property
    def shown(self) -> Point:
        """The point to show first: the requested one closest to the knee, or the knee."""
        if not self.by_request and len(self.points) > 1:
            return self.knee
        at = self.knee.plan.budget
        return min(self.points, key=lambda point: abs(log(point.plan.budget / at)))

    @property
    def mean_rescale_s(self) -> float:
        """Seconds of a start or a change of width, averaged over jobs."""
        classes = self.frontier.classes
        hours = sum(c.rate_per_h * c.rescale_h for c in classes)
        return HOUR_S * hours / self.frontier.rate_per_h

    def step(self) -> str:
        """Return the most useful step of `steps_from`: dollars or a GPU, if small vs. the least."""
        least = self.frontier.min_budget
        steps = steps_from(self.frontier, least, self.unit_usd)
        wanted = "100_usd_month" if "100_usd_month" in steps else "gpu"
        return wanted if self.is_mixed or steps[wanted] <= SMALL_STEP * least else "1pct"

    @property
    def unit_usd(self) -> float | None:
        """Dollars an hour for a unit of the budget; None without a price."""
        return _unit_usd(self.frontier, self.price)

    def usd_per_month(self, amount: float) -> float:
        """Return the dollars in a month of 730.5 hours for a budget. Raises without a price."""
        if self.unit_usd is None:
            raise ValueError("this study has no price")
        return self.basis.usd_per_h(amount, self.unit_usd) * MONTH_H

    @property
    def over(self) -> list[Point]:
        """The points with replays over their budget by more than `OVER`, the worst first.

        Points for a completion time are left out, as they have no budget to keep.
        """
        exceeded = [p for p in self.points if p.target_jct_s is None and spent_over(p) > 1 + OVER]
        return sorted(exceeded, key=lambda point: -spent_over(point))

    def least_mean_jct_s(self, gpus: float) -> float | None:
        """Return the least mean completion time at a budget; None for one that is too small."""
        return least_mean_jct_s(self.frontier, gpus)

    def to_frame(self) -> pl.DataFrame:
        """Return one row per point, class, epoch, GPU type and width."""
        budget = "budget_usd_per_h" if self.is_mixed else "budget_gpus"
        return pl.concat([point.plan.to_frame(budget) for point in self.points])


def study_frontier(
    trace: Trace,
    speedup: SpeedupModel,
    choices: ClassOptions | None = None,
    request: PlanRequest | None = None,
    *,
    today: Today | None = None,
    progress: Progress | None = None,
) -> FrontierStudy:
    """Find the frontier of a trace and the plans for some budgets or completion times.

    Args:
        trace: the jobs.
        speedup: how they scale; a range of parameters gives the frontiers at its ends too, and for
            several GPU types it must know these.
        choices: how the trace becomes a workload.
        request: which plans.
        today: what the log shows; budgets may be relative to it.
        progress: called with the share done, of the frontiers or, with replays, of both: half each.

    Raises:
        InfeasibleError: a budget under the least, or a completion time under the least.
        InputError, UsageError: see `workload_of`; a method that cannot do what is requested, or a
            budget that is not in dollars on several GPU types.
    """
    request = request or PlanRequest()
    cluster, method = request.cluster, request.method
    choices = within_cluster(choices or ClassOptions(), speedup, cluster)
    if method != EXACT:
        find_method(method)
        refuse_exact_only(method, speedup, request.targets_s)
    workload, frontier, ends = _solved(trace, speedup, choices, request, progress)
    solved: Solved = frontier if method == EXACT else find_method(method).solve(workload.classes)
    price = None if request.is_mixed else next(iter(request.prices.values()), None)
    peak = None
    if cluster is not None and today is not None and not request.is_mixed:
        peak = TodaysPeak(trace, speedup, choices, workload, cluster, today)
    recorded = RecordedRuns.of(workload.arrivals)
    unit_usd = _unit_usd(frontier, price)
    points = Points(
        workload, frontier, ends, unit_usd, cluster, peak, recorded, basis=request.basis
    )
    plans = _plans(solved, frontier, request, price, _now_gpus(today))
    made = []
    for plan, target_s, requested in [*plans, (frontier.knee(), None, None)]:
        made.append(points.point(plan, target_s, requested))
        if cluster is not None and progress is not None:
            progress(0.5 + 0.5 * len(made) / (len(plans) + 1))
    searched = getattr(solved, "searched", "")
    study = FrontierStudy(
        workload=workload,
        speedup=speedup,
        frontier=frontier,
        ends=ends,
        points=tuple(made[:-1]),
        knee=made[-1],
        prices={t: request.prices[t] for t in frontier.prices or request.prices},
        recorded_on=next(iter(frontier.prices), None),
        by_request=request.by_request,
        method=method,
        cluster=cluster,
        notes=(
            *((f"--method {method} tried {searched}",) if searched else ()),
            *(f"not replayed at some budgets: {why}" for why in dict.fromkeys(points.refused)),
        ),
        today=today,
        basis=request.basis,
    )
    if cluster is None or not request.by_request:
        return study
    search = points.inside if request.is_mixed else points.search(solved, price is not None)
    exceeded = study.over if request.is_mixed else study.over[:MOST_INSIDE]
    kept = {id(point): search(point) for point in exceeded}
    return replace(study, points=tuple(kept.get(id(point), point) for point in study.points))


def _solved(
    trace: Trace,
    speedup: SpeedupModel,
    choices: ClassOptions,
    request: PlanRequest,
    progress: Progress | None,
) -> tuple[ClassWorkload, Frontier, tuple[Frontier, ...]]:
    """Return the classes, their frontier, and those at the ends of a range of speedups."""
    if request.is_mixed:
        by_type = workloads_by_type(trace, speedup, choices, recorded_on=request.recorded_on)
        usd = {gpu_type: request.prices[gpu_type].usd_per_gpu_h for gpu_type in by_type}
        frontier = solve_types(by_type, usd)
        recorded = next(iter(by_type.values()))
        return replace(recorded, classes=frontier.classes), frontier, ()
    workloads = [workload_of(trace, model, choices) for model in (speedup, *(speedup.ends or ()))]
    parts = len(workloads) * (1 if request.cluster is None else 2)  # the rest is for the replays
    frontier, *ends = (
        solve_frontier(each.classes, progress=_part(progress, position, parts))
        for position, each in enumerate(workloads)
    )
    return workloads[0], frontier, tuple(ends)


def _plans(
    solved: Solved,
    frontier: Frontier,
    request: PlanRequest,
    price: Price | None,
    now_gpus: float | None,
) -> list[tuple[Plan, float | None, str | None]]:
    """Return the plans by budget, each with the time it is for and what it was requested as."""
    if not request.by_request:
        return [(plan, None, None) for plan in sweep(solved, frontier)]
    plans: list[tuple[Plan, float | None, str | None]] = [
        (
            plan_of(solved, frontier, budget, price, now_gpus, request.basis),
            None,
            budget.requested,
        )
        for budget in request.budgets
    ]
    plans += [
        (frontier.at_target_jct(seconds), seconds, requested_jct(seconds))
        for seconds in request.targets_s
    ]
    return sorted(plans, key=lambda row: row[0].budget)


def _now_gpus(today: Today | None) -> float | None:
    return None if today is None else today.at_arrival_rate().usage.mean_gpus


def _unit_usd(frontier: Frontier, price: Price | None) -> float | None:
    if frontier.prices:
        return 1.0
    return None if price is None else price.usd_per_gpu_h


def _part(progress: Progress | None, position: int, parts: int) -> Progress | None:
    """Return what turns the share done of one of some equal parts into that of the whole."""
    return None if progress is None else lambda share: progress((position + share) / parts)
