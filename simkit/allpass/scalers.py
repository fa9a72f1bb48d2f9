"""The controllers: the threshold of containers, and how many workers to rent or to release.

Source: "Allpass", Algorithms 1 and 2, as made precise in ``docs/allpass.md``; Kubernetes'
horizontal pod autoscaler.

A job may run for decades, which are millions of ticks. Where nothing happens between ticks and both
controllers rest, `steady_until` and `ticks_alike` say how many of them repeat the last one, so that
the kernel can pass over them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.allpass.demand import AS_OF, RATE, WORK
from gpuplan.simkit.jit import borrowing_helper, borrowing_kernel
from gpuplan.simkit.time import FOREVER, MICROS

MARGIN = 1.01  # of the work that keeps the pressure at its maximum, for rounding


class ScalingRules(NamedTuple):
    """The parameters of a run; times in microseconds, gains as Algorithm 1 has them.

    ``grace_us`` is 0 for no notice, ``lease_us`` `FOREVER` for no end; ``patience_us`` is half the
    time without progress after which a run is given up. ``capacity`` and ``serverless_limit`` are
    in workers (GPUs), ``conventional_price`` in billionths of a dollar. The last five are those of
    Kubernetes' autoscaler, which ``by_utilization`` puts in the place of Algorithm 2.
    """

    threshold_us: int
    adaptive: bool
    live: bool
    serve_queue: bool
    bounded: bool
    in_force: bool
    reclaim: bool
    save_every_us: int
    grace_us: int
    lease_us: int
    patience_us: int
    market_period_us: int
    tick_us: int
    window_us: int
    window_step_us: int
    capacity: int
    serverless_limit: int
    conventional_price: int
    min_threshold_us: int
    max_threshold_us: int
    gain_up: float
    limit_up: float
    gain_down: float
    limit_down: float
    max_pressure: float
    by_submission: bool
    by_utilization: bool
    target: float
    tolerance: float
    stabilization_us: int
    min_workers: int


@borrowing_kernel
def next_threshold(threshold: int, p: float, rules: Any) -> Any:
    """Return the threshold after one step of Algorithm 1, microseconds."""
    if p > 1:
        change = min(rules.limit_up, rules.gain_up * (p - 1))
    else:
        change = -min(rules.limit_down, rules.gain_down * (1 - p))
    moved = threshold + int(np.floor(change * MICROS + 0.5))
    return min(max(moved, rules.min_threshold_us), rules.max_threshold_us)


@borrowing_helper
def largest_fall(rules: Any) -> int:
    """Return the most by which a step of Algorithm 1 can lower the threshold, microseconds, >= 1.

    The pressure is at least 0, so that the gain is a limit too.
    """
    limit_us = np.floor(min(rules.limit_down, rules.gain_down) * MICROS + 0.5)
    return max(1, int(min(limit_us + 1, float(rules.max_threshold_us))))


@borrowing_helper
def desired_workers(busy: int, ready: int, starting: int, rules: Any) -> int:
    """Return busy / target as Kubernetes' autoscaler does, the present number where that is near.

    Workers that are starting count as idle where a rise is due: they dampen it, and never turn it
    into a fall. Without a ready worker there is no utilization and nothing changes.
    """
    held = ready + starting
    if ready == 0:
        return held
    ratio = busy / (rules.target * ready)
    if ratio > 1:
        ratio = max(busy / (rules.target * held), 1.0)
    if abs(ratio - 1) <= rules.tolerance + 1e-9:
        return held
    return int(np.ceil(busy / rules.target - 1e-6))


@borrowing_helper
def most_desired(wishes: Any, desired: int, now: int, rules: Any) -> int:
    """Note the number desired now and return the most of the last ``stabilization_us``.

    ``wishes`` is a ring of (number, time) without those that a later one of at least their number
    makes void, so its first is the most. Row 0 holds how many have left at each end.
    """
    size = wishes.shape[0] - 1
    first, last = wishes[0, 0], wishes[0, 1]
    while first < last and wishes[1 + (last - 1) % size, 0] <= desired:
        last -= 1
    wishes[1 + last % size, 0], wishes[1 + last % size, 1] = desired, now
    last += 1
    while wishes[1 + first % size, 1] < now - rules.stabilization_us:
        first += 1
    wishes[0, 0], wishes[0, 1] = first, last
    return wishes[1 + first % size, 0]  # type: ignore[no-any-return]


@borrowing_helper
def rent_or_release(
    p: float,
    work: int,
    width: int,
    ready: int,
    starting: int,
    idle: int,
    all_width: int,
    head_gpus: int,
    head_deadline: int,
    wishes: Any,
    now: int,
    rules: Any,
) -> Any:
    """Return how many workers to rent and how many idle ones to release; negative is none.

    Args:
        p, work, width: of `gpuplan.simkit.allpass.demand.pressure`.
        ready, starting, idle: workers; idle ones are ready too.
        all_width: GPUs of all unfinished jobs of the tier.
        head_gpus, head_deadline: of the first job that waits; 0 GPUs where none does.
        wishes: of `most_desired`.
        now: this tick.
        rules: `ScalingRules`.
    """
    window = rules.window_us
    held = ready + starting
    usable = work
    if rules.bounded:  # a gang of g takes no more than g x window
        usable = min(work, width * window)
    wanted = spare = 0
    if p > 1:
        wanted = -((held * window - usable) // window)
    if rules.by_utilization:
        # Idle workers too few for the head of the queue are kept for it, and so not free.
        busy = ready if head_gpus else ready - idle
        desired = desired_workers(busy, ready, starting, rules)
        desired = min(max(desired, rules.min_workers, head_gpus), rules.capacity)
        wanted = desired - held
        spare = min(held - most_desired(wishes, desired, now, rules), idle)
    elif head_gpus and rules.serve_queue:
        wanted = max(wanted, all_width - held)
    elif head_gpus and head_deadline <= now + window:
        wanted = max(wanted, head_gpus - held)
    else:
        if p < 1:
            spare = (held * window - usable) // window
        if rules.bounded:
            spare = max(spare, held - all_width)
        spare = min(spare, idle)
    return min(wanted, rules.capacity - held), spare


@borrowing_helper
def steady_until(
    demand: Any,
    edges: Any,
    due: int,
    now: int,
    p: float,
    ready: int,
    serverful_width: int,
    wishes: Any,
    rules: Any,
) -> int:
    """Return a time before which every tick finds the pressure and the wishes of the last one.

    The last tick neither rented nor released a worker, and no event comes before that time. Work
    in the longest window then only drains, so the ticks do not rent or release either.

    Args:
        demand, edges, due: as `gpuplan.simkit.allpass.demand.pressure` takes them.
        now, p, ready: the last tick, the pressure that it found, and the workers that are ready.
        serverful_width: GPUs of all unfinished jobs of the tier.
        wishes: of `most_desired`.
        rules: `ScalingRules`.
    """
    until = FOREVER
    first, last = wishes[0, 0], wishes[0, 1]
    if last > first + 1:  # the most of the last minutes is an older wish, which runs out
        size = wishes.shape[0] - 1
        until = wishes[1 + first % size, 1] + rules.stabilization_us + 1
    if serverful_width == 0:
        return until

    # Work and its workers in the shortest window, and work in the longer ones alone.
    overdue = edges.size
    near = demand[overdue, WORK] - demand[overdue, RATE] * (now - demand[overdue, AS_OF])
    rate = demand[overdue, RATE]
    far = 0
    while due < edges.size and edges[due] <= now + rules.window_us:
        work = demand[due, WORK] - demand[due, RATE] * (now - demand[due, AS_OF])
        if edges[due] <= now + rules.window_step_us:
            near += work
            rate += demand[due, RATE]
        else:
            far += work
        due += 1
    if due < edges.size:  # the deadline of the first job that waits is one of these too
        until = min(until, edges[due] - rules.window_us)
    if ready == 0 or (far == 0 and rate == 0):  # also where there is no work
        return until
    if p < max(1.0, rules.max_pressure):
        return now
    more = float(near) - MARGIN * rules.max_pressure * float(ready) * float(rules.window_step_us)
    if more <= 0:
        return now
    if rate > 0:
        until = min(until, now + int(min(more / float(rate), float(FOREVER))))
    return until


@borrowing_helper
def ticks_alike(until: int, next_tick: int, ticks: int, leaving: Any, rules: Any) -> int:
    """Return how many ticks to pass over, so that at least one is left before ``until``.

    Args:
        until: before which all ticks are alike.
        next_tick, ticks: the time of the next tick, and its number.
        leaving: GPUs of containers that are gone at a tick, by its number.
        rules: `ScalingRules`.
    """
    equal: int = max(0, (until - next_tick - 1) // rules.tick_us)
    for number in range(min(equal, leaving.size)):
        if leaving[(ticks + number) % leaving.size]:
            return number
    return equal
