"""How whole gangs fill GPUs, each on GPUs of one type: at most, and at least cost.

The most GPUs in use is K(t) of FFT (Fast and Fair Training), equation (7). Jobs of one width and
one set of allowed types are a class; the number of jobs of each class on each type is a small
integer program. A round of a small cluster is solved exactly, by dynamic programming over the GPUs
in use of each type.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpuplan.planner.solver.linear_program import Program, solve
from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray
from gpuplan.simkit.rounds.least_loss import least_of_states

MOST_NODES = 20_000
MOST_CELLS = 6_000_000
"""Jobs x types x states up to which this is faster than a search tree."""


@dataclass(frozen=True, slots=True)
class Packing:
    """The most GPUs that gangs fill.

    Attributes:
        gpus: in use.
        width: of each class, widest first; shape (C,).
        allowed: types of each class; shape (C, T).
        jobs: of each class on each type; shape (C, T).
        member: class of each job; shape (m,).
        is_proven: whether no packing fills more; False where the search met its limit.
    """

    gpus: int
    width: IntArray
    allowed: BoolArray
    jobs: IntArray
    member: IntArray
    is_proven: bool = True


def pack_gangs(width: IntArray, allowed: BoolArray, gpus: IntArray) -> Packing:
    """Return the most GPUs that gangs can fill.

    Args:
        allowed: whether a job may run on a type; shape (m, T).
    """
    allowed = allowed & (width[:, None] <= gpus)
    code = width.max(initial=0) - width
    for column in allowed.T:  # one number for a row: `np.unique` of rows is slow
        code = 2 * code + column
        if code.max(initial=0) > 2**60:
            code = np.unique(code, return_inverse=True)[1]
    _, first, member, count = np.unique(
        code, return_index=True, return_inverse=True, return_counts=True
    )
    each, may = width[first], allowed[first]
    jobs = _greedy(each, may, count, gpus)
    value, most = int(each @ jobs.sum(axis=1)), _upper(each, may, count, gpus)
    if value < most:
        better, proven = _exact(each, may, count, gpus)
        if better is not None and each @ better.sum(axis=1) >= value:
            jobs, value = better, int(each @ better.sum(axis=1))
        return Packing(value, each, may, jobs, member.reshape(-1), proven)
    return Packing(value, each, may, jobs, member.reshape(-1))


def _greedy(each: IntArray, may: BoolArray, count: IntArray, gpus: IntArray) -> IntArray:
    """Fill the types with the widest gangs first, those with fewest choices before others."""
    free, jobs = gpus.copy(), np.zeros(may.shape, np.int64)
    for c in np.lexsort((may.sum(axis=1), -each)):
        left = int(count[c])
        for i in sorted(np.flatnonzero(may[c]).tolist(), key=lambda i: (free[i] % each[c], i)):
            take = min(left, int(free[i] // each[c]))
            jobs[c, i], left = take, left - take
            free[i] -= take * each[c]
    return jobs


def _upper(each: IntArray, may: BoolArray, count: IntArray, gpus: IntArray) -> int:
    """Return a bound: each type at most its largest sum of widths, all at most the demand."""
    reach = 0
    for i, most in enumerate(gpus.tolist()):
        sums = 1  # bit g: a sum of g GPUs
        for width, many in zip(each[may[:, i]].tolist(), count[may[:, i]].tolist(), strict=True):
            step = 1
            many = min(many, most // width)
            while many > 0:  # so many of this width, in powers of two
                take = min(step, many)
                sums |= sums << (take * width)
                many, step = many - take, step * 2
            sums &= (1 << (most + 1)) - 1
        reach += sums.bit_length() - 1
    return min(reach, int((each * count)[may.any(axis=1)].sum()))


def _exact(
    each: IntArray, may: BoolArray, count: IntArray, gpus: IntArray
) -> tuple[IntArray | None, bool]:
    group, kind = np.nonzero(may)
    classes = each.size
    program = Program(
        cost=-each[group].astype(np.float64),
        upper=count[group].astype(np.float64),
        start=np.arange(0, 2 * group.size + 1, 2),
        row=np.column_stack((group, classes + kind)).reshape(-1),
        value=np.column_stack((np.ones(group.size), each[group])).reshape(-1).astype(np.float64),
        least=np.full(classes + gpus.size, -np.inf),
        most=np.concatenate((count, gpus)).astype(np.float64),
    )
    solution = solve(program, is_integer=True, gap=0.5, most_nodes=MOST_NODES)
    if solution is None:
        return None, False
    jobs = np.zeros(may.shape, np.int64)
    jobs[group, kind] = np.rint(solution.x)
    return jobs, solution.is_optimal


def fill(packing: Packing, cost: FloatArray) -> IntArray:
    """Return the type of each job, or -1, in an allocation that fills as many GPUs.

    The cheapest jobs of each class run, each class filling its most expensive differences first; no
    better than a start. ``cost``: of each job on each type; shape (m, T).
    """
    chosen = np.full(packing.member.size, -1, np.int64)
    for c in range(packing.width.size):
        members = np.flatnonzero(packing.member == c)
        for i in np.flatnonzero(packing.jobs[c]):
            free = members[chosen[members] < 0]
            cheapest = free[np.argsort(cost[free, i], kind="stable")[: packing.jobs[c, i]]]
            chosen[cheapest] = i
    return chosen


def states_of(width: IntArray, gpus: IntArray) -> IntArray:
    """Return how many gangs of the greatest common width each type holds."""
    states: IntArray = gpus // np.gcd.reduce(width)
    return states


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
        total = best[:-wide] + each
        better = total < best[wide:]
        chosen[j, wide:] = better
        best[wide:] = np.where(better, total, best[wide:])
    return best, chosen


def solve_small(
    cost: FloatArray, width: IntArray, gpus: IntArray, *, fills: bool = True
) -> IntArray:
    """Return the type of each job, -1 to wait: most GPUs in use, then least cost.

    Args:
        fills: False to seek the least cost alone.
        cost: of each job on each type, infinite where it cannot run; shape (m, T).
        width: GPUs of each job; shape (m,).
        gpus: of each type; shape (T,).
    """
    each, held = int(np.gcd.reduce(width)), states_of(width, gpus)
    wide = (width // each).tolist()
    costs = np.where(np.isfinite(cost), cost, np.inf)
    flat, choice = least_of_states(costs, width // each, held)
    best, choice = flat.reshape(held + 1), choice.reshape(width.size, *(held + 1))
    if fills:
        used = np.indices(best.shape).sum(axis=0)
        best = np.where(used == used[np.isfinite(best)].max(), best, np.inf)
    state = list(np.unravel_index(best.argmin(), best.shape))
    kind = np.full(width.size, -1, np.int64)
    for j in range(width.size - 1, -1, -1):
        i = int(choice[(j, *state)])
        if i >= 0:
            kind[j] = i
            state[i] -= wide[j]
    return kind
