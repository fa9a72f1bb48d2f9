"""Workloads that wait, by queue and shape, and shapes that are parked until quota is released."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.heap import front, join, leave
from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.quota import columns as col


@borrowing_helper
def _offer(jobs: Any, state: Any, queue: int, shape: int) -> None:
    """Put a shape into its queue by its first workload."""
    if state.pending.size[shape] and not state.parking[shape, col.PARKED]:
        first, _ = front(state.pending, shape)
        join(state.shapes, state.shape_place, queue, first, shape)


@borrowing_helper
def _withdraw(state: Any, queue: int, shape: int) -> None:
    """Take a shape out of its queue."""
    if state.pending.size[shape] and not state.parking[shape, col.PARKED]:
        leave(state.shapes, state.shape_place, queue, shape)


@borrowing_helper
def enqueue(jobs: Any, state: Any, w: int) -> None:
    """Let a workload wait; it is parked if its shape is."""
    queue, shape = jobs.works[w, col.W_QUEUE], jobs.works[w, col.W_SHAPE]
    _withdraw(state, queue, shape)
    join(state.pending, state.place, shape, jobs.works[w, col.W_ORDER], w)
    _offer(jobs, state, queue, shape)


@borrowing_helper
def dequeue(jobs: Any, state: Any, w: int) -> None:
    """Take a workload out of those that wait."""
    queue, shape = jobs.works[w, col.W_QUEUE], jobs.works[w, col.W_SHAPE]
    _withdraw(state, queue, shape)
    leave(state.pending, state.place, shape, w)
    _offer(jobs, state, queue, shape)
    if state.queues[queue, col.STICKY] == w:
        state.queues[queue, col.STICKY] = -1


@borrowing_helper
def head_of(jobs: Any, state: Any, queue: int) -> int:
    """Return the workload that a queue tries next; -1: there is none."""
    sticky = state.queues[queue, col.STICKY]
    if sticky >= 0 and not state.parking[jobs.works[sticky, col.W_SHAPE], col.PARKED]:
        return sticky  # type: ignore[no-any-return]
    if state.shapes.size[queue] == 0:
        return -1
    _, shape = front(state.shapes, queue)
    _, w = front(state.pending, shape)
    return w  # type: ignore[no-any-return]


@borrowing_helper
def park(tree: Any, jobs: Any, state: Any, w: int) -> None:
    """Park a workload and all of its shape."""
    queue, shape = jobs.works[w, col.W_QUEUE], jobs.works[w, col.W_SHAPE]
    if state.parking[shape, col.PARKED]:
        return
    _withdraw(state, queue, shape)
    state.parking[shape, col.PARKED] = True
    root = tree.nodes[queue, col.ROOT]
    state.parking[
        state.nodes[root, col.PARKED_FIRST] + state.nodes[root, col.PARKED_COUNT], col.PARKED_LIST
    ] = shape
    state.nodes[root, col.PARKED_COUNT] += 1


@borrowing_helper
def unpark(jobs: Any, state: Any, root: int, shape_queue: Any) -> None:
    """Let all of a tree try again, from the first flavor."""
    state.nodes[root, col.EPOCH] += 1
    first = state.nodes[root, col.PARKED_FIRST]
    for i in range(first, first + state.nodes[root, col.PARKED_COUNT]):
        shape = state.parking[i, col.PARKED_LIST]
        state.parking[shape, col.PARKED] = False
        _offer(jobs, state, shape_queue[shape], shape)
    state.nodes[root, col.PARKED_COUNT] = 0
