"""From the program's value of a plan to the dollars of its replay, step by step."""

from __future__ import annotations

from dataclasses import dataclass

from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.planner.plan.assignment import AssignedJobs
from gpuplan.planner.plan.market_use import market_uses
from gpuplan.planner.plan.purchase import Purchase
from gpuplan.planner.plan.replay import PlanRun

PROGRAM = "program"
WHOLE_NODES = "whole_nodes"
SINGLE_JOBS = "single_jobs"
DEFERRED_JOBS = "deferred_jobs"
IDLE_LEASES = "idle_leases"
WAITS = "waits"


@dataclass(frozen=True, slots=True)
class CostStep:
    """What one more thing that the program does not know makes a plan cost.

    Attributes:
        name: ``program``, its value; ``whole_nodes``; ``single_jobs``, each on one route and exact
            in time; ``deferred_jobs``, which run through once they start; ``idle_leases``, rented
            GPUs before they are returned; ``waits``, with losses of spot GPUs and a cap.
        usd_per_month: with this step.
        change_usd_per_month: over the step before.
    """

    name: str
    usd_per_month: float
    change_usd_per_month: float


def cost_steps(
    bought: Purchase, assigned: AssignedJobs, run: PlanRun | None, *, drains: bool = False
) -> list[CostStep]:
    """Return the steps from the program's value to the replay; to single jobs without a replay.

    Args:
        bought: the plan.
        assigned: the route of each job.
        run: the replay; None where the plan cannot be replayed.
        drains: whether what is paid after the window counts, until the last job ends.
    """
    columns, whole = bought.program.columns, bought.whole
    usd = {PROGRAM: bought.exact.usd_per_h * MONTH_H, WHOLE_NODES: whole.usd_per_h * MONTH_H}
    through = sum(use.usd_per_month for use in market_uses(columns, whole, assigned))
    usd[SINGLE_JOBS] = through
    if columns.has_deferred:
        stopping = market_uses(columns, whole, assigned, deferred_may_stop=True)
        usd[SINGLE_JOBS] = sum(use.usd_per_month for use in stopping)
        usd[DEFERRED_JOBS] = through
    if run is not None:
        window_s = columns.bins.window_s
        idle = sum(of.idle_usd_per_h(0.0, window_s) for of in run.types)
        usd[IDLE_LEASES] = through + idle * MONTH_H
        usd[WAITS] = run.usd_per_month(drains=drains)
    steps, before = [], usd[PROGRAM]
    for name, usd_per_month in usd.items():
        steps.append(CostStep(name, usd_per_month, usd_per_month - before))
        before = usd_per_month
    return steps
