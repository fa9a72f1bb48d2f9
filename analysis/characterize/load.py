"""How many GPUs the jobs hold: offered load, and the number held over time.

A job holds its GPUs from ``submit + queue`` (from its submission where no wait is recorded) for its
duration. Times are whole microseconds and GPUs whole millionths, so that a sum over a million
starts and ends is exact: it returns to zero and does not depend on the order of the rows.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gpuplan.analysis.characterize.jobs import FloatArray, IntArray, JobArrays

US = 1e6
PARTS_PER_GPU = 1e6
MAX_BINS = 200
LONGEST_US = 2e18  # keeps the sum of two times within 64 bits
NICE_S = (
    *(1, 2, 5, 10, 15, 30),
    *(60 * m for m in (1, 2, 5, 10, 15, 30)),
    *(3600 * h for h in (1, 2, 3, 4, 6, 8, 12)),
    *(86400 * d for d in (1, 2, 7, 14, 28, 91, 182, 364)),
)


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
    """GPUs in use; None where undefined (no timed GPU job, or no time passes).

    Attributes:
        mean_gpus: offered load, GPU-seconds over the span of submissions.
        peak_gpus: most GPUs held at once.
        p50_gpus, p95_gpus: held at most this many for 50 and 95% of the time while jobs arrive,
            from the first submission to the last (of the window where all arrive at once).
        window_s: first submission to the last end.
        window_mean_gpus: GPU-seconds over the window; the mean of the time line.
        unknown_waits: GPU jobs taken to start at submission because no wait is recorded.
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

    def summary(self) -> dict[str, Any]:
        """Return the numbers by name; ``timeline`` as a list of bins."""
        return {**asdict(self), "timeline": [asdict(entry) for entry in self.timeline]}


def load(jobs: JobArrays) -> Load:
    """Return the GPUs that the timed GPU jobs hold over time."""
    chosen = jobs.timed_gpu()
    if not chosen.any():
        return Load()
    gpu_s = float(jobs.gpu_s.sum())
    unknown_waits = int(np.count_nonzero(np.isnan(jobs.queue_s[chosen])))
    offered = gpu_s / jobs.span_s if jobs.span_s > 0 else None
    times, held, running = held_over_time(jobs)
    window_us = int(times[-1])
    if window_us == 0:
        return Load(mean_gpus=offered, unknown_waits=unknown_waits)
    # One job that outlasts the others by far must not turn the percentiles into zeros, so they
    # look at the time in which jobs arrive.
    until = jobs.submit_us[-1] - jobs.submit_us[0] or window_us
    seen = np.append(np.minimum(times, until), until)
    p50, p95 = time_weighted_quantiles(held, seen, (0.5, 0.95))
    bin_s, timeline = _binned(times, held, running)
    return Load(
        mean_gpus=offered,
        peak_gpus=float(held.max()) / PARTS_PER_GPU,
        p50_gpus=p50 / PARTS_PER_GPU,
        p95_gpus=p95 / PARTS_PER_GPU,
        window_s=window_us / US,
        window_mean_gpus=gpu_s / (window_us / US),
        unknown_waits=unknown_waits,
        bin_s=bin_s,
        timeline=timeline,
    )


def held_over_time(jobs: JobArrays) -> tuple[IntArray, IntArray, IntArray]:
    """Return `concurrency` of the timed GPU jobs, in microseconds after the first submission."""
    chosen = jobs.timed_gpu()
    wait_s = np.nan_to_num(jobs.queue_s[chosen])
    start = jobs.submit_us[chosen] - jobs.submit_us[0] + _microseconds(wait_s)
    end = start + _microseconds(jobs.duration_s[chosen])
    return concurrency(start, end, jobs.num_gpus[chosen])


def concurrency(
    start: IntArray, end: IntArray, num_gpus: FloatArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the instants of change and what is held from each one on.

    Args:
        start, end: microseconds >= 0, ``start <= end``; shape (n,), n > 0.
        num_gpus: GPUs held in between; shape (n,).

    Returns:
        Distinct instants, ascending from 0; GPUs held (in millionths) and jobs running from each
        instant to the next. All of shape (m,); at the last instant both are 0. A job that takes
        no time never counts, and one that ends as another starts does not overlap it.
    """
    times = np.concatenate([[0], start, end])
    order = np.argsort(times)  # ties may fall anyhow: only the state after the last one counts
    parts = np.rint(num_gpus * PARTS_PER_GPU).astype(np.int64)
    one = np.ones_like(parts)
    times = times[order]
    last = np.append(times[1:] != times[:-1], True)  # of the events at one instant
    held = np.cumsum(np.concatenate([[0], parts, -parts])[order])[last]
    running = np.cumsum(np.concatenate([[0], one, -one])[order])[last]
    return times[last], held, running


def time_weighted_quantiles(
    level: IntArray, times: IntArray, shares: tuple[float, ...]
) -> tuple[int, ...]:
    """Return the least levels that are not exceeded for these shares of the time.

    ``level[i]`` holds from ``times[i]`` to ``times[i + 1]``; shapes (m,) and (m + 1,).
    """
    lasting = np.diff(times)
    order = np.argsort(level)
    passed = np.cumsum(lasting[order])
    at = np.searchsorted(passed, np.asarray(shares) * passed[-1], side="left")
    return tuple(int(level[order[i]]) for i in at)


def bin_width_s(window_s: float) -> float:
    """Return a round number of seconds that cuts the window into at most `MAX_BINS` bins."""
    for width in NICE_S:
        if window_s <= width * MAX_BINS:
            return float(width)
    return float(NICE_S[-1] * np.ceil(window_s / NICE_S[-1] / MAX_BINS))


def _binned(
    times: IntArray, held: IntArray, running: IntArray
) -> tuple[float, tuple[LoadBin, ...]]:
    window = float(times[-1])
    bin_s = bin_width_s(window / US)
    count = max(1, int(np.ceil(window / (bin_s * US))))
    edges = np.minimum(np.arange(count + 1) * bin_s * US, window)
    lasting = np.diff(times)
    means = []
    for level, unit in ((held, PARTS_PER_GPU), (running, 1.0)):
        area = np.concatenate([[0.0], np.cumsum(level[:-1] * lasting.astype(np.float64))])
        means.append(np.diff(np.interp(edges, times, area)) / np.diff(edges) / unit)
    bins = zip(edges[:-1] / US, *means, strict=True)
    return bin_s, tuple(LoadBin(float(s), float(g), float(j)) for s, g, j in bins)


def _microseconds(seconds: FloatArray) -> IntArray:
    result: IntArray = np.rint(np.minimum(seconds * US, LONGEST_US)).astype(np.int64)
    return result
