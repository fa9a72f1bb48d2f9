"""Victims by Kueue's fair sharing: from the queue with the largest share first."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.quota import columns as col
from gpuplan.simkit.quota.candidates import (
    PRIORITY,
    SAME,
    UNREACHED,
    choose_victim,
    collect,
    comes_before,
    could_suffice,
    fill_back,
    is_over_needed,
    request_fits,
    restore,
)
from gpuplan.simkit.quota.state import (
    CHOSEN,
    FAIR_SHARING,
    IN_QUEUE,
    NEVER,
    RECLAMATION,
    REQUESTED,
    STAMP,
    give_quota,
    take_quota,
)
from gpuplan.simkit.quota.tree import borrows, release, share, use


@borrowing_helper
def fair_victims(tree: Any, rules: Any, jobs: Any, state: Any, w: int) -> None:
    """Choose victims for the request in ``state.req_*``; none where they do not suffice."""
    queue = jobs.works[w, col.W_QUEUE]
    root = tree.nodes[queue, col.ROOT]
    for at in range(tree.nodes[root, col.QUEUE_FIRST], tree.nodes[root + 1, col.QUEUE_FIRST]):
        other = tree.members[at, col.M_QUEUE]
        state.queues[other, col.KIND] = UNREACHED
        state.queues[other, col.KEPT_END] = state.queues[other, col.SECTION]
        if other == queue:
            state.queues[other, col.KIND] = SAME
            collect(jobs, state, other, rules.queues[queue, col.WITHIN], w)
        elif rules.queues[queue, col.RECLAIM] != NEVER and is_over_needed(tree, state, other):
            state.queues[other, col.KIND] = PRIORITY
            collect(jobs, state, other, rules.queues[queue, col.RECLAIM], w)
    if not could_suffice(tree, jobs, state, queue):
        return
    _mark_path(tree, state, queue)
    _request(tree, state, queue, True)
    fits = _first_rule(tree, rules, jobs, state, w)
    if not fits and rules.initial_second:
        for at in range(tree.nodes[root, col.QUEUE_FIRST], tree.nodes[root + 1, col.QUEUE_FIRST]):
            other = tree.members[at, col.M_QUEUE]
            if state.queues[other, col.KIND] != UNREACHED:
                for i in range(state.queues[other, col.SECTION], state.queues[other, col.KEPT_END]):
                    state.lists[i, col.CAND] = state.lists[i, col.KEPT]
                state.queues[other, col.CAND_AT] = state.queues[other, col.SECTION]
                state.queues[other, col.CAND_END] = state.queues[other, col.KEPT_END]
        _mark_path(tree, state, queue)
        fits = _second_rule(tree, jobs, state, queue)
    _request(tree, state, queue, False)
    if fits:
        fill_back(tree, jobs, state, queue, True)
    restore(tree, jobs, state)
    if not fits:
        state.count[CHOSEN] = 0


@borrowing_helper
def _mark_path(tree: Any, state: Any, queue: int) -> None:
    """Mark the nodes from a queue to its root; what was pruned before is not any more."""
    state.count[STAMP] += 1
    node = queue
    while node >= 0:
        state.nodes[node, col.MARK] = state.count[STAMP]
        node = tree.nodes[node, col.PARENT]


@borrowing_helper
def _request(tree: Any, state: Any, queue: int, adds: bool) -> None:
    """Add the request to the usage of its queue, or take it out again."""
    for i in range(state.count[REQUESTED]):
        if adds:
            use(tree, queue, state.request[i, col.REQ_FR], state.request[i, col.REQ_AMOUNT])
        else:
            release(tree, queue, state.request[i, col.REQ_FR], state.request[i, col.REQ_AMOUNT])


@borrowing_helper
def _fits_now(tree: Any, state: Any, queue: int) -> bool:
    """Return whether the request, which is part of the usage, fits."""
    _request(tree, state, queue, False)
    fits = request_fits(tree, state, queue, True)
    _request(tree, state, queue, True)
    return fits


@borrowing_helper
def _first_rule(tree: Any, rules: Any, jobs: Any, state: Any, w: int) -> bool:
    """Take victims by the first rule and keep those that it passes over; whether they suffice."""
    queue = jobs.works[w, col.W_QUEUE]
    is_within = not is_over_needed(tree, state, queue)  # before any victim is gone
    while True:
        other = _largest(tree, jobs, state, queue)
        if other < 0:
            return False
        if other == queue or is_within:
            victim = state.lists[state.queues[other, col.CAND_AT], col.CAND]
            state.queues[other, col.CAND_AT] += 1
            reason = IN_QUEUE if other == queue else RECLAMATION
            choose_victim(tree, jobs, state, victim, reason)
            if _fits_now(tree, state, queue):
                return True
            continue
        ours, theirs = _below_common(tree, state, queue, other)
        my_share, his_share = share(tree, ours), share(tree, theirs)
        while state.queues[other, col.CAND_AT] < state.queues[other, col.CAND_END]:
            victim = state.lists[state.queues[other, col.CAND_AT], col.CAND]
            state.queues[other, col.CAND_AT] += 1
            passes = my_share < his_share
            if rules.final_first:
                give_quota(tree, jobs, state, victim)
                passes = my_share <= share(tree, theirs)
                take_quota(tree, jobs, state, victim)
            if my_share[0] and not his_share[0]:
                passes = False
            if passes:
                choose_victim(tree, jobs, state, victim, FAIR_SHARING)
                if _fits_now(tree, state, queue):
                    return True
                break
            state.lists[state.queues[other, col.KEPT_END], col.KEPT] = victim
            state.queues[other, col.KEPT_END] += 1


@borrowing_helper
def _second_rule(tree: Any, jobs: Any, state: Any, queue: int) -> bool:
    """Take victims that the first rule passed over from queues with larger shares."""
    while True:
        other = _largest(tree, jobs, state, queue)
        if other < 0:
            return False
        ours, theirs = _below_common(tree, state, queue, other)
        if not share(tree, ours) < share(tree, theirs):
            state.queues[other, col.CAND_AT] = state.queues[other, col.CAND_END]
            continue
        victim = state.lists[state.queues[other, col.CAND_AT], col.CAND]
        state.queues[other, col.CAND_AT] += 1
        choose_victim(tree, jobs, state, victim, FAIR_SHARING)
        if _fits_now(tree, state, queue):
            return True


@borrowing_helper
def _below_common(tree: Any, state: Any, queue: int, other: int) -> tuple[int, int]:
    """Return the nodes above two queues that are children of their lowest common ancestor."""
    stamp = state.count[STAMP]
    theirs = other
    while state.nodes[tree.nodes[theirs, col.PARENT], col.MARK] != stamp:
        theirs = tree.nodes[theirs, col.PARENT]
    ours = queue
    while tree.nodes[ours, col.PARENT] != tree.nodes[theirs, col.PARENT]:
        ours = tree.nodes[ours, col.PARENT]
    return ours, theirs


@borrowing_helper
def _largest(tree: Any, jobs: Any, state: Any, queue: int) -> int:
    """Return the queue with candidates and the largest share, from the root down; -1: none."""
    stamp = state.count[STAMP]
    root = tree.nodes[queue, col.ROOT]
    if root == queue:
        return queue if state.queues[queue, col.CAND_AT] < state.queues[queue, col.CAND_END] else -1
    node = root
    while True:
        best_cohort = best_queue = -1
        cohort_share = queue_share = (False, -1.0)
        for i in range(tree.nodes[node, col.CHILD_FIRST], tree.nodes[node + 1, col.CHILD_FIRST]):
            child = tree.members[i, col.M_CHILD]
            if child >= state.queues.shape[0]:  # a cohort
                if state.nodes[child, col.PRUNED] == stamp:
                    continue
                if state.nodes[child, col.MARK] != stamp and not borrows(tree, child):
                    continue
                here = share(tree, child)
                if best_cohort < 0 or here >= cohort_share:
                    best_cohort, cohort_share = child, here
            elif (
                state.queues[child, col.KIND] != UNREACHED
                and state.queues[child, col.CAND_AT] < state.queues[child, col.CAND_END]
            ):
                if child != queue and not borrows(tree, child):
                    continue
                here = share(tree, child)
                if (
                    best_queue < 0
                    or here > queue_share
                    or (
                        here == queue_share
                        and comes_before(
                            jobs,
                            state,
                            state.lists[state.queues[child, col.CAND_AT], col.CAND],
                            state.lists[state.queues[best_queue, col.CAND_AT], col.CAND],
                            queue,
                        )
                    )
                ):
                    best_queue, queue_share = child, here
        if best_cohort < 0 and best_queue < 0:
            if node == root:
                return -1
            state.nodes[node, col.PRUNED] = stamp
            node = root
        elif best_cohort >= 0 and (best_queue < 0 or cohort_share >= queue_share):
            node = best_cohort
        else:
            return best_queue
