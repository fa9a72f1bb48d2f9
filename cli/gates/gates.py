"""``--fail-if``: conditions on a result that turn into exit code 1, for use in CI.

How conditions are written is in `gpuplan.cli.gates.conditions`, how fields are found in
`gpuplan.cli.gates.fields`.

A gate that could not be checked fails too, unless ``--allow-unchecked`` accepts that: its field has
no value, or the row in brackets does not exist. A field that does not exist makes the gate invalid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from gpuplan.analysis.base.errors import GpuplanError, UsageError
from gpuplan.cli.app import messages
from gpuplan.cli.formats.units import show_distinct, show_in, unit_of
from gpuplan.cli.gates.conditions import (
    Condition,
    limit_of,
    parse_condition,
    range_of,
    refuse_never,
)
from gpuplan.cli.gates.fields import NoField, NoRow, Numbers, ResultField, fields_of, some
from gpuplan.cli.gates.row_keys import layout_of

NEXT_ERROR = "\nerror: "  # each line of several then reads like an error of its own
TOTALS = ("any ", "all ")
"""How the names of rows begin that are of several others: the most of them, and all together."""
UNCHECKED = "name a field and a row that have a value, or add --allow-unchecked to pass without"
WRITTEN = "the result itself has been written"


GateState = Literal["passed", "warned", "failed", "unchecked", "error"]


class GateFailed(GpuplanError):
    """A ``--fail-if`` condition holds, or could not be checked."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class GateResult:
    """What came of a condition; plain values.

    Attributes:
        condition: as given.
        path: the field of the condition; empty if no field matches.
        value: of the field: in a list of rows the one furthest beyond the limit, or nearest to it;
            None where it has none.
        limit: the limit in the unit of the field; None if not compared.
        tripped: whether the condition holds.
        detail: the field with its row, its value and the limit as people read them, or what is
            wrong.
        may_be_unchecked: whether it passes if it could not be checked.
        only_warns: whether it is a warning where its condition holds.
    """

    condition: str
    path: str
    value: float | None
    limit: float | None
    tripped: bool
    detail: str
    may_be_unchecked: bool = False
    only_warns: bool = False

    @property
    def fails(self) -> bool:
        """Return whether the gate ends the program with an exit code other than 0."""
        if self.state == "unchecked":
            return not self.may_be_unchecked
        return self.state in ("failed", "error")

    @property
    def state(self) -> GateState:
        """``unchecked`` without a value or a row, ``error`` without such a field."""
        if not self.path:
            return "error"
        if self.value is None:
            return "unchecked"
        if not self.tripped:
            return "passed"
        return "warned" if self.only_warns else "failed"

    def outcome(self) -> GateOutcome:
        """Return what JSON has."""
        path = self.path or None
        return GateOutcome(self.condition, self.state, path, self.value, self.limit, self.detail)


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """What came of a condition, as JSON has it.

    Attributes:
        condition: as given.
        state: failed: the condition holds; unchecked: the field has no value; error: there is no
            such field.
        path: the field that was meant; null if there is no such field.
        value: of the field, of several rows the one furthest beyond the limit or nearest to it.
        limit: in the unit of the field.
        detail: the field with its row, its value and the limit as people read them, or what is
            wrong.
    """

    condition: str
    state: GateState
    path: str | None
    value: float | None
    limit: float | None
    detail: str


def check(
    results: Mapping[str, Any], conditions: Sequence[str], command: str = ""
) -> list[GateResult]:
    """Return the outcome of each condition on a result; raises nothing, to report all.

    A field may begin with the name of the command, as it does where there are several studies.
    """
    numbers = Numbers.of(fields_of(results, layout_of(results)), command)
    return each(conditions, by_either_name(lambda condition: _judged(numbers, condition), command))


def by_either_name(
    judge: Callable[[Condition], GateResult], command: str
) -> Callable[[Condition], GateResult]:
    """Return a judge that takes ``command.field`` for ``field`` where no field has that name."""

    def either(condition: Condition) -> GateResult:
        try:
            return judge(condition)
        except NoField as error:
            first, _, rest = condition.field.partition(".")
            if isinstance(error, NoRow) or not rest or first != command:
                raise
            return judge(replace(condition, field=rest))

    return either


def check_all(
    studies: Mapping[str, Mapping[str, Any]],
    conditions: Sequence[str],
    commands: Mapping[str, str] | None = None,
) -> list[GateResult]:
    """Return what comes of each condition on several studies.

    A field is named as for one study, with the name of its study before it where several studies
    have it: ``pareto.knee.mean_jct_s > 4h``. Paths are returned with the study's name.

    Args:
        studies: name -> ``results``.
        conditions: as given.
        commands: name -> the command of the study.
    """
    commands = commands or {}
    numbers = {
        name: Numbers.of(fields_of(results, layout_of(results)), commands.get(name, ""))
        for name, results in studies.items()
    }
    return each(conditions, lambda condition: _judged_in(numbers, condition))


def allowing(gates: Iterable[GateResult], allow_unchecked: bool) -> tuple[GateResult, ...]:
    """Return gates that pass, or not, where they could not be checked; warnings always do."""
    return tuple(
        replace(gate, may_be_unchecked=allow_unchecked or gate.only_warns) for gate in gates
    )


def warnings_only(gates: Iterable[GateResult]) -> tuple[GateResult, ...]:
    """Return gates that are warnings where their condition holds or cannot be checked."""
    return tuple(replace(gate, only_warns=True, may_be_unchecked=True) for gate in gates)


def each(
    conditions: Sequence[str],
    judge: Callable[[Condition], GateResult],
    limit: Callable[[Condition, str], float] | None = None,
) -> list[GateResult]:
    """Return the judgement on each condition; one that cannot be judged is a result as well.

    Args:
        limit: of a condition on a path, also of one whose row is not there; `limit_of` by default.
    """
    return [_gate_result(text, judge, limit or limit_of) for text in conditions]


def _gate_result(
    text: str,
    judge: Callable[[Condition], GateResult],
    limit: Callable[[Condition, str], float],
) -> GateResult:
    try:
        condition = parse_condition(text)
        try:
            return judge(condition)
        except NoRow as error:
            wanted = limit(condition, error.path)
            return GateResult(text, error.path, None, wanted, False, str(error))
    except UsageError as error:
        return GateResult(text, "", None, None, False, str(error))


def raise_tripped(
    gates: Sequence[GateResult], *, written: str = WRITTEN, given_as: str = "--fail-if"
) -> None:
    """End the program with the exit code of its gates, after everything has been written.

    A gate that could not be checked fails, or is a warning if that is allowed.

    Args:
        gates: what came of each condition.
        written: the outputs that the user has anyway, for the message.
        given_as: where the conditions come from, for the message.

    Raises:
        GateFailed: at least one condition holds or could not be checked; the message names all.
        UsageError: a condition cannot be read, or names no field; the message also names the
            conditions that hold.
    """
    for gate in gates:
        if gate.state == "unchecked" and not gate.fails:
            option = "--warn-if" if gate.only_warns else given_as
            messages.warn(f"{option} {gate.condition!r} is not checked: {gate.detail}")
        elif gate.state == "warned":
            messages.warn(f"gate tripped: {gate.condition} ({gate.detail})")
    failed = [gate for gate in gates if gate.state == "failed"]
    tripped = [f"gate tripped: {gate.condition} ({gate.detail})" for gate in failed]
    unchecked = [
        f"gate not checked: {gate.condition} ({gate.detail})"
        for gate in gates
        if gate.state == "unchecked" and gate.fails
    ]
    problems = [
        f"{given_as} {gate.condition!r}: {gate.detail}" for gate in gates if gate.state == "error"
    ]
    if problems:
        next_step = f"\n  next: correct the condition; {written}"
        raise UsageError(NEXT_ERROR.join([*tripped, *unchecked, *problems]) + next_step)
    if tripped or unchecked:
        next_step = f"\n  next: {UNCHECKED}" if unchecked else ""
        raise GateFailed(NEXT_ERROR.join([*tripped, *unchecked]) + next_step)


def _judged(numbers: Numbers, condition: Condition) -> GateResult:
    numbers = numbers.for_condition(is_truth=condition.is_truth)
    return _judged_as("", *numbers.named(condition.field), condition, numbers)


def _judged_in(studies: Mapping[str, Numbers], condition: Condition) -> GateResult:
    studies = {
        name: numbers.for_condition(is_truth=condition.is_truth)
        for name, numbers in studies.items()
    }
    study, path, fields = find(studies, condition.field)
    return _judged_as(f"{study}.", path, fields, condition, studies[study])


def find(studies: Mapping[str, Numbers], name: str) -> tuple[str, str, list[ResultField]]:
    """Return the study and the path in it that a name means, and the numbers there.

    Raises:
        NoRow: no study has the row; the path begins with the study.
        UsageError: no field, several, or a group of them.
    """
    first, _, rest = name.partition(".")
    without_row: list[NoRow] = []
    if rest and first in studies:
        try:
            return (first, *studies[first].named(rest))
        except NoRow as error:
            without_row.append(_within(first, error))
            wrong: list[UsageError] = []
        except UsageError as error:
            kind = NoField if isinstance(error, NoField) else UsageError
            wrong = [kind(f"{first}: {error}")]
    else:
        wrong = []
    matches, unclear = [], []
    for study, numbers in studies.items():
        try:
            matches.append((study, *numbers.named(name)))
        except NoRow as error:
            without_row.append(_within(study, error))
        except NoField as error:
            wrong.append(error)
        except UsageError as error:
            unclear.append(UsageError(f"{study}: {error}" if len(studies) > 1 else str(error)))
    if len(matches) == 1 and not unclear:
        return matches[0]
    if matches:
        paths = [f"{study}.{path}" for study, path, _ in matches]
        unclear = [UsageError(f"{name} is ambiguous: {some(paths, ' or ')}"), *unclear]
    if unclear:
        raise UsageError("; ".join(map(str, unclear)))
    if without_row:
        raise NoRow(without_row[0].path, "; ".join(map(str, without_row)))
    if (rest and first in studies) or len(studies) == 1:
        raise wrong[0]
    every = {
        f"{study}.{path}": entries
        for study, n in studies.items()
        for path, entries in n.by_path.items()
    }
    path, fields = Numbers(every).named(name)  # names the nearest of all
    study, _, path = path.partition(".")
    return study, path, fields


def _within(study: str, error: NoRow) -> NoRow:
    """Return the error with the name of the study before its path; an empty name adds none."""
    return NoRow(f"{study}.{error.path}", f"{study}.{error}") if study else error


def _of_any(worst: ResultField, entries: Sequence[ResultField]) -> str:
    """Return whose value that of ``any team`` is, in brackets; empty for other rows."""
    if not worst.rows or not worst.rows[-1].label.startswith(TOTALS[0]):
        return ""
    names = [
        entry.rows[-1].label for entry in entries
        if entry.rows and entry.number == worst.number
        and not entry.rows[-1].label.startswith(TOTALS)
    ]  # fmt: skip
    return f" ({some(names, ' and ')})" if names else ""


def _judged_as(
    prefix: str,
    path: str,
    fields: Sequence[ResultField],
    condition: Condition,
    numbers: Numbers,
) -> GateResult:
    limit = limit_of(condition, path)
    refuse_never(condition, prefix + path, limit, range_of(path))
    valued = [(entry.number, entry) for entry in fields if entry.number is not None]
    if not valued:
        detail = f"{prefix}{path} has no value"
        return GateResult(condition.text, prefix + path, None, limit, False, detail)
    value, worst = max(valued, key=lambda each: condition.excess(each[0], limit))
    holding = sum(condition.holds(number, limit) for number, _ in valued)
    shown, limit_shown = show_distinct(value, limit, show_in(unit_of(path)))
    if worst.is_truth:
        shown, limit_shown = (str(bool(truth)).lower() for truth in (value, limit))
    of = "" if not holding else _of_any(worst, numbers.by_path.get(path, ()))
    if holding and worst.address in numbers.conditions:
        of += f" with {numbers.conditions[worst.address]}"
    detail = f"{prefix}{worst.address} is {shown}{of}, limit {limit_shown}"
    replayed = numbers.replayed(worst)
    if replayed is not None and replayed.number is not None:
        in_replay = show_in(unit_of(path))(replayed.number)
        detail += f"; this is planned, {prefix}{replayed.address} is {in_replay}"
    if holding and len(valued) > 1:
        detail += f" ({holding} of {len(valued)} rows)"
    if empty := len(fields) - len(valued):
        detail += f"; {empty} of {len(fields)} rows {'has' if empty == 1 else 'have'} no value"
    return GateResult(condition.text, prefix + path, value, limit, bool(holding), detail)
