"""Where a pod goes: the node with the highest key, then the lowest number (GFS, Algorithm 1)."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.spot.pool import HOT_NODES, HP, MILLI, SPOT, pick_cards

BY_GFS, BY_PACKING, BY_KIND, BY_FRAGMENTATION, BY_NUMBER = range(5)  # as in `PLACEMENTS`


@borrowing_helper
def pods_that_fit(pool: Any, hp: bool, g: int, size: int, pods: int, rules: Any) -> bool:
    """Tell whether a gang fits without evictions; ``size`` is the place of ``g`` in `pods_in`.

    Pods of one gang are alike, so whether all fit does not depend on where the first ones go.
    """
    is_whole = g >= MILLI
    needs_own_kind = rules.placement == BY_KIND and not hp
    cool = rules.avoids_heat and not hp and is_whole and pool.totals[HOT_NODES] > 0
    if is_whole:
        if pool.fit_idle[size] < pods:
            return False
        if not (needs_own_kind or cool):
            return True
    room = 0
    idle, held, heat, pods_in = pool.idle, pool.held, pool.node_heat, pool.pods_in
    free, first = pool.free, pool.first
    for node in range(idle.size):
        if (needs_own_kind and held[HP, node] > 0) or (cool and heat[node] >= rules.heat_limit):
            continue
        if is_whole:
            room += pods_in[idle[node], size]
        else:
            for card in range(first[node], first[node + 1]):
                room += free[card] // g if free[card] >= g else 0
        if room >= pods:
            return True
    return False


@borrowing_helper
def gang_fits_with_evictions(pool: Any, g: int, size: int, pods: int) -> bool:
    """Tell whether an HP gang fits once every spot task is evicted."""
    if g >= MILLI:
        return bool(pool.fit_clear[size] >= pods)
    room = 0
    for card in range(pool.hard.size):
        room += (MILLI - pool.hard[card]) // g
    return bool(room >= pods)


@borrowing_helper
def best_node(pool: Any, hp: bool, g: int, rules: Any, weights: Any, growth: Any) -> int:
    """Return the node for one pod, or -1.

    The keys of a policy are compared one after the other; a node must beat the best so far.

    Args:
        pool: `gpuplan.simkit.spot.pool.Pool`.
        hp: whether the task has high priority; else it is spot.
        g: GPUs of the pod, milli-GPU.
        rules: `gpuplan.simkit.spot.parameters.Rules`.
        weights: distinct sizes of pods and their numbers of tasks, shape (2, k).
        growth: table for `kept_growth`.
    """
    cards = g // MILLI
    kind = HP if hp else SPOT
    placement = rules.placement
    avoids_heat = rules.avoids_heat and not hp and cards > 0 and pool.totals[HOT_NODES] > 0
    idle, held, heat, free = pool.idle, pool.held, pool.node_heat, pool.free
    packing, part, first = pool.packing, pool.part, pool.first
    best = -1
    best_calm = best_shared = best_left = best_heat = 0
    best_packing = best_part = 0.0
    for node in range(idle.size):
        calm = shared = left = 0
        if cards:
            if idle[node] < cards:
                continue
        else:
            left = MILLI + 1
            for card in range(first[node], first[node + 1]):
                if g <= free[card] < left:
                    left = free[card]
            if left > MILLI:
                continue
            shared, left = (1, -left) if left < MILLI else (0, 0)
        if avoids_heat and heat[node] >= rules.heat_limit:
            continue
        if placement == BY_KIND:
            if not hp and held[HP, node] > 0:
                continue
            calm = 1 if hp and held[SPOT, node] == 0 else 0
        elif placement == BY_NUMBER:
            return node
        elif placement == BY_FRAGMENTATION:
            grown = kept_growth(pool, node, g, weights, growth)
            if best < 0 or grown < best_left:
                best, best_left = node, grown
            continue
        if best >= 0:
            if calm != best_calm:
                if calm < best_calm:
                    continue
            elif shared != best_shared:
                if shared < best_shared:
                    continue
            elif left != best_left:
                if left < best_left:
                    continue
            elif packing[node] != best_packing:
                if packing[node] < best_packing:
                    continue
            elif placement != BY_GFS:
                continue
            elif part[kind, node] != best_part:
                if part[kind, node] < best_part:
                    continue
            elif (min(heat[node], rules.heat_limit) if hp else -heat[node]) <= best_heat:
                continue
        best, best_calm, best_shared, best_left = node, calm, shared, left
        best_packing, best_part = packing[node], part[kind, node]
        best_heat = min(heat[node], rules.heat_limit) if hp else -heat[node]
    return best


@borrowing_helper
def fragmentation(free: Any, begin: int, end: int, weights: Any) -> int:
    """Return what the tasks of the workload cannot use of the cards from ``begin`` to ``end``.

    For each size of pod: all that is free where no pod fits; else the free shares of cards that
    are in use (whole pods) or too small (shares). Weighted by tasks (FGD).
    """
    idle = total = 0
    for card in range(begin, end):
        total += free[card]
        idle += free[card] == MILLI
    wasted = 0
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
        wasted += weights[1, row] * unusable
    return wasted


@borrowing_helper
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


@borrowing_helper
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
    grown: int = growth[1, node, row]
    return grown


@borrowing_helper
def picked_cards(free: Any, size: int, g: int) -> int:
    """Return the mask of the cards that a pod takes of so many cards."""
    mask = 0
    if g >= MILLI:
        count = g // MILLI
        for card in range(size):
            if count and free[card] == MILLI:
                mask |= 1 << card
                count -= 1
        return mask
    best = -1
    for card in range(size):
        if free[card] >= g and (best < 0 or free[card] < free[best]):
            best = card
    return 1 << best
