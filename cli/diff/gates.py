"""Gates on changes: ``knee.mean_jct_s > +10%``, ``cost_usd > +$50``, ``utilization < -5pp``.

A condition is written as in `gpuplan.cli.gates.gates`, and its value is a change, new less old: in
per cent of the old value, in percentage points for a share, or in the unit of the field. It has a
sign, so that it is not taken for a limit on the value itself. A gate that no row trips is not
checked where a row of the old document has no partner in the new one, or a value on one side only;
then it fails unless ``--allow-unchecked`` accepts that. Rows that only the new document has are
counted in the detail. Rows of a bill add up to it, so one that a document lacks is $0 there.
``report --baseline`` checks such conditions against an earlier report.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpuplan.analysis.base.errors import UsageError
from gpuplan.cli.diff.changes import NOISE, Change, DocumentDiff, compare
from gpuplan.cli.diff.read import Version, check_comparable, read_version
from gpuplan.cli.documents.contract import as_json
from gpuplan.cli.documents.gates import judge_all
from gpuplan.cli.documents.study import Document
from gpuplan.cli.formats.units import show_between, show_in
from gpuplan.cli.gates.conditions import (
    Condition,
    limit_of,
    parse_condition,
    range_of_change,
    read_condition,
    refuse_never,
)
from gpuplan.cli.gates.fields import NoField, NoRow, Numbers, ResultField, some
from gpuplan.cli.gates.gates import GateResult, by_either_name, each, find
from gpuplan.cli.tables.bill_change import show_change_usd

AMOUNTS_OF_CHANGE = ("new_usd", "gone_usd")
"""Fields that are changes themselves, so that their limit needs no sign."""
MANY = 10.0
"""Times the old value from which a change is told in times, not in percent."""


@dataclass(frozen=True, slots=True)
class _Changes:
    """Changes by study and address, and their fields by study."""

    by_address: dict[tuple[str, str], Change]
    by_study: dict[str, Numbers]

    @classmethod
    def of(cls, changes: Sequence[Change]) -> _Changes:
        fields: dict[str, list[ResultField]] = {}
        for change in changes:
            fields.setdefault(change.study, []).append(ResultField(change.path, change.rows, None))
        numbers = {study: Numbers.of(entries) for study, entries in fields.items()}
        return cls({(change.study, change.address): change for change in changes}, numbers)

    def named(self, name: str) -> tuple[str, list[Change]]:
        """Return the path that a name means, and the changes there. Raises as `find`."""
        if not self.by_study:
            raise NoField(f"no field {name!r}")
        study, path, fields = find(self.by_study, name)
        return path, [self.by_address[study, entry.address] for entry in fields]


def read_change(text: str, option: str = "--fail-if") -> Condition:
    """Return the parts of a condition on a change. Raises `UsageError` if it is invalid."""
    condition = read_condition(text, option=option)
    try:
        _signed(condition)
    except UsageError as error:
        raise UsageError(f"{option} {text!r}: {error}") from error
    return condition


def check_changes(comparison: DocumentDiff, conditions: Sequence[str]) -> list[GateResult]:
    """Return what comes of each condition; in a list of rows any row can trip it.

    The path of a result is the address of the row that it is about.
    """
    parts = comparison.parts
    first, *other_changes = (
        _Changes.of(changes)
        for changes in (
            comparison.numbers,
            [part for part in parts if not part.rows],  # price_usd is that of the bill
            [part for part in parts if part.rows],
            comparison.incomparable,
        )
    )

    def judged(condition: Condition) -> GateResult:
        _signed(condition)
        path, changes = _named(condition.field, first, other_changes)
        return _judged(changes, path, condition)

    command = comparison.old.command if list(comparison.old.studies) == [""] else ""
    return each(conditions, by_either_name(judged, command), _limit)


def _named(
    name: str, first: _Changes, other_changes: Sequence[_Changes]
) -> tuple[str, list[Change]]:
    """Return the path that a name means and its changes, from the first that has them."""
    try:
        return first.named(name)
    except NoField as error:
        problem = error
    for changes in other_changes:
        try:
            return changes.named(name)
        except NoRow as no_row:
            problem = problem if isinstance(problem, NoRow) else no_row
        except NoField:
            continue
        except UsageError as unclear:
            raise problem if changes is other_changes[-1] else unclear from None
    raise problem


def _signed(condition: Condition) -> None:
    if condition.field.rpartition(".")[2] in AMOUNTS_OF_CHANGE:
        return
    if condition.value and not condition.is_signed:
        raise UsageError("a change has a sign; write for example +10%, -5%, +$50 or +2h")


def _limit(condition: Condition, path: str) -> float:
    """Return the limit of a change in the unit of a field. Raises `UsageError`."""
    if condition.unit == "%":
        return condition.value / 100
    # For shares a percentage means percentage points.
    return limit_of(replace(condition, unit=condition.unit.replace("pp", "%")), path)


def _judged(changes: Sequence[Change], path: str, condition: Condition) -> GateResult:
    limit = _limit(condition, path)
    possible = range_of_change(path, is_relative=condition.unit == "%")
    refuse_never(condition, path, limit, possible)
    compared = [change for change in changes if change.change is not None]
    judged = []
    for change in compared:
        value = change.share if condition.unit == "%" else change.change
        if value is not None:
            value = value if change.is_above(NOISE) else 0.0
            judged.append((condition.holds(value, limit), abs(value), value, change))
    name = f"{changes[0].study}.{path}" if changes[0].study else path
    if not judged:
        return GateResult(condition.text, name, None, limit, False, f"{name} {_why(changes)}")
    holds, _, value, change = max(judged, key=lambda entry: entry[:2])
    address = f"{change.study}.{change.address}" if change.study else change.address
    detail = f"{address} {_went(change)}"
    one_sided = [change for change in changes if (change.old is None) != (change.new is None)]
    added = [change for change in one_sided if change.old is None and not change.is_in_both]
    missing = [change for change in one_sided if change not in added]
    is_unchecked = bool(missing) and not holds
    if missing:
        not_compared = (
            f"{len(missing)} of {len(changes) - len(added)} rows cannot be compared "
            f"({_where_missing(missing)})"
        )
        if is_unchecked:
            detail = f"{name}: {not_compared}; the other rows pass: {detail}"
        else:
            detail += f"; {not_compared}"
    if added:
        detail += f"; {_rows(len(added))} only in the new document, not checked"
    if is_unchecked:
        return GateResult(condition.text, name, None, limit, False, detail)
    return GateResult(condition.text, address, value, limit, holds, detail)


def _rows(count: int) -> str:
    return "1 row is" if count == 1 else f"{count} rows are"


def _where_missing(missing: Sequence[Change]) -> str:
    """Return the rows that cannot be compared, by the missing part."""
    by_problem: dict[str, list[str]] = {}
    for change in missing:
        if not change.is_in_both:
            problem = "not in the new document"
        else:
            problem = f"without a value in the {'old' if change.old is None else 'new'} document"
        by_problem.setdefault(problem, []).append(" / ".join(row.label for row in change.rows))
    return "; ".join(
        f"{problem}: {some(labels, ' and ')}" for problem, labels in by_problem.items()
    )


def _why(changes: Sequence[Change]) -> str:
    """Return why numbers cannot be compared, as the rest of a sentence."""
    if all(change.why for change in changes):
        return changes[0].why
    if all(change.old is None and change.new is None for change in changes):
        return "has no value in either document"
    sides = {
        side: [change for change in changes if getattr(change, side) is not None]
        for side in ("old", "new")
    }
    if not all(sides.values()):
        return f"has a value in the {'old' if sides['old'] else 'new'} document only"
    rows = {
        side: some([change.rows[-1].label for change in present if change.rows], " or ")
        for side, present in sides.items()
    }
    return f"has no row in both documents: the old one has {rows['old']}; the new, {rows['new']}"


def _went(change: Change) -> str:
    """Return how a number in both documents went, as people read it."""
    if change.old is None or change.new is None or change.share is None:
        raise ValueError(f"{change.address} has no change")
    show = show_in(change.unit)
    if change.is_part:
        usd = show_change_usd(change.change)
        share = f", {signed_share(change.share)} of" if change.old else ", without"
        return f"is {usd}{share} the old {'row' if change.rows else 'bill'}"
    if change.absent == "old":
        return f"is new, with {show(change.new)}"
    if change.absent == "new":
        return f"is gone, with {show(change.old)} before"
    if not change.is_above(NOISE):
        return f"is {show(change.new)} in both"
    return f"went from {show_between(change.old, change.new, show)}, {signed_share(change.share)}"


def signed_share(share: float) -> str:
    """Return a relative change: ``+12.3%``, ``35 times``; from 0 it exceeds any share."""
    if abs(share) == float("inf"):
        return "from 0"
    if share + 1 >= MANY:
        return f"{share + 1:,.0f} times"
    if abs(share) < 0.0005 and share:
        return f"{100 * share:+.1g}%"
    return f"{100 * share:+,.1f}%" if share else "0%"


def read_baseline(path: Path) -> Version:
    """Read an earlier ``report.json``, or the JSON output of one command, as a study of its name.

    Raises:
        InputError: the file is neither.
    """
    version = read_version(path)
    studies = {name or version.command: study for name, study in version.studies.items()}
    return replace(version, command="report", studies=studies)


def judge_since(
    baseline: Version | None, document: Document, conditions: Sequence[str]
) -> tuple[GateResult, ...]:
    """Return the outcome of each condition.

    With a baseline, a condition whose value has a sign (``> +10%``) is on the change since then.

    Raises:
        InputError: a study of the baseline is of another command than here.
    """
    failed = [*document.failed]
    if baseline is None:
        return judge_all(document.studies, conditions, failed)
    written = json.loads(as_json(document))
    studies = {study["name"]: study for study in written["studies"]}
    now = Version(Path("this report"), "", "report", studies, written["gpuplan_version"])
    check_comparable(baseline, now)
    changes = compare(baseline, now)
    return tuple(
        gate
        for text in conditions
        for gate in (
            check_changes(changes, [text])
            if parse_condition(text).is_signed
            else judge_all(document.studies, [text], failed)
        )
    )
