"""How sure a plan is: the same program on weeks of the log drawn with replacement."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isnan
from typing import NamedTuple

import numpy as np

from gpuplan.analysis.base.time_units import MONTH_H, WEEK_S
from gpuplan.planner.plan.columns import RouteColumns
from gpuplan.planner.plan.jobs import TimeBins
from gpuplan.planner.plan.levers import rented_usd_per_h
from gpuplan.planner.plan.program import PlanOptimum, PlanProgram
from gpuplan.planner.plan.purchase import Purchase, best
from gpuplan.simkit.arrays import FloatArray, IntArray

LEAST_WEEKS = 8
BLOCKS = 20
"""Of a log under `LEAST_WEEKS`, in place of its weeks."""
RESAMPLES = 20
TAILS = (5.0, 95.0)
"""Percentiles of the ends of an interval."""


@dataclass(frozen=True, slots=True)
class PlanRange:
    """An interval over resamples, from the 5th to the 95th percentile.

    Attributes:
        low, high: its ends.
    """

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class CommittedRange:
    """The GPUs of a type to commit to, not rounded.

    Attributes:
        gpu_type: empty where the log names none.
        low_gpus, high_gpus: 5th and 95th percentile over resamples.
    """

    gpu_type: str
    low_gpus: float
    high_gpus: float


@dataclass(frozen=True, slots=True)
class PlanIntervals:
    """A plan over resamples of the time of its log, each from the 5th to the 95th percentile.

    Attributes:
        resamples: that were planned.
        failed: of those that no plan meets the limits of; the intervals are of the others.
        blocks: of time that are drawn, with replacement.
        is_weeks: whether blocks are weeks; else 20 equal parts of a log under 8 weeks.
        block_s: length of the longest block.
        committed: GPUs by type, with those of terms that go on.
        usd_per_month: the program's value, times `PlanDollars` over it with each block once.
        mean_time_s: mean time of the jobs, without waits.
        saving_share: over the best commitment with every job as recorded; null without one.
        saving_over_on_demand_share: over every job as recorded on demand; null without a price.
    """

    resamples: int
    failed: int
    blocks: int
    is_weeks: bool
    block_s: float
    committed: tuple[CommittedRange, ...]
    usd_per_month: PlanRange
    mean_time_s: PlanRange
    saving_share: PlanRange | None
    saving_over_on_demand_share: PlanRange | None


def has_weeks(bins: TimeBins) -> bool:
    """Return whether there are enough weeks to draw."""
    return bins.window_s >= LEAST_WEEKS * WEEK_S


def blocks_of(bins: TimeBins) -> IntArray:
    """Return the block of each bin, ascending from 0.

    That is the week of its middle, counted from the first submission, or of a short log one of
    `BLOCKS` equal parts.
    """
    at = np.arange(bins.count)
    if has_weeks(bins):
        block = ((at + 0.5) * bins.bin_s // WEEK_S).astype(np.int64)
    else:
        block = at * BLOCKS // bins.count
    places: IntArray = np.unique(block, return_inverse=True)[1]
    return places


def block_weights(block: IntArray, draws: IntArray) -> FloatArray:
    """Return the weight of each bin: how often its block is drawn, so that they add up to 1.

    Args:
        block: of each bin; shape (bins,).
        draws: blocks that are drawn; shape (blocks,).
    """
    times = np.bincount(draws, minlength=int(block.max()) + 1)[block]
    weights: FloatArray = times / times.sum()
    return weights


def reweighted(program: PlanProgram, weights: FloatArray, block: IntArray) -> PlanProgram:
    """Return the program with other weights of its bins; deferred work stays in its block.

    Else it would be done in blocks that are not drawn, which cost nothing.
    """
    columns = program.columns
    if columns.has_deferred:
        columns = replace(columns, due=_due_in_block(columns, block))
    return replace(
        program,
        columns=columns,
        weights=weights,
        outside_usd_per_h=columns.outside_usd * (columns.outside_gpus @ weights),
    )


def _due_in_block(columns: RouteColumns, block: IntArray) -> FloatArray:
    """Return the deferred work that is due: at the end of a block all that arrived in it."""
    is_last = np.append(block[1:] != block[:-1], True)
    due = np.where(is_last, columns.arrived, columns.due)
    result: FloatArray = np.maximum.accumulate(due, axis=1)
    return result


class PlanDollars(NamedTuple):
    """Dollars of the jobs as assigned to routes, exact in time.

    Attributes:
        usd_per_month: of the plan.
        recorded_usd_per_month: of the best commitment with jobs as recorded; None without one.
        on_demand_usd_per_month: of every job as recorded, rented; None where a type cannot be.
    """

    usd_per_month: float
    recorded_usd_per_month: float | None = None
    on_demand_usd_per_month: float | None = None


def plan_intervals(
    bought: Purchase,
    *,
    seed: int,
    resamples: int = RESAMPLES,
    recorded: Purchase | None = None,
    dollars: PlanDollars | None = None,
) -> PlanIntervals | None:
    """Return how a plan varies over resamples of time; None where no resample can be planned.

    Resamples are solved by the program, with deferred work that stays in its block, so that each
    block once costs more than the plan. Their dollars are taken as a share of that. Dollars of a
    plan that stays with an older one are those of what stays; the GPUs to commit to are those that
    would be best.

    Args:
        bought: the plan; its groups of bins are where resamples begin.
        seed: of the draws.
        resamples: how many.
        recorded: the best commitment with jobs as recorded, to compare with; None for none.
        dollars: of the jobs as assigned; None for those of the program.
    """
    columns = bought.program.columns
    block = blocks_of(columns.bins)
    count = int(block.max()) + 1
    rng = np.random.default_rng(seed)
    every_draw = (
        _planned(bought, recorded, block_weights(block, draws), block)
        for draws in rng.integers(0, count, (resamples, count))
    )
    drawn = [resample for resample in every_draw if resample is not None]
    if not drawn:
        return None
    committed, mean_time_s, usd = (np.array(figures) for figures in zip(*drawn, strict=True))
    each_once = _planned(bought, recorded, block_weights(block, np.arange(count)), block)
    if dollars is not None and each_once is not None:
        usd = usd * [_ratio(*pair) for pair in zip(dollars, each_once[2], strict=True)]
    plan_usd, recorded_usd, rented_usd = usd.T
    return PlanIntervals(
        resamples=resamples,
        failed=resamples - len(drawn),
        blocks=count,
        is_weeks=has_weeks(columns.bins),
        block_s=float(np.bincount(block).max()) * columns.bins.bin_s,
        committed=tuple(
            CommittedRange(gpu_type, *_ends(committed[:, number]))
            for number, gpu_type in enumerate(columns.types)
        ),
        usd_per_month=PlanRange(*_ends(plan_usd)),
        mean_time_s=PlanRange(*_ends(mean_time_s)),
        saving_share=_saving(plan_usd, recorded_usd),
        saving_over_on_demand_share=_saving(plan_usd, rented_usd),
    )


def _planned(
    bought: Purchase, recorded: Purchase | None, weights: FloatArray, block: IntArray
) -> tuple[FloatArray, float, list[float]] | None:
    """Return GPUs by type, mean time, and dollars a month as `PlanDollars` has them, of a resample.

    Dollars are NaN where they are unknown. None where no plan meets the limits.
    """
    program = reweighted(bought.program, weights, block)
    kept = bought.whole_nodes.committed if bought.is_kept else None
    plan = free = best(program, bought.exact.start, committed=kept)
    if bought.is_kept:
        free = best(reweighted(bought.free, weights, block), bought.exact.start)
    if plan is None or free is None:
        return None
    today: PlanOptimum | None = None
    if recorded is not None:
        today = best(reweighted(recorded.program, weights, block), recorded.exact.start)
    rented = rented_usd_per_h(program, weights)
    usd_per_h = (plan.usd_per_h, None if today is None else today.usd_per_h, rented)
    usd = [float("nan") if each is None else each * MONTH_H for each in usd_per_h]
    return program.held + free.committed, plan.mean_time_s, usd


def _ratio(usd: float | None, other: float) -> float:
    """Return dollars over others; 1 where either is unknown or nothing."""
    return usd / other if usd and other and not isnan(other) else 1.0


def _saving(usd: FloatArray, other_usd: FloatArray) -> PlanRange | None:
    """Return the interval of a saving over other dollars; None where any are unknown or nothing."""
    if np.isnan(other_usd).any() or not other_usd.all():
        return None
    return PlanRange(*_ends(1 - usd / other_usd))


def _ends(values: FloatArray) -> tuple[float, float]:
    low, high = np.percentile(values, TAILS).tolist()
    return low, high
