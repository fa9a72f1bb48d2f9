"""What a log shows today: GPUs held, waits, run times and the bill, in all and by GPU type.

Every plan is compared with these numbers. Means are GPU-hours over the hours from the first
submission to the last submission or end, or over the period, as a bill counts them; a month has
730.5 hours. Jobs still running hold their GPUs until the log was taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.base.time_units import HOUR_S, MICROS, MONTH_H
from gpuplan.analysis.characterize.load import PARTS_PER_GPU, levels_until
from gpuplan.analysis.characterize.shares import name_codes
from gpuplan.analysis.history.jobs import JobArrays, job_arrays
from gpuplan.analysis.history.steps import time_weighted_quantiles
from gpuplan.analysis.job_table.gpu_names import UNNAMED
from gpuplan.analysis.trace.trace import Trace

UsdOf = Callable[[str | None], float | None]
"""The dollars of a GPU-hour of a type; None where it has no price."""
COLUMNS = ("submit_time", "queue_s", "duration_s", "num_gpus", "state", "gpu_type")
"""Canonical columns that `today` reads."""


@dataclass(frozen=True, slots=True)
class GpuUsage:
    """GPUs and jobs of a log, or of one GPU type in it.

    Attributes:
        gpu_type: the type; None for all together.
        jobs: jobs that hold GPUs, those still running included.
        gpu_h: GPU-hours they held.
        mean_gpus: GPU-hours over the hours from the first submission to the last submission or end.
        p95_gpus: GPUs held at most for 95% of that time.
        peak_gpus: most GPUs held at once.
        usd_per_gpu_h, usd_per_month: the price, and GPU-hours at that price scaled to a month;
            None without a price.
    """

    gpu_type: str | None
    jobs: int
    gpu_h: float
    mean_gpus: float
    p95_gpus: float
    peak_gpus: float
    usd_per_gpu_h: float | None = None
    usd_per_month: float | None = None

    def at(self, usd_per_gpu_h: float | None) -> GpuUsage:
        """Return the same usage at a price."""
        usd = None if usd_per_gpu_h is None else self.mean_gpus * usd_per_gpu_h * MONTH_H
        return replace(self, usd_per_gpu_h=usd_per_gpu_h, usd_per_month=usd)

    def times(self, factor: float) -> GpuUsage:
        """Return the same jobs with means over another time."""
        usd = None if self.usd_per_month is None else self.usd_per_month * factor
        return replace(self, mean_gpus=self.mean_gpus * factor, usd_per_month=usd)


@dataclass(frozen=True, slots=True)
class Today:
    """What a log shows.

    Attributes:
        usage: of all GPUs.
        span_s: first submission to last submission, or to the last end if all come at once.
        window_s: first submission to last submission or end, or the period.
        mean_wait_s, p95_wait_s: recorded waits of the jobs that have ended, of those submitted in
            the period; None where the log records none.
        waits: jobs whose wait is recorded.
        mean_run_s: mean run time of these jobs; None where all still run.
        running_jobs, running_gpu_h: jobs still running, and their part of the GPU-hours.
        mean_jct_s, p95_jct_s: wait + run of the jobs whose wait is recorded; None without any.
        types: one entry per GPU type, most GPU-hours first; a single one if the log names one type
            or none.
    """

    usage: GpuUsage
    span_s: float
    window_s: float
    mean_wait_s: float | None
    p95_wait_s: float | None
    waits: int
    mean_run_s: float | None
    mean_jct_s: float | None
    p95_jct_s: float | None
    types: tuple[GpuUsage, ...]
    running_jobs: int = 0
    running_gpu_h: float = 0.0

    def gpu_h_by_type(self) -> dict[str | None, float]:
        """Return the GPU-hours of each type, most first; None where the log names none."""
        return {None if one.gpu_type == UNNAMED else one.gpu_type: one.gpu_h for one in self.types}

    def at_arrival_rate(self) -> Today:
        """Return the same jobs with means over the time in which they arrive.

        This is the base of a load and of the plans for it. The mean is above the peak where jobs
        outlast the time in which they arrive.
        """
        factor = self.window_s / self.span_s if self.span_s else 1.0
        types = tuple(each.times(factor) for each in self.types)
        return replace(self, usage=self.usage.times(factor), types=types)

    def at_prices(self, usd_of: UsdOf) -> Today:
        """Return the same usage with every type at its price.

        The bill of all is None where a type has no price.
        """
        types = tuple(each.at(usd_of(each.gpu_type)) for each in self.types)
        bills = [each.usd_per_month for each in types]
        if None in bills:
            return replace(self, types=types, usage=self.usage.at(None))
        usd = float(sum(bill or 0.0 for bill in bills))
        per_h = self.usage.mean_gpus * MONTH_H
        usage = replace(self.usage, usd_per_month=usd, usd_per_gpu_h=usd / per_h if per_h else None)
        if len(types) == 1:
            usage = replace(types[0], gpu_type=None)
        return replace(self, types=types, usage=usage)

    def results(self) -> TodayResults:
        """Return the numbers as JSON has them."""
        whole = asdict(self.usage)
        del whole["gpu_type"]
        return TodayResults(
            **whole,
            span_s=self.span_s,
            window_s=self.window_s,
            mean_wait_s=self.mean_wait_s,
            p95_wait_s=self.p95_wait_s,
            jobs_with_wait=self.waits,
            mean_run_s=self.mean_run_s,
            mean_jct_s=self.mean_jct_s,
            p95_jct_s=self.p95_jct_s,
            running_jobs=self.running_jobs,
            running_gpu_h=self.running_gpu_h,
            gpu_types=self.types,
        )

    def summary(self) -> dict[str, Any]:
        """Return the numbers by name; keys are stable and carry their unit."""
        found: dict[str, Any] = plain(self.results())
        return found


@dataclass(frozen=True, slots=True)
class TodayResults:
    """What a log shows, as JSON has it.

    Attributes:
        jobs: jobs that hold GPUs, those still running included.
        gpu_h: GPU-hours they held.
        mean_gpus: GPU-hours over the hours from the first submission to the last submission or
            end, or over those of the period.
        p95_gpus: GPUs held at most for 95% of that time.
        peak_gpus: most GPUs held at once.
        usd_per_gpu_h: price of a GPU-hour, the mean over the types; null without one.
        usd_per_month: dollars per month for these GPU-hours; null without a price.
        span_s: seconds from the first submission to the last.
        window_s: seconds from the first submission to the last submission or end, or of the period.
        mean_wait_s: mean recorded wait in seconds of jobs that have ended; null where the log
            records none.
        p95_wait_s: the 95th percentile of recorded waits in seconds.
        jobs_with_wait: jobs whose wait is recorded.
        mean_run_s: mean run time in seconds of jobs that have ended; null without any.
        mean_jct_s: mean wait + run in seconds, of jobs whose wait is recorded; null without any.
        p95_jct_s: the 95th percentile of wait + run in seconds.
        running_jobs: jobs that hold GPUs and still run.
        running_gpu_h: the GPU-hours of these so far.
        gpu_types: one per GPU type, most GPU-hours first.
    """

    jobs: int
    gpu_h: float
    mean_gpus: float
    p95_gpus: float
    peak_gpus: float
    usd_per_gpu_h: float | None
    usd_per_month: float | None
    span_s: float
    window_s: float
    mean_wait_s: float | None
    p95_wait_s: float | None
    jobs_with_wait: int
    mean_run_s: float | None
    mean_jct_s: float | None
    p95_jct_s: float | None
    running_jobs: int
    running_gpu_h: float
    gpu_types: tuple[GpuUsage, ...]


def today(trace: Trace) -> Today | None:
    """Return what a trace with `COLUMNS` shows; None if no job holds GPUs for a known time."""
    frame = trace.jobs.select(COLUMNS)
    if not frame["submit_time"].is_sorted():
        frame = frame.sort("submit_time", maintain_order=True)
    jobs = job_arrays(frame, trace.period)
    counted = jobs.holding()
    if not counted.any():
        return None
    begin, end = jobs.window_us()
    window_s = (end - begin) / MICROS
    span_s = (trace.period is None and jobs.span_s) or window_s
    codes, names = name_codes(frame["gpu_type"].cast(pl.Categorical).fill_null(UNNAMED))
    types = [
        _usage(jobs, chosen, name, window_s)
        for code, name in enumerate(names)
        if (chosen := counted & (codes == code)).any()
    ]
    del codes
    types.sort(key=lambda each: (-each.gpu_h, each.gpu_type or ""))
    one_type = len(types) == 1
    whole = replace(types[0], gpu_type=None) if one_type else _usage(jobs, counted, None, window_s)
    ended = counted & ~np.isnan(jobs.duration_s)
    wait_s, run_s = jobs.queue_s[ended], jobs.duration_s[ended]
    known = ~np.isnan(wait_s)
    running = jobs.running()
    jct_s = (wait_s + run_s)[known]
    return Today(
        usage=whole,
        span_s=span_s,
        window_s=window_s,
        mean_wait_s=_mean(wait_s[known]),
        p95_wait_s=_p95(wait_s[known]),
        waits=int(known.sum()),
        mean_run_s=_mean(run_s),
        mean_jct_s=_mean(jct_s),
        p95_jct_s=_p95(jct_s),
        types=tuple(types),
        running_jobs=running[0],
        running_gpu_h=running[1],
    )


def _usage(jobs: JobArrays, chosen: Any, name: str | None, window_s: float) -> GpuUsage:
    gpu_h = float(jobs.gpu_s[chosen].sum()) / HOUR_S
    held, lasting, peak = levels_until(jobs.only(chosen), round(window_s * MICROS))
    (p95,) = time_weighted_quantiles(held, lasting, (0.95,))
    hours = window_s / HOUR_S
    mean = gpu_h / hours if hours else 0.0
    return GpuUsage(
        gpu_type=name,
        jobs=int(chosen.sum()),
        gpu_h=gpu_h,
        mean_gpus=mean,
        p95_gpus=p95 / PARTS_PER_GPU,
        peak_gpus=peak / PARTS_PER_GPU,
    )


def _mean(values: Any) -> float | None:
    return float(values.mean()) if values.size else None


def _p95(values: Any) -> float | None:
    return float(np.percentile(values, 95)) if values.size else None
