"""The methods of ``--method``, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpuplan.analysis.base.lookup import find_named
from gpuplan.planner.elastic.job_class import JobClass
from gpuplan.planner.frontier.methods.calculator import WidthCalculator
from gpuplan.planner.frontier.methods.convex import solve_convex
from gpuplan.planner.frontier.model.exact import solve_frontier
from gpuplan.planner.frontier.model.plan import Plan


class Solved(Protocol):
    """Job classes under one method, ready for any budget."""

    def at_budget(self, gpus: float) -> Plan:
        """Return the method's plan within a budget of average GPUs, all rescaling included.

        Raises:
            InfeasibleError: the method finds no plan within the budget.
        """


@dataclass(frozen=True, slots=True)
class Method:
    """One way to choose widths.

    Attributes:
        about: a description in one sentence.
        source: where it comes from.
        solve: returns the job classes solved by it.
    """

    about: str
    source: str
    solve: Callable[[Sequence[JobClass]], Solved]


def _convex(classes: Sequence[JobClass]) -> Solved:
    return solve_convex(classes)


def _paper(classes: Sequence[JobClass]) -> Solved:
    return WidthCalculator(classes)


METHODS: dict[str, Method] = {
    "exact": Method(
        "the least mean completion time, rescaling included, at every budget",
        "docs/boa.md",
        solve_frontier,
    ),
    "convex": Method(
        "plans each epoch as if rescaling were free, on a budget that leaves room to pay for it",
        "BOA, problem (1)",
        _convex,
    ),
    "paper": Method(
        "the Width Calculator: glues epochs, plans them as if rescaling were free, rounds widths",
        "BOA, section 4.3",
        _paper,
    ),
}


def find_method(name: str) -> Method:
    """Return a method by name. Raises `UsageError` naming what exists."""
    return find_named(name, METHODS, "--method")
