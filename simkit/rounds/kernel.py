"""The loop over rounds: arrays in, arrays out; time in whole microseconds, work in float ones.

At each multiple of the interval jobs that arrived are admitted, the cluster may change its size,
and its GPUs are shared anew; until the next round every job keeps its width.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.jit import kernel
from gpuplan.simkit.rounds.allocate import allocate

EQUAL, POLLUX = range(2)

FLOOR = 4e-3
"""Added to relative speedups, so that a job without GPUs has a finite cost: Pollux' 1e-3, on a
scale where its node of four GPUs is 1."""

# Columns of the table of jobs, microseconds and counts.
FINISH, WAITED, HELD, STARTS, WIDTH, PAUSE, EPOCH = range(7)


class Rules(NamedTuple):
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
def speedup_near(speedup: Any, width: int) -> float:
    """Return s at the widest usable width up to ``width``, or else at the narrowest beyond it."""
    last = speedup.size - 1
    for k in range(min(width, last), 0, -1):
        if speedup[k] > 0:
            return speedup[k]  # type: ignore[no-any-return]
    for k in range(min(width, last) + 1, last + 1):
        if speedup[k] > 0:
            return speedup[k]  # type: ignore[no-any-return]
    return 1.0


@kernel
def next_usable(speedup: Any, width: int) -> int:
    """Return the least usable width above ``width``, or 0 where there is none."""
    for k in range(width + 1, speedup.size):
        if speedup[k] > 0:
            return k
    return 0


@kernel
def widest_usable(speedup: Any) -> Any:
    """Return the widest usable width of each row."""
    widest = np.zeros(speedup.shape[0], np.int64)
    for row in range(speedup.shape[0]):
        for k in range(speedup.shape[1]):
            if speedup[row, k] > 0:
                widest[row] = k
    return widest


@kernel
def ascending(keys: Any, most: int) -> Any:
    """Return the stable order of whole numbers from 0 to ``most``, by counting."""
    first = np.zeros(most + 2, np.int64)
    for key in keys:
        first[key + 1] += 1
    for key in range(most + 1):
        first[key + 1] += first[key]
    order = np.empty(keys.size, np.int64)
    for i in range(keys.size):
        order[first[keys[i]]] = i
        first[keys[i]] += 1
    return order


@kernel
def equal_shares(rows: Any, belief: Any, widest: Any, gpus: int) -> Any:
    """Return equal widths of jobs in the order of their submission.

    Jobs that can use least divide first, so that others share what they leave; an earlier job has
    one more where the division leaves a rest. Shares are rounded down to usable widths, and what
    that leaves goes to the next usable width of each job, the narrowest and earliest first.
    ``widest`` is that of `widest_usable`.
    """
    jobs, most = rows.size, belief.shape[1] - 1
    reach = np.empty(jobs, np.int64)  # the last job first
    for i in range(jobs):
        reach[i] = widest[rows[jobs - 1 - i]]
    width = np.zeros(jobs, np.int64)
    left, undivided, free = jobs, gpus, gpus
    for at in ascending(reach, most):
        i = jobs - 1 - at
        share = min(reach[at], undivided // left)
        undivided -= share
        left -= 1
        while share > 0 and belief[rows[i], share] <= 0:
            share -= 1
        width[i] = share
        free -= share
    if free == 0:
        return width
    for i in ascending(width, most):
        more = next_usable(belief[rows[i]], width[i])
        if more and more - width[i] <= free:
            free -= more - width[i]
            width[i] = more
    return width


@kernel
def pollux_shares(
    now: int,
    active: Any,
    rows: Any,
    submit: Any,
    delay: Any,
    jobs: Any,
    belief: Any,
    gpus: int,
    power: float,
    penalty: bool,
) -> Any:
    """Return the widths that maximize Pollux' fitness for a cluster of ``gpus``.

    The fitness is the mean with exponent ``power`` of each job's speedup over that at its fair
    share of the cluster. With ``penalty`` a change of width multiplies it by (age - delay x
    restarts) / (age + delay), which leaves jobs alone that are young or were restarted often (Qiao
    et al., OSDI 2021, section 4.2).
    """
    fair = (gpus + active.size - 1) // active.size
    epochs = belief.shape[0]
    # Jobs in one epoch have one row of costs, where no penalty tells them apart: the first rows.
    cost = np.empty((epochs + active.size, belief.shape[1]))
    known = np.zeros(epochs, np.bool_)
    kind, kinds = np.empty(active.size, np.int64), epochs
    sign = -1.0 if power > 0 else 1.0
    # Of jobs of a kind that never ran the older one gains more from any width, so that no more of
    # them need be looked at than there are GPUs: what counts when a cluster is overloaded.
    fresh = np.zeros(belief.shape[0], np.int64)
    place = np.empty(active.size, np.int64)
    looked_at = 0
    for i in range(active.size):
        job, row = active[i], rows[i]
        if jobs[job, STARTS] == 0:
            fresh[row] += 1
            if fresh[row] > gpus:
                continue
        s = belief[row]
        place[looked_at] = i
        alone = penalty and delay[job] > 0
        at = kinds if alone else row
        kind[looked_at] = at
        looked_at += 1
        if alone:
            kinds += 1
        elif known[row]:
            continue
        else:
            known[row] = True
        base = speedup_near(s, fair)
        age, pause = now - submit[job], delay[job]
        factor = 1.0
        if alone:
            lost = pause * max(0, jobs[job, STARTS] - 1)
            factor = max(0.0, float(age - lost)) / float(age + pause)
        for k in range(s.size):
            if k > 0 and s[k] <= 0:
                cost[at, k] = np.inf
                continue
            keep = 1.0 if k == jobs[job, WIDTH] else factor
            x = keep * s[k] / base + FLOOR
            cost[at, k] = 1 / x if power == -1 else sign * x**power
    width = np.zeros(active.size, np.int64)
    found = allocate(cost[:kinds], kind[:looked_at], gpus)
    for i in range(looked_at):
        width[place[i]] = found[i]
    return width


@kernel
def efficiency_of(width: Any, rows: Any, belief: Any, gpus: int) -> float:
    """Return the sum of speedups over GPUs."""
    total = 0.0
    for i in range(width.size):
        total += belief[rows[i], width[i]]
    return total / gpus


@kernel
def best_size(
    now: int, active: Any, rows: Any, submit: Any, delay: Any, jobs: Any, belief: Any, rules: Any
) -> int:
    """Return the cluster size, in GPUs, whose best allocation is closest to the target efficiency.

    Efficiency falls with the size, but for rounding to whole GPUs, so the two sizes around the
    target are found by bisection. What a restart costs now is no matter of the size.
    """
    node = rules.node_gpus
    usable = 0
    for i in range(active.size):
        for k in range(belief.shape[1] - 1, 0, -1):
            if belief[rows[i], k] > 0:
                usable += k
                break
    low = rules.min_gpus // node
    high = max(low, min(rules.max_gpus, usable + node - 1) // node)
    gaps = np.full(2, np.inf)
    while high - low > 1:
        middle = (low + high) // 2
        width = pollux_shares(
            now, active, rows, submit, delay, jobs, belief, middle * node, rules.power, False
        )
        if efficiency_of(width, rows, belief, middle * node) > rules.target:
            low = middle
        else:
            high = middle
    for end in range(2):
        gpus = (low, high)[end] * node
        width = pollux_shares(
            now, active, rows, submit, delay, jobs, belief, gpus, rules.power, False
        )
        gaps[end] = abs(efficiency_of(width, rows, belief, gpus) - rules.target)
    return int((low if gaps[0] <= gaps[1] else high) * node)


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
        rules: `Rules`.

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
