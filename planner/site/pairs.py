"""What a change of a site's settings does to waits: pairs of replays with and without it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import Hidden
from gpuplan.analysis.site.document import SiteDocument, dotted
from gpuplan.analysis.site.log import SiteLog
from gpuplan.analysis.site.schema import CalibrationTable, leaves
from gpuplan.planner.site.effects import QUANTILES, UNCLEAR, GroupWaits, effects_of
from gpuplan.planner.site.patience import Patience, patience_of
from gpuplan.planner.site.replicas import Case, Chance, Replica, Replicas
from gpuplan.planner.twin.calibrate import prepared
from gpuplan.planner.twin.settings import LEVELS, level_config, why_off
from gpuplan.planner.twin.site_changes import SiteChange, check_names
from gpuplan.planner.twin.workload import GROUPINGS, SiteWorkload, recent
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.twin.refusals import CANCELLED, REASONS

MOST_NAMED = 100
"""Ids of jobs that a change keeps from starting."""
LEAST_WAIT_S = 60.0
"""Growth counts from a wait of at least this: from 1 s to 3 s is no growth of 200%."""
UNEXPLAINED = ("inferred", "assumed")
"""Sources of settings that nobody gave: what they do today is a guess."""


@dataclass(frozen=True, slots=True)
class GroupEffect:
    """The waits of one group under a change, in seconds.

    Attributes:
        name: the group.
        jobs: scored jobs that start in the record and in both replays of a pair, on average.
        recorded_mean_wait_s, recorded_p95_wait_s: as recorded.
        replayed_mean_wait_s, replayed_p95_wait_s: replayed under the rules of today.
        changed_mean_wait_s, changed_p95_wait_s: replayed with the change.
        effect_s, p95_effect_s: changed - replayed.
        noise_s, p95_noise_s: standard deviation of the effect over the pairs.
        error_s, p95_error_s: how far the effect may be from what the change would have done, from
            the pairs and from leaving out each block of days.
        verdict: ``longer``, ``shorter`` or ``too small to tell``, by the means.
        p95_verdict: the same by the 95th percentiles.
        under_s, p95_under_s: what the size of an effect that is too small to tell is below; null
            where it is told.
    """

    name: str
    jobs: int
    recorded_mean_wait_s: float
    recorded_p95_wait_s: float
    replayed_mean_wait_s: float
    replayed_p95_wait_s: float
    changed_mean_wait_s: float
    changed_p95_wait_s: float
    effect_s: float
    p95_effect_s: float
    noise_s: float
    p95_noise_s: float
    error_s: float
    p95_error_s: float
    verdict: str
    p95_verdict: str
    under_s: float | None
    p95_under_s: float | None

    @classmethod
    def of(cls, waits: GroupWaits) -> GroupEffect:
        """Return a group as results have it."""
        mean, p95 = waits.mean, waits.p95

        def both(name: str) -> tuple[float, float]:
            return getattr(mean, name), getattr(p95, name)

        return cls(
            waits.name, waits.jobs, *both("recorded"), *both("replayed"), *both("changed"),
            *both("effect"), *both("spread"), *both("error"), mean.verdict, p95.verdict,
            mean.under, p95.under,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ChangeEffect:
    """What one change does.

    Attributes:
        name: the change.
        replicas: pairs of replays.
        effect_s, p95_effect_s: on the mean and the P95 wait of all jobs; null where no scored job
            starts in every pair, as those below.
        error_s, p95_error_s, verdict, p95_verdict: as of the group of all jobs.
        is_explained: whether the calibration explains the changed rules; if not, errors hold the
            distance between today's replay and the record too.
        given_up: jobs that are given up more than today, on average over the pairs; null where the
            log does not tell users' patience.
        rejected: jobs that start in the base replay and not with the change, by reason.
        rejected_jobs: their ids, at most 100.
        groups: all jobs first, then the groups by name.
        elsewhere_gpu_s: GPU-seconds that each job runs on GPUs elsewhere, on average.
    """

    name: str
    replicas: int
    effect_s: float | None
    p95_effect_s: float | None
    error_s: float | None
    p95_error_s: float | None
    verdict: str | None
    p95_verdict: str | None
    is_explained: bool
    given_up: float | None
    rejected: dict[str, int]
    rejected_jobs: tuple[str, ...]
    groups: tuple[GroupEffect, ...]
    elsewhere_gpu_s: Hidden[FloatArray] = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, slots=True)
class WaitGrowth:
    """Growth of the waits of a group, the greatest over the changes; for gates.

    Attributes:
        name: the group; ``any team`` is the greatest of all groups but all jobs.
        mean_wait_growth: effect on the mean wait over the wait of today, at least 60 s; 0 where it
            is too small to tell.
        p95_wait_growth: the same of the P95 wait.
    """

    name: str
    mean_wait_growth: float
    p95_wait_growth: float


@dataclass(frozen=True, slots=True)
class CalibratedError:
    """How well the rules explain the waits of the log that they were calibrated on.

    Attributes:
        within: jobs replayed within 5 minutes or 20% of their recorded wait, of 1.
        mae_s: mean absolute error of the waits.
    """

    within: float | None
    mae_s: float | None


@dataclass(frozen=True, slots=True)
class WhatIfResults:
    """What changes do to waits.

    Attributes:
        level: the rules that are replayed.
        by: what groups are.
        base_rejected: jobs that never start under the rules of today either, by reason.
        changes: one entry per change, in their order.
        growth: growth of waits by group.
        calibration: the error of the calibration.
        work: the jobs.
        given_up: jobs of the log from whose cancellation in the queue users' patience is told; null
            where they are too few, and nobody gives up.
        unused: changed settings that the replayed rules do not use, one sentence each.
    """

    level: str
    by: str
    base_rejected: dict[str, int]
    changes: tuple[ChangeEffect, ...]
    growth: tuple[WaitGrowth, ...]
    calibration: CalibratedError
    given_up: int | None
    work: Hidden[SiteWorkload]
    unused: Hidden[tuple[str, ...]] = ()


def what_if(
    log: SiteLog,
    document: SiteDocument,
    changes: Iterable[SiteChange],
    calibration: CalibrationTable,
    *,
    by: str = "account",
    strict: bool = False,
    chosen: str | None = None,
) -> WhatIfResults:
    """Replay a log, or the last weeks of a long one, in pairs without and with each change.

    Both replays of a pair have the same chance: submissions moved by seconds, ties, users who give
    up. Pairs are added until their number says little more. See `gpuplan.planner.site.effects`.

    Args:
        log: the log.
        document: the site's settings.
        changes: to make to them.
        calibration: the rules and jobs to replay, and the jobs to score.
        by: what groups are.
        strict: see `wait_growth`.
        chosen: the rules that the calibration chose, if others are replayed.

    Raises:
        InputError: the log names a partition that the settings do not describe.
        UsageError: a setting or a change cannot be used, or changes a rule that is off.
    """
    check_groups(by, calibration.level)
    changes = list(changes)
    pairs = pairs_of(log, document, changes, calibration, chosen=chosen)
    waits: list[list[GroupWaits]] = [[] for _ in changes]
    unclear = list(range(len(changes)))
    for count in QUANTILES:
        pairs.grow(unclear, count)
        for at in unclear:
            waits[at] = pairs.effects(at, by)
        unclear = [at for at in unclear if not _is_precise(waits[at], count)]
    effects = [_change_effect(pairs, at, groups) for at, groups in enumerate(waits)]
    patience = pairs.patience
    return WhatIfResults(
        level=calibration.level,
        by=by,
        base_rejected=_rejected(pairs.today[0].reason) if changes else {},
        changes=tuple(effects),
        growth=wait_growth(by, effects, strict),
        calibration=CalibratedError(calibration.within, calibration.mae_s),
        given_up=None if patience is None else patience.given_up,
        work=pairs.work,
        unused=pairs.unused,
    )


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of replays, without and with each of some changes.

    Attributes:
        work: the jobs of the log.
        names: of the changes.
        explained: whether the calibration explains the rules that each change is of.
        unused: changed settings that the replayed rules do not use, one sentence each.
        patience: when users give up; None where the log does not tell.
        replicas: of the site of today, then of each change.
    """

    work: SiteWorkload
    names: tuple[str, ...]
    explained: tuple[bool, ...]
    unused: tuple[str, ...]
    patience: Patience | None
    replicas: Replicas

    @property
    def today(self) -> list[Replica]:
        """The replicas under the rules of today so far."""
        return self.replicas.of[0]

    def changed(self, at: int) -> list[Replica]:
        """Return the replicas of a change so far."""
        return self.replicas.of[1 + at]

    def grow(self, which: Iterable[int], count: int) -> None:
        """Replay until there are so many pairs, a key of `QUANTILES`, of the changes there."""
        cases = [1 + at for at in which]
        self.replicas.grow([0, *cases] if cases else [], count)

    def effects(self, at: int, by: str) -> list[GroupWaits]:
        """Return what a change does to all jobs, then to the groups, from the pairs so far."""
        changed = self.changed(at)
        return effects_of(
            self.work, self.today[: len(changed)], changed, by, is_explained=self.explained[at]
        )


def pairs_of(
    log: SiteLog,
    document: SiteDocument,
    changes: Sequence[SiteChange],
    calibration: CalibrationTable,
    *,
    chosen: str | None = None,
) -> Pairs:
    """Return what is to be replayed in pairs, nothing of it replayed yet; see `what_if`.

    Raises:
        InputError: the log names a partition that the settings do not describe.
        UsageError: a setting or a change cannot be used, or changes a rule that is off.
    """
    level = calibration.level
    log = log if calibration.all_jobs else recent(log)
    scoring = calibration.warmup_s, calibration.limit_factor
    documents = [_document(log, document, change) for change in changes]
    unused = [
        text
        for change, changed in zip(changes, documents, strict=True)
        for text in _unused(change, document, changed, level)
    ]
    site, full, work = prepared(log, document, *scoring)
    cases = [Case("today", site, work.jobs, level_config(full, level))]
    for change, changed in zip(changes, documents, strict=True):
        new_site, new_full, new_work = prepared(log, changed, *scoring)
        new_site = new_site if change.site is None else change.site(new_site)
        jobs = new_work.jobs if change.jobs is None else change.jobs(new_work.jobs)
        cases.append(Case(change.name, new_site, jobs, level_config(new_full, level)))
    patience = patience_of(work)
    return Pairs(
        work=work,
        names=tuple(change.name for change in changes),
        explained=tuple(
            _is_explained(document, changed, chosen or level, level) for changed in documents
        ),
        unused=tuple(unused),
        patience=patience,
        replicas=Replicas(cases, Chance.of(work, patience)),
    )


def _is_precise(groups: Sequence[GroupWaits], pairs: int) -> bool:
    return all(effect.is_precise(pairs) for group in groups for effect in (group.mean, group.p95))


def check_groups(by: str, level: str) -> None:
    """Refuse groups or rules that are not there. Raises `UsageError`."""
    if by not in GROUPINGS:
        raise UsageError(f"--by must be one of {', '.join(GROUPINGS)}, got {by!r}")
    if level not in LEVELS:
        raise UsageError(f"the level must be one of {', '.join(LEVELS)}, got {level!r}")


def _document(log: SiteLog, document: SiteDocument, change: SiteChange) -> SiteDocument:
    """Return the settings with a change."""
    check_names(change, document, log)
    changed = deepcopy(document)
    if change.document is not None:
        change.document(changed)
        for name in document.tables.get("partition", {}):
            if changed.get("partition", name) is None:  # its jobs are refused, with a note
                changed.put("ALL", "partition", name, "Nodes")
                changed.put(0, "partition", name, "MaxNodes")
    return changed


def _unused(
    change: SiteChange, document: SiteDocument, changed: SiteDocument, level: str
) -> list[str]:
    """Return a sentence for each changed setting that the replayed rules do not use.

    Raises:
        UsageError: a setting that the change names is one of them, or all it changes are.
    """
    settings = changed.settings
    before, after = (dict(leaves(site.tables)) for site in (document, changed))
    moved = [keys for keys in {**before, **after} if before.get(keys) != after.get(keys)]
    off = {keys: why for keys in (*change.keys, *moved) if (why := why_off(keys, settings, level))}
    named = next((keys for keys in change.keys if keys in off), None)
    if named is None and off and len(off) == len(moved) and not (change.site or change.jobs):
        named = next(iter(off))
    if named is not None:
        raise UsageError(f"{change.name}: changes {dotted(*named)}, and {off[named]}")
    return [f"{change.name}: {dotted(*keys)} has no effect: {why}" for keys, why in off.items()]


def _is_explained(document: SiteDocument, changed: SiteDocument, chosen: str, level: str) -> bool:
    """Return whether the calibration explains the rules that a change is of.

    It does not where the replayed rules are more than it chose, or a changed setting was a guess.
    """
    if LEVELS.index(level) > LEVELS.index(chosen):
        return False
    before, after = (dict(leaves(site.tables)) for site in (document, changed))
    moved = (keys for keys in {**before, **after} if before.get(keys) != after.get(keys))
    return not any(document.sources.get(dotted(*keys)) in UNEXPLAINED for keys in moved)


def _rejected(reason: IntArray) -> dict[str, int]:
    """Return how many jobs never start, by reason; cancelled ones are left out."""
    codes, counts = np.unique(reason[(reason != 0) & (reason != CANCELLED)], return_counts=True)
    return {REASONS[code]: int(count) for code, count in zip(codes, counts, strict=True)}


def _change_effect(pairs: Pairs, at: int, waits: Sequence[GroupWaits]) -> ChangeEffect:
    work, changed = pairs.work, pairs.changed(at)
    today = pairs.today[: len(changed)]
    groups = tuple(map(GroupEffect.of, waits))
    lost = (today[0].wait >= 0) & (changed[0].wait < 0) & (changed[0].reason != CANCELLED)
    ran = work.recorded_start >= 0

    def given_up(runs: Sequence[Replica]) -> int:
        return sum(int((ran & (run.reason == CANCELLED)).sum()) for run in runs)

    more = (given_up(changed) - given_up(today)) / len(changed)
    whole = groups[0] if groups else None
    return ChangeEffect(
        name=pairs.names[at],
        replicas=len(changed),
        effect_s=None if whole is None else whole.effect_s,
        p95_effect_s=None if whole is None else whole.p95_effect_s,
        error_s=None if whole is None else whole.error_s,
        p95_error_s=None if whole is None else whole.p95_error_s,
        verdict=None if whole is None else whole.verdict,
        p95_verdict=None if whole is None else whole.p95_verdict,
        is_explained=pairs.explained[at],
        given_up=None if pairs.patience is None else more,
        rejected=_rejected(np.where(lost, changed[0].reason, 0)),
        rejected_jobs=tuple(work.job_ids[int(i)] for i in np.flatnonzero(lost)[:MOST_NAMED]),
        groups=groups,
        elsewhere_gpu_s=np.mean([run.elsewhere_gpu_s for run in changed], axis=0),
    )


def wait_growth(by: str, changes: Sequence[ChangeEffect], strict: bool) -> tuple[WaitGrowth, ...]:
    """Return the growth of waits by group for gates, the greatest over the changes.

    A growth that is too small to tell counts as none; with ``strict`` the error is added to the
    effect. ``any team`` is the greatest of all groups.
    """
    most: dict[str, WaitGrowth] = {}
    for change in changes:
        for group in change.groups:
            mean = _growth(
                group.effect_s, group.error_s, group.verdict, group.replayed_mean_wait_s, strict
            )
            p95 = _growth(
                group.p95_effect_s,
                group.p95_error_s,
                group.p95_verdict,
                group.replayed_p95_wait_s,
                strict,
            )
            aliases = ["any team", f"any {by}"] if group is not change.groups[0] else []
            for name in dict.fromkeys([*aliases, group.name]):
                row = most.get(name, WaitGrowth(name, mean, p95))
                most[name] = WaitGrowth(
                    name, max(row.mean_wait_growth, mean), max(row.p95_wait_growth, p95)
                )
    return tuple(most.values())


def _growth(effect_s: float, error_s: float, verdict: str, today_s: float, strict: bool) -> float:
    counted = 0.0 if verdict == UNCLEAR else effect_s
    return (effect_s + error_s if strict else counted) / max(today_s, LEAST_WAIT_S)
