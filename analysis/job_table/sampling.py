"""Random samples and scaled times of the jobs of a trace, and their load beside that of all."""

from __future__ import annotations

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import CENTURY_S, LAST_SUBMIT, MICROS
from gpuplan.analysis.job_table.schema import CANONICAL, LAST_INSTANT_US, LEAST_S

LOAD_COLUMNS = ("submit_time", "duration_s", "num_gpus", "state")
"""Canonical columns that a load is measured from."""
NEARLY = 0.01
"""A load within this share of the trace's is close enough."""


def draw_jobs(jobs: pl.DataFrame, count: int, seed: int) -> pl.DataFrame:
    """Return ``count`` jobs chosen uniformly without replacement, in their order."""
    rng = np.random.default_rng(seed)
    return jobs[np.sort(rng.choice(jobs.height, count, replace=False))]


def load_gpus(jobs: pl.DataFrame, *, include_running: bool) -> float | None:
    """Return GPU-seconds over the span of submissions; None if jobs have no time or no span.

    Args:
        jobs: with the columns `LOAD_COLUMNS`, sorted by submission.
        include_running: whether jobs still running count with the time they have run so far.
    """
    gpu_s = pl.col("duration_s") * pl.col("num_gpus")
    if not include_running:
        gpu_s = gpu_s.filter(pl.col("state") != "running")
    submit_us = jobs["submit_time"].dt.epoch("us")
    span_s = float(submit_us[-1] - submit_us[0]) / MICROS
    total = float(jobs.select(gpu_s.sum()).item())
    return total / span_s if total > 0 and span_s > 0 else None


def load_note(
    jobs: pl.DataFrame,
    sample: pl.DataFrame,
    *,
    scale_duration: float = 1.0,
    scale_interarrival: float = 1.0,
) -> str:
    """Return a note: the load of a scaled sample as a share of the trace's, and how to restore it.

    Few jobs hold most of the GPU time, so that the share of the load may be far from that of the
    jobs. Both loads are measured; without any load, the note has only the number of jobs.

    Args:
        jobs: all jobs, with the columns `LOAD_COLUMNS`, sorted by submission; not scaled.
        sample: the sampled jobs, with the same columns.
        scale_duration: factor on the durations of the sample.
        scale_interarrival: factor on its gaps between submissions.
    """
    sampled = f"{sample.height:,} of {jobs.height:,} jobs sampled over the whole span"
    ended, every = (
        _share(jobs, sample, include_running=running, factor=scale_duration)
        for running in (False, True)
    )
    if ended is None:
        return f"{sampled}: their load cannot be compared with the trace's"
    ratio = ended / scale_interarrival
    is_same = abs(ratio - 1) <= NEARLY
    now = "that of the trace" if is_same else f"{ratio:.3g} times the trace's"
    if every is not None and f"{every:.3g}" != f"{ended:.3g}":
        now += f" ({every / scale_interarrival:.3g} times with jobs still running)"
    restores = "" if is_same else f"; --scale-interarrival {ended:.3g} restores it"
    scales = {"duration": scale_duration, "interarrival": scale_interarrival}
    options = " ".join(f"--scale-{name} {value:g}" for name, value in scales.items() if value != 1)
    at = f"with {options} " if options else ""
    return f"{sampled}: {at}the load is {now}{restores}"


def _share(
    jobs: pl.DataFrame, sample: pl.DataFrame, *, include_running: bool, factor: float
) -> float | None:
    """Return the load of a sample over that of all jobs; None where either has none."""
    total, part = (load_gpus(some, include_running=include_running) for some in (jobs, sample))
    return None if total is None or part is None else part * factor / total


def scale_arrivals(jobs: pl.DataFrame, factor: float) -> pl.DataFrame:
    """Return jobs with every gap between submissions times a factor; the first one stays.

    Raises:
        UsageError: the last submission would be past that of `LAST_SUBMIT`.
    """
    submit = jobs["submit_time"].dt.epoch("us").to_numpy()
    span = float(submit[-1] - submit[0])
    if float(submit[0]) + span * factor > LAST_INSTANT_US:
        raise UsageError(
            f"--scale-interarrival {factor:g} moves the last submission past the year "
            f"{LAST_SUBMIT.year}"
        )
    gap = np.rint((submit - submit[0]) * factor)
    moved = pl.Series("submit_time", submit[0] + gap.astype(np.int64))
    return jobs.with_columns(moved.cast(CANONICAL["submit_time"]))


def scale_durations(durations: pl.Series, scale: float) -> pl.Series:
    """Return durations times a factor; none above 0 gets shorter than `LEAST_S`."""
    scaled = durations * scale
    is_run = (durations > 0).fill_null(False)
    if (scaled > CENTURY_S).any():
        problem = "more than a century"
    elif is_run.any() and not (scaled >= LEAST_S).any():
        problem = "less than a microsecond"
    else:
        return scaled.zip_with(
            ~is_run | (scaled >= LEAST_S), pl.Series([LEAST_S]).new_from_index(0, len(scaled))
        )
    raise UsageError(f"--scale-duration {scale:g} makes the longest job run for {problem}")
