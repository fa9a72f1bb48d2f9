"""Whether the rules of a site explain recorded waits at all."""

from __future__ import annotations

import numpy as np

from gpuplan.planner.runs.recorded_waits import WaitPairs

LEAST_EXPLAINED = 0.1
"""Share of the recorded waits that rules which explain something account for."""
LEAST_WAIT_S = 60.0
"""Shorter mean waits need no rule: the controller takes as long."""
HELD_BY_OTHERS = "Something other than these quotas holds the jobs."


def explains_nothing(mae_s: float, replayed_s: float, recorded_s: float) -> bool:
    """Return whether a replay is hardly better than one in which no job waits.

    One in which jobs wait longer than recorded has rules that are too strict, which is another
    matter.

    Args:
        mae_s: mean absolute error of the replayed waits.
        replayed_s: mean replayed wait.
        recorded_s: mean recorded wait of the same jobs: the error where no job waits.
    """
    if recorded_s < LEAST_WAIT_S or replayed_s >= recorded_s:
        return False
    return mae_s >= (1 - LEAST_EXPLAINED) * recorded_s


def nothing_explained(waits: WaitPairs) -> bool:
    """Return whether a replay of today explains nothing of the waits of its jobs."""
    if not waits.recorded_s.size:
        return False
    error = float(np.abs(waits.replayed_s - waits.recorded_s).mean())
    return explains_nothing(error, float(waits.replayed_s.mean()), float(waits.recorded_s.mean()))
