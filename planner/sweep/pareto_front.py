"""The efficient frontier of many points in cost and completion time, and the point to recommend."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuplan.planner.runs.ties import same_point
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.time import HOUR_S

NEARLY = 0.10
"""A mean JCT within this share of the least one is as good as the least."""


def knee_of(cost: FloatArray, jct: FloatArray, front: Sequence[int]) -> int | None:
    """Return the point farthest below the chord of the front, both axes scaled to 0..1.

    None if the front has fewer than three different points or none lies below the chord.
    """
    front = [
        point
        for place, point in enumerate(front)
        if not place or not same_point(point, front[place - 1], cost, jct)
    ]
    if len(front) < 3:
        return None
    x, y = cost[list(front)], jct[list(front)]
    below = 1 - (x - x[0]) / (x[-1] - x[0]) - (y - y[-1]) / (y[0] - y[-1])
    best = int(np.argmax(below))
    return front[best] if below[best] > 1e-9 else None


def objective(
    cost: FloatArray, mean_jct_s: FloatArray, jobs: int, value_of_time: float | None
) -> FloatArray:
    """Return the key that the recommended point minimizes, by column.

    With a value of time, US dollars per hour of one job, it is the bill plus the value of all
    completion times (run times are the same for all points). Without it, it is the
    bill, and points with a mean JCT of more than `NEARLY` above the least are excluded.

    Args:
        cost: US dollars; shape (points, ...).
        mean_jct_s: of the same shape.
        jobs: number of jobs behind each mean.
        value_of_time: None for the rule of `NEARLY`.
    """
    if value_of_time is None:
        near = mean_jct_s <= mean_jct_s.min(axis=0) * (1 + NEARLY)
        return np.where(near, cost, np.inf)
    return np.asarray(cost + value_of_time * jobs * mean_jct_s / HOUR_S)


def best_of(objective: FloatArray, mean_jct_s: FloatArray) -> IntArray:
    """Return the point of least objective per column; ties go to the fastest, then the first."""
    tied = objective == objective.min(axis=0)
    return np.asarray(np.where(tied, mean_jct_s, np.inf).argmin(axis=0))
