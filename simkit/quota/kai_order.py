"""KAI's orders: which queue and which job is next, and which victim."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.quota import kai_columns as col
from gpuplan.simkit.quota.kai_lists import fullness, is_before, put_into, take_out
from gpuplan.simkit.quota.kai_state import UNBOUNDED, allocatable, is_shielded, within_deserved

PLACING, REPLACING, EVICTING = range(3)  # whose order: pending jobs, evicted ones, victims
NEVER = 1 << 62  # the rank of a queue without jobs


@borrowing_helper
def _dominant(held: float, capacity: float, everything: float) -> float:
    """Return what a queue holds over what it may hold, or over all GPUs."""
    if capacity >= UNBOUNDED:
        capacity = everything
    return held * 1000.0 if capacity == 0 else held / capacity


@borrowing_helper
def _need(tree: Any, jobs: Any, q: int, j: int, mode: int) -> float:
    """Return the GPUs that the best job below a queue would take next."""
    if mode == PLACING:
        return float(tree[q, col.NEXT_NEED])
    if mode == REPLACING:
        return float(
            max(1, jobs[j, col.JOB_LEAST] - jobs[j, col.JOB_ACTIVE]) * jobs[j, col.JOB_SIZE]
        )
    return 0.0


@borrowing_helper
def left_of(jobs: Any, j: int) -> int:
    """Return how many active tasks of a victim have not been gathered."""
    return jobs[j, col.JOB_ACTIVE] - jobs[j, col.JOB_GATHERED]  # type: ignore[no-any-return]


@borrowing_helper
def _rank(tree: Any, queues: Any, jobs: Any, q: int, mode: int, everything: float) -> None:
    """Note where a queue with its best job comes in an order: by rank, then by share.

    Victims are taken from the last queue of their order, so that theirs are negative.
    """
    j = tree[q, col.BEST_PLACE + mode]
    if j < 0:
        tree[q, col.RANK_PLACE + mode] = NEVER
        return
    held, capacity = queues[q, col.ALLOCATED], allocatable(queues, q)
    need = _need(tree, jobs, q, j, mode)
    # 0 or more with something wanted; higher priorities; those that may hold what they would hold.
    rank = 0 if within_deserved(queues, q, held + need) else 1 << 61
    rank -= 2 * int(queues[q, col.PRIORITY])
    rank += capacity == 0 and held + need > 0
    if mode == EVICTING:
        need = -(queues[q, col.POPPED] + left_of(jobs, j) * jobs[j, col.JOB_SIZE])
    share = _dominant(held + need, capacity, everything)
    tree[q, col.RANK_PLACE + mode] = -rank if mode == EVICTING else rank
    queues[q, col.SHARE_PLACE + mode] = -share if mode == EVICTING else share


@borrowing_helper
def _tie_before(tree: Any, queues: Any, q: int, other: int, everything: float) -> bool:
    """Return whether a queue comes before another of the same rank and share."""
    capacity, other_capacity = allocatable(queues, q), allocatable(queues, other)
    share = _dominant(queues[q, col.ALLOCATED], capacity, everything)
    other_share = _dominant(queues[other, col.ALLOCATED], other_capacity, everything)
    if share != other_share:
        return share < other_share
    if capacity != other_capacity:
        return capacity < other_capacity
    return tree[q, col.CREATED] < tree[other, col.CREATED]  # type: ignore[no-any-return]


@borrowing_helper
def _first_pending(state: Any, q: int) -> int:
    """Return the first job of a queue that this action has not tried; -1: there is none."""
    tree, lists, marks = state.tree, state.lists, state.count[col.SEVERAL] > 0
    end = tree[q, col.SECTION] + tree[q, col.PENDING_COUNT]
    at = tree[q, col.CURSOR]
    while at < end:
        if lists[at, col.LIST_KIND] != col.NO_CLASS and not (
            marks
            and state.jobs[lists[at, col.LIST_PENDING], col.JOB_TRIED] == state.count[col.ACTION]
        ):
            break
        at += 1
    tree[q, col.CURSOR] = at
    if at == end:
        return -1
    tree[q, col.NEXT_NEED] = state.classes[lists[at, col.LIST_KIND], col.CLASS_NEED]
    return lists[at, col.LIST_PENDING]  # type: ignore[no-any-return]


@borrowing_helper
def list_victim_as(state: Any, j: int, full: int) -> None:
    """Put a victim where it belongs among those of its queue as if it were so full."""
    q = state.jobs[j, col.JOB_QUEUE]
    take_out(state, j, col.LIST_ACTIVE, col.ACTIVE_COUNT)
    state.jobs[j, col.JOB_FULL] = full
    put_into(state, j, col.LIST_ACTIVE, col.ACTIVE_COUNT)
    state.tree[q, col.VICTIM_CURSOR] = (
        state.tree[q, col.SECTION] + state.tree[q, col.ACTIVE_COUNT] - 1
    )


@borrowing_helper
def _last_victim(state: Any, q: int, j: int, most_priority: int) -> int:
    """Return the next victim of a queue for a job; -1: there is none."""
    jobs = state.jobs
    if not state.tree[q, col.IS_VICTIM]:
        return -1
    first, at = state.tree[q, col.SECTION], state.tree[q, col.VICTIM_CURSOR]
    while at >= first:
        victim = state.lists[at, col.LIST_ACTIVE]
        if jobs[victim, col.JOB_PRIORITY] >= most_priority:
            at = first - 1  # those before it have no lower priority
            break
        if (
            victim != j
            and jobs[victim, col.JOB_ACTIVE] > jobs[victim, col.JOB_GATHERED]
            and not jobs[victim, col.JOB_MARKS] & col.FRESH
            and not is_shielded(state, victim, state.tree[q, col.SHIELD])
        ):
            break
        at -= 1
    state.tree[q, col.VICTIM_CURSOR] = at
    return state.lists[at, col.LIST_ACTIVE] if at >= first else -1


@borrowing_helper
def _pick(tree: Any, queues: Any, child: Any, q: int, mode: int, everything: float) -> None:
    """Set the best job below a queue, or below none, to that of its best child."""
    rank, share = col.RANK_PLACE + mode, col.SHARE_PLACE + mode
    top, least, smallest = -1, NEVER, -np.inf
    for at in range(tree[q, col.CHILD_FIRST], tree[q, col.CHILD_LAST]):
        other = child[at]
        other_rank, other_share = tree[other, rank], queues[other, share]
        is_as_low = other_rank == least
        is_before = (other_rank < least) | (is_as_low & (other_share < smallest))
        if is_as_low and other_share == smallest:
            is_before = _tie_before(tree, queues, other, top, everything) != (mode == EVICTING)
        # No branches: which queue comes next is hard to foresee.
        top = other if is_before else top
        least = other_rank if is_before else least
        smallest = other_share if is_before else smallest
    tree[q, col.BEST_PLACE + mode] = tree[top, col.BEST_PLACE + mode] if top >= 0 else -1
    if mode == PLACING and top >= 0:
        tree[q, col.NEXT_NEED] = tree[top, col.NEXT_NEED]


@borrowing_helper
def _climb(state: Any, q: int, mode: int) -> int:
    """Look again at a queue and all that is above it; returns the first job of the order."""
    tree, queues, everything = state.tree, state.queues, float(state.count[col.ALL_CAPACITY])
    roots = tree.shape[0] - 1
    _rank(tree, queues, state.jobs, q, mode, everything)
    q = tree[q, col.PARENT]
    while q >= 0:
        _pick(tree, queues, state.child, q, mode, everything)
        _rank(tree, queues, state.jobs, q, mode, everything)
        q = tree[q, col.PARENT]
    _pick(tree, queues, state.child, roots, mode, everything)
    return tree[roots, col.BEST_PLACE + mode]  # type: ignore[no-any-return]


@borrowing_helper
def _look_at_all(state: Any, mode: int) -> int:
    """Pick the best below every queue above others; returns the first job of the order.

    Those queues have none yet; that of a leaf says which of them have any below.
    """
    tree, queues, everything = state.tree, state.queues, float(state.count[col.ALL_CAPACITY])
    roots = tree.shape[0] - 1
    for i in range(roots):
        q = tree[i, col.UPWARDS]
        if tree[q, col.BEST_PLACE + mode] >= 0:
            if tree[q, col.CHILD_LAST] > tree[q, col.CHILD_FIRST]:
                _pick(tree, queues, state.child, q, mode, everything)
            if tree[q, col.PARENT] >= 0:
                tree[tree[q, col.PARENT], col.BEST_PLACE + mode] = tree[q, col.BEST_PLACE + mode]
        _rank(tree, queues, state.jobs, q, mode, everything)
    _pick(tree, queues, state.child, roots, mode, everything)
    return tree[roots, col.BEST_PLACE + mode]  # type: ignore[no-any-return]


@borrowing_helper
def _all_fail(state: Any, q: int, need: int) -> bool:
    """Pass all jobs left of a queue where all fail and need no more; returns whether it did."""
    classes = state.classes
    begin, end = state.tree[q, col.CLASS_BEGIN], state.tree[q, col.CLASS_END]
    for kind in range(begin, end):
        if classes[kind, col.CLASS_LEFT] > 0 and (
            classes[kind, col.CLASS_FAILED] != state.count[col.VERSION]
            or classes[kind, col.CLASS_NEED] > need
        ):
            return False
    for kind in range(begin, end):
        classes[kind, col.CLASS_LEFT] = 0
    return True


@borrowing_helper
def skip_failed(state: Any, q: int) -> None:
    """Pass the next job of a queue, of a class that fails, and those after it that fail as well.

    What needs no more than the one before it has the same turn: no other queue comes in between.
    """
    classes, lists, tree = state.classes, state.lists, state.tree
    at, end = tree[q, col.CURSOR], tree[q, col.SECTION] + tree[q, col.PENDING_COUNT]
    action, version = state.count[col.ACTION], state.count[col.VERSION]
    marks = state.count[col.SEVERAL] > 0
    need = classes[lists[at, col.LIST_KIND], col.CLASS_NEED]
    if not marks and end - at > tree[q, col.CLASS_END] - tree[q, col.CLASS_BEGIN]:
        if _all_fail(state, q, need):
            tree[q, col.CURSOR] = end
            return
    while at < end:
        kind = lists[at, col.LIST_KIND]
        if kind == col.NO_CLASS:
            at += 1
            continue
        if marks and state.jobs[lists[at, col.LIST_PENDING], col.JOB_TRIED] == action:
            at += 1
            continue
        if classes[kind, col.CLASS_FAILED] != version or classes[kind, col.CLASS_NEED] > need:
            break
        if marks:
            state.jobs[lists[at, col.LIST_PENDING], col.JOB_TRIED] = action
        classes[kind, col.CLASS_LEFT] -= 1
        at += 1
    tree[q, col.CURSOR] = at


@borrowing_helper
def first_pending(state: Any, begins: bool) -> int:
    """Return the first job to place, after anything may have changed; -1: there is none.

    ``begins``: as an action does. Later, where tasks of a job start one by one, jobs may have got
    another place in the lists, so that marks tell which were tried.
    """
    tree = state.tree
    again = begins or state.count[col.SEVERAL] > 0
    for q in range(tree.shape[0] - 1):
        if again:
            tree[q, col.CURSOR] = tree[q, col.SECTION]
        tree[q, col.BEST_PLACE] = _first_pending(state, q)
    return _look_at_all(state, PLACING)


@borrowing_helper
def next_pending(state: Any, q: int) -> int:
    """Return the first job to place where only a queue, and those above it, changed."""
    state.tree[q, col.BEST_PLACE] = _first_pending(state, q)
    return _climb(state, q, PLACING)


@borrowing_helper
def first_victim(state: Any, j: int, most_priority: int) -> int:
    """Return the first victim for a job, in the queues marked `IS_VICTIM`; -1: there is none."""
    tree = state.tree
    for q in range(tree.shape[0] - 1):
        tree[q, col.VICTIM_CURSOR] = tree[q, col.SECTION] + tree[q, col.ACTIVE_COUNT] - 1
        tree[q, col.BEST_EVICT] = _last_victim(state, q, j, most_priority)
    return _look_at_all(state, EVICTING)


@borrowing_helper
def next_victim(state: Any, q: int, j: int, most_priority: int) -> int:
    """Return the next victim for a job after one of a queue."""
    state.tree[q, col.BEST_EVICT] = _last_victim(state, q, j, most_priority)
    return _climb(state, q, EVICTING)


@borrowing_helper
def first_again(state: Any, batches: int) -> int:
    """Return the first victim that has no place yet; -1: there is none."""
    tree = state.tree
    for q in range(tree.shape[0] - 1):
        tree[q, col.BEST_REPLACE] = -1
    for b in range(batches):
        _offer_again(state, state.batches[b, col.BATCH_JOB])
    return _look_at_all(state, REPLACING)


@borrowing_helper
def next_again(state: Any, q: int, batches: int) -> int:
    """Return the first victim that has no place yet, after one of a queue."""
    state.tree[q, col.BEST_REPLACE] = -1
    for b in range(batches):
        j = state.batches[b, col.BATCH_JOB]
        if state.jobs[j, col.JOB_QUEUE] == q:
            _offer_again(state, j)
    return _climb(state, q, REPLACING)


@borrowing_helper
def _offer_again(state: Any, j: int) -> None:
    """Make a victim without a place the best of its queue if it comes first."""
    tree, jobs = state.tree, state.jobs
    q = jobs[j, col.JOB_QUEUE]
    best = tree[q, col.BEST_REPLACE]
    if not jobs[j, col.JOB_MARKS] & col.SETTLED and (
        best < 0 or is_before(jobs, j, fullness(jobs, j), best, fullness(jobs, best))
    ):
        tree[q, col.BEST_REPLACE] = j
