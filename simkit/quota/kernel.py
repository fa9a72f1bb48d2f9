"""The event loop of Kueue: arrays in, arrays out, time in whole seconds.

One instant: workloads end, evicted ones have stopped, others come; then cycles in every tree where
something changed, until one changes nothing, or nothing but the flavors left to try for as many
cycles as a group has flavors. Trees share nothing, so each has cycles of its own.
"""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.heap import front, join, leave
from gpuplan.simkit.jit import borrowing_helper, borrowing_kernel
from gpuplan.simkit.quota import columns as col
from gpuplan.simkit.quota.cycle import CHANGED, MOVED_ON, cycle
from gpuplan.simkit.quota.pending import enqueue, head_of, unpark
from gpuplan.simkit.quota.state import (
    DIRTY,
    GONE,
    LEAVING,
    NEXT_COMING,
    NOW,
    PENDING,
    QUIET,
    ROWS,
    give_quota,
    leave_running,
)
from gpuplan.simkit.reference import by_reference

FAR = 1 << 62
DONE, GOING, FULL = range(3)  # how a slice ends


@borrowing_helper
def _touch(state: Any, root: int) -> None:
    """Note that a tree needs a cycle."""
    if not state.nodes[root, col.DIRTY]:
        state.nodes[root, col.DIRTY] = True
        state.nodes[state.count[DIRTY], col.DIRTY_LIST] = root
        state.count[DIRTY] += 1


@borrowing_helper
def _stop(tree: Any, jobs: Any, state: Any, w: int, most_evictions: int, shape_queue: Any) -> None:
    """Release the quota of a workload that ended, or of one that was evicted and waits again."""
    queue = jobs.works[w, col.W_QUEUE]
    give_quota(tree, jobs, state, w)
    leave_running(jobs, state, w)
    if state.works[w, col.STATUS] == LEAVING:
        state.queues[queue, col.LEAVING_COUNT] -= 1
        if state.works[w, col.EVICTIONS] < most_evictions:
            state.works[w, col.STATUS] = PENDING
            enqueue(jobs, state, w)
        else:
            state.works[w, col.STATUS] = GONE
    else:
        state.works[w, col.STATUS] = GONE
    unpark(jobs, state, tree.nodes[queue, col.ROOT], shape_queue)
    _touch(state, tree.nodes[queue, col.ROOT])


@borrowing_kernel
def run(tables: Any, runs: Any, events: Any, lists: Any, limits: Any) -> int:
    """Take so many instants; returns `DONE`, `GOING`, or `FULL` where ``runs`` has no room.

    Args:
        tables: tree, rules, jobs and state; see `gpuplan.simkit.quota.state`.
        runs: one row per run of a workload; see `gpuplan.simkit.quota.cycle`.
        events: heap of ends and stops, with its table.
        lists: arrivals in order, the queue of each shape, and what a cycle did.
        limits: grace in seconds, checkpoint interval (0: none), most evictions, instants.
    """
    tree, rules = by_reference(tables[0]), by_reference(tables[1])
    jobs, state = by_reference(tables[2]), by_reference(tables[3])
    heap, place = events
    arrivals, shape_queue, log = lists
    grace, checkpoint, most_evictions, instants = limits
    n = jobs.works.shape[0]
    while True:
        while state.count[DIRTY]:
            root = state.nodes[state.count[DIRTY] - 1, col.DIRTY_LIST]
            queues = tree.nodes[root + 1, col.QUEUE_FIRST] - tree.nodes[root, col.QUEUE_FIRST]
            if state.count[ROWS] + queues > runs.shape[0]:
                return FULL
            log[0] = 0
            changed = cycle(tree, rules, jobs, state, runs, root, log)
            now = state.count[NOW]
            for i in range(1, log[0] + 1):
                w = log[i]
                if w >= 0:
                    join(heap, place, 0, state.works[w, col.END], w)
                    continue
                w = -1 - w
                leave(heap, place, 0, w)
                join(heap, place, 0, now + grace, w)
                if checkpoint > 0:
                    ran = now - state.works[w, col.RESERVED]
                    state.works[w, col.REST] -= ran // checkpoint * checkpoint
            state.count[QUIET] = 0 if changed == CHANGED else state.count[QUIET] + 1
            if changed < MOVED_ON or state.count[QUIET] > rules.most_flavors:
                state.count[QUIET] = 0
                state.nodes[root, col.DIRTY] = False
                state.count[DIRTY] -= 1
        if instants == 0:
            return GOING
        instants -= 1
        coming = state.count[NEXT_COMING]
        now = FAR
        if heap.size[0]:
            now, w = front(heap, 0)
        if coming < n:
            now = min(now, jobs.works[arrivals[coming], col.W_ARRIVAL])
        if now == FAR:
            return DONE
        state.count[NOW] = now
        while heap.size[0]:
            time, w = front(heap, 0)
            if time > now:
                break
            leave(heap, place, 0, w)
            _stop(tree, jobs, state, w, most_evictions, shape_queue)
        while coming < n and jobs.works[arrivals[coming], col.W_ARRIVAL] == now:
            w = arrivals[coming]
            state.works[w, col.STATUS] = PENDING
            enqueue(jobs, state, w)
            if head_of(jobs, state, jobs.works[w, col.W_QUEUE]) == w:
                _touch(state, tree.nodes[jobs.works[w, col.W_QUEUE], col.ROOT])
            coming += 1
        state.count[NEXT_COMING] = coming
