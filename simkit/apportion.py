"""Jobs to routes in given shares, one after another, by largest remainder."""

from __future__ import annotations

import numpy as np

from gpuplan.simkit.arrays import FloatArray, IntArray, for_kernels
from gpuplan.simkit.jit import kernel

TIE = 1e-9


def apportion(share: FloatArray, jobs: int) -> IntArray:
    """Return the route of each job, so that every stretch of jobs has about the shares.

    The k-th job goes to the route with the largest ``share * k`` less the jobs it got so far; of
    equal ones, within 1e-9, to the first. Nothing is drawn.

    Args:
        share: of each route, >= 0; they add up to 1; shape (r,).
        jobs: how many.
    """
    if share.ndim != 1 or not share.size or (share < 0).any():
        raise ValueError(f"shares must be numbers of at least 0, got {share}")
    return _apportioned(for_kernels(np.asarray(share, np.float64)), jobs)


@kernel
def _apportioned(share: FloatArray, jobs: int) -> IntArray:
    route = np.zeros(jobs, np.int64)
    assigned = np.zeros(share.size)
    for job in range(jobs):
        best, largest = -1, -np.inf
        for at in range(share.size):
            if share[at] > 0:
                remainder = share[at] * (job + 1) - assigned[at]
                if remainder > largest + TIE:
                    best, largest = at, remainder
        route[job] = best
        assigned[best] += 1
    return route
