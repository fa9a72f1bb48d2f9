"""Backfill: in queue order every job takes the earliest time at which its nodes are free.

A start that lies now is a start; a later one is a reservation, made by the first job of each
partition (EASY), by all (conservative), or by all that may start within the window (Slurm).

Three shortcuts, none of which changes a start: a pass ends behind the last job that could start
now, since reservations live for one pass; a shape that found no room now fails for every
larger shape with no shorter limit; and a shape's next search begins where its last one ended, when
the limit is no shorter. All three hold because a pass only takes room away.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.twin.profile import (
    CLOSED,
    FAR,
    add_end,
    clear,
    earliest,
    rounded_up,
    start_steps,
    take,
)
from gpuplan.simkit.twin.refusals import CANCELLED
from gpuplan.simkit.twin.state import (
    GONE,
    IDLE_BITS,
    NODE_BITS,
    QUEUED,
    STAMP,
    UNKNOWN_END,
    WINDOWS,
    begin,
    choose,
    has_idle,
    is_blocked,
    leave_queue,
    sort_first,
    start_key,
)

NONE, EASY, CONSERVATIVE, SLURM = range(4)


class Searches(NamedTuple):
    """What a pass learned: per shape, in the pass whose number is in ``stamp``.

    Attributes:
        stamp: the pass that the other values are of.
        fails: the shortest limit known to find no room now.
        late: the shortest limit known to find no room within the window.
        limit, time: limit of the last search, and the earliest time that it found.
        reserved: pass in which each partition got its reservation.
        by_user, by_part: jobs tested; ``user_stamp``, ``part_stamp``: in which pass.
        holds_node: pass in which a node got a reservation or has an announced time.
        first, sorted: earliest time of each node; a buffer to sort them in.
    """

    stamp: Any
    fails: Any
    late: Any
    limit: Any
    time: Any
    reserved: Any
    by_user: Any
    user_stamp: Any
    by_part: Any
    part_stamp: Any
    holds_node: Any
    first: Any
    sorted: Any


def new_searches(shapes: int, parts: int, users: int, nodes: int) -> Searches:
    """Return buffers in which nothing is known."""

    def zeros(size: int) -> IntArray:
        return np.zeros(size, np.int64)

    return Searches(
        zeros(shapes), zeros(shapes), zeros(shapes), zeros(shapes), zeros(shapes), zeros(parts),
        zeros(users), zeros(users), zeros(parts), zeros(parts), zeros(nodes), zeros(nodes),
        zeros(nodes),
    )  # fmt: skip


@borrowing_helper
def _recall(searches: Any, shape: int, stamp: int) -> None:
    if searches.stamp[shape] != stamp:
        searches.stamp[shape] = stamp
        searches.fails[shape] = searches.late[shape] = searches.limit[shape] = FAR
        searches.time[shape] = 0


@borrowing_helper
def _note(site: Any, searches: Any, least: Any, shape: int, limit: int, stamp: int) -> None:
    """Note that a shape finds no room, now (``fails``) or in the window (``late``), and larger ones
    do not either."""
    for at in range(site.larger_first[shape], site.larger_first[shape + 1]):
        larger = site.larger[at]
        _recall(searches, larger, stamp)
        least[larger] = min(least[larger], limit)


@borrowing_helper
def _capped(searches: Any, jobs: Any, rules: Any, j: int, stamp: int) -> bool:
    """Count a test of a job; return whether its user or partition had enough of them."""
    user, part = jobs.user[j], jobs.part[j]
    if searches.user_stamp[user] != stamp:
        searches.user_stamp[user], searches.by_user[user] = stamp, 0
    if searches.part_stamp[part] != stamp:
        searches.part_stamp[part], searches.by_part[part] = stamp, 0
    if (
        searches.by_user[user] >= rules.bf_max_job_user
        or searches.by_part[part] >= rules.bf_max_job_part
    ):
        return True
    searches.by_user[user] += 1
    searches.by_part[part] += 1
    return False


@borrowing_helper
def build_node(state: Any, profile: Any, node: int, now: int, step: int) -> None:
    """Set the steps of a node from its running jobs and announced times, those begun among them."""
    if state.down[node] == UNKNOWN_END:
        start_steps(profile, node, 0, now)
        return
    k = start_steps(profile, node, state.idle[node], now)
    for i in range(state.run_size[node]):
        end = rounded_up(max(state.run_end[node, i], now + 1), now, step)
        k = add_end(profile, k, end, state.run_gpus[node, i])
    for w in range(state.count[WINDOWS]):
        if state.window_node[w] == node:
            take(profile, node, state.window_start[w], state.window_end[w], CLOSED)


@borrowing_helper
def _search_now(
    state: Any, site: Any, profile: Any, searches: Any, shape: int, limit: int, now: int, step: int
) -> bool:
    """Return whether a shape fits now, and mark the nodes with enough free GPUs.

    A node without a reservation in this pass only frees more GPUs, so its idle ones suffice.
    """
    line, need, gpus = site.shape_class[shape], site.shape_nodes[shape], site.shape_gpus[shape]
    low, high = site.class_first[line], site.class_first[line + 1]
    fitting = 0
    for i in range(low, high):
        node = site.class_node[i]
        fits = state.open[node] >= gpus
        if fits and searches.holds_node[node] == state.count[STAMP]:
            fits = earliest(profile, node, gpus, limit, now, now, step, now) == now
        searches.first[i - low] = now if fits else FAR
        fitting += fits
    return bool(fitting >= need)


@borrowing_helper
def _search_later(
    state: Any, site: Any, profile: Any, searches: Any, shape: int, limit: int, at: int,
    before: int, now: int, step: int,
) -> int:  # fmt: skip
    """Return the earliest time from ``at`` to ``before`` for a shape, else `FAR`.

    ``searches.first`` then holds the earliest time of every node of the class from that time on.
    """
    line, need, gpus = site.shape_class[shape], site.shape_nodes[shape], site.shape_gpus[shape]
    low, high = site.class_first[line], site.class_first[line + 1]
    first = searches.first
    best = FAR
    for i in range(low, high):
        node = site.class_node[i]
        if profile.head[node] < 0:
            build_node(state, profile, node, now, step)
        bound = min(best, before) if need == 1 else before
        first[i - low] = earliest(profile, node, gpus, limit, at, now, step, bound)
        best = min(best, first[i - low])
    if need == 1:
        return best
    while True:
        same = within = 0
        for i in range(low, high):
            if first[i - low] < at:
                first[i - low] = earliest(
                    profile, site.class_node[i], gpus, limit, at, now, step, before
                )
            same += first[i - low] == at
            within += first[i - low] < FAR
        if same >= need:
            return at
        if within < need:
            return FAR
        for i in range(high - low):
            searches.sorted[i] = first[i]
        sort_first(searches.sorted, high - low)
        at = searches.sorted[need - 1]


@borrowing_helper
def plan_pass(
    state: Any, jobs: Any, site: Any, limits: Any, parent: Any, rules: Any, searches: Any,
    profile: Any, now: int, ends: Any,
) -> None:  # fmt: skip
    """Plan the queue once and start what may start now.

    Jobs that start are added to ``ends``, whose first cell counts them.
    """
    mode = rules.backfill
    ends[0] = 0
    queued = state.count[QUEUED]
    scanned = queued
    if mode == SLURM and rules.bf_max_job_user == FAR and rules.bf_max_job_part == FAR:
        scanned = min(queued, rules.bf_max_job_test)
    last = _last_candidate(state, jobs, site, -1, scanned - 1)
    if last < 0:
        return
    step = rules.bf_resolution if mode == SLURM else 1
    state.count[STAMP] += 1
    stamp = state.count[STAMP]
    clear(profile)
    for w in range(state.count[WINDOWS]):
        node = state.window_node[w]
        if profile.head[node] < 0:
            build_node(state, profile, node, now, step)
            searches.holds_node[node] = stamp
    tested, pos = 0, -1
    while pos < last:
        pos += 1
        j = state.queue[pos]
        if mode == SLURM:
            if tested >= rules.bf_max_job_test:
                break
            if _capped(searches, jobs, rules, j, stamp):
                continue
        tested += 1
        if rules.limits and is_blocked(jobs, limits, parent, j, stamp):
            continue
        shape, limit, part = jobs.shape[j], jobs.limit[j], jobs.part[j]
        _recall(searches, shape, stamp)
        fails = limit >= searches.fails[shape] or not has_idle(state, site, shape)
        may_reserve = mode != EASY or searches.reserved[part] != stamp
        if fails and (not may_reserve or limit >= searches.late[shape]):
            continue
        before = now
        if may_reserve:
            before = now + rules.bf_window if mode == SLURM else FAR - 1
        start = FAR
        if not fails and _search_now(state, site, profile, searches, shape, limit, now, step):
            start = now
        elif may_reserve:
            last = _last_startable(
                state, jobs, site, limits, parent, rules, searches, profile, now, step, pos, last
            )
            if last == pos:
                return
            at = searches.time[shape] if limit >= searches.limit[shape] else now
            start = _search_later(
                state, site, profile, searches, shape, limit, at, before, now, step
            )
        if start > now and limit < searches.fails[shape]:
            _note(site, searches, searches.fails, shape, limit, stamp)
        if start > before:
            if may_reserve and limit < searches.late[shape]:
                _note(site, searches, searches.late, shape, limit, stamp)
            continue
        line, need = site.shape_class[shape], site.shape_nodes[shape]
        low, high = site.class_first[line], site.class_first[line + 1]
        fit = 0
        for i in range(low, high):
            if searches.first[i - low] == start:
                node = site.class_node[i]
                if start == now:
                    state.keys[fit] = start_key(state, site, node, rules.placement)
                else:
                    is_free = mode != SLURM and profile.free[profile.head[node]] >= jobs.gpus[j]
                    late = site.rank[node] + (is_free << (62 - NODE_BITS - IDLE_BITS - 1))
                    state.keys[fit] = (late << (NODE_BITS + IDLE_BITS)) | node
                fit += 1
        choose(state, fit, need)
        leaves = jobs.cancel[j] >= 0 and jobs.runtime[j] == 0 and not jobs.moves[j]
        if start == now and leaves:
            leave_queue(state, jobs, j, GONE)
            state.reason[j] = CANCELLED
        else:
            if start == now:
                leave_queue(state, jobs, j, GONE)
                begin(state, jobs, site, limits, parent, j, now)
                ends[0] += 1
                ends[ends[0]] = j
            else:
                searches.reserved[part] = stamp
                searches.limit[shape], searches.time[shape] = limit, start
            end = rounded_up(start + limit, now, step)
            for i in range(need):
                node = state.chosen[i]
                if profile.head[node] >= 0:  # else it is built later, with the job that started
                    take(profile, node, start, end, jobs.gpus[j])
                if start > now:
                    searches.holds_node[node] = stamp
        if start == now:
            last = _last_candidate(state, jobs, site, pos, last)


@borrowing_helper
def _last_startable(
    state: Any, jobs: Any, site: Any, limits: Any, parent: Any, rules: Any, searches: Any,
    profile: Any, now: int, step: int, low: int, high: int,
) -> int:  # fmt: skip
    """Return the last place in (low, high] of a job that could start now, or ``low``.

    Behind it no reservation matters: what finds no room now does not find any later in the pass.
    """
    stamp = state.count[STAMP]
    while high > low:
        j = state.queue[high]
        shape, limit = jobs.shape[j], jobs.limit[j]
        if has_idle(state, site, shape):
            _recall(searches, shape, stamp)
            if limit < searches.fails[shape] and not (
                rules.limits and is_blocked(jobs, limits, parent, j, stamp)
            ):
                if _search_now(state, site, profile, searches, shape, limit, now, step):
                    return high
                _note(site, searches, searches.fails, shape, limit, stamp)
        high -= 1
    return low


@borrowing_helper
def _last_candidate(state: Any, jobs: Any, site: Any, low: int, high: int) -> int:
    """Return the last place in (low, high] of a job that idle GPUs have room for, or ``low``."""
    while high > low and not has_idle(state, site, jobs.shape[state.queue[high]]):
        high -= 1
    return high
