"""What the rules of KAI read and change: queues, jobs, tasks and nodes, as tables.

Amounts are GPUs. A task that is evicted holds its GPUs until it has stopped; what will be free then
is counted in the ``FUTURE`` column of a node.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.quota.bits import lowest_bit
from gpuplan.simkit.quota.kai_share import ALLOCATED, DESERVED, FAIR, FIXED, LIMIT, REQUESTED

# States of a task: waiting; running; told to stop; placed this round; waits for GPUs that stop;
# finished or not yet come.
TASK_PENDING, TASK_RUNNING, TASK_LEAVING, TASK_PLACED, TASK_WAITS, TASK_GONE = range(6)
# Columns of nodes; the last five belong to a search.
IDLE, FUTURE, CAPACITY, NODE_ORDER, NODE_FREED, NODE_FIRST, NODE_HIT, NODE_NEW, NODE_COLUMNS = (
    range(9)
)
# Columns of tasks; the last ones belong to a replay.
(
    TASK_STATE, TASK_NODE, TASK_OLD, TASK_BATCH, TASK_JOB, TASK_REASON, TASK_CAUSE, TASK_REST,
    TASK_START, TASK_ROW, TASK_COLUMNS,
) = range(11)  # fmt: skip
# Columns of jobs; those from the active tasks on change. Alive: not finished. Tried: the last
# action that tried the job. Full: whether it had as many active tasks as it needs when listed.
# Logged: what it held in the log of changes.
(
    JOB_QUEUE, JOB_PRIORITY, JOB_FIXED, JOB_SIZE, JOB_LEAST, JOB_FIRST, JOB_LAST, JOB_AGE,
    JOB_CLASS, JOB_ACTIVE, JOB_PENDING, JOB_ALIVE, JOB_GATHERED, JOB_MARKS, JOB_TRIED, JOB_LISTED,
    JOB_FULL, JOB_EVICTIONS, JOB_LOGGED, JOB_COLUMNS,
) = range(20)  # fmt: skip
# Bits of `JOB_MARKS`: evicted and settled, changed in this round, has tasks that this round placed,
# listed as a victim of which the tasks beyond those it needs are gathered.
SETTLED, TOUCHED, FRESH, MOVED_DOWN = 1, 2, 4, 8
# Bits of `JOB_LISTED`: it is in the list of pending jobs of its queue, in that of victims; it only
# keeps its place among the pending ones, since this round placed it.
IN_PENDING, IN_ACTIVE, KEEPS_PLACE = 1, 2, 4
NO_CLASS = -1  # in the list of pending jobs: of one that only keeps its place
# Columns of the tree, by queue; the last row stands for what is above all queues. Cursors are the
# positions of the next job to place and of the next victim in the lists of a queue; the best are
# the first jobs of each order below it, and ranks where queues with these come in it; next need:
# GPUs that the first one to place would take. Above, apart: the first ancestors of the queue of a
# reclaiming job and of this one that differ. Class begin, end: its classes. Shields: for
# how many seconds after their start jobs are no victims of reclaim, of preempt, of this search.
# May lose: whether one of the queues below deserves less than all, so that another may reclaim
# from it. Seen at: the last version at which what it holds or may hold had changed; level at: the
# same for the queues below it and on the levels above, where these may lose.
(
    PARENT, CREATED, CHILD_FIRST, CHILD_LAST, UPWARDS, SECTION, PENDING_COUNT, ACTIVE_COUNT,
    CURSOR, VICTIM_CURSOR, BEST_PLACE, BEST_REPLACE, BEST_EVICT, RANK_PLACE, RANK_REPLACE,
    RANK_EVICT, IS_VICTIM, RECLAIM_SHIELD, PREEMPT_SHIELD, SHIELD, ABOVE, APART,
    NEXT_NEED, CLASS_BEGIN, CLASS_END, MAY_LOSE, SEEN_AT, LEVEL_AT, TREE_COLUMNS,
) = range(29)  # fmt: skip
# Columns of the lists: pending jobs, each with its class, and possible victims of each queue, in
# sections by queue; jobs changed in this round; classes that have pending jobs.
LIST_PENDING, LIST_KIND, LIST_ACTIVE, LIST_TOUCHED, LIST_CLASSES, LISTS = range(6)
# Columns of classes: jobs of one queue, priority, size and number of tasks that all start together;
# or one job whose tasks do not. Count: its pending jobs. Left: those not tried in this action.
# Failed: the last version at which none can be placed. Hopeful: the last change after which one
# might be.
# Wanted, need: tasks and GPUs that each would take next. Shape: the first class of this queue, size
# and number of tasks, of which every priority finds as little to reclaim; failed or hopeful there.
# Poor at: the last version at which queues had too little to lose for it; poor: up to how many free
# GPUs they have.
(
    CLASS_QUEUE, CLASS_PRIORITY, CLASS_FIXED, CLASS_SIZE, CLASS_WANTED, CLASS_NEED, CLASS_SHAPE,
    CLASS_COUNT, CLASS_LEFT, CLASS_PLACE, CLASS_FAILED, CLASS_HOPEFUL, SHAPE_FAILED, SHAPE_HOPEFUL,
    SHAPE_POOR_AT, SHAPE_POOR, CLASS_COLUMNS,
) = range(17)  # fmt: skip
# Columns of the batches of victims: job and number of its last task; tasks in the order gathered;
# whether it is out in a simulation; the first queues above a pending job and it that differ; node
# and size of the tasks that any consolidation might move.
(
    BATCH_JOB, BATCH_END, BATCH_TASK, BATCH_OUT, BATCH_ABOVE, BATCH_APART, MOVED_NODE, MOVED_SIZE,
    BATCH_COLUMNS,
) = range(9)  # fmt: skip
# Columns of what a consolidation might do, by size of a task: how many tasks would have room, and
# at which version of the state.
MOVED_SLOTS, MOVED_FOR, MOVED_COLUMNS = range(3)
# Cells of `KaiState.count`. Several: jobs whose tasks do not all start together.
# Time: of the round. Shields: queues with any. Looked: classes, first in the list, of which this
# action can place no more jobs. Most gang: GPUs of the largest job. Changes: placings and versions;
# what allocate cannot place it cannot after another placing either, so that makes no new version.
(
    ALL_FUTURE, ALL_CAPACITY, TOUCHED_JOBS, CLASSES, VERSION, ACTION, STAMP, DIVIDED,
    MOST_MOVED, MOVED, MOVED_AT, SEVERAL, TIME, SHIELDS, LOOKED, MOST_GANG, CHANGES, CELLS,
) = range(18)  # fmt: skip


ROOMY_ROWS, NODES_A_WORD = 17, 62
UNBOUNDED = 1e300  # what a queue may hold that nothing limits


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
    limit = queues[q, LIMIT] if queues[q, LIMIT] >= 0 else UNBOUNDED
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
        q = state.tree[q, PARENT]


@borrowing_helper
def request(state: Any, j: int, amount: float) -> None:
    """Add an amount to what the jobs of a queue, and of those above it, run on or wait for."""
    q = state.jobs[j, JOB_QUEUE]
    while q >= 0:
        state.queues[q, REQUESTED] += amount
        q = state.tree[q, PARENT]
    state.count[DIVIDED] = 0


@borrowing_helper
def fits_queue(state: Any, q: int, fixed: int, need: float) -> bool:
    """Return whether a queue and those above it have room for an amount, fixed or not."""
    queues = state.queues
    while q >= 0:
        if queues[q, LIMIT] >= 0 and queues[q, ALLOCATED] + need > queues[q, LIMIT]:
            return False
        if fixed and not within_deserved(queues, q, queues[q, FIXED] + need):
            return False
        q = state.tree[q, PARENT]
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
    free = state.nodes[node, FUTURE]
    state.rooms[free] -= 1
    state.rooms[free + amount] += 1
    state.nodes[node, FUTURE] = free + amount
    state.count[ALL_FUTURE] += amount
    last, word, bit = state.roomy.shape[0] - 1, node // NODES_A_WORD, 1 << node % NODES_A_WORD
    state.roomy[min(free, last), word] &= ~bit
    state.roomy[min(free + amount, last), word] |= bit


@borrowing_helper
def count_rooms(state: Any) -> None:
    """Count what will be free where all that is evicted has stopped: what is free."""
    state.rooms[:] = 0
    state.roomy[:] = 0
    last = state.roomy.shape[0] - 1
    state.count[ALL_FUTURE] = 0
    for node in range(state.nodes.shape[0]):
        free = state.nodes[node, IDLE]
        state.nodes[node, FUTURE] = free
        state.rooms[free] += 1
        state.roomy[min(free, last), node // NODES_A_WORD] |= 1 << node % NODES_A_WORD
        state.count[ALL_FUTURE] += free


@borrowing_helper
def touch(state: Any, j: int) -> None:
    """Note that a job changed in this round."""
    if not state.jobs[j, JOB_MARKS] & TOUCHED:
        state.jobs[j, JOB_MARKS] |= TOUCHED
        state.lists[state.count[TOUCHED_JOBS], LIST_TOUCHED] = j
        state.count[TOUCHED_JOBS] += 1


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
            node = word * NODES_A_WORD + lowest_bit(bits)
            bits &= bits - 1
            future = nodes[node, FUTURE]
            if future < size:
                continue
            idle = nodes[node, IDLE]
            now = min(idle, future) >= size
            free = idle if now else future
            if best < 0 or (now and not best_now) or (now == best_now and free < best_free):
                best, best_free, best_now = node, free, now
                if now and free == size:
                    return node
    return best


@borrowing_helper
def _place_task(state: Any, j: int, task: int) -> int:
    """Place a task; returns its new state, or `TASK_PENDING` where there is no room."""
    size = state.jobs[j, JOB_SIZE]
    old = state.tasks[task, TASK_OLD]
    node = _choose_node(state, size)
    if node < 0:
        return TASK_PENDING
    add_future(state, node, -size)
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
    add_future(state, node, size)
    if state.tasks[task, TASK_STATE] == TASK_PLACED:
        state.nodes[node, IDLE] += size
    old = state.tasks[task, TASK_OLD]
    state.tasks[task, TASK_NODE] = old
    state.tasks[task, TASK_STATE] = TASK_LEAVING if old >= 0 else TASK_PENDING


@borrowing_helper
def victims_left(state: Any, j: int) -> int:
    """Return how many evicted tasks of a job in this search have no place."""
    left = 0
    for task in range(state.jobs[j, JOB_FIRST], state.jobs[j, JOB_LAST]):
        left += state.tasks[task, TASK_STATE] == TASK_LEAVING and state.tasks[task, TASK_BATCH] > 0
    return left


@borrowing_helper
def place_job(state: Any, j: int, from_victims: bool) -> bool:
    """Place the next tasks of a job, all or none; returns whether they are.

    ``from_victims``: the tasks to place are those evicted in this search, not pending ones.
    """
    jobs, tasks = state.jobs, state.tasks
    wanted = tasks_wanted(jobs, j)
    source = TASK_LEAVING if from_victims else TASK_PENDING
    if from_victims:
        missing = jobs[j, JOB_LEAST] - jobs[j, JOB_ACTIVE]
        wanted = min(max(1, missing), victims_left(state, j))
    need = float(wanted * jobs[j, JOB_SIZE])
    if wanted == 0 or not fits_nodes(state, jobs[j, JOB_SIZE], wanted):
        return False
    if not fits_queue(state, jobs[j, JOB_QUEUE], jobs[j, JOB_FIXED], need):
        return False
    placed, waits = 0, False
    for task in range(jobs[j, JOB_FIRST], jobs[j, JOB_LAST]):
        if placed == wanted:
            break
        if tasks[task, TASK_STATE] != source or (from_victims and tasks[task, TASK_BATCH] <= 0):
            continue
        how = _place_task(state, j, task)
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


@borrowing_helper
def started(state: Any, j: int) -> int:
    """Return when the first of the running tasks of a job started."""
    first = 1 << 62
    for task in range(state.jobs[j, JOB_FIRST], state.jobs[j, JOB_LAST]):
        if state.tasks[task, TASK_STATE] == TASK_RUNNING:
            first = min(first, state.tasks[task, TASK_START])
    return first


@borrowing_helper
def is_shielded(state: Any, j: int, shield: int) -> bool:
    """Return whether a job started so short a time ago that it is nobody's victim."""
    return shield > 0 and state.count[TIME] - started(state, j) < shield
