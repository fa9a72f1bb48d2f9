"""From a site's settings in Slurm's names to a cluster and a scheduler of the simulator.

The model has levels: each has the rules of the ones before it, and one more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.job_table.notation import MOST_HOSTS, expand_hosts, split_hosts
from gpuplan.analysis.site.document import SiteDocument
from gpuplan.analysis.site.schema import LAST_SECOND, Account, Node, Qos, SiteSettings, User
from gpuplan.simkit.twin.site import (
    SchedulerConfig,
    SiteAssociation,
    SiteCluster,
    SiteNode,
    SiteNodeEvent,
    SitePartition,
    SiteQos,
)

NAMED = ("node", "partition", "qos", "account")
"""Tables of settings with a table per name."""
LEVELS = ("fifo", "easy", "bf", "multifactor", "limits", "events")
ADDED = {
    "fifo": "first in, first out",
    "easy": "EASY backfill",
    "bf": "Slurm's backfill",
    "multifactor": "tiers, priorities, fair share",
    "limits": "QOS and account limits",
    "events": "node events",
}
NEEDED_LEVEL = {
    "backfill": "bf", "SelectTypeParameters": "fifo", "default_queue_depth": "fifo",
    "sched_interval": "fifo", "AccountingStorageEnforce": "limits",
    "partition": "fifo", "partition.QOS": "limits", "PriorityTier": "multifactor",
    "PriorityJobFactor": "multifactor", "priority": "multifactor",
    "qos": "limits", "qos.Priority": "multifactor",
    "account": "limits", "Parent": "multifactor", "Fairshare": "multifactor",
    "RawUsage": "multifactor", "event": "events",
}  # fmt: skip
"""Setting, or else its table -> the first level that uses it; the others need none."""
WEIGHTS = {
    "PriorityMaxAge": "Age", "PriorityFavorSmall": "JobSize", "PriorityJobFactor": "Partition",
    "Priority": "QOS", "PriorityFlags": "Fairshare", "PriorityDecayHalfLife": "Fairshare",
    "FairShareDampeningFactor": "Fairshare", "Fairshare": "Fairshare", "RawUsage": "Fairshare",
}  # fmt: skip
"""Setting -> the priority weight without which it does nothing."""


def site_of(document: SiteDocument, users: Iterable[tuple[str, str]] = ()) -> SiteCluster:
    """Return the cluster that the settings describe.

    Args:
        users: (account, user) of the log; those inherit the limits of their accounts.

    Raises:
        UsageError: a value cannot be used, with its key.
    """
    settings = document.settings
    groups: dict[str, list[str]] = {}
    nodes: list[SiteNode] = []
    for group, entry in settings.node.items():
        groups[group] = hosts = _names(group, entry)
        nodes += [SiteNode(host, entry.gpus, entry.type.lower(), entry.weight) for host in hosts]
        if len(nodes) > MOST_HOSTS:
            raise UsageError(f"the site has more than {MOST_HOSTS:,} nodes")
    partitions = [
        SitePartition(
            name, tuple(_members(entry.Nodes, groups, f"partition.{name}")), entry.PriorityTier,
            entry.PriorityJobFactor, entry.MaxTime.value, entry.MaxNodes.value,
            entry.QOS.replace("N/A", ""),
        )
        for name, entry in settings.partition.items()
    ]  # fmt: skip
    names = {node.name for node in nodes}
    events = [
        SiteNodeEvent(event.node, event.start, event.end, event.announced)
        for event in settings.event
        if event.node in names
    ]
    if not nodes or not partitions:
        raise UsageError("the site has no GPU nodes or no partition; give --slurm-conf or --infer")
    try:
        return SiteCluster(
            tuple(nodes), tuple(partitions),
            tuple(_qos(name, entry) for name, entry in settings.qos.items()),
            tuple(_associations(settings.account, users)), tuple(events),
        )  # fmt: skip
    except ValueError as error:
        raise UsageError(str(error)) from error


def _names(group: str, entry: Node) -> list[str]:
    try:
        hosts = expand_hosts(group)
    except ValueError as error:
        raise UsageError(f"node.{group}: {error}") from error
    count = len(hosts) if entry.count is None else entry.count
    if count == len(hosts):
        return hosts
    if len(hosts) != 1:
        raise UsageError(f"node.{group}.count: is {count}, but the name lists {len(hosts)} hosts")
    return [f"{group}{i:0{len(str(count))}d}" for i in range(1, count + 1)]


def _members(text: str, groups: Mapping[str, list[str]], where: str) -> list[str]:
    hosts: dict[str, None] = {}
    every = dict.fromkeys(host for group in groups.values() for host in group)
    for part in split_hosts(text):
        if part.upper() == "ALL":
            hosts |= every
            continue
        try:
            named = groups.get(part) or expand_hosts(part)
        except ValueError as error:
            raise UsageError(f"{where}.Nodes: {error}") from error
        if strange := next((host for host in named if host not in every), None):
            raise UsageError(f"{where}.Nodes: no node is named {strange}")
        hosts |= dict.fromkeys(named)
    return list(hosts)


def _qos(name: str, entry: Qos) -> SiteQos:
    return SiteQos(
        name, entry.Priority, entry.GrpTRES.value, entry.GrpJobs.value, entry.MaxTRESPU.value,
        entry.MaxJobsPU.value, entry.MaxTRESPerJob.value, entry.MaxWall.value,
    )  # fmt: skip


def _associations(
    accounts: Mapping[str, Account], users: Iterable[tuple[str, str]]
) -> list[SiteAssociation]:
    """Return the associations; a user inherits MaxJobs of the nearest account that sets it."""
    rows: dict[tuple[str, str], SiteAssociation] = {}

    def row(entry: User, account: str, user: str, parent: str) -> SiteAssociation:
        return SiteAssociation(
            account, user, parent, entry.Fairshare, entry.GrpTRES.value, entry.MaxJobs.value,
            entry.RawUsage,
        )  # fmt: skip

    for account, entry in accounts.items():
        rows[account, ""] = row(entry, account, "", entry.Parent)
        for user, limits in entry.user.items():
            rows[account, user] = row(limits, account, user, "root")
    for account, user in users:
        rows.setdefault((account, user), SiteAssociation(account, user))
    for (account, user), association in rows.items():
        at, seen = account, set[str]()
        while user and association.max_jobs is None and (at, "") in rows and at not in seen:
            seen.add(at)
            if rows[at, ""].max_jobs is not None:
                rows[account, user] = replace(association, max_jobs=rows[at, ""].max_jobs)
                break
            at = rows[at, ""].parent
    return list(rows.values())


def config_of(document: SiteDocument) -> SchedulerConfig:
    """Return the settings of the full model: every rule that the settings turn on.

    Raises:
        UsageError: a value cannot be used, with its key.
    """
    settings = document.settings
    p, b = settings.priority, settings.backfill
    lln = "CR_LLN" in b.SelectTypeParameters.upper()
    return SchedulerConfig(
        order="fifo" if "basic" in p.PriorityType else "multifactor",
        backfill="none" if "builtin" in b.SchedulerType else "slurm",
        limits=enforces(settings),
        events=True,
        placement="least-loaded" if lln else "best-fit",
        queue_depth=b.default_queue_depth,
        sched_interval=b.sched_interval,
        bf_interval=b.bf_interval,
        bf_window=b.bf_window * 60,
        bf_max_job_test=b.bf_max_job_test,
        bf_max_job_user=b.bf_max_job_user or None,
        bf_max_job_part=b.bf_max_job_part or None,
        bf_resolution=b.bf_resolution,
        w_age=p.PriorityWeightAge,
        w_fairshare=p.PriorityWeightFairshare,
        w_size=p.PriorityWeightJobSize,
        w_partition=p.PriorityWeightPartition,
        w_qos=p.PriorityWeightQOS,
        w_tres_gpu=p.PriorityWeightTRES.value or 0,
        max_age=p.PriorityMaxAge.value or LAST_SECOND,
        favor_small=str(p.PriorityFavorSmall).lower() in ("yes", "true", "1"),
        fairshare="classic" if "NO_FAIR_TREE" in p.PriorityFlags.upper() else "tree",
        dampening=p.FairShareDampeningFactor,
        half_life=p.PriorityDecayHalfLife.value or 0,
        calc_period=p.PriorityCalcPeriod.value or 300,
    )


def why_off(keys: Sequence[str], settings: SiteSettings, level: str) -> str:
    """Return why the replayed rules do not use a setting; empty where they do."""
    table = keys[0]
    at = 4 if "user" in keys[2:3] else 2 if table in NAMED else 1
    key = keys[min(at, len(keys) - 1)]
    needed = next(
        (NEEDED_LEVEL[name] for name in (f"{table}.{key}", key, table) if name in NEEDED_LEVEL),
        LEVELS[0],
    )
    p, b = settings.priority, settings.backfill
    if key == "TRESBillingWeights":
        return "the model does not use it"
    if LEVELS.index(level) < LEVELS.index(needed):
        return f"the replayed rules ({level}) do not use it; --level {needed} does"
    if level == "easy" and key in ("default_queue_depth", "sched_interval"):
        return "the replayed rules (easy) do not use it; --level bf does"
    ranked = needed == "multifactor" and key not in ("PriorityTier", "PriorityType", "Parent")
    if ranked and "basic" in p.PriorityType:
        return "PriorityType is priority/basic; set it to priority/multifactor with --together"
    weight = f"PriorityWeight{WEIGHTS.get(key, '')}"
    if ranked and key in WEIGHTS and not getattr(p, weight):
        return f"{weight} is 0; set it too, with --together"
    if table == "backfill" and key.startswith("bf_") and "builtin" in b.SchedulerType:
        return "SchedulerType is sched/builtin; set it to sched/backfill with --together"
    if needed == "limits" and key != "AccountingStorageEnforce" and not enforces(settings):
        return "AccountingStorageEnforce enforces no limits; set it to limits with --together"
    return ""


def enforces(settings: SiteSettings) -> bool:
    """Return whether the limits of QOS and accounts hold."""
    enforced = settings.backfill.AccountingStorageEnforce.lower()
    return not enforced or any(word in enforced for word in ("limits", "safe", "all", "1"))


def level_config(full: SchedulerConfig, level: str) -> SchedulerConfig:
    """Return the settings of a level, from those of the full model."""
    at = LEVELS.index(level)
    backfill = ("none", "easy", full.backfill)[min(at, 2)]
    return replace(
        full,
        order=full.order if at >= 3 else "fifo",
        tiers=full.tiers and at >= 3,
        backfill=backfill,
        limits=full.limits and at >= 4,
        events=at >= 5,
    )


def shuffled(config: SchedulerConfig, seed: int) -> SchedulerConfig:
    """Return the same rules with job ties, backfill and ticks shifted by a seed."""
    return replace(
        config,
        tie_seed=seed,
        bf_phase=(7919 * seed) % config.bf_interval,
        calc_phase=(104729 * seed) % config.calc_period,
    )
