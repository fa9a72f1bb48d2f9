"""The event loop of the twin: arrays in, arrays out, time in whole seconds.

One instant, in this order: jobs end, node events, jobs that wait are cancelled, jobs become
eligible, priorities are renewed, the main pass, the backfill pass.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.heap import insert, new_heap, pop
from gpuplan.simkit.jit import borrowing_helper, borrowing_kernel
from gpuplan.simkit.twin.backfill import NONE, SLURM, Searches, new_searches, plan_pass
from gpuplan.simkit.twin.priority import decay, queue_up, set_factors, tick
from gpuplan.simkit.twin.profile import FAR, FreeProfile, new_profile
from gpuplan.simkit.twin.refusals import CANCELLED, ELSEWHERE, UNSTARTED
from gpuplan.simkit.twin.state import (
    COMING,
    GONE,
    QUEUED,
    STAMP,
    WAITING,
    WINDOWS,
    SiteState,
    any_has_idle,
    begin,
    choose,
    compact,
    finish,
    is_blocked,
    leave_queue,
    new_state,
    set_events,
    start_key,
    window_allows,
)

# Cells of the clock: the next job to come, to be cancelled and the next node event; times; and
# whether anything changed since the last plan, or a job was left untested since the last full pass.
(
    COMING_NEXT, LEAVING_NEXT, EDGE_NEXT, IDLE_TICKS, NOW, LAST_FULL, LAST_TICK, NEXT_TICK,
    NEXT_BACKFILL, CHANGED, UNTESTED,
) = range(11)  # fmt: skip
FEWEST_INSTANTS = 16
SLICE_S = 0.1
"""About how long a slice takes; its length changes no result."""
MOST_IDLE_TICKS = 1000  # ticks with waiting jobs and nothing else to come; then they never start


@borrowing_helper
def main_pass(
    state: Any, jobs: Any, site: Any, limits: Any, parent: Any, rules: Any, now: int, depth: int,
    ends: Any,
) -> None:  # fmt: skip
    """Start jobs in order; one that does not fit blocks its partition and the nodes of it."""
    ends[0] = 0
    if not any_has_idle(state, site):
        return
    state.count[STAMP] += 1
    stamp = state.count[STAMP]
    parts = 0
    for p in range(state.waiting_part.size):
        parts += state.waiting_part[p] > 0
    for pos in range(min(depth, state.count[QUEUED])):
        j = state.queue[pos]
        part = jobs.part[j]
        if state.part_stamp[part] == stamp:
            continue
        if rules.limits and is_blocked(jobs, limits, parent, j, stamp):
            continue
        line, fit = jobs.line[j], 0
        end = now + jobs.limit[j]
        for i in range(site.class_first[line], site.class_first[line + 1]):
            node = site.class_node[i]
            if (
                state.open[node] >= jobs.gpus[j]
                and state.node_stamp[node] != stamp
                and (state.count[WINDOWS] == 0 or window_allows(state, node, end))
            ):
                state.keys[fit] = start_key(state, site, node, rules.placement)
                fit += 1
        if fit < jobs.nodes[j]:
            state.part_stamp[part] = stamp
            for i in range(site.part_first[part], site.part_first[part + 1]):
                state.node_stamp[site.part_node[i]] = stamp
            parts -= 1
            if parts == 0:
                break
            continue
        leave_queue(state, jobs, j, GONE)
        # How long a job would have run that was cancelled is unknown.
        if jobs.cancel[j] >= 0 and jobs.runtime[j] == 0 and not jobs.moves[j]:
            state.reason[j] = CANCELLED
        else:
            choose(state, fit, jobs.nodes[j])
            begin(state, jobs, site, limits, parent, j, now)
            ends[0] += 1
            ends[ends[0]] = j
    compact(state)


@borrowing_helper
def start_pinned(
    state: Any, jobs: Any, site: Any, limits: Any, parent: Any, rules: Any, now: int, pinned: Any,
    ends: Any,
) -> None:  # fmt: skip
    """Start pinned jobs whose time has come, where there is room; ``pinned[0]`` counts them."""
    ends[0] = 0
    kept = 0
    for i in range(1, pinned[0] + 1):
        j = pinned[i]
        line, fit = jobs.line[j], 0
        for at in range(site.class_first[line], site.class_first[line + 1]):
            node = site.class_node[at]
            if state.idle[node] >= jobs.gpus[j]:
                state.keys[fit] = start_key(state, site, node, rules.placement)
                fit += 1
        if fit < jobs.nodes[j]:
            kept += 1
            pinned[kept] = j
            continue
        choose(state, fit, jobs.nodes[j])
        begin(state, jobs, site, limits, parent, j, now)
        ends[0] += 1
        ends[ends[0]] = j
    pinned[0] = kept


@borrowing_helper
def push_ends(heap: Any, state: Any, ends: Any) -> None:
    """Add the ends of the jobs that just started to the heap, which has room for every job."""
    for i in range(1, ends[0] + 1):
        insert(heap, state.end[ends[i]], ends[i])


class LoopBuffers(NamedTuple):
    """What the loop needs beside the state.

    Attributes:
        arrival: when each job comes; ``arrivals`` are the jobs in that order, ``cancels`` the jobs
            in the order of their cancellations.
        ends: jobs that just started, ``ends[0]`` of them.
        pinned: pinned jobs that wait for room, ``pinned[0]`` of them.
        searches: what a backfill pass learned.
        heap: ends of running jobs.
        profile: what a backfill pass knows of the future.
    """

    arrival: Any
    arrivals: Any
    cancels: Any
    ends: Any
    pinned: Any
    searches: Searches
    heap: Any
    profile: FreeProfile


def new_loop(
    jobs: Any, site: Any, tree: Any, rules: Any, arrival: Any, first: int
) -> tuple[LoopBuffers, IntArray]:
    """Return what the loop needs beside the state, and its clock, before the second ``first``."""
    n = jobs.ready.size
    parts, users = site.part_first.size - 1, int(jobs.user.max(initial=0)) + 1
    # A node has a step for now and for each running job; two more for each plan and event of it.
    steps = int(site.gpus.size + site.gpus.sum() + 2 * (jobs.nodes.sum() + site.event_node.size))
    buffers = LoopBuffers(
        arrival, np.argsort(arrival, kind="stable"), np.argsort(jobs.cancel, kind="stable"),
        np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64),
        new_searches(site.shape_class.size, parts, users, site.gpus.size), new_heap(n + 1),
        new_profile(site.gpus.size, steps),
    )  # fmt: skip
    clock = np.zeros(11, np.int64)
    clock[[LAST_FULL, LAST_TICK, NEXT_BACKFILL]] = -FAR, first, first + rules.bf_phase
    clock[NEXT_TICK] = first + rules.calc_phase if rules.multifactor else FAR
    if rules.multifactor:
        set_factors(tree, rules.fairshare, rules.dampening)
    return buffers, clock


def replay(
    jobs: Any, site: Any, limits: Any, tree: Any, rules: Any,
    progress: Callable[[float], None] = lambda share: None,
) -> SiteState:  # fmt: skip
    """Run every job that can run to its end, in slices between which a signal is answered.

    Args:
        jobs, site, limits, tree, rules: see `gpuplan.simkit.twin.tables`.
        progress: called after each slice with the share of the jobs that have come.

    Returns:
        The state after the last job.
    """
    n = jobs.ready.size
    arrival = np.where(jobs.pinned >= 0, jobs.pinned, jobs.ready)
    first = int(arrival.min(initial=FAR)) if n else 0
    state = new_state(jobs, site)
    buffers, clock = new_loop(jobs, site, tree, rules, arrival, first)
    instants, going = FEWEST_INSTANTS, True
    while going:
        began = perf_counter()
        going = run(state, jobs, site, limits, tree, rules, buffers, clock, instants)
        took = perf_counter() - began
        if took < SLICE_S / 2:
            instants *= 2
        elif took > SLICE_S:
            instants = max(FEWEST_INSTANTS, instants // 2)
        progress(float(clock[COMING_NEXT]) / max(n, 1))
    return state


@borrowing_kernel
def run(
    state: Any, jobs: Any, site: Any, limits: Any, tree: Any, rules: Any, buffers: Any, clock: Any,
    instants: int,
) -> bool:  # fmt: skip
    """Take so many instants, one after the other; return whether anything can still happen.

    ``clock`` holds what one slice leaves to the next; see `COMING_NEXT` and the next.
    """
    n, parent = jobs.ready.size, tree.parent
    arrival, arrivals, cancels = buffers.arrival, buffers.arrivals, buffers.cancels
    ends, pinned, searches = buffers.ends, buffers.pinned, buffers.searches
    heap, profile = buffers.heap, buffers.profile
    coming, leaving, edge = clock[COMING_NEXT], clock[LEAVING_NEXT], clock[EDGE_NEXT]
    idle_ticks, now, last_full = clock[IDLE_TICKS], clock[NOW], clock[LAST_FULL]
    last_tick, next_tick, next_bf = clock[LAST_TICK], clock[NEXT_TICK], clock[NEXT_BACKFILL]
    changed, untested = clock[CHANGED] != 0, clock[UNTESTED] != 0
    going = True
    for _ in range(instants):
        while leaving < n:
            j = cancels[leaving]
            if jobs.cancel[j] >= 0 and (
                state.status[j] == WAITING
                or (state.status[j] == COMING and jobs.cancel[j] > jobs.ready[j])
            ):
                break
            leaving += 1
        time = FAR
        if coming < n:
            time = arrival[arrivals[coming]]
        if heap[0, 0]:
            time = min(time, heap[1, 0])
        if leaving < n:
            time = min(time, jobs.cancel[cancels[leaving]])
        if time == FAR and state.count[QUEUED] == 0:
            going = False
            break
        if edge < site.edges.size:
            time = min(time, site.edges[edge])
        wakes = rules.backfill == SLURM and changed and state.count[QUEUED] > 0
        tests_all = untested and state.count[QUEUED] > 0
        if time == FAR:
            idle_ticks += 1
            if idle_ticks > MOST_IDLE_TICKS or not (rules.multifactor or wakes or tests_all):
                going = False
                break
        if wakes:
            time = min(time, max(next_bf, now))
        if tests_all:
            time = min(time, last_full + rules.sched_interval)
        is_empty = state.active_size[0] == 0 and state.count[QUEUED] == 0
        if is_empty and next_tick < time < FAR and pinned[0] == 0 and state.followers[0] == 0:
            while next_tick < time:  # ticks that change nothing but usage
                decay(tree, rules, next_tick - last_tick)
                last_tick = next_tick
                next_tick += rules.calc_period
            if rules.w_fairshare != 0.0:
                set_factors(tree, rules.fairshare, rules.dampening)
            changed = True
        now = min(time, next_tick)
        event = False

        while heap[0, 0] and heap[1, 0] == now:
            finish(state, jobs, site, limits, parent, heap[1, 1])
            pop(heap)
            event = True
        if edge < site.edges.size and site.edges[edge] == now:
            set_events(state, site, now)
            edge += 1
            event = True
        while leaving < n and jobs.cancel[cancels[leaving]] <= now:
            j = cancels[leaving]
            if state.status[j] == WAITING:
                leave_queue(state, jobs, j, GONE)
                state.reason[j] = ELSEWHERE if jobs.moves[j] else CANCELLED
                event = True
            leaving += 1
        compact(state)
        while coming < n and arrival[arrivals[coming]] == now:
            j = arrivals[coming]
            coming += 1
            state.status[j] = GONE
            if jobs.refused[j]:  # no change of anything
                state.reason[j] = jobs.refused[j]
                continue
            event = True
            if jobs.pinned[j] >= 0:
                pinned[0] += 1
                pinned[pinned[0]] = j
            elif 0 <= jobs.cancel[j] <= now:
                state.reason[j] = CANCELLED
            else:
                queue_up(state, jobs, tree, rules, j, now)
        for i in range(1, state.followers[0] + 1):
            j = state.followers[i]
            jobs.ready[j] = now
            if jobs.refused[j]:
                state.status[j], state.reason[j] = GONE, jobs.refused[j]
            else:
                queue_up(state, jobs, tree, rules, j, now)
        state.followers[0] = 0
        if now == next_tick:
            tick(state, jobs, tree, rules, last_tick, now, ends)
            last_tick = now
            next_tick += rules.calc_period
            event = True
        if pinned[0]:
            start_pinned(state, jobs, site, limits, parent, rules, now, pinned, ends)
            push_ends(heap, state, ends)
        changed = changed or event
        is_full = now - last_full >= rules.sched_interval
        if (event or (tests_all and is_full)) and state.count[QUEUED]:
            if rules.backfill == NONE or rules.backfill == SLURM:
                depth = rules.queue_depth
                if is_full:
                    last_full, depth, untested = now, n, False
                untested = untested or state.count[QUEUED] > depth
                before = state.count[QUEUED]
                main_pass(state, jobs, site, limits, parent, rules, now, depth, ends)
                changed = changed or state.count[QUEUED] < before
            else:
                plan_pass(state, jobs, site, limits, parent, rules, searches, profile, now, ends)
                compact(state)
            push_ends(heap, state, ends)
        if rules.backfill == SLURM and changed and state.count[QUEUED] and now >= next_bf:
            before = state.count[QUEUED]
            plan_pass(state, jobs, site, limits, parent, rules, searches, profile, now, ends)
            compact(state)
            push_ends(heap, state, ends)
            next_bf = now + rules.bf_interval
            changed = state.count[QUEUED] < before

    clock[COMING_NEXT], clock[LEAVING_NEXT], clock[EDGE_NEXT] = coming, leaving, edge
    clock[IDLE_TICKS], clock[NOW], clock[LAST_FULL] = idle_ticks, now, last_full
    clock[LAST_TICK], clock[NEXT_TICK], clock[NEXT_BACKFILL] = last_tick, next_tick, next_bf
    clock[CHANGED], clock[UNTESTED] = changed, untested
    if going:
        return True
    for i in range(state.count[QUEUED]):
        state.reason[state.queue[i]] = UNSTARTED
    for i in range(1, pinned[0] + 1):
        state.reason[pinned[i]] = UNSTARTED
    return False
