"""Pollux: the best allocation for its fitness in every round, on a cluster that may scale.

Source: Qiao et al., "Pollux", OSDI 2021. `best_size` is the autoscaler: for how many GPUs the
efficiency of the best allocation comes closest to a target.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.jit import borrowing_helper, borrowing_kernel, helper, kernel
from gpuplan.simkit.rounds.allocate import allocate
from gpuplan.simkit.rounds.step import (
    ALIVE,
    CHANGED,
    NOTES,
    NOW,
    RENTED,
    STARTS,
    WIDTH,
    begin_round,
    end_round,
    note,
)
from gpuplan.simkit.time import FOREVER

SAME_BEFORE, LEAST_AHEAD, MOST_AHEAD = 16, 64, 1_000_000
"""Rounds without a change after which it is looked ahead, and for how many at first and at most."""
FLOOR = 4e-3
"""Added to relative speedups, so that a job without GPUs has a finite cost: Pollux' 1e-3, on a
scale where its node of four GPUs is 1."""


class PolluxRules(NamedTuple):
    """The parameters of `play_pollux`; GPUs are whole nodes, times microseconds.

    ``target`` is the efficiency an autoscaler aims at, 0 for a cluster of fixed size;
    it acts when the mean efficiency of the last ``window`` rounds leaves target +- ``band``.
    ``power`` is the exponent of the mean of speedups that Pollux maximizes.
    """

    node_gpus: int
    min_gpus: int
    max_gpus: int
    provision_us: int
    target: float
    band: float
    window: int
    power: float


@borrowing_helper
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
    # Jobs in one epoch share one row of costs, of the first rows, unless a penalty differs.
    cost = np.empty((epochs + active.size, belief.shape[1]))
    is_costed = np.zeros(epochs, np.bool_)
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
        elif is_costed[row]:
            continue
        else:
            is_costed[row] = True
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
    shares = allocate(cost[:kinds], kind[:looked_at], gpus)
    for i in range(looked_at):
        width[place[i]] = shares[i]
    return width


@borrowing_kernel
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
    target are found by bisection. Restarts do not count: they cost now, and a size lasts.
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


@helper
def is_settled(
    active: Any, rows: Any, delay: Any, jobs: Any, belief: Any, unpenalized: Any
) -> bool:
    """Return whether the widths stay until jobs come or go.

    They do where no others would be better even if changes cost nothing, and every change costs
    something: with time changes only become cheaper.
    """
    surplus = np.zeros(belief.shape, np.int64)  # jobs at each row and width, less those wanted
    for i in range(active.size):
        if delay[active[i]] == 0:
            return False
        surplus[rows[i], jobs[active[i], WIDTH]] += 1
        surplus[rows[i], unpenalized[i]] -= 1
    return not surplus.any()


@helper
def rounds_kept(ahead: int, r: Any, power: float, gpus: int) -> int:
    """Return up to how many more rounds the widths surely stay, of ``ahead``, unless jobs change.

    With time a change only costs less, and to stay costs the same. So where to stay is best later
    it is best until then. A change that costs nothing could be a tie: then nothing is known.
    """
    clock = r.clock
    alive = clock[ALIVE]
    for i in range(alive):
        if r.delay[r.running[i]] == 0:
            return 0
    while ahead > 0:
        width = pollux_shares(
            clock[NOW] + ahead * r.interval, r.running[:alive], r.row[:alive], r.submit, r.delay,
            r.jobs, r.belief[0], gpus, power, True,
        )  # fmt: skip
        if (width == r.width[:alive]).all():
            return ahead
        ahead //= 4
    return 0


@helper
def keeps_its_size(recent: Any, ready: int, size: int, rules: Any) -> bool:
    """Return whether an autoscaler that sees the same efficiency in each round changes nothing.

    ``recent`` holds the efficiency of the last rounds, ``size`` is the best size, 0 if not known.
    """
    if ready == 0 or recent.min() != recent.max():
        return False
    return bool(size == ready or abs(recent.mean() - rules.target) <= rules.band)


@kernel
def play_pollux(r: Any, rules: Any) -> Any:
    """Run all jobs under Pollux; return the log. See `Rounds`."""
    log, belief, clock = np.zeros((256, 4), np.int64), r.belief[0], r.clock
    scaled = rules.target > 0
    ready = 0 if scaled else rules.max_gpus
    coming, coming_at = 0, 0
    recent, seen = np.zeros(rules.window), 0
    by_age = False  # the shares then change with time alone, until they are settled
    for job in range(r.delay.size):
        by_age = by_age or r.delay[job] > 0
    settled, is_checked = False, False
    shared = -1  # GPUs of the cluster at the last decision
    size = 0  # best size for the jobs that there are; 0 is not known
    same, ahead = 0, 0  # rounds with the same widths, and for how many more they are looked at
    while begin_round(r):
        now, alive = clock[NOW], clock[ALIVE]
        running, row = r.running[:alive], r.row[:alive]
        if clock[CHANGED]:
            size = 0
        if coming and now >= coming_at:
            ready += coming
            coming = 0
        if scaled and not coming:
            if ready:
                recent[seen % rules.window] = efficiency_of(r.width[:alive], row, belief, ready)
            seen += 1
            off = abs(recent.mean() - rules.target)
            if ready == 0 or (seen >= rules.window and off > rules.band):
                if size == 0:
                    size = best_size(now, running, row, r.submit, r.delay, r.jobs, belief, rules)
                if size > ready and rules.provision_us > 0:
                    coming, coming_at = size - ready, now + rules.provision_us
                else:
                    ready = size
                seen = 0
        is_new = clock[CHANGED] or shared != ready
        if is_new:
            settled, is_checked = False, False
        is_same = True
        if is_new or (by_age and not settled):  # else the shares are what they were
            width = pollux_shares(
                now, running, row, r.submit, r.delay, r.jobs, belief, ready, rules.power, True
            )
            if by_age and not is_new and not is_checked:
                settled = is_settled(
                    running,
                    row,
                    r.delay,
                    r.jobs,
                    belief,
                    pollux_shares(
                        now, running, row, r.submit, r.delay, r.jobs, belief, ready, rules.power,
                        False,
                    ),
                )  # fmt: skip
                is_checked = True
            is_same = (width == r.width[:alive]).all()
            r.width[:alive] = width
            shared = ready
            log = note(log, r, ready + coming)
        elif log[clock[NOTES] - 1, RENTED] != ready + coming:
            log = note(log, r, ready + coming)
        same = same + 1 if is_same and not is_new else 0
        may_last = not scaled or (
            coming == 0 and not is_new and keeps_its_size(recent, ready, size, rules)
        )
        more = 0
        if may_last and (settled or not by_age):
            more = FOREVER
        elif may_last and same >= SAME_BEFORE:
            ahead = rounds_kept(min(2 * ahead + LEAST_AHEAD, MOST_AHEAD), r, rules.power, ready)
            more, same = ahead, 0 if ahead == 0 else same
        end_round(r, more)
        is_lasting = more > 0
        if scaled and is_lasting:  # each round that followed at once would have counted, too
            seen += (clock[NOW] - now) // r.interval - 1
            if abs(recent.mean() - rules.target) > rules.band:
                seen %= rules.window
        if scaled and clock[ALIVE] == 0:
            ready = coming = seen = 0
            log = note(log, r, 0)
    return log
