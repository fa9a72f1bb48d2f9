"""A site of KAI as plain values, and the tables that the kernels read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.quota import kai_columns as col
from gpuplan.simkit.quota.kai_state import NODES_A_WORD, ROOMY_ROWS, KaiState

UNLIMITED = 1 << 60


@dataclass(frozen=True, slots=True)
class KaiQueue:
    """A queue of KAI; -1 is unlimited.

    Attributes:
        usage: past use over capacity, decayed; for shares that depend on time.
        preempt_min_runtime, reclaim_min_runtime: jobs that started fewer seconds ago are not
            preempted, or not reclaimed; None: as the queue above says, 0 where none does.
    """

    name: str
    parent: str | None = None
    priority: int = 100
    deserved: float = -1.0
    limit: float = -1.0
    over_quota_weight: float = 1.0
    created: int = 0
    usage: float = 0.0
    preempt_min_runtime: int | None = None
    reclaim_min_runtime: int | None = None


def ages(queues: Sequence[KaiQueue]) -> tuple[Any, Any]:
    """Return the keys that sort queues by age and name, the last one first."""
    names = [queue.name for queue in queues]
    return np.argsort(np.argsort(names, kind="stable")), np.array([q.created for q in queues])


def queue_table(queues: Sequence[KaiQueue]) -> Any:
    """Return the table of queues with what each states; one row per queue."""
    table = np.zeros((len(queues), col.QUEUE_COLUMNS))
    for i, queue in enumerate(queues):
        table[i, :5] = (
            queue.priority, queue.deserved, queue.limit, queue.over_quota_weight, queue.usage
        )  # fmt: skip
    return table


def empty_state(
    capacity: IntArray, queues: Sequence[KaiQueue], jobs: IntArray, tasks: IntArray,
    *, is_uniform: bool = True,
) -> KaiState:  # fmt: skip
    """Return the tables of a site; its nodes are free and its queues empty.

    Args:
        capacity: GPUs of each node, nodes in the order of their names.
        queues: queues of all levels.
        jobs: the first eight columns of jobs, see `gpuplan.simkit.quota.kai_state`.
        tasks: the first four columns of tasks.
        is_uniform: whether gangs of one shape and queue fail alike: none of them runs in part.
    """
    position = {queue.name: i for i, queue in enumerate(queues)}
    count, n = len(queues), len(jobs)
    by_age = np.lexsort(ages(queues))
    tree = np.zeros((count + 1, col.TREE_COLUMNS), np.int64)
    tree[:count, col.PARENT] = [-1 if q.parent is None else position[q.parent] for q in queues]
    tree[count, col.PARENT] = -1
    tree[by_age, col.CREATED] = np.arange(count)
    below: list[list[int]] = [[] for _ in range(count + 1)]
    depth = np.zeros(count, np.int64)
    for q in by_age.tolist():
        below[tree[q, col.PARENT]].append(q)  # the last list has those without a parent
        above, steps = q, 0
        while (above := tree[above, col.PARENT]) >= 0:
            steps += 1
            if steps > count:
                raise ValueError(f"queues must form a tree, got a ring at {queues[q].name}")
        depth[q] = steps
    for q in by_age[np.argsort(depth[by_age], kind="stable")].tolist():
        above = tree[q, col.PARENT]
        for column, seconds in (
            (col.PREEMPT_SHIELD, queues[q].preempt_min_runtime),
            (col.RECLAIM_SHIELD, queues[q].reclaim_min_runtime),
        ):
            inherited = tree[above, column] if above >= 0 else 0
            tree[q, column] = inherited if seconds is None else seconds
    ends = np.cumsum([len(row) for row in below])
    tree[:, col.CHILD_FIRST], tree[:, col.CHILD_LAST] = ends - [len(row) for row in below], ends
    tree[:, col.MAY_LOSE] = [any(queues[q].deserved >= 0 for q in row) for row in below]
    tree[:count, col.UPWARDS] = np.argsort(-depth, kind="stable")
    by_queue = np.bincount(jobs[:, col.JOB_QUEUE], minlength=count)[:count]
    tree[:count, col.SECTION] = np.cumsum(by_queue) - by_queue

    job_table = np.zeros((n, col.JOB_COLUMNS), np.int64)
    job_table[:, :8] = jobs
    sizes = jobs[:, 6] - jobs[:, 5]
    distinct = np.where(
        (sizes == jobs[:, 4]) & is_uniform, -1, np.arange(n)
    )  # tasks of others start one by one
    keys = np.column_stack((jobs[:, :4], sizes, distinct))
    kinds, kind = np.unique(keys, axis=0, return_inverse=True)
    job_table[:, col.JOB_CLASS] = kind.reshape(-1)
    classes = np.zeros((len(kinds), col.CLASS_COLUMNS), np.int64)
    classes[:, col.CLASS_QUEUE : col.CLASS_SIZE + 1] = kinds[:, :4]
    tree[:count, col.CLASS_BEGIN] = np.searchsorted(kinds[:, 0], np.arange(count))
    tree[:count, col.CLASS_END] = np.searchsorted(kinds[:, 0], np.arange(count), "right")
    _, first, shape = np.unique(
        kinds[:, [0, 3, 4, 5]], axis=0, return_index=True, return_inverse=True
    )
    classes[:, col.CLASS_SHAPE], classes[:, col.SHAPE_POOR_AT] = first[shape.reshape(-1)], -1
    task_table = np.zeros((len(tasks), col.TASK_COLUMNS), np.int64)
    task_table[:, :4] = tasks
    nodes = np.zeros((capacity.size, col.NODE_COLUMNS), np.int64)
    nodes[:, col.CAPACITY] = capacity
    cells = np.zeros(col.CELLS, np.int64)
    cells[col.MOST_GANG] = (sizes * jobs[:, 3]).max(initial=0)
    cells[col.ALL_CAPACITY], cells[col.MOST_MOVED] = capacity.sum(), UNLIMITED
    cells[col.SEVERAL] = (distinct >= 0).sum()
    cells[col.SHIELDS] = (tree[:, [col.PREEMPT_SHIELD, col.RECLAIM_SHIELD]] > 0).sum()
    rows = min(ROOMY_ROWS, int(capacity.max(initial=0)) + 1)
    return KaiState(
        queues=queue_table(queues), tree=tree,
        child=np.array([q for row in below for q in row], np.int64), jobs=job_table,
        tasks=task_table, nodes=nodes,
        lists=np.zeros((max(n, len(kinds)) + 1, col.LISTS), np.int64),
        classes=classes,
        batches=np.zeros((len(tasks) + 1, col.BATCH_COLUMNS), np.int64),
        rooms=np.zeros(int(capacity.max(initial=0)) + 1, np.int64),
        roomy=np.zeros((rows, -(-capacity.size // NODES_A_WORD)), np.int64),
        moved=np.zeros((int(capacity.max(initial=0)) + 1, col.MOVED_COLUMNS), np.int64),
        count=cells,
    )  # fmt: skip
