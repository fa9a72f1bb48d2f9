"""The order of the queue: tiers, multifactor priorities, the fair shares that they count.

Fair share is a tree of accounts and users with usage, renewed at ticks, and a factor of every user.
The root is node 0 and a parent comes before its children. Sources: Slurm's public documentation of
"classic" fair share and of Fair Tree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.jit import borrowing_helper, borrowing_kernel
from gpuplan.simkit.twin.site import SiteAssociation
from gpuplan.simkit.twin.state import QUEUED, RUNNING, WAITING

TREE, CLASSIC = range(2)


class ShareTree(NamedTuple):
    """The tree as arrays; ``child[first[k]:first[k + 1]]`` are the children of node ``k``.

    ``share`` is the share among siblings, ``norm`` the product of the shares down to the node.
    """

    parent: Any
    is_user: Any
    share: Any
    norm: Any
    first: Any
    child: Any
    usage: Any
    factor: Any
    level: Any
    group: Any
    stack: Any
    users: int


@dataclass(frozen=True, slots=True)
class Associations:
    """The associations of a site and its jobs, in the order of the tree (root left out).

    Attributes:
        rows: the associations; node of the tree = position + 1.
        node: node of the tree by (account, user).
        parent: parent of every node of the tree; the root's is -1.
    """

    rows: tuple[SiteAssociation, ...]
    node: dict[tuple[str, str], int]
    parent: tuple[int, ...]

    def tree(self) -> ShareTree:
        """Return the tree with the usage at the start."""
        n = len(self.rows) + 1
        parent = np.array(self.parent, np.int64)
        shares = np.array([0, *(row.shares for row in self.rows)], np.float64)
        is_user = np.array([False, *(bool(row.user) for row in self.rows)])
        among = np.zeros(n)
        np.add.at(among, parent[1:], shares[1:])
        share, norm, usage = np.ones(n), np.ones(n), np.zeros(n)
        for k in range(1, n):
            total = among[parent[k]]
            share[k] = shares[k] / total if total > 0 else 0.0
            norm[k] = norm[parent[k]] * share[k]
            if is_user[k]:
                at = k
                while at >= 0:
                    usage[at] += self.rows[k - 1].usage
                    at = parent[at]
        order = np.argsort(parent[1:], kind="stable") + 1
        first = np.searchsorted(parent[order], np.arange(n + 1)).astype(np.int64)
        return ShareTree(
            parent, is_user, share, norm, first, order.astype(np.int64), usage,
            np.zeros(n), np.zeros(n), np.zeros(2 * n + 2, np.int64),
            np.zeros((n + 1, 2), np.int64), int(is_user.sum()),
        )  # fmt: skip


def associations(
    described_rows: Iterable[SiteAssociation], used: Iterable[tuple[str, str]]
) -> Associations:
    """Return the associations given and those that jobs use, with every account they need.

    An account without a description lies under the root with one share, and so does a user
    without one in their account. An account that would be its own ancestor lies under the root.
    """
    rows_of: dict[tuple[str, str], SiteAssociation] = {}
    rows = list(described_rows)
    described = {(row.account, row.user): row for row in rows}
    for account, user in dict.fromkeys([(r.account, r.user) for r in rows] + list(used)):
        for key in ((account, ""), (account, user)):
            rows_of.setdefault(key, described.get(key, SiteAssociation(*key)))
    for key, row in list(rows_of.items()):
        if not row.user and _is_own_ancestor(row.account, rows_of):
            rows_of[key] = replace(row, parent="")
    depth = {key: _depth(key, rows_of) for key in rows_of}
    ordered = sorted(rows_of, key=lambda key: depth[key])  # stable
    node = {key: i + 1 for i, key in enumerate(ordered)}
    above = [-1]
    for account, user in ordered:
        key = (account, "") if user else (rows_of[account, ""].parent, "")
        above.append(node.get(key, 0))
    return Associations(tuple(rows_of[key] for key in ordered), node, tuple(above))


def _is_own_ancestor(account: str, rows_of: dict[tuple[str, str], SiteAssociation]) -> bool:
    seen, at = {account}, rows_of[account, ""].parent
    while (at, "") in rows_of:
        if at == account:
            return True
        if at in seen:
            return False
        seen.add(at)
        at = rows_of[at, ""].parent
    return False


def _depth(key: tuple[str, str], rows_of: dict[tuple[str, str], SiteAssociation]) -> int:
    steps = 1 if key[1] else 0
    at = key[0]
    while (at, "") in rows_of:
        steps += 1
        at = rows_of[at, ""].parent
    return steps


@borrowing_helper
def charge(tree: Any, node: int, amount: float) -> None:
    """Add usage to a user and everything above."""
    while node >= 0:
        tree.usage[node] += amount
        node = tree.parent[node]


@borrowing_kernel
def set_factors(tree: Any, kind: int, dampening: float) -> None:
    """Set the factor of every user."""
    if kind == CLASSIC:
        classic_factors(tree, dampening)
    else:
        tree_factors(tree)


@borrowing_helper
def classic_factors(tree: Any, dampening: float) -> None:
    """Set 2^-(E/S/damping), with the effective usage E in the array of levels."""
    effective, total = tree.level, tree.usage[0]
    for k in range(1, tree.parent.size):
        above = tree.parent[k]
        used = tree.usage[k] / total if total > 0 else 0.0
        effective[k] = used
        if above > 0:
            effective[k] = used + (effective[above] - used) * tree.share[k]
        if tree.is_user[k]:
            norm = tree.norm[k]
            tree.factor[k] = 2.0 ** -(effective[k] / norm / dampening) if norm > 0 else 0.0


@borrowing_helper
def tree_factors(tree: Any) -> None:
    """Set rank / users, walking the tree depth first by share over usage.

    ``group`` is a buffer of nodes; ``stack`` holds ranges of it that are sorted and to be visited.
    A range of tied users shares a rank; the children of tied accounts are merged.
    """
    level, group, stack, child = tree.level, tree.group, tree.stack, tree.child
    for k in range(1, tree.parent.size):
        if tree.share[k] == 0.0:
            level[k] = 0.0
        elif tree.usage[k] <= 0.0:
            level[k] = np.inf
        else:
            ratio = tree.usage[k] / tree.usage[tree.parent[k]]
            level[k] = tree.share[k] / ratio if ratio > 0.0 else np.inf  # it may underflow
    rank, depth, used = tree.users, 1, 1
    group[0] = 0  # the root, as an account to open
    stack[0, 0], stack[0, 1] = 0, 1
    while depth:
        depth -= 1
        begin, end = stack[depth, 0], stack[depth, 1]
        if tree.is_user[group[begin]]:
            for i in range(begin, end):
                tree.factor[group[i]] = rank / tree.users
            rank -= end - begin
            continue
        start = used
        for i in range(begin, end):
            node = group[i]
            _sort_nodes(tree, child, tree.first[node], tree.first[node + 1])
            for c in range(tree.first[node], tree.first[node + 1]):
                group[used] = child[c]
                used += 1
        if end - begin > 1:
            _sort_nodes(tree, group, start, used)
        # The last range is pushed first, so that the first is visited first.
        stop = used
        while stop > start:
            at = stop - 1
            node = group[at]
            while (
                at > start
                and level[group[at - 1]] == level[node]
                and tree.is_user[group[at - 1]] == tree.is_user[node]
            ):
                at -= 1
            stack[depth, 0], stack[depth, 1] = at, stop
            depth += 1
            stop = at


@borrowing_helper
def _sort_nodes(tree: Any, nodes: Any, begin: int, end: int) -> None:
    """Sort by level down, users first; quick where the order hardly changed since the last tick."""
    level, is_user = tree.level, tree.is_user
    for i in range(begin + 1, end):
        node = nodes[i]
        at = i
        while at > begin:
            before = nodes[at - 1]
            if level[before] > level[node]:
                break
            if level[before] == level[node] and (is_user[before] or not is_user[node]):
                break
            nodes[at] = before
            at -= 1
        nodes[at] = node


@borrowing_helper
def set_priority(state: Any, jobs: Any, tree: Any, rules: Any, j: int, now: int) -> None:
    """Set the priority of a waiting job."""
    if not rules.multifactor:
        return
    age = min(1.0, (now - jobs.ready[j]) / rules.max_age)
    value = rules.w_age * age + rules.w_fairshare * tree.factor[jobs.assoc[j]] + jobs.base[j]
    state.priority[j] = max(0, math.floor(value + 1e-6))


@borrowing_helper
def goes_before(state: Any, jobs: Any, a: int, b: int) -> bool:
    """Return whether job ``a`` stands before job ``b``."""
    if jobs.tier[a] != jobs.tier[b]:
        return bool(jobs.tier[a] > jobs.tier[b])
    if state.priority[a] != state.priority[b]:
        return bool(state.priority[a] > state.priority[b])
    if jobs.ready[a] != jobs.ready[b]:
        return bool(jobs.ready[a] < jobs.ready[b])
    return bool(jobs.tie[a] < jobs.tie[b])


@borrowing_helper
def enqueue(state: Any, jobs: Any, j: int) -> None:
    """Put a job into its place of the queue."""
    low, high = 0, state.count[QUEUED]
    if high and goes_before(state, jobs, state.queue[high - 1], j):
        low = high
    while low < high:
        middle = (low + high) // 2
        if goes_before(state, jobs, state.queue[middle], j):
            low = middle + 1
        else:
            high = middle
    for i in range(state.count[QUEUED], low, -1):
        state.queue[i] = state.queue[i - 1]
    state.queue[low] = j
    state.count[QUEUED] += 1


@borrowing_helper
def queue_up(state: Any, jobs: Any, tree: Any, rules: Any, j: int, now: int) -> None:
    """Let a job that became eligible wait."""
    state.status[j] = WAITING
    state.waiting[jobs.shape[j]] += 1
    state.waiting_part[jobs.part[j]] += 1
    set_priority(state, jobs, tree, rules, j, now)
    enqueue(state, jobs, j)


@borrowing_helper
def sort_queue(state: Any, jobs: Any, room: Any) -> None:
    """Sort the queue by merging ever longer parts, and skip those in order: most are, at a tick."""
    queue, count = state.queue, state.count[QUEUED]
    length = 1
    while length < count:
        for low in range(0, count - length, 2 * length):
            middle, high = low + length, min(low + 2 * length, count)
            if not goes_before(state, jobs, queue[middle], queue[middle - 1]):
                continue
            for i in range(low, middle):
                room[i - low] = queue[i]
            left, right, at = 0, middle, low
            while left < length and right < high:
                if goes_before(state, jobs, queue[right], room[left]):
                    queue[at] = queue[right]
                    right += 1
                else:
                    queue[at] = room[left]
                    left += 1
                at += 1
            while left < length:
                queue[at] = room[left]
                left += 1
                at += 1
        length *= 2


@borrowing_helper
def decay(tree: Any, rules: Any, time: int) -> None:
    """Let usage decay for some seconds."""
    if rules.half_life > 0 and time > 0:
        factor = 0.5 ** (time / rules.half_life)
        for k in range(tree.usage.size):
            tree.usage[k] *= factor


@borrowing_helper
def tick(state: Any, jobs: Any, tree: Any, rules: Any, last: int, now: int, room: Any) -> None:
    """Let usage decay, charge what ran since the last tick, and renew all priorities.

    ``room`` is a buffer of one value per job.
    """
    decay(tree, rules, now - last)
    kept = 0
    for i in range(state.active_size[0]):
        j = state.active[i]
        upto = min(now, state.end[j])
        charge(tree, jobs.assoc[j], jobs.billing[j] * (upto - state.charged[j]))
        state.charged[j] = upto
        if state.status[j] == RUNNING:
            state.active[kept] = j
            kept += 1
    state.active_size[0] = kept
    if rules.w_fairshare != 0.0:
        set_factors(tree, rules.fairshare, rules.dampening)
    for i in range(state.count[QUEUED]):
        set_priority(state, jobs, tree, rules, state.queue[i], now)
    sort_queue(state, jobs, room)
