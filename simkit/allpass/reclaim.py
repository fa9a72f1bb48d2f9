"""What becomes of a job when the marketplace takes back one of its workers."""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.allpass.buffers import AWAY, CHAIN, FINISH, LEFT_US, LOST, SINCE, STATE
from gpuplan.simkit.jit import kernel
from gpuplan.simkit.renting.pool import BUSY, NEXT, list_idle


class NeverDone(ValueError):
    """The marketplace keeps taking workers back before any job makes progress."""


@kernel
def stop_gang(
    jobs: Any,
    workers: Any,
    job: int,
    taken: int,
    now: int,
    restore: int,
    cheapest: Any,
    most_expensive: Any,
    rules: Any,
) -> int:
    """Stop a job: it goes back to what is saved, and its workers but the one taken fall idle.

    Args:
        jobs, workers: tables of `gpuplan.simkit.allpass.buffers` and `gpuplan.simkit.renting.pool`.
        job, taken: the job, and which of its workers is gone.
        now, restore: times in microseconds; how long its state took to load.
        cheapest, most_expensive: orders of the idle workers.
        rules: `gpuplan.simkit.allpass.scalers.ScalingRules`.

    Returns:
        The time on workers that is lost, microseconds.
    """
    ran = now - jobs[SINCE, job]
    kept = max(0, ran - restore)
    if rules.save_every_us:
        kept -= kept % rules.save_every_us
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
