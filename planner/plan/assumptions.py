"""What a plan costs where what it assumes is otherwise: speedup laws, losses of spot nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpuplan.analysis.base.time_units import HOUR_S, MONTH_H
from gpuplan.planner.plan.columns import RouteColumns, route_columns
from gpuplan.planner.plan.program import (
    PlanOptimum,
    PlanProgram,
    cost_of,
    plan_program,
)
from gpuplan.planner.plan.purchase import Purchase, best
from gpuplan.planner.plan.routes import BASE, SPOT, WIDTH, RouteSettings
from gpuplan.planner.speedup.model import SpeedupModel
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.plan.deferral import run_deferred

SPEEDUP, LOSSES = "speedup", "spot_losses"
LOSS_FACTORS = (0.5, 2.0)


@dataclass(frozen=True, slots=True)
class OtherAssumption:
    """A plan where one of its assumptions is otherwise; dollars of the program.

    Attributes:
        name: ``speedup`` or ``spot_losses``.
        value: what holds in its place: ``power:0.6``, or the hours between losses of a node.
        usd_per_month: of the plan as it is, same commitment and same shares of jobs.
        mean_time_s: of its jobs, without waits.
        best_usd_per_month: of a plan that is made for it; null where none meets the limits.
    """

    name: str
    value: str
    usd_per_month: float
    mean_time_s: float
    best_usd_per_month: float | None


def other_assumptions(bought: Purchase) -> tuple[OtherAssumption, ...]:
    """Return a plan at the ends of a range of speedup laws, and with half and twice the losses.

    Only of what the plan uses: without wider or narrower jobs no law, without spot no losses.
    """
    columns = bought.program.columns
    rows = []
    ends = columns.speedup.ends if columns.speedup is not None else None
    if ends and _uses(bought, WIDTH):
        rows += [_other(bought, SPEEDUP, law.name, law, columns.settings) for law in ends]
    hazard_per_s = columns.settings.hazard_per_s
    if hazard_per_s > 0 and _uses(bought, SPOT):
        for factor in LOSS_FACTORS:
            settings = replace(columns.settings, hazard_per_s=factor * hazard_per_s)
            hours = 1 / settings.hazard_per_s / HOUR_S
            rows.append(_other(bought, LOSSES, f"1/{hours:.4g}h", columns.speedup, settings))
    return tuple(rows)


def assumed_law(bought: Purchase) -> str | None:
    """Return the speedup law on which widths of a plan rest; None where none does."""
    speedup = bought.program.columns.speedup
    if speedup is None or speedup.law is None or not _uses(bought, WIDTH):
        return None
    return speedup.name


def _uses(bought: Purchase, kind: str) -> bool:
    return bool(bought.whole_nodes.share[bought.program.columns.of_kind(kind)].any())


def _other(
    bought: Purchase,
    name: str,
    value: str,
    speedup: SpeedupModel | None,
    settings: RouteSettings,
) -> OtherAssumption:
    """Return the plan under another speedup and other overheads."""
    before = bought.program.columns
    columns = route_columns(before.jobs, before.market_of, speedup=speedup, settings=settings)
    columns = replace(columns, arrived=before.arrived, due=before.due)
    program = plan_program(columns, bought.program.limits, weights=bought.program.weights)
    kept = _kept(
        program, bought.whole_nodes, _same_shares(before, columns, bought.whole_nodes.share)
    )
    planned = best(program, bought.exact.start)
    rate = columns.rate_per_s
    times = rate[columns.class_of] * columns.time_s
    return OtherAssumption(
        name=name,
        value=value,
        usd_per_month=kept.usd_per_h * MONTH_H,
        mean_time_s=float(times @ kept.share / rate.sum()) if rate.size else 0.0,
        best_usd_per_month=None if planned is None else planned.usd_per_h * MONTH_H,
    )


def _same_shares(before: RouteColumns, after: RouteColumns, share: FloatArray) -> FloatArray:
    """Return shares on other columns; what a class has on a route that is gone runs as recorded."""
    place = {
        (number, route.name): at
        for at, (number, route) in enumerate(
            zip(after.class_of.tolist(), after.routes, strict=True)
        )
    }
    result = np.zeros(len(after.routes))
    for number, route, part in zip(before.class_of.tolist(), before.routes, share, strict=True):
        result[place.get((number, route.name), place[number, BASE])] += part
    return result


def _kept(program: PlanProgram, plan: PlanOptimum, share: FloatArray) -> PlanOptimum:
    """Return a plan with its commitment and shares under another program, with its dollars."""
    columns = program.columns
    idle = (plan.committed + program.owned)[:, None] - program.demand(share)
    deferred = np.array(
        [
            run_deferred(columns.arrived[number], columns.due[number], idle[number])
            for number in range(len(columns.types))
        ]
    )
    kept = replace(plan, share=share, deferred=deferred)
    return replace(kept, usd_per_h=cost_of(program, kept))
