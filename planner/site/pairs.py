"""What a change of a site's settings does to waits: pairs of replays with and without it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import HOUR_S
from gpuplan.analysis.base.typed_tables import leaves
from gpuplan.analysis.site.document import SiteDocument, dotted
from gpuplan.analysis.site.log import SiteLog
from gpuplan.analysis.site.schema import CalibrationTable
from gpuplan.planner.runs.recorded_waits import WaitPairs
from gpuplan.planner.site.change_effects import (
    CalibratedError,
    ChangeEffect,
    SplitJobs,
    WhatIfResults,
    wait_growth,
)
from gpuplan.planner.site.effects import QUANTILES, GroupEffect, effects_of
from gpuplan.planner.site.replicas import Chance, Patience, Replica, Replicas, SiteCase, patience_of
from gpuplan.planner.site.site_sizes import held_jobs, site_waits
from gpuplan.planner.twin.calibrate import prepared
from gpuplan.planner.twin.settings import LEVELS, level_config, why_off
from gpuplan.planner.twin.site_changes import SiteChange, check_names
from gpuplan.planner.twin.workload import GROUPINGS, SiteWorkload, recent
from gpuplan.simkit.arrays import BoolArray, IntArray
from gpuplan.simkit.twin.refusals import CANCELLED, REASONS

MOST_NAMED = 100
"""Ids of jobs that a change keeps from starting."""
Keys = tuple[str, ...]
Values = dict[Keys, Any]
UNEXPLAINED = ("inferred", "assumed")
"""Sources of settings that nobody gave: what they do today is a guess."""


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
    return effects_of_pairs(pairs, calibration, by=by, strict=strict)


def effects_of_pairs(
    pairs: Pairs,
    calibration: CalibrationTable,
    *,
    by: str,
    strict: bool = False,
    all_parts: bool = False,
) -> WhatIfResults:
    """Replay pairs until more would say little, and return what the changes do; see `what_if`.

    With ``all_parts`` the wait of a job that goes on as new ones is that of all its parts.
    """
    waits = grown(pairs, by, all_parts=all_parts)
    effects = [_change_effect(pairs, at, groups) for at, groups in enumerate(waits)]
    patience = pairs.patience
    return WhatIfResults(
        level=calibration.level,
        by=by,
        base_rejected=_rejected(pairs.today[0].reason) if pairs.names else {},
        changes=tuple(effects),
        growth=wait_growth(by, effects, strict),
        calibration=CalibratedError(calibration.within, calibration.mae_s),
        given_up=None if patience is None else patience.given_up,
        work=pairs.work,
        today=pairs.waits_today(),
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
        waits_today: replays today without chance, and returns the waits beside those recorded.
        in_doubt: whether the rules of today explain nothing of the recorded waits.
        held: jobs that count besides the scored ones, with the waits that they had; None for none.
    """

    work: SiteWorkload
    names: tuple[str, ...]
    explained: tuple[bool, ...]
    unused: tuple[str, ...]
    patience: Patience | None
    replicas: Replicas
    waits_today: Callable[[], WaitPairs]
    in_doubt: bool = False
    held: BoolArray | None = None

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

    def effects(
        self, at: int, by: str, count: int | None = None, *, all_parts: bool = False
    ) -> list[GroupEffect]:
        """Return what a change does to all jobs, then to the groups, from the pairs so far.

        From the first ``count`` of them, where that is given.
        """
        changed = self.changed(at)[:count]
        return effects_of(
            self.work, self.today[: len(changed)], changed, by,
            is_explained=self.explained[at], all_parts=all_parts,
            in_doubt=self.in_doubt, held=self.held,
        )  # fmt: skip


def pairs_of(
    log: SiteLog,
    document: SiteDocument,
    changes: Sequence[SiteChange],
    calibration: CalibrationTable,
    *,
    chosen: str | None = None,
    with_held: bool = False,
) -> Pairs:
    """Return what is to be replayed in pairs, nothing of it replayed yet; see `what_if`.

    With ``with_held`` jobs whose wait the rules do not explain count, as recorded.

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
    cases = [SiteCase("today", site, work.jobs, level_config(full, level))]
    for change, changed in zip(changes, documents, strict=True):
        new_site, new_full, new_work = prepared(log, changed, *scoring)
        new_site = new_site if change.site is None else change.site(new_site)
        jobs = new_work.jobs if change.jobs is None else change.jobs(new_work.jobs)
        cases.append(SiteCase(change.name, new_site, jobs, level_config(new_full, level)))
    patience, held = patience_of(work), held_jobs(work) if with_held else None
    return Pairs(
        work=work,
        names=tuple(change.name for change in changes),
        explained=tuple(
            _is_explained(document, changed, chosen or level, level) for changed in documents
        ),
        unused=tuple(unused),
        patience=patience,
        replicas=Replicas(cases, Chance.of(work, patience)),
        waits_today=partial(site_waits, site, cases[0].config, work, held),
        held=held,
    )


def grown(pairs: Pairs, by: str, *, all_parts: bool = False) -> list[list[GroupEffect]]:
    """Replay until more pairs would say little more of any group; return the effects by change.

    Pairs that are there already count, so that the effects are the same whatever came before.
    """
    waits: list[list[GroupEffect]] = [[] for _ in pairs.names]
    unclear = list(range(len(waits)))
    for count in QUANTILES:
        pairs.grow(unclear, count)
        for at in unclear:
            waits[at] = pairs.effects(at, by, count, all_parts=all_parts)
        unclear = [at for at in unclear if not all(row.is_precise(count) for row in waits[at])]
    return waits


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

    Also where no setting changes, since the site has it so.

    Raises:
        UsageError: a setting that the change names is one of them, or all it changes are.
    """
    settings = changed.settings
    before, after, moved = _moved(document, changed)
    if change.keys and not (change.site or change.jobs):
        if all(str(before.get(keys)) == str(after.get(keys)) for keys in change.keys):
            return [f"{change.name}: the site is set so already, so nothing changes"]
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
    *_, moved = _moved(document, changed)
    return not any(document.sources.get(dotted(*keys)) in UNEXPLAINED for keys in moved)


def _moved(document: SiteDocument, changed: SiteDocument) -> tuple[Values, Values, list[Keys]]:
    """Return the settings before and after a change, and the keys of those that differ."""
    before, after = (dict(leaves(site.tables)) for site in (document, changed))
    moved = [keys for keys in {**before, **after} if before.get(keys) != after.get(keys)]
    return before, after, moved


def _rejected(reason: IntArray) -> dict[str, int]:
    """Return how many jobs never start, by reason; cancelled ones are left out."""
    codes, counts = np.unique(reason[(reason != 0) & (reason != CANCELLED)], return_counts=True)
    return {REASONS[code]: int(count) for code, count in zip(codes, counts, strict=True)}


def _change_effect(pairs: Pairs, at: int, groups: Sequence[GroupEffect]) -> ChangeEffect:
    work, changed = pairs.work, pairs.changed(at)
    today = pairs.today[: len(changed)]
    lost = (today[0].wait >= 0) & (changed[0].wait < 0) & (changed[0].reason != CANCELLED)
    ran = work.recorded_start >= 0

    def given_up(runs: Sequence[Replica]) -> int:
        return sum(int((ran & (run.reason == CANCELLED)).sum()) for run in runs)

    more = (given_up(changed) - given_up(today)) / len(changed)
    all_jobs = groups[0] if groups else None
    return ChangeEffect(
        name=pairs.names[at],
        replicas=len(changed),
        effect_s=None if all_jobs is None else all_jobs.effect_s,
        p95_effect_s=None if all_jobs is None else all_jobs.p95_effect_s,
        error_s=None if all_jobs is None else all_jobs.error_s,
        p95_error_s=None if all_jobs is None else all_jobs.p95_error_s,
        verdict=None if all_jobs is None else all_jobs.verdict,
        p95_verdict=None if all_jobs is None else all_jobs.p95_verdict,
        is_explained=pairs.explained[at],
        given_up=None if pairs.patience is None else more,
        rejected=_rejected(np.where(lost, changed[0].reason, 0)),
        rejected_jobs=tuple(work.job_ids[int(i)] for i in np.flatnonzero(lost)[:MOST_NAMED]),
        groups=tuple(groups),
        split=_split(pairs, at),
        elsewhere_gpu_s=np.mean([run.elsewhere_gpu_s for run in changed], axis=0),
    )


def _split(pairs: Pairs, at: int) -> SplitJobs | None:
    """Return the jobs that a change ends before they are done; None without any."""
    today, jobs = (pairs.replicas.cases[case].jobs for case in (0, 1 + at))
    logged = jobs.id < today.id.size
    ids, runtime = jobs.id[logged], jobs.runtime[logged]
    work_s = runtime if jobs.rest is None else runtime + jobs.rest[logged]
    counts = pairs.work.scored[ids]
    lost_s = np.where(counts, today.runtime[ids] - work_s, 0)
    requeued = int((counts & (jobs.later_parts[logged] > 0)).sum())
    cut = int((lost_s > 0).sum())
    if not requeued and not cut:
        return None
    effect = None
    if requeued:
        effect = next(iter(pairs.effects(at, GROUPINGS[0], all_parts=True)), None)
    gpu_h = float((np.maximum(lost_s, 0) * today.total_gpus[ids]).sum()) / HOUR_S
    return SplitJobs(requeued, cut, gpu_h, effect)
