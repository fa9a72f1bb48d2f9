"""The results of ``gpuplan pareto``, as JSON has them."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import UNSET, UnsetType

from gpuplan.analysis.characterize.gpu_mix import GpuMix
from gpuplan.analysis.characterize.today import Today
from gpuplan.planner.frontier.baseline_comparison import BaselineResults
from gpuplan.planner.frontier.model.plan import Assignment, PlanResults
from gpuplan.planner.frontier.reference_points import MarkResults
from gpuplan.planner.frontier.replay.renting import RentedCluster
from gpuplan.planner.frontier.replay.results import (
    MixPeriod,
    MixReplayResults,
    PlanReplayResults,
    RentedPeriod,
)
from gpuplan.planner.frontier.replay.search import Candidate
from gpuplan.planner.frontier.types.heterogeneous import MixPlanResults
from gpuplan.planner.frontier.uncertainty.confidence import BandsResults, SensitivityResults
from gpuplan.planner.frontier.uncertainty.laws import LawResults
from gpuplan.planner.money.price_request import Price


@dataclass(frozen=True, slots=True)
class ParetoParameters:
    """What was asked for, as JSON has it.

    Attributes:
        price_usd_per_gpu_h: by GPU type where types are named.
    """

    budget: str | None
    target_jct_s: list[float]
    speedup: str
    class_by: str
    horizon_s: float | None
    rescale_s: float | None
    max_width: int | None
    widths: list[int] | None
    width_step: int | None
    limits_gpus: dict[str, int]
    require_s: dict[str, float]
    weights: dict[str, float]
    gpu: list[str]
    recorded_on: str | None
    price_usd_per_gpu_h: float | dict[str, float] | None
    prices: str | None
    provider: str | None
    replay: bool
    cluster: str | None
    method: str
    baselines: list[str]
    marks: list[str]
    ci: float | None
    sensitivity: bool
    where: str | None
    since: str | None
    until: str | None
    sample: int | None
    scale_duration: float
    scale_interarrival: float
    seed: int
    as_of: str | UnsetType = UNSET


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
    """How the jobs ran as recorded.

    Attributes:
        mean_run_s: run time.
        mean_queue_s: wait, of jobs whose wait is recorded; null without any.
        jobs_with_queue: jobs whose wait is recorded.
        mean_jct_s: run time plus the mean wait.
        gpus: held on average over the hours in which jobs arrive.
        best_mean_jct_s_at_these_gpus: mean completion time of the optimal plan for these GPUs, in
            seconds; null if they are too few.
    """

    mean_run_s: float
    mean_queue_s: float | None
    jobs_with_queue: int
    mean_jct_s: float
    gpus: float
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


@dataclass(frozen=True, kw_only=True)
class PointReplay(PlanReplayResults):
    """The replay of a plan against its budget.

    Attributes:
        spent_over_budget: GPUs rented in the replay, billed where there is a price, over the
            budget.
        inside_budget: the best smaller budget that keeps to this one in the replay; null if the
            plan itself keeps to it, or no budget does.
        billed_usd_per_month: the bill of the replay; only with a price.
    """

    spent_over_budget: float | None
    inside_budget: Candidate | None
    billed_usd_per_month: float | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class PeakReplay:
    """The replay of a budget with no more GPUs at once than the log ever held.

    Attributes:
        today_peak_gpus: most GPUs held at once in the log.
        mean_jct_s: mean completion time.
        p95_jct_s: completion time that 95% of the jobs keep.
        rented_gpus: rented on average.
        peak_gpus: most GPUs rented at once.
    """

    today_peak_gpus: float
    mean_jct_s: float
    p95_jct_s: float
    rented_gpus: float
    peak_gpus: int


@dataclass(frozen=True, kw_only=True)
class PointResults(PlanResults):
    """The plan for one budget on one GPU type.

    Attributes:
        budget_x_load: budget over the load.
        mean_jct_over_one_gpu: mean completion time over that with every job on one GPU.
        optimal_mean_jct_s: of the optimal plan for the budget; null if it is too small.
        next_gpu_saves_s, next_1pct_saves_s: seconds of mean completion time that one more GPU, or a
            hundredth of the budget more, would save.
        next_100_usd_month_saves_s: the same for $100 more a month; only with a price.
        usd_per_month: of the GPUs used on average; only with a price.
        marginal_jct_s_per_100_usd_month: seconds of mean completion time that $100 more a month
            would save, at the margin; only with a price.
        ends_mean_jct_s: mean completion time in seconds at the two ends of a range of speedups;
            null where the budget is too small. Only with a range.
        target_jct_s: the mean completion time that this is the least budget for; null where the
            budget itself was requested.
        requested: the budget or completion time as requested; null for a sweep of the frontier.
        replay: only with replays.
        replay_within_today_peak: null without a replay, without GPUs in use in the log, or if no
            plan fits.
        widths: the GPUs of every class and epoch.
    """

    budget_x_load: float
    mean_jct_over_one_gpu: float
    optimal_mean_jct_s: float | None
    next_gpu_saves_s: float
    next_1pct_saves_s: float
    next_100_usd_month_saves_s: float | UnsetType = UNSET
    usd_per_month: float | UnsetType = UNSET
    marginal_jct_s_per_100_usd_month: float | UnsetType = UNSET
    ends_mean_jct_s: tuple[float | None, ...] | UnsetType = UNSET
    target_jct_s: float | None
    requested: str | None
    replay: PointReplay | UnsetType = UNSET
    replay_within_today_peak: PeakReplay | None
    widths: tuple[Assignment, ...]


@dataclass(frozen=True, kw_only=True)
class ParetoResults:
    """What mean completion time each budget buys on one GPU type.

    Attributes:
        jobs: planned for.
        horizon_h: hours in which they arrive.
        speedup: how they speed up with GPUs.
        rescale: what a start or a change of width takes.
        method: that made the plans.
        price_usd_per_gpu_h: of a GPU-hour; null without a price.
        price: the same with its origin.
        today: what the log shows; null if no job has a run time and GPUs.
        gpu_mix: GPU-hours of the log on other GPU types than the planned one; null where it names
            no other.
        recorded: how the jobs ran as recorded; null where some class has no durations.
        max_gpus_per_job: the widest width of any class.
        load_gpus: GPUs in use if every job runs on one.
        min_budget_gpus: least average GPUs that can sustain the arrivals.
        saturation_budget_gpus: average GPUs beyond which no more are of use.
        max_mean_jct_s, least_mean_jct_s: mean completion time at these two budgets.
        one_gpu_mean_jct_s: mean completion time with every job on one GPU.
        speedup_ends: the frontier at the two ends of a range of speedups; empty without one.
        cluster: how the replays rent GPUs; null without replays.
        knee: the optimal plan where the frontier bends most.
        points: the plans, by budget.
        classes: the job classes, the heaviest first.
        timeline: GPUs rented over time by the plan shown first; empty without replays.
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
    price_usd_per_gpu_h: float | None
    price: Price | None
    today: Today | None
    gpu_mix: GpuMix | None
    recorded: RecordedResults | None
    max_gpus_per_job: float
    load_gpus: float
    min_budget_gpus: float
    saturation_budget_gpus: float
    max_mean_jct_s: float
    least_mean_jct_s: float
    one_gpu_mean_jct_s: float
    speedup_ends: tuple[SpeedupEnd, ...]
    cluster: RentedCluster | None
    knee: PointResults
    points: tuple[PointResults, ...]
    classes: tuple[ClassResults, ...]
    timeline: tuple[RentedPeriod, ...]
    marks: tuple[MarkResults, ...] | UnsetType = UNSET
    baselines: tuple[BaselineResults, ...] | UnsetType = UNSET
    bands: BandsResults | UnsetType = UNSET
    sensitivity: SensitivityResults | UnsetType = UNSET
    laws: tuple[LawResults, ...] | UnsetType = UNSET


@dataclass(frozen=True)
class MixPointReplay(MixReplayResults):
    """The replay of a plan on several GPU types against its budget.

    Attributes:
        inside_budget_usd_per_h: the best smaller budget whose bill keeps to this one in the
            replay; null if the plan itself keeps to it, or no budget does.
    """

    inside_budget_usd_per_h: float | None


@dataclass(frozen=True, kw_only=True)
class MixPointResults(MixPlanResults):
    """The plan for one budget on several GPU types.

    Attributes:
        budget_usd_per_month: average dollars a month allowed.
        next_100_usd_month_saves_s: seconds of mean completion time that $100 more a month would
            save.
        target_jct_s: the mean completion time that this is the least budget for; null where the
            budget itself was requested.
        requested: the budget or completion time as requested; null for a sweep of the frontier.
        replay: only with replays.
    """

    budget_usd_per_month: float
    next_100_usd_month_saves_s: float
    target_jct_s: float | None
    requested: str | None
    replay: MixPointReplay | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class MixResults:
    """What mean completion time each budget buys on several GPU types.

    Attributes:
        jobs: planned for.
        horizon_h: hours in which they arrive.
        speedup: how they speed up with GPUs.
        rescale: what a start or a change of width takes.
        method: that made the plans.
        prices: of a GPU-hour by GPU type, with their origins.
        recorded_on: the GPU type that the jobs ran on.
        today: what the log shows; null if no job has a run time and GPUs.
        load_gpus: GPUs of that type in use if every job runs on one.
        min_budget_usd_per_h: least average dollars an hour that can sustain the arrivals.
        saturation_budget_usd_per_h: average dollars an hour beyond which no more are of use.
        max_mean_jct_s, least_mean_jct_s: mean completion time at these two budgets.
        cluster: how the replays rent GPUs of each type; null without replays.
        knee: the optimal plan where the frontier bends most.
        points: the plans, by budget.
        classes: the job classes, the heaviest first.
        timeline: dollars and GPUs rented over time by the plan shown first; empty without replays.
    """

    jobs: int
    horizon_h: float
    speedup: NamedSpeedup
    rescale: RescaleResults
    method: str
    prices: dict[str, Price]
    recorded_on: str
    today: Today | None
    load_gpus: float
    min_budget_usd_per_h: float
    saturation_budget_usd_per_h: float
    max_mean_jct_s: float
    least_mean_jct_s: float
    cluster: RentedCluster | None
    knee: MixPointResults
    points: tuple[MixPointResults, ...]
    classes: tuple[ClassResults, ...]
    timeline: tuple[MixPeriod, ...]
