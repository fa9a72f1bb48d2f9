"""The results of a characterization, as JSON has them."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import UNSET, UnsetType

from gpuplan.analysis.characterize.arrivals import ArrivalStatistics, Interarrival
from gpuplan.analysis.characterize.durations import CdfPoint, Spread
from gpuplan.analysis.characterize.gpu_time import GpuTime
from gpuplan.analysis.characterize.load import Load
from gpuplan.analysis.fits.results import TraceFitResults


@dataclass(frozen=True, slots=True)
class GpuCountRow:
    """The part of the jobs of one GPU count.

    Attributes:
        num_gpus: the GPU count.
        jobs: its jobs.
        share_jobs: their share of all jobs.
        gpu_hours: their GPU-hours.
        share_gpu_hours: their share of all GPU-hours.
    """

    num_gpus: float
    jobs: int
    share_jobs: float
    gpu_hours: float | None
    share_gpu_hours: float | None


@dataclass(frozen=True, slots=True)
class StateRow:
    """The part of the jobs that ended in one state.

    Attributes:
        state: the state.
        jobs: its jobs.
        share_jobs: their share of all jobs.
        gpu_hours: their GPU-hours.
        share_gpu_hours: their share of all GPU-hours.
    """

    state: str
    jobs: int
    share_jobs: float
    gpu_hours: float | None
    share_gpu_hours: float | None


@dataclass(frozen=True, slots=True)
class GroupTableRow:
    """The jobs of one class, user or group.

    Attributes:
        name: the class, user or group; null for jobs that name none.
        jobs: its jobs.
        share_jobs: their share of all jobs.
        gpu_hours: their GPU-hours.
        share_gpu_hours: their share of all GPU-hours.
        median_duration_s: their median run time.
        p90_duration_s: the 90th percentile of their run times.
        mean_num_gpus: mean GPUs of those that use GPUs.
        mean_wait_s: mean of their recorded waits; null where the log records none.
        p50_wait_s: the median of these.
        p95_wait_s: the 95th percentile of these.
        usd_per_month: dollars per month for their GPU-hours; null without a price.
    """

    name: str | None
    jobs: int
    share_jobs: float
    gpu_hours: float | None
    share_gpu_hours: float | None
    median_duration_s: float | None
    p90_duration_s: float | None
    mean_num_gpus: float | None
    mean_wait_s: float | None
    p50_wait_s: float | None
    p95_wait_s: float | None
    usd_per_month: float | None


@dataclass(frozen=True, slots=True)
class RestRow:
    """The jobs of all names without a row of their own.

    Attributes:
        names: how many names.
        jobs: their jobs.
        share_jobs: their share of all jobs.
        gpu_hours: their GPU-hours.
        share_gpu_hours: their share of all GPU-hours.
        usd_per_month: dollars per month for their GPU-hours; null without a price.
    """

    names: int
    jobs: int
    share_jobs: float
    gpu_hours: float | None
    share_gpu_hours: float | None
    usd_per_month: float | None


@dataclass(frozen=True, slots=True)
class GroupTable:
    """The jobs by class, user or group.

    Attributes:
        distinct: how many names there are.
        rows: the largest ones.
        others: all other names; null where every name has a row.
    """

    distinct: int
    rows: tuple[GroupTableRow, ...]
    others: RestRow | None


@dataclass(frozen=True, slots=True)
class IntervalResults:
    """Confidence intervals by a block bootstrap.

    Attributes:
        level: percent.
        resamples: of the bootstrap.
        block_jobs: consecutive jobs of a block.
        statistics: path of a statistic in the results -> the ends of its interval.
    """

    level: float
    resamples: int
    block_jobs: int
    statistics: dict[str, tuple[float, float | None] | None]


@dataclass(frozen=True)
class WorkloadResults:
    """What a workload is; null means undefined or not recorded.

    Attributes:
        jobs: jobs in the selection.
        cpu_only_jobs: jobs that started without a GPU.
        censored_jobs: jobs still running at the snapshot.
        users: distinct users.
        span_s: seconds from the first submission to the last.
        first_submit: the first submission, UTC.
        last_submit: the last submission, UTC.
        duration_s: run times, seconds.
        short_jobs: the share of jobs of at most so many seconds.
        duration_cdf: the distribution function of run times.
        gpu_time: GPU time and its concentration.
        interarrival: gaps between submissions.
        arrivals: daily and weekly pattern, bursts.
        load: GPUs held over time.
        gpu_counts: the jobs by GPU count.
        states: the jobs by state.
        queue_s: recorded waits, seconds.
        groups: the jobs by class, user and group, as far as these are recorded.
        fits: heavy-tailed models, where asked for.
        ci: confidence intervals, where asked for.
    """

    jobs: int
    cpu_only_jobs: int
    censored_jobs: int
    users: int | None
    span_s: float
    first_submit: str | None
    last_submit: str | None
    duration_s: Spread
    short_jobs: dict[str, float | None]
    duration_cdf: tuple[CdfPoint, ...]
    gpu_time: GpuTime
    interarrival: Interarrival
    arrivals: ArrivalStatistics
    load: Load
    gpu_counts: tuple[GpuCountRow, ...]
    states: tuple[StateRow, ...]
    queue_s: Spread
    groups: dict[str, GroupTable]
    fits: TraceFitResults | UnsetType = UNSET
    ci: IntervalResults | UnsetType = UNSET
