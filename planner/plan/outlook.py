"""What decides a plan, how sure it is, and what would be cheaper."""

from __future__ import annotations

from dataclasses import dataclass

from gpuplan.analysis.base.plain import Hidden
from gpuplan.planner.plan.assignment import AssignedJobs
from gpuplan.planner.plan.assumptions import OtherAssumption, assumed_law, other_assumptions
from gpuplan.planner.plan.cheaper import CheaperPlan, SlowestClass, cheaper_plans, slowest_class
from gpuplan.planner.plan.decisions import DecidedPart, plan_decisions
from gpuplan.planner.plan.growth import PlanGrowth, growth_steps, plan_growths
from gpuplan.planner.plan.market_use import MarketUse
from gpuplan.planner.plan.prices_over_time import PricesOverTime, prices_over_time
from gpuplan.planner.plan.purchase import Purchase
from gpuplan.planner.plan.uncertainty import PlanDollars, PlanIntervals, plan_intervals


@dataclass(frozen=True, slots=True)
class PlanOutlook:
    """A plan beyond its dollars.

    Attributes:
        on_demand_usd_per_month: of every job as recorded, rented; null where a type cannot be.
        assumed_speedup: the law on which other widths rest; null where they are measured or unused.
        slowest: the class that becomes slowest; null without classes.
        decisions: what decides each part of the plan.
        intervals: over resamples of the time of the log; null where none can be planned.
        growth: the commitment under other demands; empty unless asked for.
        assumptions: the plan where its speedup law or the losses of spot nodes are otherwise.
        cheaper: plans under looser limits.
        prices: GPUs and the hourly price of one over time, by GPU type.
    """

    on_demand_usd_per_month: float | None
    assumed_speedup: str | None
    slowest: SlowestClass | None
    decisions: tuple[DecidedPart, ...]
    intervals: PlanIntervals | None
    growth: tuple[PlanGrowth, ...]
    assumptions: tuple[OtherAssumption, ...]
    cheaper: tuple[CheaperPlan, ...]
    prices: Hidden[tuple[PricesOverTime, ...]]


def plan_outlook(
    bought: Purchase,
    assigned: AssignedJobs,
    recorded: Purchase | None,
    seed: int,
    growth: float | tuple[float, float] | None,
    dollars: PlanDollars,
    uses: tuple[MarketUse, ...],
) -> PlanOutlook:
    """Return what decides a plan, how sure it is, and what would be cheaper.

    Args:
        bought: the plan.
        assigned: its jobs.
        recorded: the best commitment with jobs as recorded; None where there is none.
        seed: of the resamples.
        growth: of demand, or a range of it; None for none.
        dollars: of the plan, of `recorded`, and of every job rented, exact in time.
        uses: of the markets of the plan.
    """
    program = bought.program
    growths: tuple[float, ...] = ()
    if growth is not None:
        growths = growth_steps(*growth) if isinstance(growth, tuple) else growth_steps(growth)
    return PlanOutlook(
        on_demand_usd_per_month=dollars.on_demand_usd_per_month,
        assumed_speedup=assumed_law(bought),
        slowest=slowest_class(program.columns, assigned),
        decisions=plan_decisions(bought, assigned, uses),
        intervals=plan_intervals(bought, seed=seed, recorded=recorded, dollars=dollars),
        growth=plan_growths(bought, growths),
        assumptions=other_assumptions(bought),
        cheaper=cheaper_plans(bought),
        prices=prices_over_time(bought),
    )
