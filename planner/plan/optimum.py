"""Solve the program of a plan over groups of bins, exact for the bins."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np

from gpuplan.planner.plan.partition import BinGroups, around, turns
from gpuplan.planner.plan.program import PlanOptimum, PlanProgram, cost_of
from gpuplan.planner.plan.program_groups import (
    EXACT,
    first_partition,
    groups_for,
    run_in_groups,
    runs_at_once,
)
from gpuplan.planner.plan.warm_start import (
    DONE,
    GPUS,
    RENTED,
    WORK,
    Part,
    ProgramStart,
    start_of,
)
from gpuplan.planner.solver.linear_program import (
    AT_LOWER,
    Program,
    ProgramSolution,
    SimplexBasis,
    solve,
)
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.plan.deferral import run_deferred

AT_ONCE = 1e-7
"""Relative; deferred work in a bin this close to the GPUs that are paid for is on neither side."""
MOST_ROUNDS = 100
MOST_REACH = 16
"""Bins on each side of a turn that become groups of their own, in the last rounds."""
SHARES, TIME = ("share", 0), ("time", 0)
"""The first columns, in a start those of all routes; and the row of a bound on the mean time."""


def optimum(
    program: PlanProgram,
    start: ProgramStart | None = None,
    *,
    committed: FloatArray | None = None,
    is_for_time: bool = False,
) -> PlanOptimum | None:
    """Return the least dollars, or the least mean time; None where nothing meets the limits.

    Args:
        program: the program.
        start: the groups and the basis of a program much like it; None for the usual ones.
        committed: GPUs to commit to by type; None to choose them.
        is_for_time: minimize the mean time in place of dollars.
    """
    start = start or ProgramStart(first_partition(program))
    groups = groups_for(program, start.groups)
    for number in range(MOST_ROUNDS):
        rows = _ProgramRows(program, groups, committed, is_for_time)
        solution = solve(rows.program(), start=rows.basis(start))
        if solution is None:
            return None
        answer = rows.answer(solution)
        value = program.limits.usd_per_h if is_for_time else solution.objective + rows.fixed_usd
        is_met = value is not None and answer.usd_per_h - value <= EXACT * abs(value)
        finer = rows.finer(answer, min(2**number, MOST_REACH) - 1)
        if finer is groups or (is_met and not rows.lacks(answer)):
            return replace(answer, extra_usd_per_h=rows.extra(solution.dual))
        start, groups = answer.start, finer
    raise RuntimeError(f"the groups of bins were still split after {MOST_ROUNDS} rounds")


class _ProgramRows:
    """The rows and columns of a program over groups of bins.

    Columns are the shares of routes, the GPUs to commit to by type, those on demand by group, and
    by group the deferred work done at its end beyond what is due.
    """

    def __init__(
        self,
        program: PlanProgram,
        groups: tuple[BinGroups, ...],
        committed: FloatArray | None,
        is_for_time: bool,
    ) -> None:
        self.plan, self.groups, self.fixed = program, groups, committed
        columns = program.columns
        self.markets, self.used = columns.markets, program.used
        self.routes = self.used.size
        prices = [market.committed_usd or 0.0 for market in self.markets]
        self.fixed_usd = program.held_usd_per_h
        if committed is not None:
            self.fixed_usd += float(np.dot(prices, committed))
        self.cost: list[FloatArray] = [program.outside_usd_per_h[self.used]]
        largest = program.most_share
        self.upper: list[FloatArray] = [
            np.ones(self.routes) if largest is None else largest[self.used]
        ]
        self.entries: list[tuple[IntArray, IntArray, FloatArray]] = []
        self.least: list[float] = []
        self.most: list[float] = []
        self.scale: list[float] = []
        self.width = self.routes
        self.column_parts: dict[Part, slice] = {SHARES: slice(0, self.routes)}
        self.row_parts: dict[Part, slice] = {}
        self.work: dict[int, int] = {}
        self.in_groups: dict[int, FloatArray] = {}
        self.commits: dict[int, int] = {}
        for number in range(len(self.markets)):
            self._add_type(number)
        class_of = columns.class_of[self.used]
        for number in range(len(columns.classes)):
            rows = np.flatnonzero(class_of == number)
            self._add(("class", number), rows, np.ones(rows.size), 1.0, 1.0)
        least = program.least_committed
        for number, at in self.commits.items():
            if least is not None and least[number] > 0:
                self._add(("least", number), np.array([at]), np.ones(1), float(least[number]), inf)
        rate = columns.rate_per_s
        total = float(rate.sum())
        weights = rate[class_of] * columns.time_s[self.used]
        self.time_per_share = weights / total if total else weights
        limits = program.limits
        if limits.mean_time_s is not None and not is_for_time:
            self._add(TIME, np.arange(self.routes), self.time_per_share, -inf, limits.mean_time_s)
        if limits.slower is not None:
            self._add_slower(limits.slower)
        if limits.spot_max is not None and columns.spot_gpu_s[self.used].any():
            most = limits.spot_max * sum(planned.gpu_s for planned in columns.classes)
            self._add(
                ("spot", 0), np.arange(self.routes), columns.spot_gpu_s[self.used], -inf, most
            )
        usd = np.concatenate(self.cost)
        if limits.usd_per_h is not None:
            self._add(
                ("usd", 0), np.arange(self.width), usd, -inf, limits.usd_per_h - self.fixed_usd
            )
        if is_for_time:
            self.cost = [self.time_per_share, np.zeros(self.width - self.routes)]

    def _columns(self, name: Part, cost: FloatArray, upper: FloatArray) -> int:
        """Add columns; returns the first."""
        first = self.width
        self.column_parts[name] = slice(first, first + cost.size)
        self.cost.append(cost)
        self.upper.append(upper)
        self.width += cost.size
        return first

    def _add(self, name: Part, at: IntArray, values: FloatArray, least: float, most: float) -> None:
        """Add a row, scaled so that its largest coefficient is 1."""
        self.row_parts[name] = slice(len(self.least), len(self.least) + 1)
        largest = float(np.abs(values).max(initial=0.0)) or 1.0
        row = np.full(at.size, len(self.least))
        self.entries.append((row, at, values / largest))
        self.least.append(least / largest)
        self.most.append(most / largest)
        self.scale.append(largest)

    def _add_rows(self, name: Part, at: IntArray, values: FloatArray, least: FloatArray) -> None:
        """Add rows without an upper limit, scaled likewise; columns and values by row."""
        self.row_parts[name] = slice(len(self.least), len(self.least) + least.size)
        largest = np.abs(values).max(axis=1)
        largest[largest == 0] = 1.0
        rows = np.repeat(len(self.least) + np.arange(least.size), at.shape[1])
        self.entries.append((rows, at.ravel(), (values / largest[:, None]).ravel()))
        self.least += (least / largest).tolist()
        self.most += [inf] * least.size
        self.scale += largest.tolist()

    def _add_type(self, number: int) -> None:
        """Add the rows of one GPU type: GPUs by group, and deferred work by bin."""
        columns, market, groups = self.plan.columns, self.markets[number], self.groups[number]
        least = groups.means(columns.service_gpus[[number]], self.plan.weights)[0]
        least -= market.standing
        of_type = np.flatnonzero(columns.type_of[self.used] == number)
        held = groups.means(columns.pool_gpus[self.used[of_type]], self.plan.weights)
        weight = groups.weights(self.plan.weights)
        if self.fixed is not None:
            least -= self.fixed[number]
        elif market.committed_usd is not None:
            most = inf if market.most_committed is None else market.most_committed
            usd = np.array([market.committed_usd])
            self.commits[number] = self._columns(("commit", number), usd, np.array([most]))
        rented = -1
        if market.on_demand_usd is not None:
            usd = market.on_demand_usd * weight
            rented = self._columns((RENTED, number), usd, np.full(groups.count, inf))
        due, sizes = np.zeros(0), groups.sizes
        if columns.arrived[number, -1] > 0:
            slack = (columns.arrived[number] - columns.due[number])[groups.last]
            due = np.diff(columns.due[number, groups.last], prepend=0.0)
            self.work[number] = self._columns((WORK, number), np.zeros(slack.size), slack)
            least += due / sizes
        every = np.arange(groups.count)
        at: list[IntArray] = [np.broadcast_to(of_type, (groups.count, of_type.size))]
        values: list[FloatArray] = [-held.T]
        if number in self.commits:
            at.append(np.full((groups.count, 1), self.commits[number]))
            values.append(np.ones((groups.count, 1)))
        if rented >= 0:
            at.append(rented + every[:, None])
            values.append(np.ones((groups.count, 1)))
        if number in self.work:
            done, change = _changes(self.work[number], groups.count)
            at.append(done)
            values.append(-change / sizes[:, None])
        self._add_rows((GPUS, number), np.hstack(at), np.hstack(values), least)
        if number in self.work:
            self._add_rows((DONE, number), *_changes(self.work[number], groups.count), -due)

    def _add_slower(self, slower: float) -> None:
        columns = self.plan.columns
        class_of = columns.class_of[self.used]
        for number, planned in enumerate(columns.classes):
            rows = np.flatnonzero(class_of == number)
            time_s = columns.time_s[self.used[rows]]
            if (time_s > slower * planned.recorded_s).any():
                self._add(("slower", number), rows, time_s, -inf, slower * planned.recorded_s)

    def program(self) -> Program:
        """Return it as the solver takes it."""
        row, column, value = (np.concatenate(part) for part in zip(*self.entries, strict=True))
        filled = np.flatnonzero(value)
        start = np.searchsorted(row[filled], np.arange(len(self.least) + 1))
        return Program(
            cost=np.concatenate(self.cost),
            upper=np.concatenate(self.upper),
            start=start,
            row=column[filled],
            value=value[filled],
            is_by_row=True,
            least=np.array(self.least),
            most=np.array(self.most),
        )

    def answer(self, solution: ProgramSolution) -> PlanOptimum:
        """Return the solution in the terms of the plan."""
        columns, x = self.plan.columns, solution.x
        types, bins = len(columns.types), columns.bins.count
        share = np.zeros(columns.class_of.size)
        share[self.used] = np.clip(x[: self.routes], 0.0, 1.0)
        committed = np.zeros(types) if self.fixed is None else self.fixed.copy()
        for number, at in self.commits.items():
            committed[number] = max(0.0, x[at])
        price = np.zeros((types, bins))
        dual = solution.dual / np.array(self.scale)
        for number, groups in enumerate(self.groups):
            rows = self.row_parts[GPUS, number]
            weight = groups.weights(self.plan.weights)
            per_group = np.divide(dual[rows], weight, out=np.zeros(groups.count), where=weight > 0)
            price[number] = per_group[groups.group]
        time_dual = dual[self.row_parts.get(TIME, slice(0))].sum()
        answer = PlanOptimum(
            share=share,
            committed=committed,
            deferred=self._deferred(share, committed, x),
            usd_per_h=0.0,
            mean_time_s=float(self.time_per_share @ share[self.used]),
            price=price,
            usd_per_h_per_s=abs(float(time_dual)),
            start=self._start(solution.basis),
            extra_usd_per_h=np.zeros(0),
        )
        return replace(answer, usd_per_h=cost_of(self.plan, answer))

    def extra(self, dual: FloatArray) -> FloatArray:
        """Return the reduced cost of each route, over the least of its class."""
        columns = self.plan.columns
        row, column, value = (np.concatenate(part) for part in zip(*self.entries, strict=True))
        paid = np.bincount(column, value * dual[row], self.width)[: self.routes]
        reduced = np.full(columns.class_of.size, np.nan)
        reduced[self.used] = np.concatenate(self.cost)[: self.routes] - paid
        least = np.full(len(columns.classes), inf)
        np.fmin.at(least, columns.class_of, reduced)
        result: FloatArray = reduced - least[columns.class_of]
        return result

    def basis(self, start: ProgramStart) -> SimplexBasis | None:
        """Return the basis of a start as one of this program; None where it has none."""
        if not start.has_basis:
            return None
        shares = start.columns.get(SHARES)
        routes = self.plan.columns.class_of.size
        if shares is None or shares.size != routes:
            return None
        begin = replace(start, columns={**start.columns, SHARES: shares[self.used]})
        return begin.basis(self.groups, self.column_parts, self.row_parts)

    def _start(self, basis: SimplexBasis | None) -> ProgramStart:
        if basis is None:
            return ProgramStart(self.groups)
        start = start_of(self.groups, self.column_parts, self.row_parts, basis)
        shares = np.full(self.plan.columns.class_of.size, AT_LOWER)
        shares[self.used] = start.columns[SHARES]
        return replace(start, columns={**start.columns, SHARES: shares})

    def _deferred(self, share: FloatArray, committed: FloatArray, x: FloatArray) -> FloatArray:
        """Return the GPUs on which deferred work runs: idle ones at once, others when it is due.

        No schedule rents less where work stays among bins of one weight; else it is the solver's.
        """
        columns = self.plan.columns
        deferred = np.zeros((len(columns.types), columns.bins.count))
        idle = (committed + self.plan.owned)[:, None] - self.plan.demand(share)
        for number, first in self.work.items():
            groups, arrived, due = self.groups[number], columns.arrived[number], columns.due[number]
            done = due[groups.last] + x[first : first + groups.count]
            if runs_at_once(self.plan, number):
                deferred[number] = run_deferred(arrived, due, idle[number])
                self.in_groups[number] = run_in_groups(arrived, due, idle[number], groups, done)
            else:
                deferred[number] = np.maximum(0.0, np.diff(done, prepend=0.0))
                self.in_groups[number] = deferred[number]
        return deferred

    def above_paid(self, answer: PlanOptimum) -> tuple[FloatArray, FloatArray]:
        """Return the GPUs above those owned and committed by type and bin, and what counts as 0."""
        held = self.plan.demand(answer.share) + answer.deferred
        paid = (answer.committed + self.plan.owned)[:, None]
        return held - paid, EXACT * np.maximum(1.0, paid)

    def lacks(self, answer: PlanOptimum) -> bool:
        """Return whether GPUs are missing that cannot be rented."""
        above, rounding = self.above_paid(answer)
        alone = [market.on_demand_usd is None for market in self.markets]
        return bool((above > rounding)[alone].any())

    def finer(self, answer: PlanOptimum, reach: int) -> tuple[BinGroups, ...]:
        """Return the groups, split where they have bins on both sides; else the same object.

        Groups in a row are cut around the bins where they change sides too, as far as ``reach``:
        with finer groups that moves by a few bins, and a cut at it alone took one round for each.
        """
        above, rounding = self.above_paid(answer)
        counts = self.plan.weights > 0
        finer = []
        for number, groups in enumerate(self.groups):
            if number in self.work:
                above_in = above[number] - answer.deferred[number] + self.in_groups[number]
                near = AT_ONCE * np.maximum(1.0, rounding[number] / EXACT)
                inside = turns(above_in > near, above_in < -near, groups)
                finer.append(groups.cut(around(inside, reach)))
                continue
            is_rented = self.markets[number].on_demand_usd is not None
            counted = counts if is_rented else np.ones_like(counts)
            over, under = above[number] > rounding[number], above[number] < -rounding[number]
            finer.append(groups.split(over & counted, under & counted))
        if all(new is old for new, old in zip(finer, self.groups, strict=True)):
            return self.groups
        return tuple(finer)


def _changes(first: int, count: int) -> tuple[IntArray, FloatArray]:
    """Return the columns and coefficients, by row, of each of a running sum less the one before."""
    at = first + np.arange(count)
    change = np.tile([1.0, -1.0], (count, 1))
    change[0, 1] = 0.0
    return np.stack([at, np.maximum(first, at - 1)], axis=1), change
