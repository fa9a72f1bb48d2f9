"""A plan of the first part of the time, tried on the rest: does it hold there?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.analysis.base.time_units import MONTH_H, WEEK_S
from gpuplan.planner.plan.assignment import assigned_jobs
from gpuplan.planner.plan.classes import joined_by
from gpuplan.planner.plan.columns import RouteColumns, route_columns
from gpuplan.planner.plan.decision import PlanDecision, decide
from gpuplan.planner.plan.jobs import bins_of
from gpuplan.planner.plan.kept import OldPlan
from gpuplan.planner.plan.levers import levers_of, with_levers, without_deferral
from gpuplan.planner.plan.market_use import TimePart, assigned_usd_per_h, weights_in
from gpuplan.planner.plan.program import PlanLimits, PlanProgram, plan_program
from gpuplan.planner.plan.purchase import purchase
from gpuplan.planner.plan.replay import PlanRun, RentingTerms, replay_plan
from gpuplan.planner.plan.targets import MEAN_TIME, TimeTarget
from gpuplan.planner.plan.today import recorded_usd_per_h
from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.metrics import percentile

SAME_USD = 0.005
"""A smaller difference of dollars is none."""


@dataclass(frozen=True, slots=True)
class HeldOutPlan:
    """What the later part came to under a plan of the first part, replayed.

    Attributes:
        usd_per_month: what it costs.
        program_usd_per_month: by the program, without waits and billing steps.
        committed_gpus: for the whole time, with those of terms that go on.
        mean_time_s: of the jobs submitted in it, from submission to end; those of ``--defer`` left
            out, also where a plan does not defer them.
        mean_wait_s, p95_wait_s: of these, for GPUs.
    """

    usd_per_month: float
    program_usd_per_month: float
    committed_gpus: float
    mean_time_s: float
    mean_wait_s: float
    p95_wait_s: float


@dataclass(frozen=True, slots=True)
class HeldOutCost:
    """What the later part came to as recorded, or what it would with hindsight; not replayed.

    Attributes:
        usd_per_month: what it costs; null where there is no price on demand.
        committed_gpus: for the whole time; as recorded those of today, null without any.
        mean_time_s: of the jobs submitted in it; a wait that is not known counts as none.
        p95_wait_s: of these, for GPUs; null where it is not known.
    """

    usd_per_month: float | None
    committed_gpus: float | None
    mean_time_s: float
    p95_wait_s: float | None


@dataclass(frozen=True, slots=True)
class PlanHoldout:
    """A plan of the first part of the time, replayed over all of it; the rest counts.

    Attributes:
        share: of the time, held out.
        from_s: when it begins, seconds after the first submission.
        to_s: when it ends: with the log, or with its last submission where no job is submitted in
            the share of time that ends with its last job.
        fitted_jobs, jobs: submitted before it, and in it.
        new_class_jobs: of these, those of a class that was not seen before; they run as recorded.
        plan: of the first part.
        today: as recorded, with services and today's commitments; all GPUs above are on demand.
        lever: the one of `one_lever`; null where the plan has no lever.
        one_lever: the cheapest plan of the first part with one lever.
        hindsight: the best plan of the program that knows the later part; null where none meets
            the limits.
        target_s: the bound of the target on it; null without a target.
        value_s: what the replay measured there.
        capped_usd_per_month: what the replay of the first part cost, where jobs wait under a cap;
            null where no cap holds.
        capped_share: the same as a share of the program's dollars for that part, which knows no
            cap; null likewise.
        saved: whether the plan cost no more there than today, both without the delays of GPUs on
            demand; under a cap as replayed. Null where today has no price.
    """

    share: float
    from_s: float
    to_s: float
    fitted_jobs: int
    jobs: int
    new_class_jobs: int
    plan: HeldOutPlan
    today: HeldOutCost
    lever: str | None
    one_lever: HeldOutPlan | None
    hindsight: HeldOutCost | None
    target_s: float | None
    value_s: float | None
    capped_usd_per_month: float | None
    capped_share: float | None
    saved: bool | None


def later_time(columns: RouteColumns, share: float) -> TimePart:
    """Return the last share of the window; of the submissions where it would have none.

    A job that runs on for long after all others leaves a window without submissions at its end.
    """
    window_s = columns.bins.window_s
    submitted_s = columns.jobs.submit_s[~columns.jobs.is_deferred]
    begin_s = (1 - share) * window_s
    if submitted_s.size and submitted_s[-1] < begin_s:
        return TimePart((1 - share) * float(submitted_s[-1]), float(submitted_s[-1]))
    return TimePart(begin_s, window_s)


def no_holdout(columns: RouteColumns, share: float) -> str | None:
    """Return why there is no later part to try a plan on; None where there is one."""
    jobs = columns.jobs
    if share <= 0:
        return "nothing was held out (--holdout)"
    if float(jobs.submit_s[-1]) <= WEEK_S:
        return "the log has jobs of one week only, so there is no later week to try the plan on"
    cut_s = later_time(columns, share).begin_s
    later = (jobs.submit_s >= cut_s) & ~jobs.is_deferred
    if not later.any() or not (~jobs.is_deferred & ~later).any():
        return "the log has too few jobs before or after the held-out part begins"
    if float((jobs.submit_s + jobs.recorded_s)[jobs.submit_s < cut_s].max()) <= 0:
        return "the jobs before the held-out part take no time"
    return None


def hold_out(
    columns: RouteColumns,
    limits: PlanLimits,
    target: TimeTarget | None,
    terms: RentingTerms,
    share: float,
    old: OldPlan | None = None,
) -> PlanHoldout:
    """Fit a plan to the first part of the window, replay all of it, and count the rest.

    Args:
        columns: of all jobs.
        limits: of the plan; a mean time as recorded is that of each part.
        target: of times; None for none.
        terms: how GPUs on demand are had.
        share: of the window that is held out, its end.
        old: an older plan to stay with where a change saves little; None for none.

    Raises:
        InfeasibleError: no plan of the first part meets the limits.
    """
    part = later_time(columns, share)
    cut_s = part.begin_s
    before = int(np.searchsorted(columns.jobs.submit_s, cut_s, side="left"))
    jobs = columns.jobs.first(before)
    types = set(jobs.gpu_type.unique())  # services of others begin with the later part
    fit = route_columns(
        jobs,
        columns.market_of,
        speedup=columns.speedup,
        settings=columns.settings,
        within_s=columns.within_s,
        services={name: load for name, load in columns.services.items() if name in types},
        bins=bins_of(cut_s),
    )
    program = plan_program(fit, _limits(limits, target, fit.now_s))
    later = later_part(columns, cut_s)
    decision = decide(program, terms, target, old)
    run, plan = _replayed_holdout(columns, decision, part)
    limit_s = None if target is None else target.limit(later.now_s)
    lever, one_lever = _one_lever(columns, decision, target, part)
    planned = ~columns.jobs.is_deferred
    submitted = planned & (columns.jobs.submit_s >= cut_s)
    seen = np.zeros(columns.jobs.size, bool)
    for planned_class in joined_by(fit.classes, columns.jobs):
        seen[planned_class.jobs] = True
    today = _today(columns, part)
    return PlanHoldout(
        share=share,
        from_s=cut_s,
        to_s=part.end_s,
        fitted_jobs=before,
        jobs=int(submitted.sum()),
        new_class_jobs=int((submitted & ~seen).sum()),
        plan=plan,
        today=today,
        lever=lever,
        one_lever=one_lever,
        hindsight=_hindsight(later, _limits(limits, target, later.now_s), part),
        target_s=limit_s,
        value_s=None if target is None else run.measured_s(target, cut_s),
        capped_usd_per_month=decision.run.usd_per_month() if decision.is_capped else None,
        capped_share=_capped_share(decision),
        saved=_saved(plan, today, decision.is_capped),
    )


def _capped_share(decision: PlanDecision) -> float | None:
    """Return what a replay under a cap costs over the program; None where no cap holds."""
    columns, rounded = decision.run.columns, decision.bought.whole_nodes
    part = TimePart(0.0, columns.bins.window_s)
    usd = assigned_usd_per_h(columns, decision.run.assigned, rounded.committed, part) * MONTH_H
    return decision.run.usd_per_month() / usd if decision.is_capped and usd > 0 else None


def _limits(limits: PlanLimits, target: TimeTarget | None, now_s: float) -> PlanLimits:
    """Return the limits on a part of the time in which jobs took ``now_s``."""
    if target is None or target.measure != MEAN_TIME:
        return limits
    return replace(limits, mean_time_s=target.limit(now_s), wait_s=0.0)


def later_part(columns: RouteColumns, begin_s: float) -> RouteColumns:
    """Return columns with the GPUs of all jobs, and the times of those submitted later."""
    jobs = columns.jobs
    classes, time_s, spot_gpu_s = [], np.zeros(columns.class_of.size), columns.spot_gpu_s.copy()
    for number, planned in enumerate(columns.classes):
        rows = planned.jobs[jobs.submit_s[planned.jobs] >= begin_s]
        part = replace(
            planned,
            jobs=rows,
            recorded_s=float(jobs.recorded_s[rows].mean()) if rows.size else 0.0,
            gpu_s=planned.gpu_s,
        )
        classes.append(part)
        of_class = np.flatnonzero(columns.class_of == number)
        if rows.size:
            paths = dict(columns.paths_of(part))
            for at in of_class.tolist():
                path = paths.get(columns.routes[at])
                times = jobs.run_s[rows] if path is None else path.time_s
                time_s[at] = times.mean()
    return replace(columns, classes=tuple(classes), time_s=time_s, spot_gpu_s=spot_gpu_s)


def _replayed_holdout(
    columns: RouteColumns, decision: PlanDecision, part: TimePart
) -> tuple[PlanRun, HeldOutPlan]:
    """Return the replay of a plan of the first jobs on all of them, and what the rest came to."""
    fit, bought = decision.bought.program.columns, decision.bought
    jobs = columns.jobs
    counted = ~jobs.is_deferred  # whatever this plan does with the others
    if not fit.has_deferred and fit.within_s == 0:  # the plan does not defer any
        jobs = replace(jobs, is_deferred=np.zeros(jobs.size, bool))
        none = np.zeros_like(columns.arrived)
        columns = replace(columns, arrived=none, due=none)
    joined = replace(
        columns,
        jobs=jobs,
        classes=joined_by(fit.classes, jobs),
        routes=fit.routes,
        class_of=fit.class_of,
    )
    assigned = assigned_jobs(joined, bought.whole_nodes.share)
    bought_gpus = dict(zip(fit.types, bought.whole_nodes.committed.tolist(), strict=True))
    committed = np.array([bought_gpus.get(gpu_type, 0.0) for gpu_type in columns.types])
    run = replay_plan(joined, assigned, committed, decision.run.terms, caps=decision.run.caps)
    program_usd = assigned_usd_per_h(joined, assigned, committed, part) * MONTH_H
    return run, HeldOutPlan(
        usd_per_month=run.usd_per_month(part.begin_s, part.end_s),
        program_usd_per_month=float(program_usd),
        committed_gpus=float(committed.sum() + sum(market.held for market in columns.markets)),
        **run.means_s(part.begin_s, counted),
    )


def _one_lever(
    columns: RouteColumns, decision: PlanDecision, target: TimeTarget | None, part: TimePart
) -> tuple[str | None, HeldOutPlan | None]:
    """Return the cheapest plan of the first part with one lever, and what the rest came to."""
    program = (decision.anew or decision.bought).program
    levers = levers_of(program)
    if len(levers) == 1 and decision.kept is None:
        return levers[0], _replayed_holdout(columns, decision, part)[1]
    at_once = without_deferral(program)
    has_waits = target is not None and not target.is_of_waits  # they change what a plan costs
    plans: list[tuple[float, str, PlanProgram, PlanDecision | None]] = []
    for lever in levers:
        alone = with_levers(program, {lever}, at_once)
        try:
            decided = decide(alone, decision.run.terms, target) if has_waits else None
            plan = purchase(alone) if decided is None else decided.bought
        except InfeasibleError:
            continue
        plans.append((plan.whole_nodes.usd_per_h, lever, alone, decided))
    for _, lever, alone, decided in sorted(plans, key=lambda plan: plan[0]):
        try:
            decided = decided or decide(alone, decision.run.terms, target)
        except InfeasibleError:
            continue
        return lever, _replayed_holdout(columns, decided, part)[1]
    return None, None


def _hindsight(later: RouteColumns, limits: PlanLimits, part: TimePart) -> HeldOutCost | None:
    """Return the plan of the program that knows the later part; None where none is feasible."""
    program = plan_program(later, limits, weights=weights_in(later, part))
    try:
        bought = purchase(program)
    except InfeasibleError:
        return None
    usd = bought.whole_nodes.usd_per_h * MONTH_H
    committed = float(bought.all_committed.sum())
    return HeldOutCost(usd, committed, bought.whole_nodes.mean_time_s, None)


def _today(columns: RouteColumns, part: TimePart) -> HeldOutCost:
    """Return the part as recorded, with today's commitments and the rest on demand."""
    jobs = columns.jobs
    usd = recorded_usd_per_h(columns, part.begin_s, part.end_s)
    committed = sum(market.standing_today - market.owned for market in columns.markets)
    counted: IntArray = np.flatnonzero(~jobs.is_deferred & (jobs.submit_s >= part.begin_s))
    wait_s = jobs.wait_s[counted]
    recorded_s = wait_s[~np.isnan(wait_s)]
    return HeldOutCost(
        usd_per_month=None if usd is None else usd * MONTH_H,
        committed_gpus=committed or None,
        mean_time_s=float(jobs.recorded_s[counted].mean()),
        p95_wait_s=percentile(recorded_s, 95) if recorded_s.size else None,
    )


def _saved(plan: HeldOutPlan, today: HeldOutCost, is_capped: bool) -> bool | None:
    """Return whether a plan costs no more than today, replayed where a cap holds."""
    if today.usd_per_month is None:
        return None
    usd = plan.usd_per_month if is_capped else plan.program_usd_per_month
    return usd <= today.usd_per_month * (1 + SAME_USD)
