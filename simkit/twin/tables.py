"""What the kernel of the twin reads: a site, its jobs and its settings as arrays.

Jobs with the same partition and GPU type form a class; those of a class that also ask for the same
nodes and GPUs per node have one shape. Nodes keep the order of the site, which breaks their ties.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuplan.simkit.arrays import FloatArray, IntArray, distinct
from gpuplan.simkit.twin.jobs import SiteJobs
from gpuplan.simkit.twin.priority import CLASSIC, TREE, Associations, ShareTree, associations
from gpuplan.simkit.twin.profile import FAR
from gpuplan.simkit.twin.refusals import limit_value, refusals
from gpuplan.simkit.twin.site import BACKFILLS, PLACEMENTS, SchedulerConfig, SiteCluster
from gpuplan.simkit.twin.state import NO_LIMIT

MOST_DOMINATED = 1500  # shapes up to which a failure of one also marks all larger ones


class JobTable(NamedTuple):
    """One value per job. ``qos`` and ``part_qos`` are -1 for none; ``limited`` numbers the limits
    that hold for a job; ``base`` is the priority but for age and fair share; ``refused`` is a code
    of `REASONS`. ``follower`` is the job that comes when this one ends, -1 for none; ``moves``
    says that a job which waits until ``cancel`` starts elsewhere then.
    """

    ready: Any
    nodes: Any
    gpus: Any
    limit: Any
    runtime: Any
    cancel: Any
    pinned: Any
    billing: Any
    tie: Any
    part: Any
    line: Any
    shape: Any
    user: Any
    assoc: Any
    qos: Any
    part_qos: Any
    limited: Any
    tier: Any
    base: Any
    refused: Any
    follower: Any
    moves: Any


class SiteTable(NamedTuple):
    """Nodes, partitions, classes and shapes. ``X_first`` with ``X`` are lists of lists.

    ``rank`` orders nodes by weight. ``class_of_node`` lists the classes of each node,
    ``larger`` the shapes of a class that need no less than a shape.
    """

    gpus: Any
    rank: Any
    part_first: Any
    part_node: Any
    class_first: Any
    class_node: Any
    class_of_node_first: Any
    class_of_node: Any
    shape_class: Any
    shape_nodes: Any
    shape_gpus: Any
    larger_first: Any
    larger: Any
    event_node: Any
    event_start: Any
    event_end: Any
    event_announced: Any
    edges: Any


class LimitTable(NamedTuple):
    """Limits, `NO_LIMIT` for none, and what running jobs use of them.

    Rows of the two ``user`` tables are QOS and their columns are users; associations are nodes of
    the tree. ``least_over`` are the fewest GPUs known to break each of the limits that
    `JobTable.limited` numbers, in the pass ``over_pass``.
    """

    grp_gpus: Any
    grp_jobs: Any
    user_gpus: Any
    user_jobs: Any
    assoc_gpus: Any
    assoc_jobs: Any
    used_gpus: Any
    used_jobs: Any
    used_user_gpus: Any
    used_user_jobs: Any
    used_assoc_gpus: Any
    used_assoc_jobs: Any
    least_over: Any
    over_pass: Any


class RuleTable(NamedTuple):
    """Settings; see `SchedulerConfig`. ``backfill`` and ``placement`` are positions in lists."""

    multifactor: bool
    backfill: int
    limits: bool
    events: bool
    placement: int
    queue_depth: int
    sched_interval: int
    bf_interval: int
    bf_window: int
    bf_max_job_test: int
    bf_max_job_user: int
    bf_max_job_part: int
    bf_resolution: int
    bf_phase: int
    w_age: float
    w_fairshare: float
    max_age: int
    fairshare: int
    dampening: float
    half_life: int
    calc_period: int
    calc_phase: int


@dataclass(frozen=True, slots=True)
class KernelInput:
    """Everything that a replay reads."""

    jobs: JobTable
    site: SiteTable
    limits: LimitTable
    tree: ShareTree
    rules: RuleTable
    associations: Associations


def lists(rows: list[Any]) -> tuple[IntArray, IntArray]:
    """Return lists of indices as one array, and where each begins."""
    first = np.cumsum([0, *(len(row) for row in rows)]).astype(np.int64)
    flat = [np.asarray(row, np.int64) for row in rows]
    return first, np.concatenate([*flat, np.empty(0, np.int64)])


def kernel_input(site: SiteCluster, jobs: SiteJobs, config: SchedulerConfig) -> KernelInput:
    """Return the tables. Raises ValueError where a job names a partition that is not there."""
    count = jobs.id.size
    moves, patience = jobs.moves, jobs.patience
    jobs, follower = jobs.parts()
    n = jobs.id.size
    tie = np.arange(n)
    tie[_shuffled(jobs.id[:count].astype(np.uint64), config.tie_seed)] = np.arange(count)
    tables = _site_tables(site, jobs, config)
    used = {(jobs.accounts[a], jobs.users[u]) for a, u in _pairs(jobs.account, jobs.user)}
    assocs = associations(site.assocs, sorted(used))
    tree = assocs.tree()
    assoc = _by_pair(jobs, assocs)
    limits, qos, part_qos, limited = _limit_tables(site, jobs, assocs, assoc)
    part, line, shape = tables.part, tables.line, tables.shape
    tier = np.array([p.tier if config.tiers else 0 for p in site.partitions], np.int64)
    ready, cancel = jobs.ready.copy(), jobs.cancel.copy()
    ready[count:] = FAR  # until the job before ends
    if patience is not None:
        cancel[:count] = np.where(moves, ready[:count] + patience, cancel[:count])
    table = JobTable(
        ready, jobs.nodes, jobs.gpus, jobs.limit, jobs.runtime, cancel, jobs.pinned,
        jobs.billing, tie, part, line, shape, jobs.user, assoc, qos, part_qos,
        limited, tier[part] if n else part, _base(site, jobs, config, part, qos),
        np.zeros(n, np.int64), follower, np.concatenate([moves, np.zeros(n - count, np.bool_)]),
    )  # fmt: skip
    refused = refusals(
        site, jobs, config, table, tables.site, limits, tables.class_gpus, assocs
    )  # fmt: skip
    # What is refused needs no room, whatever it asks.
    table = table._replace(refused=refused, nodes=np.where(refused > 0, 1, jobs.nodes))
    return KernelInput(table, tables.site, limits, tree, _rules(config), assocs)


def _shuffled(keys: NDArray[np.uint64], seed: int) -> IntArray:
    """Return an order of what the keys name, in which two of them stand alike whatever others do.

    Seed 0 leaves all in place. Source: SplitMix64 of Steele, Lea and Flood, OOPSLA 2014.
    """
    if seed == 0:
        return np.arange(keys.size)
    mixed = keys + np.uint64(seed * 0x9E3779B97F4A7C15 % (1 << 64))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    order: IntArray = np.argsort(mixed ^ (mixed >> np.uint64(31)), kind="stable")
    return order


def _pairs(left: IntArray, right: IntArray) -> list[tuple[int, int]]:
    """Return the pairs of values that occur, sorted."""
    if not left.size:
        return []
    width = int(right.max()) + 1
    return [divmod(int(code), width) for code in distinct(left * width + right)]


def _by_pair(jobs: SiteJobs, assocs: Associations) -> IntArray:
    node = np.zeros((len(jobs.accounts), len(jobs.users)), np.int64)
    for a, u in _pairs(jobs.account, jobs.user):
        node[a, u] = assocs.node[jobs.accounts[a], jobs.users[u]]
    of_job: IntArray = node[jobs.account, jobs.user]
    return of_job


class _Tables(NamedTuple):
    site: SiteTable
    part: IntArray
    line: IntArray
    shape: IntArray
    class_gpus: list[IntArray]  # GPUs of the nodes of each class


def _site_tables(site: SiteCluster, jobs: SiteJobs, config: SchedulerConfig) -> _Tables:
    names = {p.name: i for i, p in enumerate(site.partitions)}
    in_use = set(distinct(jobs.partition).tolist())
    for i, name in enumerate(jobs.partitions):
        if i in in_use and name not in names:
            raise ValueError(f"a job names the partition {name!r}, which the site does not have")
    part_of = np.array([names.get(name, 0) for name in jobs.partitions], np.int64)
    part = part_of[jobs.partition]
    index = {node.name: i for i, node in enumerate(site.nodes)}
    members = [np.sort([index[name] for name in p.nodes]).astype(np.int64) for p in site.partitions]
    kinds = np.array([node.gpu_type for node in site.nodes], object)
    gpus = np.array([node.gpus for node in site.nodes], np.int64)
    classes: dict[tuple[int, int], int] = {}
    class_nodes: list[IntArray] = []
    line_of = np.zeros((len(site.partitions), len(jobs.gpu_types)), np.int64)
    for p, t in _pairs(part, jobs.gpu_type):
        kind = jobs.gpu_types[t]
        classes[p, t] = line_of[p, t] = len(classes)
        nodes_of = members[p]
        class_nodes.append(nodes_of[kinds[nodes_of] == kind] if kind else nodes_of)
    line = line_of[part, jobs.gpu_type]
    triples, shape = _triples(line, jobs.nodes, jobs.gpus)
    weights = np.array([node.weight for node in site.nodes], np.int64)
    rank = np.unique(weights, return_inverse=True)[1].reshape(-1).astype(np.int64)
    of_node: list[list[int]] = [[] for _ in site.nodes]
    for c, nodes_of in enumerate(class_nodes):
        for node in nodes_of:
            of_node[node].append(c)
    part_first, part_node = lists(members)
    class_first, class_node = lists(class_nodes)
    of_first, of_flat = lists(of_node)
    larger_first, larger = _larger(triples)
    events = [e for e in site.events if e.end > e.start] if config.events else []
    edges = {t for e in events for t in (e.start, e.end, e.announced) if t is not None}
    table = SiteTable(
        gpus, rank, part_first, part_node, class_first, class_node, of_first, of_flat,
        triples[0].copy(), triples[1].copy(), triples[2].copy(), larger_first, larger,
        np.array([index[e.node] for e in events], np.int64),
        np.array([e.start for e in events], np.int64),
        np.array([e.end for e in events], np.int64),
        np.array([NO_LIMIT if e.announced is None else e.announced for e in events], np.int64),
        np.array(sorted(edges), np.int64),
    )  # fmt: skip
    return _Tables(table, part, line, shape, [gpus[nodes_of] for nodes_of in class_nodes])


def _triples(line: IntArray, nodes: IntArray, gpus: IntArray) -> tuple[IntArray, IntArray]:
    """Return the (class, nodes, GPUs per node) that occur, as columns, and each job's column."""
    _, of_nodes = np.unique(nodes, return_inverse=True)
    _, of_gpus = np.unique(gpus, return_inverse=True)
    kinds = int(of_gpus.max(initial=0)) + 1
    code = (line * (int(of_nodes.max(initial=0)) + 1) + of_nodes.reshape(-1)) * kinds
    _, at, shape = np.unique(code + of_gpus.reshape(-1), return_index=True, return_inverse=True)
    return np.stack([line[at], nodes[at], gpus[at]]), shape.reshape(-1).astype(np.int64)


def _larger(triples: IntArray) -> tuple[IntArray, IntArray]:
    """Return, for each shape, the shapes of its class that need no less; itself is one."""
    count = triples.shape[1]
    if count > MOST_DOMINATED:
        return lists([[s] for s in range(count)])
    line, nodes, gpus = triples
    return lists(
        [
            np.flatnonzero((line == line[s]) & (nodes >= nodes[s]) & (gpus >= gpus[s]))
            for s in range(count)
        ]
    )


def _limit_tables(
    site: SiteCluster, jobs: SiteJobs, assocs: Associations, assoc: IntArray
) -> tuple[LimitTable, IntArray, IntArray, IntArray]:
    """Return the limits, each job's own QOS, that of its partition, and its limits by number."""
    code = {q.name: i for i, q in enumerate(site.qos)}
    qos_of = np.array([code.get(name, -1) for name in jobs.qoses], np.int64)
    qos_of_job = qos_of[jobs.qos]
    of_part = {p.name: code.get(p.qos, -1) for p in site.partitions}
    part_qos = np.array([of_part.get(name, -1) for name in jobs.partitions], np.int64)
    count, users, nodes = len(site.qos), len(jobs.users), len(assocs.rows) + 1

    def column(name: str) -> IntArray:
        return np.array([limit_value(getattr(q, name)) for q in site.qos], np.int64)

    rows, of_job = assocs.rows, part_qos[jobs.partition]
    limited = np.zeros(qos_of_job.size, np.int64)
    for each in (qos_of_job + 1, of_job + 1, assoc, jobs.user):
        pairs = limited * (int(each.max(initial=0)) + 1) + each
        limited = np.unique(pairs, return_inverse=True)[1].reshape(-1).astype(np.int64)
    kinds = int(limited.max(initial=0)) + 1
    table = LimitTable(
        column("grp_gpus"), column("grp_jobs"), column("user_gpus"), column("user_jobs"),
        np.array([NO_LIMIT, *(limit_value(r.grp_gpus) for r in rows)], np.int64),
        np.array([NO_LIMIT, *(limit_value(r.max_jobs) if r.user else NO_LIMIT for r in rows)],
                 np.int64),
        np.zeros(count, np.int64), np.zeros(count, np.int64),
        np.zeros((count, users), np.int64), np.zeros((count, users), np.int64),
        np.zeros(nodes, np.int64), np.zeros(nodes, np.int64),
        np.zeros(kinds, np.int64), np.zeros(kinds, np.int64),
    )  # fmt: skip
    return table, qos_of_job, of_job, limited


def _base(
    site: SiteCluster, jobs: SiteJobs, config: SchedulerConfig, part: IntArray, qos: IntArray
) -> FloatArray:
    """Return the part of the priority that does not change."""
    gpus = jobs.total_gpus
    size_of = site.gpus_of_node
    in_part = np.array([sum(size_of[n] for n in p.nodes) or 1 for p in site.partitions])
    size = (jobs.nodes / len(site.nodes) + gpus / site.gpus) / 2
    factor = np.array([p.job_factor for p in site.partitions], np.float64)
    priority = np.array([*(q.priority for q in site.qos), 0], np.float64)  # -1: no QOS
    base: FloatArray = config.w_size * (1 - size if config.favor_small else size)
    if factor.max(initial=0) > 0:
        base = base + config.w_partition * (factor / factor.max())[part]
    if priority.max() > 0:
        base = base + config.w_qos * (priority / priority.max())[qos]
    base = base + config.w_tres_gpu * (gpus / in_part[part]) - jobs.nice
    return base


def _rules(config: SchedulerConfig) -> RuleTable:
    return RuleTable(
        config.order == "multifactor", BACKFILLS.index(config.backfill), config.limits,
        config.events, PLACEMENTS.index(config.placement), config.queue_depth,
        config.sched_interval, config.bf_interval, config.bf_window, config.bf_max_job_test,
        limit_value(config.bf_max_job_user), limit_value(config.bf_max_job_part),
        config.bf_resolution, config.bf_phase,
        float(config.w_age), float(config.w_fairshare), config.max_age,
        TREE if config.fairshare == "tree" else CLASSIC, float(config.dampening), config.half_life,
        config.calc_period, config.calc_phase,
    )  # fmt: skip
