"""From a site's settings in Slurm's names to a cluster and a scheduler of the simulator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpuplan.analysis.errors import UsageError
from gpuplan.analysis.site.document import SiteDocument
from gpuplan.analysis.site.hostlist import expand_hosts, split_hosts
from gpuplan.analysis.site.units import gpu_limit, minutes_limit
from gpuplan.simkit.twin.site import (
    SchedulerConfig,
    SiteAssociation,
    SiteCluster,
    SiteNode,
    SiteNodeEvent,
    SitePartition,
    SiteQos,
)

NODE_KEYS = ("count", "gpus", "type", "weight")
PARTITION_KEYS = (
    "Nodes", "PriorityTier", "PriorityJobFactor", "MaxTime", "MaxNodes", "QOS",
    "TRESBillingWeights",
)  # fmt: skip
QOS_KEYS = (
    "Priority", "GrpTRES", "GrpJobs", "MaxTRESPU", "MaxJobsPU", "MaxTRESPerJob", "MaxWall",
)  # fmt: skip
ACCOUNT_KEYS = ("Parent", "Fairshare", "GrpTRES", "MaxJobs", "RawUsage", "user")
PRIORITY_KEYS = (
    "PriorityType", "PriorityWeightAge", "PriorityWeightFairshare", "PriorityWeightJobSize",
    "PriorityWeightPartition", "PriorityWeightQOS", "PriorityWeightTRES", "PriorityMaxAge",
    "PriorityFavorSmall", "PriorityFlags", "PriorityDecayHalfLife", "PriorityCalcPeriod",
    "FairShareDampeningFactor",
)  # fmt: skip
BACKFILL_KEYS = (
    "SchedulerType", "SelectTypeParameters", "AccountingStorageEnforce", "bf_interval",
    "bf_window", "bf_resolution", "bf_max_job_test", "bf_max_job_user", "bf_max_job_part",
    "default_queue_depth", "sched_interval",
)  # fmt: skip
EVENT_KEYS = ("node", "start", "end", "announced")
LAST_SECOND = 1 << 44

Table = Mapping[str, Any]


def check_document(tables: Table) -> None:
    """Raise `UsageError` on a table or key that the model does not know."""
    known = {
        "node": NODE_KEYS, "partition": PARTITION_KEYS, "qos": QOS_KEYS, "account": ACCOUNT_KEYS
    }  # fmt: skip
    for name, keys in known.items():
        for entry, values in tables.get(name, {}).items():
            _check_keys(f"{name}.{entry}", values, keys)
            for user, limits in (values.get("user") or {}).items() if name == "account" else ():
                _check_keys(f"{name}.{entry}.user.{user}", limits, ACCOUNT_KEYS[1:5])
    _check_keys("priority", tables.get("priority", {}), PRIORITY_KEYS)
    _check_keys("backfill", tables.get("backfill", {}), BACKFILL_KEYS)
    for event in tables.get("event", []):
        _check_keys("event", event, EVENT_KEYS)


def _check_keys(where: str, values: Any, keys: Iterable[str]) -> None:
    if not isinstance(values, Mapping):
        raise UsageError(f"{where}: must be a table with {', '.join(keys)}")
    for key in values:
        if key not in keys:
            raise UsageError(f"{where}.{key}: unknown key; expected one of {', '.join(keys)}")


def site_of(document: SiteDocument, users: Iterable[tuple[str, str]] = ()) -> SiteCluster:
    """Return the cluster that the settings describe.

    Args:
        document: the settings.
        users: (account, user) of the log; those inherit the limits of their accounts.

    Raises:
        UsageError: a value cannot be used, with its key.
    """
    tables = document.tables
    check_document(tables)
    groups: dict[str, list[str]] = {}
    nodes: list[SiteNode] = []
    for group, entry in tables.get("node", {}).items():
        hosts = _names(group, entry)
        groups[group] = hosts
        where = f"node.{group}"
        gpus = _whole(entry.get("gpus", 1), f"{where}.gpus", least=1)
        weight = _whole(entry.get("weight", 1), f"{where}.weight")
        kind = str(entry.get("type", "gpu")).lower()
        nodes += [SiteNode(host, gpus, kind, weight) for host in hosts]
    partitions = []
    for name, entry in tables.get("partition", {}).items():
        where = f"partition.{name}"
        partitions.append(
            SitePartition(
                name,
                tuple(_members(entry.get("Nodes", "ALL"), groups, where)),
                _whole(entry.get("PriorityTier", 1), f"{where}.PriorityTier"),
                _whole(entry.get("PriorityJobFactor", 1), f"{where}.PriorityJobFactor"),
                _time(entry.get("MaxTime"), f"{where}.MaxTime"),
                _limit(entry.get("MaxNodes"), f"{where}.MaxNodes"),
                str(entry.get("QOS", "") or "").replace("N/A", ""),
            )
        )
    qos = [_qos(name, entry) for name, entry in tables.get("qos", {}).items()]
    assocs = _associations(tables.get("account", {}), users)
    known = {node.name for node in nodes}
    events = [
        SiteNodeEvent(
            str(e["node"]), _whole(e["start"], "event.start"),
            min(_whole(e["end"], "event.end"), LAST_SECOND),
            None if e.get("announced") is None else _whole(e["announced"], "event.announced"),
        )
        for e in tables.get("event", [])
        if str(e.get("node")) in known
    ]  # fmt: skip
    if not nodes or not partitions:
        raise UsageError("the site has no GPU nodes or no partition; give --slurm-conf or --infer")
    try:
        return SiteCluster(
            tuple(nodes), tuple(partitions), tuple(qos), tuple(assocs), tuple(events)
        )
    except ValueError as error:
        raise UsageError(str(error)) from error


def _names(group: str, entry: Table) -> list[str]:
    try:
        hosts = expand_hosts(group)
    except ValueError as error:
        raise UsageError(f"node.{group}: {error}") from error
    count = _whole(entry.get("count", len(hosts)), f"node.{group}.count", least=1)
    if count == len(hosts):
        return hosts
    if len(hosts) != 1:
        raise UsageError(f"node.{group}.count: is {count}, but the name lists {len(hosts)} hosts")
    return [f"{group}{i:0{len(str(count))}d}" for i in range(1, count + 1)]


def _members(text: Any, groups: Mapping[str, list[str]], where: str) -> list[str]:
    hosts: dict[str, None] = {}
    every = {host for group in groups.values() for host in group}
    for part in split_hosts(str(text)):
        if part.upper() == "ALL":
            hosts |= dict.fromkeys(host for group in groups.values() for host in group)
            continue
        try:
            found = groups.get(part) or expand_hosts(part)
        except ValueError as error:
            raise UsageError(f"{where}.Nodes: {error}") from error
        if strange := next((host for host in found if host not in every), None):
            raise UsageError(f"{where}.Nodes: no node is named {strange}")
        hosts |= dict.fromkeys(found)
    return list(hosts)


def _qos(name: str, entry: Table) -> SiteQos:
    def gpus(key: str) -> int | None:
        value = entry.get(key)
        if isinstance(value, Mapping):
            value = value.get("gpu")
        elif isinstance(value, str):
            value = gpu_limit(value)
        return _limit(value, f"qos.{name}.{key}.gpu")

    return SiteQos(
        name,
        _whole(entry.get("Priority", 0), f"qos.{name}.Priority"),
        gpus("GrpTRES"),
        _limit(entry.get("GrpJobs"), f"qos.{name}.GrpJobs"),
        gpus("MaxTRESPU"),
        _limit(entry.get("MaxJobsPU"), f"qos.{name}.MaxJobsPU"),
        gpus("MaxTRESPerJob"),
        _time(entry.get("MaxWall"), f"qos.{name}.MaxWall"),
    )


def _associations(accounts: Table, users: Iterable[tuple[str, str]]) -> list[SiteAssociation]:
    """Return the associations; a user inherits MaxJobs of the nearest account that sets it."""
    rows: dict[tuple[str, str], SiteAssociation] = {}

    def row(where: str, entry: Table, account: str, user: str) -> SiteAssociation:
        grp = entry.get("GrpTRES")
        gpus = grp.get("gpu") if isinstance(grp, Mapping) else grp
        return SiteAssociation(
            account, user, str(entry.get("Parent", "root")),
            _whole(entry.get("Fairshare", 1), f"{where}.Fairshare"),
            _limit(gpus, f"{where}.GrpTRES.gpu"), _limit(entry.get("MaxJobs"), f"{where}.MaxJobs"),
            float(entry.get("RawUsage", 0.0)),
        )  # fmt: skip

    for account, entry in accounts.items():
        rows[account, ""] = row(f"account.{account}", entry, account, "")
        for user, limits in (entry.get("user") or {}).items():
            rows[account, user] = row(f"account.{account}.user.{user}", limits, account, user)
    for account, user in users:
        rows.setdefault((account, user), SiteAssociation(account, user))
    for (account, user), found in rows.items():
        at, seen = account, set[str]()
        while user and found.max_jobs is None and (at, "") in rows and at not in seen:
            seen.add(at)
            if rows[at, ""].max_jobs is not None:
                rows[account, user] = replace(found, max_jobs=rows[at, ""].max_jobs)
                break
            at = rows[at, ""].parent
    return list(rows.values())


def config_of(document: SiteDocument) -> SchedulerConfig:
    """Return the settings of the full model: every rule that the settings turn on.

    Raises:
        UsageError: a value cannot be used, with its key.
    """
    p, b = document.tables.get("priority", {}), document.tables.get("backfill", {})
    flags = str(p.get("PriorityFlags", "")).upper()
    weights = p.get("PriorityWeightTRES", 0)
    lln = "CR_LLN" in str(b.get("SelectTypeParameters", "")).upper()

    def weight(name: str) -> int:
        return _whole(p.get(name, 0), f"priority.{name}")

    def setting(name: str, default: int | None, least: int = 0) -> Any:
        value = b.get(name, default)
        return None if value is None else _whole(value, f"backfill.{name}", least=least)

    try:
        return SchedulerConfig(
            order="fifo" if "basic" in str(p.get("PriorityType", "")) else "multifactor",
            backfill="none" if "builtin" in str(b.get("SchedulerType", "")) else "slurm",
            limits=True,
            events=True,
            placement="least-loaded" if lln else "best-fit",
            queue_depth=setting("default_queue_depth", 100, 1),
            sched_interval=setting("sched_interval", 60),
            bf_interval=setting("bf_interval", 30, 1),
            bf_window=setting("bf_window", 1440) * 60,
            bf_max_job_test=setting("bf_max_job_test", 500, 1),
            bf_max_job_user=setting("bf_max_job_user", None) or None,
            bf_max_job_part=setting("bf_max_job_part", None) or None,
            bf_resolution=setting("bf_resolution", 60, 1),
            w_age=weight("PriorityWeightAge"),
            w_fairshare=weight("PriorityWeightFairshare"),
            w_size=weight("PriorityWeightJobSize"),
            w_partition=weight("PriorityWeightPartition"),
            w_qos=weight("PriorityWeightQOS"),
            w_tres_gpu=_tres_weight(weights),
            max_age=_time(p.get("PriorityMaxAge", "7-0"), "priority.PriorityMaxAge") or LAST_SECOND,
            favor_small=str(p.get("PriorityFavorSmall", "no")).lower() in ("yes", "true", "1"),
            fairshare="classic" if "NO_FAIR_TREE" in flags else "tree",
            dampening=float(p.get("FairShareDampeningFactor", 1)),
            half_life=_time(p.get("PriorityDecayHalfLife", "7-0"), "priority.PriorityDecayHalfLife")
            or 0,
            calc_period=_time(p.get("PriorityCalcPeriod", 5), "priority.PriorityCalcPeriod") or 300,
        )
    except ValueError as error:
        raise UsageError(f"priority: {error}") from error


def _tres_weight(entry: Any) -> int:
    if isinstance(entry, Mapping):
        entry = entry.get("gpu", 0)
    elif isinstance(entry, str):
        entry = gpu_limit(entry) or 0
    return _whole(entry, "priority.PriorityWeightTRES")


def _whole(value: Any, where: str, least: int = 0) -> int:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise UsageError(f"{where}: must be a whole number, got {value!r}") from None
    if number != number // 1 or not least <= number < LAST_SECOND:
        raise UsageError(f"{where}: must be a whole number from {least} on, got {value!r}")
    return int(number)


def _limit(value: Any, where: str) -> int | None:
    if value is None or str(value).lower() in ("unlimited", "infinite", "none", "", "-1"):
        return None
    return _whole(value, where)


def _time(value: Any, where: str) -> int | None:
    """Return seconds of a time in Slurm's notation; a number is minutes."""
    if value is None:
        return None
    try:
        return minutes_limit(str(value))
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from error
