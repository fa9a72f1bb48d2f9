"""The order of the queue: tiers, multifactor priorities, and the ticks that renew them."""

from __future__ import annotations

import math
from typing import Any

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.twin.shares import charge, set_factors
from gpuplan.simkit.twin.state import QUEUED, RUNNING


@borrowing_helper
def set_priority(state: Any, jobs: Any, tree: Any, rules: Any, j: int, now: int) -> None:
    """Set the priority of a waiting job."""
    if not rules.multifactor:
        return
    age = min(1.0, (now - jobs.ready[j]) / rules.max_age)
    value = rules.w_age * age + rules.w_fairshare * tree.factor[jobs.assoc[j]] + jobs.base[j]
    state.priority[j] = max(0, math.floor(value + 1e-6))


@borrowing_helper
def goes_before(state: Any, jobs: Any, a: int, b: int) -> bool:
    """Return whether job ``a`` stands before job ``b``."""
    if jobs.tier[a] != jobs.tier[b]:
        return bool(jobs.tier[a] > jobs.tier[b])
    if state.priority[a] != state.priority[b]:
        return bool(state.priority[a] > state.priority[b])
    if jobs.ready[a] != jobs.ready[b]:
        return bool(jobs.ready[a] < jobs.ready[b])
    return bool(jobs.tie[a] < jobs.tie[b])


@borrowing_helper
def enqueue(state: Any, jobs: Any, j: int) -> None:
    """Put a job into its place of the queue."""
    low, high = 0, state.count[QUEUED]
    if high and goes_before(state, jobs, state.queue[high - 1], j):
        low = high
    while low < high:
        middle = (low + high) // 2
        if goes_before(state, jobs, state.queue[middle], j):
            low = middle + 1
        else:
            high = middle
    for i in range(state.count[QUEUED], low, -1):
        state.queue[i] = state.queue[i - 1]
    state.queue[low] = j
    state.count[QUEUED] += 1


@borrowing_helper
def sort_queue(state: Any, jobs: Any, room: Any) -> None:
    """Sort the queue by merging ever longer parts, and skip those in order: most are, at a tick."""
    queue, count = state.queue, state.count[QUEUED]
    length = 1
    while length < count:
        for low in range(0, count - length, 2 * length):
            middle, high = low + length, min(low + 2 * length, count)
            if not goes_before(state, jobs, queue[middle], queue[middle - 1]):
                continue
            for i in range(low, middle):
                room[i - low] = queue[i]
            left, right, at = 0, middle, low
            while left < length and right < high:
                if goes_before(state, jobs, queue[right], room[left]):
                    queue[at] = queue[right]
                    right += 1
                else:
                    queue[at] = room[left]
                    left += 1
                at += 1
            while left < length:
                queue[at] = room[left]
                left += 1
                at += 1
        length *= 2


@borrowing_helper
def tick(state: Any, jobs: Any, tree: Any, rules: Any, last: int, now: int, room: Any) -> None:
    """Let usage decay, charge what ran since the last tick, and renew all priorities.

    ``room`` is a buffer of one value per job.
    """
    if rules.half_life > 0 and now > last:
        factor = 0.5 ** ((now - last) / rules.half_life)
        for k in range(tree.usage.size):
            tree.usage[k] *= factor
    kept = 0
    for i in range(state.active_size[0]):
        j = state.active[i]
        upto = min(now, state.end[j])
        charge(tree, jobs.assoc[j], jobs.billing[j] * (upto - state.charged[j]))
        state.charged[j] = upto
        if state.status[j] == RUNNING:
            state.active[kept] = j
            kept += 1
    state.active_size[0] = kept
    if rules.w_fairshare != 0.0:
        set_factors(tree, rules.fairshare, rules.dampening)
    for i in range(state.count[QUEUED]):
        set_priority(state, jobs, tree, rules, state.queue[i], now)
    sort_queue(state, jobs, room)
