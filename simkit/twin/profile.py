"""What a backfill pass knows of the future: the free GPUs of every node from now on.

The steps of a node are a list: step ``head[n]`` begins now, ``next[k]`` follows step ``k`` (-1:
none does), and ``free[k]`` GPUs are free from ``time[k]`` to the time of the next step, or for
ever. ``head[n]`` is -1 where the node is not built in this pass. Steps are taken from one store,
which is large enough for every job to be planned once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.jit import borrowing_helper

FAR = 1 << 60
CLOSED = 1 << 40
"""GPUs that an announced time takes of a node: more than any node has."""


class FreeProfile(NamedTuple):
    """The steps of all nodes; see the module. ``used[0]`` counts the steps taken from the store."""

    time: Any
    free: Any
    next: Any
    head: Any
    used: Any


def new_profile(nodes: int, steps: int) -> FreeProfile:
    """Return an empty profile with a store of so many steps."""
    time, free, follows = (np.empty(steps, np.int64) for _ in range(3))
    return FreeProfile(time, free, follows, np.full(nodes, -1, np.int64), np.zeros(1, np.int64))


@borrowing_helper
def clear(profile: Any) -> None:
    """Forget the steps of all nodes."""
    profile.used[0] = 0
    for n in range(profile.head.size):
        profile.head[n] = -1


@borrowing_helper
def rounded_up(time: int, now: int, step: int) -> int:
    """Return a time rounded up to a whole number of steps from now."""
    return now - (now - time) // step * step


@borrowing_helper
def _new_step(profile: Any, time: int, free: int, follows: int) -> int:
    k: int = profile.used[0]
    profile.used[0] = k + 1
    profile.time[k], profile.free[k], profile.next[k] = time, free, follows
    return k


@borrowing_helper
def start_steps(profile: Any, n: int, idle: int, now: int) -> int:
    """Begin the list of a node with the GPUs that are free now; returns the step."""
    k: int = _new_step(profile, now, idle, -1)
    profile.head[n] = k
    return k


@borrowing_helper
def add_end(profile: Any, k: int, end: int, gpus: int) -> int:
    """Free GPUs from a time on, which is not before the last step ``k``; returns the last step."""
    if end > profile.time[k]:
        last: int = _new_step(profile, end, profile.free[k], -1)
        profile.next[k] = last
        k = last
    profile.free[k] += gpus
    return k


@borrowing_helper
def take(profile: Any, n: int, start: int, end: int, gpus: int) -> None:
    """Take GPUs of a node in [start, end)."""
    time, free, follows = profile.time, profile.free, profile.next
    k = profile.head[n]
    while follows[k] >= 0 and time[follows[k]] <= start:
        k = follows[k]
    if time[k] < start:
        follows[k] = _new_step(profile, start, free[k], follows[k])
        k = follows[k]
    while True:
        after = follows[k]
        if after < 0 or time[after] > end:
            follows[k] = _new_step(profile, end, free[k], after)
            after = follows[k]
        free[k] -= gpus
        if time[after] == end:
            return
        k = after


@borrowing_helper
def earliest(
    profile: Any, n: int, gpus: int, limit: int, begin: int, now: int, step: int, before: int
) -> int:
    """Return the first time from ``begin`` on at which GPUs are free for a whole limit.

    The limit is rounded up to ``step`` for what jobs take, but not for announced times. `FAR`
    where that is never, or where it is later than ``before``.
    """
    time, free, follows = profile.time, profile.free, profile.next
    k = profile.head[n]
    while follows[k] >= 0 and time[follows[k]] <= begin:
        k = follows[k]
    start = begin
    end = rounded_up(start + limit, now, step)
    while True:
        after = follows[k]
        if free[k] < gpus and not (
            time[k] >= start + limit and (free[k] + CLOSED // 2) % CLOSED - CLOSED // 2 >= gpus
        ):
            if after < 0 or time[after] > before:
                return FAR
            start = time[after]
            end = rounded_up(start + limit, now, step)
        elif after < 0 or time[after] >= end:
            return start
        k = after
