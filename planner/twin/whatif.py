"""What a change of a site's settings does to waits, with the error of the answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import Hidden
from gpuplan.analysis.site.document import SiteDocument, dotted
from gpuplan.analysis.site.log import SiteLog
from gpuplan.analysis.site.schema import CalibrationTable, leaves
from gpuplan.planner.twin.calibrate import SEEDS, Replays, never_started, prepared
from gpuplan.planner.twin.settings import LEVELS, level_config, shuffled, why_off
from gpuplan.planner.twin.site_changes import SiteChange, check_names
from gpuplan.planner.twin.workload import SiteWorkload, recent
from gpuplan.simkit.arrays import BoolArray, FloatArray, IntArray
from gpuplan.simkit.twin.simulator import SiteRun
from gpuplan.simkit.twin.site import SchedulerConfig

GROUPINGS = ("account", "user", "partition", "qos", "size")
ALL_JOBS = "all jobs"
LONGER, SHORTER, WITHIN = "longer", "shorter", "within the error"
MOST_NAMED = 100
"""Ids of jobs that a change keeps from starting."""
LEAST_WAIT_S = 60.0
"""Growth counts from a wait of at least this: from 1 s to 3 s is no growth of 200%."""


@dataclass(frozen=True, slots=True)
class GroupEffect:
    """The waits of one group under a change, in seconds.

    Attributes:
        name: the group.
        jobs: scored jobs that started in the record and in both replays.
        recorded_mean_wait_s, recorded_p95_wait_s: as recorded.
        replayed_mean_wait_s, replayed_p95_wait_s: replayed under the rules of today.
        changed_mean_wait_s, changed_p95_wait_s: replayed with the change.
        effect_s, p95_effect_s: changed - replayed.
        noise_s, p95_noise_s: greatest deviation of the effect in replays with shuffled ties.
        error_s, p95_error_s: absolute replayed - recorded, plus noise.
        verdict: ``longer``, ``shorter`` or ``within the error``, by the means.
        p95_verdict: the same by the 95th percentiles.
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


@dataclass(frozen=True, slots=True)
class ChangeEffect:
    """What one change does.

    Attributes:
        name: the change.
        rejected: jobs that start in the base replay and not with the change, by reason.
        rejected_jobs: their ids, at most 100.
        groups: all jobs first, then the groups by name.
        elsewhere_gpu_s: GPU-seconds that each job runs on GPUs elsewhere, on average.
    """

    name: str
    rejected: dict[str, int]
    rejected_jobs: tuple[str, ...]
    groups: tuple[GroupEffect, ...]
    elsewhere_gpu_s: Hidden[FloatArray]


@dataclass(frozen=True, slots=True)
class WaitGrowth:
    """Growth of the waits of a group, the greatest over the changes; for gates.

    Attributes:
        name: the group; ``any team`` is the greatest of all groups but all jobs.
        mean_wait_growth: effect on the mean wait over the wait of today, at least 60 s; 0 within
            the error.
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
        unused: changed settings that the replayed rules do not use, one sentence each.
    """

    level: str
    by: str
    base_rejected: dict[str, int]
    changes: tuple[ChangeEffect, ...]
    growth: tuple[WaitGrowth, ...]
    calibration: CalibratedError
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
) -> WhatIfResults:
    """Replay a log, or the last weeks of a long one, with and without each change.

    Both replays break ties in the same way; pairs with shuffled ties tell the noise.

    Args:
        log: the log.
        document: the site's settings.
        changes: to make to them.
        calibration: the rules and jobs to replay, and the jobs to score.
        by: what groups are.
        strict: see `wait_growth`.

    Raises:
        InputError: the log names a partition that the settings do not describe.
        UsageError: a setting or a change cannot be used, or changes a rule that is off.
    """
    level = calibration.level
    check_groups(by, level)
    log = log if calibration.all_jobs else recent(log)
    scoring = calibration.warmup_s, calibration.limit_factor
    changes = list(changes)
    documents = [_document(log, document, change) for change in changes]
    unused = [
        text
        for change, changed in zip(changes, documents, strict=True)
        for text in _unused(change, document, changed, level)
    ]
    site, full, work = prepared(log, document, *scoring)
    config = level_config(full, level)
    seeds = (0, *SEEDS)
    replays = Replays(len(seeds) * (1 + len(changes)))
    base = [replays.run("today", site, work.jobs, _seeded(config, seed)) for seed in seeds]
    effects = []
    for change, changed in zip(changes, documents, strict=True):
        new_site, new_full, new_work = prepared(log, changed, *scoring)
        new_site = new_site if change.site is None else change.site(new_site)
        jobs = new_work.jobs if change.jobs is None else change.jobs(new_work.jobs)
        new_config = level_config(new_full, level)
        runs = [
            replays.run(change.name, new_site, jobs, _seeded(new_config, seed)) for seed in seeds
        ]
        effects.append(_effect(change.name, work, base, runs, by))
    return WhatIfResults(
        level=level,
        by=by,
        base_rejected=never_started(base[0]),
        changes=tuple(effects),
        growth=wait_growth(by, effects, strict),
        calibration=CalibratedError(calibration.within, calibration.mae_s),
        work=work,
        unused=tuple(unused),
    )


def check_groups(by: str, level: str) -> None:
    """Refuse groups or rules that are not there. Raises `UsageError`."""
    if by not in GROUPINGS:
        raise UsageError(f"--by must be one of {', '.join(GROUPINGS)}, got {by!r}")
    if level not in LEVELS:
        raise UsageError(f"the level must be one of {', '.join(LEVELS)}, got {level!r}")


def _seeded(config: SchedulerConfig, seed: int) -> SchedulerConfig:
    return shuffled(config, seed) if seed else config


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


def _effect(
    name: str, work: SiteWorkload, base: list[SiteRun], changed: list[SiteRun], by: str
) -> ChangeEffect:
    lost = (base[0].start >= 0) & (changed[0].start < 0)
    reasons: dict[str, int] = {}
    for i in np.flatnonzero(lost):
        why = changed[0].reason(int(i))
        reasons[why] = reasons.get(why, 0) + 1
    named = tuple(work.job_ids[int(i)] for i in np.flatnonzero(lost)[:MOST_NAMED])
    started = work.scored.copy()
    for run in (*base, *changed):
        started &= run.start >= 0
    groups = [(ALL_JOBS, started)]
    names = work.names(by)
    groups += [(str(group), started & (names == group)) for group in sorted(set(names[started]))]
    effects = (_group(group, mask, work, base, changed) for group, mask in groups if mask.any())
    elsewhere = np.mean([run.elsewhere_gpu_s for run in changed], axis=0)
    return ChangeEffect(name, reasons, named, tuple(effects), elsewhere)


def _group(
    name: str, mask: BoolArray, work: SiteWorkload, base: list[SiteRun], changed: list[SiteRun]
) -> GroupEffect:
    def both(waits: IntArray) -> tuple[float, float]:
        return float(waits[mask].mean()), float(np.percentile(waits[mask], 95))

    recorded = both(work.recorded_wait)
    today = [both(run.wait) for run in base]
    # A change of the load moves submissions, so the wait counts from the run's own jobs.
    after = [both(run.wait) for run in changed]
    values = []
    for i in range(2):
        effect = after[0][i] - today[0][i]
        noise = max(abs(a[i] - b[i] - effect) for a, b in zip(after, today, strict=True))
        error = abs(today[0][i] - recorded[i]) + noise
        values.append((effect, noise, error, verdict(effect, error)))
    (effect, noise, error, said), (effect95, noise95, error95, said95) = values
    return GroupEffect(
        name, int(mask.sum()), *recorded, *today[0], *after[0], effect, effect95, noise, noise95,
        error, error95, said, said95,
    )  # fmt: skip


def verdict(effect: float, error: float) -> str:
    """Return what an effect with an error says."""
    if abs(effect) <= error:
        return WITHIN
    return LONGER if effect > 0 else SHORTER


def wait_growth(by: str, changes: Sequence[ChangeEffect], strict: bool) -> tuple[WaitGrowth, ...]:
    """Return the growth of waits by group for gates, the greatest over the changes.

    A growth within its error counts as none; with ``strict`` the error is added to the effect.
    ``any team`` is the greatest of all groups.
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
    counted = 0.0 if verdict == WITHIN else effect_s
    return (effect_s + error_s if strict else counted) / max(today_s, LEAST_WAIT_S)
