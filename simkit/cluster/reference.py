"""The preemptive policies as the published simulator of Tiresias runs them, in whole seconds.

Source: Gu et al., "Tiresias", NSDI 2019, and the simulator that its authors published. At every
arrival and end all jobs are sorted again, equal ones staying in their order, and the empty cluster
is filled in that order, skipping what does not fit; stopping a job costs nothing. For the queues of
least attained service see `gpuplan.simkit.cluster.reference_queues`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.growable import grown
from gpuplan.simkit.jit import kernel

NARROWEST, REMAINING, REMAINING_GPUS = range(3)  # what jobs are sorted by

NEVER = 1 << 60


@kernel
def rank(order: int, width: int, left: int) -> int:
    """Return what a job is sorted by."""
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
        order: what jobs are sorted by.

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
