"""A job starts in its container: when it ends there, or has to leave, as far as that is known."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.allpass.buffers import (
    FINISH,
    FINISH_SERVERLESS,
    RUNNING,
    SERVERLESS,
    START,
    STATE,
)
from gpuplan.simkit.heap import insert
from gpuplan.simkit.jit import borrowing_helper

AHEAD = 1 << 10  # ticks for which ends of jobs are foreseen


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
    """Start a job; return when it ends if that is certain and needs no event, else -1.

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
