"""A round of a small cluster by dynamic programming over the GPUs in use of each type: exact."""

from __future__ import annotations

import math

import numpy as np

from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray
from gpuplan.simkit.rounds.least_loss import least_of_states

MOST_CELLS = 6_000_000
"""Jobs x types x states up to which this is faster than a search tree."""


def states_of(width: IntArray, gpus: IntArray) -> IntArray:
    """Return how many gangs of the greatest common width each type holds."""
    found: IntArray = gpus // np.gcd.reduce(width)
    return found


def is_small(width: IntArray, gpus: IntArray) -> bool:
    """Return whether a round has few enough states."""
    states = math.prod((states_of(width, gpus) + 1).tolist())
    return bool(width.size * gpus.size * states <= MOST_CELLS)


def fill_least(cost: FloatArray, width: IntArray, most: int) -> tuple[FloatArray, BoolArray]:
    """Return the least cost of filling 0, 1, ..., ``most`` GPUs, and which jobs do.

    Returns:
        The costs, infinite where no jobs fill as many; and whether each job is the last one taken
        for each number of GPUs among it and those before it; shape (m, most + 1).
    """
    best = np.full(most + 1, np.inf)
    best[0] = 0.0
    chosen = np.zeros((width.size, most + 1), bool)
    for j, (each, wide) in enumerate(zip(cost.tolist(), width.tolist(), strict=True)):
        if wide > most:
            continue
        found = best[:-wide] + each
        better = found < best[wide:]
        chosen[j, wide:] = better
        best[wide:] = np.where(better, found, best[wide:])
    return best, chosen


def solve_small(cost: FloatArray, width: IntArray, gpus: IntArray) -> IntArray:
    """Return the type of each job, -1 to wait: most GPUs in use, then least cost.

    Args:
        cost: of each job on each type, infinite where it cannot run; shape (m, T).
        width: GPUs of each job; shape (m,).
        gpus: of each type; shape (T,).
    """
    each, held = int(np.gcd.reduce(width)), states_of(width, gpus)
    wide = (width // each).tolist()
    costs = np.where(np.isfinite(cost), cost, np.inf)
    flat, choice = least_of_states(costs, width // each, held)
    best, choice = flat.reshape(held + 1), choice.reshape(width.size, *(held + 1))
    used = np.indices(best.shape).sum(axis=0)
    most = used[np.isfinite(best)].max()
    state = list(np.unravel_index(np.where(used == most, best, np.inf).argmin(), best.shape))
    kind = np.full(width.size, -1, np.int64)
    for j in range(width.size - 1, -1, -1):
        i = int(choice[(j, *state)])
        if i >= 0:
            kind[j] = i
            state[i] -= wide[j]
    return kind
