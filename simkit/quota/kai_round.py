"""One scheduling round of KAI: allocate, consolidation, reclaim, preempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuplan.simkit.jit import borrowing_helper, borrowing_kernel
from gpuplan.simkit.quota.kai_order import PLACING, TRIED, next_job
from gpuplan.simkit.quota.kai_search import CONSOLIDATE, PREEMPT, RECLAIM, may_search, search
from gpuplan.simkit.quota.kai_share import (
    ALLOCATED,
    COLUMNS,
    FAIR,
    FIXED,
    REQUESTED,
    divide,
)
from gpuplan.simkit.quota.kai_state import (
    FUTURE,
    IDLE,
    JOB_ACTIVE,
    JOB_COLUMNS,
    JOB_DONE,
    JOB_FIRST,
    JOB_FIXED,
    JOB_LAST,
    JOB_PENDING,
    JOB_QUEUE,
    JOB_SIZE,
    TASK_BATCH,
    TASK_LEAVING,
    TASK_NODE,
    TASK_OLD,
    TASK_PENDING,
    TASK_PLACED,
    TASK_RUNNING,
    TASK_STATE,
    TASK_WAITS,
    KaiState,
    place_job,
)

UNPREEMPTIBLE_PRIORITY = 100
"""From this priority on a job is not preemptible unless it says so."""


@borrowing_helper
def _count(state: Any, k: float) -> None:
    """Count what queues hold and request, and divide the GPUs into fair shares."""
    jobs, queues = state.jobs, state.queues
    for q in range(queues.shape[0]):
        queues[q, REQUESTED] = queues[q, ALLOCATED] = queues[q, FIXED] = 0.0
    for leaf in range(queues.shape[0]):
        first = state.member_first[leaf]
        for at in range(first, first + state.member_count[leaf]):
            j = state.member[at]
            size = jobs[j, JOB_SIZE]
            held = jobs[j, JOB_ACTIVE] * size
            q = leaf
            while q >= 0:
                queues[q, ALLOCATED] += held
                queues[q, REQUESTED] += held + jobs[j, JOB_PENDING] * size
                if jobs[j, JOB_FIXED]:
                    queues[q, FIXED] += held
                q = state.parent[q]
    roots = state.parent.size
    total = 0.0
    for node in range(state.nodes.shape[0]):
        total += state.capacity[node]
    level = state.child[state.child_first[roots] : state.child_first[roots + 1]]
    divide(queues, level, total, k)
    for i in range(roots - 1, -1, -1):
        q = state.upwards[i]
        level = state.child[state.child_first[q] : state.child_first[q + 1]]
        if level.size:
            divide(queues, level, queues[q, FAIR], k)


@borrowing_helper
def _untry(state: Any) -> None:
    """Let every pending job be tried by the next action."""
    for q in range(state.queues.shape[0]):
        first = state.member_first[q]
        for at in range(first, first + state.member_count[q]):
            state.jobs[state.member[at], JOB_DONE] &= ~TRIED


@borrowing_kernel
def kai_round(state: Any, k: float) -> None:
    """Run one round; the states of tasks tell what was decided."""
    _count(state, k)
    _untry(state)
    while True:
        j = next_job(state, PLACING)
        if j < 0:
            break
        if not place_job(state, j, False):
            state.jobs[j, JOB_DONE] |= TRIED
    for action in (CONSOLIDATE, RECLAIM, PREEMPT):
        _untry(state)
        while True:
            j = next_job(state, PLACING)
            if j < 0:
                break
            state.jobs[j, JOB_DONE] |= TRIED
            if may_search(state, j, action):
                search(state, j, action)
    _untry(state)


@borrowing_kernel
def settle(state: Any) -> None:
    """End a round: evicted tasks have stopped and wait, those that were placed run."""
    jobs, tasks, nodes = state.jobs, state.tasks, state.nodes
    for node in range(nodes.shape[0]):
        nodes[node, IDLE] = state.capacity[node]
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
    for node in range(nodes.shape[0]):
        nodes[node, FUTURE] = nodes[node, IDLE]


@dataclass(frozen=True, slots=True)
class KaiQueue:
    """A queue of KAI; -1 is unlimited.

    Attributes:
        usage: past use over capacity, decayed; for shares that depend on time.
    """

    name: str
    parent: str | None = None
    priority: int = 100
    deserved: float = -1.0
    limit: float = -1.0
    over_quota_weight: float = 1.0
    created: int = 0
    usage: float = 0.0


@dataclass(frozen=True, slots=True)
class KaiJob:
    """A job of KAI: tasks of equal size, of which so many start together.

    Attributes:
        nodes: node of each task that runs; None for one that waits.
    """

    name: str
    queue: str
    gpus_per_task: int
    nodes: tuple[str | None, ...] = (None,)
    min_tasks: int = 1
    priority: int = 50
    preemptible: bool | None = None
    created: int = 0


def fair_shares(queues: Sequence[KaiQueue], requested: Any, total: float, k: float = 0.0) -> Any:
    """Return the fair share of each queue of one level."""
    table = _queue_table(queues)
    table[:, REQUESTED] = requested
    level = np.lexsort(_ages(queues)).astype(np.int64)
    divide(table, level, float(total), float(k))
    return table[:, FAIR].copy()


def _ages(queues: Sequence[KaiQueue]) -> tuple[Any, Any]:
    """Return the keys that sort queues by age and name, the last one first."""
    names = [queue.name for queue in queues]
    return np.argsort(np.argsort(names, kind="stable")), np.array([q.created for q in queues])


def _queue_table(queues: Sequence[KaiQueue]) -> Any:
    table = np.zeros((len(queues), COLUMNS))
    for i, queue in enumerate(queues):
        table[i, :5] = (
            queue.priority, queue.deserved, queue.limit, queue.over_quota_weight, queue.usage
        )  # fmt: skip
    return table


def kai_state(
    nodes: dict[str, int], queues: Sequence[KaiQueue], jobs: Sequence[KaiJob]
) -> KaiState:
    """Return the tables of a site with what runs and waits on it."""
    names = sorted(nodes)
    position = {queue.name: i for i, queue in enumerate(queues)}
    count = len(queues)
    parent = np.array(
        [-1 if queue.parent is None else position[queue.parent] for queue in queues], np.int64
    )
    by_age = np.lexsort(_ages(queues))
    created = np.empty(count, np.int64)
    created[by_age] = np.arange(count)
    below: list[list[int]] = [[] for _ in range(count + 1)]
    depth = np.zeros(count, np.int64)
    for q in by_age.tolist():
        below[parent[q]].append(q)  # the last list has those without a parent
        above = parent[q]
        while above >= 0:
            depth[q] += 1
            above = parent[above]
    child_first = np.concatenate(([0], np.cumsum([len(row) for row in below]))).astype(np.int64)
    child = np.array([q for row in below for q in row], np.int64)

    ages = np.lexsort((
        np.argsort(np.argsort([job.name for job in jobs], kind="stable")),
        np.array([job.created for job in jobs]),
    ))  # fmt: skip
    table = np.zeros((len(jobs), JOB_COLUMNS), np.int64)
    tasks: list[tuple[int, int, int, int]] = []
    for age, j in enumerate(ages.tolist()):
        job = jobs[j]
        fixed = not job.preemptible
        if job.preemptible is None:
            fixed = job.priority >= UNPREEMPTIBLE_PRIORITY
        first = len(tasks)
        for node in job.nodes:
            at = -1 if node is None else names.index(node)
            tasks.append((TASK_PENDING if at < 0 else TASK_RUNNING, at, -1, 0))
        table[j, :8] = (
            position[job.queue], job.priority, fixed, job.gpus_per_task, job.min_tasks, first,
            len(tasks), age,
        )  # fmt: skip
    members: list[list[int]] = [[] for _ in range(count)]
    for j in ages.tolist():
        members[table[j, JOB_QUEUE]].append(j)
    member_first = np.concatenate(([0], np.cumsum([len(row) for row in members])))
    size = len(tasks)
    state = KaiState(
        queues=_queue_table(queues), parent=parent, created=created, child_first=child_first,
        child=child, jobs=table, member_first=member_first[:-1].astype(np.int64),
        member=np.array([j for row in members for j in row], np.int64),
        member_count=np.array([len(row) for row in members], np.int64),
        tasks=np.array(tasks, np.int64).reshape(-1, 4),
        nodes=np.zeros((len(names), 2), np.int64),
        capacity=np.array([nodes[name] for name in names], np.int64),
        upwards=np.argsort(-depth, kind="stable").astype(np.int64),
        best=np.zeros(count, np.int64), batches=np.zeros((size, 2), np.int64),
        batch_task=np.zeros(size, np.int64), node_order=np.zeros(len(names), np.int64),
        node_freed=np.zeros(len(names), np.int64), node_first=np.zeros(len(names), np.int64),
    )  # fmt: skip
    settle(state)
    return state
