"""Numbers that summarize a schedule: means and percentiles, in the units of their input."""

from __future__ import annotations

import numpy as np

from gpuplan.simkit.arrays import FloatArray, IntArray

PERCENTILES = (50, 90, 95, 99)


def distribution(values: FloatArray, name: str, unit: str) -> dict[str, float]:
    """Return mean, median, P90, P95 and P99 under keys such as ``p95_jct_s``.

    Percentiles interpolate linearly between order statistics. Raises ValueError on no values.
    """
    if values.size == 0:
        raise ValueError("no values to summarize")
    found = np.percentile(values, PERCENTILES)
    keys = [f"{'median' if q == 50 else f'p{q}'}_{name}_{unit}" for q in PERCENTILES]
    return {f"mean_{name}_{unit}": float(values.mean())} | dict(
        zip(keys, map(float, found), strict=True)
    )


def time_average(time: FloatArray, value: FloatArray, end: float) -> float:
    """Return the mean over time of a step function that has ``value[i]`` from ``time[i]`` on.

    It is 0 before ``time[0]`` and ends at ``end``; an empty one is 0.
    """
    if time.size == 0 or end <= 0:
        return 0.0
    held = np.diff(np.append(time, end))
    return float((value * held).sum() / end)


def peak_overlap(begin: IntArray, end: IntArray) -> int:
    """Return the most intervals that overlap; one that ends makes room for one that begins."""
    time = np.concatenate((end, begin))
    step = np.concatenate((np.full(end.size, -1), np.ones(begin.size, np.int64)))
    order = np.lexsort((step, time))
    return int(np.cumsum(step[order]).max(initial=0))
