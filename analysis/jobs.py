"""The jobs of a trace as arrays, and the jobs that each statistic uses.

Every statistic of this package uses the same two sets. *Timed* jobs have a recorded duration
and are not still running (unless requested): durations come from them. *GPU jobs* hold more than
zero GPUs: GPU counts come from them, and GPU time and load from the GPU jobs that are timed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gpuplan.analysis.arrays import BoolArray, FloatArray, IntArray
from gpuplan.analysis.schema import STATES
from gpuplan.analysis.time_units import HOUR_S, MICROS

NAMES = ("user", "group", "job_class")
"""Columns with names shared by many jobs."""

COLUMNS = (
    "submit_time",
    "queue_s",
    "duration_s",
    "num_gpus",
    "state",
    *NAMES,
)
"""Canonical columns that a characterization reads."""


@dataclass(frozen=True, slots=True)
class JobArrays:
    """Columns of a trace as arrays of shape (n,), in order of submission.

    Attributes:
        submit_us: submissions, microseconds since 1970-01-01 UTC, ascending.
        queue_s: recorded waits; NaN where unknown.
        duration_s: durations of timed jobs; NaN for the others.
        num_gpus: GPUs held; 0 for CPU-only jobs.
        gpu_s: GPU time, ``duration_s * num_gpus``; 0 where the job is not timed.
        state: position of the state in `STATES`.
        censored: jobs still running at the snapshot, whose duration is a lower bound.
        timed_jobs: jobs that have a duration here.
    """

    submit_us: IntArray
    queue_s: FloatArray
    duration_s: FloatArray
    num_gpus: FloatArray
    gpu_s: FloatArray
    state: NDArray[np.uint8]
    censored: BoolArray
    timed_jobs: int

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
        """GPU time of all timed jobs; None where no job is timed."""
        return float(self.gpu_s.sum()) / HOUR_S if self.timed_jobs else None

    def timed_gpu(self, part: slice = slice(None)) -> BoolArray:
        """Return where a job, or one of a range of them, is timed and holds GPUs."""
        result: BoolArray = ~np.isnan(self.duration_s[part]) & (self.num_gpus[part] > 0)
        return result


def job_arrays(jobs: pl.DataFrame, *, include_running: bool) -> JobArrays:
    """Return the columns of a canonical frame, sorted by submission, as arrays.

    Args:
        jobs: at least one row, with the columns `COLUMNS`.
        include_running: take the time run so far as the duration of jobs still running.
    """
    state = jobs["state"].to_physical().to_numpy()
    censored = state == STATES.index("running")
    duration_s = jobs["duration_s"].to_numpy(writable=True)  # a copy, in which a null is NaN
    if not include_running:
        duration_s[censored] = np.nan
    num_gpus = jobs["num_gpus"].to_numpy()
    untimed = np.isnan(duration_s)
    gpu_s = duration_s * num_gpus
    gpu_s[untimed] = 0.0
    return JobArrays(
        submit_us=jobs["submit_time"].dt.epoch("us").to_numpy(),
        queue_s=jobs["queue_s"].to_numpy(),
        duration_s=duration_s,
        num_gpus=num_gpus,
        gpu_s=gpu_s,
        state=state,
        censored=censored,
        timed_jobs=int(untimed.size - np.count_nonzero(untimed)),
    )


def known_ascending(values: FloatArray) -> FloatArray:
    """Return the values that are not NaN, sorted."""
    ordered = np.sort(values)  # NaN sorts to the end
    return ordered[: ordered.size - np.count_nonzero(np.isnan(ordered))]
