"""The limits of QOS and associations that hold for running jobs."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_helper

NO_LIMIT = 1 << 60


@borrowing_helper
def is_blocked(jobs: Any, limits: Any, parent: Any, j: int, stamp: int) -> bool:
    """Return whether a limit keeps a job from starting in this pass.

    A pass only starts jobs, so what is too much for its limits once stays so, and more as well.
    """
    kind, gpus = jobs.limited[j], jobs.nodes[j] * jobs.gpus[j]
    is_fresh = limits.over_pass[kind] == stamp
    if is_fresh and gpus >= limits.least_over[kind]:
        return True
    if not over_limit(jobs, limits, parent, j):
        return False
    limits.over_pass[kind], limits.least_over[kind] = stamp, gpus  # fewer than known before
    return True


@borrowing_helper
def over_limit(jobs: Any, limits: Any, parent: Any, j: int) -> bool:
    """Return whether a limit would be broken if the job started now."""
    gpus = jobs.nodes[j] * jobs.gpus[j]
    user = jobs.user[j]
    first, second = jobs.part_qos[j], jobs.qos[j]
    if second == first:
        second = -1
    gpus_checked = jobs_checked = False
    for q in (first, second):
        if q < 0:
            continue
        if limits.used_gpus[q] + gpus > limits.grp_gpus[q]:
            return True
        if limits.used_jobs[q] + 1 > limits.grp_jobs[q]:
            return True
        if not gpus_checked and limits.user_gpus[q] < NO_LIMIT:
            gpus_checked = True
            if limits.used_user_gpus[q, user] + gpus > limits.user_gpus[q]:
                return True
        if not jobs_checked and limits.user_jobs[q] < NO_LIMIT:
            jobs_checked = True
            if limits.used_user_jobs[q, user] + 1 > limits.user_jobs[q]:
                return True
    node = jobs.assoc[j]
    if not jobs_checked and limits.used_assoc_jobs[node] + 1 > limits.assoc_jobs[node]:
        return True
    while node > 0:
        if limits.used_assoc_gpus[node] + gpus > limits.assoc_gpus[node]:
            return True
        node = parent[node]
    return False


@borrowing_helper
def count_use(jobs: Any, limits: Any, parent: Any, j: int, sign: int) -> None:
    """Count a job that starts (``sign`` 1) or ends (-1)."""
    gpus = sign * jobs.nodes[j] * jobs.gpus[j]
    user = jobs.user[j]
    first, second = jobs.part_qos[j], jobs.qos[j]
    if second == first:
        second = -1
    for q in (first, second):
        if q >= 0:
            limits.used_gpus[q] += gpus
            limits.used_jobs[q] += sign
            limits.used_user_gpus[q, user] += gpus
            limits.used_user_jobs[q, user] += sign
    node = jobs.assoc[j]
    while node > 0:
        limits.used_assoc_gpus[node] += gpus
        limits.used_assoc_jobs[node] += sign
        node = parent[node]
