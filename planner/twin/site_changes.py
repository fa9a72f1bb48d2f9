"""Changes of a site: what a change is, and changes of its settings.

Changes of nodes are in `node_changes`, those of jobs in `job_changes`, of limits in
`limit_changes`; `change_texts` reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.lookup import perhaps
from gpuplan.analysis.base.typed_tables import nested
from gpuplan.analysis.site.document import TABLES, SiteDocument, dotted
from gpuplan.analysis.site.log import SiteLog
from gpuplan.analysis.site.schema import read_settings
from gpuplan.planner.twin.settings import NAMED
from gpuplan.simkit.twin.jobs import SiteJobs
from gpuplan.simkit.twin.site import SiteCluster


@dataclass(frozen=True, slots=True)
class SiteChange:
    """One change to replay.

    Attributes:
        name: what it is called.
        document: changes the settings in place; None where they stay.
        keys: paths of the settings that it names.
        site: changes the cluster; None where it stays.
        jobs: changes the jobs; None where they stay.
        settle: returns the change for these settings and this log, where it depends on them.
        notes: how the change was read, one sentence each.
    """

    name: str
    document: Callable[[SiteDocument], None] | None = None
    site: Callable[[SiteCluster], SiteCluster] | None = None
    jobs: Callable[[SiteJobs], SiteJobs] | None = None
    keys: tuple[tuple[str, ...], ...] = ()
    settle: Callable[[SiteDocument, SiteLog], SiteChange] | None = None
    notes: tuple[str, ...] = ()

    def settled(self, document: SiteDocument, log: SiteLog) -> SiteChange:
        """Return the change for the settings and the log of a site. Raises `UsageError`."""
        return self if self.settle is None else self.settle(document, log)


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


def names_in(document: SiteDocument, log: SiteLog, kind: str) -> set[str]:
    """Return the accounts, users or QOS (``kind``) of a site's settings and its log."""
    return {*document.tables.get(kind, {}), *log.jobs[kind].drop_nulls().to_list()}


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
    if len(changes) == 1:
        return changes[0]

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

    def settle(of: SiteDocument, log: SiteLog) -> SiteChange:
        return combined([change.settled(of, log) for change in changes])

    return SiteChange(
        " + ".join(change.name for change in changes), document, site, jobs,
        tuple(keys for change in changes for keys in change.keys),
        settle if any(change.settle for change in changes) else None,
        tuple(note for change in changes for note in change.notes),
    )  # fmt: skip
