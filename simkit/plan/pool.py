"""The event loop of a pool that is always there, and of leases above it: arrays in, arrays out.

Amounts of GPUs are whole parts of a GPU, times whole microseconds. At one instant, in this order:

1. runs end; 2. leases that were ordered join; 3. jobs join the queue; 4. deferred jobs that are due
   join it;
5. each job of the queue that fits the idle GPUs starts, in order of its number (without
   ``skipping`` until one does not fit), and then each deferred job that fits the idle GPUs of the
   pool;
6. leases are ordered for what waits, less what is idle or on order; where a lease joins at once, or
   a run of no length ends, all of this is repeated;
7. leases that are idle for long enough are returned, the latest first. What waits is not idle, else
   a gang could wait for ever.

Jobs of one width stand in one heap, because where its first does not fit the others do not either.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.growable import grown
from gpuplan.simkit.heap import front, join, leave, new_heap, pop, push
from gpuplan.simkit.jit import borrowing_helper, kernel
from gpuplan.simkit.renting.leases import end_leases, follow_idle
from gpuplan.simkit.time import FOREVER
from gpuplan.simkit.watch import COUNT, STOP

START = 1
"""Column of the table of jobs; the first is for the heaps."""
LOOK_EVERY = 4096
"""Instants between two looks at whether to stop."""


class PoolJobs(NamedTuple):
    """Jobs, numbered as they rank; arrays of shape (n,) but ``falling_due``.

    ``join_us`` is when each joins the queue, or may start on idle GPUs, and ``joining`` are the
    jobs in the order of that; ``run_us`` is how long each runs. ``due_us`` is when a deferred job
    joins the queue, -1 for a job that is not deferred, and ``falling_due`` are the deferred jobs in
    the order of that. ``of_width`` is the place of each job's width.
    """

    join_us: Any
    joining: Any
    run_us: Any
    due_us: Any
    falling_due: Any
    of_width: Any


class PoolRules(NamedTuple):
    """The pool, and how leases are had; times in microseconds.

    A lease is of one GPU, and they are ordered in whole nodes. ``fixed`` and ``gpu`` are parts of
    GPUs: of the pool, and of one GPU; ``node`` are GPUs of a node, and ``most`` are leases at once,
    with those on order. ``skipping``: whether jobs may pass one of the queue that does not fit.
    """

    fixed: int
    gpu: int
    node: int
    most: int
    provision_us: int
    release_us: int
    skipping: bool


@borrowing_helper
def first_that_fits(queues: Any, widths: Any, first_line: int, idle: int) -> int:
    """Return the first job of some lines that is no wider than what is idle; -1 without any."""
    best = -1
    for line in range(widths.size):
        if widths[line] > idle:
            break
        if queues.size[first_line + line]:
            number = front(queues, first_line + line)[1]
            if best < 0 or number < best:
                best = number
    return best


@borrowing_helper
def next_to_start(queues: Any, widths: Any, idle: int, skipping: bool) -> int:
    """Return the job of the queue that starts next on what is idle; -1 where none does."""
    if skipping:
        return first_that_fits(queues, widths, 0, idle)
    first = -1
    width = 0
    for line in range(widths.size):
        if queues.size[line]:
            number = front(queues, line)[1]
            if first < 0 or number < first:
                first, width = number, widths[line]
    return first if width <= idle else -1


@kernel
def replay_pool(pool_jobs: Any, widths: Any, queues: Any, rules: Any, watch: Any) -> Any:
    """Run jobs, numbered as they rank, to their end.

    Args:
        pool_jobs: `PoolJobs`.
        widths: all widths, parts of GPUs, ascending; shape (w,).
        queues: of `heap.sections`: a line for each width of the queue, and one of deferred jobs.
        rules: `PoolRules`; every job fits the pool with the most leases.
        watch: as `gpuplan.simkit.watch` has it.

    Returns:
        The start of each job; rows (begin, end, leases); most leases at once.
    """
    join_us, joining, run_us = pool_jobs.join_us, pool_jobs.joining, pool_jobs.run_us
    due_us, falling_due = pool_jobs.due_us, pool_jobs.falling_due
    of_width = pool_jobs.of_width
    n, lines = run_us.size, widths.size
    jobs = np.zeros((n, 2), np.int64)
    ends = new_heap()
    orders = np.zeros((64, 2), np.int64)  # (ready at, leases), in the order of both
    idle = np.zeros((64, 2), np.int64)  # (since, leases), the longest idle first
    leases = np.zeros((64, 2), np.int64)  # (since, leases), the latest last
    returned = np.zeros((64, 3), np.int64)
    joined = fell_due = order_head = order_tail = idle_head = idle_tail = 0
    stacked = returns = 0
    leased = ordered = idle_leases = peak = 0
    busy = waiting = queued = deferred = started = 0
    steps = 0
    for job in range(n):
        jobs[job, START] = -1
    while True:
        steps += 1
        if steps % LOOK_EVERY == 0:
            watch[COUNT] = started
            if watch[STOP]:
                break
        while fell_due < falling_due.size and jobs[falling_due[fell_due], START] >= 0:
            fell_due += 1
        now = FOREVER
        if ends[0, 0]:
            now = ends[1, 0]
        if order_head < order_tail:
            now = min(now, orders[order_head, 0])
        if joined < n:
            now = min(now, join_us[joining[joined]])
        if fell_due < falling_due.size:
            now = min(now, due_us[falling_due[fell_due]])
        if idle_head < idle_tail:
            now = min(now, idle[idle_head, 0] + rules.release_us)
        if now == FOREVER:
            break

        while True:
            while ends[0, 0] and ends[1, 0] == now:
                busy -= widths[of_width[ends[1, 1]]]
                pop(ends)
            while order_head < order_tail and orders[order_head, 0] == now:
                if stacked == leases.shape[0]:
                    leases = grown(leases)
                leases[stacked, 0], leases[stacked, 1] = now, orders[order_head, 1]
                stacked += 1
                leased += orders[order_head, 1]
                ordered -= orders[order_head, 1]
                order_head += 1
            peak = max(peak, leased)
            while joined < n and join_us[joining[joined]] == now:
                job = joining[joined]
                joined += 1
                if due_us[job] >= 0:
                    join(queues, jobs, lines + of_width[job], job, job)
                    deferred += 1
                else:
                    join(queues, jobs, of_width[job], job, job)
                    waiting += widths[of_width[job]]
                    queued += 1
            while fell_due < falling_due.size and due_us[falling_due[fell_due]] <= now:
                job = falling_due[fell_due]
                fell_due += 1
                if jobs[job, START] < 0:
                    leave(queues, jobs, lines + of_width[job], job)
                    deferred -= 1
                    join(queues, jobs, of_width[job], job, job)
                    waiting += widths[of_width[job]]
                    queued += 1

            all_gpus = rules.fixed + leased * rules.gpu
            while queued:
                job = next_to_start(queues, widths, all_gpus - busy, rules.skipping)
                if job < 0:
                    break
                leave(queues, jobs, of_width[job], job)
                queued -= 1
                waiting -= widths[of_width[job]]
                busy += widths[of_width[job]]
                jobs[job, START] = now
                started += 1
                ends = push(ends, now + run_us[job], job)
            while deferred:
                job = first_that_fits(queues, widths, lines, rules.fixed - busy)
                if job < 0:
                    break
                leave(queues, jobs, lines + of_width[job], job)
                deferred -= 1
                busy += widths[of_width[job]]
                jobs[job, START] = now
                started += 1
                ends = push(ends, now + run_us[job], job)

            lacking = -((all_gpus - busy - waiting) // rules.gpu) - ordered
            more = min(-(-lacking // rules.node) * rules.node, rules.most - leased - ordered)
            if more > 0:
                if order_tail == orders.shape[0]:
                    orders = grown(orders)
                orders[order_tail, 0], orders[order_tail, 1] = now + rules.provision_us, more
                order_tail += 1
                ordered += more
            is_over = ends[0, 0] == 0 or ends[1, 0] > now
            if is_over and (order_head == order_tail or orders[order_head, 0] > now):
                break

        needed = -(-max(0, busy + waiting - rules.fixed) // rules.gpu)
        spare = max(0, leased - needed)
        idle, idle_tail = follow_idle(idle, idle_tail, idle_leases, spare, now)
        idle_leases = spare
        while idle_head < idle_tail and idle[idle_head, 0] + rules.release_us <= now:
            unused = idle[idle_head, 1]
            idle_head += 1
            idle_leases -= unused
            leased -= unused
            stacked, returned, returns = end_leases(leases, stacked, unused, now, returned, returns)
        if idle_head == idle_tail:
            idle_head = idle_tail = 0
        if order_head == order_tail:
            order_head = order_tail = 0
    watch[COUNT] = started
    return jobs[:, START].copy(), returned[:returns].copy(), peak
