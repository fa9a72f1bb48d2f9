"""What a plan's commitment costs if demand grows or shrinks, against one made for that demand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, floor

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.planner.plan.program import PlanOptimum, PlanProgram
from gpuplan.planner.plan.purchase import SLACK_OF_TIME, Purchase, best, purchase

STEP = 0.1
"""Of growth between two rows; of a range over `LONGEST` it is wider."""
LONGEST = 1.0
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class GrownCommitment:
    """The GPUs of a type to commit to for another demand.

    Attributes:
        gpu_type: empty where the log names none.
        gpus: in whole nodes.
    """

    gpu_type: str
    gpus: float


@dataclass(frozen=True, slots=True)
class PlanGrowth:
    """The plan's commitment under another demand; all else is planned again.

    Attributes:
        growth_share: of every job's GPUs, at the same times.
        usd_per_month: with the plan's commitment; null where that cannot do.
        best_usd_per_month: with the commitment that is best for this demand; null where none does.
        best_committed: that commitment, by type.
        regret_share: of the first over the second; null where one of them is.
    """

    growth_share: float
    usd_per_month: float | None
    best_usd_per_month: float | None
    best_committed: tuple[GrownCommitment, ...]
    regret_share: float | None


def growth_steps(low: float, high: float | None = None) -> tuple[float, ...]:
    """Return the growths of a range: both ends, none, and round steps between; or one and none."""
    if high is None:
        return tuple(sorted({low, 0.0}))
    step = STEP * max(1, ceil((high - low) / LONGEST - ROUNDING))
    first, last = ceil(low / step - ROUNDING), floor(high / step + ROUNDING)
    steps = {round(number * step, 12) for number in range(first, last + 1)}
    return tuple(sorted({low, high, 0.0} | steps))


def grown(program: PlanProgram, growth: float) -> PlanProgram:
    """Return the program with more of every job: not more peaks, and each job's time as it is."""
    columns, more = program.columns, 1 + growth
    return replace(
        program,
        columns=replace(
            columns,
            pool_gpus=columns.pool_gpus * more,
            outside_gpus=columns.outside_gpus * more,
            arrived=columns.arrived * more,
            due=columns.due * more,
        ),
        outside_usd_per_h=program.outside_usd_per_h * more,
    )


def plan_growths(bought: Purchase, growths: tuple[float, ...]) -> tuple[PlanGrowth, ...]:
    """Return what a plan's commitment costs under other demands.

    A plan of a budget is compared at its mean time: the dollars are those that this time costs.
    """
    program = bought.free
    if program.limits.usd_per_h is not None:
        mean_time_s = bought.whole_nodes.mean_time_s * (1 + SLACK_OF_TIME)
        program = program.under(usd_per_h=None, mean_time_s=mean_time_s)
    return tuple(_growth(bought, grown(program, growth), growth) for growth in growths)


def _growth(bought: Purchase, program: PlanProgram, growth: float) -> PlanGrowth:
    kept = best(program, bought.exact.start, committed=bought.whole_nodes.committed)
    free: PlanOptimum | None
    try:
        free = purchase(program, (bought.exact if kept is None else kept).start).whole_nodes
    except InfeasibleError:
        free = None
    if kept is not None and (free is None or kept.usd_per_h < free.usd_per_h):
        free = kept  # it is in whole nodes as well
    regret = None
    if kept is not None and free is not None:
        regret = kept.usd_per_h / free.usd_per_h - 1 if free.usd_per_h > 0 else 0.0
    types = program.columns.types
    return PlanGrowth(
        growth_share=growth,
        usd_per_month=None if kept is None else kept.usd_per_h * MONTH_H,
        best_usd_per_month=None if free is None else free.usd_per_h * MONTH_H,
        best_committed=()
        if free is None
        else tuple(
            GrownCommitment(gpu_type, float(gpus))
            for gpu_type, gpus in zip(types, program.held + free.committed, strict=True)
        ),
        regret_share=regret,
    )
