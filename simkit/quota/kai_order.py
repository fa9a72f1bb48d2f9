"""KAI's orders: which queue and which job is next, and which victim."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.quota.kai_share import ALLOCATED, POPPED, PRIORITY
from gpuplan.simkit.quota.kai_state import (
    JOB_ACTIVE,
    JOB_AGE,
    JOB_DONE,
    JOB_FIXED,
    JOB_GATHERED,
    JOB_LEAST,
    JOB_PENDING,
    JOB_PRIORITY,
    JOB_SIZE,
    allocatable,
    need_of,
    within_deserved,
)

PLACING, REPLACING, EVICTING = range(3)  # whose order: pending jobs, evicted ones, victims
# Marks of a job that is left out of an order: tried in this action, evicted and settled, no victim.
TRIED, SETTLED, SHIELDED = 1, 4, 2


@borrowing_helper
def _fullness(jobs: Any, j: int) -> int:
    """Return 0 for a job with fewer active tasks than it needs, 1 for exactly so many, 2 more."""
    if jobs[j, JOB_ACTIVE] < jobs[j, JOB_LEAST]:
        return 0
    return 1 if jobs[j, JOB_ACTIVE] == jobs[j, JOB_LEAST] else 2


@borrowing_helper
def job_before(jobs: Any, j: int, other: int) -> bool:
    """Return whether a job is placed before another of its queue."""
    if jobs[j, JOB_PRIORITY] != jobs[other, JOB_PRIORITY]:
        return jobs[j, JOB_PRIORITY] > jobs[other, JOB_PRIORITY]  # type: ignore[no-any-return]
    if _fullness(jobs, j) != _fullness(jobs, other):
        return _fullness(jobs, j) < _fullness(jobs, other)
    return jobs[j, JOB_AGE] < jobs[other, JOB_AGE]  # type: ignore[no-any-return]


@borrowing_helper
def _dominant(queues: Any, q: int, amount: float, capacity: float) -> float:
    """Return what a queue would hold with some more over what it may hold."""
    held = queues[q, ALLOCATED] + amount
    if capacity == 0:
        return held * 1000.0  # type: ignore[no-any-return]
    return held / capacity  # type: ignore[no-any-return]


@borrowing_helper
def _need_again(jobs: Any, j: int) -> float:
    """Return the GPUs of the tasks of an evicted job that would be placed next."""
    return float(max(1, jobs[j, JOB_LEAST] - jobs[j, JOB_ACTIVE]) * jobs[j, JOB_SIZE])


@borrowing_helper
def queue_before(state: Any, q: int, j: int, other: int, other_job: int, mode: int) -> bool:
    """Return whether a queue with its next job comes before another with its own."""
    queues, jobs = state.queues, state.jobs
    need = other_need = gone = other_gone = 0.0
    if mode == EVICTING:
        gone = queues[q, POPPED] + jobs[j, JOB_ACTIVE] * jobs[j, JOB_SIZE]
        other_gone = queues[other, POPPED] + jobs[other_job, JOB_ACTIVE] * jobs[other_job, JOB_SIZE]
    elif mode == PLACING:
        need, other_need = need_of(jobs, j), need_of(jobs, other_job)
    else:
        need, other_need = _need_again(jobs, j), _need_again(jobs, other_job)
    is_starved = within_deserved(queues, q, queues[q, ALLOCATED] + need)
    is_other = within_deserved(queues, other, queues[other, ALLOCATED] + other_need)
    if is_starved != is_other:
        return is_starved
    if queues[q, PRIORITY] != queues[other, PRIORITY]:
        return queues[q, PRIORITY] > queues[other, PRIORITY]  # type: ignore[no-any-return]
    capacity, other_capacity = allocatable(queues, q), allocatable(queues, other)
    is_bad = capacity == 0 and queues[q, ALLOCATED] + need > 0
    is_other_bad = other_capacity == 0 and queues[other, ALLOCATED] + other_need > 0
    if is_bad != is_other_bad:
        return is_other_bad
    share = _dominant(queues, q, need - gone, capacity)
    other_share = _dominant(queues, other, other_need - other_gone, other_capacity)
    if share != other_share:
        return share < other_share
    share = _dominant(queues, q, 0.0, capacity)
    other_share = _dominant(queues, other, 0.0, other_capacity)
    if share != other_share:
        return share < other_share
    if capacity != other_capacity:
        return capacity < other_capacity
    return state.created[q] < state.created[other]  # type: ignore[no-any-return]


@borrowing_helper
def _is_offered(jobs: Any, j: int, mode: int) -> bool:
    """Return whether a job takes part in an order."""
    if mode == PLACING:
        return jobs[j, JOB_PENDING] > 0 and not jobs[j, JOB_DONE] & TRIED
    if mode == REPLACING:
        return jobs[j, JOB_GATHERED] > 0 and not jobs[j, JOB_DONE] & SETTLED
    return (
        not jobs[j, JOB_FIXED]
        and jobs[j, JOB_ACTIVE] > jobs[j, JOB_GATHERED]
        and not jobs[j, JOB_DONE] & SHIELDED
    )


@borrowing_helper
def next_job(state: Any, mode: int) -> int:
    """Return the first job of an order, from the root down; for victims, the last; -1: none."""
    jobs, best = state.jobs, state.best
    best[:] = -1
    for i in range(state.upwards.size):
        q = state.upwards[i]
        for at in range(state.member_first[q], state.member_first[q] + state.member_count[q]):
            j = state.member[at]
            if _is_offered(jobs, j, mode) and (
                best[q] < 0 or job_before(jobs, j, best[q]) != (mode == EVICTING)
            ):
                best[q] = j
        top = -1
        for at in range(state.child_first[q], state.child_first[q + 1]):
            top = _better(state, state.child[at], top, mode)
        if top >= 0:
            best[q] = best[top]
    top = -1
    roots = state.parent.size
    for at in range(state.child_first[roots], state.child_first[roots + 1]):
        top = _better(state, state.child[at], top, mode)
    return best[top] if top >= 0 else -1


@borrowing_helper
def _better(state: Any, q: int, top: int, mode: int) -> int:
    """Return which of two queues comes first in an order, the second maybe -1."""
    best = state.best
    if best[q] < 0:
        return top
    if top < 0 or queue_before(state, q, best[q], top, best[top], mode) != (mode == EVICTING):
        return q
    return top
