"""A sweep as JSON has it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from gpuplan.analysis.base.plain import fields_of, plain
from gpuplan.planner.sweep.recommendation import Case
from gpuplan.planner.sweep.reference_policy import ReferenceRun
from gpuplan.planner.sweep.result_types import (
    CaseResults,
    ChosenThreshold,
    MarkedThreshold,
    RecommendedResults,
    ReferenceResults,
    SavingResults,
    SweepResults,
    ThresholdResults,
)
from gpuplan.planner.sweep.scenario import SweepPoint
from gpuplan.planner.sweep.sweep import Sweep


def sweep_results(found: Sweep) -> SweepResults:
    """Return the results of a sweep."""
    cases = tuple(_case(found, case) for case in found.cases)
    first = cases[0]
    return SweepResults(
        jobs=found.cases[0].closed_form.jobs,
        span_s=found.span_s,
        window_s=found.window_s,
        today=found.today,
        today_cluster=None if found.cluster is None else found.cluster.results(),
        gpu_mix=found.mix,
        verdict=None if found.verdict is None else found.verdict.results(),
        points=marked_thresholds(found),
        recommended=RecommendedResults(
            **fields_of(first.recommended), **fields_of(_savings(found.cases[0]))
        ),
        serverless_only=threshold_results(found, found.reference),
        serverful_only=None if found.rented is None else threshold_results(found, found.rented),
        against=None if found.against is None else reference_results(found, found.against),
        closed_form=first.closed_form,
        cases=cases,
    )


def marked_thresholds(found: Sweep) -> tuple[MarkedThreshold, ...]:
    """Return the points of a sweep with their labels."""
    marked = []
    for index, point in enumerate(found.points):
        marks, values = found.marks(index), threshold_results(found, point)
        marked.append(
            MarkedThreshold(
                **fields_of(values),
                non_dominated=marks["non_dominated"],
                knee=marks["knee"],
                recommended=marks["recommended"],
            )
        )
    return tuple(marked)


def sweep_frame(found: Sweep) -> pl.DataFrame:
    """Return one row per point, then everything rented and everything serverless at each ratio.

    The latter are not on the frontier of the points: ``non_dominated`` and ``knee`` are null.
    """
    rows = [plain(point) for point in marked_thresholds(found)]
    first = {case.price_ratio: case for case in reversed(found.cases)}  # at its prices
    for point in found.all_rented:
        is_best = first[point.price_ratio].rented is not None
        rows.append(_alone(found, point, "serverful_only", is_best))
    for case in reversed(first.values()):
        ratio, is_best = case.price_ratio, case.best is None and case.rented is None
        point = replace(found.reference, price_ratio=ratio, own_price_ratio=ratio)
        rows.append(_alone(found, point, "serverless_only", is_best))
    frame = pl.DataFrame(rows, infer_schema_length=None)
    return frame.with_columns(pl.col(pl.Float64).replace(float("inf"), None))  # as in JSON


def _alone(found: Sweep, point: SweepPoint, policy: str, is_best: bool) -> dict[str, Any]:
    """Return the row of a run without a threshold to choose."""
    marks = {"non_dominated": None, "knee": None, "recommended": is_best}
    return {**plain(threshold_results(found, point)), "policy": policy, **marks}


def threshold_results(found: Sweep, point: SweepPoint) -> ThresholdResults:
    """Return one replay of a sweep, with its bill per month."""
    return ThresholdResults(
        policy=point.policy,
        threshold_s=point.threshold_s,
        capacity=point.capacity,
        price_ratio=point.price_ratio,
        **point.results,
        closed_form_cost_usd=point.closed_form_cost_usd,
        closed_form_delay_s=point.closed_form_delay_s,
        own_price_ratio=point.own_price_ratio,
        break_even_price_ratio=point.break_even_ratio,
        usd_per_month=found.usd_per_month(point.cost_usd),
    )


def reference_results(found: Sweep, run: ReferenceRun) -> ReferenceResults:
    """Return the replay of the reference, with its bill per month in the window of the sweep."""
    measured = {**run.results, "usd_per_month": found.usd_per_month(run.cost_usd)}
    return ReferenceResults(name=run.label, label=run.label, policy=run.policy, **measured)


def _case(found: Sweep, case: Case) -> CaseResults:
    recommended = _named(found, case, case.best)
    if case.rented is not None:
        recommended = _chosen(found, case, "serverful_only", case.rented.point)
    return CaseResults(
        price_ratio=case.price_ratio,
        value_of_time_usd_per_h=case.value_of_time,
        **fields_of(_savings(case)),
        closed_form=case.closed_form.results(),
        recommended=recommended,
        cheapest=_named(found, case, case.cheapest),
    )


def _savings(case: Case) -> SavingResults:
    taken = case.taken
    return SavingResults(
        saving_usd=taken.saving_usd,
        saving_share=taken.saving_share,
        net_saving_usd=taken.net_saving_usd,
        confidence=None if taken.confidence is None else taken.confidence.results(),
        against=None if taken.against is None else taken.against.results(),
    )


def _named(found: Sweep, case: Case, index: int | None) -> ChosenThreshold:
    policy = "serverless_only" if index is None else found.points[index].policy
    return _chosen(found, case, policy, found.point(index))


def _chosen(found: Sweep, case: Case, policy: str, point: SweepPoint) -> ChosenThreshold:
    return ChosenThreshold(
        policy=policy,
        threshold_s=point.threshold_s,
        capacity=point.capacity,
        price_ratio=case.price_ratio,
        cost_usd=point.cost_usd,
        usd_per_month=found.usd_per_month(point.cost_usd),
        mean_jct_s=point.mean_jct_s,
    )
