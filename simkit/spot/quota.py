"""The spot quota: what a forecast of HP demand and past evictions allow (GFS, section 3.3)."""

from __future__ import annotations

import math
from typing import Any

from gpuplan.simkit.jit import borrowing_helper, borrowing_kernel


@borrowing_kernel
def next_eta(eta: float, rate: float, longest: int, rules: Any) -> float:
    """Return eta after a tick at which the eviction rate and the longest wait were these."""
    q = rules.target
    if rules.steers:
        if rate > rules.falls_above * q:
            eta *= q / rate
        elif rate < rules.rises_below * q and longest > rules.longest_wait_s:
            eta *= 1.0 + rules.rises_below - rate / q  # 1 at the threshold
        eta = min(max(eta, rules.eta_min), rules.eta_max)
    return eta


@borrowing_helper
def spot_quota(lendable: float, eta: float, idle: int, used: int) -> int:
    """Return how many milli-GPU spot may hold until the next tick.

    Args:
        lendable: GPUs left by the bound of HP demand.
        eta: the factor that follows evictions.
        idle, used: milli-GPU that nobody holds, and that spot tasks hold.
    """
    return min(math.floor(lendable * eta * 1000), idle + used)
