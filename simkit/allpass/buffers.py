"""What a run of Allpass writes: tables, as arrays with a row per column, heaps, and events."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.jit import borrowing_helper
from gpuplan.simkit.renting import pool

# Jobs. SINCE is when it began to wait for workers, or its stay on them; LEFT_US the service left at
# that time; LOST restores, and work that was done on workers and lost.
START, FINISH, SERVERLESS, QUEUE, SINCE, CHAIN, STATE, LEFT_US, LOST = range(9)
AWAY, RUNNING, SERVED = range(3)  # states: neither of the others, in a container, on workers

# The time line; ``paid`` in billionths of a dollar per hour.
TIMELINE = (
    *("time", "threshold", "queued", "ready", "starting", "idle", "serverless"),
    *("marketplace", "offers", "paid"),
)

KINDS = (
    "finish_serverless",  # a job ends in its container
    "finish_serverful",  # a job ends on its workers, which fall idle
    "demote",  # a job has used up the threshold: its checkpoint begins
    "worker_ready",
    "checkpoint_done",  # the container is gone, the job enters the serverful queue
    "submit",
    "lease",  # the lease of a marketplace worker ends
    "market",  # offers come, go or change their price
    "dispatch",  # the serverful queue is served, once per instant at which anything changed
    "tick",  # both scalers act
)
(
    FINISH_SERVERLESS,
    FINISH_SERVERFUL,
    DEMOTE,
    WORKER_READY,
    CHECKPOINT_DONE,
    SUBMIT,
    LEASE,
    MARKET,
    DISPATCH,
    TICK,
) = (kind << 40 for kind in range(len(KINDS)))
NUMBER = (1 << 40) - 1  # the part of an event code that says which job or worker


class Buffers(NamedTuple):
    """The arrays that the kernel writes to.

    They come from outside and never change their size, for an array that is handed around in a loop
    of a kernel or replaced there has its references counted, which takes a third of the time. What
    is not used of them takes no memory: it is cleared by the system when it is first touched.

    Attributes:
        jobs: shape (9, n).
        workers, bills: shapes (14, k) and (k,), with room for k rentals; the bills by price and
            time held are in billionths of a dollar x microseconds / hour.
        timeline, pressures: shapes (10, k) and (k,), for k ticks at which something changed.
        demand: of `gpuplan.simkit.allpass.demand`.
        running, queue: heaps of jobs, those that may be moved and those that wait for workers.
        ends, soon: heaps of events, the ends of jobs and the others.
        cheapest, most_expensive: heaps of idle workers.
    """

    jobs: Any
    workers: Any
    bills: Any
    timeline: Any
    pressures: Any
    demand: Any
    running: Any
    queue: Any
    ends: Any
    soon: Any
    cheapest: Any
    most_expensive: Any

    @classmethod
    def of(cls, jobs: int, buckets: int, rentals: int) -> Buffers:
        """Return empty tables; those of rentals and ticks may turn out to be too small."""

        def heap(room: int) -> Any:
            pairs = np.empty((1 + room, 2), np.int64)
            pairs[0] = 0
            return pairs

        return cls(
            jobs=np.zeros((LOST + 1, jobs), np.int64),
            workers=np.empty((pool.LISTED_DOWN + 1, rentals), np.int64),
            bills=np.empty(rentals, np.float64),
            timeline=np.empty((len(TIMELINE), rentals), np.int64),
            pressures=np.empty(rentals, np.float64),
            demand=np.zeros((buckets + 1, 4), np.int64),
            running=heap(jobs),
            queue=heap(jobs),
            # A job ends once per tier, and again for each rental of it that is taken away.
            ends=heap(2 * jobs + rentals),
            soon=heap(jobs + 2 * rentals),
            cheapest=heap(rentals),
            most_expensive=heap(rentals),
        )


@borrowing_helper
def note(timeline: Any, pressures: Any, notes: int, state: Any, p: float) -> int:
    """Write the state after a tick below the others; return how many there are to keep.

    A tick that changed nothing is written over: an overload can last for decades.
    """
    news = notes == 0 or pressures[notes - 1] != p
    pressures[notes] = p
    timeline[0, notes] = state[0]
    for column in range(1, len(state)):
        timeline[column, notes] = state[column]
        news = news or state[column] != timeline[column, notes - 1]
    return notes + news
