"""What is asked of a study, as plans: budgets, sweeps of them, and what a method cannot do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log
from typing import TypeVar

import numpy as np

from gpuplan.analysis.errors import InfeasibleError, UsageError
from gpuplan.analysis.prices.quote import Quote
from gpuplan.planner.frontier.budget import Budget, within
from gpuplan.planner.frontier.methods.registry import Solved
from gpuplan.planner.frontier.model.exact import Frontier
from gpuplan.planner.frontier.model.hull import TOLERANCE
from gpuplan.planner.frontier.model.plan import Plan
from gpuplan.planner.speedup.model import SpeedupModel

SWEEP_POINTS = 8
Point = TypeVar("Point")


def sweep(solved: Solved, frontier: Frontier) -> list[Plan]:
    """Return plans for budgets from the least to the saturating one, evenly spaced in ratio.

    A method that finds none at the smallest budgets has fewer.
    """
    low, high = frontier.min_budget, frontier.saturation_budget
    budgets = np.geomspace(low, high, SWEEP_POINTS) if high > low else np.array([low])
    plans = []
    for gpus in budgets.tolist():
        try:
            plans.append(solved.at_budget(gpus))
        except InfeasibleError:
            continue
    return plans or [solved.at_budget(high)]


def plan_of(solved: Solved, frontier: Frontier, budget: Budget, price: Quote | None) -> Plan:
    """Return the plan of a method for a budget.

    Raises:
        InfeasibleError: it is below the least of the frontier, told in the unit asked for, or of
            the method.
        UsageError: dollars without a price.
    """
    usd = None if price is None else price.usd_per_gpu_h
    gpus = budget.gpus(frontier.load_gpus, usd)
    if gpus >= frontier.min_budget * (1 - TOLERANCE):
        return solved.at_budget(gpus)  # another method may need more, and says so
    return within(budget, frontier.at_budget, gpus, budget.at_least(frontier.min_budget, usd))


def refuse_others(method: str, speedup: SpeedupModel, targets_s: Sequence[float]) -> None:
    """Raise where something is asked for that only the exact method answers."""
    if targets_s:
        raise UsageError(f"--method {method} plans for budgets; --target-jct needs --method exact")
    if speedup.ends:
        raise UsageError(
            f"--method {method} needs one speedup, not a range\n  next: --speedup {speedup.name}"
        )


def shown_of(
    points: Sequence[Point], knee: Point, by_request: bool, budget: Callable[[Point], float]
) -> Point:
    """Return the point people see first: the one asked for, nearest to the knee of several; or it.

    Args:
        points: for the budgets asked for, or of a sweep.
        knee: where the frontier bends most.
        by_request: whether the points were asked for.
        budget: of a point.
    """
    if not by_request and len(points) > 1:
        return knee
    return min(points, key=lambda point: abs(log(budget(point) / budget(knee))))
