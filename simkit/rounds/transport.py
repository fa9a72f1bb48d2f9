"""Units of supply at least total cost to a few sinks, by shortest paths, from prices to begin with.

Source: R. K. Ahuja, T. L. Magnanti, J. B. Orlin, Network Flows (1993), successive shortest paths.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.jit import kernel


@kernel
def transport(unit: Any, supply: Any, capacity: Any, price: Any) -> Any:
    """Return the flow, prices of the sinks that prove it, and whether there is such a flow.

    Args:
        unit: cost of a unit of each source at each sink, infinite where it cannot go; shape (n, S).
        supply: whole units of each source; shape (n,).
        capacity: whole units of each sink, in all as many as are supplied; shape (S,).
        price: of a unit at each sink, to begin with; the nearer to the result the faster.

    Returns:
        The flow (n, S); prices such that each unit is where ``unit + price`` is least; success.
    """
    n, sinks = unit.shape
    flow = np.zeros((n, sinks), np.int64)
    over = -capacity.copy()
    size = 0.0
    for j in range(n):
        best = 0
        for s in range(sinks):
            if unit[j, s] + price[s] < unit[j, best] + price[best]:
                best = s
            if unit[j, s] < np.inf:
                size = max(size, abs(unit[j, s]))
        flow[j, best] = supply[j]
        over[best] += supply[j]
    noise = 1e-12 * size
    arc, which = np.empty((sinks, sinks)), np.zeros((sinks, sinks), np.int64)
    dist, before = np.empty(sinks), np.zeros(sinks, np.int64)
    while True:
        for a in range(sinks):
            for b in range(sinks):
                arc[a, b] = np.inf
        for j in range(n):
            for a in range(sinks):
                if flow[j, a] == 0:
                    continue
                for b in range(sinks):
                    if unit[j, b] - unit[j, a] < arc[a, b]:
                        arc[a, b], which[a, b] = unit[j, b] - unit[j, a], j
        balanced = True
        for s in range(sinks):
            balanced = balanced and over[s] <= 0
        for s in range(sinks):
            dist[s] = -price[s] if balanced else (0.0 if over[s] > 0 else np.inf)
            before[s] = -1
        for _ in range(sinks):
            shorter = False
            for a in range(sinks):
                for b in range(sinks):
                    if dist[a] + arc[a, b] < dist[b] - noise:
                        dist[b], before[b], shorter = dist[a] + arc[a, b], a, True
            if not shorter:
                break
        if balanced:
            return flow, -dist, True
        end = -1
        for s in range(sinks):
            if over[s] < 0 and dist[s] < np.inf and (end < 0 or dist[s] < dist[end]):
                end = s
        if end < 0:
            return flow, -dist, False
        moved, at, hops = -over[end], end, 0
        while before[at] >= 0:
            moved = min(moved, flow[which[before[at], at], before[at]])
            at = before[at]
            hops += 1
            if hops > sinks:  # a cycle of rounding errors
                return flow, -dist, False
        moved = min(moved, over[at])
        over[at] -= moved
        over[end] += moved
        at = end
        while before[at] >= 0:
            j = which[before[at], at]
            flow[j, before[at]] -= moved
            flow[j, at] += moved
            at = before[at]
