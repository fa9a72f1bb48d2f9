"""Columns, states and marks in the tables of KAI's kernels, see `kai_state.KaiState`."""

from __future__ import annotations

# Columns of the table of queues.
(
    PRIORITY, DESERVED, LIMIT, WEIGHT, USAGE, REQUESTED, ALLOCATED, FIXED, FAIR, WANT, FRACTION,
    POPPED, BEFORE, REMAINING, SHARE_PLACE, SHARE_REPLACE, SHARE_EVICT, EXCESS, EVICTABLE,
    LARGEST, SEEN_ALLOCATED, SEEN_FIXED, SEEN_FAIR, QUEUE_COLUMNS,
) = range(24)  # fmt: skip
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
