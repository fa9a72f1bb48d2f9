"""What replays of plans give, as JSON has it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReplayResults:
    """The jobs of a replay and the GPUs they took.

    Attributes:
        jobs: replayed.
        mean_jct_s, median_jct_s, p95_jct_s, p99_jct_s: completion time, from submission to finish.
        mean_jqt_s: time without GPUs.
        rescales_per_job: starts and changes of width of a job, on average.
        held_gpu_h, rented_gpu_h, billed_gpu_h: GPU-hours that jobs hold, that are rented, and that
            are billed.
        held_gpus, rented_gpus, billed_gpus: the same over the hours in which jobs arrive.
        peak_gpus: most GPUs rented at once.
        efficiency: work done per GPU-hour rented: the sum of the speedups of running jobs over the
            GPUs rented.
    """

    jobs: int
    mean_jct_s: float
    median_jct_s: float
    p95_jct_s: float
    p99_jct_s: float
    mean_jqt_s: float
    rescales_per_job: float
    held_gpu_h: float
    rented_gpu_h: float
    billed_gpu_h: float
    held_gpus: float
    rented_gpus: float
    billed_gpus: float
    peak_gpus: int
    efficiency: float


@dataclass(frozen=True, slots=True)
class DemandResults:
    """The GPUs that jobs need at a random time in the long run, with Poisson arrivals.

    Attributes:
        mean_gpus: mean.
        sd_gpus: standard deviation.
        median_gpus, p95_gpus, p99_gpus: enough for this share of the time.
    """

    mean_gpus: float
    sd_gpus: float
    median_gpus: int
    p95_gpus: int
    p99_gpus: int


@dataclass(frozen=True)
class LimitedReplayResults:
    """What nodes and a limit do to the GPUs of a replay.

    Attributes:
        peak_over_rented: the peak over the GPUs rented on average; null where the replay far
            outlasts the arrivals.
        node_rounding_gpus: GPUs rented on average only because nodes are rented as a whole.
        demand_law: the demand for GPUs in the long run.
        above_max_gpus_share_law: share of the time in which jobs need more GPUs than the limit, by
            the long-run demand; null without a limit.
        above_max_gpus_share_replayed: the same in a replay without the limit.
    """

    peak_over_rented: float | None
    node_rounding_gpus: float
    demand_law: DemandResults
    above_max_gpus_share_law: float | None
    above_max_gpus_share_replayed: float | None


@dataclass(frozen=True)
class TypeReplayResults(LimitedReplayResults, ReplayResults):
    """The replay of the jobs on one GPU type."""


@dataclass(frozen=True)
class PlannedResults:
    """What the plan promises of the same jobs.

    Attributes:
        planned_mean_jct_s: mean completion time by the plan.
        planned_p95_jct_s: P95 of completion times if GPUs are there at once.
        planned_gpu_h: GPU-hours by the plan.
    """

    planned_mean_jct_s: float
    planned_p95_jct_s: float
    planned_gpu_h: float


@dataclass(frozen=True)
class LastingReplayResults:
    """How long a replay lasts.

    Attributes:
        lasts_h: from the first submission to the return of the last GPU.
    """

    lasts_h: float


@dataclass(frozen=True)
class PlanReplayResults(
    LimitedReplayResults, LastingReplayResults, ReplayResults, PlannedResults
):  # in JSON what is planned comes first
    """A plan on one GPU type, and its replay."""


@dataclass(frozen=True, slots=True)
class MixReplayResults:
    """A plan on several GPU types, and its replay.

    Attributes:
        planned_mean_jct_s: mean completion time by the plan.
        planned_p95_jct_s: P95 of completion times if GPUs are there at once.
        mean_jct_s, median_jct_s, p95_jct_s, p99_jct_s: completion time, from submission to finish.
        rented_usd_per_h: for the GPUs rented, over the hours in which jobs arrive.
        billed_usd_per_h: as billed, over the same hours.
        peak_usd_per_h: for the GPUs rented at once, at most.
        node_rounding_usd_per_h: for GPUs rented only because nodes are rented as a whole.
        spent_over_budget: the bill over the budget.
        types: the replay by GPU type, of types that jobs run on.
    """

    planned_mean_jct_s: float
    planned_p95_jct_s: float
    mean_jct_s: float
    median_jct_s: float
    p95_jct_s: float
    p99_jct_s: float
    rented_usd_per_h: float
    billed_usd_per_h: float
    peak_usd_per_h: float
    node_rounding_usd_per_h: float
    spent_over_budget: float
    types: dict[str, TypeReplayResults]


@dataclass(frozen=True, slots=True)
class RentedPeriod:
    """GPUs rented in one part of a replay.

    Attributes:
        time_h: when it begins, after the first submission.
        mean_gpus: on average.
        peak_gpus: at most.
    """

    time_h: float
    mean_gpus: float
    peak_gpus: float


@dataclass(frozen=True, slots=True)
class MixPeriod:
    """Dollars and GPUs rented in one part of a replay on several GPU types.

    Attributes:
        time_h: when it begins, after the first submission.
        mean_usd_per_h: on average.
        peak_usd_per_h: at most.
        mean_gpus: of each GPU type, on average.
        peak_gpus: of each GPU type, at most.
    """

    time_h: float
    mean_usd_per_h: float
    peak_usd_per_h: float
    mean_gpus: dict[str, float]
    peak_gpus: dict[str, float]
