"""In which order the heads of a tree are taken: by borrowing, or by fair shares."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.quota.assignment import set_request
from gpuplan.simkit.quota.state import NO_FIT, REQUESTED, give_quota, take_quota
from gpuplan.simkit.quota.tree import is_over, share


@borrowing_helper
def _is_earlier(rules: Any, jobs: Any, w: int, other: int) -> bool:
    """Return whether a workload goes before another of the same rank."""
    if rules.by_priority and jobs.priority[w] != jobs.priority[other]:
        return jobs.priority[w] > jobs.priority[other]  # type: ignore[no-any-return]
    return jobs.age[w] < jobs.age[other]  # type: ignore[no-any-return]


@borrowing_helper
def start_order(tree: Any, rules: Any, jobs: Any, state: Any, heads: int) -> None:
    """Sort the queues in ``state.heads`` by the classical order of their heads."""
    if rules.fair:
        return
    for i in range(1, heads):
        queue = state.heads[i]
        w, height = state.head[queue], state.head_height[queue]
        at = i
        while at > 0:
            other = state.heads[at - 1]
            if state.head_height[other] < height or (
                state.head_height[other] == height
                and not _is_earlier(rules, jobs, w, state.head[other])
            ):
                break
            state.heads[at] = other
            at -= 1
        state.heads[at] = queue


@borrowing_helper
def next_head(
    tree: Any, rules: Any, jobs: Any, state: Any, root: int, heads: int, turn: int
) -> int:
    """Return the queue whose head is taken next, and move it to its turn."""
    if rules.fair and heads - turn > 1:
        best = _tournament(tree, rules, jobs, state, root, heads, turn)
        for i in range(turn, heads):
            if state.heads[i] == best:
                state.heads[i], state.heads[turn] = state.heads[turn], best
                break
    return state.heads[turn]  # type: ignore[no-any-return]


@borrowing_helper
def _tournament(
    tree: Any, rules: Any, jobs: Any, state: Any, root: int, heads: int, turn: int
) -> int:
    """Return the queue whose head wins at every cohort up to the root."""
    for at in range(tree.queue_first[root], tree.queue_first[root + 1]):
        state.winner[tree.queue[at]] = -1
    for i in range(turn, heads):
        queue = state.heads[i]
        w = state.head[queue]
        if state.head_mode[queue] == NO_FIT:
            return queue  # type: ignore[no-any-return]  # it changes nothing
        state.winner[queue] = queue
        set_request(jobs, state, w)
        take_quota(tree, jobs, state, w)
        node = queue
        while tree.parent[node] >= 0:
            depth = tree.depth[node]
            infinite, number = share(tree, node)
            state.level_infinite[queue, depth] = infinite
            state.level_share[queue, depth] = number
            over = False
            for at in range(state.count[REQUESTED]):
                over = over or is_over(tree, node, state.req_fr[at], 0)
            state.level_over[queue, depth] = over
            node = tree.parent[node]
        give_quota(tree, jobs, state, w)
    for at in range(tree.cohort_first[root], tree.cohort_first[root + 1]):
        cohort = tree.cohort[at]
        best = -1
        for i in range(tree.child_first[cohort], tree.child_first[cohort + 1]):
            other = state.winner[tree.child[i]]
            if other >= 0 and (
                best < 0 or _is_fairer(rules, jobs, state, other, best, tree.depth[cohort] + 1)
            ):
                best = other
        state.winner[cohort] = best
    return state.winner[root]  # type: ignore[no-any-return]


@borrowing_helper
def _is_fairer(rules: Any, jobs: Any, state: Any, queue: int, other: int, depth: int) -> bool:
    """Return whether the head of a queue wins against another at a cohort's children."""
    if state.level_over[queue, depth] != state.level_over[other, depth]:
        return state.level_over[other, depth]  # type: ignore[no-any-return]
    if state.level_infinite[queue, depth] != state.level_infinite[other, depth]:
        return state.level_infinite[other, depth]  # type: ignore[no-any-return]
    if state.level_share[queue, depth] != state.level_share[other, depth]:
        return state.level_share[queue, depth] < state.level_share[other, depth]  # type: ignore[no-any-return]
    return _is_earlier(rules, jobs, state.head[queue], state.head[other])
