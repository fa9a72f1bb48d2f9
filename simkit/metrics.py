"""Numbers that summarize a schedule: means and percentiles, in the units of their input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuplan.simkit.arrays import FloatArray

PERCENTILES = (50, 90, 95, 99)


def percentile(values: FloatArray, q: float) -> float:
    """Return one percentile, interpolated linearly between order statistics."""
    return float(np.percentile(values, q))


def distribution(
    values: FloatArray, name: str, unit: str, percentiles: Sequence[int] = PERCENTILES
) -> dict[str, float]:
    """Return the mean and some percentiles under keys such as ``p95_jct_s``.

    Percentiles interpolate linearly between order statistics; the 50th is called the median.
    Raises ValueError on no values.
    """
    if values.size == 0:
        raise ValueError("no values to summarize")
    levels = np.percentile(values, percentiles)
    keys = [f"{'median' if q == 50 else f'p{q}'}_{name}_{unit}" for q in percentiles]
    return {f"mean_{name}_{unit}": float(values.mean())} | dict(
        zip(keys, map(float, levels), strict=True)
    )
