"""Tables of a calibration and of what-if replays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuplan.cli.formats.report import Column, Table
from gpuplan.cli.formats.units import show_count, show_duration, show_share

if TYPE_CHECKING:
    from gpuplan.planner.twin.calibrate import CalibrateResults
    from gpuplan.planner.twin.score import WaitScore
    from gpuplan.planner.twin.validate import ChangeValidation
    from gpuplan.planner.twin.whatif import ChangeEffect, WhatIfResults


def show_signed(seconds: float) -> str:
    """Return a duration with its sign."""
    return f"{'+' if seconds > 0 else ''}{show_duration(seconds)}"


def calibration_headline(found: CalibrateResults) -> str:
    """Return the answer in a sentence, and another one where only a part of the log is replayed."""
    score, floor, work = found.score, found.noise_floor, found.work
    part = (
        f" Only the last {work.jobs.id.size:,} jobs of the log are replayed; --all-jobs takes all "
        f"{work.jobs.id.size + found.earlier_jobs:,}."
    )
    return (
        f"Replayed under {_rules(found.chosen)}, {show_share(score.within)} of "
        f"{score.jobs:,} jobs start within 5 min or 20% of their recorded wait; the mean error is "
        f"{show_duration(score.mae_s)} (noise floor {show_duration(floor.mae_s)}, from ties)."
    ) + (part if found.earlier_jobs else "")


def _rules(level: str) -> str:
    from gpuplan.planner.twin.settings import ADDED, LEVELS

    return "first in, first out" if level == LEVELS[0] else f"rules up to {ADDED[level]}"


def calibration_tables(found: CalibrateResults, show_advice: bool) -> Iterator[Table]:
    """Yield the table of rules first."""
    from gpuplan.planner.twin.settings import ADDED

    first = found.levels[0].mae_s
    rows = [
        (
            ADDED[level.name], level.name, level.within, level.mae_s,
            level.mae_s / first if first > 0 else None, level.replayed_mean_s,
            level.recorded_mean_s, "chosen" if level.name == found.chosen else "",
        )
        for level in found.levels
    ]  # fmt: skip
    yield Table(
        "Error left after each rule",
        (
            Column("rule", "rule added"), Column("level", "level"),
            Column("within", "within", show_share),
            Column("mae_s", "mean error", show_duration),
            Column("error_left", "error left", show_share),
            Column("replayed_mean_wait_s", "mean wait replayed", show_duration),
            Column("recorded_mean_wait_s", "recorded", show_duration), Column("chosen", ""),
        ),
        rows,
    )  # fmt: skip
    yield Table(
        "Why",
        (Column("item", "item"), Column("value", "what")),
        [
            ("choice", found.choice),
            *((f"{name} skipped", why) for name, why in found.skipped_levels.items()),
            *((f"not scored: {why}", f"{count:,} jobs") for why, count in
              found.excluded.items()),
            *((f"never starts: {why}", f"{count:,} jobs") for why, count in
              found.rejected.items()),
            *(("rule off", text) for text in found.rules_off),
        ],
    )  # fmt: skip
    for kind, scores in found.score.by.items():
        if len(scores) > 1:
            yield _groups(kind, scores)
    if found.inferred:
        yield Table(
            "Settings not given, with their defaults",
            (Column("key", "setting"), Column("value", "value"), Column("source", "source"),
             Column("why", "why")),
            [(one.key, str(one.value), one.source, one.why) for one in found.inferred],
            most=30,
        )  # fmt: skip
    if found.document.unknown:
        names = ", ".join(found.document.unknown)
        yield Table("Settings without effect here", (Column("key", "settings"),), [(names,)])
    if show_advice:
        texts = found.advice or ("No pattern stands out.",)
        yield Table("Advice", (Column("advice", "advice"),), [(text,) for text in texts])


def _groups(kind: str, scores: list[WaitScore]) -> Table:
    return Table(
        f"By {kind}",
        (
            Column(kind, kind), Column("jobs", "jobs", show_count),
            Column("within", "within", show_share), Column("mae_s", "mean error", show_duration),
            Column("bias_s", "bias", show_signed),
            Column("recorded_mean_wait_s", "recorded wait", show_duration),
        ),
        [
            (one.name, one.jobs, one.within, one.mae_s, one.bias_s, one.recorded_mean_s)
            for one in scores
        ],
        most=15,
    )  # fmt: skip


def whatif_headline(found: WhatIfResults, strict: bool = False) -> str:
    """Return the answer in a sentence per change; with ``strict`` also what could be."""
    texts = []
    for change in found.changes:
        whole = change.groups[0] if change.groups else None
        if whole is None:
            texts.append(f"{change.name}: no scored job starts in both replays.")
            continue
        lost = sum(change.rejected.values())
        also = f" {lost:,} jobs never start with it." if lost else ""
        said = (
            "no effect beyond the error" if whole.verdict == "within the error"
            else f"waits get {whole.verdict}"
        )  # fmt: skip
        texts.append(
            f"{change.name}: {said} (mean {show_signed(whole.effect_s)}, "
            f"error {show_duration(whole.error_s)}){_but(change, strict)}.{also}"
        )
    return " ".join(texts)


def _but(change: ChangeEffect, strict: bool) -> str:
    """Return what a gate may trip on and the mean of all jobs does not say."""
    from gpuplan.planner.twin.whatif import LEAST_WAIT_S, LONGER, WITHIN

    rows = [
        row
        for one in change.groups
        for row in (
            ("mean", one.name, one.effect_s, one.error_s, one.verdict, one.replayed_mean_wait_s),
            ("P95", one.name, one.p95_effect_s, one.p95_error_s, one.p95_verdict,
             one.replayed_p95_wait_s),
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


def whatif_tables(found: WhatIfResults) -> Iterator[Table]:
    """Yield rejected jobs first, then the effects."""
    lost = [
        (change.name, why, count)
        for change in found.changes
        for why, count in change.rejected.items()
    ]
    several = len(found.changes) > 1
    of = "" if several else f": {found.changes[0].name}"
    which = Column("change", "change" if several else "")
    effects = Table(
        f"Effect on waits{of}",
        (
            which, Column("group", found.by),
            Column("jobs", "jobs", show_count),
            Column("recorded_mean_wait_s", "recorded", show_duration),
            Column("replayed_mean_wait_s", "replayed", show_duration),
            Column("changed_mean_wait_s", "changed", show_duration),
            Column("effect_s", "effect", show_signed), Column("error_s", "error", show_duration),
            Column("verdict", "verdict"), Column("p95_effect_s", ""), Column("p95_error_s", ""),
        ),
        [
            (
                change.name, one.name, one.jobs, one.recorded_mean_wait_s,
                one.replayed_mean_wait_s, one.changed_mean_wait_s, one.effect_s, one.error_s,
                one.verdict, one.p95_effect_s, one.p95_error_s,
            )
            for change in found.changes
            for one in change.groups
        ],
        most=15,
    )  # fmt: skip
    if lost:
        yield Table(
            "Jobs that never start with the change",
            (Column("change", "change"), Column("reason", "reason"),
             Column("jobs", "jobs", show_count)),
            lost,
        )  # fmt: skip
    yield effects
    yield Table(
        f"Effect on the 95th percentile of waits{of}",
        (
            which, Column("group", found.by),
            Column("recorded_p95_wait_s", "recorded", show_duration),
            Column("replayed_p95_wait_s", "replayed", show_duration),
            Column("changed_p95_wait_s", "changed", show_duration),
            Column("p95_effect_s", "effect", show_signed),
            Column("p95_error_s", "error", show_duration), Column("p95_verdict", "verdict"),
        ),
        [
            (
                change.name, one.name, one.recorded_p95_wait_s, one.replayed_p95_wait_s,
                one.changed_p95_wait_s, one.p95_effect_s, one.p95_error_s, one.p95_verdict,
            )
            for change in found.changes
            for one in change.groups
        ],
        most=15,
    )  # fmt: skip


def validation_headline(found: ChangeValidation) -> str:
    """Return the predicted and the recorded effect on all jobs."""
    whole = found.groups[0]
    return (
        f"The change was predicted to move the mean wait by "
        f"{show_signed(whole.predicted_effect_s)}; recorded was "
        f"{show_signed(whole.recorded_effect_s)}."
    )


def validation_table(found: ChangeValidation) -> Table:
    """Return predicted against recorded effects."""
    return Table(
        "Predicted vs. recorded effect",
        (
            Column("group", found.by), Column("jobs_before", "jobs before", show_count),
            Column("jobs_after", "jobs after", show_count),
            Column("predicted_effect_s", "predicted", show_signed),
            Column("recorded_effect_s", "recorded", show_signed),
        ),
        [
            (one.name, one.jobs_before, one.jobs_after, one.predicted_effect_s,
             one.recorded_effect_s)
            for one in found.groups
        ],
    )  # fmt: skip
