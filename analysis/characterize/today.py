"""What a log shows today: GPUs held, waits, run times and the bill, in all and by GPU type.

Every plan is compared with these numbers. Means are GPU-hours over the hours from the first
submission to the last submission or end, or over the period, as a bill counts them; a month has
730.5 hours. Jobs still running hold their GPUs until the log was taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import polars as pl
from msgspec import UNSET, UnsetType

from gpuplan.analysis.base.plain import Inlined, fields_of
from gpuplan.analysis.base.time_units import HOUR_S, MICROS, MONTH_H
from gpuplan.analysis.characterize.load import PARTS_PER_GPU, levels_until
from gpuplan.analysis.characterize.shares import name_codes
from gpuplan.analysis.history.jobs import JobArrays, job_arrays, of_runs
from gpuplan.analysis.history.steps import time_weighted_quantiles
from gpuplan.analysis.job_table.gpu_names import UNNAMED
from gpuplan.analysis.trace.trace import Trace

UsdOf = Callable[[str | None], float | None]
"""The dollars of a GPU-hour of a type; None where it has no price."""
COLUMNS = ("submit_time", "queue_s", "duration_s", "num_gpus", "state", "gpu_type")
"""Canonical columns that `today` reads."""

U = TypeVar("U", bound="GpuUsage")


@dataclass(frozen=True)
class GpuUsage:
    """GPUs and jobs of a log, or of one GPU type in it.

    Attributes:
        jobs: jobs that hold GPUs, those still running included.
        gpu_h: GPU-hours they held.
        mean_gpus: GPU-hours over the hours from the first submission to the last submission or
            end, or over those of the period.
        p95_gpus: GPUs held at most for 95% of that time.
        peak_gpus: most GPUs held at once.
        usd_per_gpu_h: price of a GPU-hour, the mean over the types; null without one.
        usd_per_month: dollars per month for these GPU-hours; null without a price.
    """

    jobs: int
    gpu_h: float
    mean_gpus: float
    p95_gpus: float
    peak_gpus: float
    usd_per_gpu_h: float | None = None
    usd_per_month: float | None = None

    def at(self: U, usd_per_gpu_h: float | None) -> U:
        """Return the same usage at a price."""
        usd = None if usd_per_gpu_h is None else self.mean_gpus * usd_per_gpu_h * MONTH_H
        return replace(self, usd_per_gpu_h=usd_per_gpu_h, usd_per_month=usd)

    def times(self: U, factor: float) -> U:
        """Return the same jobs with means over another time."""
        usd = None if self.usd_per_month is None else self.usd_per_month * factor
        return replace(self, mean_gpus=self.mean_gpus * factor, usd_per_month=usd)


@dataclass(frozen=True)
class OfType:
    """A GPU type.

    Attributes:
        gpu_type: the type, ``unknown`` for jobs that name none.
    """

    gpu_type: str


@dataclass(frozen=True)
class TypeUsage(GpuUsage, OfType):  # in JSON the type comes first
    """GPUs of one type and the jobs on them."""

    def total(self) -> GpuUsage:
        """Return the usage of all GPUs of a log with this type alone."""
        return GpuUsage(**{name: value for name, value in vars(self).items() if name != "gpu_type"})


@dataclass(frozen=True, slots=True)
class Today:
    """What a log shows.

    Attributes:
        usage: of all GPUs.
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
        price_is_assumed: whether no price was given, and the bill is at one assumed for all types.
    """

    usage: Inlined[GpuUsage]
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
    gpu_types: tuple[TypeUsage, ...]
    price_is_assumed: bool | UnsetType = UNSET

    def gpu_h_by_type(self) -> dict[str | None, float]:
        """Return the GPU-hours of each type, most first; None where the log names none."""
        return {
            None if usage.gpu_type == UNNAMED else usage.gpu_type: usage.gpu_h
            for usage in self.gpu_types
        }

    def at_arrival_rate(self) -> Today:
        """Return the same jobs with means over the time in which they arrive.

        This is the base of a load and of the plans for it. The mean is above the peak where jobs
        outlast the time in which they arrive.
        """
        factor = self.window_s / self.span_s if self.span_s else 1.0
        types = tuple(each.times(factor) for each in self.gpu_types)
        return replace(self, usage=self.usage.times(factor), gpu_types=types)

    def at_prices(self, usd_of: UsdOf) -> Today:
        """Return the same usage with every type at its price.

        The bill of all is None where a type has no price.
        """
        types = tuple(each.at(usd_of(each.gpu_type)) for each in self.gpu_types)
        bills = [each.usd_per_month for each in types]
        if None in bills:
            return replace(self, gpu_types=types, usage=self.usage.at(None))
        usd = float(sum(bill or 0.0 for bill in bills))
        per_h = self.usage.mean_gpus * MONTH_H
        usage = replace(self.usage, usd_per_month=usd, usd_per_gpu_h=usd / per_h if per_h else None)
        if len(types) == 1:
            usage = types[0].total()
        return replace(self, gpu_types=types, usage=usage)


def today(trace: Trace) -> Today | None:
    """Return what a trace with `COLUMNS` shows; None if no job holds GPUs for a known time."""
    frame = trace.jobs.select(*COLUMNS, *of_runs(trace.jobs))
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
        TypeUsage(name, **fields_of(_usage(jobs, chosen, window_s)))
        for code, name in enumerate(names)
        if (chosen := counted & (codes == code)).any()
    ]
    del codes
    types.sort(key=lambda each: (-each.gpu_h, each.gpu_type))
    one_type = len(types) == 1
    usage = types[0].total() if one_type else _usage(jobs, counted, window_s)
    ended = counted & ~np.isnan(jobs.duration_s)
    wait_s, run_s = jobs.queue_s[ended], jobs.duration_s[ended]
    has_wait = ~np.isnan(wait_s)
    running = jobs.running()
    jct_s = (wait_s + run_s)[has_wait]
    return Today(
        usage=usage,
        span_s=span_s,
        window_s=window_s,
        mean_wait_s=_mean(wait_s[has_wait]),
        p95_wait_s=_p95(wait_s[has_wait]),
        jobs_with_wait=int(has_wait.sum()),
        mean_run_s=_mean(run_s),
        mean_jct_s=_mean(jct_s),
        p95_jct_s=_p95(jct_s),
        running_jobs=running[0],
        running_gpu_h=running[1],
        gpu_types=tuple(types),
    )


def _usage(jobs: JobArrays, chosen: Any, window_s: float) -> GpuUsage:
    gpu_h = float(jobs.gpu_s[chosen].sum()) / HOUR_S
    held, lasting, peak = levels_until(jobs.only(chosen), round(window_s * MICROS))
    (p95,) = time_weighted_quantiles(held, lasting, (0.95,))
    hours = window_s / HOUR_S
    mean = gpu_h / hours if hours else 0.0
    return GpuUsage(
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
