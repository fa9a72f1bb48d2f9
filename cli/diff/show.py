"""A comparison as a report: one sentence, the changes that matter first, then the options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.cli.diff.bills import BILL, OF_PERIOD, OTHER_WINDOW, are_alike
from gpuplan.cli.diff.changes import NOISE, Change, DocumentDiff
from gpuplan.cli.diff.gates import MANY, signed_share
from gpuplan.cli.diff.read import other_logs
from gpuplan.cli.documents.view import STATES
from gpuplan.cli.formats.report import Column, Report, Shown, Table, cells_table, table
from gpuplan.cli.formats.units import show_between, show_duration, show_in
from gpuplan.cli.gates.gates import GateResult
from gpuplan.cli.results import (
    ChangedBill,
    ChangedNumber,
    ChangedText,
    DiffParameters,
    DiffResults,
    LoneRow,
)
from gpuplan.cli.tables.bill_change import change_headline, change_table
from gpuplan.planner.requests.declaration import COST, JCT, WORKLOAD, declaration_of

WINDOWS = ("window_s", "today.window_s")
"""Fields that say how long a log covers."""
MOST_SHOWN = 20
"""Rows without ``--full``."""


def report_of(
    comparison: DocumentDiff, *, tolerance: float, top: int, gates: Sequence[GateResult]
) -> Report:
    """Return a comparison as a report.

    Args:
        comparison: of two documents.
        tolerance: a number has changed where it differs by more than this fraction.
        top: changes that people see beside those that matter; JSON and CSV have all.
        gates: what came of the conditions on changes.
    """
    changed, order = comparison.changed(tolerance), (WORKLOAD, COST, JCT)
    matter = sorted(
        (
            change
            for change in comparison.numbers
            if _subject(comparison, change)[0] in order
            and (change.is_in_both and (change.old, change.new) != (None, None))
        ),
        key=lambda change: order.index(_subject(comparison, change)[0]),
    )
    minor = sorted(
        (change for change in changed if not _subject(comparison, change)[0]),
        key=_size,
        reverse=True,
    )
    warnings = [
        f"{path}: its rows have no names, so it is not compared" for path in comparison.unmatched
    ]
    warnings += [note for bill in comparison.bills.values() for note in bill.notes]
    warnings += _other_windows(comparison)
    warnings += other_logs(comparison.old, comparison.new)
    tables = _tables(comparison, matter, minor, tolerance, top, gates)
    studies = [lone for lone in comparison.only if not lone.name]
    return Report(
        command="diff",
        results=plain(
            DiffResults(
                of=comparison.old.command,
                same_inputs=comparison.same_inputs,
                tolerance_share=tolerance,
                numbers=len(comparison.numbers),
                changed=len(changed),
                changes=tuple(_number(comparison, change) for change in changed),
                answers=tuple(comparison.answers),
                asked=tuple(comparison.asked),
                bills=tuple(
                    ChangedBill(study or None, bill.by, bill.is_per_month, bill.change)
                    for study, bill in comparison.bills.items()
                ),
                only=tuple(comparison.only),
                gates=tuple(gate.outcome() for gate in gates),
            )
        ),
        tables=(*_bill_tables(comparison), *tables),
        answer=(
            *_bill_tables(comparison),
            *(() if _is_bill(comparison) else _answer(comparison, matter, minor, tolerance, top)),
            *([_lone(studies, "study", 10)] if studies else []),
            *tables[len(tables) - bool(gates) :],
        ),
        inputs=tuple(
            InputFile(str(document.path), document.sha256, len(document.studies))
            for document in (comparison.old, comparison.new)
        ),
        parameters=plain(DiffParameters(tolerance, top)),
        headline=headline_of(comparison, matter, len(changed), tolerance),
        warnings=tuple(warnings),
    )


def _is_bill(comparison: DocumentDiff) -> bool:
    """Return whether the whole comparison is one of two bills."""
    return bool(comparison.bills) and list(comparison.old.studies) == [""]


def _bill_tables(comparison: DocumentDiff) -> tuple[Table, ...]:
    """Return what changed between two bills, a table for each study."""
    return tuple(
        change_table(bill.change, bill.by, is_per_month=bill.is_per_month)
        for bill in comparison.bills.values()
    )


def _other_windows(comparison: DocumentDiff) -> list[str]:
    """Return a warning where the two logs cover times of different length."""
    for change in comparison.numbers:
        if change.study in comparison.bills:
            continue
        is_window = change.path in WINDOWS and change.old and change.new
        if is_window and abs(change.share or 0.0) > OTHER_WINDOW:
            old, new = (show_duration(value or 0.0) for value in (change.old, change.new))
            return [
                f"the old log covers {old}, the new one {new}: compare what is per month or per "
                "job; jobs and GPU-hours are totals"
            ]
    return []


def headline_of(
    comparison: DocumentDiff, matter: Sequence[Change], changed: int, tolerance: float
) -> str:
    """Return the answer: the largest change of each subject, of the whole before that of rows."""
    within = f"more than {_percent(tolerance)}" if tolerance else "any amount"
    count = len(comparison.numbers)
    if not changed and not comparison.answers and not comparison.only:
        same = "are the same" if not tolerance else f"are the same within {_percent(tolerance)}"
        return f"Nothing changed: all {count:,} numbers {same}."
    moves, same_as = [], []
    for study, bill in comparison.bills.items():
        where = f"{study}: " if study else ""
        text = change_headline(bill.change, bill.by, is_per_month=bill.is_per_month)
        moves.append(where + text.rstrip("."))
    splits = _other_splits(comparison)
    moves += splits
    order = (COST, WORKLOAD, JCT) if splits else (WORKLOAD, COST, JCT)
    for subject in () if _is_bill(comparison) else order:
        changes = [change for change in matter if _subject(comparison, change)[0] == subject]
        moved = [change for change in changes if change.is_above(tolerance)]
        if moved:
            largest = max(moved, key=lambda change: (not change.rows, _size(change)))
            moves.append(_moved(comparison, largest))
        elif changes:
            same_as.append(subject)
    numbers = f"{changed:,} of {count:,} numbers" if changed else "No number"
    sentences = ["; ".join(moves)] if moves else []
    if same_as and changed:
        *first, last = same_as
        names = f"{', '.join(first)} and {last} are" if first else f"{last} is"
        sentences.append(f"{names} unchanged")
    sentences.append("; ".join((f"{numbers} changed by {within}", *_in_one(comparison))))
    return " ".join(f"{text[0].upper()}{text[1:]}." for text in sentences)


def _other_splits(comparison: DocumentDiff) -> list[str]:
    """Return for each two bills that are not split alike that they are not, and their dollars."""
    texts = []
    for study, old in comparison.old.studies.items():
        new = comparison.new.studies.get(study)
        if new is None or old["command"] != BILL or new["command"] != BILL or are_alike(old, new):
            continue
        by_old, by_new = (side["results"].get("by") for side in (old, new))
        where = f"{study}: " if study else ""
        dollars = (change for change in comparison.numbers if change.path == "usd")
        bill = next((change for change in dollars if change.study == study), None)
        total = "what they bill is not in both"
        if bill is not None and bill.old is not None and bill.new is not None:
            total = f"both bills are {_text(bill, bill.new)}"
            if bill.old != bill.new:
                ends = show_between(bill.old, bill.new, show_in(bill.unit))
                total = f"the whole bill went from {ends}"
        text = f"{where}{total}; they are split differently, by {by_old} and by {by_new}: "
        text += "no rows are compared"
        texts.append(text)
    return texts


def _in_one(comparison: DocumentDiff) -> list[str]:
    """Return how many rows and studies are in one of the documents only; nothing where none is."""
    texts = []
    # What a bill gains or loses is told in dollars; its months are named in the answer.
    lone = [
        row for row in comparison.only if not (row.name and (row.study or "") in comparison.bills)
    ]
    for has_name, name in ((True, "row"), (False, "study")):
        sides = [row.side for row in lone if bool(row.name) == has_name]
        parts = [
            f"{counted(count, name)} only in the {side} document"
            for side in ("old", "new")
            if (count := sides.count(side))
        ]
        texts += [", ".join(parts)] if parts else []
    return texts


def _moved(comparison: DocumentDiff, change: Change) -> str:
    name = _subject(comparison, change)[1]
    if change.rows:
        name += f" of {change.rows[-1].label}"
    if change.study:
        name += f" ({change.study})"
    if change.new is None:
        return f"{name} has no value now ({_text(change, change.old)} before)"
    if change.old is None or change.share is None or change.change is None:
        return f"{name} is {_text(change, change.new)} (no value before)"
    how = "rose" if change.change > 0 else "fell"
    is_told = change.old != 0 and change.share + 1 < MANY
    by = f" {signed_share(abs(change.share)).lstrip('+')}" if is_told else ""
    return f"{name} {how}{by} from {show_between(change.old, change.new, show_in(change.unit))}"


def _subject(comparison: DocumentDiff, change: Change) -> tuple[str, str]:
    """Return the subject of a number and its name there; nothing where it is none that matters."""
    studies = [side.studies[change.study] for side in (comparison.old, comparison.new)]
    command = studies[0]["command"]
    bill = comparison.bills.get(change.study)
    if bill is not None and not bill.is_per_month and change.path in OF_PERIOD:
        return OF_PERIOD[change.path]
    declared = declaration_of(command)
    return ("", "") if declared is None else declared.compared.get(change.path, ("", ""))


def _size(change: Change) -> float:
    """Return how large a change is; what came or went is largest."""
    return float("inf") if change.share is None else abs(change.share)


def _text(change: Change, value: float | None) -> str:
    return "-" if value is None else show_in(change.unit)(value)


def _share_text(change: Change) -> str:
    if change.absent is not None:
        return "new" if change.absent == "old" else "gone"
    if change.share is None:
        return "-"
    return signed_share(change.share) if change.is_above(NOISE) else "0%"


def _change_text(change: Change) -> str:
    if change.change is None:
        return "-"
    if not change.is_above(NOISE):
        return "same"
    sign = "+" if change.change > 0 else "-"
    if change.unit == "share":
        return f"{sign}{100 * abs(change.change):.3g} points"
    return sign + show_in(change.unit)(abs(change.change))


def _answer(
    comparison: DocumentDiff,
    matter: Sequence[Change],
    minor: Sequence[Change],
    tolerance: float,
    top: int,
) -> tuple[Table, ...]:
    """Return what changed beyond the tolerance: what matters, or else the largest of the rest.

    Where no number changed, it is what differs in words, if anything does.
    """
    changed = [change for change in matter if change.is_above(tolerance)]
    rows = sorted(changed, key=_size, reverse=True) or minor
    if not rows:
        return _answers(comparison, top)
    title = f"What changed by more than {_percent(tolerance)}, the largest first"
    return (
        table(
            title if tolerance else "What changed",
            rows,
            Column("field", "what", read=partial(_named, comparison)),
            {"study": _study_header(comparison)},
            *VALUES,
            most=MOST_SHOWN if changed else top,
        ),
    )


def _answers(comparison: DocumentDiff, top: int) -> tuple[Table, ...]:
    words = comparison.answers
    return (_words(comparison, "Other answers", words, top),) if words else ()


def _words(
    comparison: DocumentDiff, title: str, differing: Sequence[ChangedText], top: int
) -> Table:
    """Return what differs in words, or in yes and no."""
    columns = (Column("study", _study_header(comparison)), *map(Column, TEXTS, TEXTS))
    return Table(title, columns, _merged(comparison, differing), most=top)


def _study_header(comparison: DocumentDiff) -> str:
    return "" if "" in comparison.old.studies else "study"


def _lone(rows: Sequence[LoneRow], study: str, most: int) -> Table:
    row_name = Column("name", "row", read=lambda row: row.name or "all of it")
    return table(
        "In one document only", rows, {"side": "document", "study": study}, row_name, most=most
    )


def _named(comparison: DocumentDiff, change: Change) -> str:
    """Return what a number is called, with its row; a path is open to line breaks at its parts."""
    name = _subject(comparison, change)[1]
    if not name:
        name = re.sub(r"\.(?![^\[]*\])", " ", change.path)
    return f"{name}, {change.rows[-1].label}" if change.rows else name


def _tables(
    comparison: DocumentDiff,
    matter: Sequence[Change],
    minor: Sequence[Change],
    tolerance: float,
    top: int,
    gates: Sequence[GateResult],
) -> tuple[Table, ...]:
    title = "What matters, then other changes, the largest first"
    if tolerance:
        title += f" (above {_percent(tolerance)})"
    study = _study_header(comparison)
    tables = [
        table(
            title,
            (*matter, *minor),
            Column("about", "about", read=lambda change: _subject(comparison, change)[0]),
            {"study": study},
            Column("field", "field", read=attrgetter("address")),
            *VALUES,
            {"unit": ""},
            most=len(matter) + top,
        )
    ]
    tables += _answers(comparison, top)
    if comparison.asked:
        tables.append(_words(comparison, "Options and inputs", comparison.asked, top))
    if comparison.only:
        tables.append(_lone(comparison.only, study, top))
    if gates:
        judged = [(gate.condition, STATES[gate.state], gate.detail) for gate in gates]
        tables.append(cells_table("Gates", "gate result found", judged))
    return tuple(tables)


def _merged(comparison: DocumentDiff, differing: Sequence[ChangedText]) -> list[tuple[Any, ...]]:
    """Return rows of a table; what differs alike in every study is one row."""
    studies: dict[tuple[Any, ...], list[str]] = {}
    for text in differing:
        studies.setdefault((text.name, text.old, text.new), []).append(text.study or "")
    both = comparison.old.studies.keys() & comparison.new.studies.keys()
    return [
        (study, *cells)
        for cells, names in studies.items()
        for study in (["all"] if len(names) == len(both) > 1 else names)
    ]


def _percent(tolerance: float) -> str:
    return f"{100 * tolerance:g}%"


VALUES = (
    Column("old", "old", read=lambda change: Shown(change.old, _text(change, change.old))),
    Column("new", "new", read=lambda change: Shown(change.new, _text(change, change.new))),
    Column("change", "change", read=lambda change: Shown(change.change, _change_text(change))),
    Column("change_share", "change, %", read=lambda row: Shown(row.share, _share_text(row))),
)
TEXTS = ("name", "old", "new")


def _number(comparison: DocumentDiff, change: Change) -> ChangedNumber:
    return ChangedNumber(
        about=_subject(comparison, change)[0] or None,
        study=change.study or None,
        field=change.address,
        old=change.old,
        new=change.new,
        change=change.change,
        change_share=change.share,
        unit=change.unit or None,
    )
