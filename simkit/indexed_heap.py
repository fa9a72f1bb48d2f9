"""Many binary heaps in one table, for the cluster's kernel: jobs by key, removable anywhere.

Section ``s`` of `Queues` holds ``size[s]`` pairs (key, job) in rows ``base[s] + 1 ...`` of the
table, the least first; the table of jobs has the position of a job in its section. A
section that wants the greatest key first holds negated pairs, so that ``abs`` of the second is
always the job.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.jit import borrowing_helper

PLACE = 0  # column of the table of jobs


class Queues(NamedTuple):
    """The table of pairs, and where each section begins and how many it holds."""

    heap: Any
    base: Any
    size: Any


@borrowing_helper
def settle(heap: Any, jobs: Any, top: int, size: int, at: int, first: int, second: int) -> None:
    """Put a pair at the empty position ``at``, or above or below it."""
    while at > 1:
        up = at >> 1
        if heap[top + up, 0] < first or (
            heap[top + up, 0] == first and heap[top + up, 1] <= second
        ):
            break
        heap[top + at, 0], heap[top + at, 1] = heap[top + up, 0], heap[top + up, 1]
        jobs[abs(heap[top + at, 1]), PLACE] = at
        at = up
    down = 2 * at
    while down <= size:
        row = top + down
        if down < size and (
            heap[row + 1, 0] < heap[row, 0]
            or (heap[row + 1, 0] == heap[row, 0] and heap[row + 1, 1] < heap[row, 1])
        ):
            row += 1
        if first < heap[row, 0] or (first == heap[row, 0] and second <= heap[row, 1]):
            break
        heap[top + at, 0], heap[top + at, 1] = heap[row, 0], heap[row, 1]
        jobs[abs(heap[top + at, 1]), PLACE] = at
        at = row - top
        down = 2 * at
    heap[top + at, 0], heap[top + at, 1] = first, second
    jobs[abs(second), PLACE] = at


@borrowing_helper
def insert(queues: Any, jobs: Any, section: int, first: int, second: int) -> None:
    """Add a pair to a section."""
    queues.size[section] += 1
    size = queues.size[section]
    settle(queues.heap, jobs, queues.base[section], size, size, first, second)


@borrowing_helper
def remove(queues: Any, jobs: Any, section: int, job: int) -> None:
    """Take a job out of the section that it is in."""
    heap, top = queues.heap, queues.base[section]
    at, last = jobs[job, PLACE], queues.size[section]
    queues.size[section] = last - 1
    if at < last:
        settle(heap, jobs, top, last - 1, at, heap[top + last, 0], heap[top + last, 1])


@borrowing_helper
def front(queues: Any, section: int) -> Any:
    """Return the first pair of a section that is not empty."""
    row = queues.base[section] + 1
    return queues.heap[row, 0], queues.heap[row, 1]


@borrowing_helper
def count_below(queues: Any, section: int, limit: int, most: int) -> int:
    """Return how many pairs of a section have a key below ``limit``, counting up to ``most``.

    Walks the part of the heap above the limit, so it looks at no more than twice what it counts.
    """
    count = 0
    heap = queues.heap
    at, top, last = 1, queues.base[section], queues.size[section]
    while True:
        if at <= last and heap[top + at, 0] < limit:
            count += 1
            if count >= most:
                return count
            at *= 2  # down to the left
            continue
        while at > 1 and at & 1:  # up from the right
            at >>= 1
        if at <= 1:
            return count
        at += 1  # across


def sections(capacity: Any) -> Queues:
    """Return empty sections of these capacities."""
    ends = np.cumsum(capacity)
    base = ends - capacity
    return Queues(np.zeros((int(ends[-1]) + 1, 2), np.int64), base, np.zeros(base.size, np.int64))
