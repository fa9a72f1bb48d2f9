"""What every sweep is compared with: all jobs on rented workers, and today's cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gpuplan.analysis.base.time_units import HOUR_S, MONTH_H
from gpuplan.analysis.characterize.today import Today
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.simkit.allpass.parameters import Allpass, StartUp

RECORDED_PEAK = "recorded peak"


@dataclass(frozen=True, slots=True)
class TodaysCluster:
    """A cluster of fixed size that stands throughout the window of the log.

    Attributes:
        gpus: its size.
        size_from: where that comes from.
        usd_per_gpu_h: price of each GPU, the mean where some are owned or committed.
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


def todays_cluster(
    today: Today | None, usd_per_h: Callable[[int], float], size: tuple[int, str] | None = None
) -> TodaysCluster | None:
    """Return today's cluster; None if the log shows no GPUs in use.

    Args:
        today: what the log shows.
        usd_per_h: what so many GPUs cost an hour.
        size: GPUs, and the option that gave them; None for the most that the log ever held.
    """
    if today is None:
        return None
    peak = today.usage.peak_gpus
    gpus, size_from = (-int(-peak // 1), RECORDED_PEAK) if size is None else size
    if not gpus:
        return None
    holds, usd = gpus >= peak, usd_per_h(gpus)
    return TodaysCluster(
        gpus=gpus,
        size_from=size_from,
        usd_per_gpu_h=usd / gpus,
        window_s=today.window_s,
        mean_jct_s=today.mean_jct_s if holds else None,
        p95_jct_s=today.p95_jct_s if holds else None,
        cost_usd=usd * today.window_s / HOUR_S,
        usd_per_month=usd * MONTH_H,
    )


def rented_only(base: Allpass) -> Allpass:
    """Return the parameters under which every job starts and ends on rented workers.

    They are those of the policy ``serverful-only``. Prices, offers, start-up times of workers and
    scaling are those of ``base``.
    """
    return replace(
        base,
        controller="fixed",
        threshold_s=0.0,
        checkpoint_s=0.0,
        restore_s=0.0,
        serverless_startup=StartUp(0.0, 0.0),
        serverless_limit=None,
        serverless_minimum_billing_s=0.0,
        serverless_billing_step_s=0.0,
    )


def without_moves(jobs: TraceJobs) -> TraceJobs:
    """Return jobs that take no time to save and load, as they never move."""
    return replace(jobs, workload=replace(jobs.workload, checkpoint_us=None, restore_us=None))
