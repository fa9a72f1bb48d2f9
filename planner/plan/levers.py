"""What each lever of a plan is worth: the same program without it, and with it alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.planner.plan.columns import route_columns
from gpuplan.planner.plan.program import PlanProgram, plan_program
from gpuplan.planner.plan.purchase import Purchase, purchase
from gpuplan.planner.plan.routes import BASE, SERVERLESS, SPOT, WIDTH
from gpuplan.planner.plan.warm_start import ProgramStart
from gpuplan.simkit.arrays import FloatArray

COMMITMENT, WIDTHS, DEFERRAL = "commitment", "widths", "deferral"
KIND_OF = {WIDTHS: WIDTH, SPOT: SPOT, SERVERLESS: SERVERLESS}
"""Levers that are routes -> the kind of these."""


@dataclass(frozen=True, slots=True)
class LeverWorth:
    """Dollars a month that a plan costs with other levers.

    Attributes:
        name: ``commitment``, ``widths``, ``spot``, ``serverless`` or ``deferral``.
        alone_usd_per_month: with this lever alone, all else on demand as recorded; null where that
            does not meet the limits.
        without_usd_per_month: with all levers but this; null likewise.
    """

    name: str
    alone_usd_per_month: float | None
    without_usd_per_month: float | None


def levers_of(program: PlanProgram) -> tuple[str, ...]:
    """Return the levers that a program has."""
    columns = program.columns
    kinds = {route.kind for route in columns.routes}
    commits = any(
        market.committed_usd is not None and market.on_demand_usd is not None
        for market in columns.markets
    )
    routes = tuple(name for name, kind in KIND_OF.items() if kind in kinds)
    deferral = (DEFERRAL,) if columns.has_deferred else ()
    return (*((COMMITMENT,) if commits else ()), *routes, *deferral)


def without_deferral(program: PlanProgram) -> PlanProgram:
    """Return the program with deferred jobs in classes: they run at once."""
    columns = program.columns
    if not columns.has_deferred:
        return program
    at_once = route_columns(
        replace(columns.jobs, is_deferred=np.zeros(columns.jobs.size, bool)),
        columns.market_of,
        speedup=columns.speedup,
        settings=columns.settings,
        services=columns.services,
        bins=columns.bins,
    )
    same = plan_program(at_once, program.limits, weights=program.weights)
    return replace(same, least_committed=program.least_committed)


def with_levers(
    program: PlanProgram, levers: Collection[str], at_once: PlanProgram | None = None
) -> PlanProgram:
    """Return the program with some of its levers alone; the others run as recorded.

    A type that cannot be rented keeps its commitment.

    Args:
        program: with all levers.
        levers: that stay.
        at_once: the program `without_deferral`; None to make it.
    """
    if DEFERRAL not in levers and program.columns.has_deferred:
        program = without_deferral(program) if at_once is None else at_once
    columns = program.columns
    markets = [
        market
        if COMMITMENT in levers or market.on_demand_usd is None
        else replace(market, commit_usd={})
        for market in columns.markets
    ]
    kinds = {BASE, *(kind for name, kind in KIND_OF.items() if name in levers)}
    allowed = np.array([route.kind in kinds for route in columns.routes], bool)
    return replace(
        program, columns=replace(columns, markets=tuple(markets)), used=np.flatnonzero(allowed)
    )


def bought_with(
    program: PlanProgram,
    levers: Collection[str],
    at_once: PlanProgram | None = None,
    start: ProgramStart | None = None,
) -> Purchase | None:
    """Return what to buy with some levers alone; None where that does not meet the limits.

    Args:
        program, levers, at_once: as in `with_levers`.
        start: of a program much like it; None for none.
    """
    try:
        return purchase(with_levers(program, levers, at_once), start)
    except InfeasibleError:
        return None


def rented_usd_per_h(program: PlanProgram, weights: FloatArray) -> float | None:
    """Return what every job as recorded costs on demand; None where a type cannot be rented.

    Deferred jobs run as they arrive. Services are there, and commitments that were made before.

    Args:
        program: the program; GPUs that are there take work first.
        weights: of the bins; shape (bins,).
    """
    columns = program.columns
    usd, services = program.held_usd_per_h, columns.service_gpus
    for number, market in enumerate(columns.markets):
        if market.on_demand_usd is None:
            return None
        rows = columns.of_kind(BASE) & (columns.type_of == number)
        held = columns.pool_gpus[rows].sum(axis=0) + np.diff(columns.arrived[number], prepend=0.0)
        above = np.maximum(0.0, held + services[number] - market.standing)
        usd += market.on_demand_usd * float(above @ weights)
    return usd


def lever_worths(bought: Purchase, recorded: Purchase | None = None) -> tuple[LeverWorth, ...]:
    """Return what each lever of a plan is worth.

    Args:
        bought: the plan.
        recorded: the best commitment with jobs as recorded; None where there is none.
    """
    program = bought.program
    levers, at_once = levers_of(program), without_deferral(program)
    usd_of: dict[frozenset[str], float | None] = {}
    if recorded is not None:
        usd_of[frozenset({COMMITMENT})] = recorded.whole_nodes.usd_per_h * MONTH_H

    def usd(chosen: Collection[str], start: ProgramStart | None = None) -> float | None:
        key = frozenset(chosen)
        if key not in usd_of:
            plan = bought_with(program, chosen, at_once, start)
            usd_of[key] = None if plan is None else plan.whole_nodes.usd_per_h * MONTH_H
        return usd_of[key]

    def without(name: str) -> float | None:
        other_levers = [other for other in levers if other != name]
        is_alike = name != DEFERRAL
        return usd(other_levers, bought.exact.start if is_alike else None)

    return tuple(LeverWorth(name, usd({name}), without(name)) for name in levers)
