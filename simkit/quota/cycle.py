"""One scheduling cycle of one tree: the heads of its queues, in order, on one snapshot."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.quota.assignment import nominate, set_request, with_victims
from gpuplan.simkit.quota.candidates import request_fits
from gpuplan.simkit.quota.order import next_head, start_order
from gpuplan.simkit.quota.pending import dequeue, head_of, park
from gpuplan.simkit.quota.state import (
    ANY,
    ARENA,
    CHOSEN,
    FIT,
    LEAVING,
    NO_CANDIDATES,
    NO_FIT,
    NOW,
    PREEMPT,
    REQUESTED,
    ROWS,
    RUNNING,
    give_quota,
    join_running,
    take_quota,
)
from gpuplan.simkit.quota.tree import NO_LIMIT, release, use

# Columns of the table of runs.
ROW_JOB, ROW_START, ROW_END, ROW_REASON, ROW_CAUSE, ROW_SLOTS = range(6)
SLOT_COLUMNS = 2  # from `ROW_SLOTS` on: the pair that each slot holds, -1 for none, and how much
SAME, MOVED_ON, CHANGED = range(3)  # what a cycle did
FINISHED = -1  # reason of a run that was not evicted


@borrowing_helper
def _victims_fit(tree: Any, jobs: Any, state: Any, queue: int, taken: int) -> bool:
    """Return whether a head fits once the victims of this cycle and its own are gone."""
    w = state.head[queue]
    first, victims = state.head_first[queue], state.head_count[queue]
    for i in range(taken):
        give_quota(tree, jobs, state, state.taken_list[i])
    for i in range(first, first + victims):
        if not state.taken[state.arena[i]]:
            give_quota(tree, jobs, state, state.arena[i])
    set_request(jobs, state, w)
    fits = request_fits(tree, state, queue, True)
    for i in range(taken):
        take_quota(tree, jobs, state, state.taken_list[i])
    for i in range(first, first + victims):
        if not state.taken[state.arena[i]]:
            take_quota(tree, jobs, state, state.arena[i])
    return fits


@borrowing_helper
def _hold(tree: Any, state: Any, queue: int, fr: int, amount: int, held: int) -> int:
    """Add usage that ends with the cycle; returns how many such amounts there are."""
    use(tree, queue, fr, amount)
    state.held_queue[held], state.held_fr[held], state.held_amount[held] = queue, fr, amount
    return held + 1


@borrowing_helper
def _hold_request(tree: Any, jobs: Any, state: Any, w: int, held: int) -> int:
    """Hold all that a workload requests until the end of the cycle."""
    set_request(jobs, state, w)
    for i in range(state.count[REQUESTED]):
        held = _hold(tree, state, jobs.queue[w], state.req_fr[i], state.req_amount[i], held)
    return held


@borrowing_helper
def _hold_back(tree: Any, jobs: Any, state: Any, w: int, borrowing: bool, held: int) -> int:
    """Hold quota back for a workload that would need victims and has none."""
    queue = jobs.queue[w]
    set_request(jobs, state, w)
    for i in range(state.count[REQUESTED]):
        fr, amount = state.req_fr[i], state.req_amount[i]
        room = tree.subtree[queue, fr] - tree.usage[queue, fr]
        if borrowing:
            if tree.limit[queue, fr] < NO_LIMIT:
                amount = min(amount, room + tree.limit[queue, fr])
        else:
            amount = min(amount, room)
        held = _hold(tree, state, queue, fr, max(0, amount), held)
    return held


@borrowing_helper
def _keep_victims(state: Any, queue: int) -> None:
    """Copy the victims just found for the head of a queue."""
    state.head_first[queue], state.head_count[queue] = state.count[ARENA], state.count[CHOSEN]
    for i in range(state.count[CHOSEN]):
        state.arena[state.count[ARENA]] = state.chosen[i]
        state.arena_reason[state.count[ARENA]] = state.chosen_reason[i]
        state.count[ARENA] += 1


@borrowing_helper
def _look_again(tree: Any, rules: Any, jobs: Any, state: Any, queue: int, taken: int) -> None:
    """Find victims anew without those taken in this cycle, on the flavors chosen before."""
    for i in range(taken):
        give_quota(tree, jobs, state, state.taken_list[i])
        state.hidden[state.taken_list[i]] = True
    needs = with_victims(tree, rules, jobs, state, state.head[queue], True)
    for i in range(taken):
        take_quota(tree, jobs, state, state.taken_list[i])
        state.hidden[state.taken_list[i]] = False
    state.head_mode[queue], state.head_height[queue] = needs & 7, needs >> 3
    _keep_victims(state, queue)


@borrowing_helper
def _overlaps(state: Any, queue: int) -> bool:
    first = state.head_first[queue]
    for i in range(first, first + state.head_count[queue]):
        if state.taken[state.arena[i]]:
            return True
    return False


@borrowing_helper
def _admit(jobs: Any, state: Any, runs: Any, w: int) -> None:
    """Let a workload run; its usage is in the tree already."""
    now = state.count[NOW]
    dequeue(jobs, state, w)
    state.status[w], state.reserved[w], state.end[w] = RUNNING, now, now + state.rest[w]
    join_running(jobs, state, w)
    row = state.count[ROWS]
    runs[row, ROW_JOB], runs[row, ROW_START], runs[row, ROW_END] = w, now, state.end[w]
    runs[row, ROW_REASON] = runs[row, ROW_CAUSE] = FINISHED
    shape, at = jobs.shape[w], jobs.slot_at[w]
    for slot in range(jobs.slot_first[shape + 1] - jobs.slot_first[shape]):
        column = ROW_SLOTS + SLOT_COLUMNS * slot
        runs[row, column] = state.slot_fr[at + slot]
        runs[row, column + 1] = state.slot_amount[at + slot]
    state.row[w] = row
    state.count[ROWS] += 1


@borrowing_helper
def _evict(jobs: Any, state: Any, runs: Any, w: int, reason: int, cause: int) -> bool:
    """Tell a workload to stop for another; returns whether it was not told before."""
    if state.status[w] == LEAVING:
        return False
    state.status[w], state.end[w] = LEAVING, state.count[NOW]
    state.leaving_count[jobs.queue[w]] += 1
    state.evictions[w] += 1
    row = state.row[w]
    if row >= 0:
        runs[row, ROW_END], runs[row, ROW_REASON] = state.count[NOW], reason
        runs[row, ROW_CAUSE] = cause
    return True


@borrowing_helper
def cycle(tree: Any, rules: Any, jobs: Any, state: Any, runs: Any, root: int, log: Any) -> int:
    """Run a cycle of the tree of a root; returns `SAME`, `MOVED_ON` or `CHANGED`.

    `MOVED_ON`: nothing changed but which flavors are left to try.

    ``log[0]`` counts what follows: workloads that were admitted and, as ``-1 - w``, evicted.
    """
    heads = 0
    state.count[ARENA] = 0
    for at in range(tree.queue_first[root], tree.queue_first[root + 1]):
        queue = tree.queue[at]
        w = head_of(jobs, state, queue)
        state.head[queue] = w
        if w < 0:
            continue
        needs = nominate(tree, rules, jobs, state, w)
        state.head_mode[queue], state.head_height[queue] = needs & 7, needs >> 3
        _keep_victims(state, queue)
        state.heads[heads] = queue
        heads += 1
    if heads == 0:
        return SAME
    start_order(tree, rules, jobs, state, heads)
    changed = SAME
    taken = held = 0
    for turn in range(heads):
        queue = next_head(tree, rules, jobs, state, root, heads, turn)
        w = state.head[queue]
        if rules.recompute and state.head_mode[queue] == PREEMPT and _overlaps(state, queue):
            _look_again(tree, rules, jobs, state, queue, taken)
            if state.head_mode[queue] == FIT:
                held = _hold_request(tree, jobs, state, w, held)
                state.tried_epoch[w] = -1
                continue
        mode = state.head_mode[queue]
        if mode == NO_FIT or mode == NO_CANDIDATES:
            if mode == NO_CANDIDATES and rules.reclaim[queue] != ANY:
                borrowing = state.head_height[queue] > 0
                held = _hold_back(tree, jobs, state, w, borrowing, held)
            changed = max(changed, _requeue(tree, rules, jobs, state, w))
            continue
        if _overlaps(state, queue) or not _victims_fit(tree, jobs, state, queue, taken):
            state.tried_epoch[w] = -1
            continue
        if mode == FIT:
            take_quota(tree, jobs, state, w)
            _admit(jobs, state, runs, w)
            log[0] += 1
            log[log[0]] = w
            changed = CHANGED
            continue
        held = _hold_request(tree, jobs, state, w, held)
        first = state.head_first[queue]
        for i in range(first, first + state.head_count[queue]):
            victim = state.arena[i]
            state.taken[victim] = True
            state.taken_list[taken] = victim
            taken += 1
            if _evict(jobs, state, runs, victim, state.arena_reason[i], w):
                changed = CHANGED
                log[0] += 1
                log[log[0]] = -1 - victim
        state.tried_epoch[w] = -1
        if not rules.strict[queue] and state.sticky[queue] != w:
            state.sticky[queue] = w
            changed = CHANGED
    for i in range(taken):
        state.taken[state.taken_list[i]] = False
    for i in range(held):
        release(tree, state.held_queue[i], state.held_fr[i], state.held_amount[i])
    return changed


@borrowing_helper
def _requeue(tree: Any, rules: Any, jobs: Any, state: Any, w: int) -> int:
    """Keep the flavors tried by a workload that was not nominated, or park it; as `cycle`."""
    queue, shape = jobs.queue[w], jobs.shape[w]
    at = jobs.slot_at[w]
    is_left = False
    for slot in range(at, at + jobs.slot_first[shape + 1] - jobs.slot_first[shape]):
        state.tried[slot] = state.tried_new[slot]
        is_left = is_left or state.tried[slot] >= 0
    state.tried_epoch[w] = state.epoch[tree.root[queue]]
    if is_left:
        return MOVED_ON
    if not rules.strict[queue]:
        park(tree, jobs, state, w)
        return CHANGED
    return SAME
