"""From the optimum of a program to GPUs that can be bought: whole nodes, or single GPUs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, floor

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.planner.plan.optimum import optimum
from gpuplan.planner.plan.program import PlanOptimum, PlanProgram
from gpuplan.planner.plan.refusals import check_limits, refuse_budget, refuse_cap
from gpuplan.planner.plan.warm_start import ProgramStart
from gpuplan.simkit.arrays import FloatArray

WHOLE = 1e-6
"""A number of GPUs this close to a whole number of nodes is one."""
SAME_USD = 1e-9
SAME_TIME = 1e-6
SLACK_OF_TIME = 1e-7
"""Relative; by which the mean time of a budget may rise while dollars are minimized."""


@dataclass(frozen=True, slots=True)
class Purchase:
    """What to buy, before and after rounding.

    Attributes:
        program: that was solved.
        exact: its optimum, with fractions of nodes.
        whole_nodes: the optimum with commitments in whole nodes.
        is_kept: whether it stays with an older plan, which fixes commitments and shares.
    """

    program: PlanProgram
    exact: PlanOptimum
    whole_nodes: PlanOptimum
    is_kept: bool = False

    @property
    def free(self) -> PlanProgram:
        """The program without what an older plan fixes."""
        return replace(self.program, most_share=None)

    @property
    def all_committed(self) -> FloatArray:
        """GPUs committed to by type, with those of commitments that were made before."""
        return self.program.held + self.whole_nodes.committed


def purchase(program: PlanProgram, start: ProgramStart | None = None) -> Purchase:
    """Return the plan of a program.

    Args:
        program: the program.
        start: the groups and the basis of a program much like it; None for the usual ones.

    Raises:
        InfeasibleError: no plan meets the limits; the message says what can be met.
    """
    check_limits(program)
    exact = best(program, start)
    if exact is None:
        refuse_cap(program)
        raise refuse_budget(program, _cheapest(program, start).usd_per_h)
    rounded = _in_whole_nodes(program, exact)
    if rounded is None:
        cheapest = _in_whole_nodes(program.under(usd_per_h=None), _cheapest(program, exact.start))
        raise refuse_budget(program, None if cheapest is None else cheapest.usd_per_h)
    return Purchase(program, exact, rounded)


def best(
    program: PlanProgram,
    start: ProgramStart | None = None,
    *,
    committed: FloatArray | None = None,
) -> PlanOptimum | None:
    """Return the optimum of a program; None where nothing meets its limits.

    That is the least dollars. With a budget it is the least mean time, and of the plans with this
    mean time the one of the least dollars.
    """
    if program.limits.usd_per_h is None:
        return optimum(program, start, committed=committed)
    fastest = optimum(program, start, committed=committed, is_for_time=True)
    if fastest is None:
        return None
    mean_time_s = fastest.mean_time_s * (1 + SLACK_OF_TIME)
    cheapest = program.under(usd_per_h=None, mean_time_s=mean_time_s)
    return optimum(cheapest, fastest.start, committed=committed)


def _cheapest(program: PlanProgram, start: ProgramStart | None) -> PlanOptimum:
    """Return the optimum without the budget."""
    cheapest = best(program.under(usd_per_h=None), start)
    if cheapest is None:
        raise InfeasibleError("no plan meets these limits together\n  next: loosen one of them")
    return cheapest


def _in_whole_nodes(program: PlanProgram, exact: PlanOptimum) -> PlanOptimum | None:
    """Return the optimum with commitments rounded type by type; None where none is in the budget.

    The types after the one that is rounded are at their exact value.
    """
    committed = exact.committed.copy()
    rounded: PlanOptimum | None = exact
    for number, market in enumerate(program.columns.markets):
        nodes = float(committed[number]) / market.step
        most = market.most_committed
        nearest = round(nodes)
        if abs(nodes - nearest) * market.step < WHOLE:
            sizes = [nearest]
        else:
            sizes = [ceil(nodes)]
            if market.on_demand_usd is not None:
                sizes.append(floor(nodes))
        if most is not None:
            sizes = [size for size in sizes if size * market.step <= most + WHOLE]
        choices = []
        for size in sizes:
            committed[number] = size * market.step
            choice = best(program, exact.start, committed=committed.copy())
            if choice is not None:
                choices.append(choice)
        if not choices:
            return None
        rounded = choices[0]
        if len(choices) > 1 and _is_better(program, choices[1], choices[0]):
            rounded = choices[1]
        committed = rounded.committed.copy()
    return rounded


def _is_better(program: PlanProgram, down: PlanOptimum, up: PlanOptimum) -> bool:
    """Return whether fewer GPUs are better: with a budget less mean time, and else cheaper."""
    if program.limits.usd_per_h is not None:
        change_s = down.mean_time_s - up.mean_time_s
        if abs(change_s) > SAME_TIME * up.mean_time_s:
            return change_s < 0
    return down.usd_per_h < up.usd_per_h - SAME_USD * max(1.0, up.usd_per_h)


def gap_share(bought: Purchase) -> float:
    """Return how much whole nodes cost over the program's value, as a share of it."""
    value = bought.exact.usd_per_h
    return bought.whole_nodes.usd_per_h / value - 1 if value > 0 else 0.0
