"""Settings that a log tells about its site, where nobody gives them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.job_table.notation import hosts_of, slurm_time
from gpuplan.analysis.log_formats.slurm_cells import FOREVER_S
from gpuplan.analysis.site.document import SiteDocument, dotted
from gpuplan.analysis.site.log import SiteLog
from gpuplan.planner.twin.workload import ONE_PARTITION
from gpuplan.simkit.cluster_shape import ClusterShape

LEAST_HITS = 20
"""Times that a limit must have been met before it is believed."""

GUESSED = {
    "PriorityWeightAge": 1000,
    "PriorityWeightFairshare": 10000,
    "PriorityWeightJobSize": 500,
    "PriorityWeightQOS": 2000,
}
"""Priority weights where none are known: common orders of magnitude, and no more than that."""

DEFAULTS: dict[str, dict[str, Any]] = {
    "priority": {
        "PriorityMaxAge": "7-00:00:00", "PriorityDecayHalfLife": "7-00:00:00",
        "PriorityCalcPeriod": 5,
    },
    "backfill": {
        "bf_interval": 30, "bf_window": 1440, "bf_resolution": 60, "bf_max_job_test": 500,
        "default_queue_depth": 100, "sched_interval": 60,
    },
}  # fmt: skip
"""Slurm's own."""


@dataclass(frozen=True, slots=True)
class Inferred:
    """One setting that no file gave.

    Attributes:
        key: its name, as in ``twin.toml``.
        value: what is used.
        source: given (by an option), inferred (from the log) or default.
        why: where the value comes from.
    """

    key: str
    value: int | float | str
    source: str
    why: str


def complete(
    document: SiteDocument, log: SiteLog, *, cluster: ClusterShape | None, infer: bool
) -> tuple[Inferred, ...]:
    """Add to the settings what the log tells and what Slurm assumes.

    Args:
        document: the settings given; they are added to.
        cluster: the nodes, where the settings have none.
        infer: whether the log may tell nodes, partitions and limits.

    Raises:
        UsageError: the settings have no nodes and ``infer`` is false.
    """
    adding = _Adding(document)
    has_nodes = bool(document.tables.get("node"))
    if not has_nodes and not infer:
        raise UsageError(
            "no nodes are known: no file of the site has a NodeName line\n"
            "  next: --slurm-conf FILE, --scontrol FILE, or --infer with --cluster, for example "
            "--cluster 16x8"
        )
    if has_nodes and cluster is not None:
        raise UsageError("--cluster: the settings already describe the nodes; leave it out")
    jobs = log.jobs.with_columns(pl.col("partition").fill_null(ONE_PARTITION))
    if not has_nodes:
        if cluster is not None:
            _nodes_of_shape(adding, cluster, jobs)
        elif "node_list" not in log.missing:
            _nodes_of_lists(adding, jobs)
        else:
            _nodes_of_peak(adding, jobs)
    if infer:
        _partitions(adding, jobs)
        if not document.tables.get("qos"):
            _user_cap(adding, jobs, log)
        if not any(k.startswith("PriorityWeight") for k in document.tables.get("priority", {})):
            for key, value in GUESSED.items():
                adding.put(value, "default", "assumed; no weights are known", "priority", key)
        if not document.tables.get("account") and "account" not in log.missing:
            count = jobs["account"].n_unique()
            adding.note("account", f"{count} groups", "inferred", "one share each")
    for table, values in DEFAULTS.items():
        for key, value in values.items():
            if document.get(table, key) is None:
                adding.put(value, "default", "Slurm's default", table, key)
    return tuple(adding.inferred)


class _Adding:
    """Puts values into a document and remembers why."""

    def __init__(self, document: SiteDocument) -> None:
        self.document = document
        self.inferred: list[Inferred] = []

    def put(self, value: Any, source: str, why: str, *keys: str) -> None:
        self.document.put(value, *keys, source=source)
        self.note(dotted(*keys), value, source, why)

    def note(self, key: str, value: Any, source: str, why: str) -> None:
        self.inferred.append(Inferred(key, value, source, why))


def peak_use(start: Iterable[int], end: Iterable[int], gpus: Iterable[int]) -> int:
    """Return the most GPUs in use at once; an end frees GPUs before a start takes them."""
    s, e, g = (np.asarray(list(v), np.int64) for v in (start, end, gpus))
    times = np.concatenate([e, s])
    change = np.concatenate([-g, g])
    order = np.lexsort((change, times))
    return int(np.cumsum(change[order]).max(initial=0))


def _ran(jobs: pl.DataFrame) -> pl.DataFrame:
    return jobs.filter(pl.col("start").is_not_null()).with_columns(
        stop=pl.col("start") + pl.col("run_s").fill_null(0)
    )


def _nodes_of_shape(adding: _Adding, cluster: ClusterShape, jobs: pl.DataFrame) -> None:
    for i, pool in enumerate(cluster.pools):
        name = (pool.gpu_type or "node").lower()
        nodes, each = (pool.gpus, 1) if pool.nodes is None else (pool.nodes, pool.gpus_per_node)
        adding.document.put_nodes(name, each, (pool.gpu_type or "gpu").lower(), i + 1, nodes)
    for name in sorted(jobs["partition"].unique()):
        if adding.document.get("partition", name) is None:
            why = "every partition is taken to have all nodes"
            adding.put("ALL", "inferred", why, "partition", name, "Nodes")


def _nodes_of_peak(adding: _Adding, jobs: pl.DataFrame) -> None:
    """Give each partition nodes of its own: its peak in use, in nodes of the largest share."""
    for (name,), rows in sorted(_ran(jobs).group_by("partition")):
        partition = str(name)
        peak = peak_use(rows["start"], rows["stop"], rows["gpus"])
        shares = rows.filter(pl.col("nodes") > 0).select(pl.col("gpus") // pl.col("nodes"))
        recorded = int(shares.to_series().max() or 0) if shares.height else 0  # type: ignore[arg-type]
        each = max(recorded, 1)
        why = (
            f"largest GPUs per node of a job, and a peak of {peak} GPUs in use"
            if recorded
            else f"the log has no nodes: nodes of one GPU are assumed, {peak} in use at the peak"
        )
        group = f"{partition}-node"
        wide = rows.select((pl.col("nodes")).max()).item() or 1
        count = max(-(-peak // each), int(wide) if recorded else 1)
        adding.put(count, "inferred", why, "node", group, "count")
        adding.put(each, "inferred", why, "node", group, "gpus")
        if adding.document.get("partition", partition, "Nodes") is None:
            adding.put(group, "inferred", "nodes of its own", "partition", partition, "Nodes")


def _nodes_of_lists(adding: _Adding, jobs: pl.DataFrame) -> None:
    """Take names, sizes and overlaps of nodes from the lists of nodes that jobs ran on."""
    size: dict[str, int] = {}
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    members: dict[str, dict[str, None]] = defaultdict(dict)
    for row in _ran(jobs).select("partition", "node_list", "gpus", "gpu_type").rows():
        partition, text, gpus, kind = row
        hosts = hosts_of(text)
        if not hosts or hosts[0].lower().startswith("none"):
            continue
        each = -(-gpus // len(hosts))
        for host in hosts:
            size[host] = max(size.get(host, 1), each)
            members[partition][host] = None
            if kind:
                kinds[host][kind] += 1
    if not size:
        _nodes_of_peak(adding, jobs)
        return
    for host in sorted(size):
        adding.document.put(1, "node", host, "count", source="inferred")
        adding.document.put(size[host], "node", host, "gpus", source="inferred")
        if kinds[host]:
            kind = kinds[host].most_common(1)[0][0]
            adding.document.put(kind, "node", host, "type", source="inferred")
    recorded = f"{len(size)} nodes, {sum(size.values())} GPUs"
    adding.note("node", recorded, "inferred", "NodeList; a node has the GPUs of its largest job")
    for partition, names in sorted(members.items()):
        if adding.document.get("partition", partition, "Nodes") is None:
            value = ",".join(sorted(names))
            why = "nodes that its jobs ran on"
            adding.put(value, "inferred", why, "partition", partition, "Nodes")


def _partitions(adding: _Adding, jobs: pl.DataFrame) -> None:
    for (name,), rows in sorted(jobs.group_by("partition")):
        partition = str(name)
        recorded = adding.document.get("partition", partition)
        if recorded is None or "Nodes" not in recorded:
            adding.put("ALL", "inferred", "not described", "partition", partition, "Nodes")
        longest = rows.filter(pl.col("limit_s") < FOREVER_S)["limit_s"].max()  # not UNLIMITED
        if adding.document.get("partition", partition, "MaxTime") is None and longest:
            text = slurm_time(-(-int(longest) // 3600) * 3600)  # type: ignore[arg-type]
            why = "the longest limit seen, in whole hours"
            adding.put(text, "inferred", why, "partition", partition, "MaxTime")
        if adding.document.get("partition", partition, "PriorityTier") is None:
            adding.put(1, "inferred", "one tier", "partition", partition, "PriorityTier")


def _user_cap(adding: _Adding, jobs: pl.DataFrame, log: SiteLog) -> None:
    """Believe a limit on the GPUs of a user that was met often while a job of theirs had room."""
    if "user" in log.missing:
        return
    rows = _ran(jobs).with_columns(pl.col("qos").fill_null("normal"))
    for (qos,), of_qos in sorted(rows.group_by("qos")):
        cap, hits = plateau(of_qos)
        if hits >= LEAST_HITS:
            why = f"met {hits} times while the cluster had room for the next job of the user"
            adding.put(cap, "inferred", why, "qos", str(qos), "MaxTRESPU", "gpu")


def plateau(rows: pl.DataFrame) -> tuple[int, int]:
    """Return the most GPUs of one user, and how often a job waited at it although there was room.

    Args:
        rows: jobs that ran, with ``submit``, ``eligible``, ``start``, ``stop``, ``user``, ``gpus``.
    """
    ready = pl.max_horizontal(pl.col("submit"), pl.col("eligible").fill_null(pl.col("submit")))
    events: list[tuple[int, int, int, str, int]] = []
    for i, (user, begin, start, stop, gpus) in enumerate(
        rows.select("user", ready.alias("ready"), "start", "stop", "gpus").rows()
    ):
        events += [(stop, 0, i, user, gpus), (start, 1, i, user, gpus)]
        if begin < start:
            events.append((begin, 2, i, user, gpus))
    events.sort()
    use: Counter[str] = Counter()
    waiting: dict[str, list[tuple[int, int]]] = defaultdict(list)  # heaps of (GPUs, job)
    began: set[int] = set()
    total = peak = 0
    peak_total = peak_use(rows["start"], rows["stop"], rows["gpus"])
    met: Counter[int] = Counter()
    for _, kind, i, user, gpus in events:
        if kind == 0:
            use[user] -= gpus
            total -= gpus
        elif kind == 1:
            use[user] += gpus
            total += gpus
            began.add(i)
            peak = max(peak, use[user])
        else:
            heappush(waiting[user], (gpus, i))
        queue = waiting[user]
        while queue and queue[0][1] in began:
            heappop(queue)
        next_gpus = queue[0][0] if queue else 0
        if next_gpus and total + next_gpus <= peak_total and kind:
            met[use[user]] += 1
    return peak, met[peak]
