"""Share GPUs among jobs exactly: the least sum of costs that each depend on one job's width.

A multiplier on GPUs gives a lower bound, a greedy walk along the jobs' convex hulls a solution, and
their difference bounds how far from its best any width of the optimum can be (variable fixing).
What is left, mostly nothing or a few widths of a few jobs, is decided by a dynamic program.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.heap import new_heap, pop, push
from gpuplan.simkit.jit import kernel

ROUNDING = 1e-12  # relative; costs this close are equal


@kernel
def steepest(cost: Any, width: int) -> Any:
    """Return the wider width to which a job's cost falls most per GPU, and by how much; -1 if none.

    It is the next vertex of the job's lower convex hull, where ``width`` is one.
    """
    wider, gain = -1, 0.0
    for k in range(width + 1, cost.size):
        found = (cost[width] - cost[k]) / (k - width)
        if found > gain:
            wider, gain = k, found
    return wider, gain


@kernel
def allocate(cost: Any, gpus: int) -> Any:
    """Return the widths of least total cost that ``gpus`` suffice for.

    Args:
        cost: of each job at 0, 1, 2, ... GPUs; shape (m, K + 1); infinite where a job cannot have
            that many, never at 0.
        gpus: GPUs to share, at least 0.

    Returns:
        Widths, int64 of shape (m,). A job gets no GPU that does not lower its cost.
    """
    jobs = cost.shape[0]
    width = np.zeros(jobs, np.int64)
    wider = np.empty(jobs, np.int64)
    gain = np.empty(jobs)
    bits = gain.view(np.int64)  # in the order of the gains, since those are not negative
    edges = new_heap()
    for job in range(jobs):
        wider[job], gain[job] = steepest(cost[job], 0)
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
            wider[job], gain[job] = steepest(cost[job], width[job])
            if wider[job] > 0:
                edges = push(edges, -bits[job], job)
        elif multiplier == 0:
            multiplier = gain[job]
    if multiplier > 0:
        improve(cost, gpus, multiplier, width)
    return width


@kernel
def improve(cost: Any, gpus: int, multiplier: float, width: Any) -> None:
    """Make the widths the best that ``gpus`` suffice for, by a dynamic program over what may be.

    With ``bound`` the least cost that any widths can have at this multiplier, a width whose reduced
    cost exceeds its job's least by more than total - bound is in no better solution.
    """
    jobs, most = cost.shape
    least = np.empty(jobs)
    total, bound = 0.0, -multiplier * gpus
    for job in range(jobs):
        least[job] = cost[job, 0]
        for k in range(1, most):
            least[job] = min(least[job], cost[job, k] + multiplier * k)
        total += cost[job, width[job]]
        bound += least[job]
    slack = ROUNDING * (abs(total) + abs(bound))
    gap = total - bound
    if gap <= slack:
        return

    open_jobs = np.empty(jobs, np.int64)
    count, spare, spread = 0, gpus, 0
    narrow = np.empty(jobs, np.int64)
    wide = np.empty(jobs, np.int64)
    for job in range(jobs):
        narrow[job] = -1
        for k in range(most):
            if cost[job, k] + multiplier * k <= least[job] + gap + slack:
                if narrow[job] < 0:
                    narrow[job] = k
                wide[job] = k
        spare -= narrow[job]
        if wide[job] > narrow[job]:
            spread += wide[job] - narrow[job]
            open_jobs[count] = job
            count += 1
        width[job] = narrow[job]

    # best[c]: least cost of the open jobs so far with c GPUs beyond their narrowest widths.
    spare = min(spare, spread)
    best = np.zeros(spare + 1)
    after = np.empty(spare + 1)
    choice = np.empty((count, spare + 1), np.int64)
    for i in range(count):
        job = open_jobs[i]
        for c in range(spare + 1):
            after[c] = np.inf
            for k in range(narrow[job], min(wide[job], narrow[job] + c) + 1):
                if cost[job, k] + multiplier * k > least[job] + gap + slack:
                    continue
                value = best[c - k + narrow[job]] + cost[job, k]
                if value < after[c]:
                    after[c] = value
                    choice[i, c] = k
        best, after = after, best
    c = spare
    for back in range(count):
        i = count - 1 - back
        job = open_jobs[i]
        width[job] = choice[i, c]
        c -= width[job] - narrow[job]
