"""One scheduling cycle of one tree: the heads of its queues, in order, on one snapshot."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.quota import columns as col
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
    slots_of,
    take_quota,
)
from gpuplan.simkit.quota.tree import NO_LIMIT, release, use

# Columns of the table of runs.
ROW_JOB, ROW_START, ROW_END, ROW_REASON, ROW_CAUSE, ROW_SLOTS = range(6)
SLOT_COLUMNS = 2  # from `ROW_SLOTS` on: the pair that each slot holds, -1 for none, and how much
SAME, MOVED_ON, CHANGED = range(3)  # what a cycle did
FINISHED = -1  # reason of a run that was not evicted


@borrowing_helper
def _victims_fit(tree: Any, jobs: Any, state: Any, queue: int, victim_count: int) -> bool:
    """Return whether a head fits once the victims of this cycle and its own are gone."""
    w = state.queues[queue, col.HEAD]
    first, victims = state.queues[queue, col.HEAD_FIRST], state.queues[queue, col.HEAD_COUNT]
    for i in range(victim_count):
        give_quota(tree, jobs, state, state.lists[i, col.TAKEN_LIST])
    for i in range(first, first + victims):
        if not state.works[state.arenas[i, col.ARENA], col.TAKEN]:
            give_quota(tree, jobs, state, state.arenas[i, col.ARENA])
    set_request(jobs, state, w)
    fits = request_fits(tree, state, queue, True)
    for i in range(victim_count):
        take_quota(tree, jobs, state, state.lists[i, col.TAKEN_LIST])
    for i in range(first, first + victims):
        if not state.works[state.arenas[i, col.ARENA], col.TAKEN]:
            take_quota(tree, jobs, state, state.arenas[i, col.ARENA])
    return fits


@borrowing_helper
def _hold(tree: Any, state: Any, queue: int, fr: int, amount: int, held: int) -> int:
    """Add usage that ends with the cycle; returns how many such amounts there are."""
    use(tree, queue, fr, amount)
    (
        state.holds[held, col.HELD_QUEUE],
        state.holds[held, col.HELD_FR],
        state.holds[held, col.HELD_AMOUNT],
    ) = queue, fr, amount
    return held + 1


@borrowing_helper
def _hold_request(tree: Any, jobs: Any, state: Any, w: int, held: int) -> int:
    """Hold all that a workload requests until the end of the cycle."""
    set_request(jobs, state, w)
    for i in range(state.count[REQUESTED]):
        held = _hold(
            tree,
            state,
            jobs.works[w, col.W_QUEUE],
            state.request[i, col.REQ_FR],
            state.request[i, col.REQ_AMOUNT],
            held,
        )
    return held


@borrowing_helper
def _hold_back(tree: Any, jobs: Any, state: Any, w: int, borrowing: bool, held: int) -> int:
    """Hold quota back for a workload that would need victims and has none."""
    queue = jobs.works[w, col.W_QUEUE]
    set_request(jobs, state, w)
    for i in range(state.count[REQUESTED]):
        fr, amount = state.request[i, col.REQ_FR], state.request[i, col.REQ_AMOUNT]
        room = tree.quotas[queue, fr, col.SUBTREE] - tree.quotas[queue, fr, col.USAGE]
        if borrowing:
            if tree.quotas[queue, fr, col.LIMIT] < NO_LIMIT:
                amount = min(amount, room + tree.quotas[queue, fr, col.LIMIT])
        else:
            amount = min(amount, room)
        held = _hold(tree, state, queue, fr, max(0, amount), held)
    return held


@borrowing_helper
def _keep_victims(state: Any, queue: int) -> None:
    """Copy the victims just found for the head of a queue."""
    state.queues[queue, col.HEAD_FIRST], state.queues[queue, col.HEAD_COUNT] = (
        state.count[ARENA],
        state.count[CHOSEN],
    )
    for i in range(state.count[CHOSEN]):
        state.arenas[state.count[ARENA], col.ARENA] = state.lists[i, col.CHOSEN]
        state.arenas[state.count[ARENA], col.ARENA_REASON] = state.lists[i, col.CHOSEN_REASON]
        state.count[ARENA] += 1


@borrowing_helper
def _look_again(
    tree: Any, rules: Any, jobs: Any, state: Any, queue: int, victim_count: int
) -> None:
    """Find victims anew without those taken in this cycle, on the flavors chosen before."""
    for i in range(victim_count):
        give_quota(tree, jobs, state, state.lists[i, col.TAKEN_LIST])
        state.works[state.lists[i, col.TAKEN_LIST], col.HIDDEN] = True
    needs = with_victims(tree, rules, jobs, state, state.queues[queue, col.HEAD], True)
    for i in range(victim_count):
        take_quota(tree, jobs, state, state.lists[i, col.TAKEN_LIST])
        state.works[state.lists[i, col.TAKEN_LIST], col.HIDDEN] = False
    state.queues[queue, col.HEAD_MODE], state.queues[queue, col.HEAD_HEIGHT] = needs & 7, needs >> 3
    _keep_victims(state, queue)


@borrowing_helper
def _overlaps(state: Any, queue: int) -> bool:
    first = state.queues[queue, col.HEAD_FIRST]
    for i in range(first, first + state.queues[queue, col.HEAD_COUNT]):
        if state.works[state.arenas[i, col.ARENA], col.TAKEN]:
            return True
    return False


@borrowing_helper
def _admit(jobs: Any, state: Any, runs: Any, w: int) -> None:
    """Let a workload run; its usage is in the tree already."""
    now = state.count[NOW]
    dequeue(jobs, state, w)
    state.works[w, col.STATUS], state.works[w, col.RESERVED], state.works[w, col.END] = (
        RUNNING,
        now,
        now + state.works[w, col.REST],
    )
    join_running(jobs, state, w)
    row = state.count[ROWS]
    runs[row, ROW_JOB], runs[row, ROW_START], runs[row, ROW_END] = w, now, state.works[w, col.END]
    runs[row, ROW_REASON] = runs[row, ROW_CAUSE] = FINISHED
    begin, end = slots_of(jobs, w)
    for slot in range(begin, end):
        column = ROW_SLOTS + SLOT_COLUMNS * (slot - begin)
        runs[row, column] = state.slots[slot, col.SLOT_FR]
        runs[row, column + 1] = state.slots[slot, col.SLOT_AMOUNT]
    state.works[w, col.ROW] = row
    state.count[ROWS] += 1


@borrowing_helper
def _evict(jobs: Any, state: Any, runs: Any, w: int, reason: int, cause: int) -> bool:
    """Tell a workload to stop for another; returns whether it was not told before."""
    if state.works[w, col.STATUS] == LEAVING:
        return False
    state.works[w, col.STATUS], state.works[w, col.END] = LEAVING, state.count[NOW]
    state.queues[jobs.works[w, col.W_QUEUE], col.LEAVING_COUNT] += 1
    state.works[w, col.EVICTIONS] += 1
    row = state.works[w, col.ROW]
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
    for at in range(tree.nodes[root, col.QUEUE_FIRST], tree.nodes[root + 1, col.QUEUE_FIRST]):
        queue = tree.members[at, col.M_QUEUE]
        w = head_of(jobs, state, queue)
        state.queues[queue, col.HEAD] = w
        if w < 0:
            continue
        needs = nominate(tree, rules, jobs, state, w)
        state.queues[queue, col.HEAD_MODE], state.queues[queue, col.HEAD_HEIGHT] = (
            needs & 7,
            needs >> 3,
        )
        _keep_victims(state, queue)
        state.queues[heads, col.HEADS] = queue
        heads += 1
    if heads == 0:
        return SAME
    start_order(tree, rules, jobs, state, heads)
    changed = SAME
    victim_count = held = 0
    for turn in range(heads):
        queue = next_head(tree, rules, jobs, state, root, heads, turn)
        w = state.queues[queue, col.HEAD]
        if (
            rules.recompute
            and state.queues[queue, col.HEAD_MODE] == PREEMPT
            and _overlaps(state, queue)
        ):
            _look_again(tree, rules, jobs, state, queue, victim_count)
            if state.queues[queue, col.HEAD_MODE] == FIT:
                held = _hold_request(tree, jobs, state, w, held)
                state.works[w, col.TRIED_EPOCH] = -1
                continue
        mode = state.queues[queue, col.HEAD_MODE]
        if mode == NO_FIT or mode == NO_CANDIDATES:
            if mode == NO_CANDIDATES and rules.queues[queue, col.RECLAIM] != ANY:
                borrowing = state.queues[queue, col.HEAD_HEIGHT] > 0
                held = _hold_back(tree, jobs, state, w, borrowing, held)
            changed = max(changed, _requeue(tree, rules, jobs, state, w))
            continue
        if _overlaps(state, queue) or not _victims_fit(tree, jobs, state, queue, victim_count):
            state.works[w, col.TRIED_EPOCH] = -1
            continue
        if mode == FIT:
            take_quota(tree, jobs, state, w)
            _admit(jobs, state, runs, w)
            log[0] += 1
            log[log[0]] = w
            changed = CHANGED
            continue
        held = _hold_request(tree, jobs, state, w, held)
        first = state.queues[queue, col.HEAD_FIRST]
        for i in range(first, first + state.queues[queue, col.HEAD_COUNT]):
            victim = state.arenas[i, col.ARENA]
            state.works[victim, col.TAKEN] = True
            state.lists[victim_count, col.TAKEN_LIST] = victim
            victim_count += 1
            if _evict(jobs, state, runs, victim, state.arenas[i, col.ARENA_REASON], w):
                changed = CHANGED
                log[0] += 1
                log[log[0]] = -1 - victim
        state.works[w, col.TRIED_EPOCH] = -1
        if not rules.queues[queue, col.STRICT] and state.queues[queue, col.STICKY] != w:
            state.queues[queue, col.STICKY] = w
            changed = CHANGED
    for i in range(victim_count):
        state.works[state.lists[i, col.TAKEN_LIST], col.TAKEN] = False
    for i in range(held):
        release(
            tree,
            state.holds[i, col.HELD_QUEUE],
            state.holds[i, col.HELD_FR],
            state.holds[i, col.HELD_AMOUNT],
        )
    return changed


@borrowing_helper
def _requeue(tree: Any, rules: Any, jobs: Any, state: Any, w: int) -> int:
    """Keep the flavors tried by a workload that was not nominated, or park it; as `cycle`."""
    queue, is_left = jobs.works[w, col.W_QUEUE], False
    begin, end = slots_of(jobs, w)
    for slot in range(begin, end):
        state.slots[slot, col.TRIED] = state.slots[slot, col.TRIED_NEW]
        is_left = is_left or state.slots[slot, col.TRIED] >= 0
    state.works[w, col.TRIED_EPOCH] = state.nodes[tree.nodes[queue, col.ROOT], col.EPOCH]
    if is_left:
        return MOVED_ON
    if not rules.queues[queue, col.STRICT]:
        park(tree, jobs, state, w)
        return CHANGED
    return SAME
