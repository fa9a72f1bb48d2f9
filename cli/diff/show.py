"""A comparison as a report: one sentence, the changes that matter first, then the options."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.trace.input_files import InputFile
from gpuplan.cli.diff.changes import NOISE, Change, Differs, DocumentDiff
from gpuplan.cli.diff.gates import signed_share
from gpuplan.cli.documents.view import STATES
from gpuplan.cli.formats.report import Column, Report, Shown, Table
from gpuplan.cli.formats.units import show_between, show_duration, show_in
from gpuplan.cli.gates.gates import GateResult
from gpuplan.cli.results.diff import (
    ChangedNumber,
    ChangedText,
    DiffParameters,
    DiffResults,
    LoneRow,
)

WORKLOAD, COST, JCT = "workload", "cost", "completion time"
WINDOWS = ("window_s", "today.window_s")
"""Fields that say how long a log covers."""
OTHER_WINDOW = 0.02
"""Share by which two logs must differ in length for their totals not to be comparable."""
MOST_SHOWN = 20
"""Rows without ``--full``."""

SUBJECTS: dict[str, dict[str, tuple[str, str]]] = {
    "characterize": {
        "jobs": (WORKLOAD, "jobs"),
        "gpu_time.gpu_hours": (WORKLOAD, "GPU-hours"),
        "duration_s.mean": (WORKLOAD, "mean duration"),
        "duration_s.p95": (WORKLOAD, "p95 duration"),
        "load.mean_gpus": (WORKLOAD, "mean load"),
        "prices.cheapest_each_hour.cost_usd": (COST, "least cost"),
        "queue_s.mean": (JCT, "mean wait"),
    },
    "pareto": {
        "jobs": (WORKLOAD, "jobs"),
        "load_gpus": (WORKLOAD, "load"),
        "knee.budget_gpus": (COST, "GPUs at the best trade-off"),
        "knee.usd_per_month": (COST, "cost per month at the best trade-off"),
        "knee.mean_jct_s": (JCT, "planned mean JCT at the best trade-off"),
        "knee.replay.mean_jct_s": (JCT, "mean JCT at the best trade-off"),
        "knee.replay.p95_jct_s": (JCT, "P95 JCT at the best trade-off"),
    },
    "sweep": {
        "jobs": (WORKLOAD, "jobs"),
        "serverless_only.cost_usd": (WORKLOAD, "cost on serverless GPUs alone"),
        "recommended.cost_usd": (COST, "recommended cost"),
        "recommended.mean_jct_s": (JCT, "mean JCT as recommended"),
    },
    "bill": {
        "jobs": (WORKLOAD, "jobs"),
        "gpu_h": (WORKLOAD, "GPU-hours"),
        "usd_per_month": (COST, "monthly bill"),
        "idle_usd_per_month": (COST, "idle part of the bill"),
    },
    "bill of a period": {
        "jobs": (WORKLOAD, "jobs"),
        "gpu_h": (WORKLOAD, "GPU-hours"),
        "usd": (COST, "bill of the period"),
        "idle_usd": (COST, "idle part of the bill"),
    },
    "size": {
        "jobs": (WORKLOAD, "jobs"),
        "gpus": (COST, "GPUs needed"),
        "usd_per_month": (COST, "monthly cost"),
        "commitment.committed_gpus": (COST, "GPUs to commit to"),
        "commitment.usd_per_month": (COST, "monthly cost with a commitment"),
    },
    "compare": {
        "jobs": (WORKLOAD, "jobs"),
        "policies.cost_usd": (COST, "cost"),
        "policies.mean_jct_s": (JCT, "mean JCT"),
    },
    "simulate": {
        "jobs": (WORKLOAD, "jobs"),
        "gpu_h": (WORKLOAD, "GPU-hours"),
        "cost_usd": (COST, "cost"),
        "mean_jct_s": (JCT, "mean JCT"),
        "p95_jct_s": (JCT, "P95 JCT"),
    },
}
"""What matters of each command: path -> its subject, and what the headline calls it."""


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
    changed = comparison.changed(tolerance)
    order = (WORKLOAD, COST, JCT)
    matter = sorted(
        (
            one
            for one in comparison.numbers
            if _subject(comparison, one)[0] in order
            and one.is_in_both
            and (one.old, one.new) != (None, None)
        ),
        key=lambda one: order.index(_subject(comparison, one)[0]),
    )
    others = sorted(
        (one for one in changed if not _subject(comparison, one)[0]), key=_size, reverse=True
    )
    warnings = [
        f"{path}: its rows have no names, so it is not compared" for path in comparison.unmatched
    ]
    warnings += _other_windows(comparison)
    tables = _tables(comparison, matter, others, tolerance, top, gates)
    return Report(
        command="diff",
        results=plain(
            DiffResults(
                of=comparison.old.command,
                same_inputs=comparison.same_inputs,
                tolerance_share=tolerance,
                numbers=len(comparison.numbers),
                changed=len(changed),
                changes=tuple(_number(comparison, one) for one in changed),
                answers=tuple(_text_of(one) for one in comparison.answers),
                asked=tuple(_text_of(one) for one in comparison.asked),
                only=tuple(
                    LoneRow(one.study or None, one.name, one.side) for one in comparison.only
                ),
                gates=tuple(gate.outcome() for gate in gates),
            )
        ),
        tables=tables,
        answer=(
            *_answer(comparison, matter, others, tolerance, top),
            *_studies_of_one(comparison),
            *tables[len(tables) - bool(gates) :],
        ),
        inputs=tuple(
            InputFile(str(one.path), one.sha256, len(one.studies))
            for one in (comparison.old, comparison.new)
        ),
        parameters=plain(DiffParameters(tolerance, top)),
        headline=headline_of(comparison, matter, len(changed), tolerance),
        warnings=tuple(warnings),
    )


def _other_windows(comparison: DocumentDiff) -> list[str]:
    """Return a warning where the two logs cover times of different length."""
    for one in comparison.numbers:
        is_window = one.path in WINDOWS and one.old and one.new
        if is_window and abs(one.share or 0.0) > OTHER_WINDOW:
            old, new = (show_duration(value or 0.0) for value in (one.old, one.new))
            return [
                f"the old log covers {old}, the new one {new}: compare what is per month or per "
                "job; jobs and GPU-hours are totals"
            ]
    return []


def headline_of(
    comparison: DocumentDiff, matter: Sequence[Change], changed: int, tolerance: float
) -> str:
    """Return the answer in a sentence: the largest change of each subject that has one."""
    within = f"more than {_percent(tolerance)}" if tolerance else "any amount"
    count = len(comparison.numbers)
    if not changed and not comparison.answers and not comparison.only:
        same = "are the same" if not tolerance else f"are the same within {_percent(tolerance)}"
        return f"Nothing changed: all {count:,} numbers {same}."
    moves, same_as = [], []
    for subject in (WORKLOAD, COST, JCT):
        of_it = [one for one in matter if _subject(comparison, one)[0] == subject]
        moved = [one for one in of_it if one.is_above(tolerance)]
        if moved:
            moves.append(_moved(comparison, max(moved, key=_size)))
        elif of_it:
            same_as.append(subject)
    if not changed:
        counted = f"No number changed by {within}"
    else:
        counted = f"{changed:,} of {count:,} numbers changed by {within}"
    sentences = ["; ".join(moves)] if moves else []
    if same_as and changed:
        *first, last = same_as
        names = f"{', '.join(first)} and {last} are" if first else f"{last} is"
        sentences.append(f"{names} unchanged")
    sentences.append("; ".join((counted, *_in_one(comparison))))
    return " ".join(f"{text[0].upper()}{text[1:]}." for text in sentences)


def _in_one(comparison: DocumentDiff) -> list[str]:
    """Return how many rows and studies are in one of the documents only; nothing where none is."""
    found = []
    for has_name, one, several in ((True, "row", "rows"), (False, "study", "studies")):
        lone = [each.side for each in comparison.only if bool(each.name) == has_name]
        parts = [
            f"{count:,} {one if count == 1 else several} only in the {side} document"
            for side in ("old", "new")
            if (count := lone.count(side))
        ]
        found += [", ".join(parts)] if parts else []
    return found


def _moved(comparison: DocumentDiff, one: Change) -> str:
    name = _subject(comparison, one)[1]
    if one.rows:
        name += f" of {one.rows[-1].label}"
    if one.study:
        name += f" ({one.study})"
    if one.new is None:
        return f"{name} has no value now ({_text(one, one.old)} before)"
    if one.old is None or one.share is None or one.change is None:
        return f"{name} is {_text(one, one.new)} (no value before)"
    how = "rose" if one.change > 0 else "fell"
    by = "" if one.old == 0 else f" {signed_share(abs(one.share)).lstrip('+')}"
    return f"{name} {how}{by} from {show_between(one.old, one.new, _shown(one))}"


def _subject(comparison: DocumentDiff, one: Change) -> tuple[str, str]:
    """Return the subject of a number and its name there; nothing where it is none that matters."""
    studies = [side.studies[one.study] for side in (comparison.old, comparison.new)]
    command = studies[0]["command"]
    if command == "bill" and all(study["parameters"].get("period") for study in studies):
        command = "bill of a period"
    return SUBJECTS.get(command, {}).get(one.path, ("", ""))


def _size(one: Change) -> float:
    """Return how large a change is; what came or went is largest."""
    return float("inf") if one.share is None else abs(one.share)


def _text(one: Change, value: float | None) -> str:
    return "-" if value is None else _shown(one)(value)


def _shown(one: Change) -> Callable[[float], str]:
    return show_in(one.unit)


def _share_text(one: Change) -> str:
    if one.share is None:
        return "-"
    return signed_share(one.share) if one.is_above(NOISE) else "0%"


def _change_text(one: Change) -> str:
    if one.change is None:
        return "-"
    if not one.is_above(NOISE):
        return "same"
    sign = "+" if one.change > 0 else "-"
    if one.unit == "share":
        return f"{sign}{100 * abs(one.change):.3g} points"
    return sign + _shown(one)(abs(one.change))


def _answer(
    comparison: DocumentDiff,
    matter: Sequence[Change],
    others: Sequence[Change],
    tolerance: float,
    top: int,
) -> tuple[Table, ...]:
    """Return what changed beyond the tolerance: what matters, or else the largest of the rest.

    Where no number changed, it is what differs in words, if anything does.
    """
    changed = [one for one in matter if one.is_above(tolerance)]
    several = "" if "" in comparison.old.studies else "study"
    columns = (
        Column("field", "what"), Column("study", several), Column("old", "old"),
        Column("new", "new"), Column("change", "change"), Column("change_share", "change, %"),
    )  # fmt: skip
    rows = [
        (
            _named(comparison, one), one.study, Shown(one.old, _text(one, one.old)),
            Shown(one.new, _text(one, one.new)), Shown(one.change, _change_text(one)),
            Shown(one.share, _share_text(one)),
        )
        for one in (sorted(changed, key=_size, reverse=True) or others)
    ]  # fmt: skip
    if not rows:
        return (_answers(comparison, top),) if comparison.answers else ()
    title = f"What changed by more than {_percent(tolerance)}, the largest first"
    most = MOST_SHOWN if changed else top
    return (Table(title if tolerance else "What changed", columns, rows, most=most),)


def _answers(comparison: DocumentDiff, top: int) -> Table:
    return _words(comparison, "Other answers", comparison.answers, top)


def _words(comparison: DocumentDiff, title: str, differing: Sequence[Differs], top: int) -> Table:
    """Return what differs in words, or in yes and no."""
    several = "" if "" in comparison.old.studies else "study"
    columns = (Column("study", several), *(Column(name, name) for name in ("name", "old", "new")))
    return Table(title, columns, _merged(comparison, differing), most=top)


def _studies_of_one(comparison: DocumentDiff) -> list[Table]:
    """Return the studies that one of the documents lacks, as a table, if there are any."""
    rows = [(one.side, one.study, "all of it") for one in comparison.only if not one.name]
    names = (("side", "document"), ("study", "study"), ("name", "row"))
    columns = tuple(Column(*name) for name in names)
    return [Table("In one document only", columns, rows, most=10)] if rows else []


def _named(comparison: DocumentDiff, one: Change) -> str:
    """Return what a number is called, with its row; a path is open to line breaks at its parts."""
    name = _subject(comparison, one)[1]
    if not name:
        name = re.sub(r"\.(?![^\[]*\])", " ", one.path)
    return f"{name}, {one.rows[-1].label}" if one.rows else name


def _tables(
    comparison: DocumentDiff,
    matter: Sequence[Change],
    others: Sequence[Change],
    tolerance: float,
    top: int,
    gates: Sequence[GateResult],
) -> tuple[Table, ...]:
    several = "" if "" in comparison.old.studies else "study"
    columns = (
        Column("about", "about"),
        Column("study", several),
        Column("field", "field"),
        Column("old", "old"),
        Column("new", "new"),
        Column("change", "change"),
        Column("change_share", "change, %"),
        Column("unit", ""),
    )
    rows = [
        (
            _subject(comparison, one)[0],
            one.study,
            one.address,
            Shown(one.old, _text(one, one.old)),
            Shown(one.new, _text(one, one.new)),
            Shown(one.change, _change_text(one)),
            Shown(one.share, _share_text(one)),
            one.unit,
        )
        for one in (*matter, *others)
    ]
    title = "What matters, then other changes, the largest first"
    if tolerance:
        title += f" (above {_percent(tolerance)})"
    tables = [Table(title, columns, rows, most=len(matter) + top)]
    if comparison.answers:
        tables.append(_answers(comparison, top))
    if comparison.asked:
        tables.append(_words(comparison, "Options and inputs", comparison.asked, top))
    if comparison.only:
        where = (Column("side", "document"), Column("study", several), Column("name", "row"))
        only = [(one.side, one.study, one.name or "all of it") for one in comparison.only]
        tables.append(Table("In one document only", where, only, most=top))
    if gates:
        headings = tuple(Column(name, name) for name in ("gate", "result", "found"))
        judged = [(gate.condition, STATES[gate.state], gate.detail) for gate in gates]
        tables.append(Table("Gates", headings, judged))
    return tuple(tables)


def _merged(comparison: DocumentDiff, differing: Sequence[Differs]) -> list[tuple[Any, ...]]:
    """Return rows of a table; what differs alike in every study is one row."""
    studies: dict[tuple[Any, ...], list[str]] = {}
    for one in differing:
        studies.setdefault((one.name, one.old, one.new), []).append(one.study)
    both = comparison.old.studies.keys() & comparison.new.studies.keys()
    return [
        (study, *cells)
        for cells, names in studies.items()
        for study in (["all"] if len(names) == len(both) > 1 else names)
    ]


def _percent(tolerance: float) -> str:
    return f"{100 * tolerance:g}%"


def _number(comparison: DocumentDiff, one: Change) -> ChangedNumber:
    return ChangedNumber(
        about=_subject(comparison, one)[0] or None,
        study=one.study or None,
        field=one.address,
        old=one.old,
        new=one.new,
        change=one.change,
        change_share=one.share,
        unit=one.unit or None,
    )


def _text_of(one: Differs) -> ChangedText:
    return ChangedText(one.study or None, one.name, one.old, one.new)
