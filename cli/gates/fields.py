"""The fields of a result, by the names used in gates and diffs.

A field is a path in ``results`` of the JSON output: ``duration_s.p95``, ``points.cost_usd``. Where
it stands in a list, its address also says which row: ``policies[allpass].cost_usd``. Rows are
named by what they are about (a policy, a threshold, a class) and never by their position. Curves
and lists of bare values (counts by hour, intervals) are not fields.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

from gpuplan.analysis.base.errors import UsageError
from gpuplan.cli.formats.units import UNIT_SUFFIX
from gpuplan.cli.gates.declared import declared_path
from gpuplan.cli.gates.row_keys import KEY_NAMES, Layout, keys_of, named_items, text_of

NAMED_AT_MOST = 8
ANY_ROW = "*"
WITH = "_with"
"""Ends the name of a text beside a number of the same name without it."""
NEAR = 0.6  # of 1; below it a name is not a misspelling
SAME = 1e-5  # two numbers that name one row may differ by this much of the larger


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a list that contains a field.

    Attributes:
        path: of the list.
        key: the identity of the row.
        also: all names of the row, for conditions that use another one.
    """

    path: str
    key: tuple[tuple[str, Any], ...]
    also: tuple[tuple[str, Any], ...] = field(default=(), compare=False)

    @property
    def label(self) -> str:
        """The key as people read and write it: ``fixed, threshold_s=300``."""
        return ", ".join(
            text if isinstance(value, str) else f"{name}={text}"
            for name, value in self.key
            for text in (text_of(value),)
        )


@dataclass(frozen=True, slots=True)
class ResultField:
    """One value of a result.

    Attributes:
        path: its names, joined by dots.
        rows: the rows that contain it, the outermost first.
        value: a number, a text, true or false, or None.
    """

    path: str
    rows: tuple[Row, ...]
    value: Any

    @property
    def address(self) -> str:
        """The path with the rows: ``policies[allpass].cost_usd``."""
        return addressed(self.path, self.rows)

    @property
    def is_number(self) -> bool:
        """Return whether the value is a number or None."""
        return self.value is None or (
            isinstance(self.value, int | float) and not isinstance(self.value, bool)
        )

    @property
    def is_truth(self) -> bool:
        """Return whether the value is true or false."""
        return isinstance(self.value, bool)

    @property
    def number(self) -> float | None:
        """The value if it is a number other than NaN; true is 1, false is 0."""
        if self.is_truth:
            return float(self.value)
        if self.value is None or not self.is_number or math.isnan(self.value):
            return None
        return float(self.value)


def addressed(path: str, rows: Sequence[Row]) -> str:
    """Return a path with the rows on it."""
    written, done = "", ""
    for row in rows:
        written += f"{row.path[len(done) :]}[{row.label}]"
        done = row.path
    return written + path[len(done) :]


def fields_of(results: Any, layout: Layout) -> list[ResultField]:
    """Return every field of a result, in its order, with its rows identified by the layout."""
    every = list(_fields(results, "", (), layout))
    groups = {group for entry in every for group in groups_of(entry.path)}
    # A group that is missing in one element of a list is null there.
    return [entry for entry in every if entry.path not in groups]


def _fields(value: Any, path: str, rows: tuple[Row, ...], layout: Layout) -> Iterator[ResultField]:
    if isinstance(value, dict):
        for name, item in named_items(value, path):
            yield from _fields(item, name, rows, layout)
    elif isinstance(value, list | tuple):
        names = layout.get(path, ())
        items = [item for item in value if isinstance(item, dict)]
        for item, key in zip(items, keys_of(items, names), strict=True):
            also = tuple((name, item[name]) for name in KEY_NAMES if name in item)
            row = Row(path, key, also)
            yield from _fields(item, path, (*rows, row) if names else rows, layout)
    elif hasattr(value, "item") and not isinstance(value, str):
        yield from _fields(value.item(), path, rows, layout)
    elif value is None or isinstance(value, int | float | str):
        yield ResultField(path, rows, value)


def groups_of(path: str) -> Iterator[str]:
    """Return every group that contains a field: ``a`` and ``a.b`` for ``a.b.c``."""
    parts = path.split(".")
    return (".".join(parts[:end]) for end in range(1, len(parts)))


class NoField(UsageError):
    """No field has the name; other errors mean that several have it."""


class NoRow(NoField):
    """The field is there, and its list has no such row: another result may have it.

    Attributes:
        path: of the field.
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of a result, found by name.

    Attributes:
        by_path: path -> its numbers, several if it is in a list.
        truths: path -> what is true or false there, or null.
        command: whose result it is; empty where that is unknown.
        conditions: address of a number -> the text beside it of what it is with, such as a change
            of a site; see `WITH`.
    """

    by_path: dict[str, list[ResultField]] = field(default_factory=dict)
    truths: dict[str, list[ResultField]] = field(default_factory=dict)
    command: str = ""
    conditions: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, fields: Iterable[ResultField], command: str = "") -> Numbers:
        """Return those of the fields that are numbers, and aside those that are true or false."""
        numbers = cls(command=command)
        for entry in fields:
            if entry.is_number:
                numbers.by_path.setdefault(entry.path, []).append(entry)
            if entry.is_truth or entry.value is None:
                numbers.truths.setdefault(entry.path, []).append(entry)
            if isinstance(entry.value, str) and entry.value and entry.path.endswith(WITH):
                numbers.conditions[entry.address.removesuffix(WITH)] = entry.value
        return numbers

    def for_condition(self, *, is_truth: bool) -> Numbers:
        """Return these, or in their place what is true or false."""
        return Numbers(self.truths, command=self.command) if is_truth else self

    def named(self, name: str) -> tuple[str, list[ResultField]]:
        """Return the path of the field that a name means, and its numbers.

        A field of a group that is null has no value: ``holdout.saved`` where nothing was held out.

        Args:
            name: a path, its end, either without units; rows in brackets, as in
                ``policies[allpass].cost``.

        Raises:
            NoField: no such field.
            NoRow: no such row in a list of rows with names.
            UsageError: several fields, or a group of them.
        """
        bare, wanted = _selectors(name)
        try:
            path = _lookup(self.by_path, bare)
        except NoField:
            is_null = not wanted and any(self._is_null(group) for group in groups_of(bare))
            # What is no field where the group is there is none where it is null.
            declared = declared_path(self.command, bare) if is_null else None
            if declared is None:
                raise
            return declared, [ResultField(declared, (), None)]
        return path, self._chosen(path, wanted)

    def _is_null(self, path: str) -> bool:
        """Return whether there is a field with no value in any row."""
        entries = self.by_path.get(path, [])
        return bool(entries) and all(entry.value is None for entry in entries)

    def replayed(self, planned: ResultField) -> ResultField | None:
        """Return the same figure in the replay beside it; None where there is none."""
        group, _, name = planned.path.rpartition(".")
        in_replay = self.by_path.get(f"{group}.replay.{name}", [])
        same_rows = (entry for entry in in_replay if entry.rows == planned.rows)
        return next((entry for entry in same_rows if entry.number is not None), None)

    def _chosen(self, path: str, wanted: dict[int, str]) -> list[ResultField]:
        chosen = self.by_path[path]
        depth = path.count(".") + 1
        for from_end, terms in wanted.items():
            place = depth - from_end
            at = [
                (entry, row)
                for entry in chosen
                for row in entry.rows
                if row.path.count(".") + 1 == place
            ]
            if from_end == 0 and not at:  # growth[any team] for rows[any team].growth
                at = [(entry, entry.rows[-1]) for entry in chosen if entry.rows]
            kept = [entry for entry, row in at if _is_row(row, terms, row.key)]
            kept = kept or [entry for entry, row in at if _is_row(row, terms, row.also)]
            if not kept:
                group = ".".join(path.split(".")[:place])
                labels = list(dict.fromkeys(row.label for _, row in at))
                problem = f"{group} has no row {terms.strip()!r}"
                if not labels:
                    raise NoField(f"{problem}; it has no rows by name")
                raise NoRow(path, f"{problem}; expected {some(labels, ' or ')}")
            chosen = kept
        return chosen


def _selectors(name: str) -> tuple[str, dict[int, str]]:
    """Return a name without brackets, and their contents by position from the end, 0 last."""
    bare, wanted = "", {}
    for part in re.finditer(r"([^\[\]]*)(?:\[([^\]]*)\])?", name):
        bare += part[1]
        if part[2] is not None:
            wanted[bare.count(".")] = part[2]
    return bare, {bare.count(".") - place: terms for place, terms in wanted.items()}


def _is_row(row: Row, terms: str, names: Sequence[tuple[str, Any]]) -> bool:
    """Return whether a row matches: by its label, or by its values or ``name=value`` pairs."""
    return (
        terms.strip() == ANY_ROW
        or row.label == terms
        or all(_is_term(names, term) for term in terms.split(","))
    )


def _is_term(names: Sequence[tuple[str, Any]], term: str) -> bool:
    name, equals, value = (part.strip() for part in term.rpartition("="))
    return any(
        _is_value(value_of_row, value)
        for key, value_of_row in names
        if not equals or name in (key, UNIT_SUFFIX.sub("", key))
    )


def _is_value(value: Any, wanted: str) -> bool:
    if text_of(value) == wanted:
        return True
    try:
        return math.isclose(float(value), float(wanted), rel_tol=SAME)
    except (TypeError, ValueError):
        return False


def _lookup(paths: Iterable[str], name: str) -> str:
    """Return the full path of the one field that is meant. Raises as `Numbers.named`."""
    tests: tuple[Callable[[str], bool], ...] = (
        lambda path: path == name,
        lambda path: _bare(path) == _bare(name),
        lambda path: _bare(path).endswith("." + _bare(name)),
    )
    for test in tests:
        matching = [path for path in paths if test(path)]
        if len(matching) == 1:
            return matching[0]
        if matching:
            raise UsageError(f"{name} is ambiguous: {some(matching, ' or ')}")
        inside = [path for path in paths if any(test(group) for group in groups_of(path))]
        if inside:
            raise UsageError(f"{name} is a group of fields; name one of {some(inside)}")
    near = sorted(paths, key=lambda path: _likeness(name, path), reverse=True)[:3]
    near = [path for path in near if _likeness(name, path) >= NEAR]
    hint = f"did you mean {some(near, ' or ')}?" if near else "see --output-format json"
    raise NoField(f"no field {name!r} with a number; {hint}")


def some(names: Sequence[str], separator: str = ", ") -> str:
    """Return names in one text, a few of them where there are many."""
    more = len(names) - NAMED_AT_MOST
    return separator.join(names[:NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")


def _likeness(name: str, path: str) -> float:
    """Return the similarity of a name to a path or to its last part, 0 to 1; 0 below `NEAR`."""
    texts = {path, _bare(path), path.rpartition(".")[2]}
    if any(_words(name) == _words(text) for text in texts):  # wait_s.p95 for p95_wait_s
        return 1.0
    matchers = [SequenceMatcher(None, name, text) for text in sorted(texts)]
    # The bound by length alone comes first: a name may be very long.
    near = [matcher for matcher in matchers if matcher.real_quick_ratio() >= NEAR]
    return max((matcher.ratio() for matcher in near), default=0.0)


def _words(name: str) -> list[str]:
    """Return the words of a name, in any order."""
    return sorted(re.split(r"[._]", name))


def _bare(path: str) -> str:
    return ".".join(UNIT_SUFFIX.sub("", part) for part in path.split("."))
