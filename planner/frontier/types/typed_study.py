"""The study of ``gpuplan pareto`` over several GPU types, in dollars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.analysis.characterize.today import Today
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.frontier.budget import (
    DOLLARS,
    SWEEP_POINTS,
    Budget,
    requested_jct,
    within,
)
from gpuplan.planner.frontier.model.class_options import ClassOptions
from gpuplan.planner.frontier.model.format_gpus import round_up
from gpuplan.planner.frontier.model.job_classes import ClassWorkload
from gpuplan.planner.frontier.points import BudgetPoint, BudgetStudy
from gpuplan.planner.frontier.replay.renting import RentedCluster, within_cluster
from gpuplan.planner.frontier.replay.search import OVER
from gpuplan.planner.frontier.types.heterogeneous import (
    TypedFrontier,
    TypedPlan,
    solve_typed,
    workloads_by_type,
)
from gpuplan.planner.frontier.types.typed_replay import ReplayedTypedPlan, replay_and_measure_types
from gpuplan.planner.money.price_request import Price
from gpuplan.planner.speedup.model import SpeedupModel

CANDIDATES = 48  # smaller budgets to replay, in search of a bill within the requested budget


@dataclass(frozen=True, slots=True)
class TypedPoint(BudgetPoint[TypedPlan, ReplayedTypedPlan, ReplayedTypedPlan]):
    """The plan for one of the requested budgets, on several GPU types.

    `inside` is the fastest evaluated plan with a replayed bill within this budget.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedStudy(BudgetStudy[TypedFrontier, TypedPoint]):
    """A frontier over several GPU types and the requested points; budgets are in dollars an hour.

    The classes of the workload have the candidates of all types, and their loads are in GPUs of the
    type that the jobs were recorded on.

    Attributes:
        recorded_on: that type.
        prices: by type.
    """

    recorded_on: str
    prices: Mapping[str, Price]

    def saved_s(self, point: TypedPoint) -> float:
        """Return the reduction of the mean completion time by $100 more a month, in seconds."""
        return self.frontier.frontier.saved_s(point.plan.plan.budget_gpus, 100 / MONTH_H)

    def to_frame(self) -> pl.DataFrame:
        """Return one row per point, class, epoch, GPU type and width."""
        return pl.concat([point.plan.to_frame() for point in self.points])


def study_types(
    trace: Trace,
    speedup: SpeedupModel,
    prices: Mapping[str, Price],
    choices: ClassOptions | None = None,
    *,
    recorded_on: str | None = None,
    budgets: Sequence[Budget] = (),
    targets_s: Sequence[float] = (),
    cluster: RentedCluster | None = None,
    today: Today | None = None,
) -> TypedStudy:
    """Find the frontier over several GPU types and the plans for some budgets or times.

    Args:
        trace: the jobs.
        speedup: a model that knows the GPU types.
        prices: of each of these types.
        choices: how the trace becomes a workload.
        recorded_on: the type the jobs were recorded on; None for the model's first.
        budgets: in dollars; without any and without targets, a sweep of 8.
        targets_s: mean completion times to find the least budget for.
        cluster: how GPUs of each type are rented in the replays; None for none.
        today: what the log shows.

    Raises:
        InfeasibleError: a budget under the least, or a completion time under the least.
        InputError, UsageError: see `workloads_by_type`; a budget that is not in dollars.
    """
    wanted = [budget.usd_per_h for budget in budgets]
    choices = within_cluster(choices or ClassOptions(), speedup, cluster)
    workloads = workloads_by_type(trace, speedup, choices, recorded_on=recorded_on)
    usd = {gpu_type: prices[gpu_type].usd_per_gpu_h for gpu_type in workloads}
    frontier = solve_typed(workloads, usd)
    first = next(iter(workloads))
    workload = replace(workloads[first], classes=frontier.frontier.classes)
    low, high = frontier.min_usd_per_h, frontier.saturation_usd_per_h
    by_request = bool(budgets or targets_s)
    if not by_request:
        wanted = np.geomspace(low, high, SWEEP_POINTS).tolist() if high > low else [low]
        budgets = [Budget(value, DOLLARS) for value in wanted]
    plans: list[tuple[TypedPlan, float | None, str | None]] = [
        (
            within(budget, frontier.at_budget, value, _at_least(budget, low)),
            None,
            budget.requested if by_request else None,
        )
        for budget, value in zip(budgets, wanted, strict=True)
    ]
    plans += [
        (frontier.at_target_jct(seconds), seconds, requested_jct(seconds)) for seconds in targets_s
    ]
    plans.sort(key=lambda asked: asked[0].plan.budget_gpus)
    refused: list[str] = []

    def point(
        plan: TypedPlan, target_s: float | None = None, requested: str | None = None
    ) -> TypedPoint:
        try:
            replayed = (
                None if cluster is None else replay_and_measure_types(workload, plan, usd, cluster)
            )
        except UsageError as error:  # a job that changes its type is planned, but not replayed
            refused.append(str(error).partition("\n")[0])
            replayed = None
        return TypedPoint(plan, target_s, replayed, requested=requested)

    points = tuple(point(*each) for each in plans)
    if cluster is not None and by_request:
        points = tuple(
            replace(one, inside=_inside(workload, frontier, one, usd, cluster)) for one in points
        )
    knee = point(frontier.knee())
    return TypedStudy(
        workload=workload,
        recorded_on=first,
        speedup=speedup,
        frontier=frontier,
        points=points,
        knee=knee,
        prices={gpu_type: prices[gpu_type] for gpu_type in workloads},
        by_request=by_request,
        cluster=cluster,
        today=today,
        notes=tuple(f"not replayed at some budgets: {why}" for why in dict.fromkeys(refused)),
    )


def _inside(
    workload: ClassWorkload,
    frontier: TypedFrontier,
    point: TypedPoint,
    usd: Mapping[str, float],
    cluster: RentedCluster,
) -> ReplayedTypedPlan | None:
    """Return the fastest evaluated plan with a bill within a budget that its own plan exceeds.

    A smaller budget may be billed more, so a grid of them is replayed.
    """
    if (
        point.replayed is None
        or point.target_jct_s is not None
        or point.replayed.spent_over_budget < 1 + OVER
    ):
        return None
    budget = float(point.plan.plan.budget_gpus)
    found = []
    for smaller in np.geomspace(frontier.min_usd_per_h, budget, CANDIDATES)[:-1].tolist():
        try:
            plan = frontier.at_budget(min(ceil(100 * smaller) / 100, budget))
            replayed = replay_and_measure_types(workload, plan, usd, cluster)
        except UsageError:  # a job that changes its type is planned, but not replayed
            continue
        if replayed.billed_usd_per_h <= budget:
            found.append(replayed)
    return min(found, key=lambda one: float(one.jct_s.mean()), default=None)


def _at_least(budget: Budget, usd_per_h: float) -> str:
    return budget.at_least(round_up(usd_per_h), 1.0)
