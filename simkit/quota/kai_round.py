"""One scheduling round of KAI: allocate, consolidation, reclaim, preempt."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_helper, borrowing_kernel
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
from gpuplan.simkit.quota.kai_share import ALLOCATED, FAIR, FIXED, REQUESTED, divide
from gpuplan.simkit.quota.kai_state import (
    ACTION,
    ACTIVE_COUNT,
    ALL_CAPACITY,
    CAPACITY,
    CHANGES,
    CHILD_FIRST,
    CHILD_LAST,
    CLASS_COUNT,
    CLASS_FAILED,
    CLASS_FIXED,
    CLASS_HOPEFUL,
    CLASS_LEFT,
    CLASS_NEED,
    CLASS_QUEUE,
    CLASS_SIZE,
    CLASS_WANTED,
    CLASSES,
    CURSOR,
    DIVIDED,
    FRESH,
    IDLE,
    JOB_ACTIVE,
    JOB_ALIVE,
    JOB_CLASS,
    JOB_FIRST,
    JOB_LAST,
    JOB_MARKS,
    JOB_PENDING,
    JOB_QUEUE,
    JOB_SIZE,
    JOB_TRIED,
    LIST_CLASSES,
    LOOKED,
    PENDING_COUNT,
    SEVERAL,
    TASK_BATCH,
    TASK_LEAVING,
    TASK_NODE,
    TASK_OLD,
    TASK_PENDING,
    TASK_PLACED,
    TASK_RUNNING,
    TASK_STATE,
    TASK_WAITS,
    TOUCHED_JOBS,
    UPWARDS,
    VERSION,
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
    level = state.child[tree[roots, CHILD_FIRST] : tree[roots, CHILD_LAST]]
    divide(queues, level, float(state.count[ALL_CAPACITY]), k)
    for i in range(roots - 1, -1, -1):
        q = tree[i, UPWARDS]
        level = state.child[tree[q, CHILD_FIRST] : tree[q, CHILD_LAST]]
        if level.size:
            divide(queues, level, queues[q, FAIR], k)
    state.count[DIVIDED] = 1


@borrowing_helper
def _may_try(state: Any, kind: int, action: int) -> bool:
    """Return whether an action may place the jobs of a class, as far as a quick look tells."""
    classes = state.classes
    if classes[kind, CLASS_FAILED] == state.count[VERSION]:
        return False
    if classes[kind, CLASS_HOPEFUL] == state.count[CHANGES]:
        return True
    if action == ALLOCATE:
        need, fixed = float(classes[kind, CLASS_NEED]), classes[kind, CLASS_FIXED]
        may = fits_nodes(
            state, classes[kind, CLASS_SIZE], classes[kind, CLASS_WANTED]
        ) and fits_queue(state, classes[kind, CLASS_QUEUE], fixed, need)
    else:
        may = may_search(state, kind, action)
    if may:
        classes[kind, CLASS_HOPEFUL] = state.count[CHANGES]
    else:
        classes[kind, CLASS_FAILED] = state.count[VERSION]
    return may


@borrowing_helper
def _is_hopeless(state: Any, action: int, begins: bool) -> bool:
    """Return whether an action, which may just begin, can place none of the jobs it has not tried.

    What it cannot place it cannot until something changes, so no class is looked at twice before.
    """
    classes = state.classes
    for i in range(state.count[LOOKED], state.count[CLASSES]):
        kind = state.lists[i, LIST_CLASSES]
        state.count[LOOKED] = i
        if (begins or classes[kind, CLASS_LEFT] > 0) and _may_try(state, kind, action):
            return False
    state.count[LOOKED] = state.count[CLASSES]
    return True


@borrowing_helper
def _begin_version(state: Any, action: int) -> None:
    """Forget which classes failed; for reclaim note whose amounts changed."""
    state.count[VERSION] += 1
    state.count[CHANGES] += 1
    state.count[LOOKED] = 0
    if action == RECLAIM:
        note_changes(state)


@borrowing_helper
def _act(state: Any, action: int) -> None:
    """Try all pending jobs in order; jobs of a class fail alike until something changes."""
    jobs, classes = state.jobs, state.classes
    state.count[ACTION] += 1
    _begin_version(state, action)
    if _is_hopeless(state, action, True):
        return
    for i in range(state.count[CLASSES]):
        kind = state.lists[i, LIST_CLASSES]
        classes[kind, CLASS_LEFT] = classes[kind, CLASS_COUNT]
    j = first_pending(state, True)
    while j >= 0:
        kind, q = jobs[j, JOB_CLASS], jobs[j, JOB_QUEUE]
        if not _may_try(state, kind, action):
            skip_failed(state, q)
            j = next_pending(state, q)
            continue
        done, is_tried = False, True
        if action == ALLOCATE:
            done = place_job(state, j, False)
            if done:
                touch(state, j)
                jobs[j, JOB_MARKS] |= FRESH
                is_tried = jobs[j, JOB_PENDING] == 0
                if state.count[SEVERAL] == 0:
                    keep_place(state, j)
                else:
                    relist(state, j)
                state.count[CHANGES] += 1
        else:
            done = search(state, j, action)
            if done:
                _begin_version(state, action)
        if not done:
            classes[kind, CLASS_FAILED] = state.count[VERSION]
        if is_tried:
            jobs[j, JOB_TRIED] = state.count[ACTION]
            if not done and state.count[SEVERAL] == 0:
                state.tree[q, CURSOR] += 1
            classes[kind, CLASS_LEFT] -= 1
        if _is_hopeless(state, action, False):
            return
        j = first_pending(state, False) if done and action != ALLOCATE else next_pending(state, q)


@borrowing_helper
def run_round(state: Any, k: float) -> None:
    """Run one round; the states of tasks tell what was decided."""
    if state.count[DIVIDED] == 0 or k > 0:
        _divide(state, k)
    _act(state, ALLOCATE)
    for action in (CONSOLIDATE, RECLAIM, PREEMPT):
        _act(state, action)


@borrowing_kernel
def settle(tables: Any) -> None:
    """End a round: evicted tasks have stopped and wait, those that were placed run."""
    state = by_reference(tables)
    jobs, tasks, nodes = state.jobs, state.tasks, state.nodes
    state.count[TOUCHED_JOBS] = state.count[CLASSES] = 0
    state.classes[:, CLASS_COUNT] = 0
    for node in range(nodes.shape[0]):
        nodes[node, IDLE] = nodes[node, CAPACITY]
    for q in range(state.tree.shape[0]):
        state.tree[q, PENDING_COUNT] = state.tree[q, ACTIVE_COUNT] = 0
    for q in range(state.queues.shape[0]):
        state.queues[q, REQUESTED] = state.queues[q, ALLOCATED] = state.queues[q, FIXED] = 0.0
    for j in range(jobs.shape[0]):
        active = pending = 0
        for task in range(jobs[j, JOB_FIRST], jobs[j, JOB_LAST]):
            how = tasks[task, TASK_STATE]
            if how == TASK_LEAVING or how == TASK_PENDING:
                tasks[task, TASK_STATE], tasks[task, TASK_NODE] = TASK_PENDING, -1
                pending += 1
            elif how == TASK_RUNNING or how == TASK_PLACED or how == TASK_WAITS:
                tasks[task, TASK_STATE] = TASK_RUNNING
                nodes[tasks[task, TASK_NODE], IDLE] -= jobs[j, JOB_SIZE]
                active += 1
            tasks[task, TASK_OLD], tasks[task, TASK_BATCH] = -1, 0
        jobs[j, JOB_ACTIVE], jobs[j, JOB_PENDING] = active, pending
        jobs[j, JOB_ALIVE] = active + pending
        jobs[j, JOB_MARKS] = 0
        add_to_queue(state, j, float(active * jobs[j, JOB_SIZE]))
        request(state, j, float((active + pending) * jobs[j, JOB_SIZE]))
        enlist(state, j)
    count_rooms(state)
