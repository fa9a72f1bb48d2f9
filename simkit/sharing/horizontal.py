"""When a function gets another instance or gives one up: decisions by requests per second alone.

Source: Lv et al., "Dilu", ASPLOS 2025, section 3.4.2. A decision at second t knows the requests of
the seconds before t; there is at most one in a second.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.jit import kernel

LAZY, EAGER, FIXED = range(3)  # ways to decide


class HorizontalRules(NamedTuple):
    """How the number of instances follows the load.

    ``way`` is `LAZY` (Dilu), `EAGER` (one instance a second towards what the last second needs) or
    `FIXED` (never). Lazy: another instance once ``out_samples`` of the last ``window``
    seconds are above the capacity of all instances; one less once more than ``in_samples`` are
    below that of all but one, or exactly so many with ``in_at_least``. A decision starts the window
    anew, except with ``keep_window``. Eager: one less after
    ``keep_alive_s`` seconds of surplus. ``least`` is the fewest instances, and ``first`` those at
    the start.
    """

    way: int
    window: int
    out_samples: int
    in_samples: int
    in_at_least: bool
    keep_window: bool
    keep_alive_s: int
    least: int
    first: int


@kernel
def decide(requests: Any, capacity: float, rules: Any) -> Any:
    """Return the changes of the number of instances, rows (second, instances from then on).

    Args:
        requests: requests of each second from 0; shape (s,).
        capacity: requests per second that an instance serves.
        rules: see `HorizontalRules`.
    """
    changes = np.zeros((requests.size, 2), np.int64)
    count = 0
    instances, start, surplus = rules.first, 0, 0
    for second in range(1, requests.size):
        if rules.way == FIXED:
            break
        before = instances
        if rules.way == LAZY:
            above = below = 0
            for at in range(max(start, second - rules.window), second):
                if requests[at] > instances * capacity:
                    above += 1
                if requests[at] < (instances - 1) * capacity:
                    below += 1
            if above >= rules.out_samples:
                instances += 1
            elif instances > rules.least and (
                below > rules.in_samples or (rules.in_at_least and below == rules.in_samples)
            ):
                instances -= 1
            if instances != before and not rules.keep_window:
                start = second
        else:
            wanted = max(int(np.ceil(requests[second - 1] / capacity)), rules.least)
            surplus = surplus + 1 if wanted < instances else 0
            if wanted > instances:
                instances += 1
            elif surplus > rules.keep_alive_s:
                instances -= 1
                surplus = 0
        if instances != before:
            changes[count, 0], changes[count, 1] = second, instances
            count += 1
    return changes[:count]
