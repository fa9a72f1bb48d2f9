"""Execution time over batch size and share of the SMs, as measured in a profile."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.jit import borrowing_helper, borrowing_kernel

SATURATED = 0.98  # of the best rate


class Curves(NamedTuple):
    """The curves of F functions, each measured at up to M batch sizes and K shares.

    ``batch`` (F, M) are the batch sizes, ascending, the last repeated; ``share`` (F, K) the shares,
    from 0, the last repeated; ``rate`` (F, M, K) batches per second, non-decreasing over the share;
    ``points`` (F,) counts the shares.
    """

    batch: Any
    share: Any
    rate: Any
    points: Any


@borrowing_helper
def batch_rate(curves: Any, function: int, row: int, share: float) -> float:
    """Return batches per second at a measured batch size: linear between shares, flat above."""
    points = curves.points[function]
    at = 1
    while at < points and curves.share[function, at] <= share:
        at += 1
    below = curves.rate[function, row, at - 1]
    if at == points:
        return float(below)
    low, high = curves.share[function, at - 1], curves.share[function, at]
    above = curves.rate[function, row, at]
    return float(below + (above - below) * (share - low) / (high - low))


@borrowing_kernel
def exec_time(curves: Any, function: int, batch: int, share: float) -> float:
    """Return the seconds of a batch: linear in its size between measured sizes, flat beyond."""
    most = curves.batch.shape[1]
    high = 0
    while high < most - 1 and curves.batch[function, high] < batch:
        high += 1
    above = curves.batch[function, high]
    low = high if above <= batch or high == 0 else high - 1
    rate = batch_rate(curves, function, low, share)
    if rate == 0.0:
        return np.inf
    first = 1 / rate
    if low == high:
        return first
    rate = batch_rate(curves, function, high, share)
    if rate == 0.0:
        return np.inf
    below = curves.batch[function, low]
    return float(first + (1 / rate - first) * (batch - below) / (above - below))


@borrowing_kernel
def saturation(curves: Any, function: int, batch: int) -> float:
    """Return the least measured share with 98% of the best rate of a batch size."""
    shares, points = curves.share[function], curves.points[function]
    best = 1 / exec_time(curves, function, batch, shares[points - 1])
    for at in range(1, points):
        if 1 / exec_time(curves, function, batch, shares[at]) >= SATURATED * best:
            return float(shares[at])
    return float(shares[points - 1])


def join_curves(tables: list[tuple[IntArray, FloatArray, FloatArray]]) -> Curves:
    """Return the curves of tables (batch, share, latency in seconds), one row per measurement.

    A table holds every share for every batch size. A rate that falls where the share rises is
    raised to the rate before it.

    Raises:
        ValueError: an empty table, a pair measured twice or not at all, or a value out of range.
    """
    grids = [_grid(*table) for table in tables]
    rows = max(batch.size for batch, _, _ in grids)
    points = max(share.size for _, share, _ in grids)
    curves = Curves(
        batch=np.zeros((len(grids), rows), np.int64),
        share=np.zeros((len(grids), points)),
        rate=np.zeros((len(grids), rows, points)),
        points=np.array([share.size for _, share, _ in grids]),
    )
    for at, (batch, share, rate) in enumerate(grids):
        curves.batch[at] = np.pad(batch, (0, rows - batch.size), mode="edge")
        curves.share[at] = np.pad(share, (0, points - share.size), mode="edge")
        pads = ((0, rows - batch.size), (0, points - share.size))
        curves.rate[at] = np.pad(rate, pads, mode="edge")
    return curves


def _grid(
    batch: IntArray, share: FloatArray, latency_s: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    if not batch.shape == share.shape == latency_s.shape or batch.ndim != 1 or not batch.size:
        raise ValueError("a profile needs arrays of one shape (n,), n >= 1")
    if batch.min() < 1 or not ((share > 0) & (share <= 1)).all() or not (latency_s > 0).all():
        raise ValueError("batches and latencies must be above 0, shares within (0, 1]")
    sizes, row = np.unique(batch, return_inverse=True)
    shares, column = np.unique(share, return_inverse=True)
    rate = np.zeros((sizes.size, shares.size + 1))
    rate[row, column + 1] = 1 / latency_s
    if batch.size != rate[:, 1:].size or not rate[:, 1:].all():
        raise ValueError("a profile needs every batch size at every share once")
    rate = np.maximum.accumulate(rate, axis=1)
    return sizes.astype(np.int64), np.concatenate([[0.0], shares]), rate
