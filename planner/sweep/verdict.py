"""Whether serverless pays, and which thresholds cost the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.base.plain import Hidden
from gpuplan.analysis.statistics.bootstrap import interval
from gpuplan.planner.sweep.recommendation import NEARLY, Case
from gpuplan.planner.sweep.scenario import SweepPoint
from gpuplan.simkit.time import HOUR_S

SAME = 0.02
"""Bills that differ by no more are equal for any decision."""


@dataclass(frozen=True, slots=True)
class ServerlessVerdict:
    """Whether serverless pays: the best threshold vs. everything on rented workers.

    Attributes:
        serverless_pays: null where the two cost the same.
        saving_usd: savings vs. everything on rented workers, the value of time included.
        saving_share: over the cost of everything on rented workers; null if that is 0.
        saving_interval_usd: low and high end; null without resamples.
        same_cost_from_s, same_cost_to_s: fixed thresholds between which the bill is within 2% of
            the cheapest one; null without two such thresholds.
        rented_later_s: how much longer a job takes on rented workers alone, on average.
        tied: whether another threshold costs within 2% of the recommended one.
        rented_is_slow: whether rented workers alone take over 10% longer than the fastest choice,
            and no value of time says what that is worth.
    """

    serverless_pays: bool | None
    saving_usd: float
    saving_share: float | None
    saving_interval_usd: tuple[float, float] | None
    same_cost_from_s: float | None
    same_cost_to_s: float | None
    rented_later_s: float
    tied: bool
    rented_is_slow: Hidden[bool]

    @property
    def takes_rented(self) -> bool:
        """Whether everything on rented workers is the choice: cheaper, and not much slower."""
        return self.serverless_pays is False and not self.rented_is_slow


def judge(
    case: Case,
    points: Sequence[SweepPoint],
    chosen: SweepPoint,
    everything: SweepPoint,
    rented: SweepPoint,
    level: float | None,
    blocks: int,
) -> ServerlessVerdict:
    """Return the verdict of a case.

    Args:
        case: the choice.
        points: those at its prices.
        chosen: the best point, or everything serverless.
        everything: everything serverless.
        rented: everything on rented workers at the same prices.
        level: confidence of the interval, percent; None for none.
        blocks: blocks in a resample.
    """
    saving = _worth(rented, case) - _worth(chosen, case)
    share = saving / rented.cost_usd if rented.cost_usd else None
    between = None
    if level is not None and rented.resampled is not None and chosen.resampled is not None:
        jobs = case.closed_form.jobs
        delays_s = rented.resampled.mean_jct_s - chosen.resampled.mean_jct_s
        worth = (case.value_of_time or 0.0) * jobs * delays_s / HOUR_S
        less = rented.resampled.cost_usd - chosen.resampled.cost_usd + worth
        between = interval(less, level, blocks)
    is_noise = between is not None and between[0] <= 0 <= between[1]
    is_same = abs(saving) <= SAME * rented.cost_usd or is_noise
    capacity = chosen.capacity if case.best is not None else points[0].capacity
    fixed = [p for p in points if p.policy == "fixed" and p.capacity == capacity]
    first, last = _same(fixed)
    other_points = [p for p in points if p is not chosen and p.capacity == capacity]
    tied = any(abs(p.cost_usd - chosen.cost_usd) <= SAME * chosen.cost_usd for p in other_points)
    # The chosen point may itself be slower than the fastest by `NEARLY`.
    shortest_s = min(point.mean_jct_s for point in (everything, *points))
    is_slow = rented.mean_jct_s > (1 + NEARLY) * shortest_s
    return ServerlessVerdict(
        serverless_pays=None if is_same else saving > 0,
        saving_usd=saving,
        saving_share=share,
        saving_interval_usd=between,
        same_cost_from_s=first,
        same_cost_to_s=last,
        rented_later_s=rented.mean_jct_s - chosen.mean_jct_s,
        tied=tied,
        rented_is_slow=case.value_of_time is None and is_slow,
    )


def _worth(point: SweepPoint, case: Case) -> float:
    """Return the bill of a point, with the value of its completion times where they have one."""
    hours = case.closed_form.jobs * point.mean_jct_s / HOUR_S
    return point.cost_usd + (case.value_of_time or 0.0) * hours


def _same(fixed: Sequence[SweepPoint]) -> tuple[float | None, float | None]:
    """Return the ends of the run of thresholds around the cheapest that cost the same."""
    some = sorted(fixed, key=lambda point: point.threshold_s)
    if len(some) < 2:
        return None, None
    cost = np.array([point.cost_usd for point in some])
    near = cost <= (1 + SAME) * cost.min()
    first = last = int(cost.argmin())
    while first > 0 and near[first - 1]:
        first -= 1
    while last + 1 < cost.size and near[last + 1]:
        last += 1
    if first == last:
        return None, None
    return some[first].threshold_s, some[last].threshold_s
