"""KAI's fair shares: what each queue of one level gets of the GPUs of its parent."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.jit import borrowing_helper, borrowing_kernel
from gpuplan.simkit.quota import kai_columns as col


@borrowing_helper
def _level_of(queues: Any, level: Any, below: float) -> float:
    """Return the highest priority of a level below a given one; -inf: there is none."""
    best = -np.inf
    for q in level:
        if queues[q, col.PRIORITY] < below:
            best = max(best, queues[q, col.PRIORITY])
    return best


@borrowing_helper
def _share_round(queues: Any, level: Any, priority: float, left: float, k: float) -> Any:
    """Divide what is left among the queues of a priority that want more.

    Returns what is left then, and whether a queue wanted less than its part.
    """
    weights = parts = 0.0
    for q in level:
        if queues[q, col.PRIORITY] == priority and queues[q, col.WANT] > 0:
            weights += max(0.0, queues[q, col.WEIGHT])
    if weights <= 0:
        return left, False
    for q in level:
        if queues[q, col.PRIORITY] == priority and queues[q, col.WANT] > 0:
            weight = max(0.0, queues[q, col.WEIGHT]) / weights
            parts += max(0.0, weight + k * (weight - queues[q, col.USAGE])) if weight > 0 else 0.0
    if parts <= 0:
        return left, False
    amount, again = left, False
    for q in level:
        if (
            queues[q, col.PRIORITY] != priority
            or queues[q, col.WANT] <= 0
            or queues[q, col.WEIGHT] <= 0
        ):
            continue
        weight = queues[q, col.WEIGHT] / weights
        part = amount * max(0.0, weight + k * (weight - queues[q, col.USAGE])) / parts
        if queues[q, col.WANT] <= part:
            give = queues[q, col.WANT]
            queues[q, col.FRACTION] = 0.0
            again = again or give < part
        else:
            give = np.floor(part)
            queues[q, col.FRACTION] = part - give
        give = min(give, left)
        queues[q, col.FAIR] += give
        queues[q, col.WANT] -= give
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
        want = queues[q, col.REQUESTED]
        if queues[q, col.LIMIT] >= 0:
            want = min(want, queues[q, col.LIMIT])
        deserved = queues[q, col.DESERVED] if queues[q, col.DESERVED] >= 0 else total
        queues[q, col.FAIR] = min(deserved, want)
        queues[q, col.WANT] = want - queues[q, col.FAIR]
        queues[q, col.FRACTION] = 0.0
        left -= queues[q, col.FAIR]
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
                if queues[q, col.PRIORITY] == priority and queues[q, col.FRACTION] > 0:
                    if best < 0 or queues[q, col.FRACTION] > queues[best, col.FRACTION]:
                        best = q
            if best < 0:
                break
            give = min(1.0, left, queues[best, col.WANT])
            queues[best, col.FAIR] += give
            queues[best, col.WANT] -= give
            queues[best, col.FRACTION] = 0.0
            left -= give
        priority = _level_of(queues, level, priority)
