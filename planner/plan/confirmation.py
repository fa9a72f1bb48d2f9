"""Whether a plan held: its replay on all of the log, and on the part that it has not seen."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from gpuplan.analysis.base.errors import InfeasibleError, UsageError
from gpuplan.analysis.base.time_units import DAY_S, HOUR_S, MICROS
from gpuplan.planner.plan.columns import RouteColumns
from gpuplan.planner.plan.decision import PlanDecision, decide
from gpuplan.planner.plan.holdout import PlanHoldout, hold_out, later_time, no_holdout
from gpuplan.planner.plan.jobs import TimeBins
from gpuplan.planner.plan.kept import KeptPlan, OldPlan, keep_plan
from gpuplan.planner.plan.program import PlanProgram
from gpuplan.planner.plan.purchase import Purchase, purchase
from gpuplan.planner.plan.replay import PlanRun, RentingTerms, SpotStress, TooWideError
from gpuplan.planner.plan.targets import MEAN_TIME_TARGET, TimeTarget, time_text

NEAR_USD = 0.10
"""A confirmed plan costs as much as the program says, within this share."""
NEAR_TARGET = 0.02
"""A confirmed plan keeps to its target within this share: shares of few jobs are coarse."""
ROUNDING = 1e-9
HAZARDS = {"half the losses": 0.5, "twice the losses": 2.0}
TWO_WEEKS_S = 14 * DAY_S
USUAL_SHARE = 0.3
"""Of the time, held out."""
OUTAGE_S = 6 * HOUR_S
ALL_LOST = "no spot GPUs for 6 h"


@dataclass(frozen=True, slots=True)
class ReplayedPurchase:
    """The plan, replayed on all jobs that it was made for.

    Attributes:
        usd_per_month: over the window; where jobs wait under a cap, until the last of them ends.
        mean_time_s: of the jobs that are not deferred, with their waits.
        mean_wait_s, p95_wait_s: of these, for GPUs.
        peak_on_demand_gpus: most GPUs rented at once.
        slower_classes: classes that waits push over ``--slower``.
        deferred_wait_s: mean time that deferred jobs wait to start; null without any.
        drain_s: how long jobs run on after the window.
    """

    usd_per_month: float
    mean_time_s: float
    mean_wait_s: float
    p95_wait_s: float
    peak_on_demand_gpus: int
    slower_classes: tuple[str, ...]
    deferred_wait_s: float | None
    drain_s: float


@dataclass(frozen=True, slots=True)
class SpotReplay:
    """The plan, replayed with more or fewer losses of spot GPUs.

    Attributes:
        name: what is different.
        from_s: when there are no spot GPUs, seconds after the first submission; else null.
        usd_per_month: over the window.
        mean_time_s: of the jobs that are not deferred.
    """

    name: str
    from_s: float | None
    usd_per_month: float
    mean_time_s: float


@dataclass(frozen=True, slots=True)
class PlanProof:
    """A plan, what its replay came to, and whether one made so held on what it had not seen.

    Attributes:
        bought: the plan.
        decision: the plan with its replay; None where it cannot be replayed.
        replay: what the replay came to.
        spot_replays: with other losses of spot GPUs.
        holdout: a plan of the first part, tried on the rest.
        unconfirmed: why the plan is not confirmed; empty where it is.
        anew: the plan that would be made without an older one.
        kept: what stays of an older plan; None without one.
    """

    bought: Purchase
    decision: PlanDecision | None
    replay: ReplayedPurchase | None
    spot_replays: tuple[SpotReplay, ...]
    holdout: PlanHoldout | None
    unconfirmed: tuple[str, ...]
    anew: Purchase
    kept: KeptPlan | None


def prove(
    program: PlanProgram,
    target: TimeTarget | None,
    terms: RentingTerms,
    share: float,
    old: OldPlan | None = None,
) -> PlanProof:
    """Return the plan of a program with its replay and its confirmation.

    Args:
        program: of all jobs.
        target: of times; None for none.
        terms: how GPUs on demand are had.
        share: of the window that is held out.
        old: an older plan to stay with where a change saves little; None for none.

    Raises:
        InfeasibleError: no plan meets the limits or the target.
    """
    try:
        decision = decide(program, terms, target, old)
    except TooWideError as error:
        why = str(error).splitlines()[0]
        anew = purchase(program)
        bought, kept = (anew, None) if old is None else keep_plan(anew, old)
        return PlanProof(bought, None, None, (), None, (why,), anew, kept)
    holdout, unconfirmed = confirmation(program, target, terms, share, old)
    return PlanProof(
        bought=decision.bought,
        decision=decision,
        replay=replay_of(decision),
        spot_replays=spot_replays(decision),
        holdout=holdout,
        unconfirmed=unconfirmed,
        anew=decision.anew or decision.bought,
        kept=decision.kept,
    )


def replay_of(decision: PlanDecision) -> ReplayedPurchase:
    """Return what the replay of a plan came to."""
    run = decision.run
    deferred_s = run.wait_s[~run.is_planned]
    ends_s = [float(of.run.finish_us.max(initial=0)) / MICROS for of in run.types]
    return ReplayedPurchase(
        usd_per_month=decision.usd_per_month,
        peak_on_demand_gpus=run.peak_leased,
        slower_classes=slower_classes(decision),
        deferred_wait_s=float(deferred_s.mean()) if deferred_s.size else None,
        drain_s=max(0.0, max(ends_s) - run.columns.bins.window_s),
        **run.means_s(),
    )


def slower_classes(decision: PlanDecision) -> tuple[str, ...]:
    """Return the classes within the bound as planned whose mean time in the replay is over it."""
    program = decision.bought.program
    planned_s, replayed_s = decision.run.assigned.time_s, decision.run.time_s
    slower = program.limits.slower
    if slower is None:
        return ()
    names = []
    for planned in program.columns.classes:
        most_s = slower * planned.recorded_s * (1 + ROUNDING)
        if planned_s[planned.jobs].mean() <= most_s < replayed_s[planned.jobs].mean():
            names.append(planned.name)
    return tuple(names)


def spot_replays(decision: PlanDecision) -> tuple[SpotReplay, ...]:
    """Return replays with other losses of spot GPUs; none without spot GPUs in the plan."""
    hours = busiest_spot_hours(decision.run)
    if hours is None:
        return ()
    markets = decision.run.columns.markets
    drawn = any(market.spot_usd is not None and market.spot_record is None for market in markets)
    hazards = HAZARDS if drawn else {}
    stresses = {name: SpotStress(hazard_times=times) for name, times in hazards.items()}
    stresses[ALL_LOST] = SpotStress(gone_s=hours)
    rows = []
    for name, stress in stresses.items():
        run = decision.run.again(decision.run.caps, stress)
        from_s = None if stress.gone_s is None else stress.gone_s[0]
        mean_time_s = run.measured_s(MEAN_TIME_TARGET)
        usd_per_month = run.usd_per_month(drains=decision.is_capped)
        rows.append(SpotReplay(name, from_s, usd_per_month, mean_time_s))
    return tuple(rows)


def busiest_spot_hours(run: PlanRun) -> tuple[float, float] | None:
    """Return 6 h from the begin of the hour with the most spot GPUs; None without any."""
    begin_s, end_s, gpus = [], [], []
    for of in run.types:
        on_spot = of.run.jobs.spot_us >= 0
        begin_s.append(of.run.start_us[on_spot] / MICROS)
        end_s.append(of.run.finish_us[on_spot] / MICROS)
        gpus.append(of.run.jobs.gpus[on_spot])
    held = np.concatenate(gpus)
    if not held.size:
        return None
    last_s = max(HOUR_S, float(np.concatenate(end_s).max()))
    hours = TimeBins(float(np.ceil(last_s / HOUR_S) * HOUR_S), int(np.ceil(last_s / HOUR_S)))
    at = hours.means(np.concatenate(begin_s), np.concatenate(end_s), held).argmax()
    return float(at * HOUR_S), float(at * HOUR_S + OUTAGE_S)


def check_held_out(columns: RouteColumns, share: float) -> None:
    """Refuse to hold out less than a day, which confirms nothing. Raises `UsageError`."""
    if no_holdout(columns, share) is not None:
        return
    part = later_time(columns, share)
    held_out_s = part.end_s - part.begin_s
    if held_out_s < DAY_S * (1 - ROUNDING):
        least = ceil(100 * share * DAY_S / held_out_s)
        raise UsageError(
            f"--holdout {100 * share:.3g}%: that is {time_text(held_out_s)} of the log, too little "
            "to confirm a plan; expected a day at least\n"
            f"  next: --holdout {least}% or more, or 0% to hold out nothing"
        )


def confirmation(
    program: PlanProgram,
    target: TimeTarget | None,
    terms: RentingTerms,
    share: float,
    old: OldPlan | None = None,
) -> tuple[PlanHoldout | None, tuple[str, ...]]:
    """Return a plan of the first part tried on the rest, and why it is not confirmed, if so.

    The arguments are those of `prove`.
    """
    why = no_holdout(program.columns, share)
    if why is not None:
        return None, (why,)
    try:
        holdout = hold_out(program.columns, program.limits, target, terms, share, old)
    except InfeasibleError as error:
        return None, (
            f"no plan of the first part can be tried on the rest: {str(error).splitlines()[0]}",
        )
    return holdout, tuple(failures(holdout, target))


def failures(holdout: PlanHoldout, target: TimeTarget | None) -> list[str]:
    """Return what did not hold on the later part.

    Its dollars are compared with those of the program there. The program knows no cap: where one
    holds in the first part, dollars may lie between the program's and the share of them that the
    first part cost, since it may hold less in the later part, or more.
    """
    lines = []
    usd, program_usd = holdout.plan.usd_per_month, holdout.plan.program_usd_per_month
    capped_usd = program_usd * (1.0 if holdout.capped_share is None else holdout.capped_share)
    low_usd, high_usd = sorted((program_usd, capped_usd))
    planned_usd = min(max(usd, low_usd), high_usd)
    planned = f"the program's ${planned_usd:,.0f}"
    if planned_usd != program_usd:
        planned = f"the ${planned_usd:,.0f} expected under the cap"
    if abs(usd - planned_usd) > NEAR_USD * planned_usd:
        change = f"{usd / planned_usd - 1:+.0%}" if planned_usd else "more"
        lines.append(
            f"on the last {holdout.share:.0%} of the log it cost ${usd:,.0f} a month in the "
            f"replay, {change} against {planned}"
        )
    value_s, limit_s = holdout.value_s, holdout.target_s
    is_met = value_s is None or limit_s is None or value_s <= limit_s * (1 + NEAR_TARGET)
    if target is not None and value_s is not None and limit_s is not None and not is_met:
        lines.append(
            f"on the last {holdout.share:.0%} of the log {target.measure} was "
            f"{time_text(value_s)}, over {time_text(limit_s)}"
        )
    return lines


def tail_words(holdout: PlanHoldout | None, window_s: float) -> tuple[str, ...]:
    """Return that jobs run on for long after the part held out; empty where none does."""
    if holdout is None or holdout.to_s >= window_s:
        return ()
    return (
        f"the log's last job ends {(window_s - holdout.to_s) / DAY_S:,.3g} days after the last "
        f"submission: the {holdout.share:.0%} held out end with that submission, but the plan "
        "counts those days too, in which little runs, and may commit to less than usual days need",
    )


def caveat(window_s: float, share: float) -> str | None:
    """Return what a short log, or a short part held out, does to the confirmation, if anything."""
    part_s = window_s * share
    part = (
        f"the plan was tried on the last {part_s / DAY_S:.2g} days, "
        "which may not be typical of a week"
    )
    if window_s < TWO_WEEKS_S:
        return f"the log covers {window_s / DAY_S:.3g} days, less than two weeks: {part}"
    return part if part_s < USUAL_SHARE * TWO_WEEKS_S else None
