"""Tables of a calibration and of what-if replays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from gpuplan.analysis.base.plain import fields_of
from gpuplan.analysis.base.words import counted
from gpuplan.cli.formats.report import Column, Table, cells_table, table
from gpuplan.cli.formats.units import (
    show_about_usd,
    show_duration,
    show_number,
    show_share,
)
from gpuplan.cli.tables.quota_tables import quota_tables
from gpuplan.planner.site.change_effects import LEAST_WAIT_S
from gpuplan.planner.site.effects import LONGER, MOST_LOST, NO_CHANGE
from gpuplan.planner.twin.score import shown_in_one_unit

if TYPE_CHECKING:
    from gpuplan.planner.site.change_effects import ChangeEffect, SplitJobs, WhatIfResults
    from gpuplan.planner.site.effects import GroupEffect
    from gpuplan.planner.twin.calibrate import CalibrateResults
    from gpuplan.planner.twin.score import WaitScore
    from gpuplan.planner.twin.validate import ChangeValidation


LEAST_GIVEN_UP = 1
"""Jobs given up that a headline tells."""


def show_signed(seconds: float) -> str:
    """Return a duration with its sign."""
    return f"{'+' if seconds > 0 else ''}{show_duration(seconds)}"


def calibration_headline(calibration: CalibrateResults) -> str:
    """Return the answer in a sentence, and another one where only a part of the log is replayed."""
    score, floor, work = calibration.score, calibration.noise_floor, calibration.work
    part = (
        f" Only the last {work.jobs.id.size:,} jobs of the log are replayed; --all-jobs takes all "
        f"{work.jobs.id.size + calibration.earlier_jobs:,}."
    )
    error, ties = shown_in_one_unit(score.mae_s, floor.mae_s)
    beyond = (
        f"the mean error is {error}. Replays that differ only in ties are {ties} apart."
        if score.mae_s > floor.mae_s
        else f"the mean error is within the {ties} between replays that differ only "
        "in ties: no rules could do better."
    )
    return (
        f"Replayed under {_rules(calibration)}, {show_share(score.within)} of "
        f"{score.jobs:,} jobs start within 5 min or 20% of their recorded wait; {beyond}"
    ) + (part if calibration.earlier_jobs else "")


def _rules(calibration: CalibrateResults) -> str:
    added, level = calibration.added, calibration.chosen
    is_first = level == next(iter(added))
    return added[level] if is_first else f"rules up to {added[level]}"


def calibration_tables(calibration: CalibrateResults, show_advice: bool) -> Iterator[Table]:
    """Yield the table of rules first."""
    first = calibration.levels[0].mae_s
    yield table(
        "Error left after each rule",
        calibration.levels,
        Column("rule", "rule added", read=lambda level: calibration.added[level.name]),
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
        f"By {kind}; waits from submission",
        scores,
        Column(kind, kind, read=attrgetter("name")),
        {"jobs": "jobs", "within": "within", "mae_s": "mean error"},
        Column("bias_s", "bias", show_signed),
        Column("recorded_mean_wait_s", "recorded wait", read=_recorded_wait),
        most=15,
    )


def whatif_headline(whatif: WhatIfResults, strict: bool = False) -> str:
    """Return the answer in a sentence or two per change; with ``strict`` also what could be.

    Every growth that a gate counts comes from the verdicts that are told here; the greatest of all
    groups is among those named.
    """
    texts = []
    for change in whatif.changes:
        lost, name = _lost(change, whatif), _named(change, whatif)
        if not change.groups:
            texts.append(f"{name}: {lost}no scored job starts in both replays.")
            continue
        if _loses_most(change, whatif):
            texts.append(f"{name}: {lost}no mean wait is given for the few that do.")
            continue
        all_jobs, *groups = _figures(change)
        text = f"{name}: {lost}{_moves(*all_jobs)}."
        if change.split is not None:
            text += _split_jobs(change.split)
        if sentence := _groups_that_change(groups):
            text += f" {sentence}"
        if strict:
            text += _could_change([all_jobs, *groups])
        if change.given_up is not None and abs(change.given_up) >= LEAST_GIVEN_UP:
            more = "more" if change.given_up > 0 else "fewer"
            text += f" About {abs(change.given_up):,.0f} {more} jobs are given up in the queue."
        usd = change.usd_per_month
        if isinstance(usd, float) and usd:
            more = "more" if usd > 0 else "less"
            text += f" It costs {show_about_usd(abs(usd))} a month {more} than today."
        texts.append(text)
    return " ".join(texts)


def _named(change: ChangeEffect, whatif: WhatIfResults) -> str:
    """Return what a change is called, with the GPUs of its quotas that no node has."""
    gpus = whatif.on_no_node.get(change.name, 0)
    more = f" ({counted(gpus, 'more GPU')}, which no node in the dump shows)" if gpus else ""
    return f"{change.name}{more}"


def _lost(change: ChangeEffect, whatif: WhatIfResults) -> str:
    """Return how many jobs never start with a change, and how they count; empty without any."""
    lost = sum(change.rejected.values())
    if not lost:
        return ""
    text = f"{lost:,} of {whatif.work.jobs.id.size:,} jobs never start with it"
    if not change.groups or _loses_most(change, whatif):
        return f"{text}; "
    if change.groups[0].counts_lost:
        return f"{text}; where they count as waiting to the end of the log, "
    return f"{text}; without them, "


def _loses_most(change: ChangeEffect, whatif: WhatIfResults) -> bool:
    """Return whether most jobs never start with a change, so that no mean wait tells anything."""
    lost = sum(change.rejected.values())
    return lost > 0 and lost > MOST_LOST * whatif.work.jobs.id.size


def _split_jobs(split: SplitJobs) -> str:
    """Return what becomes of the jobs that a change ends before they are done."""
    texts = []
    if split.whole is not None:
        mean, p95 = _group_figures(split.whole)
        texts.append(
            f" {counted(split.requeued, 'job')} queue again for the rest of their work: with these "
            f"waits, {_moves(mean, p95)}."
        )
    if split.cut:
        texts.append(
            f" {counted(split.cut, 'job')} are cut and lose {show_number(split.cut_gpu_h)} "
            "GPU-hours of work."
        )
    return "".join(texts)


@dataclass(frozen=True, slots=True)
class _Figure:
    """An effect on the mean or the P95 wait of a group, as a headline names it."""

    measure: str
    group: str
    effect_s: float
    error_s: float
    under_s: float | None
    verdict: str
    today_s: float
    stands_out: bool

    @property
    def share(self) -> float:
        """The effect over the wait of today, as gates count it."""
        return self.effect_s / self.today_s

    @property
    def text(self) -> str:
        """The effect with its error, or what it is below."""
        if self.under_s is None:
            return f"{show_signed(self.effect_s)}, error {show_duration(self.error_s)}"
        return f"under {show_duration(self.under_s)}"


def _figures(change: ChangeEffect) -> list[tuple[_Figure, _Figure]]:
    """Return mean and P95 of each group, all jobs first."""
    return [_group_figures(group) for group in change.groups]


def _group_figures(group: GroupEffect) -> tuple[_Figure, _Figure]:
    """Return the effects on the mean and the P95 wait; waits of today as gates count them."""
    return (
        _Figure("mean", group.name, group.effect_s, group.error_s, group.under_s, group.verdict,
                max(group.replayed_mean_wait_s, LEAST_WAIT_S), group.stands_out),
        _Figure("P95", group.name, group.p95_effect_s, group.p95_error_s, group.p95_under_s,
                group.p95_verdict, max(group.replayed_p95_wait_s, LEAST_WAIT_S),
                group.p95_stands_out),
    )  # fmt: skip


def _moves(mean: _Figure, p95: _Figure) -> str:
    """Return what happens to the mean and the P95 wait of all jobs."""
    if mean.verdict == p95.verdict == NO_CHANGE:
        return "no wait changes"
    if mean.verdict == p95.verdict:
        begin = "the effect is" if mean.under_s is not None else "waits get"
        return f"{begin} {mean.verdict} (mean {mean.text}; P95 {p95.text})"
    texts = []
    for figure in (mean, p95):
        wait = f"the {figure.measure} wait"
        if figure.verdict == NO_CHANGE:
            texts.append(f"{wait} does not change")
        elif figure.under_s is not None:
            texts.append(f"the effect on {wait} is {figure.verdict} ({figure.text})")
        else:
            texts.append(f"{wait} gets {figure.verdict} ({figure.text})")
    return "; ".join(texts)


def _groups_that_change(groups: list[tuple[_Figure, _Figure]]) -> str:
    """Return the two groups that change most; the one that grows most is one of them.

    They are chosen among many, so an effect has to stand out among so many. What counts is time, as
    it is told, not its share of the wait of today.
    """
    clear = [
        max(figures, key=lambda figure: abs(figure.effect_s))
        for pair in groups
        if (figures := [figure for figure in pair if figure.stands_out])
    ]
    clear.sort(key=lambda figure: -abs(figure.effect_s))
    longest = max(
        (figure for pair in groups for figure in pair
         if figure.stands_out and figure.verdict == LONGER),
        key=lambda figure: figure.effect_s,
        default=None,
    )  # fmt: skip
    if not clear:
        return ""
    named = clear[:2]
    if longest is not None and longest not in named:
        named = [longest, *(figure for figure in clear if figure.group != longest.group)][:2]
    parts = [
        f"the {figure.measure} wait of {figure.group} gets {figure.verdict} ({figure.text})"
        for figure in named
    ]
    which = "groups that change" if len(parts) > 1 else "group that changes"
    return f"The {which} most: {' and '.join(parts)}."


def _could_change(pairs: list[tuple[_Figure, _Figure]]) -> str:
    worst = max(
        (figure for pair in pairs for figure in pair),
        key=lambda figure: (figure.effect_s + figure.error_s) / figure.today_s,
    )
    most = worst.effect_s + worst.error_s
    if most <= 0:
        return ""
    return f" The {worst.measure} wait of {worst.group} could change by {show_signed(most)}."


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
        if not _loses_most(change, whatif)
        for group in change.groups
    ]
    several = len(whatif.changes) > 1
    of = "" if several else f": {whatif.changes[0].name}"
    first = {"change": "change" if several else "", "group": whatif.by}
    if rejected:
        yield cells_table("Jobs that never start with the change", "change reason jobs", rejected)
    if effects:
        yield from _effect_tables(effects, first, of)
    yield from quota_tables(whatif)


def _effect_tables(
    effects: list[dict[str, object]], first: dict[str, str], of: str
) -> Iterator[Table]:
    """Yield the effects on the mean wait, and on the 95th percentile."""
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
    all_jobs = validation.groups[0]
    return (
        f"The change was predicted to move the mean wait by "
        f"{show_signed(all_jobs.predicted_effect_s)}; recorded was "
        f"{show_signed(all_jobs.recorded_effect_s)}."
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
