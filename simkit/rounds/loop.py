"""The loop over rounds: arrays in, arrays out; time in whole microseconds, work in float ones.

At each multiple of the interval jobs that arrived are admitted, the cluster may change its size,
and its GPUs are shared anew; until the next round every job keeps its width.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.jit import kernel
from gpuplan.simkit.rounds.shares import (
    STARTS,
    WIDTH,
    best_size,
    efficiency_of,
    equal_shares,
    pollux_shares,
    widest_usable,
)

EQUAL, POLLUX = range(2)

# Columns of the table of jobs, microseconds and counts; STARTS is 0, WIDTH 1.
FINISH, WAITED, HELD, PAUSE, EPOCH = range(2, 7)


class RoundRules(NamedTuple):
    """The parameters of `play`; GPUs are whole nodes, times microseconds.

    ``target`` is the efficiency an autoscaler aims at, 0 for a cluster of fixed size;
    it acts when the mean efficiency of the last ``window`` rounds leaves target +- ``band``.
    ``power`` is the exponent of the mean of speedups that Pollux maximizes.
    """

    policy: int
    interval_us: int
    node_gpus: int
    min_gpus: int
    max_gpus: int
    provision_us: int
    target: float
    band: float
    window: int
    power: float


@kernel
def note(timeline: Any, notes: int, now: int, gpus: int) -> Any:
    """Add a row to the time line where the GPUs changed; return it and its rows."""
    if notes and timeline[notes - 1, 1] == gpus:
        return timeline, notes
    if notes == timeline.shape[0]:
        more = np.zeros((2 * notes, 2), np.int64)
        for row in range(notes):
            more[row, 0], more[row, 1] = timeline[row, 0], timeline[row, 1]
        timeline = more
    timeline[notes, 0], timeline[notes, 1] = now, gpus
    return timeline, notes + 1


@kernel
def advance(
    job: Any, left: Any, last: int, work: float, work_share: Any, speedup: Any, time: int
) -> int:
    """Let one job run for ``time`` at its width; return when it ended, at most ``time``.

    ``job`` is its row of the table, ``left`` an array of one: the work left in its epoch.
    """
    width = job[WIDTH]
    if width == 0:
        job[WAITED] += time
        return time
    pause = min(job[PAUSE], time)
    job[PAUSE] -= pause
    spent = float(pause)
    while spent < time and job[EPOCH] <= last:
        rate = speedup[job[EPOCH], width]
        if left[0] > rate * (time - spent):
            left[0] -= rate * (time - spent)
            spent = float(time)
        else:
            spent += left[0] / rate if left[0] > 0 else 0.0
            job[EPOCH] += 1
            if job[EPOCH] <= last:
                left[0] = work * work_share[job[EPOCH]]
    used = int(np.floor(spent + 0.5))
    job[HELD] += used * width
    return used


@kernel
def play(
    submit: Any,
    group: Any,
    work: Any,
    first_epoch: Any,
    work_share: Any,
    speedup: Any,
    belief: Any,
    rescale: Any,
    rules: Any,
) -> Any:
    """Run every job to its end.

    Args:
        submit: microseconds, ascending; shape (n,).
        group: class of each job; shape (n,).
        work: microseconds on one GPU; shape (n,).
        first_epoch: row of the first epoch of each class, then their number; shape (C + 1,).
        work_share: share of a job's work in each epoch; shape (E,).
        speedup: s of each epoch at 0, 1, 2, ... GPUs, 0 where not usable; shape (E, K + 1).
        belief: the same as the policy sees it.
        rescale: pause at a start or a change of width, by class; shape (C,).
        rules: `RoundRules`.

    Returns:
        Table of jobs and time line of rented GPUs, rows (time, GPUs).
    """
    n = submit.size
    jobs = np.zeros((n, 7), np.int64)
    left = np.empty(n)
    delay = np.empty(n, np.int64)
    for job in range(n):
        row = first_epoch[group[job]]
        jobs[job, EPOCH] = row
        left[job] = work[job] * work_share[row]
        delay[job] = rescale[group[job]]
    timeline, notes = np.zeros((256, 2), np.int64), 0
    active = np.empty(n, np.int64)
    alive, arrived = 0, 0
    scaled = rules.target > 0
    ready = 0 if scaled else rules.max_gpus
    coming, coming_at = 0, 0
    recent, seen = np.zeros(rules.window), 0
    step = rules.interval_us
    widest = widest_usable(belief)
    by_age = rules.policy == POLLUX and rescale.max() > 0  # its shares change with time alone
    settled, shared = False, -1  # whether the shares of so many GPUs are what they would be anew
    now = (submit[0] + step - 1) // step * step

    while alive or arrived < n:
        if alive == 0:  # nothing to do before the next submission
            now = max(now, (submit[arrived] + step - 1) // step * step)
        while arrived < n and submit[arrived] <= now:
            jobs[arrived, WAITED] = now - submit[arrived]
            active[alive] = arrived
            alive += 1
            arrived += 1
            settled = False
        running = active[:alive]
        rows = np.empty(alive, np.int64)
        width = np.empty(alive, np.int64)
        for i in range(alive):
            rows[i] = jobs[running[i], EPOCH]
            width[i] = jobs[running[i], WIDTH]

        if coming and now >= coming_at:
            ready += coming
            coming = 0
        if scaled and not coming:
            if ready:
                recent[seen % rules.window] = efficiency_of(width, rows, belief, ready)
            seen += 1
            off = abs(recent.mean() - rules.target)
            if ready == 0 or (seen >= rules.window and off > rules.band):
                size = best_size(now, running, rows, submit, delay, jobs, belief, rules)
                if size > ready and rules.provision_us > 0:
                    coming, coming_at = size - ready, now + rules.provision_us
                else:
                    ready = size
                seen = 0

        if settled and shared == ready:
            pass
        elif rules.policy == EQUAL:
            width = equal_shares(rows, belief, widest, ready)
        else:
            width = pollux_shares(
                now, running, rows, submit, delay, jobs, belief, ready, rules.power, True
            )
        timeline, notes = note(timeline, notes, now, ready + coming)

        stay = 0
        settled, shared = not by_age, ready
        for i in range(alive):
            job = running[i]
            if width[i] != jobs[job, WIDTH]:
                settled = False
                jobs[job, WIDTH] = width[i]
                if width[i]:
                    jobs[job, PAUSE] = delay[job]
                    jobs[job, STARTS] += 1
            last = first_epoch[group[job] + 1] - 1
            used = advance(
                jobs[job], left[job : job + 1], last, work[job], work_share, speedup, step
            )
            if jobs[job, EPOCH] != rows[i]:
                settled = False
            if jobs[job, EPOCH] > last:
                jobs[job, FINISH] = now + used
            else:
                active[stay] = job
                stay += 1
        alive = stay
        now += step
        if scaled and alive == 0:
            ready = coming = seen = 0
            timeline, notes = note(timeline, notes, now, 0)
    return jobs, timeline[:notes].copy()
