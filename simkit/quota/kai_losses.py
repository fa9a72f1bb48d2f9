"""Which victims of KAI's evictions may be lost: have no place any more."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.quota import kai_columns as col
from gpuplan.simkit.quota.kai_candidates import CONSOLIDATE, PREEMPT
from gpuplan.simkit.quota.kai_state import allocatable, within_deserved


@borrowing_helper
def _lost(state: Any, b: int) -> int:
    """Return how many tasks of a batch have no place any more."""
    first = state.batches[b - 1, col.BATCH_END] if b else 0
    count = 0
    for i in range(first, state.batches[b, col.BATCH_END]):
        count += state.tasks[state.batches[i, col.BATCH_TASK], col.TASK_STATE] == col.TASK_LEAVING
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
        queues[q, col.REMAINING] = queues[q, col.BEFORE]
    for b in range(batches):
        victim = state.batches[b, col.BATCH_JOB]
        if not state.batches[b, col.BATCH_OUT] or not jobs[victim, col.JOB_MARKS] & col.SETTLED:
            continue
        count = _lost(state, b)
        if count == 0:
            continue
        a, other = state.batches[b, col.BATCH_ABOVE], state.batches[b, col.BATCH_APART]
        is_over = queues[other, col.REMAINING] > allocatable(queues, other)
        if not is_over and not (
            within_deserved(queues, a, queues[a, col.BEFORE] + need)
            and not within_deserved(queues, other, queues[other, col.REMAINING])
        ):
            return False
        q = jobs[victim, col.JOB_QUEUE]
        while q >= 0:
            queues[q, col.REMAINING] -= count * jobs[victim, col.JOB_SIZE]
            q = tree[q, col.PARENT]
    return True


@borrowing_helper
def keeps_balance(state: Any, j: int, need: float) -> bool:
    """Return whether no queue above a reclaiming job gets a larger share than one that lost."""
    queues, tree = state.queues, state.tree
    q = state.jobs[j, col.JOB_QUEUE]
    while q >= 0:
        fair = queues[q, col.FAIR]
        held = queues[q, col.REMAINING] + need
        ratio = held / fair if fair > 0 else (1e300 if held > 0 else 0.0)
        above = tree[q, col.PARENT] if tree[q, col.PARENT] >= 0 else queues.shape[0]
        for at in range(tree[above, col.CHILD_FIRST], tree[above, col.CHILD_LAST]):
            other = state.child[at]
            if other == q:
                continue
            if (
                queues[other, col.REMAINING] == queues[other, col.BEFORE]
                or queues[other, col.FAIR] <= 0
            ):
                continue
            if ratio > 1 and ratio >= queues[other, col.REMAINING] / queues[other, col.FAIR]:
                return False
        q = tree[q, col.PARENT]
    return True
