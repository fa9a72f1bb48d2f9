"""What every policy in rounds shares: a round begins, is noted in the log, and ends.

At each multiple of the interval jobs that arrived are admitted and a policy decides how many GPUs
each job gets, and of which type; until the next round every job keeps them. The loop of a policy:

    while begin_round(r):
        ...  # decide r.width[:alive], and r.gpu_type[:alive] where there are several
        log = note(log, r, rented)
        end_round(r, more=0)

Time in whole microseconds, work in float ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.growable import grown
from gpuplan.simkit.jit import borrowing_helper, borrowing_kernel, kernel
from gpuplan.simkit.time import FOREVER

# Columns of the table of jobs, microseconds and counts.
STARTS, WIDTH, FINISH, WAITED, HELD, PAUSE, EPOCH, TYPE, START = range(9)
COLUMNS = 9
# Entries of the clock. CHANGED: whether a job came, ended, or changed width or epoch since the last
# decision.
NOW, ALIVE, ARRIVED, CHANGED, NOTES = range(5)
ENTRIES = 5
# Columns of the log.
TIME, RENTED, USED, WAITING = range(4)
LEAST_SKIPPED = 8
MOST_SKIPPED = 1e9
"""Rounds that are run through without looking at each."""


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


@borrowing_kernel
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
    if clock[CHANGED] == 0:  # what stands there is still true
        return True
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


@borrowing_helper
def advance(
    table: Any,
    left: Any,
    speedup: Any,
    work_share: Any,
    job: int,
    work: float,
    factor: float,
    last: int,
    time: int,
) -> int:
    """Let one job run for ``time`` at its width; return when it ended, at most ``time``.

    ``table``, ``left``, ``speedup`` and ``work_share`` are those of `Rounds`, ``work`` and
    ``factor`` of the job, ``last`` is the last epoch of its class.
    """
    width, kind = table[job, WIDTH], table[job, TYPE]
    if width == 0:
        table[job, WAITED] += time
        return time
    pause = min(table[job, PAUSE], time)
    table[job, PAUSE] -= pause
    spent = float(pause)
    while spent < time and table[job, EPOCH] <= last:
        rate = speedup[kind, table[job, EPOCH], width] * factor
        if left[job] > rate * (time - spent):
            left[job] -= rate * (time - spent)
            spent = float(time)
        else:
            spent += left[job] / rate if left[job] > 0 else 0.0
            table[job, EPOCH] += 1
            if table[job, EPOCH] <= last:
                left[job] = work * work_share[table[job, EPOCH]]
    used = int(np.floor(spent + 0.5))
    table[job, HELD] += used * width
    return used


@borrowing_helper
def plain_rounds(table: Any, left: Any, speedup: Any, job: int, factor: float, step: int) -> int:
    """Return for how many rounds a job surely runs or waits without a pause or the end of an epoch.

    What is left is rounded in each of them, so that some rounds fewer are sure.
    """
    if table[job, WIDTH] == 0:
        return FOREVER
    done = speedup[table[job, TYPE], table[job, EPOCH], table[job, WIDTH]] * factor * step
    if table[job, PAUSE] > 0 or not done > 0.0 or not left[job] / done < MOST_SKIPPED:
        return 0
    rounds = int(left[job] / done)
    return rounds - 2 - rounds // 1_000_000


@borrowing_helper
def run_plain(
    table: Any, left: Any, speedup: Any, job: int, factor: float, step: int, rounds: int
) -> None:
    """Let one job run for so many `plain_rounds`, rounded as they are one by one."""
    width = table[job, WIDTH]
    if width == 0:
        table[job, WAITED] += rounds * step
        return
    done = speedup[table[job, TYPE], table[job, EPOCH], width] * factor * float(step)
    rest = left[job]
    for _ in range(rounds):
        rest -= done
    left[job] = rest
    table[job, HELD] += rounds * step * width


@borrowing_kernel
def end_round(r: Any, more: int) -> None:
    """Give the running jobs what was decided and let them run until the next round.

    Where a decision lasts for some ``more`` rounds unless something changes, those without a change
    follow at once.
    """
    clock, table, left, running = r.clock, r.jobs, r.left, r.running
    speedup, share, work, factor = r.speedup, r.work_share, r.work, r.factor
    widths, types, restart, row = r.width, r.gpu_type, r.restart, r.row
    first_epoch, group, submit, step = r.first_epoch, r.group, r.submit, r.interval
    now, alive, arrived, changed = clock[NOW], clock[ALIVE], clock[ARRIVED], False
    due = submit[arrived] if arrived < submit.size else -1  # -1: no more jobs come
    for i in range(alive):
        job, width = running[i], widths[i]
        starts = width != table[job, WIDTH] or restart[i] != 0
        if width and types[i] != table[job, TYPE]:
            table[job, TYPE] = types[i]
            starts = True
        if starts:
            changed = True
            table[job, WIDTH] = width
            if width:
                if table[job, STARTS] == 0:
                    table[job, START] = now
                table[job, PAUSE] = r.delay[job] if r.pause[i] < 0 else r.pause[i]
                table[job, STARTS] += 1
    while True:
        if more > LEAST_SKIPPED and not changed:
            skipped = more if due < 0 else min(more, (due - now - 1) // step)
            for i in range(alive):
                job = running[i]
                skipped = min(skipped, plain_rounds(table, left, speedup, job, factor[i], step))
            if 0 < skipped < FOREVER:
                for i in range(alive):
                    run_plain(table, left, speedup, running[i], factor[i], step, skipped)
                now += skipped * step
                more -= skipped
        stay = 0
        for i in range(alive):
            job = running[i]
            last = first_epoch[group[job] + 1] - 1
            used = advance(table, left, speedup, share, job, work[job], factor[i], last, step)
            if table[job, EPOCH] != row[i]:
                changed = True
            if table[job, EPOCH] > last:
                table[job, FINISH] = now + used
            else:
                running[stay] = job
                stay += 1
        now += step
        if changed or more == 0 or 0 <= due <= now:
            break
        more -= 1
    clock[CHANGED] = 1 if changed else 0
    clock[ALIVE] = stay
    clock[NOW] = now
