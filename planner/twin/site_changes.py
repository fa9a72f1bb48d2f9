"""Changes of a site: more or fewer nodes, other settings, another load, other time limits."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.lookup import perhaps
from gpuplan.analysis.site.document import TABLES, SiteDocument, dotted
from gpuplan.analysis.site.log import SiteLog
from gpuplan.analysis.site.notation import MOST_HOSTS, WHOLE
from gpuplan.analysis.site.schema import nested, read_settings
from gpuplan.planner.twin.settings import NAMED
from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.twin.jobs import NEVER, SiteJobs
from gpuplan.simkit.twin.site import SiteCluster, SiteNode

LEAST_FACTOR = 0.01
"""Of load and limits: a hundred times the length of the log is far enough."""


@dataclass(frozen=True, slots=True)
class SiteChange:
    """One change to replay.

    Attributes:
        name: what it is called.
        document: changes the settings in place; None where they stay.
        keys: paths of the settings that it names.
        site: changes the cluster; None where it stays.
        jobs: changes the jobs; None where they stay.
    """

    name: str
    document: Callable[[SiteDocument], None] | None = None
    site: Callable[[SiteCluster], SiteCluster] | None = None
    jobs: Callable[[SiteJobs], SiteJobs] | None = None
    keys: tuple[tuple[str, ...], ...] = ()


def add_nodes(text: str) -> SiteChange:
    """Return the change ``[PARTITION=]N``: N more nodes like the most common one.

    Raises:
        UsageError: it is not written so.
    """
    partition, count = _partition_count("--add-nodes", text)

    def add(site: SiteCluster) -> SiteCluster:
        like, where = _common_node(site, partition, "--add-nodes")
        if len(site.nodes) + count > MOST_HOSTS:
            raise UsageError(f"--add-nodes {text}: a site may have {MOST_HOSTS:,} nodes at most")
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
    if not WHOLE.fullmatch(number.strip()) or not 1 <= int(number) <= MOST_HOSTS:
        raise UsageError(
            f"{option} must be N or PARTITION=N with N from 1 to {MOST_HOSTS:,}, got {text!r}"
        )
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
    keys = tuple(part.strip() for part in key.split("."))
    if not equals or len(keys) < 2 or not all(keys):
        raise UsageError(f"--set must be like priority.PriorityWeightFairshare=0, got {text!r}")
    try:
        read_settings(nested(keys, changed.strip()))
    except UsageError as error:
        raise UsageError(f"--set {error}") from error
    if keys[0] not in TABLES:
        tables = ", ".join(TABLES)
        raise UsageError(f"--set {text}: {keys[0]} cannot be set; expected one of {tables}")
    return SiteChange(
        f"set {text}", lambda document: document.put(changed.strip(), *keys), keys=(keys,)
    )


def check_names(change: SiteChange, document: SiteDocument, log: SiteLog) -> None:
    """Refuse settings of a node, partition, QOS, account or user that is nowhere.

    Raises:
        UsageError: with the nearest name.
    """
    for keys in change.keys:
        table, name = keys[0], keys[1]
        if table not in NAMED:
            continue
        pairs = [(table, name, document.tables.get(table, {}))]
        if table == "account" and keys[2:3] == ("user",):
            pairs.append(("user", keys[3], document.get(*keys[:3]) or {}))
        for kind, word, described in pairs:
            names = {*described}
            if kind in ("qos", "account", "user"):
                names |= {"normal"} if kind == "qos" else set()
                names |= set(log.jobs[kind].drop_nulls().to_list())
            if word not in names:
                raise UsageError(
                    f"--set {dotted(*keys)}: no {kind} {word}{perhaps(word, names)}; "
                    f"expected one of {', '.join(sorted(names)) or 'none'}"
                )


def new_settings(name: str, new: SiteDocument) -> SiteChange:
    """Return the change to the settings of another slurm.conf."""

    def change(document: SiteDocument) -> None:
        changed = with_settings(document, new)
        document.tables, document.sources = changed.tables, changed.sources

    return SiteChange(f"slurm-conf {name}", document=change)


def with_settings(document: SiteDocument, new: SiteDocument) -> SiteDocument:
    """Return the settings with nodes, partitions, priorities and backfill of another slurm.conf.

    What only the old file set falls back to Slurm's default; what was inferred stays.
    """
    changed = deepcopy(document)
    for name in ("node", "partition"):
        if new.tables.get(name):
            changed.tables[name] = {}
            changed.sources = {
                key: source for key, source in changed.sources.items()
                if not key.startswith(f"{name}.")
            }  # fmt: skip
    for name in ("priority", "backfill"):
        for key in list(changed.tables.get(name, {})):
            if changed.sources.get(f"{name}.{key}", "given") == "given":
                del changed.tables[name][key]
    changed.merge(deepcopy(new))
    return changed


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

    def jobs(changed: SiteJobs) -> SiteJobs:
        for change in changes:
            changed = changed if change.jobs is None else change.jobs(changed)
        return changed

    return SiteChange(
        " + ".join(change.name for change in changes), document, site, jobs,
        tuple(keys for change in changes for keys in change.keys),
    )  # fmt: skip


def scale_load(factor: float) -> SiteChange:
    """Return the change in which jobs come ``factor`` times as fast; pinned ones stay."""
    if not LEAST_FACTOR <= factor <= 1000:
        raise UsageError(f"--scale-load must be from {LEAST_FACTOR:g} to 1000, got {factor:g}")

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

    A limit stays at least the run time: how a job that is cut off would go on is unknown.
    """
    if not LEAST_FACTOR <= factor <= 1000:
        raise UsageError(f"--limits-times must be from {LEAST_FACTOR:g} to 1000, got {factor:g}")

    def scale(jobs: SiteJobs) -> SiteJobs:
        scaled = np.round(jobs.limit * factor).astype(np.int64)
        longest = np.maximum(jobs.limit, 1)
        if factor < 1:
            scaled = np.minimum(np.maximum(scaled, jobs.runtime), longest)
        return jobs.changed(limit=np.maximum(scaled, 1))

    return SiteChange(f"limits-times {factor:g}", jobs=scale)
