"""Which pending jobs of KAI may look for victims, and where these may run."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.quota import kai_columns as col
from gpuplan.simkit.quota.kai_order import (
    first_victim,
    next_victim,
)
from gpuplan.simkit.quota.kai_state import allocatable, fits_queue, room_for, within_deserved

CONSOLIDATE, RECLAIM, PREEMPT = range(3)
ANY_PRIORITY = 1 << 60


@borrowing_helper
def may_search(state: Any, kind: int, action: int) -> bool:
    """Return whether pending jobs of a class may look for victims, and might find enough."""
    classes, queues, tree = state.classes, state.queues, state.tree
    need, q = float(classes[kind, col.CLASS_NEED]), classes[kind, col.CLASS_QUEUE]
    fixed = classes[kind, col.CLASS_FIXED]
    missing = need - state.count[col.ALL_FUTURE]
    if action == CONSOLIDATE:
        return (
            not fixed
            and missing <= 0
            and fits_queue(state, q, fixed, need)
            and _might_move(state, kind)
        )
    if action == RECLAIM:
        shape = classes[kind, col.CLASS_SHAPE]
        if classes[shape, col.SHAPE_POOR] >= state.count[col.ALL_FUTURE] and _is_unchanged(
            tree, q, classes[shape, col.SHAPE_POOR_AT]
        ):
            return False
        if queues[q, col.ALLOCATED] + need > queues[q, col.FAIR]:
            classes[shape, col.SHAPE_POOR_AT] = state.count[col.VERSION]
            classes[shape, col.SHAPE_POOR] = state.count[col.ALL_CAPACITY]
            return False
        if fixed and not within_deserved(queues, q, queues[q, col.FIXED] + need):
            return False
        return _might_gain(state, kind)
    last = tree[q, col.SECTION] + tree[q, col.ACTIVE_COUNT] - 1
    if last < tree[q, col.SECTION] or queues[q, col.ALLOCATED] - queues[q, col.FIXED] < missing:
        return False
    if (
        state.jobs[state.lists[last, col.LIST_ACTIVE], col.JOB_PRIORITY]
        >= classes[kind, col.CLASS_PRIORITY]
    ):
        return False
    while q >= 0 and fixed:
        if not within_deserved(queues, q, queues[q, col.FIXED] + need):
            return False
        q = tree[q, col.PARENT]
    return _might_make_room(state, kind, action)


@borrowing_helper
def _is_unchanged(tree: Any, q: int, version: int) -> bool:
    """Return whether all is as at a version that tells whether a queue has enough to reclaim."""
    above = tree[q, col.PARENT] if tree[q, col.PARENT] >= 0 else tree.shape[0] - 1
    return version >= tree[q, col.SEEN_AT] and version >= tree[above, col.LEVEL_AT]  # type: ignore[no-any-return]


@borrowing_helper
def note_changes(state: Any) -> None:
    """Note the queues, and the levels that may lose, of which amounts have changed.

    A queue that has too little to reclaim has too little until then, with no more free GPUs: less
    is missing only with more. Where all queues of a level deserve all, none loses to another.
    """
    queues, tree, version = state.queues, state.tree, state.count[col.VERSION]
    roots = tree.shape[0] - 1
    for i in range(roots, -1, -1):  # from the top down
        above = tree[i, col.UPWARDS] if i < roots else roots
        changed = False
        for at in range(tree[above, col.CHILD_FIRST], tree[above, col.CHILD_LAST]):
            q = state.child[at]
            held, fixed, fair = queues[q, col.ALLOCATED], queues[q, col.FIXED], queues[q, col.FAIR]
            if (
                held != queues[q, col.SEEN_ALLOCATED]
                or fixed != queues[q, col.SEEN_FIXED]
                or fair != queues[q, col.SEEN_FAIR]
            ):
                queues[q, col.SEEN_ALLOCATED], queues[q, col.SEEN_FIXED] = held, fixed
                queues[q, col.SEEN_FAIR] = fair
                tree[q, col.SEEN_AT] = version
                changed = True
        if changed and tree[above, col.MAY_LOSE]:
            tree[above, col.LEVEL_AT] = version
        if above < roots:
            higher = tree[above, col.PARENT] if tree[above, col.PARENT] >= 0 else roots
            tree[above, col.LEVEL_AT] = max(tree[above, col.LEVEL_AT], tree[higher, col.LEVEL_AT])


@borrowing_helper
def _might_gain(state: Any, kind: int) -> bool:
    """Return whether jobs of a class might reclaim enough; those of other priorities fare alike."""
    classes = state.classes
    need, shape = float(classes[kind, col.CLASS_NEED]), classes[kind, col.CLASS_SHAPE]
    if classes[shape, col.SHAPE_FAILED] == state.count[col.VERSION]:
        return False
    if classes[shape, col.SHAPE_HOPEFUL] == state.count[col.VERSION]:
        return True
    missing = need - state.count[col.ALL_FUTURE]
    may = _might_reclaim(state, classes[kind, col.CLASS_QUEUE], need, missing)
    if not may:
        classes[shape, col.SHAPE_POOR_AT] = state.count[col.VERSION]
        classes[shape, col.SHAPE_POOR] = state.count[col.ALL_FUTURE]
    may = may and _might_make_room(state, kind, RECLAIM)
    classes[shape, col.SHAPE_HOPEFUL if may else col.SHAPE_FAILED] = state.count[col.VERSION]
    return may


@borrowing_helper
def mark_victims(state: Any, kind: int, action: int) -> int:
    """Mark the queues with possible victims of a search; returns which priority is none's."""
    queues, tree, classes = state.queues, state.tree, state.classes
    leaf = classes[kind, col.CLASS_QUEUE]
    if action == RECLAIM:
        _mark_losing(state, leaf, float(classes[kind, col.CLASS_NEED]))
    for q in range(tree.shape[0] - 1):
        queues[q, col.POPPED] = queues[q, col.EVICTABLE] = queues[q, col.LARGEST] = 0.0
        tree[q, col.SHIELD] = 0
        is_victim = tree[q, col.ACTIVE_COUNT] > 0
        if action == RECLAIM:
            is_victim = is_victim and tree[q, col.APART] >= 0
            tree[q, col.SHIELD] = tree[q, col.RECLAIM_SHIELD]
        elif action == PREEMPT:
            is_victim = is_victim and q == leaf
            tree[q, col.SHIELD] = tree[q, col.PREEMPT_SHIELD]
        tree[q, col.IS_VICTIM] = is_victim
    return classes[kind, col.CLASS_PRIORITY] if action == PREEMPT else ANY_PRIORITY


@borrowing_helper
def _loses(queues: Any, a: int, b: int, need: float) -> bool:
    """Return whether a queue takes from a sibling when it needs an amount more."""
    if within_deserved(queues, a, queues[a, col.ALLOCATED] + need):
        return queues[b, col.DESERVED] >= 0 and queues[b, col.ALLOCATED] >= queues[b, col.DESERVED]  # type: ignore[no-any-return]
    return queues[b, col.ALLOCATED] > allocatable(queues, b)  # type: ignore[no-any-return]


@borrowing_helper
def _mark_losing(state: Any, leaf: int, need: float) -> None:
    """Note from which siblings of the queues from a leaf up an amount may be reclaimed.

    All queues below such a one, and it, are marked with it and with the queue that takes from it.
    """
    queues, tree = state.queues, state.tree
    roots = tree.shape[0] - 1
    for q in range(roots):
        tree[q, col.APART] = -1
    a = leaf
    while a >= 0:
        above = tree[a, col.PARENT] if tree[a, col.PARENT] >= 0 else roots
        within = within_deserved(queues, a, queues[a, col.ALLOCATED] + need)
        for at in range(tree[above, col.CHILD_FIRST], tree[above, col.CHILD_LAST]):
            b = state.child[at]
            if b == a or not _loses(queues, a, b, need):
                continue
            least = allocatable(queues, b)
            if within and queues[b, col.DESERVED] >= 0:
                least = min(least, queues[b, col.DESERVED])
            tree[b, col.ABOVE], tree[b, col.APART] = a, b
            queues[b, col.EXCESS] = queues[b, col.ALLOCATED] - least
        a = tree[a, col.PARENT]
    for i in range(roots - 1, -1, -1):
        q = tree[i, col.UPWARDS]
        above = tree[q, col.PARENT]
        if above >= 0 and tree[q, col.APART] < 0:
            tree[q, col.ABOVE], tree[q, col.APART] = tree[above, col.ABOVE], tree[above, col.APART]


@borrowing_helper
def _might_reclaim(state: Any, q: int, need: float, missing: float) -> bool:
    """Return whether the queues that a queue may reclaim from hold enough that can be evicted."""
    queues, tree, lost = state.queues, state.tree, 0.0
    while q >= 0:
        fair, held = queues[q, col.FAIR], queues[q, col.ALLOCATED] - lost + need
        ratio = held / fair if fair > 0 else 0.0
        within = within_deserved(queues, q, queues[q, col.ALLOCATED] + need)
        above = tree[q, col.PARENT] if tree[q, col.PARENT] >= 0 else tree.shape[0] - 1
        for at in range(tree[above, col.CHILD_FIRST], tree[above, col.CHILD_LAST]):
            other = state.child[at]
            evictable = queues[other, col.ALLOCATED] - queues[other, col.FIXED]
            if other == q or evictable <= 0 or not _loses(queues, q, other, need):
                continue
            # Nothing more is lost once it holds no more than it may; then at most one job less.
            least = allocatable(queues, other)
            if within and queues[other, col.DESERVED] >= 0:
                least = min(least, queues[other, col.DESERVED])
            if queues[other, col.ALLOCATED] <= least and missing > 0:
                continue
            most = queues[other, col.ALLOCATED] - least + state.count[col.MOST_GANG]
            if ratio > 1 and queues[other, col.FAIR] > 0:  # the siblings with less would lose to it
                most = min(
                    most, queues[other, col.ALLOCATED] - ratio * queues[other, col.FAIR] + 1e-6
                )
            lost += max(0.0, min(evictable, most))
            if lost >= missing:
                return True
        q = tree[q, col.PARENT]
    return False


@borrowing_helper
def _list_moved(state: Any) -> None:
    """List the tasks of all victims that a consolidation looks at, whichever job it is for."""
    jobs, tasks, tree, batches = state.jobs, state.tasks, state.tree, state.batches
    for q in range(tree.shape[0] - 1):
        state.queues[q, col.POPPED] = 0.0
        tree[q, col.IS_VICTIM], tree[q, col.SHIELD] = 1, 0
    victims = count = 0
    victim = first_victim(state, -1, ANY_PRIORITY)
    while victim >= 0 and victims < state.count[col.MOST_MOVED]:
        batches[victims, col.BATCH_JOB] = victim
        victims += 1
        for task in range(jobs[victim, col.JOB_FIRST], jobs[victim, col.JOB_LAST]):
            if tasks[task, col.TASK_STATE] == col.TASK_RUNNING:
                batches[count, col.MOVED_NODE] = tasks[task, col.TASK_NODE]
                batches[count, col.MOVED_SIZE] = jobs[victim, col.JOB_SIZE]
                count += 1
        q = jobs[victim, col.JOB_QUEUE]
        jobs[victim, col.JOB_GATHERED] = jobs[victim, col.JOB_ACTIVE]
        while q >= 0:
            state.queues[q, col.POPPED] += jobs[victim, col.JOB_ACTIVE] * jobs[victim, col.JOB_SIZE]
            q = tree[q, col.PARENT]
        victim = next_victim(state, jobs[victim, col.JOB_QUEUE], -1, ANY_PRIORITY)
    for i in range(victims):
        jobs[batches[i, col.BATCH_JOB], col.JOB_GATHERED] = 0
    state.count[col.MOVED], state.count[col.MOVED_AT] = count, state.count[col.VERSION]


@borrowing_helper
def _might_move(state: Any, kind: int) -> bool:
    """Return whether a consolidation might make room for a class, as far as node sizes tell.

    A moved task takes at least as much room for tasks of the job as what it holds would give. Jobs
    of which a part is evicted at a time may have another order of victims.
    """
    if state.count[col.SEVERAL] > 0:
        return True
    if state.count[col.MOVED_AT] != state.count[col.VERSION]:
        _list_moved(state)
    size = state.classes[kind, col.CLASS_SIZE]
    if size >= state.rooms.size:
        return False
    if state.moved[size, col.MOVED_FOR] != state.count[col.VERSION]:
        state.moved[size, col.MOVED_FOR] = state.count[col.VERSION]
        state.moved[size, col.MOVED_SLOTS] = _slots_if_moved(state, size)
    return state.moved[size, col.MOVED_SLOTS] >= state.classes[kind, col.CLASS_WANTED]  # type: ignore[no-any-return]


@borrowing_helper
def _slots_if_moved(state: Any, size: int) -> int:
    """Return how many tasks of a size would have room at most once all moved tasks have theirs."""
    nodes, batches = state.nodes, state.batches
    slots = 0
    for free in range(size, state.rooms.size):
        slots += state.rooms[free] * (free // size)
    for i in range(state.count[col.MOVED]):
        node, held = batches[i, col.MOVED_NODE], batches[i, col.MOVED_SIZE]
        free = nodes[node, col.FUTURE] + nodes[node, col.NODE_FREED]
        slots += room_for(free + held, size) - room_for(free, size) - room_for(held, size)
        nodes[node, col.NODE_FREED] += held
    for i in range(state.count[col.MOVED]):
        nodes[batches[i, col.MOVED_NODE], col.NODE_FREED] = 0
    return slots


@borrowing_helper
def _lost_slots(queues: Any, b: int, size: int) -> int:
    """Return for how many tasks of a size there is room at most where a queue lost victims.

    It loses them while it has more than its least: all but the last are less than its excess.
    """
    if queues[b, col.EXCESS] <= 0:
        return 0
    most = np.ceil(queues[b, col.EXCESS] / size) - 1.0 + queues[b, col.LARGEST]
    return int(min(queues[b, col.EVICTABLE], most))


@borrowing_helper
def more_lost(state: Any, victim: int, count: int, size: int) -> int:
    """Count a batch of tasks as evictable; returns how many more of a size may have their room."""
    queues, b = state.queues, state.tree[state.jobs[victim, col.JOB_QUEUE], col.APART]
    before = _lost_slots(queues, b, size)
    slots = float(count * room_for(state.jobs[victim, col.JOB_SIZE], size))
    queues[b, col.EVICTABLE] += slots
    queues[b, col.LARGEST] = max(queues[b, col.LARGEST], slots)
    return _lost_slots(queues, b, size) - before


@borrowing_helper
def _might_make_room(state: Any, kind: int, action: int) -> bool:
    """Return whether a job of a class would have room with all possible victims gone."""
    jobs, tasks, nodes, tree = state.jobs, state.tasks, state.nodes, state.tree
    begin, end = 0, tree.shape[0] - 1
    if action == PREEMPT:
        begin = state.classes[kind, col.CLASS_QUEUE]
        end, most_priority = begin + 1, state.classes[kind, col.CLASS_PRIORITY]
        tree[begin, col.IS_VICTIM] = 1
    else:
        most_priority = mark_victims(state, kind, action)
    size, slots, listed = (
        state.classes[kind, col.CLASS_SIZE],
        -state.classes[kind, col.CLASS_WANTED],
        0,
    )
    for free in range(size, state.rooms.size):
        slots += state.rooms[free] * (free // size)
    for q in range(begin, end):
        if slots >= 0:
            break
        if not tree[q, col.IS_VICTIM]:
            continue
        for at in range(tree[q, col.SECTION], tree[q, col.SECTION] + tree[q, col.ACTIVE_COUNT]):
            victim = state.lists[at, col.LIST_ACTIVE]
            if jobs[victim, col.JOB_PRIORITY] >= most_priority:
                continue
            held = jobs[victim, col.JOB_SIZE]
            count, take = 0, room_for(held, size) if action == RECLAIM else 0
            for task in range(jobs[victim, col.JOB_FIRST], jobs[victim, col.JOB_LAST]):
                if tasks[task, col.TASK_STATE] == col.TASK_RUNNING:
                    node = tasks[task, col.TASK_NODE]
                    if nodes[node, col.NODE_FREED] == 0:
                        nodes[listed, col.NODE_ORDER] = node
                        listed += 1
                    free = nodes[node, col.FUTURE] + nodes[node, col.NODE_FREED]
                    slots += room_for(free + held, size) - room_for(free, size) - take
                    nodes[node, col.NODE_FREED] += held
                    count += 1
            if action == RECLAIM:
                slots += more_lost(state, victim, count, size)
    for i in range(listed):
        nodes[nodes[i, col.NODE_ORDER], col.NODE_FREED] = 0
    return bool(slots >= 0)
