"""Leases inside kernels: which of them end, and since when nodes are idle."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.growable import grown
from gpuplan.simkit.jit import helper


@helper
def end_leases(leases: Any, last: int, nodes: int, now: int, returned: Any, count: int) -> Any:
    """Return nodes, the latest rented first.

    Args:
        leases: rows (begin, nodes) of those that last, the latest last.
        last: how many of these rows there are.
        nodes: how many go back.
        now: when.
        returned: rows (begin, end, nodes) of leases that ended.
        count: how many of these rows there are.

    Returns:
        The number of leases left, the table of returned leases, and the number of its rows.
    """
    while nodes:
        part = min(nodes, leases[last - 1, 1])
        if count == returned.shape[0]:
            returned = grown(returned)
        returned[count, 0], returned[count, 1], returned[count, 2] = leases[last - 1, 0], now, part
        count += 1
        nodes -= part
        leases[last - 1, 1] -= part
        if leases[last - 1, 1] == 0:
            last -= 1
    return last, returned, count


@helper
def follow_idle(idle: Any, tail: int, before: int, after: int, now: int) -> Any:
    """Note how many nodes are idle now; the most recently idle are used first.

    Args:
        idle: rows (since, nodes), the longest idle first.
        tail: where these rows end.
        before, after: idle nodes, as noted last and now.
        now: the time.

    Returns:
        The table, and where its rows end.
    """
    if after > before:
        if tail == idle.shape[0]:
            idle = grown(idle)
        idle[tail, 0], idle[tail, 1] = now, after - before
        tail += 1
    while after < before:
        part = min(before - after, idle[tail - 1, 1])
        idle[tail - 1, 1] -= part
        before -= part
        if idle[tail - 1, 1] == 0:
            tail -= 1
    return idle, tail
