"""The recommendation in one case of a sweep, its savings and their confidence.

A case is what the user cannot choose: the ratio of the two prices, and the value of a job's hour.
Confidence comes from a moving-block bootstrap over the jobs (see `analysis.statistics`), the
same resamples for all points. A job keeps the bill and the time it had in the replay, so confidence
covers the sample of jobs, but not how other jobs would have queued.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.statistics.bootstrap import interval
from gpuplan.planner.runs.ties import non_dominated, same_point
from gpuplan.planner.sweep.reference_policy import Against, ReferenceRun, set_against
from gpuplan.planner.sweep.scenario import SweepPoint
from gpuplan.planner.sweep.ski_rental import SkiRental
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.time import HOUR_S

NEARLY = 0.10
"""A mean JCT within this share of the least one is as good as the least."""


@dataclass(frozen=True, slots=True)
class Confidence:
    """The confidence of a choice over resamples of the jobs.

    Attributes:
        level_percent: confidence of the intervals.
        resamples: of the jobs.
        block_jobs: consecutive jobs in a block.
        best_share: share of the resamples in which the choice is the best.
        saving_usd, saving_share: intervals of the saving vs. everything serverless; null where
            there are too few jobs.
    """

    level_percent: float
    resamples: int
    block_jobs: int
    best_share: float
    saving_usd: tuple[float, float] | None
    saving_share: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Savings:
    """What a choice saves vs. everything serverless.

    Attributes:
        saving_usd: the savings.
        saving_share: over the cost of everything serverless; null if that is 0.
        net_saving_usd: the saving less the value of longer completion times; null without a value
            of time.
        confidence: null without resamples.
        against: the choice vs. the reference; null without one.
    """

    saving_usd: float
    saving_share: float | None
    net_saving_usd: float | None
    confidence: Confidence | None
    against: Against | None


@dataclass(frozen=True, slots=True)
class RentedChoice:
    """Everything on rented workers, as the choice of a case.

    Attributes:
        point: its replay at the prices of the case.
        savings: of it.
    """

    point: SweepPoint
    savings: Savings


@dataclass(frozen=True, slots=True)
class Case:
    """The choice at one price ratio and one value of time.

    Attributes:
        price_ratio: serverful over serverless price.
        value_of_time: US dollars per hour of one job; None for the rule of `NEARLY`.
        non_dominated: points not dominated in cost and mean JCT, by cost.
        knee: the point of `non_dominated` farthest below the line between its ends, without points
            that cost more and take longer than everything serverless or everything rented; None if
            fewer than three are left.
        best: the best point, see `objective`; None for
            everything serverless, which competes with the points and wins ties. It is recommended
            unless ``rented`` is set.
        cheapest: the point of the least bill, of ties the fastest; None as for ``best``.
        savings: of ``best``.
        closed_form: the ski-rental view at these prices and the recommended capacity, whose median
            offer is c2; of the greatest capacity if everything serverless or everything rented is
            recommended.
        rented: everything on rented workers, where that is the choice; else None.
    """

    price_ratio: float
    value_of_time: float | None
    non_dominated: tuple[int, ...]
    knee: int | None
    best: int | None
    cheapest: int | None
    savings: Savings
    closed_form: SkiRental
    rented: RentedChoice | None = None

    @property
    def chosen_savings(self) -> Savings:
        """The savings of the choice."""
        return self.savings if self.rented is None else self.rented.savings


@dataclass(frozen=True, slots=True)
class Criteria:
    """How the points of a case are judged.

    Attributes:
        value_of_time: see `Case`.
        level: percent of the intervals; None for no confidence.
        block_jobs: jobs in a block of the resamples.
        reference_run: the run to compare the recommended point with; it does not compete.
    """

    value_of_time: float | None
    level: float | None
    block_jobs: int
    reference_run: ReferenceRun | None = None


def choose(
    points: Sequence[SweepPoint],
    indices: range,
    everything: SweepPoint,
    forms: Mapping[int | None, SkiRental],
    greatest: int | None,
    criteria: Criteria,
    rented: SweepPoint | None = None,
) -> Case:
    """Compare the points of one case.

    Args:
        points: all points of the sweep.
        indices: those of the case's price ratio; at least one.
        everything: all jobs serverless, which competes too.
        forms: the closed form of each capacity, at the prices of the case.
        greatest: the capacity for the closed form of everything serverless.
        criteria: how to judge.
        rented: everything on rented workers, which no knee may be worse than in cost and time.
    """
    some = [points[index] for index in indices]
    cost = np.array([point.cost_usd for point in some])
    jct = np.array([point.mean_jct_s for point in some])
    jobs, value_of_time = next(iter(forms.values())).jobs, criteria.value_of_time
    front, knee = non_dominated(cost, jct), None
    alternatives = [everything] if rented is None else [everything, rented]
    below = knee_of(cost, jct, [at for at in front if not _is_worse(some[at], alternatives)])
    if below is not None:
        knee = indices[below]
    choices = [everything, *some]
    cost, jct = np.append(everything.cost_usd, cost), np.append(everything.mean_jct_s, jct)
    best = int(best_of(objective(cost, jct, jobs, value_of_time), jct))
    cheapest = int(best_of(cost, jct))
    form = forms[choices[best].capacity if best else greatest]
    return Case(
        price_ratio=some[0].price_ratio,
        value_of_time=value_of_time,
        non_dominated=tuple(indices[point] for point in front),
        knee=knee,
        best=indices[best - 1] if best else None,
        cheapest=indices[cheapest - 1] if cheapest else None,
        savings=savings_of(choices, best, jobs, criteria),
        closed_form=form.at(form.price_ratio, value_of_time or 0.0),
    )


def _is_worse(point: SweepPoint, others: Sequence[SweepPoint]) -> bool:
    """Return whether one of some others costs less and takes less time."""
    return any(
        other.cost_usd < point.cost_usd and other.mean_jct_s < point.mean_jct_s for other in others
    )


def savings_of(choices: Sequence[SweepPoint], best: int, jobs: int, criteria: Criteria) -> Savings:
    """Return what a choice saves, and how sure that is.

    Args:
        choices: what competes; the first is everything serverless.
        best: place of the choice among them.
        jobs: replayed.
        criteria: how to judge.
    """
    everything, chosen, value_of_time = choices[0], choices[best], criteria.value_of_time
    level, reference_run = criteria.level, criteria.reference_run
    saving, net = everything.cost_usd - chosen.cost_usd, None
    if value_of_time is not None:
        later_h = jobs * (chosen.mean_jct_s - everything.mean_jct_s) / HOUR_S
        net = saving - value_of_time * later_h
    blocks = -(-jobs // criteria.block_jobs)
    return Savings(
        saving_usd=saving,
        saving_share=saving / everything.cost_usd if everything.cost_usd else None,
        net_saving_usd=net,
        confidence=None if level is None else _confidence(choices, best, jobs, criteria, level),
        against=None
        if reference_run is None
        else set_against(chosen, reference_run, value_of_time, level, blocks),
    )


def _confidence(
    choices: Sequence[SweepPoint], best: int, jobs: int, criteria: Criteria, level: float
) -> Confidence:
    resampled = [point.resampled for point in choices]
    cost = np.array([each.cost_usd for each in resampled if each is not None])
    jct = np.array([each.mean_jct_s for each in resampled if each is not None])
    serverless_usd = cost[0]
    judged = objective(cost, jct, jobs, criteria.value_of_time)
    saving = serverless_usd - cost[best]
    share = np.divide(
        saving, serverless_usd, out=np.full(serverless_usd.size, np.nan), where=serverless_usd > 0
    )
    blocks = -(-jobs // criteria.block_jobs)
    return Confidence(
        level_percent=level,
        resamples=serverless_usd.size,
        block_jobs=criteria.block_jobs,
        best_share=float((judged[best] == judged.min(axis=0)).mean()),
        saving_usd=interval(saving, level, blocks),
        saving_share=interval(share, level, blocks),
    )


def knee_of(cost: FloatArray, jct: FloatArray, front: Sequence[int]) -> int | None:
    """Return the point farthest below the chord of the front, both axes scaled to 0..1.

    None if the front has fewer than three different points or none lies below the chord.
    """
    front = [
        point
        for place, point in enumerate(front)
        if not place or not same_point(point, front[place - 1], cost, jct)
    ]
    if len(front) < 3:
        return None
    x, y = cost[list(front)], jct[list(front)]
    below = 1 - (x - x[0]) / (x[-1] - x[0]) - (y - y[-1]) / (y[0] - y[-1])
    best = int(np.argmax(below))
    return front[best] if below[best] > 1e-9 else None


def objective(
    cost: FloatArray, mean_jct_s: FloatArray, jobs: int, value_of_time: float | None
) -> FloatArray:
    """Return the key that the recommended point minimizes, by column.

    With a value of time, US dollars per hour of one job, it is the bill plus the value of all
    completion times (run times are the same for all points). Without it, it is the
    bill, and points with a mean JCT of more than `NEARLY` above the least are excluded.

    Args:
        cost: US dollars; shape (points, ...).
        mean_jct_s: of the same shape.
        jobs: number of jobs behind each mean.
        value_of_time: None for the rule of `NEARLY`.
    """
    if value_of_time is None:
        near = mean_jct_s <= mean_jct_s.min(axis=0) * (1 + NEARLY)
        return np.where(near, cost, np.inf)
    return np.asarray(cost + value_of_time * jobs * mean_jct_s / HOUR_S)


def best_of(objective: FloatArray, mean_jct_s: FloatArray) -> IntArray:
    """Return the point of least objective per column; ties go to the fastest, then the first."""
    tied = objective == objective.min(axis=0)
    return np.asarray(np.where(tied, mean_jct_s, np.inf).argmin(axis=0))
