"""Which victims of KAI's evictions may be lost: have no place any more."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.quota.kai_candidates import CONSOLIDATE, PREEMPT
from gpuplan.simkit.quota.kai_share import (
    BEFORE,
    FAIR,
    REMAINING,
)
from gpuplan.simkit.quota.kai_state import (
    BATCH_ABOVE,
    BATCH_APART,
    BATCH_END,
    BATCH_JOB,
    BATCH_OUT,
    BATCH_TASK,
    CHILD_FIRST,
    CHILD_LAST,
    JOB_MARKS,
    JOB_QUEUE,
    JOB_SIZE,
    PARENT,
    SETTLED,
    TASK_LEAVING,
    TASK_STATE,
    allocatable,
    within_deserved,
)


@borrowing_helper
def _lost(state: Any, b: int) -> int:
    """Return how many tasks of a batch have no place any more."""
    first = state.batches[b - 1, BATCH_END] if b else 0
    count = 0
    for i in range(first, state.batches[b, BATCH_END]):
        count += state.tasks[state.batches[i, BATCH_TASK], TASK_STATE] == TASK_LEAVING
    return count


@borrowing_helper
def may_be_lost(state: Any, j: int, action: int, batches: int, need: float) -> bool:
    """Return whether all settled victims that have no place may be lost.

    What is lost up to each one is subtracted from the amounts `REMAINING`. More that is lost makes
    no choice valid that is not.
    """
    if action == PREEMPT:
        return True
    if action == CONSOLIDATE:
        return False
    jobs, queues, tree = state.jobs, state.queues, state.tree
    for q in range(queues.shape[0]):
        queues[q, REMAINING] = queues[q, BEFORE]
    for b in range(batches):
        victim = state.batches[b, BATCH_JOB]
        if not state.batches[b, BATCH_OUT] or not jobs[victim, JOB_MARKS] & SETTLED:
            continue
        count = _lost(state, b)
        if count == 0:
            continue
        a, other = state.batches[b, BATCH_ABOVE], state.batches[b, BATCH_APART]
        is_over = queues[other, REMAINING] > allocatable(queues, other)
        if not is_over and not (
            within_deserved(queues, a, queues[a, BEFORE] + need)
            and not within_deserved(queues, other, queues[other, REMAINING])
        ):
            return False
        q = jobs[victim, JOB_QUEUE]
        while q >= 0:
            queues[q, REMAINING] -= count * jobs[victim, JOB_SIZE]
            q = tree[q, PARENT]
    return True


@borrowing_helper
def keeps_balance(state: Any, j: int, need: float) -> bool:
    """Return whether no queue above a reclaiming job gets a larger share than one that lost."""
    queues, tree = state.queues, state.tree
    q = state.jobs[j, JOB_QUEUE]
    while q >= 0:
        fair = queues[q, FAIR]
        held = queues[q, REMAINING] + need
        ratio = held / fair if fair > 0 else (1e300 if held > 0 else 0.0)
        above = tree[q, PARENT] if tree[q, PARENT] >= 0 else queues.shape[0]
        for at in range(tree[above, CHILD_FIRST], tree[above, CHILD_LAST]):
            other = state.child[at]
            if other == q:
                continue
            if queues[other, REMAINING] == queues[other, BEFORE] or queues[other, FAIR] <= 0:
                continue
            if ratio > 1 and ratio >= queues[other, REMAINING] / queues[other, FAIR]:
                return False
        q = tree[q, PARENT]
    return True
