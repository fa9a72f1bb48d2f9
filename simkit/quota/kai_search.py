"""KAI's search for victims of a pending job: consolidation, reclaim and preempt."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.quota.kai_order import EVICTING, REPLACING, SETTLED, SHIELDED, next_job
from gpuplan.simkit.quota.kai_share import (
    ALLOCATED,
    BEFORE,
    DESERVED,
    FAIR,
    FIXED,
    POPPED,
    REMAINING,
)
from gpuplan.simkit.quota.kai_state import (
    FUTURE,
    JOB_ACTIVE,
    JOB_DONE,
    JOB_FIRST,
    JOB_FIXED,
    JOB_GATHERED,
    JOB_LAST,
    JOB_LEAST,
    JOB_PENDING,
    JOB_PRIORITY,
    JOB_QUEUE,
    JOB_SIZE,
    TASK_BATCH,
    TASK_LEAVING,
    TASK_NODE,
    TASK_OLD,
    TASK_PLACED,
    TASK_RUNNING,
    TASK_STATE,
    TASK_WAITS,
    add_to_queue,
    allocatable,
    need_of,
    place_job,
    remove_task,
    within_deserved,
)

CONSOLIDATE, RECLAIM, PREEMPT = range(3)


@borrowing_helper
def _first_apart(parent: Any, q: int, other: int) -> tuple[int, int]:
    """Return the first ancestors of two leaf queues, from the root down, that differ."""
    a, b = q, other
    depth = other_depth = 0
    node = q
    while parent[node] >= 0:
        node = parent[node]
        depth += 1
    node = other
    while parent[node] >= 0:
        node = parent[node]
        other_depth += 1
    while depth > other_depth:
        a = parent[a]
        depth -= 1
    while other_depth > depth:
        b = parent[b]
        other_depth -= 1
    while parent[a] != parent[b]:
        a, b = parent[a], parent[b]
    return a, b


@borrowing_helper
def may_search(state: Any, j: int, action: int) -> bool:
    """Return whether a pending job may look for victims."""
    jobs, queues = state.jobs, state.queues
    need, q = need_of(jobs, j), jobs[j, JOB_QUEUE]
    if action == CONSOLIDATE:
        free = 0
        for node in range(state.nodes.shape[0]):
            free += state.nodes[node, FUTURE]
        return not jobs[j, JOB_FIXED] and need <= free
    if action == RECLAIM:
        if queues[q, ALLOCATED] + need > queues[q, FAIR]:
            return False
        return not jobs[j, JOB_FIXED] or within_deserved(queues, q, queues[q, FIXED] + need)
    while q >= 0 and jobs[j, JOB_FIXED]:
        if not within_deserved(queues, q, queues[q, FIXED] + need):
            return False
        q = state.parent[q]
    return True


@borrowing_helper
def _is_candidate(state: Any, j: int, victim: int, action: int) -> bool:
    """Return whether a running job may be a victim of a pending one."""
    jobs, queues = state.jobs, state.queues
    if victim == j or jobs[victim, JOB_FIXED] or jobs[victim, JOB_ACTIVE] == 0:
        return False
    for task in range(jobs[victim, JOB_FIRST], jobs[victim, JOB_LAST]):
        how = state.tasks[task, TASK_STATE]
        if how == TASK_PLACED or how == TASK_WAITS:
            return False
    if action == CONSOLIDATE:
        return True
    same = jobs[victim, JOB_QUEUE] == jobs[j, JOB_QUEUE]
    if action == PREEMPT:
        return same and jobs[victim, JOB_PRIORITY] < jobs[j, JOB_PRIORITY]  # type: ignore[no-any-return]
    if same:
        return False
    a, b = _first_apart(state.parent, jobs[j, JOB_QUEUE], jobs[victim, JOB_QUEUE])
    if within_deserved(queues, a, queues[a, ALLOCATED] + need_of(jobs, j)):
        return queues[b, DESERVED] >= 0 and queues[b, ALLOCATED] >= queues[b, DESERVED]  # type: ignore[no-any-return]
    return queues[b, ALLOCATED] > allocatable(queues, b)  # type: ignore[no-any-return]


@borrowing_helper
def search(state: Any, j: int, action: int) -> bool:
    """Look for victims of a pending job and carry out the first valid choice."""
    jobs, queues, tasks = state.jobs, state.queues, state.tasks
    need = need_of(jobs, j)
    missing = need
    for node in range(state.nodes.shape[0]):
        missing -= state.nodes[node, FUTURE]
    for q in range(queues.shape[0]):
        queues[q, POPPED] = 0.0
        for at in range(state.member_first[q], state.member_first[q] + state.member_count[q]):
            other = state.member[at]
            jobs[other, JOB_GATHERED] = 0
            jobs[other, JOB_DONE] &= ~SHIELDED
            if not _is_candidate(state, j, other, action):
                jobs[other, JOB_DONE] |= SHIELDED
    gathered = batches = 0
    done = False
    while not done:
        victim = next_job(state, EVICTING)
        if victim < 0:
            break
        count = 0
        left = jobs[victim, JOB_ACTIVE] - jobs[victim, JOB_GATHERED]
        wanted = 1 if left > jobs[victim, JOB_LEAST] else left
        for task in range(jobs[victim, JOB_LAST] - 1, jobs[victim, JOB_FIRST] - 1, -1):
            if count < wanted and tasks[task, TASK_STATE] == TASK_RUNNING:
                if tasks[task, TASK_BATCH] == 0:
                    tasks[task, TASK_BATCH] = batches + 1
                    state.batch_task[gathered] = task
                    gathered += 1
                    count += 1
        state.batches[batches, 0], state.batches[batches, 1] = victim, gathered
        batches += 1
        jobs[victim, JOB_GATHERED] += count
        freed = count * jobs[victim, JOB_SIZE]
        missing -= freed
        q = jobs[victim, JOB_QUEUE]
        while q >= 0:
            queues[q, POPPED] += freed
            q = state.parent[q]
        if missing <= 0:
            done = _try_nodes(state, j, action, batches, gathered, need)
    for i in range(gathered):
        tasks[state.batch_task[i], TASK_BATCH] = 0
    for b in range(batches):
        jobs[state.batches[b, 0], JOB_GATHERED] = 0
    for q in range(queues.shape[0]):
        for at in range(state.member_first[q], state.member_first[q] + state.member_count[q]):
            jobs[state.member[at], JOB_DONE] &= ~SHIELDED
    return done


@borrowing_helper
def _try_nodes(state: Any, j: int, action: int, batches: int, gathered: int, need: float) -> bool:
    """Free more and more nodes of the gathered victims until a choice is valid."""
    jobs, tasks, nodes = state.jobs, state.tasks, state.nodes
    state.node_freed[:] = 0
    count = 0
    elsewhere = 0
    for b in range(batches):
        first = state.batches[b - 1, 1] if b else 0
        for i in range(first, state.batches[b, 1]):
            node = tasks[state.batch_task[i], TASK_NODE]
            if state.node_freed[node] == 0:
                state.node_order[count], state.node_first[node] = node, i
                count += 1
            state.node_freed[node] += jobs[state.batches[b, 0], JOB_SIZE]
    for node in range(nodes.shape[0]):
        if state.node_freed[node] == 0:
            elsewhere += nodes[node, FUTURE]
    for i in range(1, count):  # most room first
        node, at = state.node_order[i], i
        room = nodes[node, FUTURE] + state.node_freed[node]
        while at > 0:
            other = state.node_order[at - 1]
            if nodes[other, FUTURE] + state.node_freed[other] >= room:
                break
            state.node_order[at] = other
            at -= 1
        state.node_order[at] = node
    used, room = 0, elsewhere
    while used < count and (used == 0 or room < need):
        node = state.node_order[used]
        room += nodes[node, FUTURE] + state.node_freed[node]
        used += 1
    step = 1
    while True:
        if _simulate(state, j, action, batches, used, need):
            return True
        if used == count:
            return False
        used = min(count, used + step)
        step *= 2


@borrowing_helper
def _evict_batch(state: Any, b: int) -> None:
    """Let the tasks of a batch leave."""
    jobs, tasks = state.jobs, state.tasks
    victim = state.batches[b, 0]
    first = state.batches[b - 1, 1] if b else 0
    for i in range(first, state.batches[b, 1]):
        task = state.batch_task[i]
        tasks[task, TASK_STATE], tasks[task, TASK_OLD] = TASK_LEAVING, tasks[task, TASK_NODE]
        state.nodes[tasks[task, TASK_NODE], FUTURE] += jobs[victim, JOB_SIZE]
    count = state.batches[b, 1] - first
    jobs[victim, JOB_ACTIVE] -= count
    add_to_queue(state, victim, -float(count * jobs[victim, JOB_SIZE]))


@borrowing_helper
def _undo(state: Any, j: int, batches: int, is_placed: bool) -> None:
    """Put everything back as it was before a simulation."""
    jobs, tasks = state.jobs, state.tasks
    if is_placed:
        count = 0
        for task in range(jobs[j, JOB_FIRST], jobs[j, JOB_LAST]):
            how = tasks[task, TASK_STATE]
            if (how == TASK_PLACED or how == TASK_WAITS) and tasks[task, TASK_OLD] == -2:
                tasks[task, TASK_OLD] = -1
                remove_task(state, j, task)
                count += 1
        jobs[j, JOB_ACTIVE] -= count
        jobs[j, JOB_PENDING] += count
        add_to_queue(state, j, -float(count * jobs[j, JOB_SIZE]))
    for b in range(batches):
        victim = state.batches[b, 0]
        first = state.batches[b - 1, 1] if b else 0
        for i in range(first, state.batches[b, 1]):
            task = state.batch_task[i]
            if tasks[task, TASK_OLD] < 0:
                continue  # it was not evicted
            if tasks[task, TASK_STATE] != TASK_LEAVING:
                remove_task(state, victim, task)
                jobs[victim, JOB_ACTIVE] -= 1
                add_to_queue(state, victim, -float(jobs[victim, JOB_SIZE]))
            state.nodes[tasks[task, TASK_NODE], FUTURE] -= jobs[victim, JOB_SIZE]
            tasks[task, TASK_STATE], tasks[task, TASK_OLD] = TASK_RUNNING, -1
            jobs[victim, JOB_ACTIVE] += 1
            add_to_queue(state, victim, float(jobs[victim, JOB_SIZE]))


@borrowing_helper
def _simulate(state: Any, j: int, action: int, batches: int, used: int, need: float) -> bool:
    """Evict the batches on some nodes, place all again, and keep that if it is valid."""
    jobs, tasks, queues = state.jobs, state.tasks, state.queues
    for q in range(queues.shape[0]):
        queues[q, BEFORE] = queues[q, ALLOCATED]
    for b in range(batches):
        first = state.batches[b - 1, 1] if b else 0
        hit = False
        for i in range(first, state.batches[b, 1]):
            node = tasks[state.batch_task[i], TASK_NODE]
            for at in range(used):
                hit = hit or state.node_order[at] == node
        if hit:
            _evict_batch(state, b)
    is_placed = place_job(state, j, False)
    if is_placed:
        for task in range(jobs[j, JOB_FIRST], jobs[j, JOB_LAST]):
            how = tasks[task, TASK_STATE]
            if (how == TASK_PLACED or how == TASK_WAITS) and tasks[task, TASK_OLD] == -1:
                tasks[task, TASK_OLD] = -2  # placed by this simulation
        _place_victims(state, batches)
    is_valid = is_placed
    if is_valid and action != PREEMPT:
        is_valid = _is_valid(state, j, action, batches, need)
    if not is_valid:
        _undo(state, j, batches, is_placed)
        return False
    for task in range(jobs[j, JOB_FIRST], jobs[j, JOB_LAST]):
        if tasks[task, TASK_OLD] == -2:
            tasks[task, TASK_OLD] = -1
    for b in range(batches):
        first = state.batches[b - 1, 1] if b else 0
        for i in range(first, state.batches[b, 1]):
            task = state.batch_task[i]
            if tasks[task, TASK_STATE] == TASK_RUNNING:
                tasks[task, TASK_OLD] = -1
    return True


@borrowing_helper
def _place_victims(state: Any, batches: int) -> None:
    """Place evicted tasks again where there is room, in the order of pending jobs."""
    jobs, tasks = state.jobs, state.tasks
    for b in range(batches):
        victim = state.batches[b, 0]
        jobs[victim, JOB_DONE] &= ~SETTLED
    while True:
        for b in range(batches):  # hide those that have nothing to place
            victim = state.batches[b, 0]
            left = 0
            for task in range(jobs[victim, JOB_FIRST], jobs[victim, JOB_LAST]):
                left += tasks[task, TASK_STATE] == TASK_LEAVING and tasks[task, TASK_BATCH] > 0
            if left == 0:
                jobs[victim, JOB_DONE] |= SETTLED
        best = next_job(state, REPLACING)
        if best < 0:
            break
        if not place_job(state, best, True):
            jobs[best, JOB_DONE] |= SETTLED
    for b in range(batches):
        jobs[state.batches[b, 0], JOB_DONE] &= ~SETTLED


@borrowing_helper
def _lost(state: Any, b: int) -> int:
    """Return how many tasks of a batch have no place any more."""
    first = state.batches[b - 1, 1] if b else 0
    count = 0
    for i in range(first, state.batches[b, 1]):
        count += state.tasks[state.batch_task[i], TASK_STATE] == TASK_LEAVING
    return count


@borrowing_helper
def _is_valid(state: Any, j: int, action: int, batches: int, need: float) -> bool:
    """Return whether what was lost may be lost."""
    jobs, queues, parent = state.jobs, state.queues, state.parent
    if action == CONSOLIDATE:
        for b in range(batches):
            if _lost(state, b):
                return False
        return True
    for q in range(queues.shape[0]):
        queues[q, REMAINING] = queues[q, BEFORE]
    leaf = jobs[j, JOB_QUEUE]
    for b in range(batches):
        count = _lost(state, b)
        if count == 0:
            continue
        victim = state.batches[b, 0]
        a, other = _first_apart(parent, leaf, jobs[victim, JOB_QUEUE])
        is_over = queues[other, REMAINING] > allocatable(queues, other)
        if not is_over and not (
            within_deserved(queues, a, queues[a, BEFORE] + need)
            and not within_deserved(queues, other, queues[other, REMAINING])
        ):
            return False
        q = jobs[victim, JOB_QUEUE]
        while q >= 0:
            queues[q, REMAINING] -= count * jobs[victim, JOB_SIZE]
            q = parent[q]
    q = leaf
    while q >= 0:
        fair = queues[q, FAIR]
        held = queues[q, REMAINING] + need
        ratio = held / fair if fair > 0 else (1e300 if held > 0 else 0.0)
        for other in range(queues.shape[0]):
            if other == q or parent[other] != parent[q]:
                continue
            if queues[other, REMAINING] == queues[other, BEFORE] or queues[other, FAIR] <= 0:
                continue
            if ratio > 1 and ratio >= queues[other, REMAINING] / queues[other, FAIR]:
                return False
        q = parent[q]
    return True
