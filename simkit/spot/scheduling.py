"""One scheduling pass: start what fits, HP tasks before spot, and evict spot for HP."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.spot.evict import choose_victims, gang_fits_with_evictions
from gpuplan.simkit.spot.place import best_node, pods_that_fit
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
    STATE,
    STOP,
)


@borrowing_helper
def schedule(
    tasks: Any,
    task_of: Any,
    pool: Any,
    queue: Any,
    rules: Any,
    weights: Any,
    growth: Any,
    scratch: Any,
    records: Any,
    count: Any,
    capacity: int,
    first_tick: int,
    now: int,
) -> None:
    """Start what fits: HP tasks, then spot tasks."""
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
                    _evict_for(
                        tasks, task_of, task, pool, queue, rules, weights, scratch, records, count,
                        capacity, max(1, now - first_tick), now,
                    )  # fmt: skip
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
def _evict_for(
    tasks: Any,
    task_of: Any,
    task: int,
    pool: Any,
    queue: Any,
    rules: Any,
    weights: Any,
    scratch: Any,
    records: Any,
    count: Any,
    capacity: int,
    lasted: int,
    now: int,
) -> None:
    """Place an HP gang, pod by pod, and evict whom each pod needs gone."""
    g = tasks[POD_MILLI, task]
    stop = now + rules.grace_s
    first = count[STOP_TO]
    begin = tasks[FIRST_POD, task]
    for pod in range(begin, begin + tasks[PODS, task]):
        node, victims = choose_victims(
            pool, tasks, task_of, g, now, lasted, count[EVICT_TO], count[DONE_SPOT], capacity,
            rules, weights, scratch,
        )  # fmt: skip
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
            end_run(tasks, victim, now, why, pool, queue, rules, scratch, records, count)
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
