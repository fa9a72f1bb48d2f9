"""Workloads that wait, by queue and shape, and shapes that are parked until quota is released."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.heap import front, join, leave
from gpuplan.simkit.jit import borrowing_helper


@borrowing_helper
def _offer(jobs: Any, state: Any, queue: int, shape: int) -> None:
    """Put a shape into its queue by its first workload."""
    if state.pending.size[shape] and not state.parked[shape]:
        first, _ = front(state.pending, shape)
        join(state.shapes, state.shape_place, queue, first, shape)


@borrowing_helper
def _withdraw(state: Any, queue: int, shape: int) -> None:
    """Take a shape out of its queue."""
    if state.pending.size[shape] and not state.parked[shape]:
        leave(state.shapes, state.shape_place, queue, shape)


@borrowing_helper
def enqueue(jobs: Any, state: Any, w: int) -> None:
    """Let a workload wait; it is parked if its shape is."""
    queue, shape = jobs.queue[w], jobs.shape[w]
    _withdraw(state, queue, shape)
    join(state.pending, state.place, shape, jobs.order[w], w)
    _offer(jobs, state, queue, shape)


@borrowing_helper
def dequeue(jobs: Any, state: Any, w: int) -> None:
    """Take a workload out of those that wait."""
    queue, shape = jobs.queue[w], jobs.shape[w]
    _withdraw(state, queue, shape)
    leave(state.pending, state.place, shape, w)
    _offer(jobs, state, queue, shape)
    if state.sticky[queue] == w:
        state.sticky[queue] = -1


@borrowing_helper
def head_of(jobs: Any, state: Any, queue: int) -> int:
    """Return the workload that a queue tries next; -1: there is none."""
    sticky = state.sticky[queue]
    if sticky >= 0 and not state.parked[jobs.shape[sticky]]:
        return sticky  # type: ignore[no-any-return]
    if state.shapes.size[queue] == 0:
        return -1
    _, shape = front(state.shapes, queue)
    _, w = front(state.pending, shape)
    return w  # type: ignore[no-any-return]


@borrowing_helper
def park(tree: Any, jobs: Any, state: Any, w: int) -> None:
    """Park a workload and all of its shape."""
    queue, shape = jobs.queue[w], jobs.shape[w]
    if state.parked[shape]:
        return
    _withdraw(state, queue, shape)
    state.parked[shape] = True
    root = tree.root[queue]
    state.parked_list[state.parked_first[root] + state.parked_count[root]] = shape
    state.parked_count[root] += 1


@borrowing_helper
def unpark(jobs: Any, state: Any, root: int, shape_queue: Any) -> None:
    """Let all of a tree try again, from the first flavor."""
    state.epoch[root] += 1
    first = state.parked_first[root]
    for i in range(first, first + state.parked_count[root]):
        shape = state.parked_list[i]
        state.parked[shape] = False
        _offer(jobs, state, shape_queue[shape], shape)
    state.parked_count[root] = 0
