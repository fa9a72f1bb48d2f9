"""How results compare in cost and completion time: which tie, and which no other dominates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpuplan.simkit.arrays import FloatArray

COST_TIE = 0.02
"""Costs within this share of the larger one are equal."""
JCT_TIE = 0.02
"""Mean completion times within this share of the larger one are equal."""
WAIT_TIE = 0.05
"""P95 waits within this share of the larger one are equal."""

Results = Mapping[str, Any]


def spread(values: Sequence[float]) -> float:
    """Return the difference between the largest and the least as a share of the largest."""
    largest = max(values)
    return (largest - min(values)) / largest if largest > 0 else 0.0


def same_cost(rows: Sequence[Results]) -> bool:
    """Return whether the costs of all rows tie."""
    return spread([row["cost_usd"] for row in rows]) <= COST_TIE


def same_times(rows: Sequence[Results]) -> bool:
    """Return whether completion times tie: mean JCTs, and P95 waits.

    A difference of P95 waits that is small beside the mean JCT does not count either.
    """
    jct_s = [row["mean_jct_s"] for row in rows]
    wait_s = [row["p95_wait_s"] for row in rows]
    return spread(jct_s) <= JCT_TIE and (
        spread(wait_s) <= WAIT_TIE or max(wait_s) - min(wait_s) <= JCT_TIE * max(jct_s)
    )


def by_cost(rows: Sequence[Results]) -> list[list[int]]:
    """Return the rows in groups of equal cost, the cheapest first; inside in their order."""
    groups: list[list[int]] = []
    for index in sorted(range(len(rows)), key=lambda i: rows[i]["cost_usd"]):
        if groups and same_cost([rows[groups[-1][0]], rows[index]]):
            groups[-1].append(index)
        else:
            groups.append([index])
    return [sorted(group) for group in groups]


def fastest_of(rows: Sequence[Results]) -> list[int]:
    """Return the row of least mean JCT and those that tie with it, in their order."""
    best = min(range(len(rows)), key=lambda i: rows[i]["mean_jct_s"])
    return [i for i in range(len(rows)) if i == best or same_times([rows[best], rows[i]])]


def non_dominated(cost: FloatArray, jct: FloatArray) -> list[int]:
    """Return the points that no other point dominates, by ascending cost."""
    front: list[int] = []
    for index in map(int, np.lexsort((jct, cost))):
        if not front or jct[index] < jct[front[-1]] or same_point(index, front[-1], cost, jct):
            front.append(index)
    return front


def same_point(first: int, second: int, cost: FloatArray, jct: FloatArray) -> bool:
    """Return whether two points have the same cost and the same completion time."""
    return bool(cost[first] == cost[second] and jct[first] == jct[second])
