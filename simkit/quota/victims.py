"""Victims by Kueue's classical rules: reclaim what was lent, or evict lower priorities."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.quota import columns as col
from gpuplan.simkit.quota.candidates import (
    HIERARCHY,
    PRIORITY,
    SAME,
    UNREACHED,
    choose_victim,
    collect,
    could_suffice,
    fill_back,
    is_over_needed,
    request_fits,
    restore,
)
from gpuplan.simkit.quota.fair_victims import fair_victims
from gpuplan.simkit.quota.state import (
    CHOSEN,
    IN_QUEUE,
    NEVER,
    RECLAMATION,
    REQUESTED,
    STAMP,
    WHILE_BORROWING,
    is_victim_before,
)
from gpuplan.simkit.quota.tree import is_over, local_free


@borrowing_helper
def find_victims(tree: Any, rules: Any, jobs: Any, state: Any, w: int) -> int:
    """Choose victims for the request in ``state.req_*`` of a workload; returns how many.

    They are in ``state.chosen``; the tree is as before. 0: there are none that suffice.
    """
    state.count[CHOSEN] = 0
    if rules.fair:
        fair_victims(tree, rules, jobs, state, w)
    else:
        _classical(tree, rules, jobs, state, w)
    return state.count[CHOSEN]  # type: ignore[no-any-return]


@borrowing_helper
def _classical(tree: Any, rules: Any, jobs: Any, state: Any, w: int) -> None:
    queue = jobs.works[w, col.W_QUEUE]
    _reach(tree, rules, jobs, state, w)
    has_hierarchy = has_priority = False
    root = tree.nodes[queue, col.ROOT]
    for at in range(tree.nodes[root, col.QUEUE_FIRST], tree.nodes[root + 1, col.QUEUE_FIRST]):
        other = tree.members[at, col.M_QUEUE]
        if (
            state.queues[other, col.KIND] != UNREACHED
            and state.queues[other, col.CAND_END] > state.queues[other, col.CAND_AT]
        ):
            has_hierarchy = has_hierarchy or state.queues[other, col.KIND] == HIERARCHY
            has_priority = has_priority or state.queues[other, col.KIND] == PRIORITY
    if not could_suffice(tree, jobs, state, queue):
        return
    under = True
    for i in range(state.count[REQUESTED]):
        fr = state.request[i, col.REQ_FR]
        if (
            state.request[i, col.REQ_NEEDED]
            and tree.quotas[queue, fr, col.USAGE] >= tree.quotas[queue, fr, col.SUBTREE]
        ):
            under = False
    spares = not rules.queues[queue, col.BORROW_EVICTS]
    if not (has_hierarchy or has_priority) or (spares and not under):
        _attempt(tree, rules, jobs, state, w, True)
    elif spares and not has_hierarchy:
        if not _attempt(tree, rules, jobs, state, w, False):
            _attempt(tree, rules, jobs, state, w, True)
    elif not _attempt(tree, rules, jobs, state, w, True):
        _attempt(tree, rules, jobs, state, w, False)


@borrowing_helper
def _reach(tree: Any, rules: Any, jobs: Any, state: Any, w: int) -> None:
    """Tell how each queue of the tree is reached, and collect its candidates."""
    queue = jobs.works[w, col.W_QUEUE]
    root = tree.nodes[queue, col.ROOT]
    state.count[STAMP] += 1
    stamp = state.count[STAMP]
    favored = True
    for i in range(state.count[REQUESTED]):
        fr, amount = state.request[i, col.REQ_FR], state.request[i, col.REQ_AMOUNT]
        favored = favored and not is_over(tree, queue, fr, amount)
        state.request[i, col.REQ_REST] = amount - local_free(tree, queue, fr)
    node = tree.nodes[queue, col.PARENT]
    while node >= 0:  # each ancestor with what holds for queues first reached there
        state.nodes[node, col.MARK] = stamp
        state.nodes[node, col.KIND_AT] = HIERARCHY if favored else PRIORITY
        fits = True
        for i in range(state.count[REQUESTED]):
            fits = fits and not is_over(
                tree, node, state.request[i, col.REQ_FR], state.request[i, col.REQ_REST]
            )
            state.request[i, col.REQ_REST] -= local_free(tree, node, state.request[i, col.REQ_FR])
        favored = favored or fits
        node = tree.nodes[node, col.PARENT]
    for at in range(tree.nodes[root, col.QUEUE_FIRST], tree.nodes[root + 1, col.QUEUE_FIRST]):
        other = tree.members[at, col.M_QUEUE]
        if other == queue:
            state.queues[other, col.KIND] = SAME
            collect(jobs, state, other, rules.queues[queue, col.WITHIN], w)
            continue
        state.queues[other, col.KIND] = UNREACHED
        if rules.queues[queue, col.RECLAIM] == NEVER or state.queues[other, col.RUNNING_COUNT] == 0:
            continue
        node = other
        while state.nodes[node, col.MARK] != stamp and is_over_needed(tree, state, node):
            node = tree.nodes[node, col.PARENT]
        if state.nodes[node, col.MARK] == stamp:
            state.queues[other, col.KIND] = state.nodes[node, col.KIND_AT]
            collect(jobs, state, other, rules.queues[queue, col.RECLAIM], w)


@borrowing_helper
def _next(tree: Any, jobs: Any, state: Any, root: int, kind: int, leaving: bool) -> int:
    """Take the next candidate of a kind of queue from its section; -1: there is none."""
    best = best_queue = -1
    for at in range(tree.nodes[root, col.QUEUE_FIRST], tree.nodes[root + 1, col.QUEUE_FIRST]):
        queue = tree.members[at, col.M_QUEUE]
        if state.queues[queue, col.KIND] == kind:
            end = (
                state.queues[queue, col.CAND_EARLY]
                if leaving
                else state.queues[queue, col.CAND_END]
            )
            if state.queues[queue, col.CAND_AT] < end:
                w = state.lists[state.queues[queue, col.CAND_AT], col.CAND]
                if best < 0 or is_victim_before(jobs, state, w, best):
                    best, best_queue = w, queue
    if best >= 0:
        state.queues[best_queue, col.CAND_AT] += 1
    return best


@borrowing_helper
def _still_lends(tree: Any, state: Any, queue: int) -> bool:
    """Return whether a queue, and the cohorts up to where it was reached, are over quota still."""
    stamp = state.count[STAMP]
    node = queue
    while state.nodes[node, col.MARK] != stamp:
        if not is_over_needed(tree, state, node):
            return False
        node = tree.nodes[node, col.PARENT]
    return True


@borrowing_helper
def _attempt(tree: Any, rules: Any, jobs: Any, state: Any, w: int, may_borrow: bool) -> bool:
    """Choose victims in order until the request fits; returns whether it does."""
    queue = jobs.works[w, col.W_QUEUE]
    root = tree.nodes[queue, col.ROOT]
    state.count[CHOSEN] = 0
    for at in range(tree.nodes[root, col.QUEUE_FIRST], tree.nodes[root + 1, col.QUEUE_FIRST]):
        state.queues[tree.members[at, col.M_QUEUE], col.CAND_AT] = state.queues[
            tree.members[at, col.M_QUEUE], col.SECTION
        ]
    for step in range(6):
        leaving = step < 3
        kind = HIERARCHY - step % 3
        while True:
            victim = _next(tree, jobs, state, root, kind, leaving)
            if victim < 0:
                break
            reason = IN_QUEUE
            if kind != SAME:
                spared = kind == PRIORITY and (
                    not rules.queues[queue, col.BORROW_EVICTS]
                    or jobs.works[victim, col.W_PRIORITY] >= jobs.works[w, col.W_PRIORITY]
                    or jobs.works[victim, col.W_PRIORITY] > rules.queues[queue, col.THRESHOLD]
                )
                if (spared and may_borrow) or not _still_lends(
                    tree, state, jobs.works[victim, col.W_QUEUE]
                ):
                    continue
                reason = RECLAMATION if kind == HIERARCHY or spared else WHILE_BORROWING
            choose_victim(tree, jobs, state, victim, reason)
            if request_fits(tree, state, queue, may_borrow):
                fill_back(tree, jobs, state, queue, may_borrow)
                restore(tree, jobs, state)
                return True
    restore(tree, jobs, state)
    state.count[CHOSEN] = 0
    return False
