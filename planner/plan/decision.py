"""Solve a program and replay its plan, until the waits it counts with are those of the replay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.planner.plan.assignment import assigned_jobs
from gpuplan.planner.plan.caps import (
    PlanCap,
    cap_holds,
    cap_rows,
    capped_runs,
    choose_cap,
    uses_under_cap,
)
from gpuplan.planner.plan.kept import KeptPlan, OldPlan, keep_plan
from gpuplan.planner.plan.market_use import ROUNDING, MarketUse, market_uses
from gpuplan.planner.plan.program import PlanProgram
from gpuplan.planner.plan.purchase import SLACK_OF_TIME, Purchase, purchase
from gpuplan.planner.plan.refusals import fastest_s, refuse_capped_budget
from gpuplan.planner.plan.replay import PlanRun, RentingTerms, replay_plan
from gpuplan.planner.plan.targets import MEAN_WAIT_TARGET, TimeTarget, time_above, time_text
from gpuplan.simkit.arrays import FloatArray

MOST_ROUNDS = 4
SAME_WAIT = 0.01
"""Waits of the program and of the replay are the same within this share of the target."""
HALVINGS = 5
MOST_PEAKS = 4
"""Times that commitments are raised by what is still rented, for a plan that rents nothing."""

Replayed = Callable[[PlanProgram], tuple[Purchase, PlanRun]]
"""Solves a program and replays its plan. Raises `InfeasibleError`."""


@dataclass(frozen=True, slots=True)
class PlanDecision:
    """A plan with its replay.

    Attributes:
        bought: the optimum, before and after rounding.
        run: the replay, with the route of each job.
        tried: plans under caps; empty where no cap and no target of waits is given.
        anew: the plan that would be made without an older one.
        kept: what stays of an older plan; None without one.
    """

    bought: Purchase
    run: PlanRun
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
        return market_uses(self.bought, self.run.assigned)


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
        tighter = program.under(mean_time_s=limit_s - wait_s, wait_s=wait_s)
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
        bought = purchase(program.under(usd_per_h=None))
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
    return _replayed(search.plan((decision.bought, decision.run)), terms)


def _is_within(bought: Purchase, limit_s: float) -> bool:
    """Return whether a plan has a mean time within a bound, before and after rounding."""
    return max(bought.exact.mean_time_s, bought.whole_nodes.mean_time_s) <= limit_s


def _replayed(bought: Purchase, terms: RentingTerms) -> PlanDecision:
    columns = bought.program.columns
    assigned = assigned_jobs(columns, bought.whole_nodes.share)
    run = replay_plan(columns, assigned, bought.whole_nodes.committed, terms)
    return PlanDecision(bought, run)


def _capped(decision: PlanDecision, terms: RentingTerms, target: TimeTarget | None) -> PlanDecision:
    """Return the plan with the caps that were tried, under the one that a target of waits needs."""
    runs = capped_runs(decision.run)
    if target is None or not target.is_of_waits:
        return replace(decision, tried=cap_rows(runs, runs[-1]))
    if all(run.measured_s(target) > target.limit(0.0) for run in runs):
        more = _searched(decision.bought.program, decision, terms, target)
        decision = replace(more, anew=decision.anew, kept=decision.kept)
        runs = capped_runs(decision.run)
    runs, chosen = choose_cap(runs, target)
    return replace(decision, run=chosen, tried=cap_rows(runs, chosen))


@dataclass(frozen=True, slots=True)
class TargetSearch:
    """A search for more commitments than the cheapest plan has, with which it meets a target.

    A job waits while GPUs on demand are started. With more GPUs committed to fewer jobs wait, and
    with all of them none does. The least part of the way from the cheapest plan to the peak that
    meets the target is looked for by halving, each time with a replay.

    Attributes:
        program: its limit on the mean time counts no waits.
        target: of times.
        limit_s: its bound.
        replayed: solves a program and replays its plan.
    """

    program: PlanProgram
    target: TimeTarget
    limit_s: float
    replayed: Replayed

    def plan(self, cheapest: tuple[Purchase, PlanRun]) -> Purchase:
        """Return the plan with the fewest commitments that meets the target in its replay.

        Args:
            cheapest: a plan that does not meet it, with its replay.

        Raises:
            InfeasibleError: none was found; the message has a bound that a replay met.
        """
        least = cheapest[0].whole_nodes.committed
        most, fastest = self._fastest(*cheapest)
        met = self._met_with(most)
        if met is None and self._meets(fastest[1]):
            met = fastest[0]
        if met is None:
            raise self._refused(fastest)
        low, high = 0.0, 1.0
        for _ in range(HALVINGS if (most > least).any() else 0):
            middle = (low + high) / 2
            plan = self._met_with(self._between(least, most, middle))
            low, high = (middle, high) if plan is None else (low, middle)
            met = plan or met
        return met

    def _meets(self, run: PlanRun) -> bool:
        return run.measured_s(self.target) <= self.limit_s

    def _between(self, least: FloatArray, most: FloatArray, part: float) -> FloatArray:
        """Return commitments in whole nodes, part of the way from some to others."""
        markets = self.program.columns.markets
        return np.array(
            [
                min(high, low + ceil(part * max(0.0, high - low) / market.step) * market.step)
                for market, low, high in zip(markets, least, most, strict=True)
            ]
        )

    def _fastest(
        self, bought: Purchase, run: PlanRun
    ) -> tuple[FloatArray, tuple[Purchase, PlanRun]]:
        """Return commitments that cover the peak, as far as may be, and the fastest plan there.

        It does not depend on the bound of the target: every class is on its fastest routes.
        """
        rate = self.program.columns.rate_per_s
        program = self.program
        if rate.size:
            mean_s = float(rate @ fastest_s(program) / rate.sum()) * (1 + SLACK_OF_TIME)
            program = program.under(mean_time_s=mean_s, wait_s=0.0)
        floor = np.zeros(len(run.types))
        result = self.replayed(program)
        for _ in range(MOST_PEAKS):
            peak = self._covering(*result)
            if (peak <= floor).all():
                break
            floor = np.maximum(floor, peak)
            try:
                result = self.replayed(replace(program, least_committed=floor))
            except InfeasibleError:  # over a budget
                break
        return np.maximum(floor, bought.whole_nodes.committed), result

    def _covering(self, bought: Purchase, run: PlanRun) -> FloatArray:
        """Return commitments with what a replay rents at most, as far as a cap lets them."""
        covering = bought.whole_nodes.committed.copy()
        for number, (market, of) in enumerate(
            zip(self.program.columns.markets, run.types, strict=True)
        ):
            if market.committed_usd is None:
                continue
            most = market.most_committed
            all_of_it = covering[number] + of.run.peak_leased
            all_of_it = ceil(all_of_it / market.step) * market.step
            if most is not None:
                all_of_it = min(all_of_it, most // market.step * market.step)
            covering[number] = max(covering[number], all_of_it)
        return covering

    def _met_with(self, committed: FloatArray) -> Purchase | None:
        """Return the plan with so many GPUs committed to or more; None where it misses."""
        limits = self.program.limits
        program = replace(self.program, least_committed=committed)
        try:
            bought, run = self.replayed(program)
            if self._meets(run):
                return bought
            wait_s = run.measured_s(MEAN_WAIT_TARGET)
            if self.target.is_of_waits or limits.mean_time_s is None or not wait_s:
                return None
            tighter = program.under(mean_time_s=limits.mean_time_s - wait_s, wait_s=wait_s)
            bought, run = self.replayed(tighter)
        except InfeasibleError:
            return None
        return bought if self._meets(run) else None

    def _refused(self, fastest: tuple[Purchase, PlanRun]) -> InfeasibleError:
        """Return the refusal, with what the fastest plan came to in its replay."""
        bought, run = fastest
        columns = self.program.columns
        least_s = run.measured_s(self.target)
        excess = [
            float((run.wait_s if self.target.is_of_waits else run.time_s)[each.jobs].sum())
            - (0.0 if self.target.is_of_waits else each.recorded_s * each.jobs.size)
            for each in columns.classes
        ]
        longest = columns.classes[int(np.argmax(excess))]
        rented = run.peak_leased
        why = (
            f"up to {rented:,} GPUs are still rented on demand and start late"
            if rented
            else "no GPUs are rented"
        )
        committed = f"{bought.all_committed.sum():,.10g} GPUs committed"
        return InfeasibleError(
            f"--target: no plan was found with {self.target.measure} <= {time_text(self.limit_s)}: "
            f"the fastest, with {committed}, has {time_text(least_s)} in its replay; {why}, "
            f"and the jobs of {longest.name} weigh most\n"
            f"  next: --target '{self.target.measure} <= {time_above(least_s)}', a larger "
            "--cluster, or a shorter --provision-delay"
        )
