"""The differences between two documents: numbers, answers in words, requests, and rows.

A number is found in both by its address, which names its row by what the row is about
(a policy, a threshold, a class) and not by its position; see `gpuplan.cli.gates.fields`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, Literal

from gpuplan.analysis.base.plain import plain
from gpuplan.cli.diff.bills import BILL, BillDiff, are_alike, bill_diff, is_added_up, is_amount
from gpuplan.cli.diff.read import Version
from gpuplan.cli.formats.units import unit_of
from gpuplan.cli.gates.fields import ResultField, Row, addressed, fields_of
from gpuplan.cli.gates.row_keys import layout_of
from gpuplan.cli.results import ChangedText, LoneRow
from gpuplan.planner.money.bill_results import ChangeResults

NOISE = 1e-9  # a difference below this fraction is of rounding
NOTHING = 1e-12
ABSENT = ""
NOT_GIVEN = {ABSENT, "null", "false", "[]", "{}"}
"""An option that was not given, as JSON; one document may lack what another version has."""


Side = Literal["old", "new"]


@dataclass(frozen=True, slots=True)
class Change:
    """A number in two documents.

    Attributes:
        study: the name of its study; empty where there is one only.
        path: its names, joined by dots.
        rows: the rows that contain it.
        old: in the old document; None without a value there.
        new: in the new one.
        is_in_both: whether its rows are in both.
        why: why it cannot be compared, where that is not for its values.
        absent: the document without its row, where the row is a part of a bill: there it is 0.
        is_part: whether it is a part of the change of a bill, from the old bill to that with it.
    """

    study: str
    path: str
    rows: tuple[Row, ...]
    old: float | None
    new: float | None
    is_in_both: bool = True
    why: str = ""
    absent: Side | None = None
    is_part: bool = False

    @property
    def address(self) -> str:
        """The path with its rows, without the study."""
        return addressed(self.path, self.rows)

    @property
    def unit(self) -> str:
        """Its unit, as `gpuplan.cli.formats.units.unit_of` has it."""
        return unit_of(self.path)

    @property
    def change(self) -> float | None:
        """New less old, in the unit of the number."""
        return None if self.old is None or self.new is None else self.new - self.old

    @property
    def share(self) -> float | None:
        """The change as a fraction of the old value; infinite if that is 0."""
        if self.change is None or self.old is None:
            return None
        if self.old == 0:
            return 0.0 if self.change == 0 else float("inf") * self.change
        return self.change / abs(self.old)

    def is_above(self, tolerance: float) -> bool:
        """Return whether the two differ by more than this fraction of the larger.

        Above 0 it also passes over what is next to nothing, such as two p-values of 1e-30.
        """
        if self.old is None or self.new is None:
            return self.old is not self.new
        least = max(tolerance * max(abs(self.old), abs(self.new)), NOTHING if tolerance else 0.0)
        return abs(self.new - self.old) > least


@dataclass(frozen=True, slots=True)
class DocumentDiff:
    """Everything two documents have, side by side.

    Attributes:
        old: the old document.
        new: the new one.
        numbers: each of either, changed or not, in the order of the old document.
        answers: what differs in words.
        asked: inputs, options and versions that differ.
        only: rows and studies that one of the two has.
        unmatched: lists without identifiable rows; these are not compared.
        bills: what changed between two bills, by study.
        parts: the numbers of these: what the old bill would be with the change, so that a gate on
            one of them, such as ``new_usd``, is on the change in dollars or in percent of the bill.
        incomparable: the numbers of such lists, and of studies that one document has; a gate on
            one of them cannot be checked.
    """

    old: Version
    new: Version
    numbers: list[Change] = field(default_factory=list)
    answers: list[ChangedText] = field(default_factory=list)
    asked: list[ChangedText] = field(default_factory=list)
    only: list[LoneRow] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    bills: dict[str, BillDiff] = field(default_factory=dict)
    parts: list[Change] = field(default_factory=list)
    incomparable: list[Change] = field(default_factory=list)

    @property
    def same_inputs(self) -> bool:
        """Return whether both come from the same bytes."""
        return all(
            _hashes(study) == _hashes(self.new.studies[name])
            for name, study in self.old.studies.items()
            if name in self.new.studies
        )

    def changed(self, tolerance: float) -> list[Change]:
        """Return the numbers that differ by more than this fraction, of rows that both have.

        A row of a bill that one of the two has not is $0 there.
        """
        return [
            number
            for number in self.numbers
            if (number.is_in_both or number.absent) and number.is_above(tolerance)
        ]


@dataclass(frozen=True, slots=True)
class _Side:
    """One study of one document: its fields and their rows, by address."""

    fields: dict[str, ResultField]
    rows: dict[str, tuple[Row, ...]]

    @classmethod
    def of(cls, fields: Iterable[ResultField]) -> _Side:
        rows = {}
        for entry in fields:
            for depth in range(1, len(entry.rows) + 1):
                rows[_address(entry.rows[:depth])] = entry.rows[:depth]
        return cls({entry.address: entry for entry in fields}, rows)

    def has_rows_of(self, rows: tuple[Row, ...]) -> bool:
        return not rows or _address(rows) in self.rows


def _address(rows: tuple[Row, ...]) -> str:
    return addressed(rows[-1].path, rows)


def compare(old: Version, new: Version) -> DocumentDiff:
    """Compare two documents of one command."""
    comparison = DocumentDiff(old, new)
    for name in old.studies:
        if name in new.studies:
            _compare_study(comparison, name, old.studies[name], new.studies[name])
            _compare_bills(comparison, name, old.studies[name], new.studies[name])
        else:
            _lone_study(comparison, name, old.studies[name], "old")
    for name in new.studies:
        if name not in old.studies:
            _lone_study(comparison, name, new.studies[name], "new")
    if old.gpuplan_version != new.gpuplan_version:
        versions = (old.gpuplan_version, new.gpuplan_version)
        comparison.asked.append(ChangedText(None, "gpuplan_version", *versions))
    return comparison


def _lone_study(comparison: DocumentDiff, name: str, study: dict[str, Any], side: Side) -> None:
    comparison.only.append(LoneRow(name or None, "", side))
    fields = fields_of(study["results"], layout_of(study["results"]))
    comparison.incomparable.extend(_incomparable(name, fields, f"is in the {side} document only"))


def _incomparable(study: str, fields: Iterable[ResultField], why: str) -> Iterator[Change]:
    for entry in fields:
        if entry.is_number:
            yield Change(study, entry.path, entry.rows, None, None, is_in_both=False, why=why)


def _compare_study(
    comparison: DocumentDiff, name: str, old: dict[str, Any], new: dict[str, Any]
) -> None:
    comparison.asked.extend(_differing_requests(name, old, new))
    layout = layout_of(old["results"], new["results"])
    fields = [fields_of(study["results"], layout) for study in (old, new)]
    unclear = _ambiguous(fields)
    comparison.unmatched.extend(f"{name}.{path}" if name else path for path in unclear)
    lost = [entry for side in fields for entry in side if _is_within(entry.path, unclear)]
    why = "is in a list whose rows have no names"
    comparison.incomparable.extend(_incomparable(name, lost, why))
    before, after = (
        _Side.of([entry for entry in side if not _is_within(entry.path, unclear)])
        for side in fields
    )
    for address, rows in {**before.rows, **after.rows}.items():
        is_in = address in before.rows, address in after.rows
        # If a row within a missing row is missing too, only the outer one is reported.
        outer = all(side.has_rows_of(rows[:-1]) for side in (before, after))
        if not all(is_in) and outer:
            comparison.only.append(LoneRow(name or None, address, "old" if is_in[0] else "new"))
    are_bills = old["command"] == new["command"] == BILL and are_alike(old, new)
    hours = [_month_hours(study) for study in (old, new)] if are_bills else []
    for address, entry in {**before.fields, **after.fields}.items():
        was, now = before.fields.get(address), after.fields.get(address)
        is_in_both = before.has_rows_of(entry.rows) and after.has_rows_of(entry.rows)
        if (was is None or was.is_number) and (now is None or now.is_number):
            values = [
                None if side is None or side.number is None else side.value for side in (was, now)
            ]
            rows = entry.rows if was is None or now is None else _joined(was.rows, now.rows)
            absent: Side | None = None
            if are_bills and not is_in_both and entry.rows:
                if is_added_up(old, entry.rows[-1].path) and is_amount(entry.path):
                    absent = "old" if was is None else "new"
                    values = [0.0 if value is None else value for value in values]
            change = Change(name, entry.path, rows, values[0], values[1], is_in_both, "", absent)
            if are_bills and (why := _other_part(change, hours)):
                change = replace(change, old=None, new=None, is_in_both=False, why=why)
                comparison.incomparable.append(change)
            else:
                comparison.numbers.append(change)
        elif is_in_both:
            words = (
                _words(was and was.value),
                _words(now and now.value),
            )
            if words[0] != words[1]:
                comparison.answers.append(ChangedText(name or None, address, *words))


def _month_hours(study: dict[str, Any]) -> dict[str, float]:
    """Return the hours of a bill in each month."""
    months = study["results"].get("months", ())
    return {
        month["name"]: month["hours"]
        for month in months
        if isinstance(month, dict) and isinstance(month.get("hours"), int | float)
    }


def _other_part(change: Change, hours: Sequence[dict[str, float]]) -> str:
    """Return why a number of a month cannot be compared: the bills have other parts of it."""
    if not change.rows or change.rows[0].path != "months":
        return ""
    name = str(dict((*change.rows[0].key, *change.rows[0].also)).get("name"))
    old, new = (side.get(name) for side in hours)
    if old is None or new is None or old == new:
        return ""
    return f"is of {old:g} h of {name} in the old document and {new:g} h in the new"


def _compare_bills(
    comparison: DocumentDiff, name: str, old: dict[str, Any], new: dict[str, Any]
) -> None:
    """Add what changed between two bills."""
    diff = bill_diff(old, new)
    if diff is None:
        return
    comparison.bills[name] = diff
    results = {"change": plain(diff.change)}
    for entry in fields_of(results, layout_of(results)):
        end = entry.path.rpartition(".")[2]
        if entry.number is None or not end.endswith("usd") or end in ("before_usd", "after_usd"):
            continue
        before = diff.change.before_usd if not entry.rows else _row_before(diff.change, entry)
        after = before + entry.number
        part = Change(name, entry.path, entry.rows, before, after, is_part=True)
        comparison.parts.append(part)


def _row_before(change: ChangeResults, entry: ResultField) -> float:
    """Return the dollars before of the row of a change that has a number."""
    rows = change.groups if entry.rows[0].path.endswith("groups") else change.gpu_types
    names = dict((*entry.rows[0].key, *entry.rows[0].also))
    return next(row.before_usd for row in rows if row.name == names["name"])


def _joined(old: tuple[Row, ...], new: tuple[Row, ...]) -> tuple[Row, ...]:
    """Return rows of both documents under all names that they have in either."""
    return tuple(
        replace(row, also=(*row.also, *other.also)) for row, other in zip(old, new, strict=True)
    )


def _ambiguous(sides: Iterable[list[ResultField]]) -> list[str]:
    """Return the groups of fields of which one document has several with the same address."""
    paths: dict[str, None] = {}
    for side in sides:
        count = Counter(entry.address for entry in side)
        for entry in side:
            if count[entry.address] > 1:
                paths[entry.path.rpartition(".")[0] or entry.path] = None
    return list(paths)


def _is_within(path: str, groups: Iterable[str]) -> bool:
    return any(path == group or path.startswith(f"{group}.") for group in groups)


def _words(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _differing_requests(
    study: str, old: dict[str, Any], new: dict[str, Any]
) -> Iterator[ChangedText]:
    """Yield the inputs and options of a study that differ."""
    for position, pair in enumerate(zip_longest(old["inputs"], new["inputs"]), 1):
        if pair[0] != pair[1]:
            name = "input" if position == 1 else f"input {position}"
            yield ChangedText(
                study or None,
                name,
                *(None if source is None else _input(source) for source in pair),
            )
    before, after = dict(_options(old["parameters"])), dict(_options(new["parameters"]))
    for name in {**before, **after}:
        pair = before.get(name, ABSENT), after.get(name, ABSENT)
        if pair[0] != pair[1] and not {*pair} <= NOT_GIVEN:
            yield ChangedText(study or None, name, pair[0] or None, pair[1] or None)


def _input(source: Any) -> str:
    if not isinstance(source, dict):
        return str(source)
    rows, digest = source.get("rows"), str(source.get("sha256"))
    counted = f"{rows:,} rows" if isinstance(rows, int) else "rows unknown"
    return f"{source.get('path')}, {counted}, SHA-256 {digest[:12]}"


def _options(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every option as JSON, those of policies under the label of the policy."""
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _options(item, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        for position, item in enumerate(value, 1):
            yield from _options(item, f"{path}[{item.get('label', position)}]")
    else:
        yield path, json.dumps(value, ensure_ascii=False)


def _hashes(study: dict[str, Any]) -> list[Any]:
    return [
        source.get("sha256") if isinstance(source, dict) else source for source in study["inputs"]
    ]
