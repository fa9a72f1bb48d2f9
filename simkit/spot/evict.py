"""Whom an HP pod evicts, and on which node (GFS, Algorithm 2 and Eq. 19)."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.spot.checkpoints import kept_of
from gpuplan.simkit.spot.place import grown_by
from gpuplan.simkit.spot.pool import MILLI
from gpuplan.simkit.spot.tasks import NODE_MASK, POD_MILLI, RESTART, SIZE, START

BY_GFS, LATEST, FEWEST, BY_FRAGMENTATION, LOWEST, RANDOM = range(6)  # as in `VICTIMS`


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
def waste_of(tasks: Any, task: int, now: int, rules: Any, milestones: Any) -> int:
    """Return milli-GPU seconds since the last checkpoint of a run, or since its start."""
    useful = now - tasks[START, task] - tasks[RESTART, task]
    kept = kept_of(tasks, task, useful, rules, milestones) if useful > 0 else 0
    since = useful - kept if kept else now - tasks[START, task]
    lost: int = tasks[SIZE, task] * since
    return lost


@borrowing_helper
def next_random(state: Any) -> int:
    """Return a number from 0 to 2^23 - 1 and move the generator on."""
    state[0] = (state[0] * 1103515245 + 12345) & 0x7FFFFFFF
    number: int = state[0] >> 8
    return number


@borrowing_helper
def choose_victims(
    pool: Any,
    tasks: Any,
    task_of: Any,
    g: int,
    now: int,
    lasted: int,
    evicted: int,
    finished: int,
    capacity: int,
    rules: Any,
    weights: Any,
    scratch: Any,
) -> tuple[int, int]:
    """Choose the node for one HP pod and the spot tasks it evicts there.

    Every task of a node is a victim at first; in the order of the policy each is spared while the
    pod still fits. Random victims are evicted one after the other until it fits.

    Args:
        pool: `gpuplan.simkit.spot.pool.Pool`.
        tasks, task_of: of `gpuplan.simkit.spot.tasks`.
        g: GPUs of the pod, milli-GPU.
        now: seconds.
        lasted: seconds since the first tick, >= 1.
        evicted, finished: spot runs evicted, and spot tasks finished, so far.
        capacity: of the pool, milli-GPU.
        rules: `gpuplan.simkit.spot.parameters.Rules`.
        weights: for `fragmentation`.
        scratch: `gpuplan.simkit.spot.tasks.Scratch`; ``victims`` is set.

    Returns:
        The node, or -1, and how many victims there are.
    """
    cards = g // MILLI
    share = min(g, MILLI)
    free, owner, order, keys, spared = (
        scratch.free,
        scratch.owner,
        scratch.order,
        scratch.keys,
        scratch.spared,
    )
    best, best_count = -1, 0
    best_first = best_second = best_third = 0.0
    base = evicted / (finished + evicted) if finished + evicted else 0.0
    for node in range(pool.idle.size):
        begin, end = pool.first[node], pool.first[node + 1]
        size = end - begin
        count = 0
        idle = pool.idle[node]
        if cards:
            if pool.clear[node] < cards:
                continue
            fits = idle >= cards
        else:
            fits = possible = False
            for card in range(begin, end):
                fits |= pool.free[card] >= g
                possible |= MILLI - pool.hard[card] >= g
            if not possible:
                continue
        if not fits:
            # Distinct tasks here, in the order in which they are spared.
            here = 0
            pod = pool.newest[node]
            while pod >= 0:
                task = task_of[pod]
                line = -1
                for other in range(here):
                    if owner[other] == task:
                        line = other
                        break
                if line < 0:
                    owner[here], keys[here] = task, 0
                    line = here
                    here += 1
                if rules.victims == FEWEST:
                    keys[line] += _bits(tasks, pod, scratch) * _share(tasks, task)
                pod = pool.older[pod]
            for at in range(here):
                if rules.victims == BY_GFS:
                    keys[at] = -waste_of(tasks, owner[at], now, rules, scratch.milestones)
                elif rules.victims in (LATEST, LOWEST):
                    keys[at] = tasks[START, owner[at]]
                elif rules.victims == RANDOM:
                    keys[at] = next_random(scratch.random)
                order[at] = at
                place = at
                while place > 0 and (
                    keys[order[place - 1]] > keys[at]
                    or (keys[order[place - 1]] == keys[at] and owner[order[place - 1]] > owner[at])
                ):
                    order[place] = order[place - 1]
                    place -= 1
                order[place] = at
            one_by_one = rules.victims == RANDOM
            for card in range(size):
                card_at = begin + card
                free[card] = pool.free[card_at] if one_by_one else MILLI - pool.hard[card_at]
            idle = pool.idle[node] if one_by_one else pool.clear[node]
            count = here
            for at in range(here):
                task = owner[order[at]]
                if not one_by_one:
                    idle = _take(pool, tasks, task_of, node, task, free, idle, 1, scratch)
                fits = idle >= cards
                if not cards:
                    fits = False
                    for card in range(size):
                        fits |= free[card] >= g
                spared[order[at]] = fits
                if fits:
                    count -= 1
                else:
                    idle = _take(pool, tasks, task_of, node, task, free, idle, -1, scratch)
        first = second = third = 0.0
        if rules.victims == BY_GFS:
            first, second = base, float(idle)
            if count:
                waste = 0
                for at in range(here):
                    if not spared[at]:
                        waste += waste_of(tasks, owner[at], now, rules, scratch.milestones)
                first = (evicted + count) / (finished + evicted + count)
                first += rules.beta * waste / (capacity * lasted)
        elif rules.victims == LATEST:
            first = float(idle)
        elif rules.victims == FEWEST:
            first, third = float(count), float(idle)
            if count:
                for at in range(here):
                    if not spared[at]:
                        second += tasks[SIZE, owner[at]]
        elif rules.victims == BY_FRAGMENTATION:
            if not count:
                for card in range(size):
                    free[card] = pool.free[begin + card]
            first = float(grown_by(free, 0, size, _picked(free, size, g), share, weights))
        elif rules.victims == RANDOM:
            first = float(next_random(scratch.random))
        better = best < 0 or first < best_first
        if not better and first == best_first:
            better = second < best_second or (second == best_second and third < best_third)
        if better:
            best, best_first, best_second, best_third = node, first, second, third
            best_count = 0
            if count:
                for at in range(here):
                    if not spared[at]:
                        scratch.victims[best_count] = owner[at]
                        best_count += 1
        if rules.victims == LOWEST:
            break
    return best, best_count


@borrowing_helper
def _share(tasks: Any, task: int) -> int:
    """Return the share of each card that a task's pods hold, milli-GPU."""
    share: int = min(tasks[POD_MILLI, task], MILLI)
    return share


@borrowing_helper
def _bits(tasks: Any, pod: int, scratch: Any) -> int:
    """Return how many cards a pod holds."""
    mask = scratch.places[NODE_MASK, pod]
    count = 0
    while mask:
        count += mask & 1
        mask >>= 1
    return count


@borrowing_helper
def _take(
    pool: Any,
    tasks: Any,
    task_of: Any,
    node: int,
    task: int,
    free: Any,
    idle: int,
    sign: int,
    scratch: Any,
) -> int:
    """Take what a task holds on a node from ``free``, or give it back; return the idle cards."""
    share = _share(tasks, task) * sign
    pod = pool.newest[node]
    while pod >= 0:
        mask = scratch.places[NODE_MASK, pod] if task_of[pod] == task else 0
        card = 0
        while mask:
            if mask & 1:
                idle -= free[card] == MILLI
                free[card] -= share
                idle += free[card] == MILLI
            mask >>= 1
            card += 1
        pod = pool.older[pod]
    return idle


@borrowing_helper
def _picked(free: Any, size: int, g: int) -> int:
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
