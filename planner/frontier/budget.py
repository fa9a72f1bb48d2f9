"""Requested budgets: average GPUs, today's GPUs, the load, or dollars; and plans within them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from gpuplan.analysis.base.errors import InfeasibleError, UsageError
from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.planner.frontier.methods.registry import Solved
from gpuplan.planner.frontier.model.exact import Frontier, solve_frontier
from gpuplan.planner.frontier.model.format_gpus import show_gpus
from gpuplan.planner.frontier.model.hull import TOLERANCE
from gpuplan.planner.frontier.model.plan import Plan
from gpuplan.planner.frontier.model.slower import least_slower
from gpuplan.planner.money.price_request import Price
from gpuplan.planner.money.todays_basis import NO_BASIS, TodaysBasis
from gpuplan.planner.speedup.model import SpeedupModel

HOURS_PER = {"h": 1.0, "month": MONTH_H, "quarter": 3 * MONTH_H, "year": 12 * MONTH_H}
MOST = 1e12  # GPUs, loads or dollars; the world's GPUs cost less
GPUS, LOADS, DOLLARS, NOW = "gpu", "x", "usd", "now"
NUMBER = r"(\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?"
BUDGET = re.compile(
    rf"^(?P<usd>\$)?(?P<value>{NUMBER})(?P<unit>x|gpus?|/(?P<period>h|hour|month|quarter|year))?$",
    re.I,
)
NOW_BUDGET = re.compile(rf"^now(?:(?P<sign>[+-])(?P<percent>{NUMBER})%)?$", re.I)
THOUSANDS = re.compile(r"\$\d{1,3}(?:,\d{3})+(?!\d)|(?<!\d)\d{1,3},0\d\d(?:,\d{3})*(?!\d)")
"""Thousands separators that can only be part of one number: ``$1,500`` or ``12,000``."""
MOST_POINTS = 10_000  # of a range; more take minutes
FORMS = (
    "now, now+20% (of the GPUs in use today), 60gpu, 1.2x (times the one-GPU load), $12/h, "
    "$10000/month|quarter|year, or a range LOW:HIGH:COUNT of them"
)


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget.

    Attributes:
        value: average GPUs, multiples of the load (of every job on one GPU), multiples of the GPUs
            held today, or dollars in ``period``; > 0.
        unit: `GPUS`, `LOADS`, `NOW` or `DOLLARS`.
        period: one of `HOURS_PER`, for dollars.
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
        if self.unit == NOW:
            return _relative_to_now(self.value, "g")
        return f"{self.value:g}{self.unit}"

    @property
    def requested(self) -> str:
        """The budget with all its digits, which identifies the point requested for it."""
        if self.unit == DOLLARS:
            return f"${self.value:.10g}/{self.period}"
        if self.unit == NOW:
            return _relative_to_now(self.value, ".10g")
        return f"{self.value:.10g}{self.unit}"

    @property
    def usd_per_h(self) -> float:
        """Dollars an hour. Raises `UsageError` if it is not in dollars."""
        if self.unit != DOLLARS:
            raise UsageError(
                f"--budget {self.text}: several GPU types have budgets in dollars\n"
                "  next: for example --budget '$12/h' or '$10000/month'"
            )
        return self.value / HOURS_PER[self.period]

    def gpus(
        self,
        load_gpus: float,
        usd_per_gpu_h: float | None = None,
        now_gpus: float | None = None,
        basis: TodaysBasis = NO_BASIS,
    ) -> float:
        """Return average GPUs.

        Raises:
            UsageError: dollars without a price, or relative to a log that shows no GPUs in use.
        """
        if self.unit == NOW:
            if now_gpus is None:
                raise UsageError(
                    f"--budget {self.text}: no job of the log has a run time and GPUs, so today's "
                    "GPUs are not known\n  next: --budget 60gpu, or 1.2x the load"
                )
            return self.value * now_gpus
        if self.unit == DOLLARS:
            if usd_per_gpu_h is None:
                raise UsageError(
                    f"--budget {self.text} counts in dollars\n"
                    "  next: add the price of a GPU-hour, for example --price 1.29, or "
                    "--prices builtin --gpu A100"
                )
            return basis.gpus(self.usd_per_h, usd_per_gpu_h)
        return self.value * load_gpus if self.unit == LOADS else self.value

    def at_least(
        self, least: float, usd_per_gpu_h: float | None, basis: TodaysBasis = NO_BASIS
    ) -> str:
        """Return the option for a least budget, in the unit of this one.

        Args:
            least: the budget, in average GPUs, or in dollars an hour.
            usd_per_gpu_h: dollars an hour for a unit of it; None without a price.
            basis: of dollars.
        """
        enough = show_gpus(least).replace(",", "")
        if self.unit != DOLLARS or usd_per_gpu_h is None:
            return f"{enough}gpu"
        usd_per_h = basis.usd_per_h(float(enough), usd_per_gpu_h)
        usd = ceil(100 * usd_per_h * HOURS_PER[self.period]) / 100
        return f"'${usd:.2f}/{self.period}'"


def parse_budgets(text: str) -> list[Budget]:
    """Return the budgets of a comma-separated list. Raises `UsageError` where one is not so."""
    if (comma := THOUSANDS.search(text)) is not None:
        raise UsageError(
            f"--budget {text!r}: a comma separates budgets, and thousands take none\n"
            f"  next: {text.replace(comma[0], comma[0].replace(',', ''))!r}"
        )
    return [budget for item in text.split(",") for budget in _range(item.strip())]


def _range(text: str) -> list[Budget]:
    parts = text.split(":")
    if len(parts) == 1:
        return [_budget(text)]
    if len(parts) != 3:
        raise UsageError(f"--budget {text!r}: expected {FORMS}")
    low, high = _budget(parts[0]), _budget(parts[1])
    if (low.unit, low.period) != (high.unit, high.period):
        raise UsageError(f"--budget {text!r}: both ends of a range must have one unit")
    if not low.value < high.value:
        raise UsageError(f"--budget {text!r}: a range runs from the lower budget to the higher")
    count = int(parts[2]) if re.fullmatch("[0-9]{1,9}", parts[2]) else 0
    if not 2 <= count <= MOST_POINTS:
        raise UsageError(
            f"--budget {text!r}: a range has 2 to {MOST_POINTS:,} points, as a whole number; "
            f"found {parts[2]!r}"
        )
    step = (high.value - low.value) / (count - 1)
    inner = [replace(low, value=low.value + i * step) for i in range(count - 1)]
    return [*inner, high]


def _budget(text: str) -> Budget:
    if (now := NOW_BUDGET.match(text)) is not None:
        change = float(now["percent"] or 0) / 100
        return Budget(1 - change if now["sign"] == "-" else 1 + change, NOW)
    if re.match(r"^[+-]", text) and text.endswith("%"):
        raise UsageError(f"--budget {text!r}: of what?\n  next: --budget now{text}")
    match = BUDGET.match(text)
    if match is None or bool(match["usd"]) != bool(match["period"]):
        raise UsageError(f"--budget {text!r}: expected {FORMS}")
    value = float(match["value"])
    if match["usd"]:
        period = match["period"].lower()
        return Budget(value, DOLLARS, "h" if period.startswith("h") else period)
    return Budget(value, LOADS if (match["unit"] or "").lower() == "x" else GPUS)


def _relative_to_now(value: float, form: str) -> str:
    """Return ``now``, or how much more or less, as in ``now+20%``."""
    more = round(100 * (value - 1), 9)
    return "now" if more == 0 else f"now{'+' if more > 0 else '-'}{abs(more):{form}}%"


def requested_jct(seconds: float) -> str:
    """Return what identifies the point requested for a mean completion time."""
    return f"mean JCT {seconds:.10g}s"


SWEEP_POINTS = 8


def sweep(solved: Solved, frontier: Frontier) -> list[Plan]:
    """Return plans for budgets from the least to the saturating one, evenly spaced in ratio.

    A method that finds none at the smallest budgets has fewer.
    """
    low, high = frontier.min_budget, frontier.saturation_budget
    budgets = np.geomspace(low, high, SWEEP_POINTS) if high > low else np.array([low])
    plans = []
    for budget in budgets.tolist():
        try:
            plans.append(solved.at_budget(budget))
        except InfeasibleError:
            continue
    return plans or [solved.at_budget(high)]


def plan_of(
    solved: Solved,
    frontier: Frontier,
    budget: Budget,
    price: Price | None,
    now_gpus: float | None = None,
    basis: TodaysBasis = NO_BASIS,
) -> Plan:
    """Return the plan of a method for a budget.

    Raises:
        InfeasibleError: it is below the least of the frontier, in the unit of the request, or of
            the method.
        UsageError: dollars without a price, anything but dollars on several GPU types, or relative
            to a log that shows no GPUs in use.
    """
    usd: float | None = 1.0
    if frontier.prices:
        value = budget.usd_per_h
    else:
        usd = None if price is None else price.usd_per_gpu_h
        value = budget.gpus(frontier.load_gpus, usd, now_gpus, basis)
    if frontier.is_enough(value):
        return solved.at_budget(value)  # another method may need more, and reports it
    least = budget.at_least(frontier.min_budget, usd, basis)
    if frontier.slower is not None:
        least += _or_slower(frontier, frontier.slower, value)
    elif not frontier.prices and value >= frontier.load_gpus * (1 - TOLERANCE):
        least += ", or make restarts free with --rescale 0"
    try:
        return frontier.at_budget(value)
    except InfeasibleError as error:
        requested = "" if budget.unit == GPUS else f"{budget.text}: "
        raise InfeasibleError(
            f"{requested}{error}\n  next: raise --budget to at least {least}"
        ) from error


def _or_slower(frontier: Frontier, slower: float, budget: float) -> str:
    """Return the nearest bound on run times that a budget can keep, as an option."""

    def is_enough(times: float) -> bool:
        classes = [replace(c, slower=times) for c in frontier.classes]
        return solve_frontier(classes, prices=frontier.prices).is_enough(budget)

    nearest = least_slower(slower, is_enough)
    return "" if nearest is None else f", or --slower {nearest:g}x"


def refuse_exact_only(method: str, speedup: SpeedupModel, targets_s: Sequence[float]) -> None:
    """Refuse requests that only the exact method can answer."""
    if targets_s:
        raise UsageError(f"--method {method} plans for budgets; --target-jct needs --method exact")
    if speedup.ends:
        raise UsageError(
            f"--method {method} needs one speedup, not a range\n  next: --speedup {speedup.name}"
        )
