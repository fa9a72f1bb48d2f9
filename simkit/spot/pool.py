"""The GPUs of one pool while tasks hold them: cards, shares of cards, and what fits on each node.

Shares are whole numbers of milli-GPU. A pod of less than one GPU holds a share of one card; any
other pod holds whole cards of one node.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.jit import borrowing_helper

MILLI = 1000
"""Shares of one card."""

MOST_CARDS = 62
"""Cards of a node: the cards of a pod are the bits of one integer."""

HP, SPOT, BLOCKED = range(3)
"""What holds a share; blocked ones wait for the end of a victim's grace period."""

FREE_MILLI, SPOT_MILLI, HOT_NODES, CHANGES, HP_MILLI = range(5)  # entries of `Pool.totals`

PER_HOUR_EVENT = 96  # heat of an eviction within the past hour; one within 24 hours counts 1


class Pool(NamedTuple):
    """The state of all cards.

    Attributes:
        first: where each node's cards begin, shape (nodes + 1,).
        free, hard: free share of each card, and the share that HP tasks or blocks hold, milli-GPU.
        idle, clear: cards of each node that nobody holds, and that spot tasks alone may hold.
        held: milli-GPU on each node that HP and spot tasks hold, shape (2, nodes).
        heat: evictions on each node within the past hour and the past 24 hours, shape (2, nodes).
        node_heat: what both amount to, shape (nodes,).
        packing: minus the idle part of each node's cards, shape (nodes,).
        part: the part of each node that HP and spot tasks hold, shape (2, nodes).
        changed: how often each node has changed.
        pods_in: pods of each size that so many cards hold, shape (cards + 1, sizes).
        fit_idle, fit_clear: pods of each size that all idle and all clear cards hold.
        newest: the spot pod that came last to each node, or -1; shape (nodes,).
        older, newer: for each pod, the spot pod that came to its node before and after it, or -1.
        totals: free milli-GPU, milli-GPU that spot tasks hold, hot nodes, a count of the
            changes after which a task that did not fit may fit, and milli-GPU that HP tasks hold.
    """

    first: Any
    free: Any
    hard: Any
    idle: Any
    clear: Any
    held: Any
    heat: Any
    node_heat: Any
    packing: Any
    part: Any
    changed: Any
    pods_in: Any
    fit_idle: Any
    fit_clear: Any
    newest: Any
    older: Any
    newer: Any
    totals: Any

    @classmethod
    def of(cls, cards: Any, sizes: Any, pods: int, beyond: int = 0) -> Pool:
        """Return a pool that nobody holds.

        Args:
            cards: cards of each node, shape (nodes,).
            sizes: the distinct sizes of pods of whole cards, in cards.
            pods: how many pods all tasks have.
            beyond: idle cards of nodes that are left out, as no pod ever comes to them.
        """
        first = np.concatenate([[0], np.cumsum(cards)]).astype(np.int64)
        cards = np.asarray(cards, np.int64)
        pods_in = np.arange(cards.max() + 1)[:, None] // np.asarray(sizes, np.int64)[None, :]
        fit = pods_in[cards].sum(axis=0)
        return cls(
            first=first,
            free=np.full(first[-1], MILLI, np.int64),
            hard=np.zeros(first[-1], np.int64),
            idle=cards.copy(),
            clear=cards.copy(),
            held=np.zeros((2, cards.size), np.int64),
            heat=np.zeros((2, cards.size), np.int64),
            node_heat=np.zeros(cards.size, np.int64),
            packing=np.full(cards.size, -1.0),
            part=np.zeros((2, cards.size)),
            changed=np.zeros(cards.size, np.int64),
            pods_in=pods_in,
            fit_idle=fit.copy(),
            fit_clear=fit.copy(),
            newest=np.full(cards.size, -1, np.int64),
            older=np.full(pods, -1, np.int64),
            newer=np.full(pods, -1, np.int64),
            totals=np.array([MILLI * (first[-1] + beyond), 0, 0, 0, 0], np.int64),
        )


@borrowing_helper
def hold(pool: Any, node: int, mask: int, share: int, kind: int) -> None:
    """Take a share of each card of ``mask`` on a node."""
    free, hard = pool.free, pool.hard
    idle = clear = held = 0
    at = pool.first[node]
    while mask:
        if mask & 1:
            idle -= free[at] == MILLI
            free[at] -= share
            if kind != SPOT:
                clear -= hard[at] == 0
                hard[at] += share
            held += share
        mask >>= 1
        at += 1
    _count(pool, node, idle, clear, held, kind)


@borrowing_helper
def release(pool: Any, node: int, mask: int, share: int, kind: int) -> None:
    """Give a share of each card of ``mask`` back."""
    free, hard = pool.free, pool.hard
    idle = clear = freed = 0
    at = pool.first[node]
    while mask:
        if mask & 1:
            free[at] += share
            idle += free[at] == MILLI
            if kind != SPOT:
                hard[at] -= share
                clear += hard[at] == 0
            freed += share
        mask >>= 1
        at += 1
    pool.totals[CHANGES] += 1
    _count(pool, node, idle, clear, -freed, kind)


@borrowing_helper
def _count(pool: Any, node: int, idle: int, clear: int, held: int, kind: int) -> None:
    """Bring what is known of a node up to date after its cards have changed."""
    size = pool.first[node + 1] - pool.first[node]
    pods_in = pool.pods_in
    if idle:
        fit = pool.fit_idle
        before = pool.idle[node]
        for each in range(fit.size):
            fit[each] += pods_in[before + idle, each] - pods_in[before, each]
        pool.idle[node] = before + idle
        pool.packing[node] = -(before + idle) / size
    if clear:
        fit = pool.fit_clear
        before = pool.clear[node]
        for each in range(fit.size):
            fit[each] += pods_in[before + clear, each] - pods_in[before, each]
        pool.clear[node] = before + clear
    if kind != BLOCKED:
        pool.held[kind, node] += held
        pool.part[kind, node] = pool.held[kind, node] / (size * MILLI)
        if kind == HP:
            pool.totals[HP_MILLI] += held
    pool.totals[FREE_MILLI] -= held
    pool.changed[node] += 1


@borrowing_helper
def list_pod(pool: Any, node: int, pod: int) -> None:
    """Note that a spot pod runs on a node."""
    last = pool.newest[node]
    pool.older[pod], pool.newer[pod] = last, -1
    if last >= 0:
        pool.newer[last] = pod
    pool.newest[node] = pod


@borrowing_helper
def unlist_pod(pool: Any, node: int, pod: int) -> None:
    """Note that a spot pod no longer runs on a node."""
    older, newer = pool.older[pod], pool.newer[pod]
    if older >= 0:
        pool.newer[older] = newer
    if newer >= 0:
        pool.older[newer] = older
    else:
        pool.newest[node] = older


@borrowing_helper
def add_heat(pool: Any, node: int, hours: int, change: int, limit: int) -> None:
    """Count an eviction on a node, or no longer; ``hours`` is 0 for the past hour, 1 for 24.

    Nodes of at least ``limit`` heat are hot.
    """
    before = pool.node_heat[node]
    pool.heat[hours, node] += change
    after = PER_HOUR_EVENT * pool.heat[0, node] + pool.heat[1, node]
    pool.node_heat[node] = after
    pool.totals[HOT_NODES] += int(after >= limit) - int(before >= limit)
    pool.totals[CHANGES] += 1


@borrowing_helper
def lowest_idle(pool: Any, node: int, count: int) -> int:
    """Return the mask of the lowest-numbered idle cards of a node."""
    mask, bit = 0, 1
    free = pool.free
    for card in range(pool.first[node], pool.first[node + 1]):
        if free[card] == MILLI:
            mask |= bit
            count -= 1
            if count == 0:
                break
        bit <<= 1
    return mask


@borrowing_helper
def fullest_fit(pool: Any, node: int, share: int) -> int:
    """Return the card of a node with the least free share that fits, or -1."""
    best = -1
    free = pool.free
    for card in range(pool.first[node], pool.first[node + 1]):
        if free[card] >= share and (best < 0 or free[card] < free[best]):
            best = card
    return best


@borrowing_helper
def pick_cards(pool: Any, node: int, g: int) -> int:
    """Return the mask of the cards that a pod of ``g`` milli-GPU takes on a node where it fits."""
    if g >= MILLI:
        return lowest_idle(pool, node, g // MILLI)
    mask: int = 1 << (fullest_fit(pool, node, g) - pool.first[node])
    return mask
