"""One round: which jobs run on which GPU type, at least total cost, with as many GPUs as can be.

Source: FFT (Fast and Fair Training), equations (1), (6) and (7):

    minimize sum c[j, i] x[j, i],  sum_i x[j, i] <= 1,  sum_j d[j] x[j, i] <= Y[i],  sum d x >= K

with x of 0 and 1. Prices of the types (lam) and of a GPU in use (kap) give the Lagrangian bound
``sum_j min(0, min_i c + d (lam_i - kap)) - lam Y + kap K``, which no allocation is below.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.planner.policies.mixed.gang_packing import Packing, fill, pack_gangs
from gpuplan.planner.policies.mixed.linear_program import Program, solve
from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray

FAST_GAP = 1e-3
EXACT_GAP = 1e-9
SAMPLE = 240
MOST_NODES = 50_000


@dataclass(frozen=True, slots=True)
class RoundAnswer:
    """An allocation and how good it is.

    Attributes:
        kind: type of each job, -1 to wait; shape (m,).
        gpus: in use, K(t).
        objective: its cost.
        bound: no allocation costs less.
        prices: of a GPU of each type, then of a GPU in use; shape (T + 1,).
        is_within: whether the objective is as close to the bound as was asked for.
    """

    kind: IntArray
    gpus: int
    objective: float
    bound: float
    prices: FloatArray
    is_within: bool

    @property
    def gap(self) -> float:
        """Distance from the bound, relative to the objective."""
        return (self.objective - self.bound) / max(abs(self.objective), 1e-12)


def solve_round(
    cost: FloatArray,
    width: IntArray,
    gpus: IntArray,
    *,
    exact: bool = False,
    prices: FloatArray | None = None,
) -> RoundAnswer:
    """Solve a round.

    Args:
        cost: of each job on each type, infinite where it cannot run; shape (m, T).
        width: GPUs of each job, >= 1; shape (m,).
        gpus: of each type; shape (T,).
        exact: to proven optimality; else within `FAST_GAP`.
        prices: of the last round, to start from.
    """
    cheapest = cost.argmin(axis=1) if cost.size else np.zeros(0, np.int64)
    rows = np.arange(width.size)
    if np.isfinite(each := cost[rows, cheapest]).all():
        taken = np.bincount(cheapest, weights=width, minlength=gpus.size)
        if (taken <= gpus).all():  # all jobs run, each where it costs least
            value, none = float(each.sum()), np.zeros(gpus.size + 1)
            return RoundAnswer(cheapest, int(width.sum()), value, value, none, True)
    allowed = np.isfinite(cost)
    packing = pack_gangs(width, allowed, gpus)
    cost = np.where(allowed & (width[:, None] <= gpus), cost, np.inf)
    problem = _RoundProblem(cost, width, gpus, packing)
    return problem.solve(EXACT_GAP if exact else FAST_GAP, exact, prices)


def assign_types(cost: FloatArray, width: IntArray, gpus: IntArray) -> tuple[IntArray, bool]:
    """Return the types at least total cost, where a job that waits costs nothing, and the proof.

    Only jobs with a type of negative cost run. Arguments are those of `solve_round`; the second
    value is whether the optimum is proven.
    """
    cost = np.where((cost < 0) & (width[:, None] <= gpus), cost, np.inf)
    kind = np.full(width.size, -1, np.int64)
    useful = np.isfinite(cost).any(axis=1)
    cheapest = np.where(useful, cost.argmin(axis=1) if cost.size else 0, -1)
    taken = np.bincount(cheapest[useful], weights=width[useful], minlength=gpus.size)
    if (taken <= gpus).all():
        return cheapest, True
    none = Packing(0, width[:0], np.zeros((0, gpus.size), bool), width[:0], width[:0])
    problem = _RoundProblem(cost, width, gpus, none)
    free = _program_of(problem, np.flatnonzero(useful), np.isfinite(cost), gpus, -np.inf)
    room = FAST_GAP * float(-cost[useful].min(axis=1).sum())
    found = solve(free.program, whole=True, gap=room, most_nodes=MOST_NODES)
    if found is None:
        return kind, False
    return free.kinds(found.x, kind), found.is_optimal


def lagrangian_bound(
    cost: FloatArray, width: IntArray, gpus: IntArray, least: int, prices: FloatArray
) -> float:
    """Return a bound on the cost of any allocation; ``prices`` as in `RoundAnswer`, >= 0."""
    reduced = cost + width[:, None] * (prices[:-1] - prices[-1])
    best = np.minimum(reduced.min(axis=1, initial=np.inf), 0.0)
    return float(best.sum() - prices[:-1] @ gpus + prices[-1] * least)


@dataclass(frozen=True, slots=True)
class _RoundProblem:
    cost: FloatArray
    width: IntArray
    gpus: IntArray
    packing: Packing

    def solve(self, gap: float, exact: bool, prices: FloatArray | None) -> RoundAnswer:
        m, types = self.cost.shape
        if not m or self.packing.gpus == 0:
            return self._answer(np.full(m, -1, np.int64), 0.0, np.zeros(types + 1), gap)
        prices = self._relaxed(prices)
        bound = lagrangian_bound(self.cost, self.width, self.gpus, self.packing.gpus, prices)
        start = fill(self.packing, self.cost)
        best, value = start, self._cost_of(start)
        reduced = self.cost + self.width[:, None] * (prices[:-1] - prices[-1])
        spread = float(np.abs(self.cost[np.isfinite(self.cost)]).mean())
        for share in (0.02, 0.1, 0.5) if m > 4 * SAMPLE else ():
            found = self._around(reduced, share * spread, gap * abs(bound) / 2)
            if found is not None and self._cost_of(found) < value:
                best, value = found, self._cost_of(found)
            if value - bound <= gap * abs(value):
                return self._answer(best, bound, prices, gap)
        room = gap * abs(value) if exact else 0.5 * gap * abs(bound)
        columns = np.isfinite(self.cost)
        if value - bound < np.inf:  # a column that costs more than the gap is in no better answer
            slack = reduced - np.minimum(reduced.min(axis=1), 0.0)[:, None]
            columns &= slack <= (value - bound) * (1 + 1e-9) + 1e-9
        free = _program_of(self, np.arange(m), columns, self.gpus, self.packing.gpus)
        solved = solve(free.program, whole=True, gap=room, most_nodes=MOST_NODES)
        if solved is not None:
            kind = free.kinds(solved.x, np.full(m, -1, np.int64))
            if self._cost_of(kind) <= value:
                best, value = kind, self._cost_of(kind)
            bound = max(bound, min(solved.bound, value))
        return self._answer(best, bound, prices, gap)

    def _answer(self, kind: IntArray, bound: float, prices: FloatArray, gap: float) -> RoundAnswer:
        value = self._cost_of(kind)
        bound = min(bound, value)
        close = value - bound <= gap * max(abs(value), 1e-9) * (1 + 1e-9)
        return RoundAnswer(kind, self.packing.gpus, value, bound, prices, close)

    def _cost_of(self, kind: IntArray) -> float:
        runs = np.flatnonzero(kind >= 0)
        return float(self.cost[runs, kind[runs]].sum())

    def _relaxed(self, prices: FloatArray | None) -> FloatArray:
        """Return optimal prices of the relaxation, in which parts of jobs may run.

        Columns are added to a program of a few until no other is worth it; it begins with those
        near the prices of the last round, or of a sample of the jobs.
        """
        m = self.width.size
        usable = np.isfinite(self.cost)
        if m <= 2 * SAMPLE:
            return self._priced(usable)[0]
        if prices is None:
            prices = self._sampled()
        spread = float(np.abs(self.cost[usable]).mean())
        reduced = self._reduced(prices)
        near = reduced - np.minimum(reduced.min(axis=1), 0.0)[:, None]
        columns = usable & (near <= 0.02 * spread)
        for _ in range(20):
            found, value = self._priced(columns)
            bound = lagrangian_bound(self.cost, self.width, self.gpus, self.packing.gpus, found)
            if value - bound <= 1e-5 * abs(bound):
                return found
            reduced = self._reduced(found)
            columns |= usable & (reduced <= np.minimum(reduced.min(axis=1), 0.0)[:, None])
        return found

    def _reduced(self, prices: FloatArray) -> FloatArray:
        return self.cost + self.width[:, None] * (prices[:-1] - prices[-1])

    def _sampled(self) -> FloatArray:
        m = self.width.size
        some = np.linspace(0, m - 1, SAMPLE).astype(np.int64)
        part = SAMPLE / m
        allowed = np.isfinite(self.cost)
        columns = np.zeros_like(allowed)
        columns[some] = allowed[some]
        return self._priced(columns, part)[0]

    def _priced(self, columns: BoolArray, part: float = 1.0) -> tuple[FloatArray, float]:
        """Return prices of a relaxation on some columns, and its value.

        A free GPU may fill what the columns cannot, at a high cost.
        """
        free = _program_of(
            self, np.arange(self.width.size), columns, self.gpus * part, self.packing.gpus * part,
            spare=True,
        )  # fmt: skip
        solved = solve(free.program)
        if solved is None:
            raise RuntimeError("HiGHS found no solution of a relaxation that has one")
        dual = np.abs(solved.dual[-self.gpus.size - 1 :])
        return dual, solved.objective

    def _around(self, reduced: FloatArray, margin: float, room: float) -> IntArray | None:
        """Solve for the jobs that prices leave undecided; None where the others take too much."""
        m = self.width.size
        ranked = np.partition(np.column_stack((reduced, np.zeros(m))), 1, axis=1)[:, :2]
        open_ = ranked[:, 1] - ranked[:, 0] < margin
        kind = np.where(reduced.min(axis=1) < 0, reduced.argmin(axis=1), -1)
        kind[open_] = -1
        runs = kind >= 0
        taken = np.bincount(kind[runs], weights=self.width[runs], minlength=self.gpus.size)
        left = self.gpus - taken
        if (left < 0).any() or not open_.any():
            return None
        jobs = np.flatnonzero(open_)
        columns = np.isfinite(self.cost)
        columns &= reduced <= np.minimum(reduced.min(axis=1), 0.0)[:, None] + 3 * margin
        free = _program_of(self, jobs, columns, left, self.packing.gpus - taken.sum())
        solved = solve(free.program, whole=True, gap=room, most_nodes=200)
        return None if solved is None else free.kinds(solved.x, kind)


@dataclass(frozen=True, slots=True)
class _JobColumns:
    program: Program
    job: IntArray
    kind: IntArray

    def kinds(self, x: FloatArray, kind: IntArray) -> IntArray:
        """Return the types of all jobs; those of other jobs stay as in ``kind``."""
        taken = x[: self.job.size] > 0.5
        found = kind.copy()
        found[self.job[taken]] = self.kind[taken]
        return found


def _program_of(
    problem: _RoundProblem,
    jobs: IntArray,
    columns: BoolArray,
    gpus: FloatArray | IntArray,
    least: float,
    *,
    spare: bool = False,
) -> _JobColumns:
    """Return the program of some jobs on some of their types.

    Rows: a job runs once, for each; GPUs of each type; GPUs in use. ``spare`` adds a column that
    fills GPUs at a cost above all others.
    """
    row, kind = np.nonzero(columns[jobs])
    job = jobs[row]
    used, row = np.unique(row, return_inverse=True)
    width = problem.width[job].astype(np.float64)
    types, alone = problem.gpus.size, used.size
    cost = problem.cost[job, kind]
    index = np.column_stack((row, alone + kind, np.full(row.size, alone + types))).reshape(-1)
    value = np.column_stack((np.ones(row.size), width, width)).reshape(-1)
    start = np.arange(0, 3 * row.size + 1, 3)
    upper = np.ones(row.size)
    if spare:
        cost = np.append(cost, 10 * np.abs(cost).max(initial=1.0))
        index, value = np.append(index, alone + types), np.append(value, 1.0)
        start, upper = np.append(start, index.size), np.append(upper, np.inf)
    least_rows = np.full(alone + types + 1, -np.inf)
    least_rows[-1] = least
    most_rows = np.concatenate((np.ones(alone), gpus, [np.inf]))
    return _JobColumns(Program(cost, upper, start, index, value, least_rows, most_rows), job, kind)
