"""What the rules of KAI read and change: queues, jobs, tasks and nodes, as tables.

Amounts are GPUs. A task that is evicted holds its GPUs until it has stopped; what will be free then
is counted in the ``FUTURE`` column of a node.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
from numba.cpython.unsafe.numbers import trailing_zeros

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.quota import kai_columns as col

ROOMY_ROWS, NODES_A_WORD = 17, 62
UNBOUNDED = 1e300  # what a queue may hold that nothing limits


def _trailing_zeros(bits: int) -> int:
    return int(bits & -bits).bit_length() - 1


_lowest_bit: Any = _trailing_zeros if numba.config.DISABLE_JIT else trailing_zeros
"""The number of the lowest bit of a word that is set; one must be. Only for kernels."""


class KaiState(NamedTuple):
    """Tables of KAI; see the columns above.

    Attributes:
        queues: amounts by queue, see `gpuplan.simkit.quota.kai_share`. ``tree``, ``child``: queues
            below each queue, older ones first.
        jobs, tasks, nodes, lists, classes, batches, count: tables.
        rooms: how many nodes will have 0, 1, ... free GPUs. ``roomy``: which, as bits by node; the
            last row has all with so many or more.
        moved: what a consolidation might do, by size of a task.
    """

    queues: Any
    tree: Any
    child: Any
    jobs: Any
    tasks: Any
    nodes: Any
    lists: Any
    classes: Any
    batches: Any
    rooms: Any
    roomy: Any
    moved: Any
    count: Any


@borrowing_helper
def allocatable(queues: Any, q: int) -> float:
    """Return how much a queue may hold; infinite where nothing limits it."""
    limit = queues[q, col.LIMIT] if queues[q, col.LIMIT] >= 0 else UNBOUNDED
    if queues[q, col.DESERVED] < 0:
        return limit
    return min(limit, max(queues[q, col.DESERVED], queues[q, col.FAIR]))  # type: ignore[no-any-return]


@borrowing_helper
def within_deserved(queues: Any, q: int, amount: float) -> bool:
    """Return whether an amount is within what a queue deserves."""
    return queues[q, col.DESERVED] < 0 or amount <= queues[q, col.DESERVED]  # type: ignore[no-any-return]


@borrowing_helper
def tasks_wanted(jobs: Any, j: int) -> int:
    """Return how many tasks of a job would be placed next."""
    missing = jobs[j, col.JOB_LEAST] - jobs[j, col.JOB_ACTIVE]
    return min(max(1, missing), jobs[j, col.JOB_PENDING])  # type: ignore[no-any-return]


@borrowing_helper
def need_of(jobs: Any, j: int) -> float:
    """Return the GPUs of the tasks that would be placed next."""
    return float(tasks_wanted(jobs, j) * jobs[j, col.JOB_SIZE])


@borrowing_helper
def add_to_queue(state: Any, j: int, amount: float) -> None:
    """Add an amount to what the queue of a job and those above it hold."""
    q = state.jobs[j, col.JOB_QUEUE]
    while q >= 0:
        state.queues[q, col.ALLOCATED] += amount
        if state.jobs[j, col.JOB_FIXED]:
            state.queues[q, col.FIXED] += amount
        q = state.tree[q, col.PARENT]


@borrowing_helper
def request(state: Any, j: int, amount: float) -> None:
    """Add an amount to what the jobs of a queue, and of those above it, run on or wait for."""
    q = state.jobs[j, col.JOB_QUEUE]
    while q >= 0:
        state.queues[q, col.REQUESTED] += amount
        q = state.tree[q, col.PARENT]
    state.count[col.DIVIDED] = 0


@borrowing_helper
def fits_queue(state: Any, q: int, fixed: int, need: float) -> bool:
    """Return whether a queue and those above it have room for an amount, fixed or not."""
    queues = state.queues
    while q >= 0:
        if queues[q, col.LIMIT] >= 0 and queues[q, col.ALLOCATED] + need > queues[q, col.LIMIT]:
            return False
        if fixed and not within_deserved(queues, q, queues[q, col.FIXED] + need):
            return False
        q = state.tree[q, col.PARENT]
    return True


@borrowing_helper
def fits_nodes(state: Any, size: int, left: int) -> bool:
    """Return whether nodes have, or will have, room for so many tasks of a size."""
    for free in range(size, state.rooms.size):
        left -= state.rooms[free] * (free // size)
        if left <= 0:
            return True
    return left <= 0


@borrowing_helper
def room_for(free: int, size: int) -> int:
    """Return how many tasks of a size so many GPUs have room for; a division takes longer."""
    if free < size:
        return 0
    return free if size == 1 else free // size


@borrowing_helper
def add_future(state: Any, node: int, amount: int) -> None:
    """Change what will be free on a node."""
    free = state.nodes[node, col.FUTURE]
    state.rooms[free] -= 1
    state.rooms[free + amount] += 1
    state.nodes[node, col.FUTURE] = free + amount
    state.count[col.ALL_FUTURE] += amount
    last, word, bit = state.roomy.shape[0] - 1, node // NODES_A_WORD, 1 << node % NODES_A_WORD
    state.roomy[min(free, last), word] &= ~bit
    state.roomy[min(free + amount, last), word] |= bit


@borrowing_helper
def count_rooms(state: Any) -> None:
    """Count what will be free where all that is evicted has stopped: what is free."""
    state.rooms[:] = 0
    state.roomy[:] = 0
    last = state.roomy.shape[0] - 1
    state.count[col.ALL_FUTURE] = 0
    for node in range(state.nodes.shape[0]):
        free = state.nodes[node, col.IDLE]
        state.nodes[node, col.FUTURE] = free
        state.rooms[free] += 1
        state.roomy[min(free, last), node // NODES_A_WORD] |= 1 << node % NODES_A_WORD
        state.count[col.ALL_FUTURE] += free


@borrowing_helper
def touch(state: Any, j: int) -> None:
    """Note that a job changed in this round."""
    if not state.jobs[j, col.JOB_MARKS] & col.TOUCHED:
        state.jobs[j, col.JOB_MARKS] |= col.TOUCHED
        state.lists[state.count[col.TOUCHED_JOBS], col.LIST_TOUCHED] = j
        state.count[col.TOUCHED_JOBS] += 1


@borrowing_helper
def _choose_node(state: Any, size: int) -> int:
    """Return the fullest node with room for a task; -1: there is none.

    Nodes with room now come before those where GPUs are being released.
    """
    nodes, roomy = state.nodes, state.roomy
    best, best_free, best_now = -1, 0, False
    last = roomy.shape[0] - 1
    for word in range(roomy.shape[1]):
        bits = 0
        for free in range(min(size, last), last + 1):
            bits |= roomy[free, word]
        while bits:
            node = word * NODES_A_WORD + _lowest_bit(bits)
            bits &= bits - 1
            future = nodes[node, col.FUTURE]
            if future < size:
                continue
            idle = nodes[node, col.IDLE]
            now = min(idle, future) >= size
            free = idle if now else future
            if best < 0 or (now and not best_now) or (now == best_now and free < best_free):
                best, best_free, best_now = node, free, now
                if now and free == size:
                    return node  # type: ignore[no-any-return]
    return best


@borrowing_helper
def _place_task(state: Any, j: int, task: int) -> int:
    """Place a task; returns its new state, or `TASK_PENDING` where there is no room."""
    size = state.jobs[j, col.JOB_SIZE]
    old = state.tasks[task, col.TASK_OLD]
    node = _choose_node(state, size)
    if node < 0:
        return col.TASK_PENDING
    add_future(state, node, -size)
    how = col.TASK_WAITS
    if node == old:
        how = col.TASK_RUNNING
    elif min(state.nodes[node, col.IDLE], state.nodes[node, col.FUTURE] + size) >= size:
        state.nodes[node, col.IDLE] -= size
        how = col.TASK_PLACED
    state.tasks[task, col.TASK_NODE], state.tasks[task, col.TASK_STATE] = node, how
    return how


@borrowing_helper
def remove_task(state: Any, j: int, task: int) -> None:
    """Undo the placing of a task."""
    size = state.jobs[j, col.JOB_SIZE]
    node = state.tasks[task, col.TASK_NODE]
    add_future(state, node, size)
    if state.tasks[task, col.TASK_STATE] == col.TASK_PLACED:
        state.nodes[node, col.IDLE] += size
    old = state.tasks[task, col.TASK_OLD]
    state.tasks[task, col.TASK_NODE] = old
    state.tasks[task, col.TASK_STATE] = col.TASK_LEAVING if old >= 0 else col.TASK_PENDING


@borrowing_helper
def victims_left(state: Any, j: int) -> int:
    """Return how many evicted tasks of a job in this search have no place."""
    left = 0
    for task in range(state.jobs[j, col.JOB_FIRST], state.jobs[j, col.JOB_LAST]):
        left += (
            state.tasks[task, col.TASK_STATE] == col.TASK_LEAVING
            and state.tasks[task, col.TASK_BATCH] > 0
        )
    return left


@borrowing_helper
def place_job(state: Any, j: int, from_victims: bool) -> bool:
    """Place the next tasks of a job, all or none; returns whether they are.

    ``from_victims``: the tasks to place are those evicted in this search, not pending ones.
    """
    jobs, tasks = state.jobs, state.tasks
    wanted = tasks_wanted(jobs, j)
    source = col.TASK_LEAVING if from_victims else col.TASK_PENDING
    if from_victims:
        missing = jobs[j, col.JOB_LEAST] - jobs[j, col.JOB_ACTIVE]
        wanted = min(max(1, missing), victims_left(state, j))
    need = float(wanted * jobs[j, col.JOB_SIZE])
    if wanted == 0 or not fits_nodes(state, jobs[j, col.JOB_SIZE], wanted):
        return False
    if not fits_queue(state, jobs[j, col.JOB_QUEUE], jobs[j, col.JOB_FIXED], need):
        return False
    placed, waits = 0, False
    for task in range(jobs[j, col.JOB_FIRST], jobs[j, col.JOB_LAST]):
        if placed == wanted:
            break
        if tasks[task, col.TASK_STATE] != source or (
            from_victims and tasks[task, col.TASK_BATCH] <= 0
        ):
            continue
        how = _place_task(state, j, task)
        if how == col.TASK_PENDING:
            break
        waits = waits or how == col.TASK_WAITS
        tasks[task, col.TASK_BATCH] = -1 - abs(tasks[task, col.TASK_BATCH])  # placed just now
        placed += 1
    for task in range(jobs[j, col.JOB_FIRST], jobs[j, col.JOB_LAST]):
        if tasks[task, col.TASK_BATCH] < 0:
            tasks[task, col.TASK_BATCH] = -1 - tasks[task, col.TASK_BATCH]
            if placed < wanted:
                remove_task(state, j, task)
            elif waits and tasks[task, col.TASK_STATE] == col.TASK_PLACED:
                tasks[task, col.TASK_STATE] = col.TASK_WAITS
                state.nodes[tasks[task, col.TASK_NODE], col.IDLE] += jobs[j, col.JOB_SIZE]
    if placed < wanted:
        return False
    jobs[j, col.JOB_ACTIVE] += wanted
    if not from_victims:
        jobs[j, col.JOB_PENDING] -= wanted
    add_to_queue(state, j, need)
    return True


@borrowing_helper
def started(state: Any, j: int) -> int:
    """Return when the first of the running tasks of a job started."""
    first = 1 << 62
    for task in range(state.jobs[j, col.JOB_FIRST], state.jobs[j, col.JOB_LAST]):
        if state.tasks[task, col.TASK_STATE] == col.TASK_RUNNING:
            first = min(first, state.tasks[task, col.TASK_START])
    return first


@borrowing_helper
def is_shielded(state: Any, j: int, shield: int) -> bool:
    """Return whether a job started so short a time ago that it is nobody's victim."""
    return shield > 0 and state.count[col.TIME] - started(state, j) < shield
