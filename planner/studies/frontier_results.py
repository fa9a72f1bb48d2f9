"""What a study of a frontier found, as JSON has it: on one GPU type, and on several."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from gpuplan.analysis.base.plain import fields_of
from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.planner.frontier.model.exact import JobClass
from gpuplan.planner.frontier.replay.plan_replay import ReplayedPlan
from gpuplan.planner.frontier.study import EXACT, FrontierStudy, Point
from gpuplan.planner.frontier.types.typed_study import TypedPoint, TypedStudy
from gpuplan.planner.studies.pareto_results import (
    ClassResults,
    MixPointReplay,
    MixPointResults,
    MixResults,
    NamedSpeedup,
    ParetoResults,
    PeakReplay,
    PointReplay,
    PointResults,
    RecordedResults,
    RescaleResults,
    SpeedupEnd,
)
from gpuplan.simkit.metrics import percentile
from gpuplan.simkit.time import HOUR_S


def frontier_results(study: FrontierStudy) -> ParetoResults:
    """Return the results of a study on one GPU type."""
    frontier, workload, shown = study.frontier, study.workload, study.shown
    ends = zip(study.speedup.ends or (), study.ends, strict=True)
    return ParetoResults(
        jobs=workload.jobs,
        horizon_h=workload.horizon_h,
        speedup=NamedSpeedup(study.speedup.name, study.speedup.origin),
        rescale=RescaleResults(workload.rescale_origin, study.mean_rescale_s),
        method=study.method,
        price_usd_per_gpu_h=None if study.price is None else study.price.usd_per_gpu_h,
        price=study.price,
        today=study.today,
        gpu_mix=study.mix,
        recorded=_recorded(study),
        max_gpus_per_job=frontier.widest,
        load_gpus=frontier.load_gpus,
        min_budget_gpus=frontier.min_budget,
        saturation_budget_gpus=frontier.saturation_budget,
        max_mean_jct_s=float(frontier.mean_jct_s[0]),
        least_mean_jct_s=float(frontier.mean_jct_s[-1]),
        one_gpu_mean_jct_s=frontier.one_gpu_jct_s,
        speedup_ends=tuple(
            SpeedupEnd(model.name, end.load_gpus, end.min_budget, end.saturation_budget)
            for model, end in ends
        ),
        cluster=study.cluster,
        knee=point_results(study, study.knee),
        points=tuple(point_results(study, point) for point in study.points),
        classes=tuple(_class(one, is_mixed=False) for one in frontier.classes),
        timeline=() if shown.replayed is None else shown.replayed.timeline(),
        **{section.key: section.results() for section in study.sections},
    )


def point_results(study: FrontierStudy, point: Point) -> PointResults:
    """Return the plan for one budget on one GPU type."""
    plan = point.plan
    saved_s = {
        step: study.frontier.saved_s(plan.budget_gpus, more)
        for step, more in study.steps(plan.budget_gpus).items()
    }
    usd_per_month: float | UnsetType = UNSET
    marginal_s: float | UnsetType = UNSET
    if study.price is not None:
        usd_per_month = study.usd_per_month(plan.used_gpus)
        marginal_s = plan.marginal_jct_s_per_gpu * 100 / study.usd_per_month(1.0)
    return PointResults(
        **fields_of(plan.results()),
        budget_x_load=plan.budget_gpus / plan.load_gpus,
        mean_jct_over_one_gpu=plan.mean_jct_s / study.frontier.one_gpu_jct_s,
        optimal_mean_jct_s=study.least_mean_jct_s(plan.budget_gpus),
        next_gpu_saves_s=saved_s["gpu"],
        next_1pct_saves_s=saved_s["1pct"],
        next_100_usd_month_saves_s=saved_s.get("100_usd_month", UNSET),
        usd_per_month=usd_per_month,
        marginal_jct_s_per_100_usd_month=marginal_s,
        ends_mean_jct_s=point.ends_jct_s or UNSET,
        target_jct_s=point.target_jct_s,
        requested=point.requested,
        replay=UNSET if point.replayed is None else _replay(study, point, point.replayed),
        replay_within_today_peak=_within_peak(study, point),
        widths=plan.widths,
    )


def _replay(study: FrontierStudy, point: Point, replayed: ReplayedPlan) -> PointReplay:
    billed = replayed.replay.billed_gpus
    return PointReplay(
        **fields_of(replayed.results()),
        spent_over_budget=study.spent_over_budget(point),
        inside_budget=point.inside,
        billed_usd_per_month=UNSET if study.price is None else study.usd_per_month(billed),
    )


def _within_peak(study: FrontierStudy, point: Point) -> PeakReplay | None:
    within = point.within_peak
    if within is None or study.today is None:
        return None
    return PeakReplay(
        today_peak_gpus=study.today.usage.peak_gpus,
        mean_jct_s=within.mean_jct_s,
        p95_jct_s=percentile(within.jct_s, 95),
        rented_gpus=within.rented_gpus,
        peak_gpus=within.peak_gpus,
    )


def _recorded(study: FrontierStudy) -> RecordedResults | None:
    """Return how the jobs ran as recorded, and the best plan for the GPUs they held."""
    record = study.workload.record
    if record is None:
        return None
    return RecordedResults(
        mean_run_s=record.mean_run_s,
        mean_queue_s=record.mean_queue_s,
        jobs_with_queue=record.queues,
        mean_jct_s=record.mean_jct_s,
        gpus=record.gpus,
        best_mean_jct_s_at_these_gpus=study.least_mean_jct_s(record.gpus),
    )


def _class(one: JobClass, *, is_mixed: bool) -> ClassResults:
    return ClassResults(
        job_class=one.name,
        jobs=one.jobs,
        arrivals_per_h=one.rate_per_h,
        mean_work_gpu_h=UNSET if is_mixed else float(one.work_h.sum()),
        load_gpus=one.load_gpus,
        weight=one.weight,
        epochs=int(one.work_h.size),
        rescale_s=HOUR_S * one.rescale_h,
        gpu_types=tuple(dict.fromkeys(one.gpu_types)) if is_mixed else UNSET,
    )


def mix_results(study: TypedStudy) -> MixResults:
    """Return the results of a study on several GPU types."""
    frontier, workload, shown = study.frontier, study.workload, study.shown
    return MixResults(
        jobs=workload.jobs,
        horizon_h=workload.horizon_h,
        speedup=NamedSpeedup(study.speedup.name, study.speedup.origin),
        rescale=RescaleResults(workload.rescale_origin),
        method=EXACT,
        prices=dict(study.prices),
        recorded_on=study.recorded_on,
        today=study.today,
        load_gpus=frontier.frontier.load_gpus,
        min_budget_usd_per_h=frontier.min_usd_per_h,
        saturation_budget_usd_per_h=frontier.saturation_usd_per_h,
        max_mean_jct_s=float(frontier.mean_jct_s[0]),
        least_mean_jct_s=float(frontier.mean_jct_s[-1]),
        cluster=study.cluster,
        knee=mix_point_results(study, study.knee),
        points=tuple(mix_point_results(study, point) for point in study.points),
        classes=tuple(_class(one, is_mixed=True) for one in frontier.frontier.classes),
        timeline=() if shown.replayed is None else shown.replayed.timeline(),
    )


def mix_point_results(study: TypedStudy, point: TypedPoint) -> MixPointResults:
    """Return the plan for one budget on several GPU types."""
    replay: MixPointReplay | UnsetType = UNSET
    if point.replayed is not None:
        inside = point.inside
        replay = MixPointReplay(
            **fields_of(point.replayed.results()),
            inside_budget_usd_per_h=(
                None if inside is None else float(inside.plan.plan.budget_gpus)
            ),
        )
    return MixPointResults(
        **fields_of(point.plan.results()),
        budget_usd_per_month=point.plan.plan.budget_gpus * MONTH_H,
        next_100_usd_month_saves_s=study.saved_s(point),
        target_jct_s=point.target_jct_s,
        requested=point.requested,
        replay=replay,
    )
