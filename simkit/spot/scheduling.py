"""One scheduling pass: start what fits, HP tasks before spot, and evict spot for HP.

Whom an HP pod evicts, and on which node: GFS, Algorithm 2 and Eq. 19.
"""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.spot.place import (
    best_node,
    gang_fits_with_evictions,
    grown_by,
    picked_cards,
    pods_that_fit,
)
from gpuplan.simkit.spot.pool import (
    BLOCKED,
    CHANGES,
    HP,
    MILLI,
    SPOT,
    SPOT_MILLI,
    hold,
    list_pod,
    pick_cards,
)
from gpuplan.simkit.spot.queue import next_bucket, skip_larger, take
from gpuplan.simkit.spot.runs import (
    BLOCK_TO,
    DONE_SPOT,
    EVICT_TO,
    QUOTA_NOW,
    STOP_TO,
    begin_run,
    end_run,
    free_pods,
    waste_of,
)
from gpuplan.simkit.spot.tasks import (
    ENDING,
    EVICTED,
    FIRST_POD,
    LEASE_ENDED,
    NODE,
    NODE_MASK,
    POD_MILLI,
    PODS,
    SIZE,
    START,
    STATE,
    STOP,
)

BY_GFS, LATEST, FEWEST, BY_FRAGMENTATION, LOWEST, RANDOM = range(6)  # as in `VICTIMS`


@borrowing_helper
def next_random(state: Any) -> int:
    """Return a number from 0 to 2^23 - 1 and move the generator on."""
    state[0] = (state[0] * 1103515245 + 12345) & 0x7FFFFFFF
    number: int = state[0] >> 8
    return number


@borrowing_helper
def choose_victims(state: Any, g: int, now: int) -> tuple[int, int]:
    """Choose the node for one HP pod and the spot tasks it evicts there.

    Every task of a node is a victim at first; in the order of the policy each is spared while the
    pod still fits. Random victims are evicted one after the other until it fits.

    Args:
        state: `gpuplan.simkit.spot.tasks.PoolState`; ``victims`` of its scratch is set.
        g: GPUs of the pod, milli-GPU.
        now: seconds.

    Returns:
        The node, or -1, and how many victims there are.
    """
    tasks, task_of, pool, rules = state.tasks, state.task_of, state.pool, state.rules
    weights, scratch, capacity = state.weights, state.scratch, state.capacity
    evicted, finished = state.count[EVICT_TO], state.count[DONE_SPOT]
    lasted = max(1, now - state.first_tick)
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
                    idle = _take(state, node, task, free, idle, 1)
                fits = idle >= cards
                if not cards:
                    fits = False
                    for card in range(size):
                        fits |= free[card] >= g
                spared[order[at]] = fits
                if fits:
                    count -= 1
                else:
                    idle = _take(state, node, task, free, idle, -1)
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
            first = float(grown_by(free, 0, size, picked_cards(free, size, g), share, weights))
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
def _take(state: Any, node: int, task: int, free: Any, idle: int, sign: int) -> int:
    """Take what a task holds on a node from ``free``, or give it back; return the idle cards."""
    tasks, task_of, pool, scratch = state.tasks, state.task_of, state.pool, state.scratch
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
def schedule(state: Any, now: int) -> None:
    """Start what fits: HP tasks, then spot tasks."""
    tasks, pool, queue, rules = state.tasks, state.pool, state.queue, state.rules
    weights, growth, scratch = state.weights, state.growth, state.scratch
    records, count = state.records, state.count
    for bucket in range(queue.count.size):
        queue.skipped[bucket] = False
    for kind in range(2):
        hp = kind == 0
        while queue.waiting[kind]:
            bucket = next_bucket(queue, hp, rules.largest_first)
            if bucket < 0:
                break
            task = queue.heap[queue.first[bucket]]
            g, pods, size = queue.g[bucket], queue.pods[bucket], queue.size[bucket]
            started = False
            if queue.failed[bucket] != pool.totals[CHANGES]:
                room = hp or pool.totals[SPOT_MILLI] + g * pods <= count[QUOTA_NOW]
                if room and pods_that_fit(pool, hp, g, size, pods, rules):
                    take(queue, bucket)
                    for pod in range(tasks[FIRST_POD, task], tasks[FIRST_POD, task] + pods):
                        node = best_node(pool, hp, g, rules, weights, growth)
                        _hold_pod(pool, scratch, pod, node, g, kind)
                    begin_run(tasks, task, now, now, pool, rules, records, count)
                    started = True
                elif hp and gang_fits_with_evictions(pool, g, size, pods):
                    take(queue, bucket)
                    _evict_for(state, task, now)
                    started = True
            if not started:
                queue.failed[bucket] = pool.totals[CHANGES]
                skip_larger(queue, bucket, rules.blocking)


@borrowing_helper
def _hold_pod(pool: Any, scratch: Any, pod: int, node: int, g: int, kind: int) -> None:
    """Place a pod on a node."""
    mask = pick_cards(pool, node, g)
    scratch.places[NODE, pod] = node
    scratch.places[NODE_MASK, pod] = mask
    hold(pool, node, mask, min(g, MILLI), kind)
    if kind == SPOT:
        list_pod(pool, node, pod)


@borrowing_helper
def _evict_for(state: Any, task: int, now: int) -> None:
    """Place an HP gang, pod by pod, and evict whom each pod needs gone."""
    tasks, pool, rules = state.tasks, state.pool, state.rules
    scratch, records, count = state.scratch, state.records, state.count
    g = tasks[POD_MILLI, task]
    stop = now + rules.grace_s
    first = count[STOP_TO]
    begin = tasks[FIRST_POD, task]
    for pod in range(begin, begin + tasks[PODS, task]):
        node, victims = choose_victims(state, g, now)
        for at in range(victims):
            victim = scratch.victims[at]
            pool.totals[SPOT_MILLI] -= tasks[SIZE, victim]
            free_pods(tasks, victim, pool, scratch, SPOT)
            tasks[STATE, victim] = ENDING
            tasks[STOP, victim] = stop
            records.stops[0, count[STOP_TO]] = stop
            records.stops[1, count[STOP_TO]] = victim
            count[STOP_TO] += 1
        _hold_pod(pool, scratch, pod, node, g, HP)
    start = stop if count[STOP_TO] > first else now
    if rules.grace_s == 0:
        for at in range(first, count[STOP_TO]):
            why = LEASE_ENDED if rules.leases else EVICTED
            victim = records.stops[1, at]
            end_run(state, victim, now, why)
        count[STOP_TO] = first
    else:
        for at in range(first, count[STOP_TO]):
            _block(tasks, records.stops[1, at], pool, scratch, records, count, stop)
    begin_run(tasks, task, now, start, pool, rules, records, count)


@borrowing_helper
def _block(
    tasks: Any, victim: int, pool: Any, scratch: Any, records: Any, count: Any, stop: int
) -> None:
    """Block what a victim held and nobody has taken until its grace period ends."""
    share = min(tasks[POD_MILLI, victim], MILLI)
    for pod in range(tasks[FIRST_POD, victim], tasks[FIRST_POD, victim] + tasks[PODS, victim]):
        node, mask = scratch.places[NODE, pod], scratch.places[NODE_MASK, pod]
        card = 0
        while mask:
            left = min(share, pool.free[pool.first[node] + card])
            if mask & 1 and left:
                hold(pool, node, 1 << card, left, BLOCKED)
                at = count[BLOCK_TO]
                records.blocked[0, at] = stop
                records.blocked[1, at] = node
                records.blocked[2, at] = card
                records.blocked[3, at] = left
                count[BLOCK_TO] += 1
            mask >>= 1
            card += 1
