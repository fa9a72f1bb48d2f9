"""Read ``--budget``: GPUs, today's GPUs, multiples of the load, dollars, lists and ranges."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuplan.analysis.base.errors import UsageError

if TYPE_CHECKING:
    from gpuplan.planner.frontier.budget import Budget

NUMBER = r"(\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?"
BUDGET = re.compile(
    rf"^(?P<usd>\$)?(?P<value>{NUMBER})(?P<unit>x|gpus?|/(?P<period>h|hour|month|quarter|year))?$",
    re.I,
)
NOW_BUDGET = re.compile(rf"^now(?:(?P<sign>[+-])(?P<percent>{NUMBER})%)?$", re.I)
THOUSANDS = re.compile(r"\$\d{1,3}(?:,\d{3})+(?!\d)|(?<!\d)\d{1,3},0\d\d(?:,\d{3})*(?!\d)")
"""Thousands separators that can only be part of one number: ``$1,500`` or ``12,000``."""
MOST = 10_000  # points of a range; more take minutes
FORMS = (
    "now, now+20% (of the GPUs in use today), 60gpu, 1.2x (times the one-GPU load), $12/h, "
    "$10000/month|quarter|year, or a range LOW:HIGH:COUNT of them"
)


def parse_budgets(text: str) -> list[Budget]:
    """Return the budgets of a comma-separated list. Raises `UsageError` where one is not so."""
    if (comma := THOUSANDS.search(text)) is not None:
        raise UsageError(
            f"--budget {text!r}: a comma separates budgets, and thousands take none\n"
            f"  next: {text.replace(comma[0], comma[0].replace(',', ''))!r}"
        )
    return [budget for item in text.split(",") for budget in _item(item.strip())]


def _item(text: str) -> list[Budget]:
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
    if not 2 <= count <= MOST:
        raise UsageError(
            f"--budget {text!r}: a range has 2 to {MOST:,} points, as a whole number; "
            f"found {parts[2]!r}"
        )
    step = (high.value - low.value) / (count - 1)
    inner = [replace(low, value=low.value + i * step) for i in range(count - 1)]
    return [*inner, high]


def _budget(text: str) -> Budget:
    from gpuplan.planner.frontier.budget import DOLLARS, GPUS, LOADS, NOW, Budget

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
