"""Cheaper plans, and what they cost in time: looser bounds on time, or smaller budgets."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.planner.plan.assignment import AssignedJobs, assigned_jobs
from gpuplan.planner.plan.columns import RouteColumns
from gpuplan.planner.plan.market_use import usd_of
from gpuplan.planner.plan.program import PlanLimits, PlanOptimum
from gpuplan.planner.plan.purchase import Purchase, best, purchase

MOST_CHEAPER = 3
LEAST_SAVING = 0.01
"""A plan that saves less, over the plan or the next cheaper one, is not offered."""
SLOWER = (1.25, 1.5, 2.0, 3.0)
LATER = (1.1, 1.25, 1.5, 2.0)
"""Times a target of the mean time."""
OF_SPENT = (0.95, 0.9, 0.8)
"""Smaller budgets, of the dollars that the plan spends."""
BINDS = 1e-9


@dataclass(frozen=True, slots=True)
class SlowestClass:
    """The class that becomes slowest as planned.

    Attributes:
        name: of the class.
        jobs: that it has; the shares of few jobs are coarse, so they may miss a bound.
        times: their mean time over the recorded one.
    """

    name: str
    jobs: int
    times: float


@dataclass(frozen=True, slots=True)
class CheaperPlan:
    """A plan under looser limits, dollars and times of the jobs as assigned.

    Attributes:
        slower: most mean time of a class over its recorded one; null for no bound.
        target_s: most mean time of a job; null for no bound.
        budget_usd_per_month: that it spends at most; null without a budget.
        usd_per_month: what it costs.
        mean_time_s: of its jobs, without waits.
        slowest: the class that becomes slowest; null without classes.
    """

    slower: float | None
    target_s: float | None
    budget_usd_per_month: float | None
    usd_per_month: float
    mean_time_s: float
    slowest: SlowestClass | None


def looser_limits(bought: Purchase) -> list[PlanLimits]:
    """Return the limits of candidates, from the tightest on.

    A bound on classes becomes wider, and with it one on the mean time where this has a price.
    """
    limits = bought.program.limits
    if limits.usd_per_h is not None:
        spent = bought.exact.usd_per_h
        return [replace(limits, usd_per_h=spent * part) for part in OF_SPENT]
    has_price = bought.exact.usd_per_h_per_s > BINDS and limits.mean_time_s is not None
    candidates = []
    if limits.slower is not None:
        wider = [slower for slower in SLOWER if slower > limits.slower]
        candidates += [replace(limits, slower=slower) for slower in wider]
    if has_price and limits.mean_time_s is not None:
        for times in LATER:
            slower = None if limits.slower is None else max(limits.slower, times)
            mean_time_s = limits.mean_time_s * times
            candidates.append(replace(limits, mean_time_s=mean_time_s, slower=slower))
    return candidates


def cheaper_plans(bought: Purchase) -> tuple[CheaperPlan, ...]:
    """Return at most three plans under looser limits, each cheaper than the one before.

    They are chosen by the program's value, and shown in whole nodes with jobs as assigned.
    """
    program = bought.free
    candidates = []
    for limits in looser_limits(bought):
        plan = best(replace(program, limits=limits), bought.exact.start)
        if plan is not None:
            candidates.append((plan, limits))
    candidates.sort(key=lambda pair: (pair[0].mean_time_s, pair[0].usd_per_h))
    cheaper, last = [], bought.exact.usd_per_h
    for plan, limits in candidates:
        if plan.usd_per_h <= last * (1 - LEAST_SAVING):
            cheaper.append((plan, limits))
            last = plan.usd_per_h
    return tuple(
        _cheaper(purchase(replace(program, limits=limits), plan.start))
        for plan, limits in _spread(cheaper)
    )


def _spread(plans: list[tuple[PlanOptimum, PlanLimits]]) -> list[tuple[PlanOptimum, PlanLimits]]:
    """Return at most `MOST_CHEAPER`, the first and the last among them."""
    if len(plans) <= MOST_CHEAPER:
        return plans
    places = np.linspace(0, len(plans) - 1, MOST_CHEAPER).round().astype(int)
    return [plans[place] for place in places]


def _cheaper(bought: Purchase) -> CheaperPlan:
    columns, limits = bought.program.columns, bought.program.limits
    assigned = assigned_jobs(columns, bought.whole_nodes.share)
    budget = limits.usd_per_h
    return CheaperPlan(
        slower=limits.slower,
        target_s=limits.mean_time_s,
        budget_usd_per_month=None if budget is None else budget * MONTH_H,
        usd_per_month=usd_of(bought, assigned),
        mean_time_s=assigned.mean_time_s,
        slowest=slowest_class(columns, assigned),
    )


def slowest_class(columns: RouteColumns, assigned: AssignedJobs) -> SlowestClass | None:
    """Return the class whose mean time grows most; None where all jobs may wait."""
    slowest = None
    for planned in columns.classes:
        time_s = float(assigned.time_s[planned.jobs].mean())
        times = time_s / planned.recorded_s if planned.recorded_s > 0 else 1.0
        if slowest is None or times > slowest.times:
            slowest = SlowestClass(planned.name, planned.jobs.size, times)
    return slowest
