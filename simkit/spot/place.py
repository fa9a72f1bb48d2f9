"""Where a pod goes: the node with the highest key, then the lowest number (GFS, Algorithm 1)."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import kernel
from gpuplan.simkit.spot.pool import HOT, HP, MILLI, SPOT, fullest_fit, node_heat, pick_cards

BY_GFS, BY_PACKING, BY_KIND, BY_FRAGMENTATION, BY_NUMBER = range(5)  # as in `PLACEMENTS`


@kernel
def allowed(pool: Any, node: int, hp: bool, g: int, rules: Any) -> bool:
    """Tell whether a pod may go to a node, whatever is free there."""
    if hp:
        return True
    if rules.placement == BY_KIND and pool.held[HP, node] > 0:
        return False
    return not (rules.avoids_heat and g >= MILLI and node_heat(pool, node) >= HOT)


@kernel
def pods_that_fit(pool: Any, hp: bool, g: int, size: int, pods: int, rules: Any) -> bool:
    """Tell whether a gang fits without evictions; ``size`` is the place of ``g`` in `pods_in`.

    Pods of one gang are alike, so whether all fit does not depend on where the first ones go.
    """
    if g >= MILLI:
        if pool.fit_idle[size] < pods:
            return False
        if hp or (rules.placement != BY_KIND and (pool.totals[2] == 0 or not rules.avoids_heat)):
            return True
    found = 0
    for node in range(pool.idle.size):
        if not allowed(pool, node, hp, g, rules):
            continue
        if g >= MILLI:
            found += pool.pods_in[pool.idle[node], size]
        else:
            for card in range(pool.first[node], pool.first[node + 1]):
                found += pool.free[card] // g
        if found >= pods:
            return True
    return False


@kernel
def best_node(pool: Any, hp: bool, g: int, rules: Any, weights: Any, growth: Any) -> int:
    """Return the node for one pod, or -1.

    Args:
        pool: `gpuplan.simkit.spot.pool.Pool`.
        hp: whether the task has high priority; else it is spot.
        g: GPUs of the pod, milli-GPU.
        rules: `gpuplan.simkit.spot.parameters.Rules`.
        weights: distinct sizes of pods and their numbers of tasks, shape (2, k).
        growth: table for `kept_growth`.
    """
    cards = g // MILLI
    own = HP if hp else SPOT
    best = -1
    best_shared = best_left = best_calm = best_heat = 0
    best_packing = best_own = 0.0
    for node in range(pool.idle.size):
        if cards and pool.idle[node] < cards:
            continue
        if not allowed(pool, node, hp, g, rules):
            continue
        shared = left = 0
        if not cards:
            card = fullest_fit(pool, node, g)
            if card < 0:
                continue
            if pool.free[card] < MILLI:
                shared, left = 1, -pool.free[card]
        if rules.placement == BY_NUMBER:
            return node
        if rules.placement == BY_FRAGMENTATION:
            grown = kept_growth(pool, node, g, weights, growth)
            if best < 0 or grown < best_left:
                best, best_left = node, grown
            continue
        size = pool.first[node + 1] - pool.first[node]
        calm, heat = 0, 0
        packing, part = -pool.idle[node] / size, 0.0
        if rules.placement == BY_KIND:
            calm = 1 if hp and pool.held[SPOT, node] == 0 else 0
        elif rules.placement == BY_GFS:
            part = pool.held[own, node] / (size * MILLI)
            heat = node_heat(pool, node)
            heat = min(heat, HOT) if hp else -heat
        better = best < 0 or calm > best_calm
        if not better and calm == best_calm:
            better = shared > best_shared
            if not better and shared == best_shared:
                better = left > best_left
                if not better and left == best_left:
                    better = packing > best_packing
                    if not better and packing == best_packing:
                        better = part > best_own
                        if not better and part == best_own:
                            better = heat > best_heat
        if better:
            best, best_calm, best_shared, best_left = node, calm, shared, left
            best_packing, best_own, best_heat = packing, part, heat
    return best


@kernel
def fragmentation(free: Any, begin: int, end: int, weights: Any) -> int:
    """Return what the tasks of the workload cannot use of the cards from ``begin`` to ``end``.

    For each size of pod: all that is free where no pod fits; else the free shares of cards that
    are in use (whole pods) or too small (shares). Weighted by tasks (FGD).
    """
    idle = total = 0
    for card in range(begin, end):
        total += free[card]
        idle += free[card] == MILLI
    found = 0
    for row in range(weights.shape[1]):
        g = weights[0, row]
        if g >= MILLI:
            unusable = total if idle * MILLI < g else total - idle * MILLI
        else:
            unusable, fits = 0, False
            for card in range(begin, end):
                if free[card] >= g:
                    fits = True
                else:
                    unusable += free[card]
            if not fits:
                unusable = total
        found += weights[1, row] * unusable
    return found


@kernel
def grown_by(free: Any, begin: int, end: int, mask: int, share: int, weights: Any) -> int:
    """Return the growth of the fragmentation when a share of each card of ``mask`` is taken."""
    before = fragmentation(free, begin, end, weights)
    for card in range(begin, end):
        if mask >> (card - begin) & 1:
            free[card] -= share
    after = fragmentation(free, begin, end, weights)
    for card in range(begin, end):
        if mask >> (card - begin) & 1:
            free[card] += share
    return after - before


@kernel
def kept_growth(pool: Any, node: int, g: int, weights: Any, growth: Any) -> int:
    """Return the growth that a pod of ``g`` brings to a node, worked out once for each change.

    ``growth`` has shape (2, nodes, k): the count of changes at which it was worked out, and it.
    """
    row = 0
    while weights[0, row] != g:
        row += 1
    if growth[0, node, row] != pool.changed[node]:
        growth[0, node, row] = pool.changed[node]
        growth[1, node, row] = grown_by(
            pool.free,
            pool.first[node],
            pool.first[node + 1],
            pick_cards(pool, node, g),
            min(g, MILLI),
            weights,
        )
    found: int = growth[1, node, row]
    return found
