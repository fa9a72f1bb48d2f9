"""Which pending jobs of KAI may look for victims, and where these may run."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.quota.kai_order import (
    first_victim,
    next_victim,
)
from gpuplan.simkit.quota.kai_share import (
    ALLOCATED,
    DESERVED,
    EVICTABLE,
    EXCESS,
    FAIR,
    FIXED,
    LARGEST,
    POPPED,
    SEEN_ALLOCATED,
    SEEN_FAIR,
    SEEN_FIXED,
)
from gpuplan.simkit.quota.kai_state import (
    ABOVE,
    ACTIVE_COUNT,
    ALL_CAPACITY,
    ALL_FUTURE,
    APART,
    BATCH_JOB,
    CHILD_FIRST,
    CHILD_LAST,
    CLASS_FIXED,
    CLASS_NEED,
    CLASS_PRIORITY,
    CLASS_QUEUE,
    CLASS_SHAPE,
    CLASS_SIZE,
    CLASS_WANTED,
    FUTURE,
    IS_VICTIM,
    JOB_ACTIVE,
    JOB_FIRST,
    JOB_GATHERED,
    JOB_LAST,
    JOB_PRIORITY,
    JOB_QUEUE,
    JOB_SIZE,
    LEVEL_AT,
    LIST_ACTIVE,
    MAY_LOSE,
    MOST_GANG,
    MOST_MOVED,
    MOVED,
    MOVED_AT,
    MOVED_FOR,
    MOVED_NODE,
    MOVED_SIZE,
    MOVED_SLOTS,
    NODE_FREED,
    NODE_ORDER,
    PARENT,
    PREEMPT_SHIELD,
    RECLAIM_SHIELD,
    SECTION,
    SEEN_AT,
    SEVERAL,
    SHAPE_FAILED,
    SHAPE_HOPEFUL,
    SHAPE_POOR,
    SHAPE_POOR_AT,
    SHIELD,
    TASK_NODE,
    TASK_RUNNING,
    TASK_STATE,
    UPWARDS,
    VERSION,
    allocatable,
    fits_queue,
    room_for,
    within_deserved,
)

CONSOLIDATE, RECLAIM, PREEMPT = range(3)
ANY_PRIORITY = 1 << 60


@borrowing_helper
def may_search(state: Any, kind: int, action: int) -> bool:
    """Return whether pending jobs of a class may look for victims, and might find enough."""
    classes, queues, tree = state.classes, state.queues, state.tree
    need, q = float(classes[kind, CLASS_NEED]), classes[kind, CLASS_QUEUE]
    fixed = classes[kind, CLASS_FIXED]
    missing = need - state.count[ALL_FUTURE]
    if action == CONSOLIDATE:
        return (
            not fixed
            and missing <= 0
            and fits_queue(state, q, fixed, need)
            and _might_move(state, kind)
        )
    if action == RECLAIM:
        shape = classes[kind, CLASS_SHAPE]
        if classes[shape, SHAPE_POOR] >= state.count[ALL_FUTURE] and _is_unchanged(
            tree, q, classes[shape, SHAPE_POOR_AT]
        ):
            return False
        if queues[q, ALLOCATED] + need > queues[q, FAIR]:
            classes[shape, SHAPE_POOR_AT] = state.count[VERSION]
            classes[shape, SHAPE_POOR] = state.count[ALL_CAPACITY]
            return False
        if fixed and not within_deserved(queues, q, queues[q, FIXED] + need):
            return False
        return _might_gain(state, kind)
    last = tree[q, SECTION] + tree[q, ACTIVE_COUNT] - 1
    if last < tree[q, SECTION] or queues[q, ALLOCATED] - queues[q, FIXED] < missing:
        return False
    if state.jobs[state.lists[last, LIST_ACTIVE], JOB_PRIORITY] >= classes[kind, CLASS_PRIORITY]:
        return False
    while q >= 0 and fixed:
        if not within_deserved(queues, q, queues[q, FIXED] + need):
            return False
        q = tree[q, PARENT]
    return _might_make_room(state, kind, action)


@borrowing_helper
def _is_unchanged(tree: Any, q: int, version: int) -> bool:
    """Return whether all is as at a version that tells whether a queue has enough to reclaim."""
    above = tree[q, PARENT] if tree[q, PARENT] >= 0 else tree.shape[0] - 1
    return version >= tree[q, SEEN_AT] and version >= tree[above, LEVEL_AT]  # type: ignore[no-any-return]


@borrowing_helper
def note_changes(state: Any) -> None:
    """Note the queues, and the levels that may lose, of which amounts have changed.

    A queue that has too little to reclaim has too little until then, with no more free GPUs: less
    is missing only with more. Where all queues of a level deserve all, none loses to another.
    """
    queues, tree, version = state.queues, state.tree, state.count[VERSION]
    roots = tree.shape[0] - 1
    for i in range(roots, -1, -1):  # from the top down
        above = tree[i, UPWARDS] if i < roots else roots
        changed = False
        for at in range(tree[above, CHILD_FIRST], tree[above, CHILD_LAST]):
            q = state.child[at]
            held, fixed, fair = queues[q, ALLOCATED], queues[q, FIXED], queues[q, FAIR]
            if (
                held != queues[q, SEEN_ALLOCATED]
                or fixed != queues[q, SEEN_FIXED]
                or fair != queues[q, SEEN_FAIR]
            ):
                queues[q, SEEN_ALLOCATED], queues[q, SEEN_FIXED] = held, fixed
                queues[q, SEEN_FAIR] = fair
                tree[q, SEEN_AT] = version
                changed = True
        if changed and tree[above, MAY_LOSE]:
            tree[above, LEVEL_AT] = version
        if above < roots:
            higher = tree[above, PARENT] if tree[above, PARENT] >= 0 else roots
            tree[above, LEVEL_AT] = max(tree[above, LEVEL_AT], tree[higher, LEVEL_AT])


@borrowing_helper
def _might_gain(state: Any, kind: int) -> bool:
    """Return whether jobs of a class might reclaim enough; those of other priorities fare alike."""
    classes = state.classes
    need, shape = float(classes[kind, CLASS_NEED]), classes[kind, CLASS_SHAPE]
    if classes[shape, SHAPE_FAILED] == state.count[VERSION]:
        return False
    if classes[shape, SHAPE_HOPEFUL] == state.count[VERSION]:
        return True
    missing = need - state.count[ALL_FUTURE]
    may = _might_reclaim(state, classes[kind, CLASS_QUEUE], need, missing)
    if not may:
        classes[shape, SHAPE_POOR_AT] = state.count[VERSION]
        classes[shape, SHAPE_POOR] = state.count[ALL_FUTURE]
    may = may and _might_make_room(state, kind, RECLAIM)
    classes[shape, SHAPE_HOPEFUL if may else SHAPE_FAILED] = state.count[VERSION]
    return may


@borrowing_helper
def mark_victims(state: Any, kind: int, action: int) -> int:
    """Mark the queues with possible victims of a search; returns which priority is none's."""
    queues, tree, classes = state.queues, state.tree, state.classes
    leaf = classes[kind, CLASS_QUEUE]
    if action == RECLAIM:
        _mark_losing(state, leaf, float(classes[kind, CLASS_NEED]))
    for q in range(tree.shape[0] - 1):
        queues[q, POPPED] = queues[q, EVICTABLE] = queues[q, LARGEST] = 0.0
        tree[q, SHIELD] = 0
        is_victim = tree[q, ACTIVE_COUNT] > 0
        if action == RECLAIM:
            is_victim = is_victim and tree[q, APART] >= 0
            tree[q, SHIELD] = tree[q, RECLAIM_SHIELD]
        elif action == PREEMPT:
            is_victim = is_victim and q == leaf
            tree[q, SHIELD] = tree[q, PREEMPT_SHIELD]
        tree[q, IS_VICTIM] = is_victim
    return classes[kind, CLASS_PRIORITY] if action == PREEMPT else ANY_PRIORITY


@borrowing_helper
def _loses(queues: Any, a: int, b: int, need: float) -> bool:
    """Return whether a queue takes from a sibling when it needs an amount more."""
    if within_deserved(queues, a, queues[a, ALLOCATED] + need):
        return queues[b, DESERVED] >= 0 and queues[b, ALLOCATED] >= queues[b, DESERVED]  # type: ignore[no-any-return]
    return queues[b, ALLOCATED] > allocatable(queues, b)  # type: ignore[no-any-return]


@borrowing_helper
def _mark_losing(state: Any, leaf: int, need: float) -> None:
    """Note from which siblings of the queues from a leaf up an amount may be reclaimed.

    All queues below such a one, and it, are marked with it and with the queue that takes from it.
    """
    queues, tree = state.queues, state.tree
    roots = tree.shape[0] - 1
    for q in range(roots):
        tree[q, APART] = -1
    a = leaf
    while a >= 0:
        above = tree[a, PARENT] if tree[a, PARENT] >= 0 else roots
        within = within_deserved(queues, a, queues[a, ALLOCATED] + need)
        for at in range(tree[above, CHILD_FIRST], tree[above, CHILD_LAST]):
            b = state.child[at]
            if b == a or not _loses(queues, a, b, need):
                continue
            least = allocatable(queues, b)
            if within and queues[b, DESERVED] >= 0:
                least = min(least, queues[b, DESERVED])
            tree[b, ABOVE], tree[b, APART] = a, b
            queues[b, EXCESS] = queues[b, ALLOCATED] - least
        a = tree[a, PARENT]
    for i in range(roots - 1, -1, -1):
        q = tree[i, UPWARDS]
        above = tree[q, PARENT]
        if above >= 0 and tree[q, APART] < 0:
            tree[q, ABOVE], tree[q, APART] = tree[above, ABOVE], tree[above, APART]


@borrowing_helper
def _might_reclaim(state: Any, q: int, need: float, missing: float) -> bool:
    """Return whether the queues that a queue may reclaim from hold enough that can be evicted."""
    queues, tree, lost = state.queues, state.tree, 0.0
    while q >= 0:
        fair, held = queues[q, FAIR], queues[q, ALLOCATED] - lost + need
        ratio = held / fair if fair > 0 else 0.0
        within = within_deserved(queues, q, queues[q, ALLOCATED] + need)
        above = tree[q, PARENT] if tree[q, PARENT] >= 0 else tree.shape[0] - 1
        for at in range(tree[above, CHILD_FIRST], tree[above, CHILD_LAST]):
            other = state.child[at]
            evictable = queues[other, ALLOCATED] - queues[other, FIXED]
            if other == q or evictable <= 0 or not _loses(queues, q, other, need):
                continue
            # Nothing more is lost once it holds no more than it may; then at most one job less.
            least = allocatable(queues, other)
            if within and queues[other, DESERVED] >= 0:
                least = min(least, queues[other, DESERVED])
            if queues[other, ALLOCATED] <= least and missing > 0:
                continue
            most = queues[other, ALLOCATED] - least + state.count[MOST_GANG]
            if ratio > 1 and queues[other, FAIR] > 0:  # the siblings with less would lose to it
                most = min(most, queues[other, ALLOCATED] - ratio * queues[other, FAIR] + 1e-6)
            lost += max(0.0, min(evictable, most))
            if lost >= missing:
                return True
        q = tree[q, PARENT]
    return False


@borrowing_helper
def _list_moved(state: Any) -> None:
    """List the tasks of all victims that a consolidation looks at, whichever job it is for."""
    jobs, tasks, tree, batches = state.jobs, state.tasks, state.tree, state.batches
    for q in range(tree.shape[0] - 1):
        state.queues[q, POPPED] = 0.0
        tree[q, IS_VICTIM], tree[q, SHIELD] = 1, 0
    victims = count = 0
    victim = first_victim(state, -1, ANY_PRIORITY)
    while victim >= 0 and victims < state.count[MOST_MOVED]:
        batches[victims, BATCH_JOB] = victim
        victims += 1
        for task in range(jobs[victim, JOB_FIRST], jobs[victim, JOB_LAST]):
            if tasks[task, TASK_STATE] == TASK_RUNNING:
                batches[count, MOVED_NODE] = tasks[task, TASK_NODE]
                batches[count, MOVED_SIZE] = jobs[victim, JOB_SIZE]
                count += 1
        q = jobs[victim, JOB_QUEUE]
        jobs[victim, JOB_GATHERED] = jobs[victim, JOB_ACTIVE]
        while q >= 0:
            state.queues[q, POPPED] += jobs[victim, JOB_ACTIVE] * jobs[victim, JOB_SIZE]
            q = tree[q, PARENT]
        victim = next_victim(state, jobs[victim, JOB_QUEUE], -1, ANY_PRIORITY)
    for i in range(victims):
        jobs[batches[i, BATCH_JOB], JOB_GATHERED] = 0
    state.count[MOVED], state.count[MOVED_AT] = count, state.count[VERSION]


@borrowing_helper
def _might_move(state: Any, kind: int) -> bool:
    """Return whether a consolidation might make room for a class, as far as node sizes tell.

    A moved task takes at least as much room for tasks of the job as what it holds would give. Jobs
    of which a part is evicted at a time may have another order of victims.
    """
    if state.count[SEVERAL] > 0:
        return True
    if state.count[MOVED_AT] != state.count[VERSION]:
        _list_moved(state)
    size = state.classes[kind, CLASS_SIZE]
    if size >= state.rooms.size:
        return False
    if state.moved[size, MOVED_FOR] != state.count[VERSION]:
        state.moved[size, MOVED_FOR] = state.count[VERSION]
        state.moved[size, MOVED_SLOTS] = _slots_if_moved(state, size)
    return state.moved[size, MOVED_SLOTS] >= state.classes[kind, CLASS_WANTED]  # type: ignore[no-any-return]


@borrowing_helper
def _slots_if_moved(state: Any, size: int) -> int:
    """Return how many tasks of a size would have room at most once all moved tasks have theirs."""
    nodes, batches = state.nodes, state.batches
    slots = 0
    for free in range(size, state.rooms.size):
        slots += state.rooms[free] * (free // size)
    for i in range(state.count[MOVED]):
        node, held = batches[i, MOVED_NODE], batches[i, MOVED_SIZE]
        free = nodes[node, FUTURE] + nodes[node, NODE_FREED]
        slots += room_for(free + held, size) - room_for(free, size) - room_for(held, size)
        nodes[node, NODE_FREED] += held
    for i in range(state.count[MOVED]):
        nodes[batches[i, MOVED_NODE], NODE_FREED] = 0
    return slots


@borrowing_helper
def _lost_slots(queues: Any, b: int, size: int) -> int:
    """Return for how many tasks of a size there is room at most where a queue lost victims.

    It loses them while it has more than its least: all but the last are less than its excess.
    """
    if queues[b, EXCESS] <= 0:
        return 0
    most = np.ceil(queues[b, EXCESS] / size) - 1.0 + queues[b, LARGEST]
    return int(min(queues[b, EVICTABLE], most))


@borrowing_helper
def more_lost(state: Any, victim: int, count: int, size: int) -> int:
    """Count a batch of tasks as evictable; returns how many more of a size may have their room."""
    queues, b = state.queues, state.tree[state.jobs[victim, JOB_QUEUE], APART]
    before = _lost_slots(queues, b, size)
    slots = float(count * room_for(state.jobs[victim, JOB_SIZE], size))
    queues[b, EVICTABLE] += slots
    queues[b, LARGEST] = max(queues[b, LARGEST], slots)
    return _lost_slots(queues, b, size) - before


@borrowing_helper
def _might_make_room(state: Any, kind: int, action: int) -> bool:
    """Return whether a job of a class would have room with all possible victims gone."""
    jobs, tasks, nodes, tree = state.jobs, state.tasks, state.nodes, state.tree
    begin, end = 0, tree.shape[0] - 1
    if action == PREEMPT:
        begin = state.classes[kind, CLASS_QUEUE]
        end, most_priority = begin + 1, state.classes[kind, CLASS_PRIORITY]
        tree[begin, IS_VICTIM] = 1
    else:
        most_priority = mark_victims(state, kind, action)
    size, slots, listed = state.classes[kind, CLASS_SIZE], -state.classes[kind, CLASS_WANTED], 0
    for free in range(size, state.rooms.size):
        slots += state.rooms[free] * (free // size)
    for q in range(begin, end):
        if slots >= 0:
            break
        if not tree[q, IS_VICTIM]:
            continue
        for at in range(tree[q, SECTION], tree[q, SECTION] + tree[q, ACTIVE_COUNT]):
            victim = state.lists[at, LIST_ACTIVE]
            if jobs[victim, JOB_PRIORITY] >= most_priority:
                continue
            held = jobs[victim, JOB_SIZE]
            count, take = 0, room_for(held, size) if action == RECLAIM else 0
            for task in range(jobs[victim, JOB_FIRST], jobs[victim, JOB_LAST]):
                if tasks[task, TASK_STATE] == TASK_RUNNING:
                    node = tasks[task, TASK_NODE]
                    if nodes[node, NODE_FREED] == 0:
                        nodes[listed, NODE_ORDER] = node
                        listed += 1
                    free = nodes[node, FUTURE] + nodes[node, NODE_FREED]
                    slots += room_for(free + held, size) - room_for(free, size) - take
                    nodes[node, NODE_FREED] += held
                    count += 1
            if action == RECLAIM:
                slots += more_lost(state, victim, count, size)
    for i in range(listed):
        nodes[nodes[i, NODE_ORDER], NODE_FREED] = 0
    return bool(slots >= 0)
