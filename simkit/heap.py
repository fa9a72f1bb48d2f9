"""Binary heaps in arrays, for kernels: pairs of integers, the least one first.

A heap alone, such as a queue of events, is one array: rows 1, 2, ... hold the pairs (``first``,
``second``) in heap order and row 0 holds their number, so that it is one value to hand around.
Event queues use ``first`` as the time and ``second`` as kind and subject.

Many heaps in one table, `Queues`, hold jobs by key, removable anywhere. Section ``s`` holds
``size[s]`` pairs (key, job) in rows ``base[s] + 1 ...`` of the table, the least first; the table of
jobs has the position of a job in its section. A section that wants the greatest key first holds
negated pairs, so that ``abs`` of the second is always the job.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.growable import grown
from gpuplan.simkit.jit import borrowing_helper, borrowing_kernel, kernel

LAST = (1 << 63) - 1
PLACE = 0  # column of the table of jobs

Array = np.ndarray[Any, np.dtype[np.int64]]


@kernel
def new_heap(room: int = 63) -> Array:
    """Return an empty heap with space for this many pairs."""
    heap = np.empty((1 + room, 2), np.int64)  # unused rows take no memory yet
    heap[0, 0] = heap[0, 1] = 0
    return heap


@kernel
def push(heap: Array, first: int, second: int) -> Array:
    """Add a pair; the result takes the place of ``heap``, which may have become too small."""
    if heap[0, 0] + 1 == heap.shape[0]:
        heap = grown(heap)
    insert(heap, first, second)
    return heap


@borrowing_helper
def _rise(heap: Array, at: int, first: int, second: int) -> None:
    """Write a pair into the gap at a row, or above it, below a parent that is not greater."""
    while at > 1:
        up = at >> 1
        if heap[up, 0] < first or (heap[up, 0] == first and heap[up, 1] <= second):
            break
        heap[at, 0], heap[at, 1] = heap[up, 0], heap[up, 1]
        at = up
    heap[at, 0], heap[at, 1] = first, second


@borrowing_helper
def insert(heap: Array, first: int, second: int) -> None:
    """Add a pair to a heap with free space. It returns nothing, which is faster than `push`.

    A kernel counts the references to every array that it hands around in a loop, and that is slow.
    """
    size = heap[0, 0] + 1
    heap[0, 0] = size
    at = size
    _rise(heap, at, first, second)


@borrowing_kernel
def pop(heap: Array) -> None:
    """Remove the least pair, ``heap[1]``; the heap must not be empty."""
    size = heap[0, 0]
    first, second = heap[size, 0], heap[size, 1]
    heap[size, 0] = heap[size, 1] = LAST  # a sibling for the last child
    size -= 1
    heap[0, 0] = size
    # Move the gap down to a leaf without unpredictable branches, and then up to the position of
    # the last pair, which is rarely small.
    at, down = 1, 2
    while down <= size:
        right = down + 1
        down += (heap[right, 0] < heap[down, 0]) | (
            (heap[right, 0] == heap[down, 0]) & (heap[right, 1] < heap[down, 1])
        )
        heap[at, 0], heap[at, 1] = heap[down, 0], heap[down, 1]
        at, down = down, 2 * down
    _rise(heap, at, first, second)


class Queues(NamedTuple):
    """The table of pairs, and where each section begins and how many it holds."""

    heap: Any
    base: Any
    size: Any


@borrowing_helper
def _settle(heap: Any, jobs: Any, top: int, size: int, at: int, first: int, second: int) -> None:
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
def join(queues: Any, jobs: Any, section: int, first: int, second: int) -> None:
    """Add a pair to a section."""
    queues.size[section] += 1
    size = queues.size[section]
    _settle(queues.heap, jobs, queues.base[section], size, size, first, second)


@borrowing_helper
def leave(queues: Any, jobs: Any, section: int, job: int) -> None:
    """Take a job out of the section that it is in."""
    heap, top = queues.heap, queues.base[section]
    at, last = jobs[job, PLACE], queues.size[section]
    queues.size[section] = last - 1
    if at < last:
        _settle(heap, jobs, top, last - 1, at, heap[top + last, 0], heap[top + last, 1])


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
