"""One scheduling round of KAI: allocate, consolidation, reclaim, preempt."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_helper, borrowing_kernel
from gpuplan.simkit.quota import kai_columns as col
from gpuplan.simkit.quota.kai_candidates import (
    CONSOLIDATE,
    PREEMPT,
    RECLAIM,
    may_search,
    note_changes,
)
from gpuplan.simkit.quota.kai_lists import enlist, keep_place, relist
from gpuplan.simkit.quota.kai_order import (
    first_pending,
    next_pending,
    skip_failed,
)
from gpuplan.simkit.quota.kai_search import search
from gpuplan.simkit.quota.kai_share import divide
from gpuplan.simkit.quota.kai_state import (
    add_to_queue,
    count_rooms,
    fits_nodes,
    fits_queue,
    place_job,
    request,
    touch,
)
from gpuplan.simkit.reference import by_reference

ALLOCATE = -1  # the first action; the others are those of the search


@borrowing_helper
def _divide(state: Any, k: float) -> None:
    """Divide the GPUs into fair shares, level by level."""
    tree, queues = state.tree, state.queues
    roots = tree.shape[0] - 1
    level = state.child[tree[roots, col.CHILD_FIRST] : tree[roots, col.CHILD_LAST]]
    divide(queues, level, float(state.count[col.ALL_CAPACITY]), k)
    for i in range(roots - 1, -1, -1):
        q = tree[i, col.UPWARDS]
        level = state.child[tree[q, col.CHILD_FIRST] : tree[q, col.CHILD_LAST]]
        if level.size:
            divide(queues, level, queues[q, col.FAIR], k)
    state.count[col.DIVIDED] = 1


@borrowing_helper
def _may_try(state: Any, kind: int, action: int) -> bool:
    """Return whether an action may place the jobs of a class, as far as a quick look tells."""
    classes = state.classes
    if classes[kind, col.CLASS_FAILED] == state.count[col.VERSION]:
        return False
    if classes[kind, col.CLASS_HOPEFUL] == state.count[col.CHANGES]:
        return True
    if action == ALLOCATE:
        need, fixed = float(classes[kind, col.CLASS_NEED]), classes[kind, col.CLASS_FIXED]
        may = fits_nodes(
            state, classes[kind, col.CLASS_SIZE], classes[kind, col.CLASS_WANTED]
        ) and fits_queue(state, classes[kind, col.CLASS_QUEUE], fixed, need)
    else:
        may = may_search(state, kind, action)
    if may:
        classes[kind, col.CLASS_HOPEFUL] = state.count[col.CHANGES]
    else:
        classes[kind, col.CLASS_FAILED] = state.count[col.VERSION]
    return may


@borrowing_helper
def _is_hopeless(state: Any, action: int, begins: bool) -> bool:
    """Return whether an action, which may just begin, can place none of the jobs it has not tried.

    What it cannot place it cannot until something changes, so no class is looked at twice before.
    """
    classes = state.classes
    for i in range(state.count[col.LOOKED], state.count[col.CLASSES]):
        kind = state.lists[i, col.LIST_CLASSES]
        state.count[col.LOOKED] = i
        if (begins or classes[kind, col.CLASS_LEFT] > 0) and _may_try(state, kind, action):
            return False
    state.count[col.LOOKED] = state.count[col.CLASSES]
    return True


@borrowing_helper
def _begin_version(state: Any, action: int) -> None:
    """Forget which classes failed; for reclaim note whose amounts changed."""
    state.count[col.VERSION] += 1
    state.count[col.CHANGES] += 1
    state.count[col.LOOKED] = 0
    if action == RECLAIM:
        note_changes(state)


@borrowing_helper
def _act(state: Any, action: int) -> None:
    """Try all pending jobs in order; jobs of a class fail alike until something changes."""
    jobs, classes = state.jobs, state.classes
    state.count[col.ACTION] += 1
    _begin_version(state, action)
    if _is_hopeless(state, action, True):
        return
    for i in range(state.count[col.CLASSES]):
        kind = state.lists[i, col.LIST_CLASSES]
        classes[kind, col.CLASS_LEFT] = classes[kind, col.CLASS_COUNT]
    j = first_pending(state, True)
    while j >= 0:
        kind, q = jobs[j, col.JOB_CLASS], jobs[j, col.JOB_QUEUE]
        if not _may_try(state, kind, action):
            skip_failed(state, q)
            j = next_pending(state, q)
            continue
        done, is_tried = False, True
        if action == ALLOCATE:
            done = place_job(state, j, False)
            if done:
                touch(state, j)
                jobs[j, col.JOB_MARKS] |= col.FRESH
                is_tried = jobs[j, col.JOB_PENDING] == 0
                if state.count[col.SEVERAL] == 0:
                    keep_place(state, j)
                else:
                    relist(state, j)
                state.count[col.CHANGES] += 1
        else:
            done = search(state, j, action)
            if done:
                _begin_version(state, action)
        if not done:
            classes[kind, col.CLASS_FAILED] = state.count[col.VERSION]
        if is_tried:
            jobs[j, col.JOB_TRIED] = state.count[col.ACTION]
            if not done and state.count[col.SEVERAL] == 0:
                state.tree[q, col.CURSOR] += 1
            classes[kind, col.CLASS_LEFT] -= 1
        if _is_hopeless(state, action, False):
            return
        j = first_pending(state, False) if done and action != ALLOCATE else next_pending(state, q)


@borrowing_helper
def run_round(state: Any, k: float) -> None:
    """Run one round; the states of tasks tell what was decided."""
    if state.count[col.DIVIDED] == 0 or k > 0:
        _divide(state, k)
    _act(state, ALLOCATE)
    for action in (CONSOLIDATE, RECLAIM, PREEMPT):
        _act(state, action)


@borrowing_kernel
def settle(tables: Any) -> None:
    """End a round: evicted tasks have stopped and wait, those that were placed run."""
    state = by_reference(tables)
    jobs, tasks, nodes = state.jobs, state.tasks, state.nodes
    state.count[col.TOUCHED_JOBS] = state.count[col.CLASSES] = 0
    state.classes[:, col.CLASS_COUNT] = 0
    for node in range(nodes.shape[0]):
        nodes[node, col.IDLE] = nodes[node, col.CAPACITY]
    for q in range(state.tree.shape[0]):
        state.tree[q, col.PENDING_COUNT] = state.tree[q, col.ACTIVE_COUNT] = 0
    for q in range(state.queues.shape[0]):
        state.queues[q, col.REQUESTED] = state.queues[q, col.ALLOCATED] = state.queues[
            q, col.FIXED
        ] = 0.0
    for j in range(jobs.shape[0]):
        active = pending = 0
        for task in range(jobs[j, col.JOB_FIRST], jobs[j, col.JOB_LAST]):
            how = tasks[task, col.TASK_STATE]
            if how == col.TASK_LEAVING or how == col.TASK_PENDING:
                tasks[task, col.TASK_STATE], tasks[task, col.TASK_NODE] = col.TASK_PENDING, -1
                pending += 1
            elif how == col.TASK_RUNNING or how == col.TASK_PLACED or how == col.TASK_WAITS:
                tasks[task, col.TASK_STATE] = col.TASK_RUNNING
                nodes[tasks[task, col.TASK_NODE], col.IDLE] -= jobs[j, col.JOB_SIZE]
                active += 1
            tasks[task, col.TASK_OLD], tasks[task, col.TASK_BATCH] = -1, 0
        jobs[j, col.JOB_ACTIVE], jobs[j, col.JOB_PENDING] = active, pending
        jobs[j, col.JOB_ALIVE] = active + pending
        jobs[j, col.JOB_MARKS] = 0
        add_to_queue(state, j, float(active * jobs[j, col.JOB_SIZE]))
        request(state, j, float((active + pending) * jobs[j, col.JOB_SIZE]))
        enlist(state, j)
    count_rooms(state)
