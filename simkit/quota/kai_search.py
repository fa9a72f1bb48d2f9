"""KAI's search for victims of a pending job: consolidation, reclaim and preempt."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.quota import kai_columns as col
from gpuplan.simkit.quota.kai_candidates import (
    ANY_PRIORITY,
    CONSOLIDATE,
    PREEMPT,
    RECLAIM,
    mark_victims,
    more_lost,
)
from gpuplan.simkit.quota.kai_lists import relist
from gpuplan.simkit.quota.kai_losses import keeps_balance, may_be_lost
from gpuplan.simkit.quota.kai_order import (
    first_again,
    first_victim,
    left_of,
    list_victim_as,
    next_again,
    next_victim,
)
from gpuplan.simkit.quota.kai_state import (
    add_future,
    add_to_queue,
    fits_nodes,
    need_of,
    place_job,
    remove_task,
    room_for,
    tasks_wanted,
    touch,
    victims_left,
)


@borrowing_helper
def search(state: Any, j: int, action: int) -> bool:
    """Look for victims of a pending job and carry out the first valid choice."""
    jobs, queues, tasks = state.jobs, state.queues, state.tasks
    nodes, tree = state.nodes, state.tree
    need = need_of(jobs, j)
    missing = need - state.count[col.ALL_FUTURE]
    below = mark_victims(state, jobs[j, col.JOB_CLASS], action)
    size, wanted_tasks = jobs[j, col.JOB_SIZE], tasks_wanted(jobs, j)
    # How many tasks of the job would have room with all gathered victims gone; those that must be
    # placed again, as their queues may not lose them all, take as much as tasks of the job would.
    slots = 0
    for free in range(size, state.rooms.size):
        slots += state.rooms[free] * (free // size)
    gathered = batches = listed = victims = 0
    fresh, begun, tried = 0, -1, 0  # tasks, first try and nodes of the last attempt
    most = state.count[col.MOST_MOVED] if action == CONSOLIDATE else ANY_PRIORITY
    done = False
    victim = first_victim(state, j, below)
    while victim >= 0:
        victims += jobs[victim, col.JOB_GATHERED] == 0
        if victims > most:
            break
        count = 0
        left = left_of(jobs, victim)
        wanted = 1 if left > jobs[victim, col.JOB_LEAST] else left
        for task in range(jobs[victim, col.JOB_LAST] - 1, jobs[victim, col.JOB_FIRST] - 1, -1):
            if count == wanted:
                break
            if tasks[task, col.TASK_STATE] == col.TASK_RUNNING and tasks[task, col.TASK_BATCH] == 0:
                tasks[task, col.TASK_BATCH] = batches + 1
                state.batches[gathered, col.BATCH_TASK] = task
                node = tasks[task, col.TASK_NODE]
                if nodes[node, col.NODE_FREED] == 0:
                    nodes[listed, col.NODE_ORDER], nodes[node, col.NODE_FIRST] = node, gathered
                    listed += 1
                free, held = (
                    nodes[node, col.FUTURE] + nodes[node, col.NODE_FREED],
                    jobs[victim, col.JOB_SIZE],
                )
                slots += room_for(free + held, size) - room_for(free, size)
                if action != PREEMPT:
                    slots -= room_for(held, size)
                nodes[node, col.NODE_FREED] += held
                gathered += 1
                count += 1
        state.batches[batches, col.BATCH_JOB], state.batches[batches, col.BATCH_END] = (
            victim,
            gathered,
        )
        if action == RECLAIM:
            leaf = jobs[victim, col.JOB_QUEUE]
            state.batches[batches, col.BATCH_ABOVE] = tree[leaf, col.ABOVE]
            state.batches[batches, col.BATCH_APART] = tree[leaf, col.APART]
            slots += more_lost(state, victim, count, size)
        batches += 1
        jobs[victim, col.JOB_GATHERED] += count
        missing -= count * jobs[victim, col.JOB_SIZE]
        q = jobs[victim, col.JOB_QUEUE]
        while q >= 0:  # with what is left of it, which comes again
            queues[q, col.POPPED] += left * jobs[victim, col.JOB_SIZE]
            q = tree[q, col.PARENT]
        if wanted < left and left - wanted == jobs[victim, col.JOB_LEAST]:
            jobs[victim, col.JOB_MARKS] |= col.MOVED_DOWN
            list_victim_as(state, victim, 1)
        if missing <= 0 and slots >= wanted_tasks:
            state.count[col.STAMP] += 1
            for i in range(fresh, gathered):
                node = tasks[state.batches[i, col.BATCH_TASK], col.TASK_NODE]
                nodes[node, col.NODE_NEW] = state.count[col.STAMP]
            done, begun = _try_nodes(state, j, action, batches, listed, need, begun, tried)
            if done:
                break
            fresh, tried = gathered, listed
        victim = next_victim(state, jobs[victim, col.JOB_QUEUE], j, below)
    for i in range(gathered):
        tasks[state.batches[i, col.BATCH_TASK], col.TASK_BATCH] = 0
    for i in range(listed):
        nodes[nodes[i, col.NODE_ORDER], col.NODE_FREED] = 0
    for b in range(batches):
        victim = state.batches[b, col.BATCH_JOB]
        jobs[victim, col.JOB_GATHERED] = 0
        if jobs[victim, col.JOB_MARKS] & col.MOVED_DOWN:
            jobs[victim, col.JOB_MARKS] &= ~col.MOVED_DOWN
            list_victim_as(state, victim, 2)
    if done:
        _carry_out(state, j, action, batches)
    return done


@borrowing_helper
def _carry_out(state: Any, j: int, action: int, batches: int) -> None:
    """Note what a valid choice changed."""
    jobs, tasks = state.jobs, state.tasks
    for b in range(batches):
        victim = state.batches[b, col.BATCH_JOB]
        first = state.batches[b - 1, col.BATCH_END] if b else 0
        hit = False
        for i in range(first, state.batches[b, col.BATCH_END]):
            task = state.batches[i, col.BATCH_TASK]
            if tasks[task, col.TASK_OLD] >= 0:
                hit = True
                tasks[task, col.TASK_REASON], tasks[task, col.TASK_CAUSE] = action, j
                if tasks[task, col.TASK_STATE] != col.TASK_LEAVING:
                    jobs[victim, col.JOB_MARKS] |= col.FRESH
        if hit:
            touch(state, victim)
            relist(state, victim)
    touch(state, j)
    jobs[j, col.JOB_MARKS] |= col.FRESH
    relist(state, j)


@borrowing_helper
def _try_nodes(
    state: Any, j: int, action: int, batches: int, count: int, need: float, begun: int, tried: int
) -> tuple[bool, int]:
    """Free more and more nodes of the gathered victims until a choice is valid.

    Nodes none of which has new victims were tried before, in vain, where the last attempt, with
    ``tried`` nodes, began with as many. Returns whether a choice is valid and how many it began
    with.
    """
    nodes, stamp = state.nodes, state.count[col.STAMP]
    room = float(state.count[col.ALL_FUTURE])
    for i in range(count):  # most room first, then by first victim
        node, at = nodes[i, col.NODE_ORDER], i
        room -= nodes[node, col.FUTURE]
        free = nodes[node, col.FUTURE] + nodes[node, col.NODE_FREED]
        while at > 0:
            other = nodes[at - 1, col.NODE_ORDER]
            more = nodes[other, col.FUTURE] + nodes[other, col.NODE_FREED] - free
            if more > 0 or (
                more == 0 and nodes[other, col.NODE_FIRST] < nodes[node, col.NODE_FIRST]
            ):
                break
            nodes[at, col.NODE_ORDER] = other
            at -= 1
        nodes[at, col.NODE_ORDER] = node
    used = 0
    while used < count and (used == 0 or room < need):
        node = nodes[used, col.NODE_ORDER]
        room += nodes[node, col.FUTURE] + nodes[node, col.NODE_FREED]
        used += 1
    step, at, began = 1, 0, used
    is_new = used != begun
    while True:
        while at < used:
            is_new = is_new or nodes[nodes[at, col.NODE_ORDER], col.NODE_NEW] == stamp
            at += 1
        if (is_new or used > tried) and _simulate(state, j, action, batches, used, need):
            return True, began
        if used == count:
            return False, began
        used = min(count, used + step)
        step *= 2


@borrowing_helper
def _evict_batch(state: Any, b: int) -> None:
    """Let the tasks of a batch leave."""
    jobs, tasks = state.jobs, state.tasks
    victim = state.batches[b, col.BATCH_JOB]
    first = state.batches[b - 1, col.BATCH_END] if b else 0
    for i in range(first, state.batches[b, col.BATCH_END]):
        task = state.batches[i, col.BATCH_TASK]
        tasks[task, col.TASK_STATE], tasks[task, col.TASK_OLD] = (
            col.TASK_LEAVING,
            tasks[task, col.TASK_NODE],
        )
        add_future(state, tasks[task, col.TASK_NODE], jobs[victim, col.JOB_SIZE])
    count = state.batches[b, col.BATCH_END] - first
    jobs[victim, col.JOB_ACTIVE] -= count
    add_to_queue(state, victim, -float(count * jobs[victim, col.JOB_SIZE]))


@borrowing_helper
def _undo(state: Any, j: int, batches: int, is_placed: bool) -> None:
    """Put everything back as it was before a simulation."""
    jobs, tasks = state.jobs, state.tasks
    if is_placed:
        count = 0
        for task in range(jobs[j, col.JOB_FIRST], jobs[j, col.JOB_LAST]):
            how = tasks[task, col.TASK_STATE]
            if (how == col.TASK_PLACED or how == col.TASK_WAITS) and tasks[
                task, col.TASK_OLD
            ] == -2:
                tasks[task, col.TASK_OLD] = -1
                remove_task(state, j, task)
                count += 1
        jobs[j, col.JOB_ACTIVE] -= count
        jobs[j, col.JOB_PENDING] += count
        add_to_queue(state, j, -float(count * jobs[j, col.JOB_SIZE]))
    for b in range(batches):  # first out of their new places, which are the old ones of others
        victim = state.batches[b, col.BATCH_JOB]
        if not state.batches[b, col.BATCH_OUT]:
            continue
        first = state.batches[b - 1, col.BATCH_END] if b else 0
        count = 0
        for i in range(first, state.batches[b, col.BATCH_END]):
            task = state.batches[i, col.BATCH_TASK]
            if tasks[task, col.TASK_STATE] != col.TASK_LEAVING:
                remove_task(state, victim, task)
                count += 1
        gone = state.batches[b, col.BATCH_END] - first - count
        jobs[victim, col.JOB_ACTIVE] += gone
        add_to_queue(state, victim, float(gone * jobs[victim, col.JOB_SIZE]))
    for b in range(batches):
        victim = state.batches[b, col.BATCH_JOB]
        if not state.batches[b, col.BATCH_OUT]:
            continue
        first = state.batches[b - 1, col.BATCH_END] if b else 0
        for i in range(first, state.batches[b, col.BATCH_END]):
            task = state.batches[i, col.BATCH_TASK]
            add_future(state, tasks[task, col.TASK_NODE], -jobs[victim, col.JOB_SIZE])
            tasks[task, col.TASK_STATE], tasks[task, col.TASK_OLD] = col.TASK_RUNNING, -1


@borrowing_helper
def _simulate(state: Any, j: int, action: int, batches: int, used: int, need: float) -> bool:
    """Evict the batches on some nodes, place all again, and keep that if it is valid."""
    jobs, tasks, nodes, queues = state.jobs, state.tasks, state.nodes, state.queues
    for q in range(queues.shape[0]):
        queues[q, col.BEFORE] = queues[q, col.ALLOCATED]
    state.count[col.STAMP] += 1
    for i in range(used):
        nodes[nodes[i, col.NODE_ORDER], col.NODE_HIT] = state.count[col.STAMP]
    for b in range(batches):
        first = state.batches[b - 1, col.BATCH_END] if b else 0
        hit = False
        for i in range(first, state.batches[b, col.BATCH_END]):
            node = tasks[state.batches[i, col.BATCH_TASK], col.TASK_NODE]
            hit = hit or nodes[node, col.NODE_HIT] == state.count[col.STAMP]
        state.batches[b, col.BATCH_OUT] = hit
        if hit:
            _evict_batch(state, b)
    for task in range(jobs[j, col.JOB_FIRST], jobs[j, col.JOB_LAST]):
        how = tasks[task, col.TASK_STATE]
        if how == col.TASK_PLACED or how == col.TASK_WAITS:
            tasks[task, col.TASK_OLD] = -3  # placed earlier in this round
    is_valid = is_placed = place_job(state, j, False)
    if is_placed:
        for task in range(jobs[j, col.JOB_FIRST], jobs[j, col.JOB_LAST]):
            how = tasks[task, col.TASK_STATE]
            if (how == col.TASK_PLACED or how == col.TASK_WAITS) and tasks[
                task, col.TASK_OLD
            ] == -1:
                tasks[task, col.TASK_OLD] = -2  # placed by this simulation
        is_valid = _place_victims(state, j, action, batches, need)
    if is_valid and action == RECLAIM:
        is_valid = keeps_balance(state, j, need)
    if not is_valid:
        _undo(state, j, batches, is_placed)
    for task in range(jobs[j, col.JOB_FIRST], jobs[j, col.JOB_LAST]):
        if tasks[task, col.TASK_OLD] < 0:
            tasks[task, col.TASK_OLD] = -1
    if not is_valid:
        return False
    for b in range(batches):
        first = state.batches[b - 1, col.BATCH_END] if b else 0
        for i in range(first, state.batches[b, col.BATCH_END]):
            task = state.batches[i, col.BATCH_TASK]
            if tasks[task, col.TASK_STATE] == col.TASK_RUNNING:
                tasks[task, col.TASK_OLD] = -1
    return True


@borrowing_helper
def _place_victims(state: Any, j: int, action: int, batches: int, need: float) -> bool:
    """Place evicted tasks again where there is room, in the order of pending jobs.

    Returns whether those that have no place may be lost; where not, it stops at the first of them.
    Those for which there is no room before any is placed are looked at first.
    """
    jobs, may = state.jobs, True
    for b in range(batches):
        victim = state.batches[b, col.BATCH_JOB]
        left = victims_left(state, victim)
        wanted = min(max(1, jobs[victim, col.JOB_LEAST] - jobs[victim, col.JOB_ACTIVE]), left)
        if left == 0 or not fits_nodes(state, jobs[victim, col.JOB_SIZE], wanted):
            jobs[victim, col.JOB_MARKS] |= col.SETTLED
            may = may and left == 0
    may = may or may_be_lost(state, j, action, batches, need)
    best = first_again(state, batches) if may else -1
    while best >= 0 and may:
        is_placed = place_job(state, best, True)
        if not is_placed:
            jobs[best, col.JOB_MARKS] |= col.SETTLED
            may = may_be_lost(state, j, action, batches, need)
        elif victims_left(state, best) == 0:
            jobs[best, col.JOB_MARKS] |= col.SETTLED
        best = next_again(state, jobs[best, col.JOB_QUEUE], batches) if may else -1
    if may and action == RECLAIM:
        may = may_be_lost(state, j, action, batches, need)
    for b in range(batches):
        jobs[state.batches[b, col.BATCH_JOB], col.JOB_MARKS] &= ~col.SETTLED
    return may
