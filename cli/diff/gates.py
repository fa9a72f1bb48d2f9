"""Gates on changes: ``knee.mean_jct_s > +10%``, ``cost_usd > +$50``, ``utilization < -5pp``.

A condition is written as in `gpuplan.cli.gates`, and its value is a change, new less old: in per
cent of the old value, in percentage points for a share, or in the unit of the field. It has a
sign, so that nobody takes it for a limit on the value itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuplan.analysis.errors import UsageError
from gpuplan.cli.diff.changes import NOISE, Change, Comparison
from gpuplan.cli.fields import Field, Numbers
from gpuplan.cli.gates import Condition, GateResult, each, find, limit_of, read_condition
from gpuplan.cli.units import show_between, show_in


def read_change(text: str) -> Condition:
    """Return the parts of a condition on a change. Raises `UsageError` for what is none."""
    condition = read_condition(text)
    try:
        _signed(condition)
    except UsageError as error:
        raise UsageError(f"--fail-if {text!r}: {error}") from error
    return condition


def check_changes(comparison: Comparison, conditions: Sequence[str]) -> list[GateResult]:
    """Return what comes of each condition; in a list of rows any row can trip it.

    The path of a result is the address of the row that it is about.
    """
    changes: dict[tuple[str, str], Change] = {}
    studies: dict[str, list[Field]] = {}
    for one in comparison.numbers:
        changes[one.study, one.address] = one
        studies.setdefault(one.study, []).append(Field(one.path, one.rows, None))
    numbers = {study: Numbers.of(fields) for study, fields in studies.items()}

    def judged(condition: Condition) -> GateResult:
        _signed(condition)
        study, path, fields = find(numbers, condition.field)
        return _judged([changes[study, one.address] for one in fields], path, condition)

    return each(conditions, judged)


def _signed(condition: Condition) -> None:
    if condition.value and not condition.is_signed:
        raise UsageError("a change has a sign; write for example +10%, -5%, +$50 or +2h")


def _judged(changes: Sequence[Change], path: str, condition: Condition) -> GateResult:
    if condition.unit == "%":
        limit = condition.value / 100
    else:
        # Points of a share are what a percentage is elsewhere.
        limit = limit_of(replace(condition, unit=condition.unit.replace("pp", "%")), path)
    found = []
    for one in changes:
        value = one.share if condition.unit == "%" else one.change
        if value is not None:
            value = value if one.is_above(NOISE) else 0.0
            found.append((condition.holds(value, limit), abs(value), value, one))
    name = f"{changes[0].study}.{path}" if changes[0].study else path
    if not found:
        detail = f"{name} has no value in one of the two"
        return GateResult(condition.text, name, None, limit, False, detail)
    holds, _, value, one = max(found, key=lambda one: one[:2])
    name = f"{one.study}.{one.address}" if one.study else one.address
    detail = f"{name} {_went(one)}"
    return GateResult(condition.text, name, value, limit, holds, detail)


def _went(one: Change) -> str:
    """Return how a number with a change went, as people read it."""
    if one.old is None or one.new is None or one.share is None:
        return "has no value in one of the two"
    show = show_in(one.unit)
    if not one.is_above(NOISE):
        return f"is {show(one.new)} in both"
    return f"went from {show_between(one.old, one.new, show)}, {signed_share(one.share)}"


def signed_share(share: float) -> str:
    """Return a relative change: ``+12.3%``; of nothing it is beyond any share."""
    if abs(share) == float("inf"):
        return "from 0"
    if abs(share) < 0.0005 and share:
        return f"{100 * share:+.1g}%"
    return f"{100 * share:+,.1f}%" if share else "0%"
