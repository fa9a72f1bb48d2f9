"""GPUs held by the jobs: offered load, and the number held over time.

A job holds its GPUs from ``submit + queue`` (from its submission where no wait is recorded) for its
duration, or for the time it has run so far. Times are whole microseconds and GPUs whole millionths,
so that a sum over a million starts and ends is exact: it returns to zero in any order of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.base.arrays import FloatArray, IntArray
from gpuplan.analysis.base.time_units import MICROS
from gpuplan.analysis.history.jobs import JobArrays
from gpuplan.analysis.history.steps import time_weighted_quantiles
from gpuplan.analysis.statistics.chunks import chunks

PARTS_PER_GPU = 1e6
MAX_BINS = 200
NICE_S = (
    *(1, 2, 5, 10, 15, 30),
    *(60 * m for m in (1, 2, 5, 10, 15, 30)),
    *(3600 * h for h in (1, 2, 3, 4, 6, 8, 12)),
    *(86400 * d for d in (1, 2, 7, 14, 28, 91, 182, 364)),
)

Batch = tuple[IntArray, IntArray, FloatArray, int | None]
"""Starts and ends of jobs (microseconds >= 0, start <= end) and the GPUs they hold, each of shape
(n,); then a time before which no later batch starts, None for the last batch."""

Piece = tuple[IntArray, IntArray, IntArray]
"""Instants, GPUs held from each one on (in millionths), jobs running; as `changes` yields them."""


@dataclass(frozen=True, slots=True)
class LoadBin:
    """Mean over one bin of the time line.

    Attributes:
        start_s: start of the bin in seconds after the first submission.
        mean_gpus: GPUs held.
        mean_jobs: GPU jobs running.
    """

    start_s: float
    mean_gpus: float
    mean_jobs: float


@dataclass(frozen=True, slots=True)
class Load:
    """GPUs in use, those of jobs still running included; None if undefined.

    It is undefined where no GPU job has a run time, or no time passes.

    Attributes:
        mean_gpus: offered load, GPU-seconds over the span of submissions, or over the period.
        peak_gpus: most GPUs held at once.
        p50_gpus, p95_gpus: held at most this many for 50 and 95% of the time while jobs arrive,
            from the first submission to the last (of the window if all arrive at once), or of the
            period.
        window_s: time from the first submission to the last end, or the period.
        window_mean_gpus: GPU-seconds over the window; the mean of the time line.
        unknown_waits: GPU jobs assumed to start at submission because no wait is recorded.
        bin_s: width of a bin of the time line; the last one ends with the window.
        timeline: the window in at most `MAX_BINS` bins.
    """

    mean_gpus: float | None = None
    peak_gpus: float | None = None
    p50_gpus: float | None = None
    p95_gpus: float | None = None
    window_s: float | None = None
    window_mean_gpus: float | None = None
    unknown_waits: int | None = None
    bin_s: float | None = None
    timeline: tuple[LoadBin, ...] = ()


def load(jobs: JobArrays) -> Load:
    """Return the GPUs that the jobs hold over time.

    The time line is summed up piece by piece and never held as a whole.
    """
    if not jobs.holding().any():
        return Load()
    gpu_s = float(jobs.gpu_s.sum())
    unknown_waits, (begin, end) = _unknown_waits(jobs), jobs.runs_window_us()
    window_us = end - begin
    span_us = int(jobs.submit_us[-1]) - begin if jobs.period is None else window_us
    offered = gpu_s / (span_us / MICROS) if span_us > 0 else None
    if window_us == 0:
        return Load(mean_gpus=offered, unknown_waits=unknown_waits)
    # One very long job must not turn the percentiles into zeros, so they cover the time in which
    # jobs arrive.
    until = span_us or window_us
    bin_s = bin_width_s(window_us / MICROS)
    count = max(1, int(np.ceil(window_us / (bin_s * MICROS))))
    edges = np.minimum(np.arange(count + 1) * bin_s * MICROS, float(window_us))
    line = _sum_up(changes(_held_by(jobs)), edges, until)
    p50, p95 = time_weighted_quantiles(line.level, line.lasting, (0.5, 0.95))
    return Load(
        mean_gpus=offered,
        peak_gpus=line.peak / PARTS_PER_GPU,
        p50_gpus=p50 / PARTS_PER_GPU,
        p95_gpus=p95 / PARTS_PER_GPU,
        window_s=window_us / MICROS,
        window_mean_gpus=gpu_s / (window_us / MICROS),
        unknown_waits=unknown_waits,
        bin_s=bin_s,
        timeline=_bins(edges, line.area),
    )


def levels_until(jobs: JobArrays, until: int) -> tuple[IntArray, IntArray, int]:
    """Return the GPUs that the jobs hold, for how long, and the most of them.

    The time line is summed up piece by piece. There must be jobs that hold GPUs.

    Args:
        jobs: of the trace.
        until: microseconds after the begin of the window; time after it does not count.

    Returns:
        Levels (in millionths of a GPU) and how long each lasts, both of shape (m,), in any order
        and with repeats; and the peak in millionths.
    """
    line = _sum_up(changes(_held_by(jobs)), np.zeros(0), until)
    return line.level, line.lasting, line.peak


def held_over_time(jobs: JobArrays) -> Piece:
    """Return `changes` of the jobs that hold GPUs as one piece; there must be such jobs."""
    pieces = zip(*changes(_held_by(jobs)), strict=True)
    times, held, running = (np.concatenate(piece) for piece in pieces)
    return times, held, running


def changes(batches: Iterable[Batch]) -> Iterator[Piece]:
    """Yield the times of change and the GPUs held from each one on, in successive pieces.

    Args:
        batches: jobs that hold GPUs, in order of submission.

    Yields:
        Distinct times, ascending from 0 through all pieces; GPUs held (in millionths) and jobs
        running from each time to the next. All of shape (m,), m > 0; at the last time both are 0.
        A job of no duration never counts, and one that ends as another starts does not overlap
        it. Only jobs that may still change are kept between two pieces.
    """
    times = gpus = np.zeros(1, dtype=np.int64)
    jobs = np.zeros(1, dtype=np.int8)
    held = running = 0
    for start, end, num_gpus, later in batches:
        parts = np.rint(num_gpus * PARTS_PER_GPU).astype(np.int64)
        job = np.ones(parts.size, dtype=np.int8)
        times = np.concatenate([times, start, end])
        gpus = np.concatenate([gpus, parts, -parts])
        jobs = np.concatenate([jobs, job, -job])
        due = np.ones(times.size, dtype=np.bool_) if later is None else times < later
        now = times[due]
        order = np.argsort(now)  # in any order of ties: only the last one counts
        now = now[order]
        level = held + np.cumsum(gpus[due][order])
        count = running + np.cumsum(jobs[due][order], dtype=np.int64)
        times, gpus, jobs = times[~due], gpus[~due], jobs[~due]
        if now.size:
            held, running = int(level[-1]), int(count[-1])
            last = np.append(now[1:] != now[:-1], True)  # of the events at one instant
            yield now[last], level[last], count[last]


def bin_width_s(window_s: float) -> float:
    """Return a round number of seconds that cuts the window into at most `MAX_BINS` bins."""
    for width in NICE_S:
        if window_s <= width * MAX_BINS:
            return float(width)
    return float(NICE_S[-1] * np.ceil(window_s / NICE_S[-1] / MAX_BINS))


@dataclass(frozen=True, slots=True)
class _TimeLine:
    """The summary of a time line.

    Attributes:
        level, lasting: GPUs held (in millionths) and for how long while jobs arrive; shape (m,).
        area: GPUs (in millionths) and jobs x time from the start to each edge; shape (2, edges).
        peak: most GPUs held, in millionths.
    """

    level: IntArray
    lasting: IntArray
    area: FloatArray
    peak: int


def _sum_up(pieces: Iterable[Piece], edges: FloatArray, until: int) -> _TimeLine:
    """Sum up a time line; levels are counted up to ``until``, areas at ascending ``edges``."""
    area = np.zeros((2, edges.size))
    before, passed, peak = 0, np.zeros(2), 0
    at = np.zeros(0, dtype=np.int64)
    levels = np.zeros((2, 0), dtype=np.int64)
    by_level: list[tuple[IntArray, IntArray]] = []
    for times, held, running in pieces:
        at = np.concatenate([at, times])
        levels = np.concatenate([levels, [held, running]], axis=1)
        lasting = np.diff(at)
        reached = int(np.searchsorted(edges, at[-1], side="right"))
        for row in range(2):
            upto = np.cumsum(np.append(passed[row], levels[row, :-1] * lasting.astype(np.float64)))
            area[row, before:reached] = np.interp(edges[before:reached], at, upto)
            passed[row] = upto[-1]
        by_level.append(_by_level(levels[0, :-1], np.diff(np.minimum(at, until))))
        before, peak = reached, max(peak, int(held.max()))
        at, levels = at[-1:], levels[:, -1:]  # the last level continues in the next piece
    area[:, before:] = passed[:, None]  # nothing is held after the last change
    by_level.append((levels[0], until - np.minimum(at, until)))
    level, lasting = (np.concatenate(column) for column in zip(*by_level, strict=True))
    return _TimeLine(level, lasting, area, peak)


def _by_level(level: IntArray, lasting: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct levels and how long each lasts in total."""
    order = np.argsort(level)
    level = level[order]
    first = np.flatnonzero(np.append(True, level[1:] != level[:-1])[: level.size])
    total = np.add.reduceat(lasting[order], first) if first.size else lasting
    return level[first], total


def _bins(edges: FloatArray, area: FloatArray) -> tuple[LoadBin, ...]:
    gpus, jobs = np.diff(area) / np.diff(edges) / np.array([[PARTS_PER_GPU], [1.0]])
    bins = zip(edges[:-1] / MICROS, gpus, jobs, strict=True)
    return tuple(LoadBin(float(s), float(g), float(j)) for s, g, j in bins)


def _held_by(jobs: JobArrays) -> Iterator[Batch]:
    """Yield the jobs that hold GPUs, in microseconds after the first submission or the begin."""
    first = jobs.submit_us[0] if jobs.period is None else jobs.period[0]
    for part in chunks(jobs.jobs):
        runs = jobs.runs(part)
        later = None if part.stop == jobs.jobs else int(jobs.submit_us[part.stop] - first)
        yield runs.start_us - first, runs.end_us - first, runs.gpus, later


def _unknown_waits(jobs: JobArrays) -> int:
    """Return the number of jobs that hold GPUs and have no recorded wait."""
    return sum(
        int(np.count_nonzero(np.isnan(jobs.queue_s[part]) & jobs.holding(part)))
        for part in chunks(jobs.jobs)
    )
