"""How a run of a task begins and ends, what is recorded of it, and what an eviction keeps of it."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.heap import insert
from gpuplan.simkit.jit import borrowing_helper, borrowing_kernel
from gpuplan.simkit.spot.pool import (
    CHANGES,
    HP,
    MILLI,
    SPOT,
    SPOT_MILLI,
    add_heat,
    release,
    unlist_pod,
)
from gpuplan.simkit.spot.queue import add
from gpuplan.simkit.spot.tasks import (
    BUCKET,
    DONE,
    DURATION,
    END,
    ENDING,
    EVICTED,
    EVICTIONS,
    FINISH,
    FINISHED,
    FIRST_POD,
    FIRST_START,
    LEASE_ENDED,
    NODE,
    NODE_MASK,
    POD_MILLI,
    PODS,
    PRIORITY,
    QUEUED,
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
    START,
    STATE,
    WAIT,
    WAITING,
    WASTED,
)

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
) = range(21)
"""Entries of the array of counters."""

COUNTERS = 21


@borrowing_helper
def ends_then(tasks: Any, task: int, time: int) -> bool:
    """Tell whether an entry of the heap of ends still holds."""
    state = tasks[STATE, task]
    return bool((state == RUNNING or state == ENDING) and tasks[END, task] == time)


@borrowing_helper
def wait(tasks: Any, task: int, now: int, queue: Any, records: Any, count: Any) -> None:
    """Let a task wait from now on."""
    tasks[QUEUED, task] = now
    tasks[STATE, task] = WAITING
    bucket = tasks[BUCKET, task]
    add(queue, bucket, task)
    if not tasks[PRIORITY, task]:
        records.queued[0, count[QUEUED_TO]] = now
        records.queued[1, count[QUEUED_TO]] = task
        count[QUEUED_TO] += 1


@borrowing_helper
def end_run(state: Any, task: int, now: int, why: int) -> None:
    """End a run: keep what a checkpoint saved, free the cards, count it."""
    tasks, pool, records, count = state.tasks, state.pool, state.records, state.count
    queue, rules, scratch = state.queue, state.rules, state.scratch
    hp = tasks[PRIORITY, task] == 1
    begin, pods = tasks[FIRST_POD, task], tasks[PODS, task]
    if tasks[STATE, task] == RUNNING:
        free_pods(tasks, task, pool, scratch, HP if hp else SPOT)
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
        if not hp:
            count[DONE_SPOT] += 1
        return
    lasted = now - tasks[START, task]
    done = max(0, lasted - tasks[RESTART, task])
    kept = done if why == LEASE_ENDED else kept_of(tasks, task, done, rules, scratch.milestones)
    tasks[WASTED, task] += tasks[SIZE, task] * (done - kept + min(tasks[RESTART, task], lasted))
    tasks[SAVED, task] += kept
    wait(tasks, task, now, queue, records, count)
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
                add_heat(pool, node, 0, 1, rules.heat_limit)
                add_heat(pool, node, 1, 1, rules.heat_limit)


@borrowing_helper
def free_pods(tasks: Any, task: int, pool: Any, scratch: Any, kind: int) -> None:
    """Free the cards of a task."""
    share = min(tasks[POD_MILLI, task], MILLI)
    for pod in range(tasks[FIRST_POD, task], tasks[FIRST_POD, task] + tasks[PODS, task]):
        node = scratch.places[NODE, pod]
        release(pool, node, scratch.places[NODE_MASK, pod], share, kind)
        if kind == SPOT:
            unlist_pod(pool, node, pod)


@borrowing_helper
def begin_run(
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


@borrowing_kernel
def kept_of(tasks: Any, task: int, useful: int, rules: Any, milestones: Any) -> int:
    """Return how many of the useful seconds of a run its last checkpoint keeps.

    Checkpoints come at regular intervals of each run, or at milestones of the whole task.

    Args:
        tasks: of `gpuplan.simkit.spot.tasks`.
        task: which of them.
        useful: seconds of work since the run began, >= 0.
        rules: `gpuplan.simkit.spot.parameters.Rules`.
        milestones: of `gpuplan.simkit.spot.tasks.Scratch`.
    """
    kept: int = useful // rules.checkpoint_s * rules.checkpoint_s
    if milestones.size:
        saved = best = tasks[SAVED, task]
        for at in range(milestones.size):
            milestone = milestones[at]
            reached = int(milestone * tasks[DURATION, task] if milestone < 1.0 else milestone)
            if best < reached <= saved + useful:
                best = reached
        kept = best - saved
    return kept


@borrowing_helper
def waste_of(tasks: Any, task: int, now: int, rules: Any, milestones: Any) -> int:
    """Return milli-GPU seconds since the last checkpoint of a run, or since its start."""
    useful = now - tasks[START, task] - tasks[RESTART, task]
    kept = kept_of(tasks, task, useful, rules, milestones) if useful > 0 else 0
    since = useful - kept if kept else now - tasks[START, task]
    lost: int = tasks[SIZE, task] * since
    return lost
