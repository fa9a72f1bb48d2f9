"""Limits that no plan can keep, refused with the nearest that can be kept."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.planner.plan.columns import RouteColumns
from gpuplan.planner.plan.optimum import optimum
from gpuplan.planner.plan.program import PlanProgram
from gpuplan.planner.plan.targets import time_above, time_text
from gpuplan.simkit.arrays import FloatArray

ROUNDING = 1e-9


def fastest_s(program: PlanProgram) -> FloatArray:
    """Return the least mean time of each class on any of its routes."""
    columns = program.columns
    least = np.full(len(columns.classes), np.inf)
    np.minimum.at(least, columns.class_of, columns.time_s)
    return least


def check_limits(program: PlanProgram) -> None:
    """Refuse what can be seen without solving. Raises `InfeasibleError`."""
    columns, limits = program.columns, program.limits
    least_s, recorded_s = fastest_s(program), columns.recorded_s
    if limits.slower is not None and least_s.size:
        ratio = np.divide(least_s, recorded_s, out=np.zeros(least_s.size), where=recorded_s > 0)
        worst = int(ratio.argmax())
        if ratio[worst] > limits.slower * (1 + ROUNDING):
            planned = columns.classes[worst]
            raise InfeasibleError(
                f"--slower {limits.slower:g}x: the jobs of {planned.name} take at least "
                f"{ratio[worst]:.3g} times as long as recorded on every route\n"
                f"  next: --slower {np.ceil(ratio[worst] * 100) / 100:g}x, or a --speedup with "
                "wider widths"
            )
    if limits.mean_time_s is not None and least_s.size:
        rate = columns.rate_per_s
        least = float(rate @ least_s / rate.sum())
        if least > limits.mean_time_s * (1 + ROUNDING):
            excess = rate * (least_s - np.minimum(least_s, limits.mean_time_s))
            slowest = columns.classes[int(excess.argmax())]
            raise InfeasibleError(
                f"--target: a mean time of {time_text(limits.mean_time_s + limits.wait_s)} cannot "
                f"be met: on the fastest routes it is {time_text(least + limits.wait_s)}"
                f"{_waits(limits.wait_s)}, and the jobs of {slowest.name} weigh most\n"
                f"  next: --target 'mean_jct <= {time_above((least + limits.wait_s) * 1.001)}'"
            )


def _waits(wait_s: float) -> str:
    return f" with {time_text(wait_s)} of waiting for GPUs" if wait_s else ""


def refuse_cap(program: PlanProgram) -> None:
    """Refuse a cap under what a type that cannot be rented needs. Raises `InfeasibleError`."""
    columns, limits = program.columns, program.limits
    unbudgeted = program.under(usd_per_h=None)
    if limits.usd_per_h is not None and optimum(unbudgeted) is not None:
        return
    for number, market in enumerate(columns.markets):
        if market.cap is None or market.on_demand_usd is not None:
            continue
        uncapped = tuple(
            replace(other, cap=None, commit_usd={"": float(at == number)})
            for at, other in enumerate(columns.markets)
        )
        free = replace(unbudgeted, columns=replace(columns, markets=uncapped))
        free = replace(free, outside_usd_per_h=np.zeros_like(free.outside_usd_per_h))
        needed = optimum(free)
        if needed is None:
            continue
        least = needed.committed[number] + market.standing
        if least > market.cap * (1 + ROUNDING):
            name = columns.types[number] or "GPUs"
            raise InfeasibleError(
                f"--cluster {market.cap:g}: without an on-demand price, {name} must cover the "
                f"peak of {least:,.1f} GPUs\n"
                f"  next: a cap of {int(np.ceil(least - ROUNDING)):,}, or --on-demand USD"
            )


def refuse_budget(program: PlanProgram, least_usd_per_h: float | None) -> InfeasibleError:
    """Return the refusal of a budget under the cheapest plan; None where none is in whole nodes."""
    if program.limits.usd_per_h is None or least_usd_per_h is None:
        return InfeasibleError(
            "no plan in whole nodes meets these limits\n  next: a larger --cluster, or --on-demand"
        )
    budget, least = (usd * MONTH_H for usd in (program.limits.usd_per_h, least_usd_per_h))
    types = [name for name in program.columns.types if name]
    cluster = f"--cluster {types[0]}=COUNT" if types else "--cluster COUNT"
    return InfeasibleError(
        f"--budget ${budget:,.0f}/month: if no job may wait, the cheapest plan costs "
        f"${least:,.0f} a month\n"
        f"  next: --budget '${np.ceil(least):.0f}/month', or {cluster}, which lets jobs wait for "
        "fewer GPUs"
    )


def refuse_capped_budget(budget_usd: float, least_usd: float) -> InfeasibleError:
    """Return the refusal of a budget, dollars a month, under the replay of a plan under a cap."""
    return InfeasibleError(
        f"--budget ${budget_usd:,.0f}/month: under --cluster the cheapest plan costs "
        f"${least_usd:,.0f} a month in the replay\n"
        f"  next: --budget '${np.ceil(least_usd):.0f}/month', or a smaller --cluster"
    )


def least_cluster(columns: RouteColumns) -> str:
    """Return a cluster that every job fits as recorded, as ``--cluster`` takes it."""
    shapes = []
    for _, gpu_type, market, of_type in columns.by_type():
        widest = float(columns.jobs.gpus[of_type].max(initial=0.0))
        nodes = ceil(max(widest, market.cap or 0.0) / market.step)
        shape = f"{nodes}x{market.step}" if market.step > 1 else f"{nodes}"
        shapes.append(f"{gpu_type}={shape}" if gpu_type else shape)
    return ",".join(shapes)
