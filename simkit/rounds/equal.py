"""Equal shares of one cluster, anew in every round.

Source: Berg et al., "Towards optimality in parallel job scheduling", SIGMETRICS 2018 (EQUI).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.jit import borrowing_helper, helper, kernel
from gpuplan.simkit.rounds.step import ALIVE, begin_round, end_round, note
from gpuplan.simkit.time import FOREVER


@borrowing_helper
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


@helper
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
def play_equal(r: Any, gpus: int) -> Any:
    """Run all jobs on a cluster of so many GPUs; return the log. See `Rounds`."""
    log, belief = np.zeros((256, 4), np.int64), r.belief[0]
    widest = widest_usable(belief)
    while begin_round(r):
        alive = r.clock[ALIVE]
        width = equal_shares(r.row[:alive], belief, widest, gpus)
        for i in range(alive):
            r.width[i] = width[i]
        log = note(log, r, gpus)
        end_round(r, FOREVER)
    return log
