"""Columns of the tables of Kueue's kernels; what they hold is told where the tables are.

Few tables of many columns compile several times faster than many arrays: numba hands every array of
every table to every function.
"""

from __future__ import annotations

# `QuotaState.works`.
STATUS, RESERVED, END, REST, EVICTIONS, ROW, TRIED_EPOCH, HIDDEN, TAKEN = range(9)
# `QuotaState.lists`.
RUNNING, CAND, KEPT, TAKEN_LIST, CHOSEN, CHOSEN_REASON = range(6)
# `QuotaState.slots`.
SLOT_FR, SLOT_AMOUNT, SLOT_MODE, SLOT_HEIGHT, TRIED, TRIED_NEW = range(6)
# `QuotaState.queues`.
(
    SECTION,
    RUNNING_COUNT,
    LEAVING_COUNT,
    CAND_AT,
    CAND_END,
    CAND_EARLY,
    KEPT_END,
    KIND,
    HEAD,
    HEAD_MODE,
    HEAD_HEIGHT,
    HEAD_FIRST,
    HEAD_COUNT,
    HEADS,
    STICKY,
) = range(15)
# `QuotaState.nodes`.
EPOCH, MARK, KIND_AT, PRUNED, WINNER, PARKED_FIRST, PARKED_COUNT, DIRTY, DIRTY_LIST = range(9)
# `QuotaState.request`.
REQ_FR, REQ_AMOUNT, REQ_NEEDED, REQ_REST, TRY_MODE, TRY_HEIGHT = range(6)
# `QuotaState.parking`.
PARKED, PARKED_LIST = range(2)
# `QuotaState.arenas`.
ARENA, ARENA_REASON = range(2)
# `QuotaState.holds`.
HELD_FR, HELD_AMOUNT, HELD_QUEUE = range(3)
# `QuotaState.levels`.
LEVEL_INFINITE, LEVEL_SHARE, LEVEL_OVER = range(3)
# `WorkloadTable.works`.
(
    W_QUEUE,
    W_PRIORITY,
    W_ARRIVAL,
    W_RUNTIME,
    W_CREATED,
    W_ORDER,
    W_AGE,
    W_UID,
    W_SHAPE,
    W_POD_AT,
    W_SLOT_AT,
) = range(11)
# `WorkloadTable.starts`.
POD_FIRST, SLOT_FIRST = range(2)
# `WorkloadTable.pods`.
POD_COUNT, POD_LEAST = range(2)
# `WorkloadTable.slots`.
SLOT_POD, SLOT_GROUP, SLOT_RESOURCE, SLOT_REQUEST = range(4)
# `QuotaTree.nodes`.
PARENT, ROOT, DEPTH, HEIGHT, QUEUE_FIRST, CHILD_FIRST, COHORT_FIRST = range(7)
# `QuotaTree.members`.
M_QUEUE, M_CHILD, M_COHORT = range(3)
# `QuotaTree.quotas`.
SUBTREE, LOCAL, LIMIT, POTENTIAL, USAGE = range(5)
# `QueueRules.queues`.
STRICT, WITHIN, RECLAIM, BORROW_EVICTS, THRESHOLD, BORROW_NEXT, PREEMPT_NEXT, PREEMPT_LAST = range(
    8
)
