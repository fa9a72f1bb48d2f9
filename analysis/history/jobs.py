"""The jobs of a trace as arrays, and the jobs that each statistic uses.

*Timed* jobs have ended and have a recorded duration: durations come from them. *GPU jobs* hold more
than zero GPUs: GPU counts come from them. GPU time, load and bills come from the runs of GPU jobs:
those of timed jobs, and those of jobs still running, with the time that they have run so far.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gpuplan.analysis.base.arrays import BoolArray, FloatArray, IntArray
from gpuplan.analysis.base.time_units import HOUR_S, MICROS
from gpuplan.analysis.job_table.schema import STATES
from gpuplan.analysis.statistics.chunks import chunks

NAMES = ("user", "group", "job_class")
"""Columns with names shared by many jobs."""

BY = {"group": "group", "user": "user", "type": "gpu_type", "class": "job_class"}
"""What bills and waits may be split by -> the canonical column."""

COLUMNS = (
    "submit_time",
    "queue_s",
    "duration_s",
    "num_gpus",
    "state",
    *NAMES,
)
"""Canonical columns that a characterization reads."""

LONGEST_US = 2e18  # keeps the sum of two times within 64 bits

PeriodUs = tuple[int, int]
"""Begin and end of a period, microseconds since 1970; the end is not in it."""


@dataclass(frozen=True, slots=True)
class JobArrays:
    """Columns of a trace as arrays of shape (n,), in order of submission.

    Attributes:
        submit_us: submissions, microseconds since 1970-01-01 UTC, ascending.
        queue_s: recorded waits; NaN where unknown.
        duration_s: durations of timed jobs; NaN for the others.
        held_s: how long each job holds its GPUs: the duration, or the time run so far; NaN where
            it is not known. In a period only the part of the run within it.
        num_gpus: GPUs held; 0 for CPU-only jobs.
        gpu_s: GPU time, ``held_s * num_gpus``; 0 where that is not known.
        state: position of the state in `STATES`.
        censored: jobs still running when the log was taken.
        timed_jobs: jobs that have a duration here.
        period: in which GPUs are counted; None for the whole log.
        earlier: jobs submitted before the period, the first ones. They have GPU time in it, and no
            duration here.
    """

    submit_us: IntArray
    queue_s: FloatArray
    duration_s: FloatArray
    held_s: FloatArray
    num_gpus: FloatArray
    gpu_s: FloatArray
    state: NDArray[np.uint8]
    censored: BoolArray
    timed_jobs: int
    period: PeriodUs | None = None
    earlier: int = 0

    @property
    def jobs(self) -> int:
        """Number of jobs."""
        return self.submit_us.size

    @property
    def span_s(self) -> float:
        """Time from the first to the last submission."""
        return float(self.submit_us[-1] - self.submit_us[0]) / MICROS

    @property
    def gpu_hours(self) -> float | None:
        """GPU time of all runs; None where no job has one."""
        if not self.timed_jobs and np.isnan(self.held_s).all():
            return None
        return float(self.gpu_s.sum()) / HOUR_S

    def holding(self, part: slice = slice(None)) -> BoolArray:
        """Return where a job, or one of a range of them, holds GPUs for a known time."""
        result: BoolArray = ~np.isnan(self.held_s[part]) & (self.num_gpus[part] > 0)
        return result

    def only(self, chosen: BoolArray) -> JobArrays:
        """Return these jobs, of which only some hold GPUs."""
        held_s = np.where(chosen, self.held_s, np.nan)
        return replace(self, held_s=held_s, gpu_s=np.where(chosen, self.gpu_s, 0.0))

    def running(self) -> tuple[int, float]:
        """Return the number of jobs still running that hold GPUs, and their GPU-hours so far."""
        is_running = self.censored & self.holding()
        return int(np.count_nonzero(is_running)), float(self.gpu_s[is_running].sum()) / HOUR_S

    def submitted(self) -> JobArrays:
        """Return the jobs submitted in the period, without a copy."""
        if not self.earlier:
            return self
        columns: dict[str, Any] = {
            field.name: value[self.earlier :]
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), np.ndarray)
        }
        return replace(self, **columns, earlier=0)

    def runs_us(self, part: slice = slice(None)) -> tuple[IntArray, IntArray]:
        """Return when the `holding` jobs of a range start and end, in microseconds since 1970.

        A job without a recorded wait starts at its submission.
        """
        chosen = self.holding(part)
        start = self.submit_us[part][chosen] + _micros(np.nan_to_num(self.queue_s[part][chosen]))
        if self.period is not None:
            start = np.maximum(start, self.period[0])
        return start, start + _micros(self.held_s[part][chosen])

    def runs_window_us(self) -> PeriodUs:
        """Return the period, or the first submission and the last end of a run."""
        if self.period is not None:
            return self.period
        ends = (self.runs_us(part)[1].max(initial=0) for part in chunks(self.jobs))
        return int(self.submit_us[0]), int(max(ends))

    def window_us(self) -> PeriodUs:
        """Return the period, or the first submission and the last submission or end of a run."""
        begin, end = self.runs_window_us()
        return begin, end if self.period is not None else max(end, int(self.submit_us[-1]))


def job_arrays(jobs: pl.DataFrame, period: PeriodUs | None = None) -> JobArrays:
    """Return the columns of a canonical frame, sorted by submission, as arrays.

    Args:
        jobs: at least one row, with the columns `COLUMNS`; jobs still running with the time that
            they have run so far, as `gpuplan.analysis.trace.trace.read_trace` returns them.
        period: count GPUs in it alone.
    """
    state = jobs["state"].to_physical().to_numpy()
    censored = state == STATES.index("running")
    duration_s = jobs["duration_s"].to_numpy(writable=True)  # a copy, in which a null is NaN
    queue_s = jobs["queue_s"].to_numpy()
    submit_us = jobs["submit_time"].dt.epoch("us").to_numpy()
    held_s, earlier = duration_s, 0
    if period is not None:
        held_s = _held_within(submit_us, queue_s, duration_s, period)
        earlier = int(np.searchsorted(submit_us, period[0]))
        duration_s[:earlier] = np.nan
    if censored.any():
        held_s = held_s.copy() if held_s is duration_s else held_s
        duration_s[censored] = np.nan
    num_gpus = jobs["num_gpus"].to_numpy()
    gpu_s = held_s * num_gpus
    gpu_s[np.isnan(gpu_s)] = 0.0
    return JobArrays(
        submit_us=submit_us,
        queue_s=queue_s,
        duration_s=duration_s,
        held_s=held_s,
        num_gpus=num_gpus,
        gpu_s=gpu_s,
        state=state,
        censored=censored,
        timed_jobs=int(duration_s.size - np.count_nonzero(np.isnan(duration_s))),
        period=period,
        earlier=earlier,
    )


def _held_within(
    submit_us: IntArray, queue_s: FloatArray, held_s: FloatArray, period: PeriodUs
) -> FloatArray:
    """Return how long runs last within a period; NaN for those that have no part in it."""
    start = submit_us + _micros(np.nan_to_num(queue_s))
    end = start + _micros(np.nan_to_num(held_s))
    begin, until = period
    is_within = ~np.isnan(held_s) & (start < until) & ((end > begin) | (start >= begin))
    whole = (start >= begin) & (end <= until)
    cut = (np.minimum(end, until) - np.maximum(start, begin)) / MICROS
    return np.where(is_within, np.where(whole, held_s, cut), np.nan)


def _micros(seconds: FloatArray) -> IntArray:
    result: IntArray = np.rint(np.minimum(seconds * MICROS, LONGEST_US)).astype(np.int64)
    return result


def known_ascending(values: FloatArray) -> FloatArray:
    """Return the values that are not NaN, sorted."""
    ordered = np.sort(values)  # NaN sorts to the end
    return ordered[: ordered.size - np.count_nonzero(np.isnan(ordered))]
