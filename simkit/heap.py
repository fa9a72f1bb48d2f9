"""A binary heap in one array, for kernels: pairs of integers, the least one first.

Rows 1, 2, ... hold the pairs (``first``, ``second``) in heap order and row 0 holds their number, so
that a heap is one value to hand around. Event queues use ``first`` as the time and ``second`` as
kind and subject.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.jit import borrowing_helper, borrowing_kernel, helper, kernel

LAST = (1 << 63) - 1

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
        heap = larger(heap)
    insert(heap, first, second)
    return heap


@helper
def larger(heap: Array) -> Array:
    """Return the same heap with twice the rows."""
    more = np.empty((2 * heap.shape[0], 2), np.int64)
    for row in range(heap[0, 0] + 1):  # a slice assignment costs three seconds of compilation
        more[row, 0], more[row, 1] = heap[row, 0], heap[row, 1]
    return more


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
