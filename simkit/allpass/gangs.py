"""Gangs of jobs on workers: they start, end, and stop where a worker is taken back."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.allpass.buffers import AWAY, CHAIN, FINISH, LEFT_US, LOST, SINCE, STATE
from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.renting.pool import BUSY, JOB, LISTED_UP, NEXT, list_idle, take_idle


class NeverDone(ValueError):
    """The marketplace keeps taking workers back before any job makes progress."""


@borrowing_helper
def start_gang(workers: Any, job: int, gpus: int, run: int, cheapest: Any) -> int:
    """Put a job on the cheapest idle workers; return the first, which leads to the others."""
    chain = -1
    for _ in range(gpus):
        worker = take_idle(workers, cheapest, LISTED_UP)
        workers[BUSY, worker] += run
        workers[JOB, worker], workers[NEXT, worker] = job, chain
        chain = worker
    return chain


@borrowing_helper
def end_gang(workers: Any, first: int, cheapest: Any, most_expensive: Any) -> None:
    """List the workers of a job that has ended as idle."""
    worker = first
    while worker >= 0:
        list_idle(workers, worker, cheapest, most_expensive)
        worker = workers[NEXT, worker]


@borrowing_helper
def stop_gang(
    jobs: Any,
    workers: Any,
    job: int,
    taken: int,
    now: int,
    restore: int,
    saving: int,
    cheapest: Any,
    most_expensive: Any,
    rules: Any,
) -> int:
    """Stop a job: it goes back to what is saved, and its workers but the one taken fall idle.

    Args:
        jobs, workers: tables of `gpuplan.simkit.allpass.buffers` and `gpuplan.simkit.renting.pool`.
        job, taken: the job, and which of its workers is gone.
        now, restore: times in microseconds; how long its state took to load.
        saving: time to save it before, which ends now; -1 where the notice is too short for that.
        cheapest, most_expensive: orders of the idle workers.
        rules: `gpuplan.simkit.allpass.scalers.ScalingRules`.

    Returns:
        The time on workers that is lost, microseconds.
    """
    ran = now - jobs[SINCE, job]
    kept = max(0, ran - restore)
    if rules.save_every_us:
        kept -= kept % rules.save_every_us
    if saving >= 0:
        kept = max(kept, ran - restore - saving)
    jobs[LEFT_US, job] -= kept
    jobs[LOST, job] += ran - kept
    worker = jobs[CHAIN, job]
    while worker >= 0:
        workers[BUSY, worker] -= jobs[FINISH, job] - now
        if worker != taken:
            list_idle(workers, worker, cheapest, most_expensive)
        worker = workers[NEXT, worker]
    jobs[STATE, job], jobs[SINCE, job] = AWAY, now
    return ran - kept  # type: ignore[no-any-return]
