"""Share GPUs among jobs exactly: the least sum of costs that each depend on one job's width.

A multiplier on GPUs gives a lower bound, a greedy walk along the jobs' convex hulls a solution, and
their difference bounds how far from its best any width of the optimum can be (variable fixing).
What is left, mostly nothing or a few widths of a few jobs, is decided by a dynamic program.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.jit import kernel

ROUNDING = 1e-12  # relative; costs this close are equal


@kernel
def hull(cost: Any, vertices: Any) -> int:
    """Write the vertices of one job's descending lower convex hull; return how many there are."""
    count = 0
    for k in range(cost.size):
        if count and not cost[k] < cost[vertices[count - 1]]:
            continue  # no hull of a cheapest width goes on to a dearer one
        while count > 1:
            a, b = vertices[count - 2], vertices[count - 1]
            if (cost[b] - cost[a]) * (k - a) < (cost[k] - cost[a]) * (b - a):
                break
            count -= 1
        vertices[count] = k
        count += 1
    return count


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
    jobs, most = cost.shape
    width = np.zeros(jobs, np.int64)
    vertices = np.zeros(most, np.int64)
    slope = np.empty(jobs * (most - 1))
    edges = np.empty((jobs * (most - 1), 2), np.int64)  # job, width that it leads to
    found = 0
    for job in range(jobs):
        count = hull(cost[job], vertices)
        for v in range(1, count):
            a, b = vertices[v - 1], vertices[v]
            slope[found] = (cost[job, b] - cost[job, a]) / (b - a)
            edges[found, 0], edges[found, 1] = job, b
            found += 1

    # Along the edges, steepest first; the first that does not fit sets the multiplier.
    closed = np.zeros(jobs, np.bool_)
    free = gpus
    multiplier = 0.0
    for e in np.argsort(slope[:found], kind="mergesort"):
        job, wider = edges[e, 0], edges[e, 1]
        if closed[job]:
            continue
        if wider - width[job] <= free:
            free -= wider - width[job]
            width[job] = wider
        else:
            closed[job] = True
            multiplier = max(multiplier, -slope[e])
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
