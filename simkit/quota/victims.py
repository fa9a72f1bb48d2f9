"""Victims by Kueue's classical rules: reclaim what was lent, or evict lower priorities."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_helper
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
    queue = jobs.queue[w]
    _reach(tree, rules, jobs, state, w)
    has_hierarchy = has_priority = False
    root = tree.root[queue]
    for at in range(tree.queue_first[root], tree.queue_first[root + 1]):
        other = tree.queue[at]
        if state.kind[other] != UNREACHED and state.cand_end[other] > state.cand_at[other]:
            has_hierarchy = has_hierarchy or state.kind[other] == HIERARCHY
            has_priority = has_priority or state.kind[other] == PRIORITY
    if not could_suffice(tree, jobs, state, queue):
        return
    under = True
    for i in range(state.count[REQUESTED]):
        fr = state.req_fr[i]
        if state.req_needed[i] and tree.usage[queue, fr] >= tree.subtree[queue, fr]:
            under = False
    spares = not rules.borrow_evicts[queue]
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
    queue = jobs.queue[w]
    root = tree.root[queue]
    state.count[STAMP] += 1
    stamp = state.count[STAMP]
    favored = True
    for i in range(state.count[REQUESTED]):
        fr, amount = state.req_fr[i], state.req_amount[i]
        favored = favored and not is_over(tree, queue, fr, amount)
        state.req_rest[i] = amount - local_free(tree, queue, fr)
    node = tree.parent[queue]
    while node >= 0:  # each ancestor with what holds for queues first reached there
        state.mark[node] = stamp
        state.kind_at[node] = HIERARCHY if favored else PRIORITY
        fits = True
        for i in range(state.count[REQUESTED]):
            fits = fits and not is_over(tree, node, state.req_fr[i], state.req_rest[i])
            state.req_rest[i] -= local_free(tree, node, state.req_fr[i])
        favored = favored or fits
        node = tree.parent[node]
    for at in range(tree.queue_first[root], tree.queue_first[root + 1]):
        other = tree.queue[at]
        if other == queue:
            state.kind[other] = SAME
            collect(jobs, state, other, rules.within[queue], w)
            continue
        state.kind[other] = UNREACHED
        if rules.reclaim[queue] == NEVER or state.running_count[other] == 0:
            continue
        node = other
        while state.mark[node] != stamp and is_over_needed(tree, state, node):
            node = tree.parent[node]
        if state.mark[node] == stamp:
            state.kind[other] = state.kind_at[node]
            collect(jobs, state, other, rules.reclaim[queue], w)


@borrowing_helper
def _next(tree: Any, jobs: Any, state: Any, root: int, kind: int, leaving: bool) -> int:
    """Take the next candidate of a kind of queue from its section; -1: there is none."""
    best = best_queue = -1
    for at in range(tree.queue_first[root], tree.queue_first[root + 1]):
        queue = tree.queue[at]
        if state.kind[queue] == kind:
            end = state.cand_early[queue] if leaving else state.cand_end[queue]
            if state.cand_at[queue] < end:
                w = state.cand[state.cand_at[queue]]
                if best < 0 or is_victim_before(jobs, state, w, best):
                    best, best_queue = w, queue
    if best >= 0:
        state.cand_at[best_queue] += 1
    return best


@borrowing_helper
def _still_lends(tree: Any, state: Any, queue: int) -> bool:
    """Return whether a queue, and the cohorts up to where it was reached, are over quota still."""
    stamp = state.count[STAMP]
    node = queue
    while state.mark[node] != stamp:
        if not is_over_needed(tree, state, node):
            return False
        node = tree.parent[node]
    return True


@borrowing_helper
def _attempt(tree: Any, rules: Any, jobs: Any, state: Any, w: int, may_borrow: bool) -> bool:
    """Choose victims in order until the request fits; returns whether it does."""
    queue = jobs.queue[w]
    root = tree.root[queue]
    state.count[CHOSEN] = 0
    for at in range(tree.queue_first[root], tree.queue_first[root + 1]):
        state.cand_at[tree.queue[at]] = state.section[tree.queue[at]]
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
                    not rules.borrow_evicts[queue]
                    or jobs.priority[victim] >= jobs.priority[w]
                    or jobs.priority[victim] > rules.threshold[queue]
                )
                if (spared and may_borrow) or not _still_lends(tree, state, jobs.queue[victim]):
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
