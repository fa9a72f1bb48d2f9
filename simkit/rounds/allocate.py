"""Share GPUs among jobs exactly: the least sum of costs that each depend on one job's width.

A multiplier on GPUs gives a lower bound, a greedy walk along the jobs' convex hulls a solution, and
their difference bounds how far from its best any width of the optimum can be (variable fixing).
What is left, mostly nothing or a few widths of a few jobs, is decided by a dynamic program.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.heap import new_heap, pop, push
from gpuplan.simkit.jit import borrowing_helper, helper, kernel

ROUNDING = 1e-12  # relative; costs this close are equal


@borrowing_helper
def steepest(cost: Any, width: int) -> Any:
    """Return the wider width to which a job's cost falls most per GPU, and by how much; -1 if none.

    It is the next vertex of the job's lower convex hull, where ``width`` is one.
    """
    wider, gain = -1, 0.0
    for k in range(width + 1, cost.size):
        fall = (cost[width] - cost[k]) / (k - width)
        if fall > gain:
            wider, gain = k, fall
    return wider, gain


@kernel
def allocate(cost: Any, kind: Any, gpus: int) -> Any:
    """Return the widths of least total cost that ``gpus`` suffice for.

    Args:
        cost: of each kind of jobs at 0, 1, 2, ... GPUs; shape (C, K + 1); infinite where a job
            cannot have that many, never at 0.
        kind: row of each job; shape (m,). Rows without a job may hold anything.
        gpus: GPUs to share, at least 0.

    Returns:
        Widths, int64 of shape (m,). A job gets no GPU that does not lower its cost.
    """
    jobs = kind.size
    width = np.zeros(jobs, np.int64)
    vertex = np.full(cost.shape, -2, np.int64)  # `steepest` of each kind and width, where known
    slope = np.empty(cost.shape)
    wider = np.empty(jobs, np.int64)
    gain = np.empty(jobs)
    bits = gain.view(np.int64)  # in the order of the gains, since those are not negative
    edges = new_heap()
    for job in range(jobs):
        its = kind[job]
        if vertex[its, 0] == -2:
            vertex[its, 0], slope[its, 0] = steepest(cost[its], 0)
        wider[job], gain[job] = vertex[its, 0], slope[its, 0]
        if wider[job] > 0:
            edges = push(edges, -bits[job], job)

    # Along the edges of the hulls, steepest first; the first that does not fit is the multiplier.
    free = gpus
    multiplier = 0.0
    while edges[0, 0] and free > 0:
        job = edges[1, 1]
        pop(edges)
        if wider[job] - width[job] <= free:
            free -= wider[job] - width[job]
            width[job] = wider[job]
            its, k = kind[job], width[job]
            if vertex[its, k] == -2:
                vertex[its, k], slope[its, k] = steepest(cost[its], k)
            wider[job], gain[job] = vertex[its, k], slope[its, k]
            if wider[job] > 0:
                edges = push(edges, -bits[job], job)
        elif multiplier == 0:
            multiplier = gain[job]
    if multiplier > 0:
        improve(cost, kind, gpus, multiplier, width)
    return width


@helper
def improve(cost: Any, kind: Any, gpus: int, multiplier: float, width: Any) -> None:
    """Make the widths the best that ``gpus`` suffice for, by a dynamic program over what may be.

    With ``bound`` the least cost that any widths can have at this multiplier, a width whose reduced
    cost exceeds its job's least by more than total - bound is in no better solution.
    """
    jobs, (kinds, most) = kind.size, cost.shape
    least = np.full(kinds, np.nan)
    total, bound = 0.0, -multiplier * gpus
    for job in range(jobs):
        its = kind[job]
        if np.isnan(least[its]):
            least[its] = cost[its, 0]
            for k in range(1, most):
                least[its] = min(least[its], cost[its, k] + multiplier * k)
        total += cost[its, width[job]]
        bound += least[its]
    slack = ROUNDING * (abs(total) + abs(bound))
    gap = total - bound
    if gap <= slack:
        return

    open_jobs = np.empty(jobs, np.int64)
    count, spare, spread = 0, gpus, 0
    narrow = np.full(kinds, -1, np.int64)
    wide = np.empty(kinds, np.int64)
    for job in range(jobs):
        its = kind[job]
        if narrow[its] < 0:
            for k in range(most):
                if cost[its, k] + multiplier * k <= least[its] + gap + slack:
                    if narrow[its] < 0:
                        narrow[its] = k
                    wide[its] = k
        spare -= narrow[its]
        if wide[its] > narrow[its]:
            spread += wide[its] - narrow[its]
            open_jobs[count] = job
            count += 1
        width[job] = narrow[its]

    # best[c]: least cost of the open jobs so far with c GPUs beyond their narrowest widths.
    spare = min(spare, spread)
    best = np.zeros(spare + 1)
    after = np.empty(spare + 1)
    choice = np.empty((count, spare + 1), np.int64)
    for i in range(count):
        its = kind[open_jobs[i]]
        for c in range(spare + 1):
            after[c] = np.inf
            for k in range(narrow[its], min(wide[its], narrow[its] + c) + 1):
                if cost[its, k] + multiplier * k > least[its] + gap + slack:
                    continue
                value = best[c - k + narrow[its]] + cost[its, k]
                if value < after[c]:
                    after[c] = value
                    choice[i, c] = k
        best, after = after, best
    c = spare
    for back in range(count):
        i = count - 1 - back
        job = open_jobs[i]
        width[job] = choice[i, c]
        c -= width[job] - narrow[kind[job]]
