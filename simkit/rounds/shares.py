"""How long jobs take on equal shares of a mixed cluster whose number of jobs changes."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.jit import kernel


@kernel
def rounds_on_shares(
    work: Any, rate: Any, gpus: Any, width: Any, active: Any, begin: Any, end: Any
) -> Any:
    """Return the rounds that each job takes on its share; shape (n,).

    Args:
        work: of each job; shape (n,).
        rate, gpus: work per round on each type, and its GPUs, the fastest type first; shape (n, T).
        width: GPUs of each job.
        active: unfinished jobs in each round, which share the cluster; shape (R,).
        begin, end: the first round of each job, and the one after its last; a job that is not done
            by then goes on at the rate of its last round.
    """
    n, types = rate.shape
    rounds = np.zeros(n)
    for j in range(n):
        done, at, many, now = 0.0, begin[j], 0, 0.0
        while at < end[j]:
            if active[at] != many:
                many = active[at]
                now = 0.0
                before = 0.0
                for i in range(types):
                    most = gpus[j, i] / (many * width[j])
                    if rate[j, i] > 0:
                        before += most
                    part = max(min(most, 1 - (before - most)), 0.0)
                    now += part * rate[j, i]
            if done + now >= work[j]:
                done = (done + now) - now  # rounded as a running sum
                break
            done += now
            at += 1
        rounds[j] = (at - begin[j]) + (work[j] - done) / now
    return rounds
