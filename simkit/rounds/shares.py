"""How policies share GPUs among jobs at one instant: equal shares, and Pollux' fitness.

Each takes the jobs that are there and returns their widths; `best_size` asks instead for how many
GPUs the shares would be worth it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.jit import kernel
from gpuplan.simkit.rounds.allocate import allocate

STARTS, WIDTH = range(2)  # columns of the table of jobs

FLOOR = 4e-3
"""Added to relative speedups, so that a job without GPUs has a finite cost: Pollux' 1e-3, on a
scale where its node of four GPUs is 1."""


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
