"""The preemptive policies as the published simulator of Tiresias runs them, in whole seconds.

Source: Gu et al., "Tiresias", NSDI 2019, and the simulator that its authors published. At every
arrival and end all jobs are sorted again, equal ones staying in their order, and the empty cluster
is filled in that order, skipping what does not fit; stopping a job costs nothing.

The queues of least attained service are lists. A job goes to the end of the first list when it
arrives and to the end of a later one when it is demoted. At every arrival, end and demotion the
empty cluster is filled in the order of the lists; then each list is parted stably into running and
waiting jobs. Here each list is kept in three parts: the jobs that run, one line of waiting jobs per
width, and the jobs that were just demoted and still run. An event looks at the running jobs and at
the first job of each line, so that a long backlog costs nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.growable import grown
from gpuplan.simkit.jit import borrowing_helper, helper, kernel

NARROWEST, REMAINING, REMAINING_GPUS = range(3)  # sort keys of jobs

NEVER = 1 << 60


@borrowing_helper
def rank(order: int, width: int, left: int) -> int:
    """Return the sort key of a job."""
    if order == NARROWEST:
        return width
    return left if order == REMAINING else left * width


@kernel
def refill(submit: Any, service: Any, gpus: Any, capacity: int, order: int) -> Any:
    """Run every job to its end.

    Args:
        submit, service, gpus: one value per job, shape (n,), seconds, sorted by ``submit``; every
            job fits into the empty cluster.
        capacity: GPUs of the cluster.
        order: the sort key of jobs.

    Returns:
        Start, end and number of stops of each job, shape (n, 3); the time line as `replay` has it.
    """
    n = submit.size
    jobs = np.zeros((n, 3), np.int64)
    left = service.copy()
    running, keys = np.zeros(n, np.int64), np.zeros(n, np.int64)
    active = np.zeros(n, np.int64)  # the jobs there are, in their order
    timeline = np.zeros((4 * n + 64, 3), np.int64)
    count = coming = notes = 0
    now = submit[0]
    while count or coming < n:
        while coming < n and submit[coming] == now:
            active[count] = coming
            jobs[coming, 0] = -1
            count += 1
            coming += 1
        for i in range(count):
            job = active[i]
            keys[job] = rank(order, gpus[job], left[job])
        for i in range(1, count):  # nearly sorted: moves few, and none past its equal
            job = active[i]
            at = i
            while at > 0 and keys[active[at - 1]] > keys[job]:
                active[at] = active[at - 1]
                at -= 1
            active[at] = job

        free, then, waiting = capacity, NEVER, count
        if coming < n:
            then = submit[coming]
        for i in range(count):
            job = active[i]
            runs = gpus[job] <= free
            if runs:
                free -= gpus[job]
                waiting -= 1
                if jobs[job, 0] < 0:
                    jobs[job, 0] = now
                then = min(then, now + left[job])
            elif running[job]:
                jobs[job, 2] += 1
            running[job] = runs
        if notes == timeline.shape[0]:
            timeline = grown(timeline)
        timeline[notes, 0], timeline[notes, 1], timeline[notes, 2] = now, capacity - free, waiting
        notes += 1

        kept = 0
        for i in range(count):
            job = active[i]
            if running[job]:
                left[job] -= then - now
            if running[job] and left[job] == 0:
                jobs[job, 1] = then
            else:
                active[kept] = job
                kept += 1
        count = kept
        now = then
    return jobs, timeline[:notes]


NONE = -1
RUNNING, DEMOTED = 0, 1  # parts of a queue with jobs that hold GPUs


class PublishedQueues(NamedTuple):
    """All queues.

    Attributes:
        held: jobs that hold GPUs, in their order; shape (2 parts, queues, most that run at once).
        size: how many of them there are; shape (2 parts, queues).
        first, last: ends of each line of waiting jobs, `NONE` if it is empty; shape (queues,
            widths).
        behind: the waiting job after each; shape (n,).
        place: ascends along a queue from line to line; shape (n,).
        ends: the least and the greatest place given so far; shape (2,).
    """

    held: Any
    size: Any
    first: Any
    last: Any
    behind: Any
    place: Any
    ends: Any


@borrowing_helper
def append(queues: PublishedQueues, level: int, line: int, job: int) -> None:
    """Put a waiting job at the end of a queue."""
    queues.ends[1] += 1
    queues.place[job], queues.behind[job] = queues.ends[1], NONE
    if queues.first[level, line] == NONE:
        queues.first[level, line] = job
    else:
        queues.behind[queues.last[level, line]] = job
    queues.last[level, line] = job


@borrowing_helper
def put_first(queues: PublishedQueues, level: int, line: int, job: int) -> None:
    """Put a stopped job before all waiting jobs of its queue."""
    queues.ends[0] -= 1
    queues.place[job], queues.behind[job] = queues.ends[0], queues.first[level, line]
    if queues.first[level, line] == NONE:
        queues.last[level, line] = job
    queues.first[level, line] = job


@borrowing_helper
def next_fitting(queues: PublishedQueues, level: int, widths: Any, free: int) -> int:
    """Return the line with the first job that fits, or `NONE`."""
    nearest = NONE
    for line in range(widths.size):
        if widths[line] > free:
            break
        job = queues.first[level, line]
        if job != NONE and (
            nearest == NONE or queues.place[job] < queues.place[queues.first[level, nearest]]
        ):
            nearest = line
    return nearest


@helper
def fill(
    queues: PublishedQueues, jobs: Any, line_of: Any, widths: Any, capacity: int, now: int
) -> Any:
    """Fill the empty cluster from all queues, then partition each; returns the free GPUs.

    Records in ``jobs`` which start and which stop, in the columns of `fill_queues`.
    """
    free = capacity
    for level in range(queues.size.shape[1]):
        count, kept, stopped = queues.size[RUNNING, level], 0, 0
        held = queues.held[RUNNING, level]
        stops = np.empty(count, np.int64)
        for i in range(count):
            job = held[i]
            if widths[line_of[job]] <= free:
                free -= widths[line_of[job]]
                held[kept] = job
                kept += 1
            else:
                stops[stopped] = job
                stopped += 1
        line = next_fitting(queues, level, widths, free)
        while line != NONE:
            job = queues.first[level, line]
            queues.first[level, line] = queues.behind[job]
            free -= widths[line]
            held[kept] = job
            kept += 1
            if jobs[job, 0] < 0:
                jobs[job, 0] = now
            line = next_fitting(queues, level, widths, free)
        for i in range(stopped - 1, -1, -1):
            job = stops[i]
            jobs[job, 2] += 1
            put_first(queues, level, line_of[job], job)
        for i in range(queues.size[DEMOTED, level]):
            job = queues.held[DEMOTED, level, i]
            if widths[line_of[job]] <= free:
                free -= widths[line_of[job]]
                held[kept] = job
                kept += 1
            else:
                jobs[job, 2] += 1
                append(queues, level, line_of[job], job)
        queues.size[RUNNING, level], queues.size[DEMOTED, level] = kept, 0
    return free


@borrowing_helper
def demote(queues: PublishedQueues, level: int, job: int) -> None:
    """Put a running job at the end of a queue; jobs demoted together in the order of arrival."""
    at = queues.size[DEMOTED, level]
    held = queues.held[DEMOTED, level]
    while at > 0 and held[at - 1] > job:
        held[at] = held[at - 1]
        at -= 1
    held[at] = job
    queues.size[DEMOTED, level] += 1


@kernel
def fill_queues(
    submit: Any, service: Any, widths: Any, line_of: Any, limits: Any, capacity: int, by_gpu: bool
) -> Any:
    """Run every job to its end.

    Args:
        submit, service: one value per job, shape (n,), seconds, sorted by ``submit``.
        widths: every count of GPUs that a job has, ascending; shape (m,), none above ``capacity``.
        line_of: the job's place in ``widths``; shape (n,).
        limits: attained service at which a job leaves each queue but the last; seconds, or
            GPU-seconds with ``by_gpu``.
        capacity: GPUs of the cluster.
        by_gpu: whether attained service is run time x GPUs.

    Returns:
        As `gpuplan.simkit.cluster.reference.refill`.
    """
    n, levels = submit.size, limits.size + 1
    most = min(n, capacity)  # a job has at least one GPU
    queues = PublishedQueues(
        np.empty((2, levels, most), np.int64),
        np.zeros((2, levels), np.int64),
        np.full((levels, widths.size), NONE, np.int64),
        np.full((levels, widths.size), NONE, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.zeros(2, np.int64),
    )
    jobs = np.zeros((n, 3), np.int64)
    jobs[:, 0] = -1
    left = service.copy()
    timeline = np.zeros((4 * n + 64, 3), np.int64)
    arrived = coming = notes = 0
    now = submit[0]
    while arrived or coming < n:
        while coming < n and submit[coming] == now:
            append(queues, 0, line_of[coming], coming)
            arrived += 1
            coming += 1
        free = fill(queues, jobs, line_of, widths, capacity, now)
        running, then = 0, NEVER
        if coming < n:
            then = submit[coming]
        for level in range(levels):
            running += queues.size[RUNNING, level]
            for i in range(queues.size[RUNNING, level]):
                job = queues.held[RUNNING, level, i]
                then = min(then, now + left[job])
                if level < limits.size:
                    more = limits[level] - (service[job] - left[job])
                    if by_gpu:  # seconds taken from GPU-seconds, as published
                        more //= widths[line_of[job]]
                    then = min(then, now + max(more, 1))
        if notes == timeline.shape[0]:
            timeline = grown(timeline)
        timeline[notes, 0], timeline[notes, 1] = now, capacity - free
        timeline[notes, 2] = arrived - running
        notes += 1

        for level in range(levels):
            kept = 0
            for i in range(queues.size[RUNNING, level]):
                job = queues.held[RUNNING, level, i]
                left[job] -= then - now
                attained = service[job] - left[job]
                if by_gpu:
                    attained *= widths[line_of[job]]
                lower = level
                while lower < limits.size and attained >= limits[lower]:
                    lower += 1
                if left[job] == 0:
                    jobs[job, 1] = then
                    arrived -= 1
                elif lower > level:
                    demote(queues, lower, job)
                else:
                    queues.held[RUNNING, level, kept] = job
                    kept += 1
            queues.size[RUNNING, level] = kept
        now = then
    return jobs, timeline[:notes]
