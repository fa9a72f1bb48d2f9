"""Which rule holds each waiting job back at each second, given when every job started.

The jobs start when they did; limits, fair shares and the order of the queue follow from that. A
job waits for the limit of its array, else for a limit of its QOS or its association that its start
would break, else for resources if it is the first of its partition that no limit holds, and else
for the jobs before it: priority. Rules are evaluated at every instant at which a job comes, starts
or ends, and at every tick of the priorities.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.heap import insert, new_heap, pop
from gpuplan.simkit.jit import borrowing_helper, borrowing_kernel
from gpuplan.simkit.twin.jobs import SiteJobs
from gpuplan.simkit.twin.priority import queue_up, set_factors, tick
from gpuplan.simkit.twin.profile import FAR
from gpuplan.simkit.twin.refusals import REASONS
from gpuplan.simkit.twin.site import SchedulerConfig, SiteCluster
from gpuplan.simkit.twin.state import (
    GONE,
    QUEUED,
    RUNNING,
    STAMP,
    compact,
    count_use,
    leave_queue,
    new_state,
    note_start,
    over_limit,
)
from gpuplan.simkit.twin.tables import kernel_input

RULES = (*REASONS, "JobArrayTaskLimit", "Priority", "Resources")
"""What may hold a job, by code."""
ARRAY, PRIORITY, RESOURCES = range(len(REASONS), len(REASONS) + 3)
NO_ARRAY = -1

# Cells of the clock.
COMING_NEXT, LAST_TICK, NEXT_TICK, SPELLS = range(4)


class Watch(NamedTuple):
    """What the loop needs beside the state.

    Attributes:
        ready, leave, start: when each job becomes eligible, leaves the queue and starts, or -1.
        coming: jobs in the order in which they become eligible.
        leaving: heap of the times at which jobs start or leave the queue, and running jobs end.
        array, cap, running: array of each job or -1; tasks of each array that may run, and that do.
        rule, since: what holds each waiting job, and since when.
        ended: a buffer of one value per job.
        spell: job, rule, begin and end of the spells that are over; (4, room).
    """

    ready: Any
    leave: Any
    start: Any
    coming: Any
    leaving: Any
    array: Any
    cap: Any
    running: Any
    rule: Any
    since: Any
    ended: Any
    spell: Any


def watch_site(
    site: SiteCluster, jobs: SiteJobs, config: SchedulerConfig, start: IntArray,
    array: IntArray, cap: IntArray,
) -> tuple[IntArray, IntArray, IntArray, IntArray]:  # fmt: skip
    """Return which rule held each job from when it was eligible to its start.

    Args:
        start: second at which each job started; -1 for one that left the queue at ``jobs.cancel``.
        array: array that each job is a task of; -1 for none.
        cap: tasks of each array that may run at once.

    Returns:
        Times in which one rule held one job, ordered by their ends: places of the jobs, of the
        rules in `RULES`, and the seconds at which they begin and end; shape (m,) each.

    Raises:
        ValueError: as `gpuplan.simkit.twin.simulator.replay_site`.
    """
    n = jobs.id.size
    tables = kernel_input(site, jobs, config)
    state = new_state(tables.jobs, tables.site)
    ready = np.where(start >= 0, np.minimum(jobs.ready, start), jobs.ready)
    first = int(ready.min()) if n else 0
    if tables.rules.multifactor:
        set_factors(tables.tree, tables.rules.fairshare, tables.rules.dampening)
    clock = np.zeros(4, np.int64)
    clock[LAST_TICK] = first
    clock[NEXT_TICK] = first + tables.rules.calc_period if tables.rules.multifactor else FAR
    leave = np.where(start >= 0, start, np.maximum(jobs.cancel, ready))
    watch = Watch(
        ready, leave, start, np.argsort(ready, kind="stable"), new_heap(n + 1), array, cap,
        np.zeros_like(cap), np.zeros(n, np.int64), np.zeros(n, np.int64),
        np.zeros(n + 1, np.int64), np.zeros((4, 8 * n + 64), np.int64),
    )  # fmt: skip
    while not _run(state, tables.jobs, tables.limits, tables.tree, tables.rules, watch, clock):
        watch = watch._replace(spell=np.concatenate([watch.spell, np.zeros_like(watch.spell)], 1))
    job, rule, begin, end = watch.spell[:, : clock[SPELLS]]
    return job.copy(), rule.copy(), begin.copy(), end.copy()


@borrowing_helper
def _close(watch: Any, clock: Any, j: int, now: int) -> None:
    """Note that the rule which held a job does not hold it any more."""
    if now > watch.since[j]:
        at = clock[SPELLS]
        watch.spell[0, at], watch.spell[1, at] = j, watch.rule[j]
        watch.spell[2, at], watch.spell[3, at] = watch.since[j], now
        clock[SPELLS] += 1
    watch.since[j] = now


@borrowing_helper
def _held_by(
    state: Any, jobs: Any, limits: Any, parent: Any, rules: Any, watch: Any, j: int
) -> int:
    """Return what holds a job, given that its partition is not blocked yet; blocks it then."""
    which = watch.array[j]
    if which >= 0 and watch.running[which] >= watch.cap[which]:
        return ARRAY
    if rules.limits:
        code: int = over_limit(jobs, limits, parent, j)
        if code:
            return code
    stamp = state.count[STAMP]
    if state.part_stamp[jobs.part[j]] == stamp:
        return PRIORITY
    state.part_stamp[jobs.part[j]] = stamp
    return RESOURCES


@borrowing_kernel
def _run(state: Any, jobs: Any, limits: Any, tree: Any, rules: Any, watch: Any, clock: Any) -> bool:
    """Follow the jobs to the last start; return False where the buffer of spells needs room."""
    ready, leave, start = watch.ready, watch.leave, watch.start
    n, parent, heap = ready.size, tree.parent, watch.leaving
    coming = clock[COMING_NEXT]
    room = watch.spell.shape[1]
    while coming < n or state.count[QUEUED]:
        if clock[SPELLS] + 2 * state.count[QUEUED] + 2 > room:
            clock[COMING_NEXT] = coming
            return False
        now = FAR
        if coming < n:
            now = ready[watch.coming[coming]]
        if heap[0, 0]:
            now = min(now, heap[1, 0])
        if state.count[QUEUED]:
            now = min(now, clock[NEXT_TICK])
        while clock[NEXT_TICK] < now:  # nobody waits: usage alone moves on
            tick(state, jobs, tree, rules, clock[LAST_TICK], clock[NEXT_TICK], watch.ended)
            clock[LAST_TICK] = clock[NEXT_TICK]
            clock[NEXT_TICK] += rules.calc_period
        while heap[0, 0] and heap[1, 0] == now and state.status[heap[1, 1]] == RUNNING:
            j = heap[1, 1]
            pop(heap)
            _end(state, jobs, limits, parent, watch, j)
        while coming < n and ready[watch.coming[coming]] == now:
            j = watch.coming[coming]
            coming += 1
            queue_up(state, jobs, tree, rules, j, now)
            watch.since[j] = now
            insert(heap, leave[j], j)
        # Ends at this instant come before starts, whatever their order in the heap.
        started = 0
        while heap[0, 0] and heap[1, 0] == now:
            j = heap[1, 1]
            pop(heap)
            if state.status[j] == RUNNING:
                _end(state, jobs, limits, parent, watch, j)
            else:
                started += 1
                watch.ended[started] = j
        for i in range(1, started + 1):
            j = watch.ended[i]
            _close(watch, clock, j, now)
            leave_queue(state, jobs, j, GONE)
            if start[j] >= 0:
                note_start(state, jobs, limits, parent, j, now)
                if watch.array[j] >= 0:
                    watch.running[watch.array[j]] += 1
                insert(heap, state.end[j], j)
        compact(state)
        if now == clock[NEXT_TICK]:
            tick(state, jobs, tree, rules, clock[LAST_TICK], now, watch.ended)
            clock[LAST_TICK] = now
            clock[NEXT_TICK] += rules.calc_period
        state.count[STAMP] += 1
        for i in range(state.count[QUEUED]):
            j = state.queue[i]
            rule = _held_by(state, jobs, limits, parent, rules, watch, j)
            if rule != watch.rule[j]:
                _close(watch, clock, j, now)
                watch.rule[j] = rule
    return True


@borrowing_helper
def _end(state: Any, jobs: Any, limits: Any, parent: Any, watch: Any, j: int) -> None:
    state.status[j] = GONE
    count_use(jobs, limits, parent, j, -1)
    if watch.array[j] >= 0:
        watch.running[watch.array[j]] -= 1
