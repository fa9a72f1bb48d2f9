"""The event loop of a pool with high-priority and spot tasks, in whole seconds (GFS; docs/gfs.md).

At one instant runs end, then grace periods, then tasks arrive, then (at ticks) the quota is
updated; one scheduling pass follows.
"""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.heap import insert, pop
from gpuplan.simkit.jit import borrowing_kernel as kernel
from gpuplan.simkit.spot.evict import choose_victims, gang_fits_with_evictions
from gpuplan.simkit.spot.place import best_node, pods_that_fit
from gpuplan.simkit.spot.pool import (
    BLOCKED,
    CHANGES,
    FREE_MILLI,
    HP,
    MILLI,
    SPOT,
    SPOT_MILLI,
    add_heat,
    hold,
    list_pod,
    pick_cards,
    release,
    unlist_pod,
)
from gpuplan.simkit.spot.queue import add, next_bucket, skip_larger, take
from gpuplan.simkit.spot.quota import next_eta, spot_quota
from gpuplan.simkit.spot.tasks import (
    BOUND,
    BUCKET,
    DONE,
    DURATION,
    END,
    ENDING,
    ETA,
    EVICTED,
    EVICTION_RATE,
    EVICTIONS,
    FINISH,
    FINISHED,
    FIRST_POD,
    FIRST_START,
    HP_HELD,
    HP_WAITING,
    IDLE,
    LEASE_ENDED,
    LONGEST,
    NODE,
    NODE_MASK,
    POD_MILLI,
    PODS,
    PRIORITY,
    QUEUED,
    QUOTA,
    RESTART,
    RUN_PLACE,
    RUN_START,
    RUN_STOP,
    RUN_TASK,
    RUN_WHY,
    RUNNING,
    RUNS,
    SAVED,
    SIZE,
    SPOT_USED,
    SPOT_WAITING,
    START,
    STATE,
    STOP,
    SUBMIT,
    TIME,
    WAIT,
    WAITING,
    WASTED,
)

HOUR, DAY = 3600, 86400
NEVER = 1 << 60
FROM_FORECAST, FROM_SHARE = 1, 2  # as in `QUOTAS`

# Counters, entries of one array: records that are in use, and heads of queues.
(
    RUN_COUNT,
    NODE_COUNT,
    TICK_COUNT,
    STOP_FROM,
    STOP_TO,
    BLOCK_FROM,
    BLOCK_TO,
    EVICT_FROM,
    EVICT_TO,
    END_FROM,
    END_TO,
    WAIT_FROM,
    WAIT_TO,
    QUEUED_FROM,
    QUEUED_TO,
    HOT_FROM,
    HOT_HOUR,
    HOT_TO,
    DONE_SPOT,
    SPOT_ALIVE,
    QUOTA_NOW,
    DONE_ALL,
) = range(22)


@kernel
def replay(
    tasks: Any,
    task_of: Any,
    pool: Any,
    queue: Any,
    lendable: Any,
    rules: Any,
    weights: Any,
    growth: Any,
    scratch: Any,
    records: Any,
    count: Any,
    horizon: int,
) -> bool:
    """Run all tasks until they are done or the horizon is reached.

    Args:
        tasks: `gpuplan.simkit.spot.tasks`, in the order of submission.
        task_of: the task of each pod.
        pool, queue: empty.
        lendable: GPUs that forecast HP demand leaves, by clock hour; the last counts from then on.
        rules: `gpuplan.simkit.spot.parameters.Rules`.
        weights, growth: for `gpuplan.simkit.spot.place.kept_growth`.
        scratch: `gpuplan.simkit.spot.tasks.Scratch`.
        records: empty `gpuplan.simkit.spot.tasks.Records`, which holds the results.
        count: zeros, shape (22,): how much of each record is in use.
        horizon: the last second.

    Returns:
        Whether the records were large enough; else all is to be run again with larger ones.
    """
    n = tasks.shape[1]
    arrived = 0
    capacity = pool.totals[FREE_MILLI]
    first_tick = tasks[SUBMIT, 0] // rules.tick_s * rules.tick_s
    tick = first_tick
    eta = 1.0
    count[QUOTA_NOW] = NEVER
    if rules.quota == FROM_SHARE:
        count[QUOTA_NOW] = rules.fixed_quota
    ends = records.ends
    while True:
        while ends[0, 0] and not _ends_then(tasks, ends[1, 1], ends[1, 0]):
            pop(ends)
        now = NEVER
        if ends[0, 0]:
            now = ends[1, 0]
        if count[STOP_FROM] < count[STOP_TO]:
            now = min(now, records.stops[0, count[STOP_FROM]])
        if count[BLOCK_FROM] < count[BLOCK_TO]:
            now = min(now, records.blocked[0, count[BLOCK_FROM]])
        if arrived < n:
            now = min(now, tasks[SUBMIT, arrived])
        if now == NEVER and queue.waiting[0] + queue.waiting[1] == 0:
            break
        now = min(now, tick)
        if now > horizon:
            break
        if (
            count[RUN_COUNT] + 3 * n >= records.runs.shape[1]
            or count[NODE_COUNT] + 3 * task_of.size >= records.run_nodes.size
            or count[HOT_TO] + 3 * task_of.size >= records.hot.shape[1]
            or count[BLOCK_TO] + MILLI * pool.free.size >= records.blocked.shape[1]
            or count[TICK_COUNT] + 1 >= records.ticks.shape[1]
            or count[QUEUED_TO] + 3 * n >= records.queued.shape[1]
        ):
            return False

        while ends[0, 0] and ends[1, 0] == now:
            task = ends[1, 1]
            pop(ends)
            if _ends_then(tasks, task, now):
                _end_run(tasks, task, now, FINISHED, pool, queue, rules, scratch, records, count)
        while count[STOP_FROM] < count[STOP_TO] and records.stops[0, count[STOP_FROM]] == now:
            task = records.stops[1, count[STOP_FROM]]
            count[STOP_FROM] += 1
            if tasks[STATE, task] == ENDING and tasks[STOP, task] == now:
                _end_run(tasks, task, now, EVICTED, pool, queue, rules, scratch, records, count)
        while count[BLOCK_FROM] < count[BLOCK_TO] and records.blocked[0, count[BLOCK_FROM]] == now:
            at = count[BLOCK_FROM]
            count[BLOCK_FROM] += 1
            mask = 1 << records.blocked[2, at]
            release(pool, records.blocked[1, at], mask, records.blocked[3, at], BLOCKED)
        while arrived < n and tasks[SUBMIT, arrived] == now:
            _wait(tasks, arrived, now, queue, records, count)
            arrived += 1
        _cool(pool, records, count, now)
        if now == tick:
            eta = _update(tasks, pool, queue, lendable, rules, records, count, now, eta)
            tick += rules.tick_s
        elif rules.leases:
            continue
        if queue.waiting[0] + queue.waiting[1]:
            _pass(
                tasks, task_of, pool, queue, rules, weights, growth, scratch, records, count,
                capacity, first_tick, now,
            )  # fmt: skip
    return True


@kernel
def _ends_then(tasks: Any, task: int, time: int) -> bool:
    """Tell whether an entry of the heap of ends still holds."""
    state = tasks[STATE, task]
    return bool((state == RUNNING or state == ENDING) and tasks[END, task] == time)


@kernel
def _wait(tasks: Any, task: int, now: int, queue: Any, records: Any, count: Any) -> None:
    """Let a task wait from now on."""
    tasks[QUEUED, task] = now
    tasks[STATE, task] = WAITING
    bucket = tasks[BUCKET, task]
    add(queue, bucket, task)
    if not tasks[PRIORITY, task]:
        records.queued[0, count[QUEUED_TO]] = now
        records.queued[1, count[QUEUED_TO]] = task
        count[QUEUED_TO] += 1


@kernel
def _end_run(
    tasks: Any,
    task: int,
    now: int,
    why: int,
    pool: Any,
    queue: Any,
    rules: Any,
    scratch: Any,
    records: Any,
    count: Any,
) -> None:
    """End a run: keep what a checkpoint saved, free the cards, count it."""
    hp = tasks[PRIORITY, task] == 1
    begin, pods = tasks[FIRST_POD, task], tasks[PODS, task]
    if tasks[STATE, task] == RUNNING:
        _free_pods(tasks, task, pool, scratch, HP if hp else SPOT)
        if not hp:
            pool.totals[SPOT_MILLI] -= tasks[SIZE, task]
    row = count[RUN_COUNT]
    count[RUN_COUNT] += 1
    records.runs[RUN_TASK, row] = task
    records.runs[RUN_START, row] = tasks[START, task]
    records.runs[RUN_STOP, row] = now
    records.runs[RUN_WHY, row] = why
    records.runs[RUN_PLACE, row] = count[NODE_COUNT]
    for pod in range(begin, begin + pods):
        records.run_nodes[count[NODE_COUNT]] = scratch.places[NODE, pod]
        count[NODE_COUNT] += 1
    tasks[RUNS, task] += 1
    if not hp:
        count[SPOT_ALIVE] -= 1
        records.finishes[count[END_TO]] = now
        count[END_TO] += 1
    if why == FINISHED:
        tasks[STATE, task] = DONE
        tasks[FINISH, task] = now
        tasks[WASTED, task] += tasks[SIZE, task] * tasks[RESTART, task]
        count[DONE_ALL] += 1
        if not hp:
            count[DONE_SPOT] += 1
        return
    lasted = now - tasks[START, task]
    done = max(0, lasted - tasks[RESTART, task])
    kept = done if why == LEASE_ENDED else done // rules.checkpoint_s * rules.checkpoint_s
    tasks[WASTED, task] += tasks[SIZE, task] * (done - kept + min(tasks[RESTART, task], lasted))
    tasks[SAVED, task] += kept
    _wait(tasks, task, now, queue, records, count)
    pool.totals[CHANGES] += 1
    if why == EVICTED:
        tasks[EVICTIONS, task] += 1
        records.evictions[count[EVICT_TO]] = now
        count[EVICT_TO] += 1
        for pod in range(begin, begin + pods):
            node, seen = scratch.places[NODE, pod], False
            for other in range(begin, pod):
                seen |= scratch.places[NODE, other] == node
            if not seen:
                records.hot[0, count[HOT_TO]] = now
                records.hot[1, count[HOT_TO]] = node
                count[HOT_TO] += 1
                add_heat(pool, node, 0, 1)
                add_heat(pool, node, 1, 1)


@kernel
def _free_pods(tasks: Any, task: int, pool: Any, scratch: Any, kind: int) -> None:
    """Free the cards of a task."""
    share = min(tasks[POD_MILLI, task], MILLI)
    for pod in range(tasks[FIRST_POD, task], tasks[FIRST_POD, task] + tasks[PODS, task]):
        node = scratch.places[NODE, pod]
        release(pool, node, scratch.places[NODE_MASK, pod], share, kind)
        if kind == SPOT:
            unlist_pod(pool, node, pod)


@kernel
def _cool(pool: Any, records: Any, count: Any, now: int) -> None:
    """Forget evictions that are an hour, and a day, ago."""
    while count[HOT_HOUR] < count[HOT_TO] and records.hot[0, count[HOT_HOUR]] <= now - HOUR:
        add_heat(pool, records.hot[1, count[HOT_HOUR]], 0, -1)
        count[HOT_HOUR] += 1
    while count[HOT_FROM] < count[HOT_HOUR] and records.hot[0, count[HOT_FROM]] <= now - DAY:
        add_heat(pool, records.hot[1, count[HOT_FROM]], 1, -1)
        count[HOT_FROM] += 1


@kernel
def _update(
    tasks: Any,
    pool: Any,
    queue: Any,
    lendable: Any,
    rules: Any,
    records: Any,
    count: Any,
    now: int,
    eta: float,
) -> float:
    """Update eta and the quota at a tick, and write a row of the time line."""
    since = now - rules.guarantee_s
    while count[EVICT_FROM] < count[EVICT_TO] and records.evictions[count[EVICT_FROM]] <= since:
        count[EVICT_FROM] += 1
    while count[END_FROM] < count[END_TO] and records.finishes[count[END_FROM]] <= since:
        count[END_FROM] += 1
    while count[WAIT_FROM] < count[WAIT_TO] and records.waits[0, count[WAIT_FROM]] <= since:
        count[WAIT_FROM] += 1
    runs = count[END_TO] - count[END_FROM] + count[SPOT_ALIVE]
    rate = (count[EVICT_TO] - count[EVICT_FROM]) / runs if runs else 0.0
    longest = 0
    if count[WAIT_FROM] < count[WAIT_TO]:
        longest = records.waits[1, count[WAIT_FROM]]
    while count[QUEUED_FROM] < count[QUEUED_TO]:
        begun, task = records.queued[0, count[QUEUED_FROM]], records.queued[1, count[QUEUED_FROM]]
        if tasks[STATE, task] == WAITING and tasks[QUEUED, task] == begun:
            longest = max(longest, now - begun)
            break
        count[QUEUED_FROM] += 1
    row = count[TICK_COUNT]
    count[TICK_COUNT] += 1
    used, idle = pool.totals[SPOT_MILLI], pool.totals[FREE_MILLI]
    free = 0.0
    if rules.quota == FROM_FORECAST:
        eta = next_eta(eta, rate, longest, rules)
        free = lendable[min(now // HOUR, lendable.size - 1)]
        count[QUOTA_NOW] = spot_quota(free, eta, idle, used)
        pool.totals[CHANGES] += 1
    records.ticks[TIME, row] = now
    records.ticks[LONGEST, row] = longest
    records.ticks[QUOTA, row] = count[QUOTA_NOW] if count[QUOTA_NOW] < NEVER else -1
    records.ticks[SPOT_USED, row] = used
    records.ticks[IDLE, row] = idle
    held = 0
    for node in range(pool.idle.size):
        held += pool.held[HP, node]
    records.ticks[HP_HELD, row] = held
    records.ticks[HP_WAITING, row] = queue.waiting[0]
    records.ticks[SPOT_WAITING, row] = queue.waiting[1]
    records.rates[BOUND, row] = free
    records.rates[EVICTION_RATE, row] = rate
    records.rates[ETA, row] = eta
    return eta


@kernel
def _pass(
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
                    _begin(tasks, task, now, now, pool, rules, records, count)
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


@kernel
def _hold_pod(pool: Any, scratch: Any, pod: int, node: int, g: int, kind: int) -> None:
    """Place a pod on a node."""
    mask = pick_cards(pool, node, g)
    scratch.places[NODE, pod] = node
    scratch.places[NODE_MASK, pod] = mask
    hold(pool, node, mask, min(g, MILLI), kind)
    if kind == SPOT:
        list_pod(pool, node, pod)


@kernel
def _begin(
    tasks: Any, task: int, now: int, start: int, pool: Any, rules: Any, records: Any, count: Any
) -> None:
    """Begin a run that was decided now; it starts when the grace period of its victims is over."""
    waited = start - tasks[QUEUED, task]
    tasks[STATE, task] = RUNNING
    tasks[START, task] = start
    tasks[WAIT, task] += waited
    tasks[RESTART, task] = 0
    if tasks[FIRST_START, task] < 0:
        tasks[FIRST_START, task] = start
    if not tasks[PRIORITY, task]:
        if tasks[RUNS, task]:
            gang = tasks[SIZE, task] > 8 * MILLI
            tasks[RESTART, task] = rules.restart_gang_s if gang else rules.restart_s
        pool.totals[SPOT_MILLI] += tasks[SIZE, task]
        count[SPOT_ALIVE] += 1
        # The longest wait of a window: shorter ones before it never matter again.
        while count[WAIT_TO] > count[WAIT_FROM] and records.waits[1, count[WAIT_TO] - 1] <= waited:
            count[WAIT_TO] -= 1
        records.waits[0, count[WAIT_TO]] = now
        records.waits[1, count[WAIT_TO]] = waited
        count[WAIT_TO] += 1
    end = start + tasks[RESTART, task] + tasks[DURATION, task] - tasks[SAVED, task]
    tasks[END, task] = end
    insert(records.ends, end, task)


@kernel
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
            _free_pods(tasks, victim, pool, scratch, SPOT)
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
            _end_run(tasks, victim, now, why, pool, queue, rules, scratch, records, count)
        count[STOP_TO] = first
    else:
        for at in range(first, count[STOP_TO]):
            _block(tasks, records.stops[1, at], pool, scratch, records, count, stop)
    _begin(tasks, task, now, start, pool, rules, records, count)


@kernel
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
