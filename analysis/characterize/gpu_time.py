"""GPU time: the total, and its concentration in few jobs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.base.arrays import FloatArray
from gpuplan.analysis.base.time_units import HOUR_S
from gpuplan.analysis.history.jobs import JobArrays

LORENZ_POINTS = 101


@dataclass(frozen=True, slots=True)
class LorenzPoint:
    """The jobs of least GPU time, as a share of GPU jobs, and their share of the GPU time."""

    share_jobs: float
    share_gpu_hours: float


@dataclass(frozen=True, slots=True)
class GpuTime:
    """Concentration of GPU time over the jobs that hold GPUs; None if undefined.

    Attributes:
        gpu_hours: sum of run time x GPUs, of jobs still running too; None where no job has any.
        top10pct_longest_share: share of the tenth of jobs (rounded up) that run longest.
        top1pct_longest_share: the same for the hundredth.
        gini: Gini coefficient of GPU time per job, 0 (all equal) to 1 (one job has all).
        lorenz: Lorenz curve, from (0, 0) to (1, 1).
    """

    gpu_hours: float | None
    top10pct_longest_share: float | None = None
    top1pct_longest_share: float | None = None
    gini: float | None = None
    lorenz: tuple[LorenzPoint, ...] = ()


def gpu_time(jobs: JobArrays) -> GpuTime:
    """Return how GPU time is spread over the jobs that hold GPUs."""
    chosen = jobs.holding()
    duration_s, gpu_s = jobs.held_s[chosen], jobs.gpu_s[chosen]
    total = float(gpu_s.sum())
    if total == 0:
        return GpuTime(gpu_hours=jobs.gpu_hours)
    top10, top1 = (longest_share(duration_s, gpu_s, percent) for percent in (10, 1))
    del duration_s
    gpu_s.sort()  # a copy, sorted in place
    return GpuTime(
        gpu_hours=total / HOUR_S,
        top10pct_longest_share=top10,
        top1pct_longest_share=top1,
        gini=gini(gpu_s),
        lorenz=lorenz(gpu_s),
    )


def longest_share(duration_s: FloatArray, gpu_s: FloatArray, percent: int) -> float:
    """Return the share of GPU time of the ``ceil(percent n / 100)`` jobs that run longest.

    Jobs tied in duration at the cut count in proportion, so the order of rows does not matter.
    Arrays have shape (n,), n > 0, with a positive sum of ``gpu_s``.
    """
    count = -(-percent * duration_s.size // 100)
    cut = np.partition(duration_s, duration_s.size - count)[duration_s.size - count]
    longer, tied = duration_s > cut, duration_s == cut
    places = (count - np.count_nonzero(longer)) / np.count_nonzero(tied)
    return float((gpu_s[longer].sum() + gpu_s[tied].sum() * places) / gpu_s.sum())


def gini(ascending: FloatArray) -> float:
    """Return the Gini coefficient of a sorted sample >= 0 with a positive sum; shape (n,).

    ``G = 2 sum(i x_i) / (n sum(x)) - (n + 1) / n`` with i from 1: the mean difference of two
    jobs over twice the mean, which is at most ``1 - 1 / n``.
    """
    n = ascending.size
    ranks = np.arange(1, n + 1, dtype=np.float64)
    value = 2 * float(ranks @ ascending) / (n * float(ascending.sum())) - (n + 1) / n
    return min(max(value, 0.0), 1.0)  # rounding can exceed the range slightly


def lorenz(ascending: FloatArray) -> tuple[LorenzPoint, ...]:
    """Return the Lorenz curve of a sorted sample, thinned to `LORENZ_POINTS` by interpolation."""
    total = np.cumsum(ascending)
    n = ascending.size
    shares = np.linspace(0, 1, min(n + 1, LORENZ_POINTS))
    below = (shares * n).astype(np.int64)
    at = np.union1d(below, np.minimum(below + 1, n))  # the points that the interpolation uses
    held = np.interp(shares * n, at, np.where(at > 0, total[at - 1], 0.0) / total[-1])
    return tuple(LorenzPoint(float(p), float(q)) for p, q in zip(shares, held, strict=True))
