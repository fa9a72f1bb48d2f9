"""Turns a site and its workloads into the arrays that the kernels of Kueue read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.heap import sections
from gpuplan.simkit.quota.accounts import NodeQuotas
from gpuplan.simkit.quota.cycle import ROW_SLOTS, SLOT_COLUMNS
from gpuplan.simkit.quota.site import (
    FINAL,
    INITIAL,
    PODS,
    POLICIES,
    PREEMPTION_FIRST,
    STRICT_FIFO,
    TRY_NEXT,
    PodSet,
    Quota,
    QuotaJobs,
    QuotaSite,
)
from gpuplan.simkit.quota.state import COUNTS, QueueRules, QuotaState, WorkloadTable
from gpuplan.simkit.quota.tree import NO_LIMIT, QuotaTree

ANY_PRIORITY = 1 << 60


@dataclass(frozen=True, slots=True)
class QuotaNames:
    """Names behind the numbers: nodes are queues, then cohorts."""

    nodes: tuple[str, ...]
    queues: int
    flavors: tuple[str, ...]
    resources: tuple[str, ...]

    def pair(self, flavor: str, resource: str) -> int:
        """Return the number of a flavor and a resource."""
        resources = self.resources
        return self.flavors.index(flavor) * len(resources) + resources.index(resource)

    def flavor_of(self, pair: int) -> str:
        """Return the flavor of the number of a flavor and a resource."""
        return self.flavors[pair // len(self.resources)]


def names_of(site: QuotaSite, shapes: tuple[tuple[PodSet, ...], ...] = ()) -> QuotaNames:
    """Return the names of a site; raises `ValueError` where cohorts lie in a ring."""
    cohorts = {cohort.name: cohort.parent for cohort in site.cohorts}
    for name in [queue.cohort for queue in site.queues] + list(cohorts.values()):
        if name is not None:
            cohorts.setdefault(name, None)
    for name in cohorts:
        seen: list[str] = []
        above: str | None = name
        while above is not None:
            if above in seen:
                raise ValueError(f"cohorts must form a tree, got a ring: {' -> '.join(seen)}")
            seen.append(above)
            above = cohorts[above]
    flavors: dict[str, None] = {}
    resources = {name for pods in shapes for pod_set in pods for name in pod_set.requests}
    for queue in site.queues:
        for group in queue.groups:
            for flavor in group:
                flavors[flavor.name] = None
                resources |= flavor.quotas.keys()
    for cohort in site.cohorts:
        for flavor_name, resource in cohort.quotas:
            flavors[flavor_name] = None
            resources.add(resource)
    nodes = (*(queue.name for queue in site.queues), *cohorts)
    return QuotaNames(nodes, len(site.queues), tuple(flavors), tuple(sorted(resources)))


def _children(parent: IntArray, members: list[int]) -> tuple[IntArray, IntArray]:
    """Return, by node, where its children begin, and the children in the order of ``members``."""
    below: list[list[int]] = [[] for _ in range(parent.size)]
    for node in members:
        if parent[node] >= 0:
            below[parent[node]].append(node)
    first = np.concatenate(([0], np.cumsum([len(nodes) for nodes in below])))
    return first.astype(np.int64), np.array([node for nodes in below for node in nodes], np.int64)


def _by_root(root: IntArray, members: list[int]) -> tuple[IntArray, IntArray]:
    """Return, by root, where its members begin, and the members."""
    below: list[list[int]] = [[] for _ in range(root.size)]
    for node in members:
        below[root[node]].append(node)
    first = np.concatenate(([0], np.cumsum([len(nodes) for nodes in below])))
    return first.astype(np.int64), np.array([node for nodes in below for node in nodes], np.int64)


def tree_of(site: QuotaSite, names: QuotaNames) -> QuotaTree:
    """Return the quota tree of a site, with nothing in use."""
    nodes, queues = len(names.nodes), names.queues
    pairs, resources = len(names.flavors) * len(names.resources), len(names.resources)
    number = {name: queues + i for i, name in enumerate(names.nodes[queues:])}
    parent = np.full(nodes, -1, np.int64)
    weight = np.ones(nodes)
    nominal = np.zeros((nodes, pairs), np.int64)
    limit = np.full((nodes, pairs), NO_LIMIT, np.int64)
    lent = np.full((nodes, pairs), NO_LIMIT, np.int64)

    def set_quota(node: int, pair: int, quota: Quota) -> None:
        nominal[node, pair] = quota.nominal
        limit[node, pair] = NO_LIMIT if quota.borrowing_limit is None else quota.borrowing_limit
        lent[node, pair] = NO_LIMIT if quota.lending_limit is None else quota.lending_limit

    for node, queue in enumerate(site.queues):
        parent[node] = -1 if queue.cohort is None else number[queue.cohort]
        weight[node] = queue.weight
        for flavor in (flavor for group in queue.groups for flavor in group):
            for resource, quota in flavor.quotas.items():
                set_quota(node, names.pair(flavor.name, resource), quota)
    for cohort in site.cohorts:
        node = number[cohort.name]
        parent[node] = -1 if cohort.parent is None else number[cohort.parent]
        weight[node] = cohort.weight
        for (flavor_name, resource), quota in cohort.quotas.items():
            set_quota(node, names.pair(flavor_name, resource), quota)

    depth = np.zeros(nodes, np.int64)
    root = np.arange(nodes)
    for node in range(nodes):
        while parent[root[node]] >= 0:
            depth[node] += 1
            root[node] = parent[root[node]]
    height = np.zeros(nodes, np.int64)
    subtree, local = nominal.copy(), np.zeros_like(nominal)
    upwards = np.argsort(-depth, kind="stable")
    for node in upwards:
        local[node] = np.where(lent[node] < NO_LIMIT, np.maximum(0, subtree[node] - lent[node]), 0)
        if parent[node] >= 0:
            subtree[parent[node]] += subtree[node] - local[node]
            height[parent[node]] = max(height[parent[node]], height[node] + 1)
    potential = subtree.copy()
    for node in upwards[::-1]:
        if parent[node] >= 0:
            potential[node] = local[node] + potential[parent[node]]
            most = np.where(limit[node] < NO_LIMIT, subtree[node] + limit[node], NO_LIMIT)
            potential[node] = np.minimum(potential[node], most)
    lendable = potential.reshape(nodes, len(names.flavors), resources).sum(axis=1)
    cohorts = list(range(queues, nodes))
    lists = (
        *_by_root(root, list(range(queues))),
        *_children(parent, cohorts + list(range(queues))),
        *_by_root(root, sorted(cohorts, key=lambda node: -depth[node])),
    )
    return QuotaTree(
        parent, root, depth, height, weight, subtree, local, limit, potential,
        np.ascontiguousarray(lendable), np.zeros_like(nominal), *lists,
    )  # fmt: skip


def rules_of(site: QuotaSite, names: QuotaNames) -> tuple[QueueRules, dict[tuple[int, str], int]]:
    """Return the rules of the queues, and the number of each group by (queue, resource)."""
    group_of: dict[tuple[int, str], int] = {}
    members: list[list[int]] = []
    for number, queue in enumerate(site.queues):
        for group in queue.groups:
            for resource in {name for flavor in group for name in flavor.quotas}:
                group_of[number, resource] = len(members)
            members.append([names.flavors.index(flavor.name) for flavor in group])
    first = np.concatenate(([0], np.cumsum([len(group) for group in members]))).astype(np.int64)
    queues = site.queues
    threshold = [
        ANY_PRIORITY if queue.borrow_threshold is None else queue.borrow_threshold
        for queue in queues
    ]

    def bools(values: list[bool]) -> Any:
        return np.array(values, np.bool_)

    return (
        QueueRules(
            bools([queue.strategy == STRICT_FIFO for queue in queues]),
            np.array([POLICIES.index(queue.within_queue) for queue in queues], np.int64),
            np.array([POLICIES.index(queue.reclaim_within_cohort) for queue in queues], np.int64),
            bools([queue.borrow_policy != POLICIES[0] for queue in queues]),
            np.array(threshold, np.int64),
            bools([queue.when_can_borrow == TRY_NEXT for queue in queues]),
            bools([queue.when_can_preempt == TRY_NEXT for queue in queues]),
            bools([queue.preference == PREEMPTION_FIRST for queue in queues]),
            first,
            np.array([flavor for group in members for flavor in group], np.int64),
            site.fair_sharing,
            site.fair_strategies[:1] == (FINAL,),
            len(site.fair_strategies) > 1 and site.fair_strategies[1] == INITIAL,
            site.priority_sorting,
            site.recompute_overlapping,
            max((len(group) for group in members), default=1),
        ),
        group_of,
    )


def workload_table(
    jobs: QuotaJobs, names: QuotaNames, group_of: dict[tuple[int, str], int]
) -> tuple[WorkloadTable, IntArray]:
    """Return the table of workloads and shapes, and the queue of each shape."""
    keys = np.stack((jobs.queue, jobs.priority, jobs.pods), axis=1).reshape(-1, 3)
    kinds, shape = np.unique(keys, axis=0, return_inverse=True)
    pod_first, slot_first = [0], [0]
    pods: list[tuple[int, int]] = []
    slots: list[tuple[int, int, int, int]] = []
    allowed: list[list[bool]] = []
    for queue, _, number in kinds.tolist():
        for i, pod_set in enumerate(jobs.shapes[number]):
            least = pod_set.count if pod_set.least is None else pod_set.least
            pods.append((pod_set.count, least))
            allowed.append(
                [pod_set.flavors is None or name in pod_set.flavors for name in names.flavors]
            )
            requests = dict(pod_set.requests)
            if (queue, PODS) in group_of:
                requests[PODS] = 1
            slots += sorted(
                (i, group_of.get((queue, name), -1), names.resources.index(name), amount)
                for name, amount in requests.items()
            )
        pod_first.append(len(pods))
        slot_first.append(len(slots))
    pod_table = np.array(pods, np.int64).reshape(-1, 2)
    slot_table = np.array(slots, np.int64).reshape(-1, 4)
    pod_starts, slot_starts = np.array(pod_first, np.int64), np.array(slot_first, np.int64)
    shape = shape.reshape(-1)
    rank = np.empty(jobs.queue.size, np.int64)
    age, order = rank.copy(), rank.copy()
    rank[np.argsort(jobs.uid, kind="stable")] = np.arange(rank.size)
    age[np.lexsort((rank, jobs.created))] = np.arange(rank.size)
    order[np.lexsort((age, -jobs.priority))] = np.arange(rank.size)
    table = WorkloadTable(
        jobs.queue, jobs.priority, jobs.submit, jobs.run, jobs.created, order, age, rank, shape,
        _starts(np.diff(pod_starts)[shape]), _starts(np.diff(slot_starts)[shape]),
        pod_starts, pod_table[:, 0].copy(), pod_table[:, 1].copy(), slot_starts,
        slot_table[:, 0].copy(), slot_table[:, 1].copy(), slot_table[:, 2].copy(),
        slot_table[:, 3].copy(),
        np.array(allowed, np.bool_).reshape(-1, len(names.flavors)),
    )  # fmt: skip
    return table, kinds[:, 0].copy()


def _starts(sizes: IntArray) -> IntArray:
    """Return where each section begins, and where the last one ends."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))


def run_table(rows: int, jobs: WorkloadTable) -> IntArray:
    """Return an empty table of runs; the slots of a shape that has fewer stay -1."""
    most_slots = int(np.diff(jobs.slot_first).max(initial=1))
    return np.full((rows, ROW_SLOTS + SLOT_COLUMNS * most_slots), -1, np.int64)


def new_state(tree: QuotaTree, jobs: WorkloadTable, shape_queue: IntArray) -> QuotaState:
    """Return the state before anything has come."""
    n, nodes, queues = jobs.queue.size, tree.parent.size, int(tree.queue_first[-1])
    slots, pods = int(jobs.slot_at[-1]), int(jobs.pod_at[-1])
    shapes = shape_queue.size
    most_slots = int(np.diff(jobs.slot_first).max(initial=1))
    in_tree = int(np.diff(tree.queue_first).max(initial=1))
    by_queue = np.bincount(jobs.queue, minlength=queues)
    section = _starts(by_queue)[:-1]
    shape_root = tree.root[shape_queue]
    by_root = np.bincount(shape_root, minlength=nodes)

    def zeros(size: int) -> IntArray:
        return np.zeros(size, np.int64)

    def nones(size: int) -> IntArray:
        return np.full(size, -1, np.int64)

    def flags(size: int) -> Any:
        return np.zeros(size, np.bool_)

    room = in_tree * (n + 1)  # not touched beyond what is used
    held = in_tree * most_slots + 1
    levels = (queues, int(tree.depth.max(initial=0)) + 1)
    return QuotaState(
        status=zeros(n), reserved=zeros(n), end=zeros(n), rest=jobs.runtime.copy(),
        evictions=zeros(n), row=nones(n), pods=zeros(pods),
        slot_fr=nones(slots), slot_amount=zeros(slots), slot_mode=zeros(slots),
        slot_height=zeros(slots), tried=nones(slots), tried_new=nones(slots),
        tried_epoch=nones(n), epoch=zeros(nodes),
        try_mode=zeros(most_slots), try_height=zeros(most_slots),
        section=section, running=zeros(n), running_count=zeros(queues),
        leaving_count=zeros(queues), hidden=flags(n), taken=flags(n), taken_list=zeros(n),
        cand=zeros(n), cand_at=zeros(queues), cand_end=zeros(queues), cand_early=zeros(queues),
        kept=zeros(n), kept_end=zeros(queues), kind=zeros(queues), mark=zeros(nodes),
        kind_at=zeros(nodes), pruned=zeros(nodes), chosen=zeros(n), chosen_reason=zeros(n),
        req_fr=zeros(most_slots), req_amount=zeros(most_slots), req_needed=flags(most_slots),
        req_rest=zeros(most_slots),
        head=nones(queues), head_mode=zeros(queues), head_height=zeros(queues),
        head_first=zeros(queues), head_count=zeros(queues), heads=zeros(queues),
        arena=np.empty(room, np.int64), arena_reason=np.empty(room, np.int64),
        level_infinite=np.zeros(levels, np.bool_), level_share=np.zeros(levels),
        level_over=np.zeros(levels, np.bool_), winner=nones(nodes),
        held_fr=zeros(held), held_amount=zeros(held), held_queue=zeros(held),
        pending=sections(np.bincount(jobs.shape, minlength=max(shapes, 1))),
        shapes=sections(np.bincount(shape_queue, minlength=queues)),
        place=np.zeros((n, 1), np.int64), shape_place=np.zeros((shapes, 1), np.int64),
        parked=flags(shapes), parked_list=zeros(shapes), parked_first=_starts(by_root)[:-1],
        parked_count=zeros(nodes), sticky=nones(queues),
        dirty=flags(nodes), dirty_list=zeros(nodes), count=zeros(COUNTS),
    )  # fmt: skip


def node_quotas(site: QuotaSite, names: QuotaNames) -> NodeQuotas:
    """Return what each node has by itself and may lend, for accounts."""
    tree = tree_of(site, names)
    nodes, pairs = tree.subtree.shape
    nominal, lendable = np.zeros((nodes, pairs)), np.full((nodes, pairs), np.inf)
    nominal[: names.queues] = tree.subtree[: names.queues]
    cells = [
        (names.nodes.index(queue.name), names.pair(flavor.name, resource), quota)
        for queue in site.queues
        for group in queue.groups
        for flavor in group
        for resource, quota in flavor.quotas.items()
    ] + [
        (names.nodes.index(cohort.name, names.queues), names.pair(*pair), quota)
        for cohort in site.cohorts
        for pair, quota in cohort.quotas.items()
    ]
    for node, pair, quota in cells:
        nominal[node, pair] = quota.nominal
        if quota.lending_limit is not None:
            lendable[node, pair] = quota.lending_limit
    return NodeQuotas(tree.parent, names.queues, nominal, lendable)
