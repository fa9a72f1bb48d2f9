"""One round: which jobs run on which GPU type, at least total cost, with as many GPUs as can be.

Source: FFT (Fast and Fair Training), equations (1), (6) and (7):

    minimize sum c[j, i] x[j, i],  sum_i x[j, i] <= 1,  sum_j d[j] x[j, i] <= Y[i],  sum d x >= K

with x of 0 and 1. Prices of the types (lam) and of a GPU in use (kap) give the Lagrangian bound
``sum_j min(0, min_i c + d (lam_i - kap)) - lam Y + kap K``, which no allocation is below.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.planner.policies.mixed.gang_packing import (
    Packing,
    fill,
    fill_least,
    is_small,
    pack_gangs,
    solve_small,
)
from gpuplan.planner.solver.linear_program import Program, solve
from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray
from gpuplan.simkit.rounds.least_loss import least_loss
from gpuplan.simkit.rounds.transport import transport

FAST_GAP = 1e-3
EXACT_GAP = 1e-9
FILLED = (50, 100, 100, *(200, 400, 150) * 11)
"""Jobs near a change of type that are assigned anew, in each attempt."""
WITHOUT_NOISE, NOISE = 8, 0.02
"""After so many attempts losses are drawn with this deviation, a share of the gap allowed."""
CANDIDATES = 60
"""Jobs near a change that fill, type by type, the GPUs that the others leave, for each attempt."""
NARROW = 1
"""Widths of gangs that fill what others leave; as many of them are solved for."""
PART = -2
ATTEMPTS, WIDER = 20, 4.0
"""Losses allowed in turn: from 0.1% of the bound on, each so many times the last. There are many,
as the cost of a round is near 0 where debts are large."""
FEW_LABELS, MOST_LABELS = 50_000, 1_000_000
"""Of a search before and after attempts at a result within the gap."""
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
        gpus_used = np.bincount(cheapest, weights=width, minlength=gpus.size)
        if (gpus_used <= gpus).all():  # all jobs run, each where it costs least
            value, none = float(each.sum()), np.zeros(gpus.size + 1)
            return RoundAnswer(cheapest, int(width.sum()), value, value, none, True)
    if width.size and is_small(width, gpus):
        kind = solve_small(cost, width, gpus)
        runs = np.flatnonzero(kind >= 0)
        value = float(cost[runs, kind[runs]].sum())
        none = np.zeros(gpus.size + 1)
        return RoundAnswer(kind, int(width[runs].sum()), value, value, none, True)
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
    gpus_used = np.bincount(cheapest[useful], weights=width[useful], minlength=gpus.size)
    if (gpus_used <= gpus).all():
        return cheapest, True
    if is_small(width[useful], gpus):
        kind[useful] = solve_small(cost[useful], width[useful], gpus, fills=False)
        return kind, True
    none = Packing(0, width[:0], np.zeros((0, gpus.size), bool), width[:0], width[:0])
    problem = _RoundProblem(cost, width, gpus, none)
    free = _program_of(problem, np.flatnonzero(useful), np.isfinite(cost), gpus, -np.inf)
    room = FAST_GAP * float(-cost[useful].min(axis=1).sum())
    solution = solve(free.program, is_integer=True, gap=room, most_nodes=MOST_NODES)
    if solution is None:
        return kind, False
    return free.kinds(solution.x, kind), solution.is_optimal


def lagrangian_bound(
    cost: FloatArray, width: IntArray, gpus: IntArray, least: int, prices: FloatArray
) -> float:
    """Return a bound on the cost of any allocation; ``prices`` as in `RoundAnswer`."""
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
        prices, relaxed = self._relaxed(prices)
        bound = lagrangian_bound(self.cost, self.width, self.gpus, self.packing.gpus, prices)
        reduced = self.cost + self.width[:, None] * (prices[:-1] - prices[-1])
        best, value = np.zeros(0, np.int64), np.inf
        searched = self._searched(prices, reduced, bound, gap, MOST_LABELS if exact else FEW_LABELS)
        if searched is not None:
            return self._answer(searched, self._cost_of(searched), prices, gap)
        draws = np.random.default_rng(0)
        attempts = FILLED[: 4 if exact else None] if m > 2 * FILLED[0] else ()
        for attempt, many in enumerate(attempts):
            noise = gap * abs(bound) * NOISE if attempt >= WITHOUT_NOISE else 0.0
            choice = self._filled(relaxed, reduced, many, draws, noise)
            if choice is not None and self._cost_of(choice) < value:
                best, value = choice, self._cost_of(choice)
                if value - bound <= gap * abs(value):
                    return self._answer(best, bound, prices, gap)
        searched = None if exact else self._searched(prices, reduced, bound, gap, MOST_LABELS)
        if searched is not None:
            return self._answer(searched, self._cost_of(searched), prices, gap)
        if value == np.inf:
            best = fill(self.packing, self.cost)
            value = self._cost_of(best)
        room = gap * abs(value) if exact else 0.5 * gap * abs(bound)
        columns = np.isfinite(self.cost)
        if value - bound < np.inf:  # a column that costs more than the gap is in no better answer
            slack = reduced - np.minimum(reduced.min(axis=1), 0.0)[:, None]
            columns &= slack <= (value - bound) * (1 + 1e-9) + 1e-9
        free = _program_of(self, np.arange(m), columns, self.gpus, self.packing.gpus)
        solved = solve(free.program, is_integer=True, gap=room, most_nodes=MOST_NODES)
        if solved is not None:
            kind = free.kinds(solved.x, np.full(m, -1, np.int64))
            if self._cost_of(kind) <= value:
                best, value = kind, self._cost_of(kind)
            bound = max(bound, min(solved.bound, value))
        return self._answer(best, bound, prices, gap)

    def _searched(
        self, prices: FloatArray, reduced: FloatArray, bound: float, gap: float, labels: int
    ) -> IntArray | None:
        """Return the best allocation, by `least_loss` with ever more loss; None if it gives up."""
        least = np.minimum(reduced.min(axis=1), 0.0)
        loss = np.column_stack((reduced - least[:, None], -least))
        most = max(FAST_GAP, gap) * max(abs(bound), 1e-9)
        for _ in range(ATTEMPTS):
            near = loss <= most
            choice = loss.argmin(axis=1)
            free = np.flatnonzero(near.sum(axis=1) > 1)
            fixed = choice.copy()
            fixed[free] = self.gpus.size
            on = fixed < self.gpus.size
            gpus_used = np.bincount(
                fixed[on], weights=self.width[on], minlength=self.gpus.size
            ).astype(np.int64)
            if (gpus_used <= self.gpus).all():
                kinds, ended = least_loss(
                    loss[free],
                    self.width[free],
                    self.gpus - gpus_used,
                    prices[:-1],
                    self.packing.gpus - int(gpus_used.sum()),
                    most,
                    labels,
                )
                if kinds is not None:
                    choice[free] = kinds
                    return np.where(choice == self.gpus.size, -1, choice)
                if not ended:
                    return None
            most *= WIDER
        return None

    def _answer(self, kind: IntArray, bound: float, prices: FloatArray, gap: float) -> RoundAnswer:
        value = self._cost_of(kind)
        bound = min(bound, value)
        close = value - bound <= gap * max(abs(value), 1e-9) * (1 + 1e-9)
        return RoundAnswer(kind, self.packing.gpus, value, bound, prices, close)

    def _cost_of(self, kind: IntArray) -> float:
        runs = np.flatnonzero(kind >= 0)
        return float(self.cost[runs, kind[runs]].sum())

    def _relaxed(self, prices: FloatArray | None) -> tuple[FloatArray, IntArray]:
        """Return optimal prices of the relaxation, in which parts of jobs may run, and its types.

        The type of a job of which parts run is `PART`. Parts are GPUs, or as many as the greatest
        width that all gangs are multiples of; what then cannot be in use is idle on any type.
        """
        m, each = self.width.size, int(np.gcd.reduce(self.width))
        supply, gpus, used = self.width // each, self.gpus // each, self.packing.gpus // each
        unit = np.column_stack((self.cost / self.width[:, None], np.zeros(m)))
        if prices is None:  # as if all types were one
            cheapest = unit[:, :-1].min(axis=1)
            order = np.argsort(cheapest, kind="stable")
            last = min(int(np.searchsorted(supply[order].cumsum(), used)), m - 1)
            at_last = cheapest[order[last]]
            prices = np.append(np.zeros(gpus.size), at_last if np.isfinite(at_last) else 0.0)
        start = np.append(prices[:-1] - prices[-1], 0.0)
        idle = np.append(np.zeros(gpus.size), np.inf)
        flow, price, is_found = transport(
            np.vstack((unit, idle)),
            np.append(supply, gpus.sum() - used),
            np.append(gpus, supply.sum() - used),
            start,
        )
        if not is_found:
            raise RuntimeError("a relaxation that has a solution was not solved")
        parts = flow[:-1] > 0
        kind = np.where(parts.sum(axis=1) > 1, PART, parts.argmax(axis=1))
        kind[kind == gpus.size] = -1
        return price - price[:-1].min(), kind

    def _filled(
        self,
        relaxed: IntArray,
        reduced: FloatArray,
        many: int,
        draws: np.random.Generator,
        noise: float,
    ) -> IntArray | None:
        """Fill types one by one with jobs near a change, at least loss against the prices.

        The loss of a job on a type is its reduced cost over the least on the types that are still
        to be filled, or waiting. Which jobs fill a type is a small dynamic program. Returns None
        where no jobs fill a type, or not all GPUs can be in use. The order of the types is
        drawn; with ``noise`` the losses are too, so that attempts differ.
        """
        if self.packing.gpus < self.gpus.sum():
            return None
        width, kind = self.width, relaxed.copy()
        ranked = np.partition(np.column_stack((reduced, np.zeros(width.size))), 1, axis=1)
        regret = np.where(relaxed == PART, 0.0, ranked[:, 1] - ranked[:, 0])
        nearest = np.argsort(regret, kind="stable")
        narrow = nearest[width[nearest] <= NARROW]
        free = np.union1d(np.union1d(nearest[:many], narrow[:many]), np.flatnonzero(kind == PART))
        order = draws.permutation(self.gpus.size)
        kind[free] = -1
        on = kind >= 0
        gpus_used = np.bincount(kind[on], weights=width[on], minlength=self.gpus.size)
        left = (self.gpus - gpus_used).astype(np.int64)
        if (left < 0).any():
            return None
        for at, i in enumerate(order.tolist()):
            able = free[(kind[free] < 0) & np.isfinite(self.cost[free, i])]
            least_elsewhere = reduced[np.ix_(able, order[at + 1 :])].min(axis=1, initial=0.0)
            loss = reduced[able, i] - least_elsewhere + draws.normal(0.0, noise, able.size)
            best = np.argsort(loss, kind="stable")
            ones = best[width[able[best]] <= NARROW]
            jobs = np.union1d(best[:CANDIDATES], ones[: CANDIDATES // 3])
            least, chosen = fill_least(loss[jobs], width[able[jobs]], int(left[i]))
            used = int(left[i])
            if not np.isfinite(least[used]):
                return None
            for place in range(jobs.size - 1, -1, -1):
                if chosen[place, used]:
                    kind[able[jobs[place]]] = i
                    used -= int(width[able[jobs[place]]])
        return kind


@dataclass(frozen=True, slots=True)
class _JobColumns:
    program: Program
    job: IntArray
    kind: IntArray

    def kinds(self, x: FloatArray, kind: IntArray) -> IntArray:
        """Return the types of all jobs; those of other jobs stay as in ``kind``."""
        is_chosen = x[: self.job.size] > 0.5
        kinds = kind.copy()
        kinds[self.job[is_chosen]] = self.kind[is_chosen]
        return kinds


def _program_of(
    problem: _RoundProblem,
    jobs: IntArray,
    columns: BoolArray,
    gpus: FloatArray | IntArray,
    least: float,
) -> _JobColumns:
    """Return the program of some jobs on some of their types.

    Rows: a job runs once, for each; GPUs of each type; GPUs in use.
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
    least_rows = np.full(alone + types + 1, -np.inf)
    least_rows[-1] = least
    most_rows = np.concatenate((np.ones(alone), gpus, [np.inf]))
    return _JobColumns(Program(cost, upper, start, index, value, least_rows, most_rows), job, kind)
