"""What a backfill pass knows of the future: the free GPUs of every node from now on.

Row ``n`` of ``time`` and ``free`` holds the steps of node ``n``: ``free[n, k]`` GPUs are free from
``time[n, k]`` to ``time[n, k + 1]``, and the last ones for ever. ``size[n]`` counts the steps;
0: not built in this pass.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.jit import kernel

FAR = 1 << 60


class Profile(NamedTuple):
    """The steps of all nodes; see the module."""

    time: Any
    free: Any
    size: Any


@kernel
def new_profile(nodes: int, room: int) -> Any:
    """Return an empty profile with room for so many steps of each node."""
    return Profile(
        np.empty((nodes, room), np.int64),
        np.empty((nodes, room), np.int64),
        np.zeros(nodes, np.int64),
    )


@kernel
def roomier(profile: Any) -> Any:
    """Return the same profile with room for twice the steps."""
    nodes, room = profile.time.shape
    more = new_profile(nodes, 2 * room)
    for n in range(nodes):
        more.size[n] = profile.size[n]
        for k in range(profile.size[n]):
            more.time[n, k], more.free[n, k] = profile.time[n, k], profile.free[n, k]
    return more


@kernel
def rounded_up(time: int, now: int, step: int) -> int:
    """Return a time rounded up to a whole number of steps from now."""
    return now - (now - time) // step * step


@kernel
def build(
    profile: Any, n: int, idle: int, run_end: Any, run_gpus: Any, running: int, now: int, step: int
) -> None:
    """Set the steps of a node from its idle GPUs and its running jobs, the first to end first."""
    time, free = profile.time[n], profile.free[n]
    time[0], free[0] = now, idle
    k = 0
    for i in range(running):
        end = rounded_up(max(run_end[i], now + 1), now, step)
        if end > time[k]:
            k += 1
            time[k], free[k] = end, free[k - 1]
        free[k] += run_gpus[i]
    profile.size[n] = k + 1


@kernel
def take(profile: Any, n: int, start: int, end: int, gpus: int) -> None:
    """Take GPUs of a node in [start, end); it needs room for two more steps."""
    first = _cut(profile, n, start)
    last = _cut(profile, n, end)
    for k in range(first, last):
        profile.free[n, k] -= gpus


@kernel
def _cut(profile: Any, n: int, at: int) -> int:
    """Return the step that begins at a time; it is made where there is none."""
    time, free = profile.time[n], profile.free[n]
    k = profile.size[n]
    while k > 0 and time[k - 1] >= at:
        k -= 1
    if k < profile.size[n] and time[k] == at:
        return k
    for i in range(profile.size[n], k, -1):
        time[i], free[i] = time[i - 1], free[i - 1]
    time[k], free[k] = at, free[k - 1]
    profile.size[n] += 1
    return k


@kernel
def earliest(
    profile: Any, n: int, gpus: int, limit: int, begin: int, now: int, step: int, before: int
) -> int:
    """Return the first time from ``begin`` on at which GPUs are free for a whole limit.

    `FAR` where that is never, or later than ``before``.
    """
    time, free, size = profile.time[n], profile.free[n], profile.size[n]
    k = 0
    while k + 1 < size and time[k + 1] <= begin:
        k += 1
    start = begin
    end = rounded_up(start + limit, now, step)
    while True:
        if free[k] < gpus:
            k += 1
            if k == size or time[k] > before:
                return FAR
            start = time[k]
            end = rounded_up(start + limit, now, step)
        elif k + 1 == size or time[k + 1] >= end:
            return start
        else:
            k += 1
