"""In which order the heads of a tree are taken: by borrowing, or by fair shares."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.quota import columns as col
from gpuplan.simkit.quota.assignment import set_request
from gpuplan.simkit.quota.state import NO_FIT, REQUESTED, give_quota, take_quota
from gpuplan.simkit.quota.tree import is_over, share


@borrowing_helper
def _is_earlier(rules: Any, jobs: Any, w: int, other: int) -> bool:
    """Return whether a workload goes before another of the same rank."""
    if rules.by_priority and jobs.works[w, col.W_PRIORITY] != jobs.works[other, col.W_PRIORITY]:
        return jobs.works[w, col.W_PRIORITY] > jobs.works[other, col.W_PRIORITY]  # type: ignore[no-any-return]
    return jobs.works[w, col.W_AGE] < jobs.works[other, col.W_AGE]  # type: ignore[no-any-return]


@borrowing_helper
def start_order(tree: Any, rules: Any, jobs: Any, state: Any, heads: int) -> None:
    """Sort the queues in ``state.heads`` by the classical order of their heads."""
    if rules.fair:
        return
    for i in range(1, heads):
        queue = state.queues[i, col.HEADS]
        w, height = state.queues[queue, col.HEAD], state.queues[queue, col.HEAD_HEIGHT]
        at = i
        while at > 0:
            other = state.queues[at - 1, col.HEADS]
            if state.queues[other, col.HEAD_HEIGHT] < height or (
                state.queues[other, col.HEAD_HEIGHT] == height
                and not _is_earlier(rules, jobs, w, state.queues[other, col.HEAD])
            ):
                break
            state.queues[at, col.HEADS] = other
            at -= 1
        state.queues[at, col.HEADS] = queue


@borrowing_helper
def next_head(
    tree: Any, rules: Any, jobs: Any, state: Any, root: int, heads: int, turn: int
) -> int:
    """Return the queue whose head is taken next, and move it to its turn."""
    if rules.fair and heads - turn > 1:
        best = _tournament(tree, rules, jobs, state, root, heads, turn)
        for i in range(turn, heads):
            if state.queues[i, col.HEADS] == best:
                state.queues[i, col.HEADS], state.queues[turn, col.HEADS] = (
                    state.queues[turn, col.HEADS],
                    best,
                )
                break
    return state.queues[turn, col.HEADS]  # type: ignore[no-any-return]


@borrowing_helper
def _tournament(
    tree: Any, rules: Any, jobs: Any, state: Any, root: int, heads: int, turn: int
) -> int:
    """Return the queue whose head wins at every cohort up to the root."""
    for at in range(tree.nodes[root, col.QUEUE_FIRST], tree.nodes[root + 1, col.QUEUE_FIRST]):
        state.nodes[tree.members[at, col.M_QUEUE], col.WINNER] = -1
    for i in range(turn, heads):
        queue = state.queues[i, col.HEADS]
        w = state.queues[queue, col.HEAD]
        if state.queues[queue, col.HEAD_MODE] == NO_FIT:
            return queue  # type: ignore[no-any-return]  # it changes nothing
        state.nodes[queue, col.WINNER] = queue
        set_request(jobs, state, w)
        take_quota(tree, jobs, state, w)
        node = queue
        while tree.nodes[node, col.PARENT] >= 0:
            depth = tree.nodes[node, col.DEPTH]
            infinite, number = share(tree, node)
            state.levels[queue, depth, col.LEVEL_INFINITE] = infinite
            state.levels[queue, depth, col.LEVEL_SHARE] = number
            over = False
            for at in range(state.count[REQUESTED]):
                over = over or is_over(tree, node, state.request[at, col.REQ_FR], 0)
            state.levels[queue, depth, col.LEVEL_OVER] = over
            node = tree.nodes[node, col.PARENT]
        give_quota(tree, jobs, state, w)
    for at in range(tree.nodes[root, col.COHORT_FIRST], tree.nodes[root + 1, col.COHORT_FIRST]):
        cohort = tree.members[at, col.M_COHORT]
        best = -1
        for i in range(
            tree.nodes[cohort, col.CHILD_FIRST], tree.nodes[cohort + 1, col.CHILD_FIRST]
        ):
            other = state.nodes[tree.members[i, col.M_CHILD], col.WINNER]
            if other >= 0 and (
                best < 0
                or _is_fairer(rules, jobs, state, other, best, tree.nodes[cohort, col.DEPTH] + 1)
            ):
                best = other
        state.nodes[cohort, col.WINNER] = best
    return state.nodes[root, col.WINNER]  # type: ignore[no-any-return]


@borrowing_helper
def _is_fairer(rules: Any, jobs: Any, state: Any, queue: int, other: int, depth: int) -> bool:
    """Return whether the head of a queue wins against another at a cohort's children."""
    if state.levels[queue, depth, col.LEVEL_OVER] != state.levels[other, depth, col.LEVEL_OVER]:
        return state.levels[other, depth, col.LEVEL_OVER] > 0  # type: ignore[no-any-return]
    if (
        state.levels[queue, depth, col.LEVEL_INFINITE]
        != state.levels[other, depth, col.LEVEL_INFINITE]
    ):
        return state.levels[other, depth, col.LEVEL_INFINITE] > 0  # type: ignore[no-any-return]
    if state.levels[queue, depth, col.LEVEL_SHARE] != state.levels[other, depth, col.LEVEL_SHARE]:
        return (  # type: ignore[no-any-return]
            state.levels[queue, depth, col.LEVEL_SHARE]
            < state.levels[other, depth, col.LEVEL_SHARE]
        )
    return _is_earlier(rules, jobs, state.queues[queue, col.HEAD], state.queues[other, col.HEAD])
