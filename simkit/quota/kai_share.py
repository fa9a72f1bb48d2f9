"""KAI's fair shares: what each queue of one level gets of the GPUs of its parent."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.jit import borrowing_helper, borrowing_kernel

UNLIMITED = -1.0

# Columns of the table of queues.
(
    PRIORITY, DESERVED, LIMIT, WEIGHT, USAGE, REQUESTED, ALLOCATED, FIXED, FAIR, WANT, FRACTION,
    POPPED, BEFORE, REMAINING, SHARE_PLACE, SHARE_REPLACE, SHARE_EVICT, EXCESS, EVICTABLE,
    LARGEST, SEEN_ALLOCATED, SEEN_FIXED, SEEN_FAIR, COLUMNS,
) = range(24)  # fmt: skip


@borrowing_helper
def _level_of(queues: Any, level: Any, below: float) -> float:
    """Return the highest priority of a level below a given one; -inf: there is none."""
    best = -np.inf
    for q in level:
        if queues[q, PRIORITY] < below:
            best = max(best, queues[q, PRIORITY])
    return best


@borrowing_helper
def _share_round(queues: Any, level: Any, priority: float, left: float, k: float) -> Any:
    """Divide what is left among the queues of a priority that want more.

    Returns what is left then, and whether a queue wanted less than its part.
    """
    weights = parts = 0.0
    for q in level:
        if queues[q, PRIORITY] == priority and queues[q, WANT] > 0:
            weights += max(0.0, queues[q, WEIGHT])
    if weights <= 0:
        return left, False
    for q in level:
        if queues[q, PRIORITY] == priority and queues[q, WANT] > 0:
            weight = max(0.0, queues[q, WEIGHT]) / weights
            parts += max(0.0, weight + k * (weight - queues[q, USAGE])) if weight > 0 else 0.0
    if parts <= 0:
        return left, False
    amount, again = left, False
    for q in level:
        if queues[q, PRIORITY] != priority or queues[q, WANT] <= 0 or queues[q, WEIGHT] <= 0:
            continue
        weight = queues[q, WEIGHT] / weights
        part = amount * max(0.0, weight + k * (weight - queues[q, USAGE])) / parts
        if queues[q, WANT] <= part:
            give = queues[q, WANT]
            queues[q, FRACTION] = 0.0
            again = again or give < part
        else:
            give = np.floor(part)
            queues[q, FRACTION] = part - give
        give = min(give, left)
        queues[q, FAIR] += give
        queues[q, WANT] -= give
        left -= give
    return left, again and left > 0


@borrowing_kernel
def divide(queues: Any, level: Any, total: float, k: float) -> None:
    """Set the fair share of the queues of one level.

    Args:
        queues: the table of queues; see the columns above.
        level: numbers of the queues of the level, older ones first, then by name.
        total: GPUs to divide.
        k: weight of past use; 0: none.
    """
    left = total
    for q in level:
        want = queues[q, REQUESTED]
        if queues[q, LIMIT] >= 0:
            want = min(want, queues[q, LIMIT])
        deserved = queues[q, DESERVED] if queues[q, DESERVED] >= 0 else total
        queues[q, FAIR] = min(deserved, want)
        queues[q, WANT] = want - queues[q, FAIR]
        queues[q, FRACTION] = 0.0
        left -= queues[q, FAIR]
    if left <= 0:
        return
    priority = _level_of(queues, level, np.inf)
    while priority > -np.inf and left > 0:
        again = True
        while again and left > 0:
            left, again = _share_round(queues, level, priority, left, k)
        priority = _level_of(queues, level, priority)
    priority = _level_of(queues, level, np.inf)
    while priority > -np.inf and left > 0:
        while left > 0:  # one more to each, the largest fraction first
            best = -1
            for q in level:
                if queues[q, PRIORITY] == priority and queues[q, FRACTION] > 0:
                    if best < 0 or queues[q, FRACTION] > queues[best, FRACTION]:
                        best = q
            if best < 0:
                break
            give = min(1.0, left, queues[best, WANT])
            queues[best, FAIR] += give
            queues[best, WANT] -= give
            queues[best, FRACTION] = 0.0
            left -= give
        priority = _level_of(queues, level, priority)
