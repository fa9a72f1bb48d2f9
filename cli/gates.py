"""``--fail-if``: conditions on a result that turn into exit code 1, for use in CI.

A condition is ``field operator value``. The field is a path in ``results`` of the JSON output
(``duration_s.p95``), with or without the unit at its end (``duration.p95``), or its last part where
only one field has it. A field inside a list (``points.cost_usd``) trips where any element does.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import Any

from gpuplan.analysis.errors import GpuplanError, UsageError
from gpuplan.cli import talk
from gpuplan.cli.units import SECONDS_PER

CONDITION = re.compile(
    r"^\s*(?P<field>[\w.]+)\s*(?P<op><=|>=|==|!=|<|>)"
    r"\s*\$?(?P<value>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(?P<unit>%|[a-z_]*)\s*$"
)
OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
UNIT_SUFFIX = re.compile(r"_(s|h|usd|gpus|gpu_h)$")


class GateFailed(GpuplanError):
    """A ``--fail-if`` condition holds."""

    exit_code = 1


def check_gates(results: dict[str, Any], conditions: list[str]) -> None:
    """Check every condition against the results.

    A field without a value cannot trip its gate; that is said in a warning.

    Raises:
        GateFailed: at least one condition holds; the message names all that do.
        UsageError: a condition cannot be read, or names no field.
    """
    tripped = [said for condition in conditions if (said := _tripped(results, condition))]
    if tripped:
        raise GateFailed("\n".join(tripped))


def read_condition(condition: str) -> re.Match[str]:
    """Return the parts of a condition: field, op, value, unit. Raises `UsageError`."""
    match = CONDITION.match(condition)
    if match is None:
        raise UsageError(
            f"--fail-if {condition!r}: expected 'field operator value', "
            "for example 'duration_s.p95 > 4h'"
        )
    return match


def _tripped(results: dict[str, Any], condition: str) -> str | None:
    match = read_condition(condition)
    path, values = _lookup(results, match["field"], condition)
    limit = _limit(float(match["value"]), match["unit"], path, condition)
    if all(value is None for value in values):
        talk.warn(f"--fail-if {condition!r} is not checked: {path} has no value")
    for value in values:
        if value is not None and OPERATORS[match["op"]](float(value), limit):
            return f"gate tripped: {condition} ({path} is {value:g})"
    return None


def _lookup(results: dict[str, Any], field: str, condition: str) -> tuple[str, list[Any]]:
    """Return the full path and the values of the one field that ``field`` names."""
    leaves: dict[str, list[Any]] = {}
    for path, value in _leaves(results):
        leaves.setdefault(path, []).append(value)
    tests: tuple[Callable[[str], bool], ...] = (
        lambda path: path == field,
        lambda path: _bare(path) == _bare(field),
        lambda path: _bare(path).endswith("." + _bare(field)),
    )
    for test in tests:
        found = [path for path in leaves if test(path)]
        if len(found) == 1:
            return found[0], leaves[found[0]]
        if found:
            raise UsageError(f"--fail-if {condition!r}: {field} may be {' or '.join(found)}")
    near = get_close_matches(field, leaves, n=3, cutoff=0.4) or sorted(leaves)[:8]
    raise UsageError(f"--fail-if {condition!r}: no field {field!r}; try {', '.join(near)}")


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item, path)
    elif value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        yield path, value
    elif hasattr(value, "item") and not isinstance(value, str):
        yield path, value.item()


def _bare(path: str) -> str:
    return ".".join(UNIT_SUFFIX.sub("", part) for part in path.split("."))


def _limit(value: float, unit: str, path: str, condition: str) -> float:
    """Return the limit in the unit of the field."""
    if not unit:
        return value
    if unit == "%":
        return value / 100
    suffixes = [match[1] for part in path.split(".") if (match := UNIT_SUFFIX.search(part))]
    own = suffixes[-1] if suffixes else ""
    if unit in SECONDS_PER and own in SECONDS_PER:
        return value * SECONDS_PER[unit] / SECONDS_PER[own]
    if unit == own or (unit == "gpu" and own == "gpus"):
        return value
    raise UsageError(f"--fail-if {condition!r}: {path} is not in {unit!r}")
