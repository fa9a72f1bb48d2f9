"""Plan what to commit to, what to rent, and which jobs run elsewhere, at the least dollars."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import DAY_S, MICROS, MONTH_H
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.ingest.logs import read_trace
from gpuplan.analysis.job_table.gpu_names import match_types
from gpuplan.analysis.job_table.schema import CANONICAL
from gpuplan.analysis.prices.contracts import OWNED
from gpuplan.analysis.trace.input_files import trace_input
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.frontier.budget import parse_budgets
from gpuplan.planner.money.commitment_book import CommitmentBook
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.money.price_request import PriceRequest
from gpuplan.planner.money.renting_settings import RENTED
from gpuplan.planner.plan.assignment import (
    AssignedJobs,
    MarketUse,
    assigned_jobs,
    market_uses,
    shares_of,
)
from gpuplan.planner.plan.columns import RouteColumns, route_columns
from gpuplan.planner.plan.jobs import COLUMNS, PlannedJobs, bins_of, jobs_of_trace
from gpuplan.planner.plan.kept import KeptPlan, keep_plan
from gpuplan.planner.plan.lending import PlanLending, lending_of
from gpuplan.planner.plan.levers import COMMITMENT, LeverWorth, bought_with, lever_worths
from gpuplan.planner.plan.markets import GpuMarkets
from gpuplan.planner.plan.plan_file import PlanFile, read_plan
from gpuplan.planner.plan.program import PlanLimits, PlanProgram, plan_program
from gpuplan.planner.plan.purchase import Purchase, best, gap_share, purchase
from gpuplan.planner.plan.routes import BASE, RouteSettings
from gpuplan.planner.plan_exports.class_use import class_uses
from gpuplan.planner.plan_exports.files import WRITERS
from gpuplan.planner.requests.plan import NOW, PurchaseRequest
from gpuplan.planner.speedup.registry import load_speedup
from gpuplan.planner.studies.answer import Answer
from gpuplan.planner.studies.plan_document import (
    PlanSource,
    old_plan,
    plan_file,
    terms_of,
    with_options_of,
)
from gpuplan.planner.studies.plan_services import (
    PlannedServices,
    ServiceDemand,
    service_demand,
)
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.cluster_shape import ClusterShape

SHORT_S = 14 * DAY_S
NOT_REPLAYED = (
    "not confirmed: this version does not replay plans, so waits for GPUs, gangs, start-up times "
    "and billing steps are not in these numbers, and no later part of the log has been tried"
)


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
    """A bound on the mean time.

    Attributes:
        text: as given.
        limit_s: most mean time.
        value_s: mean time of the jobs as planned, without waits.
    """

    text: str
    limit_s: float
    value_s: float


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
        confirmed: whether the plan held in a replay of later jobs; null where it was not replayed.
        targets: bounds on the mean time.
        today: the jobs as recorded.
        markets: what is bought and used, by GPU type.
        classes: how their jobs run.
        levers: what each is worth.
        jobs, deferred_jobs, left_out_jobs: planned for, that may wait, and that did not run.
        bins: of time, over which the program is solved.
        kept: what stays of an older plan; null without one.
        services: beside the jobs; null without any.
        lending: revenue of idle GPUs, no part of the bill; null where none are lent.
    """

    usd_per_month: float
    program_usd_per_month: float
    mean_time_s: float
    saving_share: float | None
    recorded_usd_per_month: float | None
    recorded_committed_gpus: float | None
    confirmed: bool | None
    targets: tuple[PlanTarget, ...]
    today: PlanToday
    markets: tuple[MarketUse, ...]
    classes: tuple[PlanClass, ...]
    levers: tuple[LeverWorth, ...]
    jobs: int
    deferred_jobs: int
    left_out_jobs: int
    bins: int
    kept: KeptPlan | None = None
    services: PlannedServices | None = None
    lending: PlanLending | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAnswer(Answer[PurchaseRequest, PlanResults]):
    """A plan.

    Attributes:
        source: what its file is made of.
    """

    source: PlanSource

    def parameters(self) -> dict[str, Any]:
        """Return what goes under ``parameters`` in JSON, with the options of an older plan."""
        return self.request.parameters()

    def exported(self, name: str) -> str:
        """Return the text of a file of the export."""
        return WRITERS[name](self.file(), class_uses(self.source.bought))

    def file(self) -> PlanFile:
        """Return the plan as it is written."""
        return plan_file(self.request, self.source, self.results)


def plan(request: PurchaseRequest) -> PlanAnswer:
    """Return the plan of least dollars, or with a budget of least mean time.

    Raises:
        InfeasibleError: no plan meets the limits.
        InputError: the trace, a price table or the price book cannot be used.
        UsageError: a GPU type without a price, or options that do not fit together.
    """
    request.check()
    older = None if request.upkeep.keep is None else read_plan(request.upkeep.keep)
    if older is not None:
        request = with_options_of(request, older)
        request.check()
    budget_usd_per_h = _budget_usd_per_h(request.budget)
    speedup = None if request.speedup is None else load_speedup(request.speedup)
    trace = _trace(request)
    condition, within_s = request.defer or (None, 0.0)
    jobs = jobs_of_trace(trace, by=request.by, spot=request.spot, defer=condition)
    prices, offered = _markets(request, jobs)
    markets, upkeep = offered, list[str]()
    if older is not None:
        markets, upkeep = terms_of(older, offered, jobs, request)
    services = service_demand(request, list(markets), markets, bins_of(jobs.window_s))
    columns = route_columns(
        jobs,
        markets,
        speedup=speedup,
        settings=RouteSettings(hazard_per_s=request.spot_hazard),
        within_s=within_s,
        service_gpus=None if services is None else services.gpus,
    )
    limits = PlanLimits(
        mean_time_s=columns.now_s if request.target == NOW else _seconds(request.target),
        slower=request.slower,
        spot_max=request.spot_max,
        usd_per_h=budget_usd_per_h,
    )
    program = plan_program(columns, limits)
    kept = None
    if older is None:
        bought = anew = purchase(program)
    else:
        bought, anew, kept = keep_plan(program, old_plan(older), request.upkeep.hysteresis)
    return PlanAnswer(
        request=request,
        results=replace(
            _results(request, program, bought),
            kept=kept,
            services=None if services is None else _priced(services, anew),
            lending=None
            if request.services.lend is None
            else lending_of(bought, request.services.lend),
        ),
        inputs=(
            trace_input(trace),
            *prices.inputs,
            *(() if services is None else services.inputs),
        ),
        warnings=(
            NOT_REPLAYED,
            *_warnings(trace, jobs),
            *upkeep,
            *(() if services is None else services.services.warnings),
        ),
        notes=tuple(_notes(request, bought, prices)),
        source=PlanSource(trace_input(trace), offered, bought, older),
    )


def _priced(demand: ServiceDemand, bought: Purchase) -> PlannedServices:
    """Return the services with what they add to the bill of the program."""
    program = bought.program
    none = replace(
        program, columns=replace(program.columns, service_gpus=program.columns.service_gpus * 0.0)
    )
    without = best(none, bought.exact.groups)
    usd_per_h = 0.0 if without is None else bought.exact.usd_per_h - without.usd_per_h
    return replace(demand.services, usd_per_month=usd_per_h * MONTH_H)


def _budget_usd_per_h(text: str | None) -> float | None:
    """Return the dollars an hour of a budget; None without one. Raises `UsageError`."""
    if text is None:
        return None
    budgets = parse_budgets(text)
    if len(budgets) > 1:
        raise UsageError(f"--budget {text!r}: a plan has one budget")
    return budgets[0].usd_per_h


def _seconds(target: float | str | None) -> float | None:
    return None if target is None else float(target)


def _trace(request: PurchaseRequest) -> Trace:
    """Return the trace with the columns that the plan and its conditions read."""
    conditions = " ".join(filter(None, (request.spot, request.defer and request.defer[0])))
    words = {word.lower() for word in re.findall(r"\w+", conditions)}
    named = [name for name in CANONICAL if name in words]
    by = [] if request.by not in CANONICAL else [request.by]
    columns = dict.fromkeys([*COLUMNS, "user", *named, *by])
    return read_trace(request.trace, request.jobs, columns=list(columns)).submitted()


def _markets(request: PurchaseRequest, jobs: PlannedJobs) -> tuple[Prices, dict[str, GpuMarkets]]:
    """Return the price book, and what may be bought of each GPU type at the end of the log."""
    zone = request.jobs.log.time_zone
    end_us = jobs.begin_us + round(jobs.window_s * MICROS)
    gpu, commitment = request.prices.gpu, request.commitment
    has_price = request.prices.is_given or commitment.commit or commitment.on_demand
    prices = Prices.read(request.prices, zone).at(end_us - 1)
    if not has_price:
        usual = float(RENTED["conventional_usd_per_gpu_h"].default)
        prices = Prices({"": usual}, option="assumed", gpu=gpu)
    book = CommitmentBook(
        prices=commitment.commit,
        on_demand=Prices.read(PriceRequest(commitment.on_demand, gpu=gpu, option="--on-demand")),
        book=prices.book,
        end_us=end_us,
        gpu=gpu,
    )
    spot = Prices(request.spot_price, gpu=gpu, option="--spot-price")
    serverless = Prices(request.serverless, gpu=gpu, option="--serverless")
    types = jobs.gpu_type.unique().sort().to_list()
    book.check_pools([name or None for name in types])
    shapes = _shapes(request.shape(), types)
    markets = {}
    for gpu_type in types:
        log_type = gpu_type or None
        rented = book.on_demand_price(log_type, must=False) or prices.get(log_type)
        owned = [pool.gpus for pool in book.pools(log_type) if pool.market == OWNED]
        cap, node = shapes[gpu_type]
        markets[gpu_type] = GpuMarkets(
            commit_usd={offer.name: float(offer.usd_per_gpu_h) for offer in book.offers(log_type)},
            on_demand_usd=None if rented is None else rented.usd_per_gpu_h,
            spot_usd=spot.usd(log_type),
            serverless_usd=serverless.usd(log_type),
            owned=float(sum(owned)),
            cap=cap,
            node=node,
        )
    return prices, markets


def _shapes(
    shape: ClusterShape | None, types: Sequence[str]
) -> dict[str, tuple[float | None, int | None]]:
    """Return the cap and the GPUs per node of each type. Raises `UsageError`."""
    if shape is None:
        return {gpu_type: (None, None) for gpu_type in types}
    if not shape.gpu_types:
        pool = shape.pool
        if pool.gpus is not None and len(types) > 1:
            raise UsageError(
                f"--cluster {shape}: the log has several GPU types\n"
                f"  next: --cluster {','.join(f'{name}=N' for name in types)}"
            )
        return {gpu_type: (pool.gpus, pool.gpus_per_node) for gpu_type in types}
    means = match_types(shape.gpu_types, types, "--cluster", apart=True)
    pools = {pool.gpu_type: pool for pool in shape.pools}
    return {
        gpu_type: (0, None) if name is None else (pools[name].gpus, pools[name].gpus_per_node)
        for gpu_type, name in means.items()
        if gpu_type is not None
    }


def _results(request: PurchaseRequest, program: PlanProgram, bought: Purchase) -> PlanResults:
    """Return what a plan says; of ``program`` are the plans that it is compared with."""
    columns, jobs = bought.program.columns, program.columns.jobs
    assigned = assigned_jobs(columns, bought.whole.share)
    uses = market_uses(columns, bought.whole, assigned)
    usd = sum(use.usd_per_month for use in uses)
    mean_s = _mean_time_s(jobs, assigned)
    has_budget = program.limits.usd_per_h is not None
    recorded = None if has_budget else bought_with(program, {COMMITMENT})
    recorded_usd = None if recorded is None else _exact_usd(recorded)
    saving = None if not recorded_usd else 1 - usd / recorded_usd
    targets: tuple[PlanTarget, ...] = ()
    if program.limits.mean_time_s is not None:
        text = f"mean_jct <= {request.target}"
        targets = (PlanTarget(text, program.limits.mean_time_s, mean_s),)
    held = columns.of_kind(BASE) @ columns.pool_gpus
    return PlanResults(
        usd_per_month=usd,
        program_usd_per_month=bought.exact.usd_per_h * MONTH_H,
        mean_time_s=mean_s,
        saving_share=saving,
        recorded_usd_per_month=recorded_usd,
        recorded_committed_gpus=None if recorded is None else float(recorded.whole.committed.sum()),
        confirmed=None,
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


def _warnings(trace: Trace, jobs: PlannedJobs) -> list[str]:
    notes = list(trace.notes)
    if jobs.window_s < SHORT_S:
        notes.append(
            f"the log covers {jobs.window_s / DAY_S:.2g} days: with less than two weeks there is "
            "no later part to confirm a plan on"
        )
    return notes


def _notes(request: PurchaseRequest, bought: Purchase, prices: Prices) -> list[str]:
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
    value = bought.exact.usd_per_h * MONTH_H
    notes.append(
        f"the program's value is ${value:,.0f} a month, for jobs that start at once and classes "
        f"that split evenly; whole nodes cost {gap_share(bought):+.2%} over it"
    )
    return notes
