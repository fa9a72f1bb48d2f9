"""Plan what to commit to, what to rent, and which jobs run elsewhere, at the least dollars."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.trace.input_files import trace_input
from gpuplan.planner.frontier.budget import parse_budgets
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.plan.assignment import (
    AssignedJobs,
    MarketUse,
    assigned_jobs,
    market_uses,
    shares_of,
)
from gpuplan.planner.plan.caps import PlanCap
from gpuplan.planner.plan.columns import RouteColumns, route_columns
from gpuplan.planner.plan.confirmation import (
    PlanProof,
    ReplayedPurchase,
    SpotReplay,
    caveat,
    prove,
)
from gpuplan.planner.plan.holdout import PlanHoldout
from gpuplan.planner.plan.jobs import PlannedJobs, jobs_of_trace
from gpuplan.planner.plan.levers import COMMITMENT, LeverWorth, bought_with, lever_worths
from gpuplan.planner.plan.program import PlanLimits, plan_program
from gpuplan.planner.plan.purchase import Purchase, gap_share
from gpuplan.planner.plan.replay import RentingTerms
from gpuplan.planner.plan.routes import BASE, RouteSettings
from gpuplan.planner.plan.targets import write_target
from gpuplan.planner.requests.plan import PurchaseRequest
from gpuplan.planner.speedup.registry import load_speedup
from gpuplan.planner.studies.answer import Answer
from gpuplan.planner.studies.plan_inputs import markets_of, plan_trace
from gpuplan.simkit.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class PlanToday:
    """The jobs as they were recorded.

    Attributes:
        mean_gpus, peak_gpus: that they held, deferred jobs left out.
        mean_time_s: from submission to end; a wait that is not recorded counts as none.
        jobs_without_wait: jobs whose wait is not recorded.
    """

    mean_gpus: float
    peak_gpus: float
    mean_time_s: float
    jobs_without_wait: int


@dataclass(frozen=True, slots=True)
class PlanTarget:
    """A bound on times.

    Attributes:
        text: as given.
        limit_s: the bound.
        value_s: what the replay measured; null where the plan could not be replayed.
    """

    text: str
    limit_s: float
    value_s: float | None


@dataclass(frozen=True, slots=True)
class PlanRoute:
    """Where a share of a class runs.

    Attributes:
        name: ``base``, ``width 2``, ``spot``, ``serverless 300``.
        share: of the jobs of the class.
        mean_time_s: of all jobs of the class, if they took it.
    """

    name: str
    share: float
    mean_time_s: float


@dataclass(frozen=True, slots=True)
class PlanClass:
    """How the jobs of a class run.

    Attributes:
        name: the label.
        gpu_type: empty where the log names none.
        width_bucket: of the GPUs that a job holds.
        jobs: how many.
        recorded_time_s: mean time from submission to end, as recorded.
        mean_time_s: as planned, without waits.
        routes: that take any of them.
    """

    name: str
    gpu_type: str
    width_bucket: str
    jobs: int
    recorded_time_s: float
    mean_time_s: float
    routes: tuple[PlanRoute, ...]


@dataclass(frozen=True, slots=True)
class PlanResults:
    """What to buy and where jobs run.

    Attributes:
        usd_per_month: of the jobs as assigned to routes, exact in time.
        program_usd_per_month: the program's value, with fractions of nodes and of classes.
        mean_time_s: of the jobs of classes as assigned, without waits.
        saving_share: over the best commitment with every job as recorded; null where that has no
            price or does not meet the limits.
        recorded_usd_per_month: of this commitment.
        recorded_committed_gpus: that it commits to.
        confirmed: whether a plan made so for the first part of the log held on the rest.
        unconfirmed: why it is not confirmed; empty where it is.
        targets: bounds on times.
        today: the jobs as recorded.
        markets: what is bought and used, by GPU type.
        classes: how their jobs run.
        levers: what each is worth.
        jobs, deferred_jobs, left_out_jobs: planned for, that may wait, and that did not run.
        bins: of time, over which the program is solved.
        replay: the plan on all jobs; null where it cannot be replayed.
        caps: the plan under caps on its GPUs; empty without ``--cluster`` or a target of waits.
        spot_replays: the plan with other losses of spot GPUs.
        holdout: a plan of the first part of the log, tried on the rest; null where there is none.
    """

    usd_per_month: float
    program_usd_per_month: float
    mean_time_s: float
    saving_share: float | None
    recorded_usd_per_month: float | None
    recorded_committed_gpus: float | None
    confirmed: bool
    unconfirmed: tuple[str, ...]
    targets: tuple[PlanTarget, ...]
    today: PlanToday
    markets: tuple[MarketUse, ...]
    classes: tuple[PlanClass, ...]
    levers: tuple[LeverWorth, ...]
    jobs: int
    deferred_jobs: int
    left_out_jobs: int
    bins: int
    replay: ReplayedPurchase | None
    caps: tuple[PlanCap, ...]
    spot_replays: tuple[SpotReplay, ...]
    holdout: PlanHoldout | None


def plan(request: PurchaseRequest) -> Answer[PurchaseRequest, PlanResults]:
    """Return the plan of least dollars, or with a budget of least mean time.

    Raises:
        InfeasibleError: no plan meets the limits.
        InputError: the trace, a price table or the price book cannot be used.
        UsageError: a GPU type without a price, or options that do not fit together.
    """
    request.check()
    budget_usd_per_h = _budget_usd_per_h(request.budget)
    speedup = None if request.speedup is None else load_speedup(request.speedup)
    trace = plan_trace(request)
    condition, within_s = request.defer or (None, 0.0)
    jobs = jobs_of_trace(trace, by=request.by, spot=request.spot, defer=condition)
    prices, markets = markets_of(request, jobs)
    columns = route_columns(
        jobs,
        markets,
        speedup=speedup,
        settings=RouteSettings(hazard_per_s=request.spot_hazard),
        within_s=within_s,
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
    proof = prove(program, target, _terms(request), request.holdout)
    short = caveat(jobs.window_s, request.holdout)
    return Answer(
        request=request,
        results=_results(request, proof),
        inputs=(trace_input(trace), *prices.inputs),
        warnings=(*trace.notes, *((short,) if short and proof.holdout else ())),
        notes=tuple(_notes(request, proof, prices)),
    )


def _terms(request: PurchaseRequest) -> RentingTerms:
    """Return how GPUs on demand are had."""
    renting = request.renting
    return RentingTerms(
        renting.provision_s, renting.release_s, renting.billing_s, request.jobs.seed
    )


def _budget_usd_per_h(text: str | None) -> float | None:
    """Return the dollars an hour of a budget; None without one. Raises `UsageError`."""
    if text is None:
        return None
    budgets = parse_budgets(text)
    if len(budgets) > 1:
        raise UsageError(f"--budget {text!r}: a plan has one budget")
    return budgets[0].usd_per_h


def _results(request: PurchaseRequest, proof: PlanProof) -> PlanResults:
    bought, decision = proof.bought, proof.decision
    program = bought.program
    columns, jobs = program.columns, program.columns.jobs
    assigned = assigned_jobs(columns, bought.whole.share)
    uses = market_uses(columns, bought.whole, assigned)
    usd = sum(use.usd_per_month for use in uses)
    mean_s = _mean_time_s(jobs, assigned)
    has_budget = program.limits.usd_per_h is not None
    recorded = None if has_budget else bought_with(program, {COMMITMENT})
    recorded_usd = None if recorded is None else _exact_usd(recorded)
    saving = None if not recorded_usd else 1 - usd / recorded_usd
    targets: tuple[PlanTarget, ...] = ()
    if request.target is not None:
        value_s = None if decision is None else decision.run.measured_s(request.target)
        limit_s = request.target.limit(columns.now_s)
        targets = (PlanTarget(write_target(request.target) or "", limit_s, value_s),)
    held = columns.of_kind(BASE) @ columns.pool_gpus
    return PlanResults(
        usd_per_month=usd,
        program_usd_per_month=bought.exact.usd_per_h * MONTH_H,
        mean_time_s=mean_s,
        saving_share=saving,
        recorded_usd_per_month=recorded_usd,
        recorded_committed_gpus=None if recorded is None else float(recorded.whole.committed.sum()),
        confirmed=not proof.unconfirmed,
        unconfirmed=proof.unconfirmed,
        targets=targets,
        today=PlanToday(
            mean_gpus=float(held.mean()),
            peak_gpus=float(held.max()),
            mean_time_s=columns.now_s,
            jobs_without_wait=int(np.isnan(jobs.wait_s).sum()),
        ),
        markets=uses,
        classes=_classes(columns, bought.whole.share, assigned),
        levers=() if has_budget else lever_worths(program),
        jobs=jobs.size,
        deferred_jobs=int(jobs.is_deferred.sum()),
        left_out_jobs=jobs.left_out,
        bins=columns.bins.count,
        replay=proof.replay,
        caps=() if decision is None else decision.tried,
        spot_replays=proof.spot_replays,
        holdout=proof.holdout,
    )


def _exact_usd(bought: Purchase) -> float:
    """Return dollars a month of the jobs as assigned, exact in time."""
    columns, optimum = bought.program.columns, bought.whole
    uses = market_uses(columns, optimum, assigned_jobs(columns, optimum.share))
    return sum(use.usd_per_month for use in uses)


def _mean_time_s(jobs: PlannedJobs, assigned: AssignedJobs) -> float:
    return float(assigned.time_s[~jobs.is_deferred].mean()) if not jobs.is_deferred.all() else 0.0


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


def _notes(request: PurchaseRequest, proof: PlanProof, prices: Prices) -> list[str]:
    bought = proof.bought
    columns = bought.program.columns
    jobs = columns.jobs
    notes = []
    if prices.option == "assumed":
        usd = prices.usd(None)
        notes.append(f"no price is given: GPUs are rented at an assumed ${usd:.2f} an hour")
    if jobs.left_out:
        notes.append(f"{counted(jobs.left_out, 'job')} left out: they did not run, or held no GPU")
    lacking = int(np.isnan(jobs.wait_s).sum())
    if lacking:
        notes.append(
            f"{counted(lacking, 'job')} without a recorded wait count with their run time alone"
        )
    if columns.speedup is not None and columns.speedup.law is not None:
        notes.append(f"widths rest on an assumed speedup, --speedup {request.speedup}")
    if proof.decision is not None and proof.decision.tried:
        notes.append(
            "under a cap jobs wait in order of submission, and the first that fits starts; other "
            "policies are not replayed"
        )
    value = bought.exact.usd_per_h * MONTH_H
    notes.append(
        f"the program's value is ${value:,.0f} a month, for jobs that start at once and classes "
        f"that split evenly; whole nodes cost {gap_share(bought):+.2%} over it"
    )
    return notes
