"""Step functions of time: values that change at some times, such as GPUs in use.

A step function is two arrays of shape (k,): the times at which it changes, ascending, and its value
from each of them on. It is 0 before the first time and keeps its last value.
"""

from __future__ import annotations

import numpy as np

from gpuplan.simkit.arrays import FloatArray, IntArray


def time_average(time: FloatArray, value: FloatArray, end: float) -> float:
    """Return the mean over the time from 0 to ``end``; 0 for an empty step function."""
    if time.size == 0 or end <= 0:
        return 0.0
    held = np.diff(np.append(time, end))
    return float((value * held).sum() / end)


def mean_and_peak(
    time: FloatArray | IntArray, value: FloatArray, edges: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the largest value between successive edges.

    Args:
        time, value: the step function; k >= 1.
        edges: ascending; shape (m + 1,).
    """
    before = min(float(time[0]), float(edges[0])) - 1
    time, value = np.append(before, time), np.append(0.0, value)
    spent = np.append(0.0, np.cumsum(value[:-1] * np.diff(time)))
    late = np.maximum(edges - time[-1], 0) * value[-1]
    mean = np.diff(np.interp(edges, time, spent) + late) / np.diff(edges)
    first = np.searchsorted(time, edges[:-1], side="right") - 1
    last = np.searchsorted(time, edges[1:], side="left")
    stretches = zip(first.tolist(), last.tolist(), strict=True)
    return mean, np.array([value[a : max(b, a + 1)].max() for a, b in stretches])


def value_at(time: FloatArray, value: FloatArray | IntArray, when: FloatArray) -> FloatArray:
    """Return the values at some times, each after any change at that time."""
    last = np.searchsorted(time, when, side="right") - 1
    result: FloatArray = np.where(last < 0, 0, value[last])
    return result


def peak_overlap(begin: IntArray, end: IntArray, amount: IntArray | None = None) -> int:
    """Return the most intervals that overlap, or the most of their amounts.

    One that ends as another begins does not count.
    """
    if amount is None:
        amount = np.ones(begin.size, np.int64)
    time = np.concatenate((end, begin))
    step = np.concatenate((-amount, amount))
    order = np.lexsort((step, time))
    return int(np.cumsum(step[order]).max(initial=0))
