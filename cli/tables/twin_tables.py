"""Tables of a calibration and of what-if replays."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING

from gpuplan.analysis.base.plain import fields_of
from gpuplan.cli.formats.report import Column, Table, cells_table, table
from gpuplan.cli.formats.units import show_duration, show_share

if TYPE_CHECKING:
    from gpuplan.planner.twin.calibrate import CalibrateResults
    from gpuplan.planner.twin.score import WaitScore
    from gpuplan.planner.twin.validate import ChangeValidation
    from gpuplan.planner.twin.whatif import ChangeEffect, WhatIfResults


def show_signed(seconds: float) -> str:
    """Return a duration with its sign."""
    return f"{'+' if seconds > 0 else ''}{show_duration(seconds)}"


def calibration_headline(calibration: CalibrateResults) -> str:
    """Return the answer in a sentence, and another one where only a part of the log is replayed."""
    from gpuplan.planner.twin.score import shown_alike

    score, floor, work = calibration.score, calibration.noise_floor, calibration.work
    part = (
        f" Only the last {work.jobs.id.size:,} jobs of the log are replayed; --all-jobs takes all "
        f"{work.jobs.id.size + calibration.earlier_jobs:,}."
    )
    error, ties = shown_alike(score.mae_s, floor.mae_s)
    beyond = (
        f"the mean error is {error}. Replays that differ only in ties are {ties} apart."
        if score.mae_s > floor.mae_s
        else f"the mean error is within the {ties} between replays that differ only in ties."
    )
    return (
        f"Replayed under {_rules(calibration.chosen)}, {show_share(score.within)} of "
        f"{score.jobs:,} jobs start within 5 min or 20% of their recorded wait; {beyond}"
    ) + (part if calibration.earlier_jobs else "")


def _rules(level: str) -> str:
    from gpuplan.planner.twin.settings import ADDED, LEVELS

    return "first in, first out" if level == LEVELS[0] else f"rules up to {ADDED[level]}"


def calibration_tables(calibration: CalibrateResults, show_advice: bool) -> Iterator[Table]:
    """Yield the table of rules first."""
    from gpuplan.planner.twin.settings import ADDED

    first = calibration.levels[0].mae_s
    yield table(
        "Error left after each rule",
        calibration.levels,
        Column("rule", "rule added", read=lambda level: ADDED[level.name]),
        Column("level", "level", read=lambda level: level.name),
        {"within": "within", "mae_s": "mean error"},
        Column(
            "error_left",
            "error left",
            show_share,
            lambda level: level.mae_s / first if first > 0 else None,
        ),
        Column("replayed_mean_wait_s", "mean wait replayed", read=_replayed_wait),
        Column("recorded_mean_wait_s", "recorded", read=_recorded_wait),
        Column("chosen", "", read=lambda level: "chosen" * (level.name == calibration.chosen)),
    )
    yield Table(
        "Why",
        (Column("item", "item"), Column("value", "what")),
        [
            ("choice", calibration.choice),
            *((f"{name} skipped", why) for name, why in calibration.skipped_levels.items()),
            *((f"not scored: {why}", f"{count:,} jobs") for why, count in
              calibration.excluded.items()),
            *((f"never starts: {why}", f"{count:,} jobs") for why, count in
              calibration.rejected.items()),
            *(("rule off", text) for text in calibration.rules_off),
        ],
    )  # fmt: skip
    for kind, scores in calibration.score.by.items():
        if len(scores) > 1:
            yield _groups(kind, scores)
    if calibration.inferred:
        yield table(
            "Settings not given, with their defaults",
            calibration.inferred,
            {"key": "setting"},
            Column("value", "value", read=lambda setting: str(setting.value)),
            {"source": "source", "why": "why"},
            most=30,
        )
    if calibration.document.unknown:
        names = ", ".join(calibration.document.unknown)
        yield Table("Settings without effect here", (Column("key", "settings"),), [(names,)])
    if show_advice:
        texts = calibration.advice or ("No pattern stands out.",)
        yield Table("Advice", (Column("advice", "advice"),), [(text,) for text in texts])


def _replayed_wait(score: WaitScore) -> float:
    """Return the mean wait from submission; the score has it from eligible."""
    return score.held_mean_s + score.replayed_mean_s


def _recorded_wait(score: WaitScore) -> float:
    return score.held_mean_s + score.recorded_mean_s


def _groups(kind: str, scores: list[WaitScore]) -> Table:
    return table(
        f"By {kind}",
        scores,
        Column(kind, kind, read=attrgetter("name")),
        {"jobs": "jobs", "within": "within", "mae_s": "mean error"},
        Column("bias_s", "bias", show_signed),
        Column("recorded_mean_wait_s", "recorded wait", read=_recorded_wait),
        most=15,
    )


def whatif_headline(whatif: WhatIfResults, strict: bool = False) -> str:
    """Return the answer in a sentence per change; with ``strict`` also what could be."""
    texts = []
    for change in whatif.changes:
        overall = change.groups[0] if change.groups else None
        if overall is None:
            texts.append(f"{change.name}: no scored job starts in both replays.")
            continue
        lost = sum(change.rejected.values())
        rejected = f" {lost:,} jobs never start with it." if lost else ""
        effect = (
            "no effect beyond the error" if overall.verdict == "within the error"
            else f"waits get {overall.verdict}"
        )  # fmt: skip
        texts.append(
            f"{change.name}: {effect} (mean {show_signed(overall.effect_s)}, "
            f"error {show_duration(overall.error_s)}){_but(change, strict)}.{rejected}"
        )
    return " ".join(texts)


def _but(change: ChangeEffect, strict: bool) -> str:
    """Return what a gate may trip on and the mean of all jobs does not say."""
    from gpuplan.planner.twin.whatif import LEAST_WAIT_S, LONGER, WITHIN

    rows = [
        row
        for group in change.groups
        for row in (
            ("mean", group.name, group.effect_s, group.error_s, group.verdict,
             group.replayed_mean_wait_s),
            ("P95", group.name, group.p95_effect_s, group.p95_error_s, group.p95_verdict,
             group.replayed_p95_wait_s),
        )
    ]  # fmt: skip
    other = [row for row in rows if row[4] not in (WITHIN, rows[0][4])]
    said = ""
    if other:
        sign = 1 if any(row[4] == LONGER for row in other) else -1
        measure, name, effect, error, verdict, _ = max(
            other, key=lambda row: sign * row[2] / max(row[5], LEAST_WAIT_S)
        )
        said = (
            f", but the {measure} wait of {name} gets {verdict} ({show_signed(effect)}, "
            f"error {show_duration(error)})"
        )
    measure, name, effect, error, _, _ = max(
        rows, key=lambda row: (row[2] + row[3]) / max(row[5], LEAST_WAIT_S)
    )
    if strict and effect + error > 0:
        said += f"; the {measure} wait of {name} could change by {show_signed(effect + error)}"
    return said


def whatif_tables(whatif: WhatIfResults) -> Iterator[Table]:
    """Yield rejected jobs first, then the effects."""
    rejected = [
        (change.name, why, count)
        for change in whatif.changes
        for why, count in change.rejected.items()
    ]
    effects = [
        fields_of(group) | {"change": change.name, "group": group.name}
        for change in whatif.changes
        for group in change.groups
    ]
    several = len(whatif.changes) > 1
    of = "" if several else f": {whatif.changes[0].name}"
    first = {"change": "change" if several else "", "group": whatif.by}
    if rejected:
        yield cells_table("Jobs that never start with the change", "change reason jobs", rejected)
    yield table(
        f"Effect on waits{of}",
        effects,
        first,
        {
            "jobs": "jobs",
            "recorded_mean_wait_s": "recorded",
            "replayed_mean_wait_s": "replayed",
            "changed_mean_wait_s": "changed",
        },
        Column("effect_s", "effect", show_signed),
        {"error_s": "error", "verdict": "verdict", "p95_effect_s": "", "p95_error_s": ""},
        most=15,
    )
    yield table(
        f"Effect on the 95th percentile of waits{of}",
        effects,
        first,
        {
            "recorded_p95_wait_s": "recorded",
            "replayed_p95_wait_s": "replayed",
            "changed_p95_wait_s": "changed",
        },
        Column("p95_effect_s", "effect", show_signed),
        {"p95_error_s": "error", "p95_verdict": "verdict"},
        most=15,
    )


def validation_headline(validation: ChangeValidation) -> str:
    """Return the predicted and the recorded effect on all jobs."""
    whole = validation.groups[0]
    return (
        f"The change was predicted to move the mean wait by "
        f"{show_signed(whole.predicted_effect_s)}; recorded was "
        f"{show_signed(whole.recorded_effect_s)}."
    )


def validation_table(validation: ChangeValidation) -> Table:
    """Return predicted against recorded effects."""
    return table(
        "Predicted vs. recorded effect",
        validation.groups,
        Column("group", validation.by, read=attrgetter("name")),
        {"jobs_before": "jobs before", "jobs_after": "jobs after"},
        Column("predicted_effect_s", "predicted", show_signed),
        Column("recorded_effect_s", "recorded", show_signed),
    )
