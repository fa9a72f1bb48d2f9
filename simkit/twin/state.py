"""The state of the cluster during a replay, and what changes it: starts, ends, node events.

A start must break no limit of a QOS or an association that holds for running jobs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.jit import borrowing_helper

COMING, WAITING, RUNNING, GONE = range(4)
NODE_BITS, IDLE_BITS = 20, 24
BEST_FIT, FIRST_FIT, LEAST_LOADED = range(3)
NO_LIMIT = 1 << 60
KNOWN_END, UNKNOWN_END = 1, 2  # of the time for which a node is down

# Limits that hold a job; numbers of `gpuplan.simkit.twin.refusals.REASONS`.
(
    OVER_QOS_GPUS, OVER_QOS_JOBS, OVER_USER_GPUS, OVER_USER_JOBS, OVER_ASSOC_JOBS, OVER_ASSOC_GPUS,
) = range(6, 12)  # fmt: skip

# Cells of `SiteState.count`.
QUEUED, WINDOWS, STAMP, LEFT = range(4)


class SiteState(NamedTuple):
    """Arrays that a replay changes.

    Attributes:
        status: of each job.
        start, end, reason: the result; -1 and 0 where there is none.
        place_first, place: the nodes of each job, in the order in which they were chosen.
        priority: of each job.
        queue: waiting jobs in order, the first ``count[QUEUED]`` of them.
        idle, open: idle GPUs of each node, and those that may be given out: 0 on a node that is
            down.
        level: nodes of each class with at least so many open GPUs; (classes, GPUs + 1).
        run_end, run_gpus, run_job, run_size: running jobs of each node by planned end.
        waiting, waiting_part: waiting jobs of each shape and each partition.
        down: nodes that take no job: 0, `KNOWN_END` or `UNKNOWN_END`.
        window_node, window_start, window_end: announced times to keep free, begun or not.
        active, active_size: jobs that ran since the last tick, in order of their ids.
        charged: second up to which a job's usage is counted.
        keys: a buffer, one per node.
        chosen: a buffer of nodes.
        part_stamp, node_stamp: passes in which a partition and its nodes were blocked.
        followers: jobs that come now since the one before ended, ``followers[0]`` of them.
        count: numbers; see `QUEUED` and the next.
    """

    status: Any
    start: Any
    end: Any
    reason: Any
    place_first: Any
    place: Any
    priority: Any
    queue: Any
    idle: Any
    open: Any
    level: Any
    run_end: Any
    run_gpus: Any
    run_job: Any
    run_size: Any
    waiting: Any
    waiting_part: Any
    down: Any
    window_node: Any
    window_start: Any
    window_end: Any
    active: Any
    active_size: Any
    charged: Any
    keys: Any
    chosen: Any
    part_stamp: Any
    node_stamp: Any
    followers: Any
    count: Any


def new_state(jobs: Any, site: Any) -> SiteState:
    """Return an idle cluster before the first job. (Not compiled: that would take long.)"""
    n, nodes = jobs.ready.size, site.gpus.size
    classes, parts = site.class_first.size - 1, site.part_first.size - 1
    most = int(site.gpus.max())

    def zeros(*shape: int) -> IntArray:
        return np.zeros(shape, np.int64)

    level = zeros(classes, most + 1)
    for line in range(classes):
        members = site.class_node[site.class_first[line] : site.class_first[line + 1]]
        by_gpus = np.bincount(site.gpus[members], minlength=most + 1)
        level[line] = by_gpus[::-1].cumsum()[::-1]
    place_first = np.concatenate([zeros(1), np.cumsum(jobs.nodes)]).astype(np.int64)
    events = site.event_node.size
    return SiteState(
        zeros(n), np.full(n, -1, np.int64), np.full(n, -1, np.int64), zeros(n), place_first,
        np.full(int(place_first[-1]), -1, np.int64), zeros(n), zeros(n + 1), site.gpus.copy(),
        site.gpus.copy(), level, zeros(nodes, most), zeros(nodes, most), zeros(nodes, most),
        zeros(nodes), zeros(site.shape_class.size), zeros(parts), zeros(nodes),
        zeros(events), zeros(events), zeros(events), zeros(n), zeros(1), zeros(n),
        zeros(nodes), zeros(nodes), zeros(parts), zeros(nodes), zeros(n + 1),
        zeros(4),
    )  # fmt: skip


@borrowing_helper
def set_open(state: Any, site: Any, node: int) -> None:
    """Bring the open GPUs of a node, and the counts of its classes, up to date."""
    old = state.open[node]
    new = 0 if state.down[node] else state.idle[node]
    if old == new:
        return
    state.open[node] = new
    sign = 1 if new > old else -1
    low, high = (old, new) if new > old else (new, old)
    for at in range(site.class_of_node_first[node], site.class_of_node_first[node + 1]):
        line = site.class_of_node[at]
        for g in range(low + 1, high + 1):
            state.level[line, g] += sign


@borrowing_helper
def has_idle(state: Any, site: Any, shape: int) -> bool:
    """Return whether enough nodes have enough idle GPUs for a shape."""
    enough: bool = (
        state.level[site.shape_class[shape], site.shape_gpus[shape]] >= site.shape_nodes[shape]
    )
    return enough


@borrowing_helper
def any_has_idle(state: Any, site: Any) -> bool:
    """Return whether the idle GPUs have room for the shape of any waiting job."""
    for shape in range(state.waiting.size):
        if state.waiting[shape] and has_idle(state, site, shape):
            return True
    return False


@borrowing_helper
def start_key(state: Any, site: Any, node: int, placement: int) -> int:
    """Return what orders nodes for a job that starts now; its low bits are the node."""
    idle = 0
    if placement == BEST_FIT:
        idle = state.idle[node]
    elif placement == LEAST_LOADED:
        idle = (1 << IDLE_BITS) - 1 - state.idle[node]
    key: int = (site.rank[node] << (NODE_BITS + IDLE_BITS)) | (idle << NODE_BITS) | node
    return key


@borrowing_helper
def sort_first(values: Any, count: int) -> None:
    """Sort the first values of an array in place (Shell's way; `np.sort` takes long to compile)."""
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap:
        for i in range(gap, count):
            value = values[i]
            at = i
            while at >= gap and values[at - gap] > value:
                values[at] = values[at - gap]
                at -= gap
            values[at] = value
        gap //= 3


@borrowing_helper
def choose(state: Any, fitting: int, need: int) -> None:
    """Put the nodes of the ``need`` least of the first ``fitting`` keys into ``chosen``."""
    mask = (1 << NODE_BITS) - 1
    keys = state.keys
    if need == 1:
        least = keys[0]
        for i in range(1, fitting):
            least = min(least, keys[i])
        state.chosen[0] = least & mask
        return
    sort_first(keys, fitting)
    for i in range(need):
        state.chosen[i] = keys[i] & mask


@borrowing_helper
def window_allows(state: Any, node: int, end: int) -> bool:
    """Return whether a job that ends then leaves every announced time of a node free."""
    for w in range(state.count[WINDOWS]):
        if state.window_node[w] == node and state.window_start[w] < end:
            return False
    return True


@borrowing_helper
def leave_queue(state: Any, jobs: Any, j: int, status: int) -> None:
    """Note that a job does not wait any more; `compact` then takes it out of the queue."""
    state.status[j] = status
    state.waiting[jobs.shape[j]] -= 1
    state.waiting_part[jobs.part[j]] -= 1
    state.count[LEFT] += 1


@borrowing_helper
def compact(state: Any) -> None:
    """Take the jobs that do not wait any more out of the queue."""
    if state.count[LEFT] == 0:
        return
    kept = 0
    for i in range(state.count[QUEUED]):
        j = state.queue[i]
        if state.status[j] == WAITING:
            state.queue[kept] = j
            kept += 1
    state.count[QUEUED], state.count[LEFT] = kept, 0


@borrowing_helper
def begin(state: Any, jobs: Any, site: Any, limits: Any, parent: Any, j: int, now: int) -> None:
    """Start a job on the chosen nodes."""
    planned, gpus = now + jobs.limit[j], jobs.gpus[j]
    for i in range(jobs.nodes[j]):
        node = state.chosen[i]
        state.place[state.place_first[j] + i] = node
        state.idle[node] -= gpus
        set_open(state, site, node)
        at = state.run_size[node]
        while at > 0 and state.run_end[node, at - 1] > planned:
            state.run_end[node, at] = state.run_end[node, at - 1]
            state.run_gpus[node, at] = state.run_gpus[node, at - 1]
            state.run_job[node, at] = state.run_job[node, at - 1]
            at -= 1
        state.run_end[node, at], state.run_gpus[node, at] = planned, gpus
        state.run_job[node, at] = j
        state.run_size[node] += 1
    note_start(state, jobs, limits, parent, j, now)


@borrowing_helper
def note_start(state: Any, jobs: Any, limits: Any, parent: Any, j: int, now: int) -> None:
    """Count a job that starts, wherever it runs."""
    state.status[j] = RUNNING
    state.start[j] = now
    state.end[j] = now + jobs.runtime[j]
    count_use(jobs, limits, parent, j, 1)
    at = state.active_size[0]
    while at > 0 and state.active[at - 1] > j:
        state.active[at] = state.active[at - 1]
        at -= 1
    state.active[at] = j
    state.active_size[0] += 1
    state.charged[j] = now


@borrowing_helper
def finish(state: Any, jobs: Any, site: Any, limits: Any, parent: Any, j: int) -> None:
    """Give back the nodes of a job that ends; the job that goes on with it comes now."""
    state.status[j] = GONE
    if jobs.follower[j] >= 0:
        state.followers[0] += 1
        state.followers[state.followers[0]] = jobs.follower[j]
    for i in range(jobs.nodes[j]):
        node = state.place[state.place_first[j] + i]
        state.idle[node] += jobs.gpus[j]
        set_open(state, site, node)
        at = 0
        while state.run_job[node, at] != j:
            at += 1
        last = state.run_size[node] - 1
        for k in range(at, last):
            state.run_end[node, k] = state.run_end[node, k + 1]
            state.run_gpus[node, k] = state.run_gpus[node, k + 1]
            state.run_job[node, k] = state.run_job[node, k + 1]
        state.run_size[node] = last
    count_use(jobs, limits, parent, j, -1)


@borrowing_helper
def set_events(state: Any, site: Any, now: int) -> None:
    """Set which nodes are down and which announced times lie ahead."""
    for node in range(state.down.size):
        state.down[node] = 0
    windows = 0
    for e in range(site.event_node.size):
        if now >= site.event_end[e]:
            continue
        is_announced = site.event_announced[e] <= now
        if now >= site.event_start[e]:
            node = site.event_node[e]
            state_of_end = KNOWN_END if is_announced else UNKNOWN_END
            state.down[node] = max(state.down[node], state_of_end)
        if is_announced:
            state.window_node[windows] = site.event_node[e]
            state.window_start[windows] = site.event_start[e]
            state.window_end[windows] = site.event_end[e]
            windows += 1
    state.count[WINDOWS] = windows
    for node in range(site.gpus.size):
        set_open(state, site, node)


@borrowing_helper
def is_blocked(jobs: Any, limits: Any, parent: Any, j: int, stamp: int) -> bool:
    """Return whether a limit keeps a job from starting in this pass.

    A pass only starts jobs, so what is too much for its limits once stays so, and more as well.
    """
    kind, gpus = jobs.limited[j], jobs.nodes[j] * jobs.gpus[j]
    is_fresh = limits.over_pass[kind] == stamp
    if is_fresh and gpus >= limits.least_over[kind]:
        return True
    if not over_limit(jobs, limits, parent, j):
        return False
    limits.over_pass[kind], limits.least_over[kind] = stamp, gpus  # fewer than known before
    return True


@borrowing_helper
def over_limit(jobs: Any, limits: Any, parent: Any, j: int) -> int:
    """Return which limit a start now would break, as `refusals.REASONS` numbers it; 0 for none."""
    gpus = jobs.nodes[j] * jobs.gpus[j]
    user = jobs.user[j]
    first, second = jobs.part_qos[j], jobs.qos[j]
    if second == first:
        second = -1
    gpus_checked = jobs_checked = False
    for q in (first, second):
        if q < 0:
            continue
        if limits.used_gpus[q] + gpus > limits.grp_gpus[q]:
            return OVER_QOS_GPUS
        if limits.used_jobs[q] + 1 > limits.grp_jobs[q]:
            return OVER_QOS_JOBS
        if not gpus_checked and limits.user_gpus[q] < NO_LIMIT:
            gpus_checked = True
            if limits.used_user_gpus[q, user] + gpus > limits.user_gpus[q]:
                return OVER_USER_GPUS
        if not jobs_checked and limits.user_jobs[q] < NO_LIMIT:
            jobs_checked = True
            if limits.used_user_jobs[q, user] + 1 > limits.user_jobs[q]:
                return OVER_USER_JOBS
    node = jobs.assoc[j]
    if not jobs_checked and limits.used_assoc_jobs[node] + 1 > limits.assoc_jobs[node]:
        return OVER_ASSOC_JOBS
    while node > 0:
        if limits.used_assoc_gpus[node] + gpus > limits.assoc_gpus[node]:
            return OVER_ASSOC_GPUS
        node = parent[node]
    return 0


@borrowing_helper
def count_use(jobs: Any, limits: Any, parent: Any, j: int, sign: int) -> None:
    """Count a job that starts (``sign`` 1) or ends (-1)."""
    gpus = sign * jobs.nodes[j] * jobs.gpus[j]
    user = jobs.user[j]
    first, second = jobs.part_qos[j], jobs.qos[j]
    if second == first:
        second = -1
    for q in (first, second):
        if q >= 0:
            limits.used_gpus[q] += gpus
            limits.used_jobs[q] += sign
            limits.used_user_gpus[q, user] += gpus
            limits.used_user_jobs[q, user] += sign
    node = jobs.assoc[j]
    while node > 0:
        limits.used_assoc_gpus[node] += gpus
        limits.used_assoc_jobs[node] += sign
        node = parent[node]
