"""What the jobs of the serverful tier still need, by deadline: D(t, T) and p(t) of Allpass.

A table has a row per deadline, rounded up, and a last one for what is overdue; the columns are
`WORK` and the like. Source: "Allpass", equations 1 and 2.
"""

from __future__ import annotations

from typing import Any

from gpuplan.simkit.jit import borrowing_helper

# Work in GPU-microseconds as of AS_OF, since then drained by RATE workers; GPUs of the jobs.
WORK, RATE, AS_OF, WIDTH = range(4)


@borrowing_helper
def settle(demand: Any, row: int, now: int) -> None:
    """Bring one row of the table of demand up to ``now``."""
    demand[row, WORK] -= demand[row, RATE] * (now - demand[row, AS_OF])
    demand[row, AS_OF] = now


@borrowing_helper
def settled(demand: Any, bucket: int, due: int, now: int) -> int:
    """Return the row of a bucket, brought up to ``now``; those before ``due`` are overdue."""
    row = bucket if bucket >= due else demand.shape[0] - 1
    settle(demand, row, now)
    return row


@borrowing_helper
def fold_overdue(demand: Any, edges: Any, due: int, now: int) -> int:
    """Move what is overdue into the last row; return the first bucket that is not."""
    overdue = edges.size
    settle(demand, overdue, now)
    while due < edges.size and edges[due] <= now:
        settle(demand, due, now)
        for column in (WORK, RATE, WIDTH):
            demand[overdue, column] += demand[due, column]
        due += 1
    return due


@borrowing_helper
def pressure(demand: Any, edges: Any, due: int, now: int, ready: int, rules: Any) -> Any:
    """Return p(t) of equation 2, D(t, T) for the longest window T, and the width of its jobs."""
    work, width = demand[edges.size, WORK], demand[edges.size, WIDTH]
    most = 0.0
    window = 0
    while window < rules.window_us:
        window += rules.window_step_us
        while due < edges.size and edges[due] <= now + window:
            work += demand[due, WORK] - demand[due, RATE] * (now - demand[due, AS_OF])
            width += demand[due, WIDTH]
            due += 1
        if work > 0:
            ratio = rules.max_pressure
            if ready > 0:
                ratio = min(ratio, float(work) / (float(ready) * float(window)))
            most = max(most, ratio)
    return most, work, width
