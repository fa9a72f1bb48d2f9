"""A budget as asked for: average GPUs, multiples of the load, or dollars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import TypeVar

from gpuplan.analysis.errors import InfeasibleError, UsageError
from gpuplan.analysis.time_units import MONTH_H
from gpuplan.planner.frontier.model.format_gpus import show_gpus

HOURS_PER = {"h": 1.0, "month": MONTH_H}
MOST = 1e12  # GPUs, loads or dollars; the world's GPUs cost less
GPUS, LOADS, DOLLARS = "gpu", "x", "usd"
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget.

    Attributes:
        value: average GPUs, multiples of the load, or dollars in ``period``; > 0.
        unit: `GPUS`, `LOADS` or `DOLLARS`.
        period: ``h`` or ``month``, for dollars.
    """

    value: float
    unit: str = GPUS
    period: str = "h"

    def __post_init__(self) -> None:
        if not 0 < self.value <= MOST:
            raise UsageError(f"--budget must be above 0 and at most {MOST:g}, got {self.value:g}")

    @property
    def text(self) -> str:
        """The budget as it is written."""
        if self.unit == DOLLARS:
            return f"${self.value:,.2f}/{self.period}"
        return f"{self.value:g}{self.unit}"

    @property
    def requested(self) -> str:
        """The budget with all its digits, which identifies the point requested for it."""
        if self.unit == DOLLARS:
            return f"${self.value:.10g}/{self.period}"
        return f"{self.value:.10g}{self.unit}"

    @property
    def usd_per_h(self) -> float:
        """Dollars an hour. Raises `UsageError` where it is not in dollars."""
        if self.unit != DOLLARS:
            raise UsageError(
                f"--budget {self.text}: several GPU types have budgets in dollars\n"
                "  next: for example --budget '$12/h' or '$10000/month'"
            )
        return self.value / HOURS_PER[self.period]

    def gpus(self, load_gpus: float, usd_per_gpu_h: float | None = None) -> float:
        """Return average GPUs. Raises `UsageError` for dollars without a price."""
        if self.unit == DOLLARS:
            if usd_per_gpu_h is None:
                raise UsageError(
                    f"--budget {self.text} counts in dollars\n"
                    "  next: give the price of a GPU-hour, for example --price 1.29, or "
                    "--prices builtin --gpu A100"
                )
            return self.usd_per_h / usd_per_gpu_h
        return self.value * load_gpus if self.unit == LOADS else self.value

    def at_least(self, least: float, usd_per_gpu_h: float | None) -> str:
        """Return the option for a least budget of average GPUs, in the unit of this one."""
        enough = show_gpus(least).replace(",", "")
        if self.unit != DOLLARS or usd_per_gpu_h is None:
            return f"{enough}gpu"
        usd = ceil(100 * float(enough) * usd_per_gpu_h * HOURS_PER[self.period]) / 100
        return f"'${usd:.2f}/{self.period}'"


def requested_jct(seconds: float) -> str:
    """Return what identifies the point requested for a mean completion time."""
    return f"mean JCT {seconds:.10g}s"


def within(budget: Budget, at: Callable[[float], Made], value: float, least: str) -> Made:
    """Return the plan that ``at`` makes of a budget.

    Args:
        budget: as asked for.
        at: makes the plan.
        value: the budget in the unit of ``at``.
        least: how to write the least one.

    Raises:
        InfeasibleError: of ``at``; the message says so in the unit asked for.
    """
    try:
        return at(value)
    except InfeasibleError as error:
        asked = "" if budget.unit == GPUS else f"{budget.text}: "
        raise InfeasibleError(
            f"{asked}{error}\n  next: raise --budget to at least {least}"
        ) from error
