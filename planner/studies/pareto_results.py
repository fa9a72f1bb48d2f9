"""The results of ``gpuplan pareto``, as JSON has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec import UNSET, UnsetType

from gpuplan.analysis.base.plain import Inlined
from gpuplan.analysis.characterize.gpu_mix import GpuMix
from gpuplan.analysis.characterize.today import Today
from gpuplan.planner.baselines import BaselinePoint
from gpuplan.planner.elastic.job_class import JobClass
from gpuplan.planner.elastic.job_classes import Record
from gpuplan.planner.elastic.renting import RentedCluster
from gpuplan.planner.frontier.points import Point
from gpuplan.planner.frontier.reference_points import MarkedPoint
from gpuplan.planner.frontier.replay.plan_replay import RentedPeriod
from gpuplan.planner.frontier.study import FrontierStudy
from gpuplan.planner.frontier.uncertainty.confidence import FrontierConfidence, Sensitivity
from gpuplan.planner.frontier.uncertainty.laws import LawResults
from gpuplan.planner.money.price_request import Price
from gpuplan.planner.site.fidelity import Fidelity
from gpuplan.simkit.time import HOUR_S


@dataclass(frozen=True, slots=True)
class NamedSpeedup:
    """How jobs speed up with GPUs.

    Attributes:
        name: of the speedups.
        origin: where they come from.
    """

    name: str
    origin: str


@dataclass(frozen=True, slots=True)
class SpeedupEnd:
    """The frontier at one end of a range of speedups.

    Attributes:
        name: of the speedups.
        load_gpus: GPUs in use if every job runs on one.
        min_budget_gpus: least average GPUs that can sustain the arrivals.
        saturation_budget_gpus: average GPUs beyond which no more are of use.
    """

    name: str
    load_gpus: float
    min_budget_gpus: float
    saturation_budget_gpus: float


@dataclass(frozen=True, slots=True)
class RescaleResults:
    """What a start or a change of width takes.

    Attributes:
        origin: where the time comes from.
        mean_s: mean over the jobs; on one GPU type only.
    """

    origin: str
    mean_s: float | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class RecordedResults:
    """How the jobs ran as recorded, and the best plan for the GPUs they held.

    Attributes:
        best_mean_jct_s_at_these_gpus: mean completion time of the optimal plan for these GPUs, in
            seconds; null if they are too few.
    """

    record: Inlined[Record]
    best_mean_jct_s_at_these_gpus: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassResults:
    """A class of jobs.

    Attributes:
        job_class: its name.
        jobs: of the class.
        arrivals_per_h: jobs an hour.
        mean_work_gpu_h: GPU-hours of a job on one GPU; on one GPU type only.
        load_gpus: GPUs in use if every job runs on one.
        weight: of the class in the mean that is minimized.
        epochs: stretches of a job with one speedup each.
        rescale_s: of a start or a change of width.
        gpu_types: that its jobs can run on; on several GPU types only.
    """

    job_class: str
    jobs: int
    arrivals_per_h: float
    mean_work_gpu_h: float | UnsetType = UNSET
    load_gpus: float
    weight: float
    epochs: int
    rescale_s: float
    gpu_types: tuple[str, ...] | UnsetType = UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class ParetoResults:
    """What mean completion time each budget buys, on one GPU type or several.

    Attributes:
        jobs: planned for.
        horizon_h: hours in which they arrive.
        speedup: how they speed up with GPUs.
        rescale: what a start or a change of width takes.
        method: that made the plans.
        price_usd_per_gpu_h: of a GPU-hour; null without a price.
        price: the same with its origin.
        prices: of a GPU-hour by GPU type, with their origins; on several types.
        recorded_on: the GPU type that the jobs ran on; on several types.
        today: what the log shows; null if no job has a run time and GPUs.
        gpu_mix: GPU-hours of the log on other GPU types than the planned one; null where it names
            no other.
        recorded: how the jobs ran as recorded; null where some class has no durations.
        max_gpus_per_job: the widest width of any class.
        load_gpus: GPUs in use if every job runs on one, of the type that the jobs ran on.
        min_budget_gpus: least average GPUs that can sustain the arrivals.
        saturation_budget_gpus: average GPUs beyond which no more are of use.
        min_budget_usd_per_h: least average dollars an hour that can sustain the arrivals.
        saturation_budget_usd_per_h: average dollars an hour beyond which no more are of use.
        max_mean_jct_s, least_mean_jct_s: mean completion time at these two budgets.
        one_gpu_mean_jct_s: mean completion time with every job on one GPU.
        speedup_ends: the frontier at the two ends of a range of speedups; empty without one.
        cluster: how the replays rent GPUs of each type; null without replays.
        fidelity: how a replay of today compares with the log.
        knee: the optimal plan where the frontier bends most; null where a replay of today
            contradicts the log.
        points: the plans, by budget.
        classes: the job classes, the heaviest first.
        timeline: what the plan shown first rents over time; empty without replays.
        marks: the known points; only where some are given.
        baselines: only where some are replayed.
        bands: confidence bands; only where asked for.
        sensitivity: what errors and bursts do; only where asked for.
        laws: the optimum under other speedup laws; only where the law is assumed.
    """

    jobs: int
    horizon_h: float
    speedup: NamedSpeedup
    rescale: RescaleResults
    method: str
    price_usd_per_gpu_h: float | UnsetType | None = UNSET
    price: Price | UnsetType | None = UNSET
    prices: dict[str, Price] | UnsetType = UNSET
    recorded_on: str | UnsetType = UNSET
    today: Today | None
    gpu_mix: GpuMix | UnsetType | None = UNSET
    recorded: RecordedResults | UnsetType | None = UNSET
    max_gpus_per_job: float | UnsetType = UNSET
    load_gpus: float
    min_budget_gpus: float | UnsetType = UNSET
    saturation_budget_gpus: float | UnsetType = UNSET
    min_budget_usd_per_h: float | UnsetType = UNSET
    saturation_budget_usd_per_h: float | UnsetType = UNSET
    max_mean_jct_s: float
    least_mean_jct_s: float
    one_gpu_mean_jct_s: float | UnsetType = UNSET
    speedup_ends: tuple[SpeedupEnd, ...] | UnsetType = UNSET
    cluster: RentedCluster | None
    fidelity: Fidelity
    knee: Point | None
    points: tuple[Point, ...]
    classes: tuple[ClassResults, ...]
    timeline: tuple[RentedPeriod, ...]
    marks: tuple[MarkedPoint, ...] | UnsetType = UNSET
    baselines: tuple[BaselinePoint, ...] | UnsetType = UNSET
    bands: FrontierConfidence | UnsetType = UNSET
    sensitivity: Sensitivity | UnsetType = UNSET
    laws: tuple[LawResults, ...] | UnsetType = UNSET


def pareto_results(study: FrontierStudy, fidelity: Fidelity) -> ParetoResults:
    """Return the results of a study: budgets in GPUs on one type, in dollars on several."""
    frontier, workload, replayed = study.frontier, study.workload, study.shown.replayed
    if study.is_mixed:
        of_unit: dict[str, Any] = {
            "rescale": RescaleResults(workload.rescale_origin),
            "prices": dict(study.prices),
            "recorded_on": study.recorded_on,
            "min_budget_usd_per_h": frontier.min_budget,
            "saturation_budget_usd_per_h": frontier.saturation_budget,
        }
    else:
        price = study.price
        of_unit = {
            "rescale": RescaleResults(workload.rescale_origin, study.mean_rescale_s),
            "price_usd_per_gpu_h": None if price is None else price.usd_per_gpu_h,
            "price": price,
            "gpu_mix": study.mix,
            "recorded": _recorded(study),
            "max_gpus_per_job": frontier.widest,
            "min_budget_gpus": frontier.min_budget,
            "saturation_budget_gpus": frontier.saturation_budget,
            "one_gpu_mean_jct_s": frontier.one_gpu_jct_s,
            "speedup_ends": tuple(
                SpeedupEnd(model.name, end.load_gpus, end.min_budget, end.saturation_budget)
                for model, end in zip(study.speedup.ends or (), study.ends, strict=True)
            ),
        }
    return ParetoResults(
        **of_unit,
        jobs=workload.jobs,
        horizon_h=workload.horizon_h,
        speedup=NamedSpeedup(study.speedup.name, study.speedup.origin),
        method=study.method,
        today=study.today,
        load_gpus=frontier.load_gpus,
        max_mean_jct_s=float(frontier.mean_jct_s[0]),
        least_mean_jct_s=float(frontier.mean_jct_s[-1]),
        cluster=study.cluster,
        fidelity=fidelity,
        knee=study.knee if fidelity.may_speak else None,
        points=study.points,
        classes=tuple(_class(job_class, study.is_mixed) for job_class in frontier.classes),
        timeline=() if replayed is None else replayed.timeline(),
        **{section.key: section.results() for section in study.sections},
    )


def _recorded(study: FrontierStudy) -> RecordedResults | None:
    record = study.workload.record
    return None if record is None else RecordedResults(record, study.least_mean_jct_s(record.gpus))


def _class(job_class: JobClass, is_mixed: bool) -> ClassResults:
    return ClassResults(
        job_class=job_class.name,
        jobs=job_class.jobs,
        arrivals_per_h=job_class.rate_per_h,
        mean_work_gpu_h=UNSET if is_mixed else float(job_class.work_h.sum()),
        load_gpus=job_class.load_gpus,
        weight=job_class.weight,
        epochs=int(job_class.work_h.size),
        rescale_s=HOUR_S * job_class.rescale_h,
        gpu_types=tuple(dict.fromkeys(job_class.gpu_types)) if is_mixed else UNSET,
    )
