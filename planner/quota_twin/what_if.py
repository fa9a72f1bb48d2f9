"""What changes of a site of Kueue do to waits: pairs of replays with and without each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.base.words import counted, listed
from gpuplan.analysis.quota.kueue_site import QuotaDocument
from gpuplan.analysis.quota.workloads import KueueLog
from gpuplan.analysis.site.schema import CalibrationTable
from gpuplan.planner.quota.model import QuotaModel, quota_model
from gpuplan.planner.quota.use import SiteUse, all_uses, loop_notes, site_use
from gpuplan.planner.quota_twin.calibrate import HELD_BY_OTHERS, NOT_MODELED, nothing_explained
from gpuplan.planner.quota_twin.cases import QuotaCase
from gpuplan.planner.quota_twin.changes import QuotaChange
from gpuplan.planner.quota_twin.levels import FIFO, LEVELS, level_site
from gpuplan.planner.quota_twin.log_workload import (
    GONE,
    GROUPINGS,
    QuotaWorkload,
    quota_workload,
    requeued,
)
from gpuplan.planner.runs.recorded_waits import WaitPairs
from gpuplan.planner.site.change_effects import WhatIfResults
from gpuplan.planner.site.pairs import Pairs, effects_of_pairs
from gpuplan.planner.site.replicas import Chance, Replicas
from gpuplan.simkit.quota.site import QuotaJobs, QuotaSite
from gpuplan.simkit.twin.jobs import SiteJobs

TODAY = "today"
CANNOT_TELL = (
    f"Cannot tell: the rules of today explain none of the recorded waits. {HELD_BY_OTHERS}"
)


def check_quota_groups(by: str, level: str) -> None:
    """Refuse groups or rules that are not there. Raises `UsageError`."""
    if by not in GROUPINGS:
        raise UsageError(
            f"--by must be one of {', '.join(GROUPINGS)} for a site of Kueue, got {by!r}"
        )
    if level not in LEVELS:
        raise UsageError(
            f"the level must be one of {', '.join(LEVELS)} for a site of Kueue, got {level!r}\n"
            "  next: gpuplan calibrate kueue.json -o twin.toml writes settings with a level"
        )


def quota_what_if(
    log: KueueLog,
    document: QuotaDocument,
    changes: Sequence[QuotaChange],
    calibration: CalibrationTable,
    *,
    by: str = GROUPINGS[0],
    strict: bool = False,
    chosen: str | None = None,
) -> WhatIfResults:
    """Replay a dump in pairs without and with each change; see `gpuplan.planner.site.pairs`.

    Args:
        log: the workloads.
        document: the site of today.
        changes: to make to it.
        calibration: the rules to replay, and the jobs to score.
        by: what groups are.
        strict: see `gpuplan.planner.site.change_effects.wait_growth`.
        chosen: the rules that the calibration chose, if others are replayed.

    Raises:
        InputError: no workload is of the site, or of that of a change.
        UsageError: a change cannot be made, or changes a rule that is not replayed.
    """
    level = calibration.level
    check_quota_groups(by, level)
    today = quota_model(document)
    work = quota_workload(log, document, today, calibration.warmup_s)
    cases = [QuotaCase(TODAY, today.site, level, work.quota, work.jobs)]
    notes: list[str] = []
    unused: list[str] = []
    warnings: list[str] = []
    for change in changes:
        changed, change_notes = change.changed(document)
        notes += change_notes
        site, quota = requeued(log, work, today, changed)
        warnings += _gone_queues(log, change, work, site, quota)
        case = QuotaCase(change.name, site, level, quota, faster(work.jobs, change.load))
        if not _differs(case, cases[0], change):
            _check_rules(case, today, change)
            unused.append(f"{change.name}: the site is set so already, so nothing changes")
        cases.append(case)
    waits = _waits(cases[0], work, log.end)
    in_doubt = nothing_explained(waits)
    pairs = Pairs(
        work=work,
        names=tuple(change.name for change in changes),
        explained=(LEVELS.index(level) <= LEVELS.index(chosen or level),) * len(changes),
        unused=tuple(unused),
        patience=None,
        replicas=Replicas(cases, Chance.of(work, None)),
        waits_today=lambda: waits,
        in_doubt=in_doubt,
    )
    results = effects_of_pairs(pairs, calibration, by=by, strict=strict)
    uses, more = _uses(cases, work, log.end)
    return replace(
        results,
        queues=uses.queues,
        loans=uses.loans,
        evictions=uses.evictions,
        doubt=CANNOT_TELL if in_doubt else "",
        unused=(*results.unused, *warnings),
        notes=(*notes, *work.notes, *more, NOT_MODELED),
    )


def _gone_queues(
    log: KueueLog, change: QuotaChange, work: QuotaWorkload, site: QuotaSite, quota: QuotaJobs
) -> list[str]:
    """Return that a change lacks queues of the dump. Raises `InputError` where it lacks all."""
    is_gone = np.array([queue.name == GONE for queue in site.queues])[quota.queue]
    if not is_gone.any():
        return []
    counts = Counter(np.array(work.queues, object)[work.quota.queue[is_gone]].tolist())
    names = listed([name for name, _ in counts.most_common(12)])
    if is_gone.all():
        has = [queue.name for queue in site.queues if queue.name != GONE]
        raise InputError(
            log.path,
            f"no Workload is of a queue of {change.name}",
            expected=f"one of {listed(has[:12])}, as {names} are not",
            hint="give the site of the same cluster: --site FILE",
        )
    return [
        f"{change.name}: has no queue {names}, so that "
        f"{counted(int(is_gone.sum()), 'workload')} of them never start"
    ]


def faster(jobs: SiteJobs, factor: float) -> SiteJobs:
    """Return jobs that come ``factor`` times as fast, from the first one on."""
    if factor == 1.0:
        return jobs
    first = jobs.submit.min(initial=0) if not jobs.submit.size else jobs.submit[0]
    submit = first + np.round((jobs.submit - first) / factor).astype(np.int64)
    return jobs.changed(submit=submit, ready=submit)


def _differs(case: QuotaCase, today: QuotaCase, change: QuotaChange) -> bool:
    """Return whether the replays of a change can be others than those of today."""
    if change.load != 1.0 or len(case.site.queues) != len(today.site.queues):
        return True
    if (case.quota.queue != today.quota.queue).any():
        return True
    changed, before = (level_site(each.site, each.level) for each in (case, today))
    return changed != before or case.quota.shapes != today.quota.shapes


def _check_rules(case: QuotaCase, today: QuotaModel, change: QuotaChange) -> None:
    """Refuse a change of a rule that is not replayed. Raises `UsageError`."""
    if case.site == today.site:
        return
    needed = next(
        level for level in LEVELS if level_site(case.site, level) != level_site(today.site, level)
    )
    raise UsageError(
        f"{change.name}: changes rules of the level {needed}, and those of {case.level} are "
        f"replayed\n  next: --level {needed}"
    )


def _waits(case: QuotaCase, work: QuotaWorkload, end: int) -> WaitPairs:
    """Return the waits of a replay of today without chance beside those recorded."""
    scored = work.scored
    replay = case.replay().at_least(end)
    return WaitPairs(
        replay.wait[scored].astype(np.float64), work.recorded_wait[scored].astype(np.float64)
    )


def _uses(
    cases: Sequence[QuotaCase], work: QuotaWorkload, end: int
) -> tuple[SiteUse, tuple[str, ...]]:
    """Return what queues do with their quotas in each case, and its loops of evictions.

    All cases are told for the time of the log: a replay with a backlog goes on for longer.
    """
    uses, notes = [], []
    for case in cases:
        if case.level == FIFO:
            continue
        run = case.replay().run
        uses.append(site_use(case.name, run, end))
        names = run.names.nodes
        notes += [f"{case.name}: {note}" for note in loop_notes(run, work.job_ids, names)]
    return all_uses(uses), tuple(notes)
