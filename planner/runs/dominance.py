"""Dominated points: which runs are worth a look in cost and completion time."""

from __future__ import annotations

import numpy as np

from gpuplan.simkit.arrays import FloatArray


def non_dominated(cost: FloatArray, jct: FloatArray) -> list[int]:
    """Return the points that no other point dominates, by ascending cost."""
    front: list[int] = []
    for index in map(int, np.lexsort((jct, cost))):
        if not front or jct[index] < jct[front[-1]] or same_point(index, front[-1], cost, jct):
            front.append(index)
    return front


def same_point(one: int, other: int, cost: FloatArray, jct: FloatArray) -> bool:
    """Return whether two points have the same cost and the same completion time."""
    return bool(cost[one] == cost[other] and jct[one] == jct[other])
