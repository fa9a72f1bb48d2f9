"""What a change of a site's settings does to waits, with the error of the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from gpuplan.analysis.errors import UsageError
from gpuplan.analysis.site.document import SiteDocument
from gpuplan.analysis.site.log import SiteLog
from gpuplan.planner.twin.calibrate import SEEDS, never_started, prepared
from gpuplan.planner.twin.levels import LEVELS, level_config, shuffled
from gpuplan.planner.twin.workload import SiteWorkload
from gpuplan.simkit.arrays import BoolArray, IntArray
from gpuplan.simkit.twin.jobs import NEVER, SiteJobs
from gpuplan.simkit.twin.simulator import SiteRun, replay_site
from gpuplan.simkit.twin.site import SchedulerConfig, SiteCluster, SiteNode

GROUPINGS = ("account", "user", "partition", "qos", "size")
ALL_JOBS = "all jobs"
LONGER, SHORTER, WITHIN = "longer", "shorter", "within the error"


@dataclass(frozen=True, slots=True)
class SiteChange:
    """One change to replay.

    Attributes:
        name: what it is called.
        document: changes the settings in place; None where they stay.
        site: changes the cluster; None where it stays.
        jobs: changes the jobs; None where they stay.
    """

    name: str
    document: Callable[[SiteDocument], None] | None = None
    site: Callable[[SiteCluster], SiteCluster] | None = None
    jobs: Callable[[SiteJobs], SiteJobs] | None = None


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
        groups: all jobs first, then the groups by name.
        rejected: jobs that start in the base replay and not with the change, by reason.
        rejected_jobs: their ids, at most `MOST_NAMED`.
    """

    name: str
    groups: tuple[GroupEffect, ...]
    rejected: dict[str, int]
    rejected_jobs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The effects of some changes.

    Attributes:
        work: the jobs.
        level: the rules that are replayed.
        by: what groups are.
        changes: an effect per change, in their order.
        base_rejected: jobs that never start under the rules of today either, by reason.
    """

    work: SiteWorkload
    level: str
    by: str
    changes: tuple[ChangeEffect, ...]
    base_rejected: dict[str, int]

    def summary(self) -> dict[str, Any]:
        """Return the results with stable keys."""
        return {
            "level": self.level,
            "by": self.by,
            "base_rejected": self.base_rejected,
            "changes": [
                {
                    "name": change.name,
                    "rejected": change.rejected,
                    "rejected_jobs": list(change.rejected_jobs),
                    "groups": [asdict(group) for group in change.groups],
                }
                for change in self.changes
            ],
        }


MOST_NAMED = 100


def what_if(
    log: SiteLog,
    document: SiteDocument,
    changes: Iterable[SiteChange],
    *,
    level: str = "events",
    by: str = "account",
    warmup_s: int | None = None,
    limit_factor: float = 2.0,
) -> WhatIf:
    """Replay a log with and without each change.

    Both replays break ties in the same way; pairs with shuffled ties tell the noise.

    Raises:
        InputError: the log names a partition that the settings do not describe.
        UsageError: a setting or a change cannot be used.
    """
    check_groups(by, level)
    site, full, work = prepared(log, document, warmup_s, limit_factor)
    config = level_config(full, level)
    seeds = (0, *SEEDS)
    base = [replay_site(site, work.jobs, _seeded(config, seed)) for seed in seeds]
    effects = []
    for change in changes:
        new_site, new_config, jobs = _changed(log, document, change, level, warmup_s, limit_factor)
        runs = [replay_site(new_site, jobs, _seeded(new_config, seed)) for seed in seeds]
        effects.append(_effect(change.name, work, base, runs, by))
    return WhatIf(work, level, by, tuple(effects), never_started(base[0]))


def check_groups(by: str, level: str) -> None:
    """Refuse groups or rules that are not there. Raises `UsageError`."""
    if by not in GROUPINGS:
        raise UsageError(f"--by must be one of {', '.join(GROUPINGS)}, got {by!r}")
    if level not in LEVELS:
        raise UsageError(f"the level must be one of {', '.join(LEVELS)}, got {level!r}")


def _seeded(config: SchedulerConfig, seed: int) -> SchedulerConfig:
    return shuffled(config, seed) if seed else config


def _changed(
    log: SiteLog, document: SiteDocument, change: SiteChange, level: str, warmup_s: int | None,
    limit_factor: float,
) -> tuple[SiteCluster, SchedulerConfig, SiteJobs]:  # fmt: skip
    changed = deepcopy(document)
    if change.document is not None:
        change.document(changed)
        for name in document.tables.get("partition", {}):
            if changed.get("partition", name) is None:  # its jobs are refused, with a note
                changed.put("ALL", "partition", name, "Nodes")
                changed.put(0, "partition", name, "MaxNodes")
    site, full, work = prepared(log, changed, warmup_s, limit_factor)
    if change.site is not None:
        site = change.site(site)
    jobs = work.jobs if change.jobs is None else change.jobs(work.jobs)
    return site, level_config(full, level), jobs


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
    names = np.array(work.names(by), object)
    groups += [(str(group), started & (names == group)) for group in sorted(set(names[started]))]
    found = [_group(group, mask, work, base, changed) for group, mask in groups if mask.any()]
    return ChangeEffect(name, tuple(found), reasons, named)


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


def add_nodes(text: str) -> SiteChange:
    """Return the change ``[PARTITION=]N``: N more nodes like the most common one.

    Raises:
        UsageError: it is not written so.
    """
    partition, count = _partition_count("--add-nodes", text)

    def add(site: SiteCluster) -> SiteCluster:
        like, where = _common_node(site, partition, "--add-nodes")
        taken = {node.name for node in site.nodes}
        names = [f"added{i}" for i in range(1, len(taken) + count + 1) if f"added{i}" not in taken]
        new = tuple(replace(like, name=name) for name in names[:count])
        parts = tuple(
            replace(p, nodes=(*p.nodes, *(node.name for node in new))) if p.name in where else p
            for p in site.partitions
        )
        return replace(site, nodes=site.nodes + new, partitions=parts)

    return SiteChange(f"add-nodes {text}", site=add)


def remove_nodes(text: str) -> SiteChange:
    """Return the change ``[PARTITION=]N``: N nodes of the most common kind less.

    Raises:
        UsageError: it is not written so.
    """
    partition, count = _partition_count("--remove-nodes", text)

    def remove(site: SiteCluster) -> SiteCluster:
        like, where = _common_node(site, partition, "--remove-nodes")
        part = next(p for p in site.partitions if p.name == where[0])
        kinds = {node.name: replace(node, name="") for node in site.nodes}
        same = [name for name in part.nodes if kinds[name] == replace(like, name="")]
        if count > len(same) or count >= len(site.nodes):
            raise UsageError(f"--remove-nodes {text}: there are only {len(same)} such nodes")
        gone = set(same[-count:])
        if empty := next((p.name for p in site.partitions if set(p.nodes) <= gone), None):
            raise UsageError(f"--remove-nodes {text}: partition {empty} would have no node")
        return replace(
            site,
            nodes=tuple(node for node in site.nodes if node.name not in gone),
            partitions=tuple(
                replace(p, nodes=tuple(n for n in p.nodes if n not in gone))
                for p in site.partitions
            ),
            events=tuple(e for e in site.events if e.node not in gone),
        )

    return SiteChange(f"remove-nodes {text}", site=remove)


def _partition_count(option: str, text: str) -> tuple[str, int]:
    partition, _, number = text.rpartition("=")
    if not number.strip().isdigit() or int(number) < 1 or int(number) > 1_000_000:
        raise UsageError(f"{option} must be N or PARTITION=N with N from 1 on, got {text!r}")
    return partition.strip(), int(number)


def _common_node(site: SiteCluster, partition: str, option: str) -> tuple[SiteNode, list[str]]:
    """Return the most common node of a partition, or of the site, and the partitions it is in."""
    by_name = {p.name: p for p in site.partitions}
    if partition and partition not in by_name:
        raise UsageError(f"{option}: no partition {partition}; found {', '.join(by_name)}")
    of = {node.name: node for node in site.nodes}
    names = by_name[partition].nodes if partition else tuple(of)
    counts: dict[SiteNode, int] = {}
    for name in names:
        kind = replace(of[name], name="")
        counts[kind] = counts.get(kind, 0) + 1
    like = max(counts, key=lambda kind: counts[kind])
    if partition:
        return like, [partition]
    within = [
        p.name for p in site.partitions if any(replace(of[n], name="") == like for n in p.nodes)
    ]
    return like, within


def set_value(text: str) -> SiteChange:
    """Return the change ``KEY=VALUE``, for example ``qos.normal.MaxTRESPU.gpu=32``.

    Raises:
        UsageError: it is not written so.
    """
    key, equals, changed = text.partition("=")
    keys = [part.strip() for part in key.split(".")]
    if not equals or len(keys) < 2 or not all(keys):
        raise UsageError(f"--set must be like priority.PriorityWeightFairshare=0, got {text!r}")
    value: Any = changed.strip()
    for kind in (int, float):
        try:
            value = kind(value)
            break
        except ValueError:
            continue

    def change(document: SiteDocument) -> None:
        if keys[0] in ("node", "partition") and document.get(keys[0], keys[1]) is None:
            known = ", ".join(document.tables.get(keys[0], {}))
            raise UsageError(f"--set {text}: no {keys[0]} {keys[1]}; found {known}")
        document.put(value, *keys)

    return SiteChange(f"set {text}", document=change)


def new_settings(name: str, new: SiteDocument) -> SiteChange:
    """Return the change to the settings of another slurm.conf."""

    def change(document: SiteDocument) -> None:
        found = with_settings(document, new)
        document.tables, document.sources = found.tables, found.sources

    return SiteChange(f"slurm-conf {name}", document=change)


def with_settings(document: SiteDocument, new: SiteDocument) -> SiteDocument:
    """Return the settings with nodes, partitions, priorities and backfill of another slurm.conf.

    What only the old file set falls back to Slurm's default; what was inferred stays.
    """
    found = deepcopy(document)
    for name in ("node", "partition"):
        if new.tables.get(name):
            found.tables[name] = {}
            found.sources = {
                key: source for key, source in found.sources.items()
                if not key.startswith(f"{name}.")
            }  # fmt: skip
    for name in ("priority", "backfill"):
        for key in list(found.tables.get(name, {})):
            if found.sources.get(f"{name}.{key}", "given") == "given":
                del found.tables[name][key]
    found.merge(deepcopy(new))
    return found


def combined(changes: list[SiteChange]) -> SiteChange:
    """Return all changes as one."""

    def document(changed: SiteDocument) -> None:
        for change in changes:
            if change.document is not None:
                change.document(changed)

    def site(cluster: SiteCluster) -> SiteCluster:
        for change in changes:
            cluster = cluster if change.site is None else change.site(cluster)
        return cluster

    def jobs(found: SiteJobs) -> SiteJobs:
        for change in changes:
            found = found if change.jobs is None else change.jobs(found)
        return found

    return SiteChange(" + ".join(change.name for change in changes), document, site, jobs)


def scale_load(factor: float) -> SiteChange:
    """Return the change in which jobs come ``factor`` times as fast; pinned ones stay."""
    if not 0 < factor <= 1000:
        raise UsageError(f"--scale-load must be above 0, got {factor:g}")

    def scale(jobs: SiteJobs) -> SiteJobs:
        free = jobs.pinned == NEVER
        if not free.any():
            return jobs
        origin = int(jobs.submit[free].min())

        def moved(times: IntArray) -> IntArray:
            scaled = origin + np.round((times - origin) / factor).astype(np.int64)
            return np.where(free & (times >= 0), np.maximum(scaled, 0), times)

        submit = moved(jobs.submit)
        ready = submit + (jobs.ready - jobs.submit)
        cancel = np.where(jobs.cancel >= 0, ready + (jobs.cancel - jobs.ready), jobs.cancel)
        return jobs.changed(submit=submit, ready=ready, cancel=cancel)

    return SiteChange(f"scale-load {factor:g}", jobs=scale)


def scale_limits(factor: float) -> SiteChange:
    """Return the change in which every time limit is ``factor`` times as long.

    A limit stays at least the run time: nobody knows how a job that is cut off would go on.
    """
    if not 0 < factor <= 1000:
        raise UsageError(f"--limits-times must be above 0, got {factor:g}")

    def scale(jobs: SiteJobs) -> SiteJobs:
        scaled = np.round(jobs.limit * factor).astype(np.int64)
        longest = np.maximum(jobs.limit, 1)
        if factor < 1:
            scaled = np.minimum(np.maximum(scaled, jobs.runtime), longest)
        return jobs.changed(limit=np.maximum(scaled, 1))

    return SiteChange(f"limits-times {factor:g}", jobs=scale)
