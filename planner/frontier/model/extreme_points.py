"""The extreme points of one class: a dynamic program inside a recursion over multipliers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.jit import kernel

PathArray = NDArray[np.int32]

RELATIVE = 1e-12  # differences below this share of a total are rounding, not structure


@kernel
def best_path(
    run_h: FloatArray,
    run_cost: FloatArray,
    cost_per_h: FloatArray,
    rescale_h: float,
    price_of_time: float,
    price_of_cost: float,
    best: FloatArray,
    came_from: PathArray,
    path: PathArray,
) -> None:
    """Fill ``path`` with the candidates that minimize price_of_time x time + price_of_cost x cost.

    A candidate v is a width, on a GPU type if there are several; an hour of it costs
    cost_per_h[v], in GPU-hours or dollars. Epoch j takes run_h[j, v] hours and costs
    run_cost[j, v] (shape (J, V)); the first epoch and every change of candidate add rescale_h
    hours on the new one. ``best`` (V,) and ``came_from`` (J, V) are scratch; ``path`` (J,)
    receives indices of candidates. O(J V): a change always comes from the cheapest predecessor,
    whatever the new candidate is.
    """
    epochs, widths = run_h.shape
    start = price_of_time * rescale_h
    start_per_gpu = price_of_cost * rescale_h
    low = 0.0
    cheapest = -1
    for j in range(epochs):
        for v in range(widths):
            moved = low + start + start_per_gpu * cost_per_h[v]
            stays = j > 0 and best[v] <= moved
            came_from[j, v] = v if stays else cheapest
            best[v] = (best[v] if stays else moved) + (
                price_of_time * run_h[j, v] + price_of_cost * run_cost[j, v]
            )
        low = best[0]
        for v in range(1, widths):
            low = min(low, best[v])
        cheapest = 0
        while best[cheapest] != low:
            cheapest += 1
    at = cheapest
    for j in range(epochs - 1, -1, -1):
        path[j] = at
        at = came_from[j, at]


@kernel
def path_totals(
    run_h: FloatArray,
    run_cost: FloatArray,
    cost_per_h: FloatArray,
    rescale_h: float,
    path: PathArray,
) -> tuple[float, float]:
    """Return the cost and the hours of a job that follows ``path``."""
    cost = 0.0
    time = 0.0
    for j in range(path.size):
        v = path[j]
        cost += run_cost[j, v]
        time += run_h[j, v]
        if j == 0 or v != path[j - 1]:
            cost += rescale_h * cost_per_h[v]
            time += rescale_h
    return cost, time


@kernel
def class_hull(
    run_h: FloatArray, run_cost: FloatArray, cost_per_h: FloatArray, rescale_h: float
) -> tuple[FloatArray, FloatArray, PathArray]:
    """Return the lower convex hull of (cost, hours) over all paths of one class.

    Arguments as in `best_path`. Returns costs (P,) ascending, times (P,) descending, both strictly
    and strictly convex, and the paths (P, J).

    The recursion solves at both ends, then in the direction normal to each adjacent pair: a path
    strictly below the pair's line is a new vertex and splits it, else the pair is an edge. It runs
    depth first and left first, so that vertices are found in order.
    """
    epochs, widths = run_h.shape
    best = np.empty(widths)
    came_from = np.empty((epochs, widths), np.int32)
    size = 64
    cost = np.empty(size)
    time = np.empty(size)
    paths = np.empty((size, epochs), np.int32)
    pending = np.empty(size, np.int64)  # vertices to the right of the current one, nearest last
    hull = np.empty(size, np.int64)

    best_path(run_h, run_cost, cost_per_h, rescale_h, 0.0, 1.0, best, came_from, paths[0])
    cost[0], time[0] = path_totals(run_h, run_cost, cost_per_h, rescale_h, paths[0])
    best_path(run_h, run_cost, cost_per_h, rescale_h, 1.0, 0.0, best, came_from, paths[1])
    cost[1], time[1] = path_totals(run_h, run_cost, cost_per_h, rescale_h, paths[1])
    vertices = 2
    pending[0] = 1
    waiting = 1
    hull[0] = 0
    length = 1
    left = 0
    while waiting:
        right = pending[waiting - 1]
        saved = time[left] - time[right]
        spent = cost[right] - cost[left]
        split = False
        if saved > RELATIVE * time[left] and spent > RELATIVE * cost[right]:
            line = spent * time[left] + saved * cost[left]
            best_path(
                run_h,
                run_cost,
                cost_per_h,
                rescale_h,
                spent,
                saved,
                best,
                came_from,
                paths[vertices],
            )
            c, t = path_totals(run_h, run_cost, cost_per_h, rescale_h, paths[vertices])
            split = spent * t + saved * c < line * (1 - RELATIVE)
        if split:
            cost[vertices] = c
            time[vertices] = t
            pending[waiting] = vertices
            waiting += 1
            vertices += 1
            if vertices == size:
                size *= 2
                cost = np.append(cost, np.empty(vertices))
                time = np.append(time, np.empty(vertices))
                paths = np.append(paths, np.empty((vertices, epochs), np.int32)).reshape(
                    size, epochs
                )
                pending = np.append(pending, np.empty(vertices, np.int64))
                hull = np.append(hull, np.empty(vertices, np.int64))
            continue
        waiting -= 1
        left = right
        # Drop what rounding left: no gain in time, a corner at the same cost, a flat angle.
        if time[hull[length - 1]] - time[right] <= RELATIVE * time[right]:
            continue
        while length and _is_superfluous(cost, time, hull, length, right):
            length -= 1
        hull[length] = right
        length += 1
    return cost[hull[:length]], time[hull[:length]], paths[hull[:length]]


@kernel
def _is_superfluous(
    cost: FloatArray, time: FloatArray, hull: NDArray[np.int64], length: int, right: int
) -> bool:
    """Return whether the hull's last vertex adds nothing once ``right`` follows it."""
    last = hull[length - 1]
    spent = cost[right] - cost[last]
    saved = time[last] - time[right]
    if spent <= RELATIVE * cost[right]:
        return True
    if length == 1:
        return False
    before = hull[length - 2]
    slope_before = (time[before] - time[last]) / (cost[last] - cost[before])
    return bool(saved / spent >= slope_before * (1 - RELATIVE))
