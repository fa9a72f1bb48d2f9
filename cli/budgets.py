"""Read ``--budget``: GPUs, multiples of the load, dollars, lists and ranges of them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuplan.analysis.errors import UsageError

if TYPE_CHECKING:
    from gpuplan.planner.boa.study import Budget

HOURS_PER = {"h": 1.0, "month": 730.0}
NUMBER = r"(\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?"
BUDGET = re.compile(
    rf"^(?P<usd>\$)?(?P<value>{NUMBER})(?P<unit>x|gpus?|/(?P<period>h|hour|month))?$", re.I
)
MOST = 10_000  # points of a range; more take minutes
FORMS = "60gpu, 1.2x (times the load), $12/h, $10000/month, or a range LOW:HIGH:COUNT of them"


def parse_budgets(text: str, price_usd_per_gpu_h: float | None) -> list[Budget]:
    """Return the budgets of a comma-separated list.

    Raises:
        UsageError: an item cannot be read, or counts in dollars while there is no price.
    """
    budgets: list[Budget] = []
    for item in text.split(","):
        budgets += _item(item.strip(), price_usd_per_gpu_h)
    return budgets


def _item(text: str, price: float | None) -> list[Budget]:
    parts = text.split(":")
    if len(parts) == 1:
        return [_budget(text, price)]
    if len(parts) != 3:
        raise UsageError(f"--budget {text!r}: expected {FORMS}")
    low, high = _budget(parts[0], price), _budget(parts[1], price)
    if low.per_load != high.per_load:
        raise UsageError(f"--budget {text!r}: both ends of a range must have one unit")
    if not low.value < high.value:
        raise UsageError(f"--budget {text!r}: a range runs from the lower budget to the higher")
    count = int(parts[2]) if re.fullmatch("[0-9]{1,9}", parts[2]) else 0
    if not 2 <= count <= MOST:
        raise UsageError(
            f"--budget {text!r}: a range has 2 to {MOST:,} points, as a whole number; "
            f"found {parts[2]!r}"
        )
    step = (high.value - low.value) / (count - 1)
    inner = [replace(low, value=low.value + i * step) for i in range(count - 1)]
    return [*inner, high]


def _budget(text: str, price: float | None) -> Budget:
    from gpuplan.planner.boa.study import Budget

    match = BUDGET.match(text)
    if match is None or bool(match["usd"]) != bool(match["period"]):
        raise UsageError(f"--budget {text!r}: expected {FORMS}")
    value = float(match["value"])
    if match["usd"]:
        if price is None:
            raise UsageError(
                f"--budget {text!r} counts in dollars\n"
                "  next: give the price of a GPU-hour, for example --price 1.29"
            )
        period = "h" if match["period"].lower().startswith("h") else "month"
        usd_per_gpu = price * HOURS_PER[period]
        return Budget(value / usd_per_gpu, usd_per_gpu=usd_per_gpu, period=period)
    return Budget(value, per_load=(match["unit"] or "").lower() == "x")
