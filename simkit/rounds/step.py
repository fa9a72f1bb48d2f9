"""What every policy that works in rounds shares: a round begins, is noted, and ends.

At each multiple of the interval jobs that arrived are admitted and a policy decides how many GPUs
each job gets, and of which type; until the next round every job keeps them. The loop of a policy:

    while begin_round(r):
        ...  # decide r.width[:alive], and r.gpu_type[:alive] where there are several
        log = note(log, r, rented)
        end_round(r)

Time in whole microseconds, work in float ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.growable import grown
from gpuplan.simkit.jit import kernel

# Columns of the table of jobs, microseconds and counts.
STARTS, WIDTH, FINISH, WAITED, HELD, PAUSE, EPOCH, TYPE, START = range(9)
COLUMNS = 9
# Entries of the clock. CHANGED: whether a job came, ended, or changed width or epoch since the last
# decision.
NOW, ALIVE, ARRIVED, CHANGED, NOTES = range(5)
ENTRIES = 5
# Columns of the log.
TIME, RENTED, USED, WAITING = range(4)


class Rounds(NamedTuple):
    """The jobs of a run and where they stand; n jobs, C classes, E epochs, T GPU types.

    What a run reads: ``submit`` (n,) microseconds, ascending; ``group`` (n,) class of each job;
    ``work`` (n,) microseconds on one GPU of the first type; ``first_epoch`` (C + 1,) row of the
    first epoch of each class, then their number; ``work_share`` (E,) share of a job's work in each
    epoch; ``speedup`` (T, E, K + 1) s of each epoch on each type at 0, 1, ..., K GPUs, 0 where not
    usable; ``belief``: the same as the policy sees it; ``delay`` (n,) pause at a start or a change
    of width or type; ``interval`` between rounds.

    What it writes: ``jobs`` (n, `COLUMNS`), ``left`` (n,) work left in the epoch, and ``clock``.

    The round: ``running`` (n,) holds the jobs admitted and unfinished in its first ``ALIVE``
    places, by submission. In the same places: ``row`` the epoch, ``width`` and ``gpu_type`` what
    the job has and then what the policy gives it; and what a policy may say besides: ``restart``
    whether it starts again although neither changes, ``pause`` its pause at any start (-1 for
    ``delay``), and ``factor`` on its rate.
    """

    submit: Any
    group: Any
    work: Any
    first_epoch: Any
    work_share: Any
    speedup: Any
    belief: Any
    delay: Any
    interval: int
    jobs: Any
    left: Any
    clock: Any
    running: Any
    row: Any
    width: Any
    gpu_type: Any
    restart: Any
    pause: Any
    factor: Any


@kernel
def begin_round(r: Any) -> bool:
    """Go to the next round that has jobs and admit those that came; False where all are done."""
    clock, n = r.clock, r.submit.size
    if clock[ALIVE] == 0:
        if clock[ARRIVED] == n:
            return False
        step = r.interval
        first = (r.submit[clock[ARRIVED]] + step - 1) // step * step
        clock[NOW] = max(clock[NOW], first)
    now = clock[NOW]
    while clock[ARRIVED] < n and r.submit[clock[ARRIVED]] <= now:
        job = clock[ARRIVED]
        r.jobs[job, WAITED] = now - r.submit[job]
        r.running[clock[ALIVE]] = job
        clock[ALIVE] += 1
        clock[ARRIVED] += 1
        clock[CHANGED] = 1
    for i in range(clock[ALIVE]):
        job = r.running[i]
        r.row[i] = r.jobs[job, EPOCH]
        r.width[i] = r.jobs[job, WIDTH]
        r.gpu_type[i] = r.jobs[job, TYPE]
    return True


@kernel
def note(log: Any, r: Any, rented: int) -> Any:
    """Add a row to the log where anything changed, and return it; ``clock`` counts its rows."""
    used, waiting, clock = 0, 0, r.clock
    for i in range(clock[ALIVE]):
        used += r.width[i]
        if r.width[i] == 0:
            waiting += 1
    last = clock[NOTES] - 1
    if last >= 0 and clock[CHANGED] == 0 and log[last, RENTED] == rented:
        if log[last, USED] == used and log[last, WAITING] == waiting:
            return log
    if last + 1 == log.shape[0]:
        log = grown(log)
    log[last + 1, TIME], log[last + 1, RENTED] = clock[NOW], rented
    log[last + 1, USED], log[last + 1, WAITING] = used, waiting
    clock[NOTES] += 1
    return log


@kernel
def advance(r: Any, i: int, job: int, last: int) -> int:
    """Let one job run for a round at its width; return when it ended, at most the interval.

    ``i`` is its place among the running jobs, ``last`` the last epoch of its class.
    """
    table, time, left = r.jobs, r.interval, r.left
    width, kind, factor = table[job, WIDTH], table[job, TYPE], r.factor[i]
    if width == 0:
        table[job, WAITED] += time
        return time  # type: ignore[no-any-return]
    pause = min(table[job, PAUSE], time)
    table[job, PAUSE] -= pause
    spent = float(pause)
    while spent < time and table[job, EPOCH] <= last:
        rate = r.speedup[kind, table[job, EPOCH], width] * factor
        if left[job] > rate * (time - spent):
            left[job] -= rate * (time - spent)
            spent = float(time)
        else:
            spent += left[job] / rate if left[job] > 0 else 0.0
            table[job, EPOCH] += 1
            if table[job, EPOCH] <= last:
                left[job] = r.work[job] * r.work_share[table[job, EPOCH]]
    used = int(np.floor(spent + 0.5))
    table[job, HELD] += used * width
    return used


@kernel
def end_round(r: Any) -> None:
    """Give the running jobs what was decided and let them run until the next round."""
    clock, table = r.clock, r.jobs
    now, alive, stay = clock[NOW], clock[ALIVE], 0
    clock[CHANGED] = 0
    for i in range(alive):
        job, width = r.running[i], r.width[i]
        starts = width != table[job, WIDTH] or r.restart[i] != 0
        if width and r.gpu_type[i] != table[job, TYPE]:
            table[job, TYPE] = r.gpu_type[i]
            starts = True
        if starts:
            clock[CHANGED] = 1
            table[job, WIDTH] = width
            if width:
                if table[job, STARTS] == 0:
                    table[job, START] = now
                table[job, PAUSE] = r.delay[job] if r.pause[i] < 0 else r.pause[i]
                table[job, STARTS] += 1
        last = r.first_epoch[r.group[job] + 1] - 1
        used = advance(r, i, job, last)
        if table[job, EPOCH] != r.row[i]:
            clock[CHANGED] = 1
        if table[job, EPOCH] > last:
            table[job, FINISH] = now + used
        else:
            r.running[stay] = job
            stay += 1
    clock[ALIVE] = stay
    clock[NOW] = now + r.interval
