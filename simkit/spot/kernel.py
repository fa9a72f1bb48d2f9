"""The event loop of a pool with high-priority and spot tasks, in whole seconds (GFS; docs/gfs.md).

At one instant runs end, then grace periods, then tasks arrive, then (at ticks) the quota is
updated; one scheduling pass follows. The quota for spot tasks is what a forecast of HP demand and
past evictions allow (section 3.3).
"""

from __future__ import annotations

import math
from typing import Any

from gpuplan.simkit.heap import pop
from gpuplan.simkit.jit import borrowing_helper, borrowing_kernel
from gpuplan.simkit.spot.pool import (
    BLOCKED,
    CHANGES,
    FREE_MILLI,
    HP_MILLI,
    SPOT_MILLI,
    add_heat,
    release,
)
from gpuplan.simkit.spot.runs import (
    BLOCK_FROM,
    BLOCK_TO,
    END_FROM,
    END_TO,
    EVICT_FROM,
    EVICT_TO,
    HOT_FROM,
    HOT_HOUR,
    HOT_TO,
    NODE_COUNT,
    QUEUED_FROM,
    QUEUED_TO,
    QUOTA_NOW,
    RUN_COUNT,
    SPOT_ALIVE,
    STOP_FROM,
    STOP_TO,
    TICK_COUNT,
    WAIT_FROM,
    WAIT_TO,
    end_run,
    ends_then,
    wait,
)
from gpuplan.simkit.spot.scheduling import schedule
from gpuplan.simkit.spot.tasks import (
    BOUND,
    ENDING,
    ETA,
    EVICTED,
    EVICTION_RATE,
    FINISHED,
    HP_HELD,
    HP_WAITING,
    IDLE,
    LONGEST,
    QUEUED,
    QUOTA,
    SPOT_USED,
    SPOT_WAITING,
    STATE,
    STOP,
    SUBMIT,
    TIME,
    WAITING,
)

HOUR, DAY = 3600, 86400
NEVER = 1 << 60
FROM_FORECAST, FROM_SHARE = 1, 2  # as in `QUOTAS`


@borrowing_kernel
def replay(state: Any, lendable: Any, spot_cards: int, horizon: int) -> bool:
    """Run all tasks until they are done or the horizon is reached.

    Args:
        state: `gpuplan.simkit.spot.tasks.PoolState`: nobody holds or waits for anything, the
            records are empty, and ``count`` is zeros.
        lendable: GPUs that forecast HP demand leaves, by clock hour; the last counts from then on.
        spot_cards: most cards that the spot tasks of one pass may leave blocked.
        horizon: the last second.

    Returns:
        Whether the records were large enough; else all is to be run again with larger ones.
    """
    tasks, pool, queue, rules = state.tasks, state.pool, state.queue, state.rules
    records, count, pods = state.records, state.count, state.task_of.size
    n = tasks.shape[1]
    arrived = 0
    tick = state.first_tick
    eta = 1.0
    count[QUOTA_NOW] = NEVER
    if rules.quota == FROM_SHARE:
        count[QUOTA_NOW] = rules.fixed_quota
    ends = records.ends
    while True:
        while ends[0, 0] and not ends_then(tasks, ends[1, 1], ends[1, 0]):
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
            or count[NODE_COUNT] + 3 * pods >= records.run_nodes.size
            or count[HOT_TO] + 3 * pods >= records.hot.shape[1]
            or count[BLOCK_TO] + spot_cards >= records.blocked.shape[1]
            or count[TICK_COUNT] + 1 >= records.ticks.shape[1]
            or count[QUEUED_TO] + 3 * n >= records.queued.shape[1]
        ):
            return False

        while ends[0, 0] and ends[1, 0] == now:
            task = ends[1, 1]
            pop(ends)
            if ends_then(tasks, task, now):
                end_run(state, task, now, FINISHED)
        while count[STOP_FROM] < count[STOP_TO] and records.stops[0, count[STOP_FROM]] == now:
            task = records.stops[1, count[STOP_FROM]]
            count[STOP_FROM] += 1
            if tasks[STATE, task] == ENDING and tasks[STOP, task] == now:
                end_run(state, task, now, EVICTED)
        while count[BLOCK_FROM] < count[BLOCK_TO] and records.blocked[0, count[BLOCK_FROM]] == now:
            at = count[BLOCK_FROM]
            count[BLOCK_FROM] += 1
            mask = 1 << records.blocked[2, at]
            release(pool, records.blocked[1, at], mask, records.blocked[3, at], BLOCKED)
        while arrived < n and tasks[SUBMIT, arrived] == now:
            wait(tasks, arrived, now, queue, records, count)
            arrived += 1
        _cool(pool, records, count, now, rules.heat_limit)
        if now == tick:
            eta = _update(state, lendable, now, eta)
            tick += rules.tick_s
        elif rules.leases:
            continue
        if queue.waiting[0] + queue.waiting[1]:
            schedule(state, now)
    return True


@borrowing_helper
def _cool(pool: Any, records: Any, count: Any, now: int, limit: int) -> None:
    """Forget evictions that are an hour, and a day, ago."""
    while count[HOT_HOUR] < count[HOT_TO] and records.hot[0, count[HOT_HOUR]] <= now - HOUR:
        add_heat(pool, records.hot[1, count[HOT_HOUR]], 0, -1, limit)
        count[HOT_HOUR] += 1
    while count[HOT_FROM] < count[HOT_HOUR] and records.hot[0, count[HOT_FROM]] <= now - DAY:
        add_heat(pool, records.hot[1, count[HOT_FROM]], 1, -1, limit)
        count[HOT_FROM] += 1


@borrowing_helper
def _update(state: Any, lendable: Any, now: int, eta: float) -> float:
    """Update eta and the quota at a tick, and write a row of the time line."""
    tasks, pool, queue, rules = state.tasks, state.pool, state.queue, state.rules
    records, count = state.records, state.count
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
    records.ticks[HP_HELD, row] = pool.totals[HP_MILLI]
    records.ticks[HP_WAITING, row] = queue.waiting[0]
    records.ticks[SPOT_WAITING, row] = queue.waiting[1]
    records.rates[BOUND, row] = free
    records.rates[EVICTION_RATE, row] = rate
    records.rates[ETA, row] = eta
    return eta


@borrowing_kernel
def next_eta(eta: float, rate: float, longest: int, rules: Any) -> float:
    """Return eta after a tick at which the eviction rate and the longest wait were these."""
    q = rules.target
    if rules.steers:
        if rate > rules.falls_above * q:
            eta *= q / rate
        elif rate < rules.rises_below * q and longest > rules.longest_wait_s:
            eta *= 1.0 + rules.rises_below - rate / q  # 1 at the threshold
        eta = min(max(eta, rules.eta_min), rules.eta_max)
    return eta


@borrowing_helper
def spot_quota(lendable: float, eta: float, idle: int, used: int) -> int:
    """Return how many milli-GPU spot may hold until the next tick.

    Args:
        lendable: GPUs left by the bound of HP demand.
        eta: the factor that follows evictions.
        idle, used: milli-GPU that nobody holds, and that spot tasks hold.
    """
    return min(math.floor(lendable * eta * 1000), idle + used)
