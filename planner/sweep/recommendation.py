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
from gpuplan.planner.runs.ties import non_dominated
from gpuplan.planner.sweep.pareto_front import best_of, knee_of, objective
from gpuplan.planner.sweep.reference_policy import Against, ReferenceRun, set_against
from gpuplan.planner.sweep.result_types import ConfidenceResults
from gpuplan.planner.sweep.scenario import SweepPoint
from gpuplan.planner.sweep.ski_rental import SkiRental
from gpuplan.simkit.time import HOUR_S


@dataclass(frozen=True, slots=True)
class Confidence:
    """The confidence of a choice over resamples of the trace.

    Attributes:
        level: confidence of the intervals, percent.
        resamples: number of resamples.
        block_jobs: consecutive jobs in a block.
        best_share: share of the resamples in which the recommended point is the best one.
        saving_usd, saving_share: intervals of the saving against everything serverless.
    """

    level: float
    resamples: int
    block_jobs: int
    best_share: float
    saving_usd: tuple[float, float] | None
    saving_share: tuple[float, float] | None

    def results(self) -> ConfidenceResults:
        """Return the numbers as JSON has them."""
        return ConfidenceResults(
            level_percent=self.level,
            resamples=self.resamples,
            block_jobs=self.block_jobs,
            best_share=self.best_share,
            saving_usd=self.saving_usd,
            saving_share=self.saving_share,
        )


@dataclass(frozen=True, slots=True)
class RentedChoice:
    """Everything on rented workers, as the choice of a case.

    Attributes:
        point: its replay at the prices of the case.
        saving_usd, saving_share, net_saving_usd, confidence, against: as in `Case`.
    """

    point: SweepPoint
    saving_usd: float
    saving_share: float | None
    net_saving_usd: float | None
    confidence: Confidence | None
    against: Against | None


@dataclass(frozen=True, slots=True)
class Case:
    """The choice at one price ratio and one value of time.

    Attributes:
        price_ratio: serverful over serverless price.
        value_of_time: US dollars per hour of one job; None for the rule of `front.NEARLY`.
        non_dominated: points not dominated in cost and mean JCT, by cost.
        knee: the point of `non_dominated` farthest below the line between its ends; None if it has
            fewer than three.
        best: the best point, see `gpuplan.planner.sweep.pareto_front.objective`; None for
            everything serverless, which competes with the points and wins ties. It is recommended
            unless ``rented`` is set.
        cheapest: the point of the least bill, of ties the fastest; None as for ``best``.
        saving_usd: savings vs. everything serverless.
        saving_share: the same over the cost of everything serverless; None if that is 0.
        net_saving_usd: that minus the value of the longer completion times; None without a value of
            time.
        confidence: None if not requested.
        closed_form: the ski-rental view at these prices and the recommended capacity, whose median
            offer is c2; of the greatest capacity if everything serverless or everything rented is
            recommended.
        against: the recommended point vs. the reference; None without a reference.
        rented: everything on rented workers, where that is the choice; else None.
    """

    price_ratio: float
    value_of_time: float | None
    non_dominated: tuple[int, ...]
    knee: int | None
    best: int | None
    cheapest: int | None
    saving_usd: float
    saving_share: float | None
    net_saving_usd: float | None
    confidence: Confidence | None
    closed_form: SkiRental
    against: Against | None = None
    rented: RentedChoice | None = None

    @property
    def taken(self) -> Case | RentedChoice:
        """What has the savings of the choice."""
        return self.rented or self


def choose(
    points: Sequence[SweepPoint],
    indices: range,
    everything: SweepPoint,
    forms: Mapping[int | None, SkiRental],
    greatest: int | None,
    value_of_time: float | None,
    level: float | None,
    block_jobs: int,
    reference_run: ReferenceRun | None = None,
) -> Case:
    """Compare the points of one case.

    Args:
        points: all points of the sweep.
        indices: those of the case's price ratio; at least one.
        everything: all jobs serverless, which competes too.
        forms: the closed form of each capacity, at the prices of the case.
        greatest: the capacity for the closed form of everything serverless.
        value_of_time: see `Case`.
        level: percent of the intervals; None for no confidence.
        block_jobs: jobs in a block of the resamples.
        reference_run: the run to compare the recommended point with; it does not compete.
    """
    some = [points[index] for index in indices]
    cost = np.array([point.cost_usd for point in some])
    jct = np.array([point.mean_jct_s for point in some])
    jobs = next(iter(forms.values())).jobs
    front, knee = non_dominated(cost, jct), None
    below = knee_of(cost, jct, front)
    if below is not None:
        knee = indices[below]
    choices = [everything, *some]
    cost, jct = np.append(everything.cost_usd, cost), np.append(everything.mean_jct_s, jct)
    best = int(best_of(objective(cost, jct, jobs, value_of_time), jct))
    cheapest = int(best_of(cost, jct))
    saving = float(everything.cost_usd - cost[best])
    form = forms[choices[best].capacity if best else greatest]
    net = None
    if value_of_time is not None:
        later_h = jobs * (jct[best] - everything.mean_jct_s) / HOUR_S
        net = saving - value_of_time * float(later_h)
    return Case(
        price_ratio=some[0].price_ratio,
        value_of_time=value_of_time,
        non_dominated=tuple(indices[point] for point in front),
        knee=knee,
        best=indices[best - 1] if best else None,
        cheapest=indices[cheapest - 1] if cheapest else None,
        saving_usd=saving,
        saving_share=saving / everything.cost_usd if everything.cost_usd else None,
        net_saving_usd=net,
        confidence=None
        if level is None
        else _confidence(choices, best, jobs, value_of_time, level, block_jobs),
        closed_form=form.at(form.price_ratio, value_of_time or 0.0),
        against=None
        if reference_run is None
        else set_against(
            choices[best], reference_run, value_of_time, level, -(-jobs // block_jobs)
        ),
    )


def choose_rented(
    case: Case,
    points: Sequence[SweepPoint],
    rented: SweepPoint,
    everything: SweepPoint,
    level: float | None,
    block_jobs: int,
    reference_run: ReferenceRun | None = None,
) -> RentedChoice:
    """Return the savings and the confidence of everything on rented workers in a case.

    Args:
        case: the choice without it.
        points: those at the prices of the case.
        rented: everything on rented workers at these prices.
        everything: everything serverless.
        level, block_jobs, reference_run: as in `choose`.
    """
    jobs, saving = case.closed_form.jobs, everything.cost_usd - rented.cost_usd
    net, confidence = None, None
    if case.value_of_time is not None:
        later_h = jobs * (rented.mean_jct_s - everything.mean_jct_s) / HOUR_S
        net = saving - case.value_of_time * later_h
    if level is not None:
        choices = [everything, rented, *points]
        confidence = _confidence(choices, 1, jobs, case.value_of_time, level, block_jobs)
    return RentedChoice(
        point=rented,
        saving_usd=saving,
        saving_share=saving / everything.cost_usd if everything.cost_usd else None,
        net_saving_usd=net,
        confidence=confidence,
        against=None
        if reference_run is None
        else set_against(rented, reference_run, case.value_of_time, level, -(-jobs // block_jobs)),
    )


def _confidence(
    choices: Sequence[SweepPoint],
    best: int,
    jobs: int,
    value_of_time: float | None,
    level: float,
    block_jobs: int,
) -> Confidence:
    resampled = [point.resampled for point in choices]
    cost = np.array([each.cost_usd for each in resampled if each is not None])
    jct = np.array([each.mean_jct_s for each in resampled if each is not None])
    whole = cost[0]
    judged = objective(cost, jct, jobs, value_of_time)
    saving = whole - cost[best]
    share = np.divide(saving, whole, out=np.full(whole.size, np.nan), where=whole > 0)
    blocks = -(-jobs // block_jobs)
    return Confidence(
        level=level,
        resamples=whole.size,
        block_jobs=block_jobs,
        best_share=float((judged[best] == judged.min(axis=0)).mean()),
        saving_usd=interval(saving, level, blocks),
        saving_share=interval(share, level, blocks),
    )
