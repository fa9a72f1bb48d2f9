"""Turns a site and its workloads into the arrays that the kernels of Kueue read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.heap import sections
from gpuplan.simkit.quota import columns as col
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
    firsts, members = lists[::2], lists[1::2]
    ends = np.zeros(1, np.int64)
    table = np.column_stack(
        [np.concatenate((values, ends)) for values in (parent, root, depth, height)]
        + [np.concatenate((first, first[-1:]))[: nodes + 1] for first in firsts]
    )
    places = np.zeros((nodes + 1, len(members)), np.int64)
    for column, values in enumerate(members):
        places[: values.size, column] = values
    quotas = np.stack((subtree, local, limit, potential, np.zeros_like(nominal)), axis=2)
    return QuotaTree(table, places, weight, quotas, np.ascontiguousarray(lendable))


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
    return (
        QueueRules(
            np.array(
                [
                    (
                        queue.strategy == STRICT_FIFO,
                        POLICIES.index(queue.within_queue),
                        POLICIES.index(queue.reclaim_within_cohort),
                        queue.borrow_policy != POLICIES[0],
                        ANY_PRIORITY if queue.borrow_threshold is None else queue.borrow_threshold,
                        queue.when_can_borrow == TRY_NEXT,
                        queue.when_can_preempt == TRY_NEXT,
                        queue.preference == PREEMPTION_FIRST,
                    )
                    for queue in site.queues
                ],
                np.int64,
            ).reshape(-1, 8),
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
    works = np.column_stack((
        jobs.queue, jobs.priority, jobs.submit, jobs.run, jobs.created, order, age, rank, shape,
        _starts(np.diff(pod_starts)[shape])[:-1], _starts(np.diff(slot_starts)[shape])[:-1],
    )).astype(np.int64)  # fmt: skip
    eligible = np.array(allowed, np.bool_).reshape(-1, len(names.flavors))
    starts = np.column_stack((pod_starts, slot_starts))
    table = WorkloadTable(works, starts, pod_table, slot_table, eligible)
    return table, kinds[:, 0].copy()


def _starts(sizes: IntArray) -> IntArray:
    """Return where each section begins, and where the last one ends."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))


def run_table(rows: int, jobs: WorkloadTable) -> IntArray:
    """Return an empty table of runs; the slots of a shape that has fewer stay -1."""
    most_slots = int(np.diff(jobs.starts[:, col.SLOT_FIRST]).max(initial=1))
    return np.full((rows, ROW_SLOTS + SLOT_COLUMNS * most_slots), -1, np.int64)


def new_state(tree: QuotaTree, jobs: WorkloadTable, shape_queue: IntArray) -> QuotaState:
    """Return the state before anything has come."""
    n, nodes, queues = len(jobs.works), tree.weight.size, int(tree.nodes[-1, col.QUEUE_FIRST])
    of_shape = np.diff(jobs.starts, axis=0)[jobs.works[:, col.W_SHAPE]]
    pods, slots = of_shape.sum(axis=0).tolist()
    shapes = shape_queue.size
    most_slots = int(np.diff(jobs.starts[:, col.SLOT_FIRST]).max(initial=1))
    in_tree = int(np.diff(tree.nodes[:, col.QUEUE_FIRST]).max(initial=1))
    works = np.zeros((n, 9), np.int64)
    works[:, [col.ROW, col.TRIED_EPOCH]] = -1
    works[:, col.REST] = jobs.works[:, col.W_RUNTIME]
    slot_table = np.zeros((slots, 6), np.int64)
    slot_table[:, [col.SLOT_FR, col.TRIED, col.TRIED_NEW]] = -1
    queue_table = np.zeros((queues, 15), np.int64)
    queue_table[:, [col.HEAD, col.STICKY]] = -1
    by_queue = np.bincount(jobs.works[:, col.W_QUEUE], minlength=queues)
    queue_table[:, col.SECTION] = _starts(by_queue)[:-1]
    node_table = np.zeros((nodes, 9), np.int64)
    node_table[:, col.WINNER] = -1
    by_root = np.bincount(tree.nodes[shape_queue, col.ROOT], minlength=nodes)
    node_table[:, col.PARKED_FIRST] = _starts(by_root)[:-1]
    room = in_tree * (n + 1)  # not touched beyond what is used
    levels = int(tree.nodes[:, col.DEPTH].max(initial=0)) + 1
    return QuotaState(
        works=works, pods=np.zeros(pods, np.int64), slots=slot_table,
        lists=np.zeros((n, 6), np.int64), queues=queue_table, nodes=node_table,
        request=np.zeros((most_slots, 6), np.int64), arenas=np.empty((room, 2), np.int64),
        holds=np.zeros((in_tree * most_slots + 1, 3), np.int64),
        levels=np.zeros((queues, levels, 3)),
        pending=sections(np.bincount(jobs.works[:, col.W_SHAPE], minlength=max(shapes, 1))),
        shapes=sections(np.bincount(shape_queue, minlength=queues)),
        place=np.zeros((n, 1), np.int64), shape_place=np.zeros((shapes, 1), np.int64),
        parking=np.zeros((shapes, 2), np.int64), count=np.zeros(COUNTS, np.int64),
    )  # fmt: skip


def node_quotas(site: QuotaSite, names: QuotaNames) -> NodeQuotas:
    """Return what each node has by itself, may lend and borrow, for accounts."""
    tree = tree_of(site, names)
    nodes, pairs = tree.quotas.shape[:2]
    nominal, lendable = np.zeros((nodes, pairs)), np.full((nodes, pairs), np.inf)
    borrowable = np.full((nodes, pairs), np.inf)
    nominal[: names.queues] = tree.quotas[: names.queues, :, col.SUBTREE]
    usable = np.zeros((names.queues, pairs), np.bool_)
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
        if node < names.queues:
            usable[node, pair] = True
        if quota.lending_limit is not None:
            lendable[node, pair] = quota.lending_limit
        if quota.borrowing_limit is not None:
            borrowable[node, pair] = quota.borrowing_limit
    parent = tree.nodes[:-1, col.PARENT]
    return NodeQuotas(parent, names.queues, nominal, lendable, borrowable, usable)
