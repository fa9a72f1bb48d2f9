"""What the rules of KAI read and change: queues, jobs, tasks and nodes, as tables.

Amounts are GPUs. A task that is evicted holds its GPUs until it has stopped; what will be free then
is counted in the ``FUTURE`` column of a node.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.quota.kai_share import (
    ALLOCATED,
    DESERVED,
    FAIR,
    FIXED,
    LIMIT,
)

# States of a task: waiting; running; told to stop; placed this round; waits for GPUs that stop.
TASK_PENDING, TASK_RUNNING, TASK_LEAVING, TASK_PLACED, TASK_WAITS, TASK_GONE = range(6)
IDLE, FUTURE = range(2)  # columns of nodes
TASK_STATE, TASK_NODE, TASK_OLD, TASK_BATCH = range(4)  # columns of tasks
# Columns of jobs; those from the active tasks on change.
(
    JOB_QUEUE, JOB_PRIORITY, JOB_FIXED, JOB_SIZE, JOB_LEAST, JOB_FIRST, JOB_LAST, JOB_AGE,
    JOB_ACTIVE, JOB_PENDING, JOB_DONE, JOB_GATHERED, JOB_COLUMNS,
) = range(13)  # fmt: skip


class KaiState(NamedTuple):
    """Tables of KAI; see the columns above.

    Attributes:
        queues: amounts by queue. ``parent``, ``created``: of each queue; ``child_first``,
            ``child``: children of each queue, the last list those without a parent.
        jobs: jobs by age; whole numbers, sizes too. ``member_first``, ``member``,
            ``member_count``: jobs of each leaf queue that are pending or run, by priority, age.
        tasks, nodes: their tables. ``capacity``: GPUs of each node.
        upwards: queues, those below others first.
        best: best job below each queue in a search for the next one.
        batches: job and number of the last task of each batch of victims; ``batch_task`` are the
            tasks gathered.
        node_order, node_freed, node_first: nodes of a search, what victims free on each, and the
            first victim there.
    """

    queues: Any
    parent: Any
    created: Any
    child_first: Any
    child: Any
    jobs: Any
    member_first: Any
    member: Any
    member_count: Any
    tasks: Any
    nodes: Any
    capacity: Any
    upwards: Any
    best: Any
    batches: Any
    batch_task: Any
    node_order: Any
    node_freed: Any
    node_first: Any


@borrowing_helper
def allocatable(queues: Any, q: int) -> float:
    """Return how much a queue may hold; infinite where nothing limits it."""
    limit = queues[q, LIMIT] if queues[q, LIMIT] >= 0 else 1e300
    if queues[q, DESERVED] < 0:
        return limit
    return min(limit, max(queues[q, DESERVED], queues[q, FAIR]))  # type: ignore[no-any-return]


@borrowing_helper
def within_deserved(queues: Any, q: int, amount: float) -> bool:
    """Return whether an amount is within what a queue deserves."""
    return queues[q, DESERVED] < 0 or amount <= queues[q, DESERVED]  # type: ignore[no-any-return]


@borrowing_helper
def tasks_wanted(jobs: Any, j: int) -> int:
    """Return how many tasks of a job would be placed next."""
    missing = jobs[j, JOB_LEAST] - jobs[j, JOB_ACTIVE]
    return min(max(1, missing), jobs[j, JOB_PENDING])  # type: ignore[no-any-return]


@borrowing_helper
def need_of(jobs: Any, j: int) -> float:
    """Return the GPUs of the tasks that would be placed next."""
    return float(tasks_wanted(jobs, j) * jobs[j, JOB_SIZE])


@borrowing_helper
def add_to_queue(state: Any, j: int, amount: float) -> None:
    """Add an amount to what the queue of a job and those above it hold."""
    q = state.jobs[j, JOB_QUEUE]
    while q >= 0:
        state.queues[q, ALLOCATED] += amount
        if state.jobs[j, JOB_FIXED]:
            state.queues[q, FIXED] += amount
        q = state.parent[q]


@borrowing_helper
def fits_queue(state: Any, j: int, need: float) -> bool:
    """Return whether the queues of a job have room for an amount."""
    queues = state.queues
    q = state.jobs[j, JOB_QUEUE]
    while q >= 0:
        if queues[q, LIMIT] >= 0 and queues[q, ALLOCATED] + need > queues[q, LIMIT]:
            return False
        if state.jobs[j, JOB_FIXED] and not within_deserved(queues, q, queues[q, FIXED] + need):
            return False
        q = state.parent[q]
    return True


@borrowing_helper
def choose_node(state: Any, size: int) -> int:
    """Return the fullest node with room for a task; -1: there is none.

    Nodes with room now come before those where GPUs are being released.
    """
    best, best_free, best_now = -1, 0, False
    for node in range(state.nodes.shape[0]):
        future = state.nodes[node, FUTURE]
        if future < size:
            continue
        now = min(state.nodes[node, IDLE], future) >= size
        free = state.nodes[node, IDLE] if now else future
        if best < 0 or (now and not best_now) or (now == best_now and free < best_free):
            best, best_free, best_now = node, free, now
    return best


@borrowing_helper
def place_task(state: Any, j: int, task: int) -> int:
    """Place a task; returns its new state, or `TASK_PENDING` where there is no room."""
    size = state.jobs[j, JOB_SIZE]
    old = state.tasks[task, TASK_OLD]
    node = choose_node(state, size)
    if node < 0:
        return TASK_PENDING
    state.nodes[node, FUTURE] -= size
    how = TASK_WAITS
    if node == old:
        how = TASK_RUNNING
    elif min(state.nodes[node, IDLE], state.nodes[node, FUTURE] + size) >= size:
        state.nodes[node, IDLE] -= size
        how = TASK_PLACED
    state.tasks[task, TASK_NODE], state.tasks[task, TASK_STATE] = node, how
    return how


@borrowing_helper
def remove_task(state: Any, j: int, task: int) -> None:
    """Undo the placing of a task."""
    size = state.jobs[j, JOB_SIZE]
    node = state.tasks[task, TASK_NODE]
    state.nodes[node, FUTURE] += size
    if state.tasks[task, TASK_STATE] == TASK_PLACED:
        state.nodes[node, IDLE] += size
    old = state.tasks[task, TASK_OLD]
    state.tasks[task, TASK_NODE] = old
    state.tasks[task, TASK_STATE] = TASK_LEAVING if old >= 0 else TASK_PENDING


@borrowing_helper
def place_job(state: Any, j: int, from_victims: bool) -> bool:
    """Place the next tasks of a job, all or none; returns whether they are.

    ``from_victims``: the tasks to place are those evicted in this search, not pending ones.
    """
    jobs, tasks = state.jobs, state.tasks
    wanted = tasks_wanted(jobs, j)
    source = TASK_LEAVING if from_victims else TASK_PENDING
    if from_victims:
        left = 0
        for task in range(jobs[j, JOB_FIRST], jobs[j, JOB_LAST]):
            left += tasks[task, TASK_STATE] == TASK_LEAVING and tasks[task, TASK_BATCH] > 0
        wanted = min(max(1, jobs[j, JOB_LEAST] - jobs[j, JOB_ACTIVE]), left)
    need = float(wanted * jobs[j, JOB_SIZE])
    if wanted == 0 or not fits_queue(state, j, need):
        return False
    placed, waits = 0, False
    for task in range(jobs[j, JOB_FIRST], jobs[j, JOB_LAST]):
        if placed == wanted:
            break
        if tasks[task, TASK_STATE] != source or (from_victims and tasks[task, TASK_BATCH] <= 0):
            continue
        how = place_task(state, j, task)
        if how == TASK_PENDING:
            break
        waits = waits or how == TASK_WAITS
        tasks[task, TASK_BATCH] = -1 - abs(tasks[task, TASK_BATCH])  # placed just now
        placed += 1
    for task in range(jobs[j, JOB_FIRST], jobs[j, JOB_LAST]):
        if tasks[task, TASK_BATCH] < 0:
            tasks[task, TASK_BATCH] = -1 - tasks[task, TASK_BATCH]
            if placed < wanted:
                remove_task(state, j, task)
            elif waits and tasks[task, TASK_STATE] == TASK_PLACED:
                tasks[task, TASK_STATE] = TASK_WAITS
                state.nodes[tasks[task, TASK_NODE], IDLE] += jobs[j, JOB_SIZE]
    if placed < wanted:
        return False
    jobs[j, JOB_ACTIVE] += wanted
    if not from_victims:
        jobs[j, JOB_PENDING] -= wanted
    add_to_queue(state, j, need)
    return True
