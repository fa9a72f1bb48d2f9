"""Statistics of run and wait times: mean, percentiles, shares of short jobs, distribution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.base.arrays import FloatArray
from gpuplan.analysis.history.jobs import JobArrays
from gpuplan.analysis.statistics.chunks import counts_and_sums

CDF_POINTS = 101
SHORT_S = (60.0, 600.0)


@dataclass(frozen=True, slots=True)
class Spread:
    """Location and spread of a sample of seconds; all but ``jobs`` are None if it is empty.

    Attributes:
        jobs: size of the sample.
        mean, p50, p90, p95, p99, max, min: seconds; percentiles by linear interpolation.
    """

    jobs: int
    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None
    min: float | None = None


@dataclass(frozen=True, slots=True)
class CdfPoint:
    """Jobs of at most this duration, as a share of jobs and of GPU time (None without any)."""

    duration_s: float
    share_jobs: float
    share_gpu_hours: float | None


def percentile(ascending: FloatArray, q: float) -> float:
    """Return the percentile ``q`` of a sorted, non-empty sample by linear interpolation.

    With the values at positions 0 to n - 1, the percentile is at position ``(n - 1) q / 100``
    (definition 7 of Hyndman and Fan, "Sample quantiles in statistical packages", 1996).
    """
    position = (ascending.size - 1) * q / 100
    below = int(position)
    above = min(below + 1, ascending.size - 1)
    low, high = float(ascending[below]), float(ascending[above])
    return low + (high - low) * (position - below)


def spread(ascending: FloatArray) -> Spread:
    """Return the statistics of a sorted sample without NaN; shape (n,), n may be 0."""
    if not ascending.size:
        return Spread(jobs=0)
    return Spread(
        jobs=ascending.size,
        mean=float(ascending.mean()),
        p50=percentile(ascending, 50),
        p90=percentile(ascending, 90),
        p95=percentile(ascending, 95),
        p99=percentile(ascending, 99),
        max=float(ascending[-1]),
        min=float(ascending[0]),
    )


def share_at_most(ascending: FloatArray, limit: float) -> float | None:
    """Return the share of a sorted sample that is at most ``limit``; None if it is empty."""
    if not ascending.size:
        return None
    return int(np.searchsorted(ascending, limit, side="right")) / ascending.size


def duration_cdf(jobs: JobArrays, ascending: FloatArray) -> tuple[CdfPoint, ...]:
    """Return the distribution function of durations, by jobs and weighted by GPU time.

    It is evaluated at `CDF_POINTS` durations, evenly spaced in the logarithm from the least
    positive duration to the longest; the first point counts the zeros too. A sample of one
    positive value, or of none, has one point.
    """
    positive = ascending[np.searchsorted(ascending, 0.0, side="right") :]
    if not ascending.size:
        return ()
    if not positive.size or positive[0] == positive[-1]:
        edges = ascending[-1:]
    else:
        edges = np.geomspace(positive[0], positive[-1], CDF_POINTS)
        edges[[0, -1]] = positive[0], positive[-1]  # geomspace may round its ends
    share = np.searchsorted(ascending, edges, side="right") / ascending.size
    weighted: list[float | None] = [None] * edges.size
    if jobs.gpu_s.any():
        # The bin of a job is the first edge that is not below its duration; NaN falls past the
        # last edge, with no weight.
        _, held = counts_and_sums(
            lambda part: np.searchsorted(edges, jobs.duration_s[part], side="left"),
            jobs.gpu_s,
            edges.size + 1,
        )
        weight = np.cumsum(held[: edges.size])
        if weight[-1] > 0:
            weighted = [float(upto) for upto in weight / weight[-1]]
    return tuple(
        CdfPoint(float(edge), float(below), held_share)
        for edge, below, held_share in zip(edges, share, weighted, strict=True)
    )
