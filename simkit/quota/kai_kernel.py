"""The event loop of KAI: rounds at every change, at most one a second, time in whole seconds.

One instant: tasks end, evicted ones have stopped, jobs come; then one round. A round that changed
something is followed by one a second later. What a round decided holds only for tasks that start or
are told to stop: one that waits for GPUs waits on, and an evicted task that was to move waits again
once it has stopped; with it the tasks that start together with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.heap import front, join, leave
from gpuplan.simkit.jit import borrowing_helper, borrowing_kernel
from gpuplan.simkit.quota import kai_columns as col
from gpuplan.simkit.quota.kai_lists import enlist, relist, unlist
from gpuplan.simkit.quota.kai_round import run_round
from gpuplan.simkit.quota.kai_state import add_future, add_to_queue, remove_task, request, started
from gpuplan.simkit.reference import by_reference

FAR = 1 << 62
DONE, GOING, FULL = range(3)  # how a slice ends
# Columns of the table of runs, one row per run of a task.
ROW_JOB, ROW_START, ROW_END, ROW_REASON, ROW_CAUSE, ROW_COLUMNS = range(6)
NOT_EVICTED = -1
# Cells of the clock: time, next job to come, rows; whether the last round changed something, and
# its time; until when past use is counted, when the window begins, and changes read before that.
NOW, NEXT_COMING, ROWS, CHANGED, ROUND_AT, USED_UNTIL, WINDOW_FROM, READ, CLOCK = range(9)
# Columns of past use: until now, until the window, and what was held then and there.
USED, OLD, HELD, OLD_HELD, PAST_COLUMNS = range(5)


@borrowing_helper
def _come(state: Any, j: int) -> None:
    """Let all tasks of a job wait."""
    jobs, tasks = state.jobs, state.tasks
    count = jobs[j, col.JOB_LAST] - jobs[j, col.JOB_FIRST]
    for task in range(jobs[j, col.JOB_FIRST], jobs[j, col.JOB_LAST]):
        tasks[task, col.TASK_STATE] = col.TASK_PENDING
    jobs[j, col.JOB_PENDING] = jobs[j, col.JOB_ALIVE] = count
    request(state, j, float(count * jobs[j, col.JOB_SIZE]))
    enlist(state, j)


@borrowing_helper
def _end_task(state: Any, task: int, most_evictions: int) -> None:
    """Let a task end, or wait again where it was evicted."""
    jobs, tasks = state.jobs, state.tasks
    j, node = tasks[task, col.TASK_JOB], tasks[task, col.TASK_NODE]
    size = jobs[j, col.JOB_SIZE]
    unlist(state, j)
    state.nodes[node, col.IDLE] += size
    tasks[task, col.TASK_NODE] = -1
    if tasks[task, col.TASK_STATE] == col.TASK_RUNNING:
        add_future(state, node, size)
        add_to_queue(state, j, -float(size))
        request(state, j, -float(size))
        jobs[j, col.JOB_ACTIVE] -= 1
        jobs[j, col.JOB_ALIVE] -= 1
        tasks[task, col.TASK_STATE] = col.TASK_GONE
    elif jobs[j, col.JOB_EVICTIONS] < most_evictions:
        tasks[task, col.TASK_STATE] = col.TASK_PENDING
        jobs[j, col.JOB_PENDING] += 1
        request(state, j, float(size))
    else:
        tasks[task, col.TASK_STATE] = col.TASK_GONE
        jobs[j, col.JOB_ALIVE] -= 1
    enlist(state, j)


@borrowing_helper
def _start_task(state: Any, runs: Any, clock: Any, task: int) -> None:
    """Let a task run that a round placed."""
    tasks, now = state.tasks, clock[NOW]
    tasks[task, col.TASK_STATE], tasks[task, col.TASK_OLD] = col.TASK_RUNNING, -1
    tasks[task, col.TASK_START] = now
    row = clock[ROWS]
    tasks[task, col.TASK_ROW] = row
    runs[row, ROW_JOB], runs[row, ROW_START] = tasks[task, col.TASK_JOB], now
    runs[row, ROW_END] = now + tasks[task, col.TASK_REST]
    runs[row, ROW_REASON] = runs[row, ROW_CAUSE] = NOT_EVICTED
    clock[ROWS] += 1


@borrowing_helper
def _evict_task(state: Any, runs: Any, now: int, task: int, checkpoint: int) -> None:
    """Tell a task to stop."""
    tasks = state.tasks
    tasks[task, col.TASK_OLD] = -1
    row = tasks[task, col.TASK_ROW]
    runs[row, ROW_END], runs[row, ROW_REASON] = now, tasks[task, col.TASK_REASON]
    runs[row, ROW_CAUSE] = tasks[task, col.TASK_CAUSE]
    if checkpoint > 0:
        ran = now - tasks[task, col.TASK_START]
        tasks[task, col.TASK_REST] -= ran // checkpoint * checkpoint


@borrowing_helper
def _stop_whole(state: Any, j: int) -> None:
    """Let all tasks of a job leave where those that are to move leave too few."""
    jobs, tasks = state.jobs, state.tasks
    moved, reason, cause = 0, 0, 0
    for task in range(jobs[j, col.JOB_FIRST], jobs[j, col.JOB_LAST]):
        how = tasks[task, col.TASK_STATE]
        if tasks[task, col.TASK_OLD] >= 0 and (how == col.TASK_PLACED or how == col.TASK_WAITS):
            moved += 1
            reason, cause = tasks[task, col.TASK_REASON], tasks[task, col.TASK_CAUSE]
    if moved == 0 or jobs[j, col.JOB_ACTIVE] - moved >= jobs[j, col.JOB_LEAST]:
        return
    for task in range(jobs[j, col.JOB_FIRST], jobs[j, col.JOB_LAST]):
        if tasks[task, col.TASK_STATE] == col.TASK_RUNNING:
            tasks[task, col.TASK_STATE], tasks[task, col.TASK_OLD] = (
                col.TASK_LEAVING,
                tasks[task, col.TASK_NODE],
            )
            tasks[task, col.TASK_REASON], tasks[task, col.TASK_CAUSE] = reason, cause
            add_future(state, tasks[task, col.TASK_NODE], jobs[j, col.JOB_SIZE])
            jobs[j, col.JOB_ACTIVE] -= 1
            add_to_queue(state, j, -float(jobs[j, col.JOB_SIZE]))


@borrowing_helper
def _end_round(state: Any, runs: Any, clock: Any, heap: Any, place: Any, limits: Any) -> bool:
    """Start and stop the tasks of the jobs that a round changed; returns whether any did."""
    jobs, tasks = state.jobs, state.tasks
    grace, checkpoint = limits[0], limits[1]
    now, changed = clock[NOW], False
    for i in range(state.count[col.TOUCHED_JOBS]):
        j = state.lists[i, col.LIST_TOUCHED]
        evicted = False
        _stop_whole(state, j)
        for task in range(jobs[j, col.JOB_FIRST], jobs[j, col.JOB_LAST]):
            how = tasks[task, col.TASK_STATE]
            moves = tasks[task, col.TASK_OLD] >= 0 and (
                how == col.TASK_PLACED or how == col.TASK_WAITS
            )
            if moves or how == col.TASK_WAITS:  # it stops or waits on
                remove_task(state, j, task)
                jobs[j, col.JOB_ACTIVE] -= 1
                add_to_queue(state, j, -float(jobs[j, col.JOB_SIZE]))
                how = tasks[task, col.TASK_STATE]
                if not moves:
                    jobs[j, col.JOB_PENDING] += 1
            if how == col.TASK_PLACED:
                _start_task(state, runs, clock, task)
                join(heap, place, 0, now + tasks[task, col.TASK_REST], task)
                changed = True
            elif how == col.TASK_LEAVING and tasks[task, col.TASK_OLD] >= 0:
                _evict_task(state, runs, now, task, checkpoint)
                leave(heap, place, 0, task)
                join(heap, place, 0, now + grace, task)
                request(state, j, -float(jobs[j, col.JOB_SIZE]))
                evicted = changed = True
        jobs[j, col.JOB_EVICTIONS] += evicted
        jobs[j, col.JOB_MARKS] &= ~(col.TOUCHED | col.FRESH)
        relist(state, j)
    state.count[col.TOUCHED_JOBS] = 0
    return changed


@borrowing_helper
def _log(state: Any, changes: Any, time: int, j: int) -> None:
    """Note by how much what a job holds changed, for the window of past use."""
    row = changes[0, 0] + 1
    changes[0, 0] = row
    held = state.jobs[j, col.JOB_ACTIVE] * state.jobs[j, col.JOB_SIZE]
    changes[row, 0], changes[row, 1], changes[row, 2] = (
        time,
        j,
        held - state.jobs[j, col.JOB_LOGGED],
    )
    state.jobs[j, col.JOB_LOGGED] = held


@borrowing_helper
def _decay(past: Any, column: int, held: Any, at: int, span: float, decay: float) -> None:
    """Let past use decay over a span, and add what was held meanwhile."""
    kept = np.exp(-decay * span)
    weight = (1.0 - kept) / decay if decay > 0 else span
    for q in range(past.shape[0]):
        past[q, column] = past[q, column] * kept + held[q, at] * weight


@borrowing_helper
def _use_until_now(state: Any, clock: Any, past: Any, decay: float) -> None:
    """Add what queues held since the last instant; the last row is the capacity."""
    queues = past.shape[0] - 1
    for q in range(queues):
        past[q, HELD] = state.queues[q, col.ALLOCATED]
    past[queues, HELD] = float(state.count[col.ALL_CAPACITY])
    _decay(past, USED, past, HELD, float(clock[NOW] - clock[USED_UNTIL]), decay)
    clock[USED_UNTIL] = clock[NOW]


@borrowing_helper
def _set_usage(state: Any, clock: Any, past: Any, changes: Any, decay: float, window: int) -> None:
    """Set the use of each queue over the capacity, both decayed and of the window only."""
    queues = past.shape[0] - 1
    begin = clock[NOW] - window
    forgotten = 0.0
    if window > 0 and begin > clock[WINDOW_FROM]:
        past[queues, OLD_HELD] = float(state.count[col.ALL_CAPACITY])
        while clock[READ] < changes[0, 0] and changes[clock[READ] + 1, 0] <= begin:
            clock[READ] += 1
            time = changes[clock[READ], 0]
            _decay(past, OLD, past, OLD_HELD, float(time - clock[WINDOW_FROM]), decay)
            clock[WINDOW_FROM] = time
            q = state.jobs[changes[clock[READ], 1], col.JOB_QUEUE]
            while q >= 0:
                past[q, OLD_HELD] += float(changes[clock[READ], 2])
                q = state.tree[q, col.PARENT]
        _decay(past, OLD, past, OLD_HELD, float(begin - clock[WINDOW_FROM]), decay)
        clock[WINDOW_FROM] = begin
    if window > 0:
        forgotten = np.exp(-decay * window)
    capacity = past[queues, USED] - forgotten * past[queues, OLD]
    for q in range(queues):
        used = past[q, USED] - forgotten * past[q, OLD]
        state.queues[q, col.USAGE] = max(0.0, used / capacity) if capacity > 0 else 0.0


@borrowing_helper
def _shields_end(state: Any, now: int) -> int:
    """Return when the next running job may become a victim; `FAR`: none will."""
    tree, soon = state.tree, FAR
    for q in range(tree.shape[0] - 1):
        shield, other = tree[q, col.RECLAIM_SHIELD], tree[q, col.PREEMPT_SHIELD]
        if shield <= 0 and other <= 0:
            continue
        for at in range(tree[q, col.SECTION], tree[q, col.SECTION] + tree[q, col.ACTIVE_COUNT]):
            start = started(state, state.lists[at, col.LIST_ACTIVE])
            if start + shield > now:
                soon = min(soon, start + shield)
            if start + other > now:
                soon = min(soon, start + other)
    return soon


@borrowing_kernel
def run_kai(
    tables: Any, clock: Any, past: Any, runs: Any, events: Any, lists: Any,
    limits: Any, sharing: Any,
) -> int:  # fmt: skip
    """Take so many instants; returns `DONE`, `GOING`, or `FULL` where ``runs`` has no room.

    Or only decide a round with the tables as they are: the states of tasks then tell what.

    Args:
        tables: see `gpuplan.simkit.quota.kai_state`.
        clock: see the cells above.
        past: past use by queue, the last row that of all GPUs; see the columns above.
        runs: one row per run of a task.
        events: heap of ends and stops of tasks, with its table.
        lists: when jobs come; the jobs in that order; time, job and GPUs of each change of what
            jobs hold, from row 1 on, the first cell being their number.
        limits: grace in seconds, checkpoint interval (0: none), most evictions, instants (-1: only
            decide a round).
        sharing: weight of past use (0: none), decay per second, window in seconds (0: all).
    """
    state = by_reference(tables)
    heap, place = events
    arrival, arrivals, changes = lists
    most_evictions, instants = limits[2], limits[3]
    k, decay, window = sharing
    n = arrival.size
    while instants >= 0:
        coming = clock[NEXT_COMING]
        now = FAR
        if heap.size[0]:
            now, _ = front(heap, 0)
        if coming < n:
            now = min(now, arrival[arrivals[coming]])
        if clock[CHANGED] and state.count[col.CLASSES] > 0:
            now = min(now, clock[NOW] + 1)
        if state.count[col.SHIELDS] and state.count[col.CLASSES] > 0:
            now = min(now, _shields_end(state, clock[NOW]))
        if now == FAR:
            return DONE
        if instants == 0:
            return GOING
        if clock[ROWS] + state.tasks.shape[0] > runs.shape[0]:
            return FULL
        if changes[0, 0] + state.jobs.shape[0] + state.tasks.shape[0] + 1 > changes.shape[0]:
            return FULL
        instants -= 1
        clock[NOW] = now
        if k > 0:
            _use_until_now(state, clock, past, decay)
        while heap.size[0]:
            time, task = front(heap, 0)
            if time > now:
                break
            leave(heap, place, 0, task)
            _end_task(state, task, most_evictions)
            if k > 0:
                _log(state, changes, now, state.tasks[task, col.TASK_JOB])
        while coming < n and arrival[arrivals[coming]] == now:
            _come(state, arrivals[coming])
            coming += 1
        clock[NEXT_COMING] = coming
        if clock[ROUND_AT] == now:
            clock[CHANGED] = 1  # the next round is a second later
            continue
        clock[CHANGED] = 0
        if state.count[col.CLASSES] == 0:
            continue
        clock[ROUND_AT] = now
        if k > 0:
            _set_usage(state, clock, past, changes, decay, window)
        state.count[col.TIME] = now
        run_round(state, k)
        if state.count[col.TOUCHED_JOBS] > 0:
            changed = state.count[col.TOUCHED_JOBS]
            clock[CHANGED] = _end_round(state, runs, clock, heap, place, limits)
            for i in range(changed):
                if k > 0:
                    _log(state, changes, now, state.lists[i, col.LIST_TOUCHED])
    run_round(state, k)
    return DONE
