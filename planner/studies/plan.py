"""Plan what to commit to, what to rent, and which jobs run elsewhere, at the least dollars."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import MICROS, MONTH_H
from gpuplan.analysis.characterize.today import Today, today
from gpuplan.analysis.trace.input_files import trace_input
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.frontier.budget import parse_budgets
from gpuplan.planner.money.book_types import shared_pool_notes
from gpuplan.planner.money.price_times import price_time_notes
from gpuplan.planner.plan.assignment import AssignedJobs, assigned_jobs, shares_of
from gpuplan.planner.plan.columns import RouteColumns, route_columns, unused_levers
from gpuplan.planner.plan.confirmation import (
    PlanProof,
    caveat,
    check_held_out,
    prove,
    tail_words,
)
from gpuplan.planner.plan.jobs import PlannedJobs, jobs_of_trace
from gpuplan.planner.plan.lending import check_lending, lending_of
from gpuplan.planner.plan.levers import COMMITMENT, bought_with, lever_worths
from gpuplan.planner.plan.market_use import cost_steps, market_uses, usd_of
from gpuplan.planner.plan.outlook import plan_outlook
from gpuplan.planner.plan.plan_file import PlanFile, read_plan
from gpuplan.planner.plan.program import PlanLimits, plan_program
from gpuplan.planner.plan.replay import RentingTerms
from gpuplan.planner.plan.routes import SPOT, RouteSettings
from gpuplan.planner.plan.spot_record import losses_per_s
from gpuplan.planner.plan.targets import write_target
from gpuplan.planner.plan.today import (
    CommittedToday,
    at_once_usd_per_h,
    recorded_gpus,
    recorded_usd_per_h,
)
from gpuplan.planner.plan.uncertainty import PlanDollars
from gpuplan.planner.requests.plan import USUAL_SPOT_HAZARD, PurchaseRequest
from gpuplan.planner.site.fidelity import Fidelity
from gpuplan.planner.site.log_replay import todays_fidelity
from gpuplan.planner.speedup.registry import load_speedup
from gpuplan.planner.studies.plan_document import PlanAnswer, old_plan, terms_of, with_options_of
from gpuplan.planner.studies.plan_inputs import (
    check_same_types,
    markets_of,
    of_file,
    plan_trace,
    todays_bill,
)
from gpuplan.planner.studies.plan_notes import dear_spot, long_terms, paid_notes, plan_notes
from gpuplan.planner.studies.plan_results import (
    PlanClass,
    PlanResults,
    PlanRoute,
    PlanTarget,
    PlanToday,
)
from gpuplan.planner.studies.plan_services import PlannedServices, priced, service_demand
from gpuplan.simkit.arrays import FloatArray

NOT_THE_LOG = "a replay of today does not match the waits of the log"


def plan(request: PurchaseRequest) -> PlanAnswer:
    """Return the plan of least dollars, or with a budget of least mean time.

    Raises:
        InfeasibleError: no plan meets the limits.
        InputError: the trace, a price table or the price book cannot be used.
        UsageError: a GPU type without a price, or options that do not fit together.
    """
    request.check()
    keep = request.upkeep.keep
    if keep is None:
        return _planned(request, None)
    older = read_plan(keep)
    try:
        with_options = with_options_of(request, older, keep)
        with_options.check()
        return _planned(with_options, older)
    except UsageError as error:
        raise of_file(error, request, keep) from error


def _planned(request: PurchaseRequest, older: PlanFile | None) -> PlanAnswer:
    """Return the plan of a request, which stays with an older one if there is one."""
    request = request.with_levers
    budget_usd_per_h = _budget_usd_per_h(request.budget)
    speedup = None if request.speedup is None else load_speedup(request.speedup)
    trace = plan_trace(request)
    condition, within_s = request.defer or (None, 0.0)
    jobs = jobs_of_trace(trace, by=request.by, spot=request.spot, defer=condition)
    if older is not None and request.upkeep.keep is not None:
        check_same_types(older, request.upkeep.keep, jobs.gpu_type.unique().to_list())
    if request.services.lend is not None:
        check_lending(jobs.window_s)
    prices, offered, committed_today = markets_of(request, jobs)
    gpu_types = [name or None for name in jobs.gpu_type.unique().sort().to_list()]
    if not request.commits:
        offered = {name: replace(market, commit_usd={}) for name, market in offered.items()}
    records = [market.spot_record for market in offered.values() if market.spot_record]
    if records and request.spot_hazard == USUAL_SPOT_HAZARD:
        request = replace(request, spot_hazard=losses_per_s(records))
    end_us = jobs.begin_us + round(jobs.window_s * MICROS)
    paid = paid_notes(prices.book.pools, request.commitment.commit, end_us, budget_usd_per_h)
    markets, notes_of_terms = terms_of(older, offered, jobs, request)
    services = service_demand(request, markets)
    columns = route_columns(
        jobs,
        markets,
        speedup=speedup,
        settings=RouteSettings(hazard_per_s=request.spot_hazard),
        within_s=within_s,
        services=None if services is None else {services.gpu_type: services.load},
    )
    target = request.target
    is_of_time = target is not None and not target.is_of_waits
    limits = PlanLimits(
        mean_time_s=target.limit(columns.now_s) if target is not None and is_of_time else None,
        slower=request.slower,
        spot_max=request.spot_max,
        usd_per_h=budget_usd_per_h,
    )
    program = plan_program(columns, limits)
    check_held_out(columns, request.holdout)
    old = None if older is None else old_plan(older, request.upkeep.hysteresis)
    proof = prove(program, target, _terms(request), request.holdout, old)
    short = caveat(jobs.window_s, request.holdout)
    now = today(trace)
    results = _results(
        request,
        proof,
        services,
        committed_today,
        _fidelity(request, trace, now),
        todays_bill(request, trace, now),
    )
    late = () if results.services is None else results.services.warnings
    return PlanAnswer(
        request=request,
        results=results,
        inputs=(
            trace_input(trace),
            *prices.inputs,
            *(record.file for record in records[:1]),
            *(() if services is None else services.inputs),
        ),
        warnings=(
            *trace.notes,
            *price_time_notes(trace, prices, gpu_types),
            *shared_pool_notes(prices.book, gpu_types, request.jobs),
            *((short,) if short and proof.holdout else ()),
            *dear_spot(columns),
            *long_terms(proof, jobs.window_s),
            *tail_words(proof.holdout, jobs.window_s),
            *notes_of_terms,
            *(record.text for record in records),
            *late,
            *unused_levers(columns, request.speedup),
        ),
        notes=(*plan_notes(request, proof, prices), *paid),
        log=trace_input(trace),
        source_format=trace.provenance.source_format,
        offered=offered,
        bought=proof.bought,
        older=older,
    )


def _terms(request: PurchaseRequest) -> RentingTerms:
    """Return how GPUs on demand are had."""
    renting = request.renting
    return RentingTerms(
        renting.provision_s,
        renting.release_s,
        renting.billing_s,
        request.jobs.seed,
        request.policy,
    )


def _budget_usd_per_h(text: str | None) -> float | None:
    """Return the dollars an hour of a budget; None without one. Raises `UsageError`."""
    if text is None:
        return None
    try:
        budgets = parse_budgets(text)
        if len(budgets) == 1:
            return budgets[0].usd_per_h
    except UsageError:
        pass  # other studies take other units
    raise UsageError(
        f"--budget {text!r}: expected one budget, dollars per hour, month, quarter or year\n"
        "  next: --budget '$120000/month' (in quotes, or the shell takes the $)"
    )


def _results(
    request: PurchaseRequest,
    proof: PlanProof,
    services: PlannedServices | None,
    committed_today: tuple[CommittedToday, ...],
    fidelity: Fidelity,
    billed: Today | None,
) -> PlanResults:
    """Return what a plan says; it is compared with plans that need not stay with an older one."""
    bought, decision = proof.bought, proof.decision
    program = proof.anew.program
    columns, jobs = bought.program.columns, program.columns.jobs
    if decision is None:
        assigned = assigned_jobs(columns, bought.whole_nodes.share)
        uses = market_uses(bought, assigned)
    else:
        assigned, uses = decision.run.assigned, decision.uses()
    run = None if decision is None else decision.run
    is_capped = decision is not None and decision.is_capped
    usd = sum(use.usd_per_month for use in uses)
    has_budget = program.limits.usd_per_h is not None
    recorded = None if has_budget else bought_with(program, {COMMITMENT})
    recorded_usd = None
    if recorded is not None:
        as_recorded = assigned_jobs(recorded.program.columns, recorded.whole_nodes.share)
        recorded_usd = usd_of(recorded, as_recorded)
    saving = None if not recorded_usd else 1 - usd / recorded_usd
    targets: tuple[PlanTarget, ...] = ()
    if request.target is not None:
        value_s = None if run is None else run.measured_s(request.target)
        limit_s = request.target.limit(columns.now_s)
        targets = (PlanTarget(write_target(request.target) or "", limit_s, value_s),)
    unconfirmed = proof.unconfirmed
    if not fidelity.may_speak:
        unconfirmed = (NOT_THE_LOG, *unconfirmed)
    mean_gpus, peak_gpus = recorded_gpus(columns)
    today_usd, rented_usd = (
        None if usd_per_h is None else usd_per_h * MONTH_H
        for usd_per_h in (recorded_usd_per_h(columns), at_once_usd_per_h(columns))
    )
    return PlanResults(
        usd_per_month=usd,
        program_usd_per_month=bought.exact.usd_per_h * MONTH_H,
        mean_time_s=assigned.mean_time_s,
        is_capped=is_capped,
        saving_share=saving,
        saving_over_today_share=1 - usd / today_usd if today_usd else None,
        recorded_usd_per_month=recorded_usd,
        recorded_committed_gpus=None if recorded is None else float(recorded.all_committed.sum()),
        confirmed=not unconfirmed,
        unconfirmed=unconfirmed,
        fidelity=fidelity,
        targets=targets,
        today=PlanToday(
            mean_gpus=mean_gpus,
            peak_gpus=peak_gpus,
            mean_time_s=columns.now_s,
            jobs_without_wait=int(np.isnan(jobs.wait_s).sum()),
            mean_wait_s=_mean_wait_s(jobs),
            committed=committed_today,
            usd_per_month=today_usd,
            bill_usd_per_month=_bill_usd_per_month(billed, columns, today_usd),
            price_is_assumed=not request.has_price,
            going_on_gpus=sum(market.held for market in columns.markets),
        ),
        markets=uses,
        classes=_classes(columns, bought.whole_nodes.share, assigned),
        levers=() if has_budget else lever_worths(proof.anew, recorded),
        losses_are_assumed=request.assumes_losses
        and any(use.name == SPOT and use.mean_gpus > 0 for use in uses),
        jobs=jobs.size,
        deferred_jobs=int(jobs.is_deferred.sum()),
        left_out_jobs=jobs.left_out,
        bins=columns.bins.count,
        replay=proof.replay,
        cost_steps=tuple(cost_steps(bought, assigned, run, drains=is_capped)),
        caps=() if decision is None else decision.tried,
        spot_replays=proof.spot_replays,
        holdout=proof.holdout,
        kept=proof.kept,
        services=None if services is None else priced(services, proof.anew),
        lending=None
        if request.services.lend is None
        else lending_of(bought, request.services.lend),
        outlook=plan_outlook(
            *(bought, assigned, recorded, request.jobs.seed, request.growth),
            PlanDollars(usd, recorded_usd, rented_usd),
            uses,
        ),
    )


def _fidelity(request: PurchaseRequest, trace: Trace, now: Today | None) -> Fidelity:
    """Return how a replay of today compares with the log: on the GPUs held at once, or the cap.

    A cap need not be today's cluster. It may be where the log holds more only for moments.
    """
    policy = request.policy
    fidelity = todays_fidelity(trace, request.jobs, now, policy=policy)
    shape = request.shape()
    if fidelity.may_speak or shape is None or now is None:
        return fidelity
    if (shape.gpus or 0) < now.usage.p95_gpus:
        return fidelity
    of_cap = todays_fidelity(trace, request.jobs, now, shape, policy)
    return of_cap if of_cap.may_speak else fidelity


def _bill_usd_per_month(
    billed: Today | None, columns: RouteColumns, today_usd: float | None
) -> float | None:
    """Return today's bill; without one of a book it is that of the jobs as recorded.

    None where that leaves out owned GPUs.
    """
    if billed is not None:
        return billed.usage.usd_per_month
    return None if any(market.owned for market in columns.markets) else today_usd


def _mean_wait_s(jobs: PlannedJobs) -> float | None:
    recorded_s = jobs.wait_s[~jobs.is_deferred & ~np.isnan(jobs.wait_s)]
    return float(recorded_s.mean()) if recorded_s.size else None


def _classes(
    columns: RouteColumns, share: FloatArray, assigned: AssignedJobs
) -> tuple[PlanClass, ...]:
    """Return how the jobs of each class run."""
    share = shares_of(columns, share)
    return tuple(
        PlanClass(
            name=planned.label,
            gpu_type=planned.gpu_type,
            width_bucket=planned.width_bucket,
            jobs=planned.jobs.size,
            recorded_time_s=planned.recorded_s,
            mean_time_s=float(assigned.time_s[planned.jobs].mean()),
            routes=tuple(
                PlanRoute(columns.routes[at].name, float(share[at]), float(columns.time_s[at]))
                for at in np.flatnonzero((columns.class_of == number) & (share > 0))
            ),
        )
        for number, planned in enumerate(columns.classes)
    )
