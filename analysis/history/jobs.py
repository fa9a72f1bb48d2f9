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

PARTS = "run_parts"
"""Column of the jobs of a trace that were requeued: its runs as `PARTS_TYPE`, null for others."""
PARTS_TYPE = pl.List(
    pl.Struct({"wait_s": pl.Float64(), "run_s": pl.Float64(), "gpus": pl.Float64()})
)
"""Per run, in order: the wait since the run before (null for the first, whose wait is that of the
job), the run time (of the last: what is left of the job's duration) and its GPUs."""

PeriodUs = tuple[int, int]
"""Begin and end of a period, microseconds since 1970; the end is not in it."""


@dataclass(frozen=True, slots=True)
class GpuRuns:
    """GpuRuns of jobs on GPUs, in the order of the jobs; arrays of shape (m,).

    Attributes:
        job: place of the job among the jobs.
        start_us, end_us: microseconds since 1970.
        gpus: GPUs held.
    """

    job: IntArray
    start_us: IntArray
    end_us: IntArray
    gpus: FloatArray

    def chosen(self, which: BoolArray | IntArray) -> GpuRuns:
        """Return some of the runs."""
        return GpuRuns(self.job[which], self.start_us[which], self.end_us[which], self.gpus[which])


@dataclass(frozen=True, slots=True)
class JobArrays:
    """Columns of a trace as arrays of shape (n,), in order of submission.

    Attributes:
        submit_us: submissions, microseconds since 1970-01-01 UTC, ascending.
        queue_s: recorded waits; NaN where unknown.
        duration_s: durations of timed jobs; NaN for the others.
        held_s: how long each job holds its GPUs: the duration, or the time run so far; NaN where
            it is not known. In a period only the part of the run within it.
        num_gpus: GPUs held; 0 for CPU-only jobs. A requeued job may hold others later on.
        gpu_s: GPU time of all runs, ``held_s * num_gpus`` of a job with one; 0 where that is not
            known.
        state: position of the state in `STATES`.
        censored: jobs still running when the log was taken.
        timed_jobs: jobs that have a duration here.
        period: in which GPUs are counted; None for the whole log.
        earlier: jobs submitted before the period, the first ones. They have GPU time in it, and no
            duration here.
        requeued: all runs of the jobs that have several, cut to the period; None without any.
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
    requeued: GpuRuns | None = None

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
        runs = self.requeued
        if runs is not None:
            runs = runs.chosen(runs.job >= self.earlier)
            runs = replace(runs, job=runs.job - self.earlier)
        return replace(self, **columns, earlier=0, requeued=runs)

    def runs(self, part: slice = slice(None)) -> GpuRuns:
        """Return the runs of the `holding` jobs of a range, whose places count from its start.

        A job without a recorded wait starts at its submission.
        """
        chosen = self.holding(part)
        start = self.submit_us[part][chosen] + _micros(np.nan_to_num(self.queue_s[part][chosen]))
        if self.period is not None:
            start = np.maximum(start, self.period[0])
        job = np.flatnonzero(chosen)
        end = start + _micros(self.held_s[part][chosen])
        runs = GpuRuns(job, start, end, self.num_gpus[part][chosen])
        if self.requeued is None:
            return runs
        first, stop, _ = part.indices(self.jobs)
        several = self.requeued
        several = several.chosen((several.job >= first) & (several.job < stop))
        several = replace(several, job=several.job - first).chosen(chosen[several.job - first])
        single = runs.chosen(~np.isin(job, several.job))
        order = np.argsort(np.concatenate([single.job, several.job]), kind="stable")
        return GpuRuns(
            *(
                np.concatenate([getattr(single, name), getattr(several, name)])[order]
                for name in ("job", "start_us", "end_us", "gpus")
            )
        )

    def longest_run_s(self) -> float | None:
        """Return the longest run of a timed job; None without one. A job may have run longer."""
        run_s = np.where(np.isnan(self.duration_s), -1.0, self.duration_s)
        if self.requeued is not None:
            run_s[self.requeued.job] = -1.0
            of_timed = self.requeued.chosen(~np.isnan(self.duration_s[self.requeued.job]))
            length_s = (of_timed.end_us - of_timed.start_us) / MICROS
            run_s = np.append(run_s, length_s)
        longest = float(run_s.max(initial=-1.0))
        return None if longest < 0 else longest

    def runs_window_us(self) -> PeriodUs:
        """Return the period, or the first submission and the last end of a run."""
        if self.period is not None:
            return self.period
        ends = (self.runs(part).end_us.max(initial=self.submit_us[0]) for part in chunks(self.jobs))
        return int(self.submit_us[0]), int(max(ends))

    def window_us(self) -> PeriodUs:
        """Return the period, or the first submission and the last submission or end of a run."""
        begin, end = self.runs_window_us()
        return begin, end if self.period is not None else max(end, int(self.submit_us[-1]))


def job_arrays(jobs: pl.DataFrame, period: PeriodUs | None = None) -> JobArrays:
    """Return the columns of a canonical frame, sorted by submission, as arrays.

    Args:
        jobs: at least one row, with the columns `COLUMNS`, and `PARTS` where jobs were requeued;
            jobs still running with the time that they have run so far, as
            `gpuplan.analysis.trace.trace.read_trace` returns them.
        period: count GPUs in it alone.
    """
    state = jobs["state"].to_physical().to_numpy()
    censored = state == STATES.index("running")
    duration_s = jobs["duration_s"].to_numpy(writable=True)  # a copy, in which a null is NaN
    queue_s = jobs["queue_s"].to_numpy()
    submit_us = jobs["submit_time"].dt.epoch("us").to_numpy()
    held_s, earlier = duration_s, 0
    requeued = _requeued(jobs, submit_us, queue_s, duration_s)
    if period is not None:
        held_s = _held_within(submit_us, queue_s, duration_s, period)
        earlier = int(np.searchsorted(submit_us, period[0]))
        duration_s[:earlier] = np.nan
    if censored.any():
        held_s = held_s.copy() if held_s is duration_s else held_s
        duration_s[censored] = np.nan
    num_gpus = jobs["num_gpus"].to_numpy()
    gpu_s = held_s * num_gpus
    if requeued is not None:
        held_s = held_s.copy() if held_s is duration_s else held_s
        requeued = _add_up(requeued, held_s, gpu_s, period)
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
        requeued=requeued,
    )


def of_runs(jobs: pl.DataFrame) -> list[str]:
    """Return the columns beside `COLUMNS` that `job_arrays` reads of a frame that has them."""
    return [PARTS] if PARTS in jobs.columns else []


def _requeued(
    jobs: pl.DataFrame, submit_us: IntArray, queue_s: FloatArray, duration_s: FloatArray
) -> GpuRuns | None:
    """Return the runs of the requeued jobs whose run time is known; None without any."""
    if PARTS not in jobs.columns:
        return None
    several = jobs.select(PARTS).with_row_index("job").drop_nulls()
    parts = several.explode(PARTS).unnest(PARTS)
    job = parts["job"].to_numpy().astype(np.int64)
    parts, job = parts.filter(~np.isnan(duration_s[job])), job[~np.isnan(duration_s[job])]
    if not job.size:
        return None
    is_first = np.append(True, job[1:] != job[:-1])
    is_last = np.append(is_first[1:], True)
    first = np.flatnonzero(is_first)
    wait_us = _micros(parts["wait_s"].fill_null(0.0).to_numpy().clip(0))
    wait_us[first] = _micros(np.nan_to_num(queue_s[job[first]]))
    run_us = _micros(parts["run_s"].fill_null(0.0).to_numpy().clip(0))
    earlier_us = np.add.reduceat(np.where(is_last, 0, run_us), first)
    run_us[is_last] = np.maximum(_micros(duration_s[job[first]]) - earlier_us, 0)
    passed = np.cumsum(wait_us + run_us)
    before = np.repeat((passed - wait_us - run_us)[first], np.diff(np.append(first, job.size)))
    end_us = submit_us[job] + passed - before
    return GpuRuns(job, end_us - run_us, end_us, parts["gpus"].to_numpy())


def _add_up(
    runs: GpuRuns, held_s: FloatArray, gpu_s: FloatArray, period: PeriodUs | None
) -> GpuRuns:
    """Set the time and GPU time of requeued jobs to those of their runs, which are returned.

    Of a period only the part of a run within it counts.
    """
    held_s[runs.job] = np.nan
    gpu_s[runs.job] = 0.0
    if period is not None:
        begin, until = period
        is_within = (runs.start_us < until) & ((runs.end_us > begin) | (runs.start_us >= begin))
        runs = runs.chosen(is_within)
        runs = replace(
            runs,
            start_us=np.maximum(runs.start_us, begin),
            end_us=np.minimum(runs.end_us, until),
        )
    length_s = (runs.end_us - runs.start_us) / MICROS
    held_s[runs.job] = 0.0
    np.add.at(held_s, runs.job, length_s)
    np.add.at(gpu_s, runs.job, length_s * runs.gpus)
    return runs


def _held_within(
    submit_us: IntArray, queue_s: FloatArray, held_s: FloatArray, period: PeriodUs
) -> FloatArray:
    """Return how long runs last within a period; NaN for those that have no part in it."""
    start = submit_us + _micros(np.nan_to_num(queue_s))
    end = start + _micros(np.nan_to_num(held_s))
    begin, until = period
    is_within = ~np.isnan(held_s) & (start < until) & ((end > begin) | (start >= begin))
    is_inside = (start >= begin) & (end <= until)
    cut = (np.minimum(end, until) - np.maximum(start, begin)) / MICROS
    return np.where(is_within, np.where(is_inside, held_s, cut), np.nan)


def _micros(seconds: FloatArray) -> IntArray:
    result: IntArray = np.rint(np.minimum(seconds * MICROS, LONGEST_US)).astype(np.int64)
    return result


def known_ascending(values: FloatArray) -> FloatArray:
    """Return the values that are not NaN, sorted."""
    ordered = np.sort(values)  # NaN sorts to the end
    return ordered[: ordered.size - np.count_nonzero(np.isnan(ordered))]
