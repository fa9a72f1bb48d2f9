"""What one GPU did in the runs that held it, from its samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.base.arrays import BoolArray, FloatArray, IntArray
from gpuplan.analysis.metrics.samples import MetricSeries

LEAST_SHARE = 0.5
"""Samples that a run must have of those that it would have: with fewer its use is unknown."""
MOST_GAP_STEPS = 3.0
"""Steps between two samples up to which what was not scraped in between was like them."""
MOST_LOST = 0.1
"""Samples of a run, of those it has, whose values may be lost before its use is unknown."""


@dataclass(frozen=True, slots=True)
class GpuUse:
    """The use of a GPU in spans of time; arrays of shape (n,).

    Attributes:
        covered_s: seconds with samples; 0 where they are too few.
        mean: mean of the samples; NaN without any.
        most: largest sample; NaN without any.
        is_used: whether a sample was above the idle threshold.
        begin_s, end_s: seconds at begin and end without use, of a span that was used later or
            earlier; 0 where that end is outside the samples.
    """

    covered_s: FloatArray
    mean: FloatArray
    most: FloatArray
    is_used: BoolArray
    begin_s: FloatArray
    end_s: FloatArray


def gpu_use(series: MetricSeries, start_s: IntArray, end_s: IntArray, idle_most: float) -> GpuUse:
    """Return the use in spans of time.

    A lost sample may have been of a GPU in use: with one, no span and no stretch is known to idle.

    A sample stands for the time since the one before it, up to `MOST_GAP_STEPS`. An idle stretch
    begins and ends halfway between two samples, and at the ends of its span.

    Args:
        series: at least two samples.
        start_s, end_s: of the spans.
        idle_most: largest value at which the GPU idles.
    """
    time_s, values, step_s = series.time_s, series.values, series.step_s
    first = np.searchsorted(time_s, start_s, "left")
    last = np.searchsorted(time_s, end_s, "right")
    samples = (last - first).astype(np.float64)
    from_s = np.maximum(start_s, time_s[0] - step_s)
    until_s = np.minimum(end_s, time_s[-1] + step_s)
    within_s = np.maximum(until_s - from_s, 0.0)
    share = np.divide(samples * step_s, within_s, out=np.zeros(samples.size), where=within_s > 0)
    lost = _lost(series, start_s, end_s)
    is_active = values > idle_most
    place = np.arange(values.size)
    # The next active sample from each place on, and the last one before it.
    following = np.append(
        np.minimum.accumulate(np.where(is_active, place, values.size)[::-1])[::-1], values.size
    )
    earlier = np.append(-1, np.maximum.accumulate(np.where(is_active, place, -1)))
    next_active, last_active = following[first], earlier[last]
    is_known = (lost == 0) | ((next_active < last) & (lost <= MOST_LOST * samples))
    is_covered = (share >= LEAST_SHARE) & (samples > 0) & is_known
    seen_s = np.clip(_seen_s(series, first, last, from_s, until_s), 0.0, within_s)
    lost_s = np.minimum(lost * step_s, np.maximum(seen_s - samples * step_s, 0.0))
    covered_s = np.where(is_covered, seen_s - lost_s, 0.0)
    sums = np.append(0.0, np.cumsum(values))
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(is_covered, (sums[last] - sums[first]) / samples, np.nan)
    is_used = is_covered & (next_active < last)
    inside = values.size - 1
    half_s = step_s / 2
    begin_s = np.clip(time_s[np.minimum(next_active, inside)] - half_s - start_s, 0, None)
    end_idle_s = np.clip(end_s - time_s[np.maximum(last_active, 0)] - half_s, 0, None)
    sees_begin, sees_end = start_s >= time_s[0] - step_s, end_s <= time_s[-1] + step_s
    sees_begin &= _lost(series, start_s, time_s[np.minimum(next_active, inside)]) == 0
    sees_end &= _lost(series, time_s[np.maximum(last_active, 0)], end_s) == 0
    begin_samples, end_samples = next_active - first, last - 1 - last_active
    return GpuUse(
        covered_s=covered_s,
        mean=mean,
        most=_largest(values, first, last, is_covered),
        is_used=is_used,
        begin_s=_stretch(begin_s, begin_samples, step_s, is_used & sees_begin),
        end_s=_stretch(end_idle_s, end_samples, step_s, is_used & sees_end),
    )


def _seen_s(
    series: MetricSeries, first: IntArray, last: IntArray, from_s: FloatArray, until_s: FloatArray
) -> FloatArray:
    """Return the seconds of spans for which samples stand; gaps count up to `MOST_GAP_STEPS`.

    Args:
        series: at least two samples.
        first, last: the samples of each span are those from the first up to before the last.
        from_s, until_s: of the spans, where there are samples.
    """
    time_s, most_s = series.time_s, MOST_GAP_STEPS * series.step_s
    stands = np.append(0.0, np.cumsum(np.minimum(np.diff(time_s), most_s)))
    inside = time_s.size - 1
    begin, end = np.minimum(first, inside), np.clip(last - 1, 0, inside)
    before_s = np.clip(time_s[begin] - from_s, 0.0, most_s)
    after_s = np.clip(until_s - time_s[end], 0.0, most_s)
    seen_s: FloatArray = stands[end] - stands[begin] + before_s + after_s
    return seen_s


def _lost(series: MetricSeries, start_s: IntArray, end_s: IntArray) -> IntArray:
    """Return the lost samples of each span."""
    after = np.searchsorted(series.lost_s, end_s, "right")
    before = np.searchsorted(series.lost_s, start_s, "left")
    lost: IntArray = np.maximum(after - before, 0).astype(np.int64)
    return lost


def _stretch(
    length_s: FloatArray, samples: IntArray, step_s: float, is_seen: BoolArray
) -> FloatArray:
    """Return the length of idle stretches that enough samples show, else 0."""
    is_sampled = samples * step_s >= LEAST_SHARE * length_s
    return np.where(is_seen & is_sampled, length_s, 0.0)


def _largest(values: FloatArray, first: IntArray, last: IntArray, chosen: BoolArray) -> FloatArray:
    """Return the largest value of each range that is chosen and not empty, else NaN."""
    largest = np.full(first.size, np.nan)
    at = np.flatnonzero(chosen & (last > first))
    if at.size:
        edges = np.column_stack([first[at], last[at]]).ravel()
        padded = np.append(values, -np.inf)
        largest[at] = np.maximum.reduceat(padded, edges)[::2]
    return largest
