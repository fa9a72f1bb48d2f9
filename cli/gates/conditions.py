"""The conditions of gates: ``field operator value``, read and checked without a result.

The field is a path in ``results`` of the JSON output (``duration_s.p95``), with or without the unit
at its end (``duration.p95``), or its last part where only one field has it. A field inside a list
(``points.cost_usd``) trips where any row does, or the one in brackets
(``policies[allpass].cost_usd``). Over several studies a path begins with the name of one.

A gate that can never fail is refused: dollars, GPU-hours, GPUs and jobs add up to 0 or more, and a
share is at most 1, so ``usd < $0`` and ``idle_share > 100%`` pass whatever happens. Nor can a sum
lose more than all of it.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files

from gpuplan.analysis.base.amounts import SECONDS_PER
from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.lookup import nearest
from gpuplan.cli.app.lazy import COMMANDS
from gpuplan.cli.formats.units import unit_of

NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
CONDITION = re.compile(
    r"^\s*(?P<field>\w(?:[\w.]|\[[^\]]*\])*)\s*(?P<op><=|>=|==|!=|<|>)"
    rf"\s*(?:(?P<truth>true|false)|(?P<amount>\$?[-+]?{NUMBER}|[-+]\${NUMBER})"
    r"\s*(?P<unit>%|[A-Za-z_]*))\s*$"
)
LEADING_ZERO = re.compile(r"[-+$]*0\d")
EATEN = re.compile(r"^[^<>=!]*(<=|>=|==|!=|<|>)\s*[-+]?\s*$")
"""A condition without its value."""
QUOTES = "a shell replaces $5 in double quotes; write the condition in single quotes"
OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
UNITS = ("", *SECONDS_PER, "%", "pp", "usd", "gpu", "gpus", "gpu_h", "worker", "workers", "share")
LONG = {"seconds": "s", "minutes": "min", "hours": "h", "days": "d", "percent": "%", "dollars": "$"}
"""Words that people write for units, which conditions do not take."""

KINDS = {
    **dict.fromkeys(SECONDS_PER, "a duration"), "usd": "in dollars", "gpus": "a number of GPUs",
    "gpu_h": "in GPU-hours", "workers": "a number of workers", "share": "a share",
}  # fmt: skip
SHOWN = {"gpu": "GPUs", "gpus": "GPUs", "gpu_h": "GPU-hours"}
"""What a field of a unit is, and how a unit of a limit is shown."""


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


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition as it is written: ``field``, ``op``, ``value`` in ``unit``.

    Attributes:
        text: all of it.
        field: the name of a field.
        op: one of `OPERATORS`.
        value: as written, before its unit is taken into account.
        unit: ``h``, ``%``, ``usd`` ...; empty if none is written.
        is_signed: whether a sign is written, as for a change.
        is_truth: whether ``true`` or ``false`` is written, which the value then is, as 1 or 0.
    """

    text: str
    field: str
    op: str
    value: float
    unit: str
    is_signed: bool
    is_truth: bool = False

    def holds(self, value: float, limit: float) -> bool:
        """Return whether the condition holds of a value, with the limit in the value's unit."""
        return OPERATORS[self.op](value, limit)

    def excess(self, value: float, limit: float) -> float:
        """Return the excess of a value over the limit; the largest one is reported."""
        if self.op in ("==", "!="):
            return abs(value - limit) if self.op == "!=" else -abs(value - limit)
        return value - limit if self.op in (">", ">=") else limit - value


def read_condition(
    text: str, studies: Mapping[str, str] | None = None, option: str = "--fail-if"
) -> Condition:
    """Return the parts of a condition, checked as far as it can be without a result.

    Args:
        studies: name -> command of the studies that it may name, where there are several.

    Raises:
        UsageError: it is not a condition, or names a unit or a study that does not exist.
    """
    try:
        condition = parse_condition(text)
        _check_study(condition.field, studies or {})
        check_dollars(condition, condition.field)
        _check_unit(condition)
        return condition
    except UsageError as error:
        raise UsageError(f"{option} {text!r}: {error}") from error


def refuse_change(condition: Condition, option: str, next_step: str) -> None:
    """Refuse a change, such as ``> +10%``, where there is nothing to compare with.

    A minus is no change by itself: values may be negative.

    Raises:
        UsageError: the condition has a plus, or percentage points.
    """
    match = CONDITION.match(condition.text)
    if match is not None and (
        "+" in (match["amount"] or "").lower().split("e")[0] or condition.unit == "pp"
    ):
        raise UsageError(
            f"{option} {condition.text!r}: a change needs an earlier result to compare with\n"
            f"  next: {next_step}"
        )


def parse_condition(text: str) -> Condition:
    """Return the parts of a condition. Raises `UsageError` without the option it is given by."""
    match = CONDITION.match(text)
    if match is None:
        eaten = f"; {QUOTES}" if EATEN.match(text) else ""
        raise UsageError(
            f"expected 'field operator value', for example 'duration_s.p95 > 4h'{eaten}"
        )
    if match["truth"]:
        value = float(match["truth"] == "true")
        if match["op"] not in ("==", "!="):
            raise UsageError(f"{match['truth']} is compared with == or !=, not {match['op']}")
        return Condition(text, match["field"], match["op"], value, "", False, is_truth=True)
    amount, unit = match["amount"], match["unit"].lower()
    if LEADING_ZERO.match(amount):
        raise UsageError(f"{amount!r} begins with 0, as what is left of $500; {QUOTES}")
    if "$" in amount and unit not in ("", "usd"):
        raise UsageError(f"expected $ or {unit}, not both")
    value = float(amount.replace("$", ""))
    if unit not in UNITS:
        near = LONG.get(unit) or LONG.get(f"{unit}s")
        expected = (
            f"did you mean {near}?"
            if near
            else "expected s, min, h, d, %, $, gpus, gpu_h or workers"
        )
        raise UsageError(f"no unit {unit!r}; {expected}")
    if not math.isfinite(value):
        raise UsageError(f"{amount} is too large")
    return Condition(
        text=text,
        field=match["field"],
        op=match["op"],
        value=value,
        unit="usd" if "$" in amount else unit,
        is_signed=amount.strip("$")[0] in "+-",
    )


def _check_study(field: str, studies: Mapping[str, str]) -> None:
    """Refuse a field of a study that is not there. Raises `UsageError`.

    The name of the study may be left out, so only a name that begins no field is refused.
    """
    first, dot, _ = re.sub(r"\[[^\]]*\]", "", field).partition(".")
    if not (dot and studies) or first in studies:
        return
    near = nearest(first, studies)
    if near is None and first not in COMMANDS:
        return
    for command in set(studies.values()):
        schema = files("gpuplan.cli").joinpath("schemas", f"{command}.json").read_text("utf-8")
        if re.search(rf'"{first}(_(s|h|usd|gpus|gpu_h))?"', schema):
            return
    hint = f"did you mean {near!r}?" if near else f"expected one of {', '.join(studies)}"
    raise UsageError(f"no study {first!r}; {hint}")


def limit_of(condition: Condition, path: str) -> float:
    """Return the limit of a condition in the unit of a field. Raises `UsageError`."""
    value, unit = condition.value, condition.unit
    kind = unit_of(path)
    check_dollars(condition, path)
    if not unit or unit == kind or (unit in ("gpu", "worker") and kind == f"{unit}s"):
        return value
    if unit in SECONDS_PER and kind in SECONDS_PER:
        limit = value * SECONDS_PER[unit] / SECONDS_PER[kind]
        if not math.isfinite(limit):
            raise UsageError(
                f"{path} is {KINDS.get(kind, kind)}, and {value:g} {unit} is too large"
            )
        return limit
    if unit == "%" and kind == "share":
        return value / 100
    wrong = {"%": "is not a share, so it has no percentage", "usd": "is not in dollars"}
    if kind in KINDS and unit not in wrong:
        raise UsageError(f"{path} is {KINDS[kind]}, and {value:g} {SHOWN.get(unit, unit)} is not")
    raise UsageError(f"{path} {wrong.get(unit, f'is not in {unit!r}')}")


def _check_unit(condition: Condition) -> None:
    """Refuse a unit that the field can never have, where its name tells its own.

    A percentage may be a change. Raises `UsageError`.
    """
    if condition.unit not in ("%", "pp") and unit_of(condition.field) in KINDS:
        limit_of(condition, condition.field)


def check_dollars(condition: Condition, path: str) -> None:
    """Refuse a limit without $ or USD on a field in dollars. Raises `UsageError`.

    A shell that replaces ``$5`` in ``> +$500`` leaves ``> +00``, and ``> 500`` of ``> $1500``.
    """
    if condition.unit or unit_of(path) != "usd":
        return
    sign = "" if not condition.is_signed else "-" if condition.value < 0 else "+"
    limit = f"{condition.op} {sign}${abs(condition.value):.15g}"
    raise UsageError(
        f"{path} is in dollars, so its limit needs $ or USD, as in {limit!r}; {QUOTES}"
    )


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
