"""The window that every policy of a comparison is charged for, and what is left at its end."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuplan.analysis.base.time_units import scaled_to_month
from gpuplan.analysis.history.jobs import PeriodUs
from gpuplan.simkit.run import Leases, Run, Usage, one_lease
from gpuplan.simkit.time import MICROS, MICROS_PER_HOUR


def window_of(run: Run, window_us: PeriodUs | None) -> PeriodUs:
    """Return the window; without one, from the first submission to the last finish of the run."""
    return window_us or (int(run.submit_us[0]), int(run.finish_us.max()))


def leases_within(run: Run, window_us: PeriodUs | None, standing_gpus: int | None) -> Leases:
    """Return the GPUs rented within the window.

    Args:
        run: what happened.
        window_us: its begin and end; None for all that was rented.
        standing_gpus: GPUs of a cluster that stands throughout; None for GPUs rented as needed.
    """
    leases = run.rented
    if window_us is None:
        return leases
    first, end = window_us
    if standing_gpus is not None:
        return one_lease(first, end, standing_gpus)
    begun = leases.begin_us < end
    return Leases(leases.begin_us[begun], np.minimum(leases.end_us[begun], end), leases.gpus[begun])


def used_after(usage: Usage, end_us: int) -> float:
    """Return the GPU time in use after an instant, in GPU x microseconds."""
    begin = np.maximum(usage.time_us[:-1], end_us)
    lasting = np.maximum(usage.time_us[1:] - begin, 0)
    return float((lasting.astype(np.float64) * usage.used[:-1]).sum())


def share_within(run: Run, window_us: PeriodUs | None) -> float:
    """Return the share of the GPU time that jobs hold which lies within the window."""
    held = float(run.held_gpu_us.sum())
    if window_us is None or not held:
        return 1.0
    return max(0.0, 1 - used_after(run.usage, window_us[1]) / held)


def window_results(
    run: Run, window_us: PeriodUs | None, cost_usd: float, gpus: int | None = None
) -> dict[str, Any]:
    """Return what a bill covers; keys are stable and carry their unit.

    ``backlog_jobs`` run or wait at the end of the window, and ``backlog_gpu_h`` is the GPU time
    held after it. ``gpus`` is the size of the cluster, or the most GPUs that jobs use at once.
    """
    begin_us, end_us = window_of(run, window_us)
    window_s = (end_us - begin_us) / MICROS
    return {
        "gpus": int(run.usage.used.max(initial=0)) if gpus is None else gpus,
        "usd_per_month": scaled_to_month(cost_usd, window_s),
        "window_s": window_s,
        "backlog_jobs": int((run.finish_us > end_us).sum()),
        "backlog_gpu_h": used_after(run.usage, end_us) / MICROS_PER_HOUR,
    }
