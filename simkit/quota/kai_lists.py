"""KAI's lists of each queue in order: pending jobs, and running ones that may be victims."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.quota import kai_columns as col
from gpuplan.simkit.quota.kai_state import tasks_wanted


@borrowing_helper
def fullness(jobs: Any, j: int) -> int:
    """Return 0 for a job with fewer active tasks than it needs, 1 for exactly so many, 2 more."""
    if jobs[j, col.JOB_ACTIVE] < jobs[j, col.JOB_LEAST]:
        return 0
    return 1 if jobs[j, col.JOB_ACTIVE] == jobs[j, col.JOB_LEAST] else 2


@borrowing_helper
def is_before(jobs: Any, j: int, full: int, other: int, other_full: int) -> bool:
    """Return whether a job is placed before another of its queue, by how full each is."""
    if jobs[j, col.JOB_PRIORITY] != jobs[other, col.JOB_PRIORITY]:
        return jobs[j, col.JOB_PRIORITY] > jobs[other, col.JOB_PRIORITY]  # type: ignore[no-any-return]
    if full != other_full:
        return full < other_full
    return jobs[j, col.JOB_AGE] < jobs[other, col.JOB_AGE]  # type: ignore[no-any-return]


@borrowing_helper
def _listed_before(jobs: Any, j: int, other: int) -> bool:
    """Return whether a job comes before another in the lists."""
    return is_before(jobs, j, jobs[j, col.JOB_FULL], other, jobs[other, col.JOB_FULL])


@borrowing_helper
def put_into(state: Any, j: int, column: int, count: int) -> None:
    """Put a job into a list of its queue."""
    jobs, lists = state.jobs, state.lists
    q = jobs[j, col.JOB_QUEUE]
    low = state.tree[q, col.SECTION]
    at = high = low + state.tree[q, count]
    while low < high:
        middle = (low + high) >> 1
        if _listed_before(jobs, j, lists[middle, column]):
            high = middle
        else:
            low = middle + 1
    while at > low:
        lists[at, column] = lists[at - 1, column]
        if column == col.LIST_PENDING:
            lists[at, col.LIST_KIND] = lists[at - 1, col.LIST_KIND]
        at -= 1
    lists[low, column] = j
    if column == col.LIST_PENDING:
        lists[low, col.LIST_KIND] = jobs[j, col.JOB_CLASS]
    state.tree[q, count] += 1


@borrowing_helper
def _place_of(state: Any, j: int, column: int, count: int) -> int:
    """Return where a job is in a list of its queue."""
    jobs = state.jobs
    q = jobs[j, col.JOB_QUEUE]
    low = state.tree[q, col.SECTION]
    high = low + state.tree[q, count] - 1
    while low < high:
        middle = (low + high) >> 1
        if _listed_before(jobs, state.lists[middle, column], j):
            low = middle + 1
        else:
            high = middle
    return low  # type: ignore[no-any-return]


@borrowing_helper
def take_out(state: Any, j: int, column: int, count: int) -> None:
    """Take a job out of a list of its queue."""
    jobs, lists = state.jobs, state.lists
    q = jobs[j, col.JOB_QUEUE]
    last = state.tree[q, col.SECTION] + state.tree[q, count] - 1
    low = _place_of(state, j, column, count)
    while low < last:
        lists[low, column] = lists[low + 1, column]
        if column == col.LIST_PENDING:
            lists[low, col.LIST_KIND] = lists[low + 1, col.LIST_KIND]
        low += 1
    state.tree[q, count] -= 1


@borrowing_helper
def unlist(state: Any, j: int) -> None:
    """Take a job out of the lists of its queue."""
    listed = state.jobs[j, col.JOB_LISTED]
    if listed & col.IN_PENDING:
        take_out(state, j, col.LIST_PENDING, col.PENDING_COUNT)
        if not listed & col.KEEPS_PLACE:
            _leave_class(state, state.jobs[j, col.JOB_CLASS])
    if listed & col.IN_ACTIVE:
        take_out(state, j, col.LIST_ACTIVE, col.ACTIVE_COUNT)
    state.jobs[j, col.JOB_LISTED] = 0


@borrowing_helper
def relist(state: Any, j: int) -> None:
    """Put a job where it belongs after its tasks changed."""
    jobs = state.jobs
    if (
        jobs[j, col.JOB_LISTED] & col.KEEPS_PLACE
        and jobs[j, col.JOB_ACTIVE] == 0
        and jobs[j, col.JOB_PENDING] > 0
    ):
        at = _place_of(state, j, col.LIST_PENDING, col.PENDING_COUNT)
        state.lists[at, col.LIST_KIND] = jobs[j, col.JOB_CLASS]
        _join_class(state, j)
        jobs[j, col.JOB_LISTED] = col.IN_PENDING
    else:
        unlist(state, j)
        enlist(state, j)


@borrowing_helper
def keep_place(state: Any, j: int) -> None:
    """Pass the next pending job of its queue, which this round placed, until the round ends.

    It may have to wait on then, where it was: moving those after it there and back is saved.
    """
    state.lists[state.tree[state.jobs[j, col.JOB_QUEUE], col.CURSOR], col.LIST_KIND] = col.NO_CLASS
    state.jobs[j, col.JOB_LISTED] |= col.KEEPS_PLACE
    _leave_class(state, state.jobs[j, col.JOB_CLASS])


@borrowing_helper
def enlist(state: Any, j: int) -> None:
    """Put a job into the lists of its queue where it belongs."""
    jobs = state.jobs
    listed = 0
    jobs[j, col.JOB_FULL] = fullness(jobs, j)
    tasks = jobs[j, col.JOB_ACTIVE] + jobs[j, col.JOB_PENDING]
    if jobs[j, col.JOB_PENDING] > 0 and tasks >= min(
        jobs[j, col.JOB_LEAST], jobs[j, col.JOB_ALIVE]
    ):
        put_into(state, j, col.LIST_PENDING, col.PENDING_COUNT)
        _join_class(state, j)
        listed = col.IN_PENDING
    if jobs[j, col.JOB_ACTIVE] > 0 and not jobs[j, col.JOB_FIXED]:
        put_into(state, j, col.LIST_ACTIVE, col.ACTIVE_COUNT)
        listed |= col.IN_ACTIVE
    jobs[j, col.JOB_LISTED] = listed


@borrowing_helper
def _join_class(state: Any, j: int) -> None:
    """Count a job among the pending ones of its class; list a class that had none."""
    jobs, classes = state.jobs, state.classes
    kind = jobs[j, col.JOB_CLASS]
    if classes[kind, col.CLASS_COUNT] == 0:
        classes[kind, col.CLASS_PLACE] = state.count[col.CLASSES]
        state.lists[state.count[col.CLASSES], col.LIST_CLASSES] = kind
        state.count[col.CLASSES] += 1
    wanted = tasks_wanted(jobs, j)
    if classes[kind, col.CLASS_WANTED] != wanted:
        classes[kind, col.CLASS_WANTED] = wanted
        classes[kind, col.CLASS_NEED] = wanted * classes[kind, col.CLASS_SIZE]
        classes[kind, col.SHAPE_POOR_AT] = -1
    classes[kind, col.CLASS_COUNT] += 1


@borrowing_helper
def _leave_class(state: Any, kind: int) -> None:
    """Count one less among the pending jobs of a class; one that has none is listed no more."""
    classes, lists = state.classes, state.lists
    classes[kind, col.CLASS_COUNT] -= 1
    if classes[kind, col.CLASS_COUNT] == 0:
        state.count[col.CLASSES] -= 1
        last = lists[state.count[col.CLASSES], col.LIST_CLASSES]
        lists[classes[kind, col.CLASS_PLACE], col.LIST_CLASSES] = last
        classes[last, col.CLASS_PLACE] = classes[kind, col.CLASS_PLACE]
