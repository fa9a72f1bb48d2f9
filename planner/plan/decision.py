"""Solve a program and replay its plan, until the waits it counts with are those of the replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.planner.plan.assignment import AssignedJobs, assigned_jobs
from gpuplan.planner.plan.caps import (
    CappedRun,
    PlanCap,
    cap_holds,
    capped_runs,
    choose_cap,
    uses_under_cap,
)
from gpuplan.planner.plan.kept import KeptPlan, OldPlan, keep_plan
from gpuplan.planner.plan.market_use import ROUNDING, MarketUse, market_uses
from gpuplan.planner.plan.program import PlanProgram
from gpuplan.planner.plan.purchase import Purchase, purchase
from gpuplan.planner.plan.refusals import refuse_capped_budget
from gpuplan.planner.plan.replay import PlanRun, RentingTerms, replay_plan
from gpuplan.planner.plan.target_search import TargetSearch
from gpuplan.planner.plan.targets import MEAN_WAIT_TARGET, TimeTarget

MOST_ROUNDS = 4
SAME_WAIT = 0.01
"""Waits of the program and of the replay are the same within this share of the target."""


@dataclass(frozen=True, slots=True)
class PlanDecision:
    """A plan with its replay.

    Attributes:
        bought: the optimum, before and after rounding.
        assigned: the route of each job.
        run: the replay.
        caps: under which it was replayed, by type; None for those of the markets.
        tried: plans under caps; empty where no cap and no target of waits is given.
        anew: the plan that would be made without an older one.
        kept: what stays of an older plan; None without one.
    """

    bought: Purchase
    assigned: AssignedJobs
    run: PlanRun
    caps: Mapping[str, float] | None = None
    tried: tuple[PlanCap, ...] = ()
    anew: Purchase | None = None
    kept: KeptPlan | None = None

    @property
    def is_capped(self) -> bool:
        """Whether jobs wait under a cap, so that what is rented is that of the replay."""
        return bool(self.tried) and cap_holds(self._assigned_uses(), self.run)

    @property
    def usd_per_month(self) -> float:
        """Dollars of the replay; where jobs wait under a cap until the last of them ends."""
        return self.run.usd_per_month(drains=self.is_capped)

    def uses(self) -> tuple[MarketUse, ...]:
        """Return what is used in each market: of the jobs as assigned, or replayed under a cap."""
        uses = self._assigned_uses()
        return uses_under_cap(uses, self.run) if self.is_capped else uses

    def _assigned_uses(self) -> tuple[MarketUse, ...]:
        return market_uses(self.bought.program.columns, self.bought.whole, self.assigned)


def decide(
    program: PlanProgram,
    terms: RentingTerms,
    target: TimeTarget | None = None,
    old: OldPlan | None = None,
) -> PlanDecision:
    """Return a plan that counts with the waits of its replay, and keeps to a target of waits.

    Args:
        program: its limit on the mean time counts no waits.
        terms: how GPUs on demand are had.
        target: of times; None for none.
        old: an older plan to stay with where a change saves little; None for none.

    Raises:
        InfeasibleError: no plan meets the limits or the target.
    """
    without_waits = _within_budget(program, terms)
    program = without_waits.bought.program
    try:
        decision = _with_waits(program, without_waits, terms)
    except InfeasibleError:  # with the waits of a plan on the way; another has fewer
        if target is None:
            raise
        decision = _searched(program, without_waits, terms, target)
    if old is not None:
        anew = decision.bought
        bought, kept = keep_plan(anew, old)
        decision = replace(_replayed(bought, terms), anew=anew, kept=kept)
    if _has_cap(program) or (target is not None and target.is_of_waits):
        return _capped(decision, terms, target)
    return decision


def _with_waits(
    program: PlanProgram, without_waits: PlanDecision, terms: RentingTerms
) -> PlanDecision:
    """Return a plan whose limit on the mean time counts the waits of its replay.

    Raises:
        InfeasibleError: no plan meets the limits with the waits of one of the plans on the way.
    """
    decision = without_waits
    limit_s = program.limits.mean_time_s
    wait_s = 0.0
    for _ in range(0 if limit_s is None else MOST_ROUNDS):
        replayed_s = decision.run.measured_s(MEAN_WAIT_TARGET)
        if limit_s is None or abs(replayed_s - wait_s) < SAME_WAIT * limit_s:
            break
        wait_s = (wait_s + replayed_s) / 2
        limits = replace(program.limits, mean_time_s=limit_s - wait_s, wait_s=wait_s)
        tighter = replace(program, limits=limits)
        if _is_within(without_waits.bought, limit_s - wait_s):  # it stays the optimum
            decision = replace(without_waits, bought=replace(without_waits.bought, program=tighter))
            continue
        decision = _replayed(purchase(tighter, decision.bought.exact.start), terms)
    return decision


def _has_cap(program: PlanProgram) -> bool:
    return any(market.cap is not None for market in program.columns.markets)


def _within_budget(program: PlanProgram, terms: RentingTerms) -> PlanDecision:
    """Return the plan of a program with its replay.

    The program knows no waits. Where it is over the budget, the cheapest plan whose replay under
    a cap is within it has a program without the budget.
    """
    budget_usd_per_h = program.limits.usd_per_h
    if budget_usd_per_h is None or not _has_cap(program):
        return _replayed(purchase(program), terms)
    try:
        bought = purchase(program)
    except InfeasibleError:
        bought = purchase(replace(program, limits=replace(program.limits, usd_per_h=None)))
    decision = _replayed(bought, terms)
    usd = decision.run.usd_per_month(drains=bought.program is not program)
    budget_usd = budget_usd_per_h * MONTH_H
    if bought.program is not program and usd > budget_usd * (1 + ROUNDING):
        raise refuse_capped_budget(budget_usd, usd)
    return decision


def _searched(
    program: PlanProgram, decision: PlanDecision, terms: RentingTerms, target: TimeTarget
) -> PlanDecision:
    """Return the plan with the fewest more commitments that meets a target in its replay.

    Raises:
        InfeasibleError: none was found.
    """

    def replayed(program: PlanProgram) -> tuple[Purchase, PlanRun]:
        tried = _replayed(purchase(program, decision.bought.exact.start), terms)
        return tried.bought, tried.run

    limit_s = program.limits.mean_time_s
    if limit_s is None or target.is_of_waits:
        limit_s = target.limit(program.columns.now_s)
    search = TargetSearch(program, target, limit_s, replayed)
    return _replayed(search.found((decision.bought, decision.run)), terms)


def _is_within(bought: Purchase, limit_s: float) -> bool:
    """Return whether a plan has a mean time within a bound, before and after rounding."""
    return max(bought.exact.mean_time_s, bought.whole.mean_time_s) <= limit_s


def _replayed(bought: Purchase, terms: RentingTerms) -> PlanDecision:
    columns = bought.program.columns
    assigned = assigned_jobs(columns, bought.whole.share)
    run = replay_plan(columns, assigned, bought.whole.committed, terms)
    return PlanDecision(bought, assigned, run)


def _capped(decision: PlanDecision, terms: RentingTerms, target: TimeTarget | None) -> PlanDecision:
    """Return the plan with the caps that were tried, under the one that a target of waits needs."""
    committed = decision.bought.whole.committed
    runs = capped_runs(decision.run, decision.assigned, committed, terms)
    chosen: CappedRun | None = runs[-1]
    caps = None
    if target is not None and target.is_of_waits:
        if all(capped.run.measured_s(target) > target.limit(0.0) for capped in runs):
            more = _searched(decision.bought.program, decision, terms, target)
            decision = replace(more, anew=decision.anew, kept=decision.kept)
            committed = decision.bought.whole.committed
            runs = capped_runs(decision.run, decision.assigned, committed, terms)
        runs, chosen = choose_cap(runs, target, decision.assigned, committed, terms)
        caps = chosen.by_type
    rows = tuple(capped.row(chosen) for capped in runs)
    run = decision.run if chosen is None else chosen.run
    return replace(decision, run=run, caps=caps, tried=rows)
