"""``--fail-if``: conditions on a result that turn into exit code 1, for use in CI.

A condition is ``field operator value``. The field is a path in ``results`` of the JSON output
(``duration_s.p95``), with or without the unit at its end (``duration.p95``), or its last part where
only one field has it. A field inside a list (``points.cost_usd``) trips where any element does.
Curves and lists of bare numbers (counts by hour, intervals) are no fields.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from gpuplan.analysis.errors import GpuplanError, UsageError
from gpuplan.cli import talk
from gpuplan.cli.units import SECONDS_PER

CONDITION = re.compile(
    r"^\s*(?P<field>[\w.]+)\s*(?P<op><=|>=|==|!=|<|>)"
    r"\s*(?P<usd>\$?)(?P<value>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
    r"\s*(?P<unit>%|[a-z_]*)\s*$"
)
OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
DRAWN = ("duration_cdf", "lorenz", "timeline", "hill")
"""Lists of points of a curve, wherever they stand in the results."""

UNIT_SUFFIX = re.compile(r"_(s|h|usd|gpus|gpu_h)$")
STATISTIC = re.compile(r"mean|median|min|max|p\d+")
"""Names whose unit is that of the group they stand in, as in ``duration_s.p95``."""

SHARE = re.compile(
    r"(\w+_)?share(_\w+)?|under_\d+s|gini|utilization|saving|variation|daily_volatility"
    r"|(daily|weekly)_strength|\w+_over_one_gpu"
)
"""Names of what is a fraction of 1, and so may be compared with a percentage."""

NAMED_AT_MOST = 8
NEAR = 0.6  # of 1; below it another name is no misspelling
NEXT_ERROR = "\nerror: "  # each line of several then reads like an error of its own


class GateFailed(GpuplanError):
    """A ``--fail-if`` condition holds."""

    exit_code = 1


def check_gates(results: dict[str, Any], conditions: Sequence[str]) -> None:
    """Check every condition against the results.

    A field without a value cannot trip its gate; that is said in a warning.

    Raises:
        GateFailed: at least one condition holds; the message names all that do.
        UsageError: a condition cannot be read, or names no field; the message also names the
            conditions that hold.
    """
    fields = _fields(results)
    tripped: list[str] = []
    problems: list[str] = []
    for condition in conditions:
        try:
            tripped += _tripped(fields, condition)
        except UsageError as error:
            problems.append(str(error))
    if problems:
        next_step = "\n  next: correct the condition; the result itself has been written"
        raise UsageError(NEXT_ERROR.join([*tripped, *problems]) + next_step)
    if tripped:
        raise GateFailed(NEXT_ERROR.join(tripped))


class Verdict(NamedTuple):
    """What came of a condition: whether it holds, of which field, and a value that says so.

    ``value`` is None where the field has none: such a condition was not checked.
    """

    holds: bool
    path: str
    value: float | None


def judge(results: dict[str, Any], condition: str) -> Verdict:
    """Return what comes of one condition. Raises `UsageError` where it names no field."""
    return _judged(_fields(results), condition)


def read_condition(condition: str) -> re.Match[str]:
    """Return the parts of a condition: field, op, usd, value, unit. Raises `UsageError`."""
    match = CONDITION.match(condition)
    if match is None:
        raise UsageError(
            f"--fail-if {condition!r}: expected 'field operator value', "
            "for example 'duration_s.p95 > 4h'"
        )
    return match


Fields = dict[str, list[Any]]
"""Path of a field -> its numbers, several where it stands inside a list."""


def _tripped(fields: Fields, condition: str) -> list[str]:
    """Return what to say of a condition that holds, nothing of one that does not."""
    holds, path, value = _judged(fields, condition)
    if value is None:
        talk.warn(f"--fail-if {condition!r} is not checked: {path} has no value")
    return [f"gate tripped: {condition} ({path} is {value:g})"] if holds else []


def _judged(fields: Fields, condition: str) -> Verdict:
    match = read_condition(condition)
    try:
        path = _lookup(fields, match["field"])
        limit = _limit(match, path)
    except UsageError as error:
        raise UsageError(f"--fail-if {condition!r}: {error}") from error
    values = [float(one) for one in fields[path] if one is not None and not math.isnan(one)]
    for value in values:
        if OPERATORS[match["op"]](value, limit):
            return Verdict(True, path, value)
    return Verdict(False, path, values[0] if values else None)


def _fields(results: dict[str, Any]) -> Fields:
    fields: Fields = {}
    for path, value in _numbers(results):
        fields.setdefault(path, []).append(value)
    groups = {group for path in fields for group in _groups(path)}
    # A group that is missing in one element of a list is null there.
    return {path: values for path, values in fields.items() if path not in groups}


def _numbers(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in DRAWN:
                yield from _numbers(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            if isinstance(item, dict):
                yield from _numbers(item, path)
    elif hasattr(value, "item") and not isinstance(value, str):
        yield from _numbers(value.item(), path)
    elif value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        yield path, value


def _groups(path: str) -> Iterator[str]:
    """Return every group that a field stands in: ``a`` and ``a.b`` for ``a.b.c``."""
    parts = path.split(".")
    return (".".join(parts[:end]) for end in range(1, len(parts)))


def _lookup(fields: Fields, name: str) -> str:
    """Return the full path of the one field that is meant. Raises `UsageError`."""
    tests: tuple[Callable[[str], bool], ...] = (
        lambda path: path == name,
        lambda path: _bare(path) == _bare(name),
        lambda path: _bare(path).endswith("." + _bare(name)),
    )
    for test in tests:
        found = [path for path in fields if test(path)]
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(f"{name} may be {_some(found, ' or ')}")
        inside = [path for path in fields if any(test(group) for group in _groups(path))]
        if inside:
            raise UsageError(f"{name} is a group of fields; name one of {_some(inside)}")
    near = sorted(fields, key=lambda path: _likeness(name, path), reverse=True)[:3]
    near = [path for path in near if _likeness(name, path) >= NEAR]
    hint = f"did you mean {_some(near, ' or ')}?" if near else "see --output-format json"
    raise UsageError(f"no field {name!r} with a number; {hint}")


def _some(paths: list[str], separator: str = ", ") -> str:
    more = len(paths) - NAMED_AT_MOST
    return separator.join(paths[:NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")


def _likeness(name: str, path: str) -> float:
    """Return how like a name is to a path or to its last part, 0 to 1."""
    texts = (path, _bare(path), path.rpartition(".")[2])
    return max(SequenceMatcher(None, name, text).ratio() for text in texts)


def _bare(path: str) -> str:
    return ".".join(UNIT_SUFFIX.sub("", part) for part in path.split("."))


def _limit(condition: re.Match[str], path: str) -> float:
    """Return the limit in the unit of the field. Raises `UsageError`."""
    value, unit = float(condition["value"]), condition["unit"]
    if condition["usd"] and unit not in ("", "usd"):
        raise UsageError(f"expected $ or {unit}, not both")
    own = _unit(path)
    unit = "usd" if condition["usd"] else unit
    if not unit or unit == own or (unit == "gpu" and own == "gpus"):
        return value
    if unit in SECONDS_PER and own in SECONDS_PER:
        return value * SECONDS_PER[unit] / SECONDS_PER[own]
    if unit == "%" and own == "share":
        return value / 100
    wrong = {"%": "is no share, so it has no percentage", "usd": "is not in dollars"}
    raise UsageError(f"{path} {wrong.get(unit, f'is not in {unit!r}')}")


def _unit(path: str) -> str:
    """Return ``s``, ``h``, ``usd``, ``gpus``, ``gpu_h``, ``share``, or nothing for a number."""
    group, _, name = path.rpartition(".")
    if SHARE.fullmatch(name):
        return "share"
    if STATISTIC.fullmatch(name):
        name = group.rpartition(".")[2]
    # Dollars per GPU-hour are dollars: the unit stands before "per".
    match = UNIT_SUFFIX.search("_" + re.split(r"_?per_", name)[0])
    return match[1] if match else ""
