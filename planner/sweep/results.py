"""The results of ``gpuplan sweep``, as JSON has them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from gpuplan.analysis.base.plain import Inlined, plain
from gpuplan.analysis.characterize.gpu_mix import GpuMix
from gpuplan.analysis.characterize.today import Today
from gpuplan.planner.sweep.alternatives import TodaysCluster
from gpuplan.planner.sweep.recommendation import Case, Savings
from gpuplan.planner.sweep.reference_policy import ReferenceRun
from gpuplan.planner.sweep.scenario import SweepPoint
from gpuplan.planner.sweep.ski_rental import ClosedFormResults
from gpuplan.planner.sweep.sweep import Sweep
from gpuplan.planner.sweep.verdict import ServerlessVerdict


@dataclass(frozen=True, slots=True)
class ThresholdResults:
    """One replay of a sweep.

    Attributes:
        point: the replay.
        usd_per_month: the bill scaled to a month of 730.5 hours; null for a window of no length.
    """

    point: Inlined[SweepPoint]
    usd_per_month: float | None


@dataclass(frozen=True, slots=True)
class MarkedThreshold:
    """One replay of the grid of a sweep, judged in the first case at its prices.

    Attributes:
        threshold: the replay.
        non_dominated: no other is at least as good in cost and mean JCT and better in one.
        knee: whether the frontier of cost and mean JCT bends most here.
        recommended: whether it is the choice.
    """

    threshold: Inlined[ThresholdResults]
    non_dominated: bool
    knee: bool
    recommended: bool


@dataclass(frozen=True)
class ChosenThreshold:
    """A choice of a case.

    Attributes:
        policy: the rule for the threshold, ``serverless_only`` or ``serverful_only``.
        threshold_s: run time after which a job leaves serverless GPUs; null if it never does, 0 for
            ``serverful_only``, where jobs start on rented workers.
        capacity: most workers rented at once; null for no limit.
        price_ratio: serverful over serverless price of the case.
        cost_usd: the bill of the window.
        usd_per_month: the bill scaled to a month; null for a window of no length.
        mean_jct_s: mean completion time.
    """

    policy: str
    threshold_s: float
    capacity: int | None
    price_ratio: float
    cost_usd: float
    usd_per_month: float | None
    mean_jct_s: float


@dataclass(frozen=True, slots=True)
class RecommendedResults:
    """The choice of the first case, and what it saves."""

    chosen: Inlined[ChosenThreshold]
    savings: Inlined[Savings]


@dataclass(frozen=True, slots=True)
class CaseResults:
    """The choice at one price ratio and one value of time.

    Attributes:
        price_ratio: serverful over serverless price.
        value_of_time_usd_per_h: of one job; null for the rule that takes the cheapest of nearly the
            least mean completion time.
        savings: of the choice.
        closed_form: at these prices and the capacity of the choice.
        recommended: the choice.
        cheapest: what has the least bill.
    """

    price_ratio: float
    value_of_time_usd_per_h: float | None
    savings: Inlined[Savings]
    closed_form: ClosedFormResults
    recommended: ChosenThreshold
    cheapest: ChosenThreshold


@dataclass(frozen=True, slots=True)
class SweepResults:
    """All replays of a sweep, and which one to choose.

    Attributes:
        jobs: replayed.
        span_s: from the first submission to the last.
        window_s: first submission to last submission or end; null where no job holds GPUs.
        today: what the log shows; null as before.
        today_cluster: null where its size is not known, or with a reference.
        gpu_mix: GPU-hours of the log on other GPU types than the priced one; null where it names no
            other.
        verdict: of the first case; null where a job needs more workers than can be rented.
        points: by price ratio and capacity the fixed thresholds, then the adaptive one.
        recommended: the choice of the first case.
        serverless_only: everything serverless.
        serverful_only: everything on rented workers; null where a job needs more of them than can
            be rented.
        against: the reference; null without one.
        closed_form: of the first case.
        cases: by price ratio and value of time; the first is the headline.
    """

    jobs: int
    span_s: float
    window_s: float | None
    today: Today | None
    today_cluster: TodaysCluster | None
    gpu_mix: GpuMix | None
    verdict: ServerlessVerdict | None
    points: tuple[MarkedThreshold, ...]
    recommended: RecommendedResults
    serverless_only: ThresholdResults
    serverful_only: ThresholdResults | None
    against: ReferenceRun | None
    closed_form: ClosedFormResults
    cases: tuple[CaseResults, ...]


def sweep_results(sweep: Sweep) -> SweepResults:
    """Return the results of a sweep."""
    cases = tuple(_case(sweep, case) for case in sweep.cases)
    first = cases[0]
    return SweepResults(
        jobs=sweep.cases[0].closed_form.jobs,
        span_s=sweep.span_s,
        window_s=sweep.window_s,
        today=sweep.today,
        today_cluster=sweep.cluster,
        gpu_mix=sweep.mix,
        verdict=sweep.verdict,
        points=marked_thresholds(sweep),
        recommended=RecommendedResults(first.recommended, first.savings),
        serverless_only=threshold_results(sweep, sweep.reference),
        serverful_only=None if sweep.rented is None else threshold_results(sweep, sweep.rented),
        against=sweep.against and monthly(sweep, sweep.against),
        closed_form=first.closed_form,
        cases=cases,
    )


def marked_thresholds(sweep: Sweep) -> tuple[MarkedThreshold, ...]:
    """Return the points of a sweep with their labels."""
    return tuple(
        MarkedThreshold(threshold_results(sweep, point), **sweep.marks(index))
        for index, point in enumerate(sweep.points)
    )


def sweep_frame(sweep: Sweep) -> pl.DataFrame:
    """Return one row per point, then everything rented and everything serverless at each ratio.

    The latter are not on the frontier of the points: ``non_dominated`` and ``knee`` are null.
    """
    rows = [plain(point) for point in marked_thresholds(sweep)]
    first = {case.price_ratio: case for case in reversed(sweep.cases)}  # at its prices
    for point in sweep.all_rented:
        is_best = first[point.price_ratio].rented is not None
        rows.append(_alone(sweep, point, "serverful_only", is_best))
    for case in reversed(first.values()):
        ratio, is_best = case.price_ratio, case.best is None and case.rented is None
        point = replace(sweep.reference, price_ratio=ratio, own_price_ratio=ratio)
        rows.append(_alone(sweep, point, "serverless_only", is_best))
    frame = pl.DataFrame(rows, infer_schema_length=None)
    return frame.with_columns(pl.col(pl.Float64).replace(float("inf"), None))  # as in JSON


def _alone(sweep: Sweep, point: SweepPoint, policy: str, is_best: bool) -> dict[str, Any]:
    """Return the row of a run without a threshold to choose."""
    marks = {"non_dominated": None, "knee": None, "recommended": is_best}
    return {**plain(threshold_results(sweep, point)), "policy": policy, **marks}


def threshold_results(sweep: Sweep, point: SweepPoint) -> ThresholdResults:
    """Return one replay of a sweep, with its bill per month."""
    return ThresholdResults(point, sweep.usd_per_month(point.cost_usd))


def monthly(sweep: Sweep, run: ReferenceRun) -> ReferenceRun:
    """Return the replay of the reference, with its bill per month in the window of the sweep."""
    usd = sweep.usd_per_month(run.cost_usd)
    return replace(run, results=replace(run.results, usd_per_month=usd))


def _case(sweep: Sweep, case: Case) -> CaseResults:
    recommended = _named(sweep, case, case.best)
    if case.rented is not None:
        recommended = _chosen(sweep, case, "serverful_only", case.rented.point)
    return CaseResults(
        price_ratio=case.price_ratio,
        value_of_time_usd_per_h=case.value_of_time,
        savings=case.chosen_savings,
        closed_form=case.closed_form.results(),
        recommended=recommended,
        cheapest=_named(sweep, case, case.cheapest),
    )


def _named(sweep: Sweep, case: Case, index: int | None) -> ChosenThreshold:
    policy = "serverless_only" if index is None else sweep.points[index].policy
    return _chosen(sweep, case, policy, sweep.point(index))


def _chosen(sweep: Sweep, case: Case, policy: str, point: SweepPoint) -> ChosenThreshold:
    return ChosenThreshold(
        policy=policy,
        threshold_s=point.threshold_s,
        capacity=point.capacity,
        price_ratio=case.price_ratio,
        cost_usd=point.cost_usd,
        usd_per_month=sweep.usd_per_month(point.cost_usd),
        mean_jct_s=point.mean_jct_s,
    )
