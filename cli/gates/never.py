"""Gates that can never fail: no value of the field, or no change of it, is beyond their limit.

Dollars, GPU-hours, GPUs and jobs add up to 0 or more, and a share is at most 1, so ``usd < $0``
and ``idle_share > 100%`` pass whatever happens. Nor can a sum lose more than all of it.
"""

from __future__ import annotations

import math
import re

from gpuplan.analysis.base.errors import UsageError
from gpuplan.cli.formats.units import unit_of
from gpuplan.cli.gates.conditions import Condition

SUMS = ("usd", "gpu_h", "gpus")
COUNTS = re.compile(r"(\w+_)?jobs")
WHOLE = re.compile(r"(\w+_)?share(_(jobs|gpu_hours|hours))?|under_\d+s|gini")
"""Names of parts of a whole."""
SIGNED = frozenset(
    "benefit between bias change earlier effect error gap growth net over saved saves saving "
    "slope trend vs".split()
)
"""Words in the names of differences, which may be below 0 and above 1."""
PARTS_OF_CHANGE = ("price_usd", "calendar_usd", "volume_usd", "mix_usd", "use_usd")

Range = tuple[float, float]


def range_of(path: str) -> Range:
    """Return the least and greatest value that a field can have."""
    name = path.rpartition(".")[2]
    if SIGNED & set(re.split(r"\W|_", path)) or name in PARTS_OF_CHANGE:
        return -math.inf, math.inf
    if WHOLE.fullmatch(name):
        return 0.0, 1.0
    return (0.0 if unit_of(path) in SUMS or COUNTS.fullmatch(name) else -math.inf), math.inf


def range_of_change(path: str, *, is_relative: bool) -> Range:
    """Return the least and greatest change of a field, as a share of its old value or not."""
    low, high = range_of(path)
    if is_relative:
        return (-math.inf if low else -1.0), math.inf
    return low - high, high - low


def refuse_never(condition: Condition, path: str, limit: float, within: Range) -> None:
    """Refuse a condition that nothing within a range meets. Raises `UsageError`.

    Args:
        condition: the gate.
        path: its field.
        limit: in the unit of the field.
        within: the least and greatest value or change of the field.
    """
    low, high = within
    is_out = {
        "<": limit <= low,
        "<=": limit < low,
        ">": limit >= high,
        ">=": limit > high,
        "==": not low <= limit <= high,
    }
    if is_out.get(condition.op, False):
        raise UsageError(
            f"this gate can never fail: {path} is never {condition.op} "
            f"{condition.text.partition(condition.op)[2].strip()}"
        )
