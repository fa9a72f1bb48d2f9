"""Jobs start in containers, and as gangs on workers, where they end or are stopped."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.allpass.buffers import (
    AWAY,
    CHAIN,
    FINISH,
    FINISH_SERVERLESS,
    LEFT_US,
    LOST,
    RUNNING,
    SERVERLESS,
    SINCE,
    START,
    STATE,
)
from gpuplan.simkit.heap import insert
from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.renting.pool import BUSY, JOB, LISTED_UP, NEXT, list_idle, take_idle

AHEAD = 1 << 10  # ticks for which ends of jobs are foreseen


class NeverDone(ValueError):
    """The marketplace keeps taking workers back before any job makes progress."""


@borrowing_helper
def start_container(
    jobs: Any,
    job: int,
    gpus: int,
    service: int,
    begin: int,
    threshold: int,
    next_tick: int,
    ticks: int,
    leaving: Any,
    ahead: int,
    running: Any,
    ends: Any,
    fixed: bool,
    fall: int,
    rules: Any,
) -> int:
    """Start a job in its container; return its end if that is certain and needs no event, else -1.

    Args:
        jobs: table of `gpuplan.simkit.allpass.buffers`.
        job, gpus, service: the job, its width, and its run time.
        begin: when its container is ready.
        threshold: in force.
        next_tick, ticks: time of the next tick, and how many there were.
        leaving: GPUs that are free from a tick on, by its number modulo `AHEAD`.
        ahead: ticks for which that may be noted.
        running: jobs by when they reach the threshold, to which a live one is added later.
        ends: events at which jobs end.
        fixed: whether a job in its container keeps its threshold.
        fall: most that the threshold falls in a tick.
        rules: `gpuplan.simkit.allpass.scalers.ScalingRules`.
    """
    end = begin + service
    jobs[START, job] = begin
    still = max(0, -((next_tick - end) // rules.tick_us))  # ticks before its end
    reserve = threshold - service
    stays = gpus > rules.capacity or (
        reserve >= 0 and (fixed or service <= rules.min_threshold_us or still <= reserve // fall)
    )
    if stays and still < ahead:
        jobs[FINISH, job], jobs[SERVERLESS, job] = end, service
        leaving[(ticks + still) % AHEAD] += gpus
        return end
    jobs[STATE, job] = RUNNING
    leaves = False  # for sure: it has used up its threshold before that can change
    if not stays:
        # The key under which it waits for its demotion: the choice of events adds the rest.
        insert(running, begin if rules.live else begin + threshold, job)
        leaves = begin + threshold < end and (fixed or begin + threshold <= next_tick)
    if not leaves:
        insert(ends, end, FINISH_SERVERLESS | job)
    return -1


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
    lost_worker: int,
    now: int,
    restore: int,
    saving: int,
    cheapest: Any,
    most_expensive: Any,
    rules: Any,
) -> int:
    """Stop a job: it goes back to what is saved, and its other workers fall idle.

    Args:
        jobs, workers: tables of `gpuplan.simkit.allpass.buffers` and `gpuplan.simkit.renting.pool`.
        job, lost_worker: the job, and which of its workers is gone.
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
        if worker != lost_worker:
            list_idle(workers, worker, cheapest, most_expensive)
        worker = workers[NEXT, worker]
    jobs[STATE, job], jobs[SINCE, job] = AWAY, now
    return ran - kept  # type: ignore[no-any-return]
