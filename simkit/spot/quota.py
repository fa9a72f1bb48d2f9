"""The spot quota: what a forecast of HP demand and past evictions allow (GFS, section 3.3)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.jit import borrowing_kernel as kernel


def demand_bound(
    mean: FloatArray, deviation: FloatArray, z: float, hours: int, aggregate: str
) -> FloatArray:
    """Return an upper bound of HP demand over the next hours, in GPUs; shape (k,).

    Args:
        mean, deviation: forecast of each organization's hourly peak for the hours that follow each
            clock hour, GPUs; shape (clock hours, organizations, steps).
        z: quantile of the standard normal distribution at p.
        hours: steps that count, H.
        aggregate: ``pool`` bounds the demand of all together, the greatest over the hours;
            ``sum`` adds up each organization's own bound (Eq. 9 as printed).

    Raises:
        ValueError: there are fewer steps than hours.
    """
    if mean.shape[2] < hours:
        raise ValueError(f"the forecast has {mean.shape[2]} hours, {hours} are needed")
    mean, deviation = mean[:, :, :hours], deviation[:, :, :hours]
    bound: FloatArray
    if aggregate == "pool":
        bound = (mean.sum(axis=1) + z * np.sqrt((deviation**2).sum(axis=1))).max(axis=1)
    else:
        bound = np.maximum(0.0, mean + z * deviation).max(axis=2).sum(axis=1)
    return bound


@kernel
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


@kernel
def spot_quota(lendable: float, eta: float, idle: int, used: int) -> int:
    """Return how many milli-GPU spot may hold until the next tick.

    Args:
        lendable: GPUs left by the bound of HP demand.
        eta: the factor that follows evictions.
        idle, used: milli-GPU that nobody holds, and that spot tasks hold.
    """
    return min(math.floor(lendable * eta * 1000), idle + used)
