"""Candidates of a search for victims, and what each search does with them."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_helper
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
    take_quota,
)
from gpuplan.simkit.quota.tree import available, is_over

SAME, PRIORITY, HIERARCHY, UNREACHED = range(4)  # how a queue was reached


@borrowing_helper
def may_evict(jobs: Any, policy: int, w: int, victim: int) -> bool:
    """Return whether a policy lets a workload evict another."""
    if policy == NEVER:
        return False
    if policy == ANY or jobs.priority[victim] < jobs.priority[w]:
        return True
    if policy == LOWER_PRIORITY:
        return False
    return (  # type: ignore[no-any-return]
        jobs.priority[victim] == jobs.priority[w] and jobs.created[w] < jobs.created[victim]
    )


@borrowing_helper
def uses_needed(jobs: Any, state: Any, w: int) -> bool:
    """Return whether a workload uses something that the request needs evictions for."""
    shape = jobs.shape[w]
    at = jobs.slot_at[w]
    for slot in range(jobs.slot_first[shape + 1] - jobs.slot_first[shape]):
        if state.slot_amount[at + slot] > 0:
            for i in range(state.count[REQUESTED]):
                if state.req_needed[i] and state.req_fr[i] == state.slot_fr[at + slot]:
                    return True
    return False


@borrowing_helper
def is_over_needed(tree: Any, state: Any, node: int) -> bool:
    """Return whether a node is over its quota in anything that the request needs."""
    for i in range(state.count[REQUESTED]):
        if state.req_needed[i] and is_over(tree, node, state.req_fr[i], 0):
            return True
    return False


@borrowing_helper
def request_fits(tree: Any, state: Any, queue: int, may_borrow: bool) -> bool:
    """Return whether the request fits the queue now."""
    for i in range(state.count[REQUESTED]):
        fr, amount = state.req_fr[i], state.req_amount[i]
        if not may_borrow and is_over(tree, queue, fr, amount):
            return False
        if amount > max(0, available(tree, queue, fr)):
            return False
    return True


@borrowing_helper
def collect(jobs: Any, state: Any, queue: int, policy: int, w: int) -> None:
    """Make the candidates of a queue: those that already leave, then the others."""
    first = state.section[queue]
    last = first
    if policy != NEVER:
        if state.leaving_count[queue] > 0:
            last = _collect_in(jobs, state, queue, policy, w, LEAVING, last)
        state.cand_early[queue] = last
        last = _collect_in(jobs, state, queue, policy, w, RUNNING, last)
    else:
        state.cand_early[queue] = last
    state.cand_at[queue], state.cand_end[queue] = first, last


@borrowing_helper
def _collect_in(
    jobs: Any, state: Any, queue: int, policy: int, w: int, status: int, last: int
) -> int:
    """Append the candidates of one status; they are in order already."""
    first = state.section[queue]
    for i in range(first, first + state.running_count[queue]):
        victim = state.running[i]
        if policy != ANY and jobs.priority[victim] > jobs.priority[w]:
            break
        if (
            state.status[victim] == status
            and not state.hidden[victim]
            and may_evict(jobs, policy, w, victim)
            and uses_needed(jobs, state, victim)
        ):
            state.cand[last] = victim
            last += 1
    return last


@borrowing_helper
def freed_at_most(jobs: Any, state: Any, queue: int, fr: int) -> int:
    """Return how much of something all candidates of a queue hold."""
    total = 0
    for i in range(state.section[queue], state.cand_end[queue]):
        w = state.cand[i]
        shape = jobs.shape[w]
        at = jobs.slot_at[w]
        for slot in range(jobs.slot_first[shape + 1] - jobs.slot_first[shape]):
            if state.slot_fr[at + slot] == fr:
                total += state.slot_amount[at + slot]
    return total


@borrowing_helper
def could_suffice(tree: Any, jobs: Any, state: Any, queue: int) -> bool:
    """Return whether the request might fit if all candidates were gone.

    Removing an amount makes at most that amount available.
    """
    root = tree.root[queue]
    for i in range(state.count[REQUESTED]):
        fr = state.req_fr[i]
        missing = state.req_amount[i] - available(tree, queue, fr)
        if missing <= 0:
            continue
        for at in range(tree.queue_first[root], tree.queue_first[root + 1]):
            other = tree.queue[at]
            if state.kind[other] != UNREACHED:
                missing -= freed_at_most(jobs, state, other, fr)
                if missing <= 0:
                    break
        if missing > 0:
            return False
    return True


@borrowing_helper
def comes_before(jobs: Any, state: Any, w: int, other: int, queue: int) -> bool:
    """Return whether a candidate comes before another one for a request of a queue."""
    if state.status[w] != state.status[other]:
        return state.status[w] == LEAVING  # type: ignore[no-any-return]
    if (jobs.queue[w] == queue) != (jobs.queue[other] == queue):
        return jobs.queue[other] == queue  # type: ignore[no-any-return]
    return is_victim_before(jobs, state, w, other)


@borrowing_helper
def choose_victim(tree: Any, jobs: Any, state: Any, w: int, reason: int) -> None:
    """Add a victim to the chosen ones and take its usage from the tree."""
    state.chosen[state.count[CHOSEN]] = w
    state.chosen_reason[state.count[CHOSEN]] = reason
    state.count[CHOSEN] += 1
    give_quota(tree, jobs, state, w)


@borrowing_helper
def restore(tree: Any, jobs: Any, state: Any) -> None:
    """Put the usage of all chosen victims back."""
    for i in range(state.count[CHOSEN]):
        take_quota(tree, jobs, state, state.chosen[i])


@borrowing_helper
def fill_back(tree: Any, jobs: Any, state: Any, queue: int, may_borrow: bool) -> None:
    """Spare victims without which the request fits too, from the last but one to the first."""
    i = state.count[CHOSEN] - 2
    while i >= 0:
        w = state.chosen[i]
        take_quota(tree, jobs, state, w)
        if request_fits(tree, state, queue, may_borrow):
            last = state.count[CHOSEN] - 1
            state.chosen[i], state.chosen_reason[i] = state.chosen[last], state.chosen_reason[last]
            state.count[CHOSEN] = last
        else:
            give_quota(tree, jobs, state, w)
        i -= 1
