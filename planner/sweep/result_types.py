"""The results of ``gpuplan sweep``, as JSON has them."""

from __future__ import annotations

from dataclasses import dataclass

from gpuplan.analysis.characterize.gpu_mix import GpuMix
from gpuplan.analysis.characterize.today import Today
from gpuplan.planner.compare import PolicyIdentity
from gpuplan.planner.runs.policy_results import CommonResults

Interval = tuple[float, float]


@dataclass(frozen=True)
class ThresholdIdentity:
    """Which replay it is.

    Attributes:
        policy: the rule for the threshold, fixed or adaptive.
        threshold_s: run time after which a job leaves serverless GPUs, at first if it adapts; null
            if it never does, 0 for everything on rented workers, where jobs start on them.
        capacity: most workers rented at once; null for no limit.
        price_ratio: serverful over serverless price, of the offers within the greatest capacity.
    """

    policy: str
    threshold_s: float
    capacity: int | None
    price_ratio: float


@dataclass(frozen=True)
class AllpassResults:
    """What a replay measures; means are over all jobs.

    Attributes:
        jobs: replayed.
        mean_jct_s, median_jct_s, p90_jct_s, p95_jct_s, p99_jct_s: completion times, from
            submission to finish.
        mean_service_s: run time.
        mean_jqt_s: start-up and queue.
        mean_startup_s: start-up of containers.
        mean_queue_s: for containers under a limit, and for workers.
        mean_container_queue_s: for containers under a limit.
        mean_demotion_s: checkpoints and restores of jobs that leave their containers.
        cost_usd: the bill of the window.
        cost_if_serverless_usd: the bill had every job stayed in its container.
        cost_serverless_usd: of containers.
        cost_marketplace_usd: of workers rented on the marketplace.
        cost_conventional_usd: of workers rented from a conventional cloud.
        finished_serverless_share: jobs that ended in their containers.
        finished_within_10min_share: of the jobs.
        deadline_miss_share: of the jobs.
        gpu_h: run time x GPUs of the jobs, a fraction of a GPU as such.
        utilization: run time x GPUs within the window over the GPU time billed.
        paid_gpu_h: GPU-hours billed.
        never_demotable_jobs: jobs wider than the capacity, which stay in their containers.
        mean_threshold_s: mean over time; null where it is infinite.
        workers_peak, workers_mean: rented workers, from request to release.
        worker_busy_share: of their time.
        reclaimed_workers: workers that the marketplace took back.
        mean_marketplace_usd_per_gpu_h: mean price of marketplace GPUs; null without any.
        makespan_s: from the first submission to the last finish.
    """

    jobs: int
    mean_jct_s: float
    median_jct_s: float
    p90_jct_s: float
    p95_jct_s: float
    p99_jct_s: float
    mean_service_s: float
    mean_jqt_s: float
    mean_startup_s: float
    mean_queue_s: float
    mean_container_queue_s: float
    mean_demotion_s: float
    cost_usd: float
    cost_if_serverless_usd: float
    cost_serverless_usd: float
    cost_marketplace_usd: float
    cost_conventional_usd: float
    finished_serverless_share: float
    finished_within_10min_share: float
    deadline_miss_share: float
    gpu_h: float
    utilization: float | None
    paid_gpu_h: float
    never_demotable_jobs: int
    mean_threshold_s: float
    workers_peak: int
    workers_mean: float
    worker_busy_share: float | None
    reclaimed_workers: int
    mean_marketplace_usd_per_gpu_h: float | None
    makespan_s: float


@dataclass(frozen=True)
class PricedThreshold:
    """What follows from the prices of a replay.

    Attributes:
        closed_form_cost_usd, closed_form_delay_s: bill and mean delay of the closed form; null for
            an adaptive threshold.
        own_price_ratio: serverful over serverless price, of the offers within its own capacity.
        break_even_price_ratio: the value of it at which the bill is that of everything serverless;
            null where there is none.
        usd_per_month: the bill scaled to a month of 730.5 hours; null for a window of no length.
    """

    closed_form_cost_usd: float | None
    closed_form_delay_s: float | None
    own_price_ratio: float
    break_even_price_ratio: float | None
    usd_per_month: float | None


@dataclass(frozen=True)
class ThresholdResults(PricedThreshold, AllpassResults, ThresholdIdentity):  # identity comes first
    """One replay of a sweep."""


@dataclass(frozen=True)
class MarkedThreshold(ThresholdResults):
    """One replay of the grid of a sweep, judged in the first case at its prices.

    Attributes:
        non_dominated: no other is at least as good in cost and mean JCT and better in one.
        knee: whether the frontier of cost and mean JCT bends most here.
        recommended: whether it is the choice.
    """

    non_dominated: bool
    knee: bool
    recommended: bool


@dataclass(frozen=True)
class ReferenceResults(CommonResults, PolicyIdentity):  # in JSON the identity comes first
    """The replay under the policy of ``--against``."""


@dataclass(frozen=True, slots=True)
class ConfidenceResults:
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
    saving_usd: Interval | None
    saving_share: Interval | None


@dataclass(frozen=True, slots=True)
class AgainstConfidence:
    """Confidence intervals of the savings vs. the reference; null where there are too few jobs.

    Attributes:
        level_percent: confidence.
        saving_usd, saving_share, mean_jct_change_s: low and high end.
    """

    level_percent: float
    saving_usd: Interval | None
    saving_share: Interval | None
    mean_jct_change_s: Interval | None


@dataclass(frozen=True, slots=True)
class AgainstResults:
    """A choice vs. the reference.

    Attributes:
        saving_usd: the savings.
        saving_share: over the cost of the reference; null if that is 0.
        mean_jct_change_s: mean completion time less that of the reference; negative if faster.
        net_saving_usd: the saving less the value of that change; null without a value of time.
        confidence: null without resamples.
    """

    saving_usd: float
    saving_share: float | None
    mean_jct_change_s: float
    net_saving_usd: float | None
    confidence: AgainstConfidence | None


@dataclass(frozen=True, slots=True)
class ClosedFormResults:
    """The ski-rental view: bills for GPU time used, without queues and idle workers.

    Attributes:
        best_threshold_s: fixed threshold of the least objective.
        best_cost_usd, best_delay_s: its bill, and the mean delay of a job.
        break_even_threshold_s: least fixed threshold that is better than never leaving; null if
            none is.
        competitive_threshold_s: threshold of at most twice the optimal cost for any run times; null
            where serverless GPUs cost no more.
        competitive_cost_usd: its bill.
        serverless_usd_per_gpu_h, serverful_usd_per_gpu_h: the prices.
        migration_usd_per_gpu: of a checkpoint and a restore.
        value_of_time_usd_per_h: of one job.
    """

    best_threshold_s: float
    best_cost_usd: float
    best_delay_s: float
    break_even_threshold_s: float | None
    competitive_threshold_s: float
    competitive_cost_usd: float
    serverless_usd_per_gpu_h: float
    serverful_usd_per_gpu_h: float
    migration_usd_per_gpu: float
    value_of_time_usd_per_h: float


@dataclass(frozen=True, slots=True)
class VerdictResults:
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
    """

    serverless_pays: bool | None
    saving_usd: float
    saving_share: float | None
    saving_interval_usd: Interval | None
    same_cost_from_s: float | None
    same_cost_to_s: float | None
    rented_later_s: float
    tied: bool


@dataclass(frozen=True, slots=True)
class TodaysClusterResults:
    """A cluster of fixed size that stands throughout the window of the log.

    Attributes:
        gpus: its size.
        size_from: where that comes from.
        usd_per_gpu_h: price of each GPU.
        window_s: first submission to last submission or end.
        mean_jct_s, p95_jct_s: as recorded; null where the log has no waits, or where the cluster is
            smaller than what the log held.
        cost_usd: the bill of the window.
        usd_per_month: the bill of a month.
    """

    gpus: int
    size_from: str
    usd_per_gpu_h: float
    window_s: float
    mean_jct_s: float | None
    p95_jct_s: float | None
    cost_usd: float
    usd_per_month: float


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


@dataclass(frozen=True)
class SavingResults:
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
    confidence: ConfidenceResults | None
    against: AgainstResults | None


@dataclass(frozen=True)
class RecommendedResults(SavingResults, ChosenThreshold):  # in JSON the choice comes first
    """The choice of the first case."""


@dataclass(frozen=True)
class CaseIdentity:
    """What a user cannot choose.

    Attributes:
        price_ratio: serverful over serverless price.
        value_of_time_usd_per_h: of one job; null for the rule that takes the cheapest of nearly the
            least mean completion time.
    """

    price_ratio: float
    value_of_time_usd_per_h: float | None


@dataclass(frozen=True)
class CaseResults(SavingResults, CaseIdentity):  # in JSON the identity comes first
    """The choice at one price ratio and one value of time.

    Attributes:
        closed_form: at these prices and the capacity of the choice.
        recommended: the choice.
        cheapest: what has the least bill.
    """

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
    today_cluster: TodaysClusterResults | None
    gpu_mix: GpuMix | None
    verdict: VerdictResults | None
    points: tuple[MarkedThreshold, ...]
    recommended: RecommendedResults
    serverless_only: ThresholdResults
    serverful_only: ThresholdResults | None
    against: ReferenceResults | None
    closed_form: ClosedFormResults
    cases: tuple[CaseResults, ...]
