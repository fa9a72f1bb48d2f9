"""How long the ticks of Allpass repeat: nothing happens between them and both scalers rest.

A job may run for decades, which are millions of ticks. The ticks that would do what the last one
did, and so change nothing, are passed over.
"""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.allpass.demand import AS_OF, RATE, WORK
from gpuplan.simkit.jit import kernel
from gpuplan.simkit.time import FOREVER

MARGIN = 1.01  # of the work that keeps the pressure at its maximum, for rounding


@kernel
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
        wishes: of `gpuplan.simkit.allpass.scalers.most_desired`.
        rules: `gpuplan.simkit.allpass.scalers.ScalingRules`.
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


@kernel
def ticks_alike(until: int, next_tick: int, ticks: int, leaving: Any, rules: Any) -> int:
    """Return how many ticks to pass over, so that at least one is left before ``until``.

    Args:
        until: before which all ticks are alike.
        next_tick, ticks: the time of the next tick, and its number.
        leaving: GPUs of containers that are gone at a tick, by its number.
        rules: `gpuplan.simkit.allpass.scalers.ScalingRules`.
    """
    alike: int = max(0, (until - next_tick - 1) // rules.tick_us)
    for number in range(min(alike, leaving.size)):
        if leaving[(ticks + number) % leaving.size]:
            return number
    return alike
