"""Deferred work on idle GPUs, in amounts: what runs when."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.simkit.jit import kernel


@kernel
def run_deferred(arrived: Any, due: Any, idle: Any) -> Any:
    """Return the GPUs on which deferred work runs, by bin: idle ones at once, others when due.

    Args:
        arrived, due: running sums over bins, in GPU-bins; shape (bins,).
        idle: GPUs that are paid for and idle; below 0 where they are too few.
    """
    ran = np.zeros(idle.size)
    done = 0.0
    for at in range(idle.size):
        ran[at] = max(due[at] - done, min(idle[at], arrived[at] - done), 0.0)
        done += ran[at]
    return ran
