"""Candidates of a search for victims, and what each search does with them."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.quota import columns as col
from gpuplan.simkit.quota.state import (
    ANY,
    CHOSEN,
    LEAVING,
    LOWER_PRIORITY,
    NEVER,
    REQUESTED,
    RUNNING,
    give_quota,
    is_victim_before,
    slots_of,
    take_quota,
)
from gpuplan.simkit.quota.tree import available, is_over

SAME, PRIORITY, HIERARCHY, UNREACHED = range(4)  # how a queue was reached


@borrowing_helper
def may_evict(jobs: Any, policy: int, w: int, victim: int) -> bool:
    """Return whether a policy lets a workload evict another."""
    if policy == NEVER:
        return False
    if policy == ANY or jobs.works[victim, col.W_PRIORITY] < jobs.works[w, col.W_PRIORITY]:
        return True
    if policy == LOWER_PRIORITY:
        return False
    return (  # type: ignore[no-any-return]
        jobs.works[victim, col.W_PRIORITY] == jobs.works[w, col.W_PRIORITY]
        and jobs.works[w, col.W_CREATED] < jobs.works[victim, col.W_CREATED]
    )


@borrowing_helper
def uses_needed(jobs: Any, state: Any, w: int) -> bool:
    """Return whether a workload uses something that the request needs evictions for."""
    begin, end = slots_of(jobs, w)
    for slot in range(begin, end):
        if state.slots[slot, col.SLOT_AMOUNT] > 0:
            for i in range(state.count[REQUESTED]):
                if (
                    state.request[i, col.REQ_NEEDED]
                    and state.request[i, col.REQ_FR] == state.slots[slot, col.SLOT_FR]
                ):
                    return True
    return False


@borrowing_helper
def is_over_needed(tree: Any, state: Any, node: int) -> bool:
    """Return whether a node is over its quota in anything that the request needs."""
    for i in range(state.count[REQUESTED]):
        if state.request[i, col.REQ_NEEDED] and is_over(
            tree, node, state.request[i, col.REQ_FR], 0
        ):
            return True
    return False


@borrowing_helper
def request_fits(tree: Any, state: Any, queue: int, may_borrow: bool) -> bool:
    """Return whether the request fits the queue now."""
    for i in range(state.count[REQUESTED]):
        fr, amount = state.request[i, col.REQ_FR], state.request[i, col.REQ_AMOUNT]
        if not may_borrow and is_over(tree, queue, fr, amount):
            return False
        if amount > max(0, available(tree, queue, fr)):
            return False
    return True


@borrowing_helper
def collect(jobs: Any, state: Any, queue: int, policy: int, w: int) -> None:
    """Make the candidates of a queue: those that already leave, then the others."""
    first = state.queues[queue, col.SECTION]
    last = first
    if policy != NEVER:
        if state.queues[queue, col.LEAVING_COUNT] > 0:
            last = _collect_in(jobs, state, queue, policy, w, LEAVING, last)
        state.queues[queue, col.CAND_EARLY] = last
        last = _collect_in(jobs, state, queue, policy, w, RUNNING, last)
    else:
        state.queues[queue, col.CAND_EARLY] = last
    state.queues[queue, col.CAND_AT], state.queues[queue, col.CAND_END] = first, last


@borrowing_helper
def _collect_in(
    jobs: Any, state: Any, queue: int, policy: int, w: int, status: int, last: int
) -> int:
    """Append the candidates of one status; they are in order already."""
    first = state.queues[queue, col.SECTION]
    for i in range(first, first + state.queues[queue, col.RUNNING_COUNT]):
        victim = state.lists[i, col.RUNNING]
        if policy != ANY and jobs.works[victim, col.W_PRIORITY] > jobs.works[w, col.W_PRIORITY]:
            break
        if (
            state.works[victim, col.STATUS] == status
            and not state.works[victim, col.HIDDEN]
            and may_evict(jobs, policy, w, victim)
            and uses_needed(jobs, state, victim)
        ):
            state.lists[last, col.CAND] = victim
            last += 1
    return last


@borrowing_helper
def freed_at_most(jobs: Any, state: Any, queue: int, fr: int) -> int:
    """Return how much of something all candidates of a queue hold."""
    total = 0
    for i in range(state.queues[queue, col.SECTION], state.queues[queue, col.CAND_END]):
        begin, end = slots_of(jobs, state.lists[i, col.CAND])
        for slot in range(begin, end):
            if state.slots[slot, col.SLOT_FR] == fr:
                total += state.slots[slot, col.SLOT_AMOUNT]
    return total


@borrowing_helper
def could_suffice(tree: Any, jobs: Any, state: Any, queue: int) -> bool:
    """Return whether the request might fit if all candidates were gone.

    Removing an amount makes at most that amount available.
    """
    root = tree.nodes[queue, col.ROOT]
    for i in range(state.count[REQUESTED]):
        fr = state.request[i, col.REQ_FR]
        missing = state.request[i, col.REQ_AMOUNT] - available(tree, queue, fr)
        if missing <= 0:
            continue
        for at in range(tree.nodes[root, col.QUEUE_FIRST], tree.nodes[root + 1, col.QUEUE_FIRST]):
            other = tree.members[at, col.M_QUEUE]
            if state.queues[other, col.KIND] != UNREACHED:
                missing -= freed_at_most(jobs, state, other, fr)
                if missing <= 0:
                    break
        if missing > 0:
            return False
    return True


@borrowing_helper
def comes_before(jobs: Any, state: Any, w: int, other: int, queue: int) -> bool:
    """Return whether a candidate comes before another one for a request of a queue."""
    if state.works[w, col.STATUS] != state.works[other, col.STATUS]:
        return state.works[w, col.STATUS] == LEAVING  # type: ignore[no-any-return]
    if (jobs.works[w, col.W_QUEUE] == queue) != (jobs.works[other, col.W_QUEUE] == queue):
        return jobs.works[other, col.W_QUEUE] == queue  # type: ignore[no-any-return]
    return is_victim_before(jobs, state, w, other)


@borrowing_helper
def choose_victim(tree: Any, jobs: Any, state: Any, w: int, reason: int) -> None:
    """Add a victim to the chosen ones and take its usage from the tree."""
    state.lists[state.count[CHOSEN], col.CHOSEN] = w
    state.lists[state.count[CHOSEN], col.CHOSEN_REASON] = reason
    state.count[CHOSEN] += 1
    give_quota(tree, jobs, state, w)


@borrowing_helper
def restore(tree: Any, jobs: Any, state: Any) -> None:
    """Put the usage of all chosen victims back."""
    for i in range(state.count[CHOSEN]):
        take_quota(tree, jobs, state, state.lists[i, col.CHOSEN])


@borrowing_helper
def fill_back(tree: Any, jobs: Any, state: Any, queue: int, may_borrow: bool) -> None:
    """Spare victims without which the request fits too, from the last but one to the first."""
    i = state.count[CHOSEN] - 2
    while i >= 0:
        w = state.lists[i, col.CHOSEN]
        take_quota(tree, jobs, state, w)
        if request_fits(tree, state, queue, may_borrow):
            last = state.count[CHOSEN] - 1
            state.lists[i, col.CHOSEN], state.lists[i, col.CHOSEN_REASON] = (
                state.lists[last, col.CHOSEN],
                state.lists[last, col.CHOSEN_REASON],
            )
            state.count[CHOSEN] = last
        else:
            give_quota(tree, jobs, state, w)
        i -= 1
