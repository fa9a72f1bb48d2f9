"""Compare the distributions of two traces.

Source: Smirnov, "Table for estimating the goodness of fit of empirical distributions", Annals of
Mathematical Statistics 19, 1948 (the two-sample distance and its limit law).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from scipy.special import kolmogorov

from gpuplan.analysis.base.arrays import FloatArray
from gpuplan.analysis.base.time_units import MICROS
from gpuplan.analysis.characterize.durations import percentile
from gpuplan.analysis.characterize.intervals import Intervals
from gpuplan.analysis.characterize.two_sample import TwoSample
from gpuplan.analysis.history.jobs import known_ascending
from gpuplan.analysis.statistics.bootstrap import interval
from gpuplan.analysis.trace.trace import Trace


def compare(
    traces: Sequence[Trace],
    names: Sequence[str],
    *,
    intervals: Sequence[Intervals] | None = None,
) -> tuple[TwoSample, ...]:
    """Compare every pair of traces in durations, gaps and GPU counts.

    Args:
        traces: read with at least the columns of a characterization.
        names: one per trace.
        intervals: one per trace, each from its own generator, so that resamples of two
            traces are independent.
    """
    samples = [_quantities(trace) for trace in traces]
    rows = []
    for i, j in combinations(range(len(traces)), 2):
        for quantity, first in samples[i].items():
            both = None
            if intervals is not None and quantity == "duration_s":
                both = intervals[i], intervals[j]
            rows.append(_pair(names[i], names[j], quantity, first, samples[j][quantity], both))
    return tuple(rows)


def ks_two_sample(first: FloatArray, second: FloatArray) -> tuple[float, float, float]:
    """Return the Kolmogorov-Smirnov distance of two sorted samples, where it is, and its p-value.

    The p-value is that of the limit law at ``distance sqrt(n m / (n + m))``.
    """
    at = np.concatenate([first, second])
    first_cdf = np.searchsorted(first, at, side="right") / first.size
    second_cdf = np.searchsorted(second, at, side="right") / second.size
    distance = np.abs(first_cdf - second_cdf)
    most = float(distance.max())
    where = float(at[distance == most].min())
    effective = first.size * second.size / (first.size + second.size)
    return most, where, float(kolmogorov(most * effective**0.5))


def _quantities(trace: Trace) -> dict[str, FloatArray]:
    jobs = trace.arrays().submitted()
    return {
        "duration_s": known_ascending(jobs.duration_s),
        "gap_s": np.sort(np.diff(jobs.submit_us)) / MICROS,
        "num_gpus": np.sort(jobs.num_gpus[jobs.num_gpus > 0]),
    }


def _pair(
    name: str,
    other: str,
    quantity: str,
    first: FloatArray,
    second: FloatArray,
    intervals: tuple[Intervals, Intervals] | None,
) -> TwoSample:
    if not first.size or not second.size:
        return TwoSample(name, other, quantity)
    ks, at, p_value = ks_two_sample(first, second)
    first_median, second_median = percentile(first, 50), percentile(second, 50)
    ratio_ci = difference_ci = None
    if intervals is not None:
        first_ci, second_ci = intervals
        level, before, after = first_ci.level, first_ci.medians, second_ci.medians
        blocks = min(first_ci.blocks, second_ci.blocks)
        difference_ci = interval(after - before, level, blocks)
        if (before > 0).all():
            ratio_ci = interval(after / before, level, blocks)
    return TwoSample(
        name,
        other,
        quantity,
        ks=ks,
        ks_at=at,
        p_value=p_value,
        median_first=first_median,
        median_second=second_median,
        median_ratio=second_median / first_median if first_median > 0 else None,
        median_difference=second_median - first_median,
        ratio_ci=ratio_ci,
        difference_ci=difference_ci,
    )
