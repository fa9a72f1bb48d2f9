"""What decides each part of a plan: when a commitment pays, which jobs are where, and until when.

A market with a price that the plan does not use says at which lower price it would.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.planner.plan.assignment import AssignedJobs
from gpuplan.planner.plan.columns import RouteColumns
from gpuplan.planner.plan.market_use import MarketUse
from gpuplan.planner.plan.program import plan_program
from gpuplan.planner.plan.purchase import Purchase, best
from gpuplan.planner.plan.routes import SERVERLESS, SPOT, WIDTH
from gpuplan.simkit.arrays import BoolArray, distinct

OWNED, COMMITTED, ON_DEMAND, DEFERRED = "owned", "committed", "on_demand", "deferred"
ROUNDING = 1e-9
TRIAL = 0.01
"""By so much is a price below its bound when it is tried."""
MOST_TRIALS = 8


@dataclass(frozen=True, slots=True)
class OtherTerm:
    """A term of commitments that the plan does not take.

    Attributes:
        name: ``1y``; empty without one.
        usd_per_gpu_h: its price.
        gpus: to commit to at this price; null where that meets no limits.
        usd_per_month: of the program at this price alone, as are the next ones.
        more_usd_per_month: than with the term of the plan.
    """

    name: str
    usd_per_gpu_h: float
    gpus: float | None
    usd_per_month: float | None
    more_usd_per_month: float | None


@dataclass(frozen=True, slots=True)
class DecidedPart:
    """Why a part of a plan is as it is; null or empty where a figure has no meaning.

    Attributes:
        name: ``owned``, ``committed``, ``on_demand``, ``spot``, ``serverless``, ``width`` or
            ``deferred``.
        gpu_type: empty where the log names none.
        pays_above_share: share of the time that a committed GPU must be busy to pay.
        is_capped: whether the plan would commit to more GPUs than ``--cluster`` lets it.
        is_for_target: whether the target of times, and not the dollars, asks for so many.
        time_share: share of the time in which GPUs are rented on demand.
        pays_below_usd_per_gpu_h: where no job is there, a price at which some would be, the highest
            within 1%; null where none was found.
        jobs: that are there, run wider or narrower, or may wait.
        wider_jobs: of these, on more GPUs than recorded.
        classes: of these jobs, by GPU-hours.
        least_checkpoint_s, most_checkpoint_s: work between checkpoints.
        term: of the commitment, ``3y``; empty without one.
        usd_per_gpu_h: price of a committed GPU.
        other_terms: of commitments, that are not taken.
        leave_s: run times after which jobs leave containers, ascending; infinite ones left out.
    """

    name: str
    gpu_type: str
    pays_above_share: float | None = None
    is_capped: bool | None = None
    is_for_target: bool | None = None
    time_share: float | None = None
    pays_below_usd_per_gpu_h: float | None = None
    jobs: int | None = None
    wider_jobs: int | None = None
    classes: tuple[str, ...] = field(default=())
    least_checkpoint_s: float | None = None
    most_checkpoint_s: float | None = None
    leave_s: tuple[float, ...] = field(default=())
    term: str | None = None
    usd_per_gpu_h: float | None = None
    other_terms: tuple[OtherTerm, ...] = field(default=())


def plan_decisions(
    bought: Purchase, assigned: AssignedJobs, uses: Iterable[MarketUse]
) -> tuple[DecidedPart, ...]:
    """Return what decides each part of a plan, by GPU type in order of name.

    Args:
        bought: the plan.
        assigned: its jobs.
        uses: of its markets.
    """
    rented = {use.gpu_type: use.time_share for use in uses if use.name == ON_DEMAND}
    columns = bought.program.columns
    return tuple(
        decision
        for number in range(len(columns.types))
        for decision in (
            *_pool_decisions(bought, number, rented.get(columns.types[number], 0.0)),
            *_route_decisions(bought, assigned, number),
        )
    )


def _pool_decisions(bought: Purchase, number: int, rented_share: float) -> list[DecidedPart]:
    """Return what decides the GPUs of the pool of a type, rented in a share of the time."""
    program = bought.program
    columns = program.columns
    gpu_type, market = columns.types[number], columns.markets[number]
    decisions = []
    if market.owned > 0:
        decisions.append(DecidedPart(OWNED, gpu_type))
    if market.committed_usd is not None:
        most = market.most_committed
        above = None
        if market.on_demand_usd:
            above = market.committed_usd / market.on_demand_usd
        is_full = most is not None and bought.exact.committed[number] >= most - ROUNDING
        price = float(bought.exact.price[number] @ program.weights)
        is_capped = bool(is_full and price > market.committed_usd * (1 + ROUNDING))
        floor = 0.0 if program.least_committed is None else float(program.least_committed[number])
        is_for_target = 0 < floor >= bought.exact.committed[number] - ROUNDING
        decisions.append(
            DecidedPart(
                COMMITTED,
                gpu_type,
                pays_above_share=above,
                is_capped=is_capped,
                is_for_target=bool(is_for_target),
                term=market.term,
                usd_per_gpu_h=market.committed_usd,
                other_terms=_other_terms(bought, number),
            )
        )
    if market.on_demand_usd is not None:
        decisions.append(DecidedPart(ON_DEMAND, gpu_type, time_share=rented_share))
    return decisions


def _other_terms(bought: Purchase, number: int) -> tuple[OtherTerm, ...]:
    """Return what each term that is not taken would come to, with the other types as offered."""
    program = bought.free
    columns = program.columns
    market = columns.markets[number]
    terms = []
    for name, usd in market.commit_usd.items():
        if name == market.term:
            continue
        with_term = replace(market, commit_usd={name: usd})
        plan = best(program.with_market(number, with_term), bought.exact.start)
        if plan is None:
            terms.append(OtherTerm(name, usd, None, None, None))
            continue
        more = plan.usd_per_h - bought.exact.usd_per_h
        gpus = market.held + float(plan.committed[number])
        terms.append(OtherTerm(name, usd, gpus, plan.usd_per_h * MONTH_H, more * MONTH_H))
    return tuple(terms)


def _route_decisions(bought: Purchase, assigned: AssignedJobs, number: int) -> list[DecidedPart]:
    """Return what decides the jobs of a type that do not run as recorded."""
    columns = bought.program.columns
    gpu_type, market, jobs = columns.types[number], columns.markets[number], columns.jobs
    of_type = (jobs.gpu_type == gpu_type).to_numpy()
    decisions = []
    for kind, usd in ((SPOT, market.spot_usd), (SERVERLESS, market.serverless_usd), (WIDTH, None)):
        of_kind = columns.of_kind(kind)
        if not (of_kind & (columns.type_of == number)).any():
            continue
        is_there = of_type & assigned.is_on(kind)
        if not is_there.any():
            below = None if usd is None else _pays_below(bought, number, kind, usd)
            decisions.append(DecidedPart(kind, gpu_type, jobs=0, pays_below_usd_per_gpu_h=below))
            continue
        tau_s = assigned.tau_s[is_there]
        has_tau = kind == SPOT and bool(np.isfinite(tau_s).all())
        wider = assigned.pool_gpus > jobs.gpus
        decisions.append(
            DecidedPart(
                kind,
                gpu_type,
                jobs=int(is_there.sum()),
                wider_jobs=int((is_there & wider).sum()) if kind == WIDTH else None,
                classes=_classes(columns, is_there),
                least_checkpoint_s=float(tau_s.min()) if has_tau else None,
                most_checkpoint_s=float(tau_s.max()) if has_tau else None,
                leave_s=_leaves(columns, assigned, is_there) if kind == SERVERLESS else (),
            )
        )
    waiting = int((of_type & jobs.is_deferred).sum())
    if waiting:
        decisions.append(DecidedPart(DEFERRED, gpu_type, jobs=waiting))
    return decisions


def _classes(columns: RouteColumns, is_there: BoolArray) -> tuple[str, ...]:
    """Return the names of the classes of some jobs, those with the most GPU-hours first."""
    gpu_s = np.where(is_there, columns.jobs.gpu_s, 0.0)
    sums = [(float(gpu_s[planned.jobs].sum()), planned) for planned in columns.classes]
    return tuple(
        planned.name
        for _, planned in sorted(
            ((total, planned) for total, planned in sums if is_there[planned.jobs].any()),
            key=lambda pair: -pair[0],
        )
    )


def _leaves(
    columns: RouteColumns, assigned: AssignedJobs, is_there: BoolArray
) -> tuple[float, ...]:
    """Return the run times after which some of these jobs leave containers."""
    used = distinct(assigned.column[is_there])
    return tuple(sorted({columns.routes[at].leave_s for at in used.tolist()} - {float("inf")}))


def _pays_below(bought: Purchase, number: int, kind: str, usd: float) -> float | None:
    """Return a price at which some jobs go to a market, within 1% of the highest; None if unknown.

    The plan's prices bound it: a route pays at most where its reduced cost is used up. Where the
    bound is not met, as with several optima, the plan at that price gives a lower one.
    """
    columns = bought.program.columns
    rows = np.flatnonzero(columns.of_kind(kind) & (columns.type_of == number))
    gpus = columns.outside_gpus[rows] @ bought.program.weights
    plan, price = bought.exact, usd
    for _ in range(MOST_TRIALS):
        extra = plan.extra_usd_per_h[rows]
        is_open = np.isfinite(extra) & (gpus > 0)
        if not is_open.any():
            return None
        bound = float((price - extra[is_open] / gpus[is_open]).max())
        price = min(bound, price) * (1 - TRIAL)
        if price <= 0:
            return None
        outside_usd = columns.outside_usd.copy()
        outside_usd[rows] = price
        program = plan_program(
            replace(columns, outside_usd=outside_usd),
            bought.program.limits,
            weights=bought.program.weights,
        )
        cheaper = best(program, plan.start)
        if cheaper is None:
            return None
        plan = cheaper
        if float(plan.share[rows] @ gpus) > ROUNDING:
            return price
    return None
