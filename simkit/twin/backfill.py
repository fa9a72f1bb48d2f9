"""Backfill: in queue order every job takes the earliest time at which its nodes are free.

A start that lies now is a start; a later one is a reservation, made by the first job of each
partition (EASY), by all (conservative), or by all that may start within the window (Slurm).

Three shortcuts, none of which changes a start: a pass ends behind the last job that the idle GPUs
have room for, since reservations live for one pass; a shape that found no room now fails for every
larger shape with no shorter limit; and a shape's next search begins where its last one ended, when
the limit is no shorter. All three hold because a pass only takes room away.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.jit import kernel
from gpuplan.simkit.twin.limits import over_limit
from gpuplan.simkit.twin.profile import FAR, build, earliest, roomier, rounded_up, take
from gpuplan.simkit.twin.state import (
    GONE,
    IDLE_BITS,
    NODE_BITS,
    QUEUED,
    STAMP,
    WINDOWS,
    begin,
    choose,
    has_idle,
    leave_queue,
    sort_first,
    start_key,
)
from gpuplan.simkit.twin.tables import CANCELLED

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
    first: Any
    sorted: Any


def new_searches(shapes: int, parts: int, users: int, nodes: int) -> Searches:
    """Return buffers in which nothing is known."""
    return Searches(
        *(np.zeros(shapes, np.int64) for _ in range(5)), np.zeros(parts, np.int64),
        *(np.zeros(users, np.int64) for _ in range(2)),
        *(np.zeros(parts, np.int64) for _ in range(2)),
        *(np.zeros(nodes, np.int64) for _ in range(2)),
    )  # fmt: skip


@kernel
def _recall(known: Any, shape: int, stamp: int) -> None:
    if known.stamp[shape] != stamp:
        known.stamp[shape] = stamp
        known.fails[shape] = known.late[shape] = known.limit[shape] = FAR
        known.time[shape] = 0


@kernel
def _note_failure(site: Any, known: Any, shape: int, limit: int, stamp: int) -> None:
    """Note that a shape finds no room now: larger ones do not either."""
    for at in range(site.larger_first[shape], site.larger_first[shape + 1]):
        larger = site.larger[at]
        _recall(known, larger, stamp)
        known.fails[larger] = min(known.fails[larger], limit)


@kernel
def _capped(known: Any, jobs: Any, rules: Any, j: int, stamp: int) -> bool:
    """Count a test of a job; return whether its user or partition had enough of them."""
    user, part = jobs.user[j], jobs.part[j]
    if known.user_stamp[user] != stamp:
        known.user_stamp[user], known.by_user[user] = stamp, 0
    if known.part_stamp[part] != stamp:
        known.part_stamp[part], known.by_part[part] = stamp, 0
    if known.by_user[user] >= rules.bf_max_job_user or known.by_part[part] >= rules.bf_max_job_part:
        return True
    known.by_user[user] += 1
    known.by_part[part] += 1
    return False


@kernel
def build_all(state: Any, profile: Any, now: int, step: int) -> None:
    """Set the steps of all nodes from running jobs and announced times."""
    for node in range(state.idle.size):
        if state.down[node]:
            profile.time[node, 0], profile.free[node, 0], profile.size[node] = now, 0, 1
        else:
            build(
                profile, node, state.idle[node], state.run_end[node], state.run_gpus[node],
                state.run_size[node], now, step,
            )  # fmt: skip
    for w in range(state.count[WINDOWS]):
        node = state.window_node[w]
        if not state.down[node]:
            take(profile, node, state.window_start[w], state.window_end[w], FAR >> 20)


@kernel
def _search(
    site: Any, profile: Any, known: Any, shape: int, limit: int, at: int, before: int, now: int,
    step: int,
) -> int:  # fmt: skip
    """Return the earliest time from ``at`` to ``before`` for a shape, else `FAR`.

    ``known.first`` then holds the earliest time of every node of the class from that time on.
    """
    line, need, gpus = site.shape_class[shape], site.shape_nodes[shape], site.shape_gpus[shape]
    low, high = site.class_first[line], site.class_first[line + 1]
    first = known.first
    if need == 1:
        best = FAR
        for i in range(low, high):
            found = earliest(
                profile, site.class_node[i], gpus, limit, at, now, step, min(best, before)
            )
            first[i - low] = found
            best = min(best, found)
        return best
    for i in range(low, high):
        first[i - low] = -1
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
            known.sorted[i] = first[i]
        sort_first(known.sorted, high - low)
        at = known.sorted[need - 1]


@kernel
def plan_pass(
    state: Any, jobs: Any, site: Any, limits: Any, parent: Any, rules: Any, known: Any,
    profile: Any, now: int, ends: Any,
) -> Any:  # fmt: skip
    """Plan the queue once and start what may start now.

    Jobs that start are added to ``ends``, whose first cell counts them.

    Returns:
        The profile, which may have grown.
    """
    mode = rules.backfill
    ends[0] = 0
    queued = state.count[QUEUED]
    scanned = queued
    if mode == SLURM and rules.bf_max_job_user == FAR and rules.bf_max_job_part == FAR:
        scanned = min(queued, rules.bf_max_job_test)
    last = _last_candidate(state, jobs, site, -1, scanned - 1)
    if last < 0:
        return profile
    step = rules.bf_resolution if mode == SLURM else 1
    state.count[STAMP] += 1
    stamp = state.count[STAMP]
    build_all(state, profile, now, step)
    widest = 0
    for node in range(state.idle.size):
        widest = max(widest, profile.size[node])
    tested, pos = 0, -1
    while pos < last:
        pos += 1
        j = state.queue[pos]
        if mode == SLURM:
            if tested >= rules.bf_max_job_test:
                break
            if _capped(known, jobs, rules, j, stamp):
                continue
        tested += 1
        if rules.limits and over_limit(jobs, limits, parent, j):
            continue
        shape, limit, part = jobs.shape[j], jobs.limit[j], jobs.part[j]
        _recall(known, shape, stamp)
        fails = limit >= known.fails[shape] or not has_idle(state, site, shape)
        may_reserve = mode != EASY or known.reserved[part] != stamp
        if fails and (not may_reserve or limit >= known.late[shape]):
            continue
        at = known.time[shape] if limit >= known.limit[shape] else now
        before = now
        if may_reserve:
            before = now + rules.bf_window if mode == SLURM else FAR - 1
        found = _search(site, profile, known, shape, limit, at, before, now, step)
        if found > now and limit < known.fails[shape]:
            _note_failure(site, known, shape, limit, stamp)
        if found > before:
            if may_reserve:
                known.late[shape] = min(known.late[shape], limit)
            continue
        if widest + 3 > profile.time.shape[1]:
            profile = roomier(profile)
        line, need = site.shape_class[shape], site.shape_nodes[shape]
        low, high = site.class_first[line], site.class_first[line + 1]
        fit = 0
        for i in range(low, high):
            if known.first[i - low] == found:
                node = site.class_node[i]
                if found == now:
                    state.keys[fit] = start_key(state, site, node, rules.placement)
                else:
                    is_free = mode != SLURM and profile.free[node, 0] >= jobs.gpus[j]
                    late = site.rank[node] + (is_free << (62 - NODE_BITS - IDLE_BITS - 1))
                    state.keys[fit] = (late << (NODE_BITS + IDLE_BITS)) | node
                fit += 1
        choose(state, fit, need)
        if found == now and jobs.cancel[j] >= 0:
            leave_queue(state, jobs, j, GONE)
            state.reason[j] = CANCELLED
        else:
            if found == now:
                leave_queue(state, jobs, j, GONE)
                begin(state, jobs, site, limits, parent, j, now)
                ends[0] += 1
                ends[ends[0]] = j
            else:
                known.reserved[part] = stamp
                known.limit[shape], known.time[shape] = limit, found
            end = rounded_up(found + limit, now, step)
            for i in range(need):
                take(profile, state.chosen[i], found, end, jobs.gpus[j])
                widest = max(widest, profile.size[state.chosen[i]])
        if found == now:
            last = _last_candidate(state, jobs, site, pos, last)
    return profile


@kernel
def _last_candidate(state: Any, jobs: Any, site: Any, low: int, high: int) -> int:
    """Return the last place in (low, high] of a job that idle GPUs have room for, or ``low``."""
    while high > low and not has_idle(state, site, jobs.shape[state.queue[high]]):
        high -= 1
    return high
