"""A bound on how much longer jobs run than recorded: where no plan keeps it, the nearest one.

A class whose jobs held g GPUs may take candidate v in epoch j if s_j(v) >= s_j(g) / bound, so that
no epoch, and no job, runs longer than bound times its recorded time; starts and changes of width
are left out, as a recorded run has its own. Other candidates are not there for that epoch, so the
frontier stays exact: see `gpuplan.planner.frontier.model.exact`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil

from gpuplan.analysis.base.errors import InfeasibleError
from gpuplan.planner.elastic.job_class import JobClass

STEPS = 40  # halvings of the range of bounds
MOST_DIGITS = 100  # a bound is shown in hundredths, rounded up


def refuse_slower(classes: Sequence[JobClass]) -> None:
    """Raise `InfeasibleError` where a class has no width that keeps its bound."""
    bounded = [job_class for job_class in classes if job_class.is_bounded]
    worst = max(bounded, key=lambda job_class: job_class.least_slower(), default=None)
    if worst is None or not worst.too_slow().all(axis=1).any():
        return
    least = in_hundredths(worst.least_slower())
    raise InfeasibleError(
        f"jobs of class {worst.name!r} cannot keep within {worst.slower:g} times their recorded "
        f"run at any budget: on up to {worst.widths.max():g} GPUs they run {least:g} times as "
        f"long\n  next: --slower {least:g}x at least, or more GPUs a job (--max-width, --limit, "
        "--widths)"
    )


def in_hundredths(times: float) -> float:
    """Return a bound in hundredths, rounded up, so that it can be kept as it is shown."""
    return ceil(times * MOST_DIGITS * (1 - 1e-12)) / MOST_DIGITS


def least_slower(bound: float, is_enough: Callable[[float], bool]) -> float | None:
    """Return the least bound in hundredths that a budget can keep; None if none is.

    Args:
        bound: one that it cannot keep; at least 1.
        is_enough: whether it can keep a bound; true from some bound on.
    """
    low, high = bound, 2 * bound
    while not is_enough(high):
        low, high = high, 2 * high
        if high > 1e6:
            return None
    for _ in range(STEPS):
        if high - low <= 0.25 / MOST_DIGITS:
            break
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return in_hundredths(high)
