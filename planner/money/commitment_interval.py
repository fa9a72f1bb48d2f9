"""How sure a commitment is: the same question of resampled stretches of the log's time."""

from __future__ import annotations

import numpy as np

from gpuplan.analysis.base.arrays import FloatArray
from gpuplan.analysis.statistics.block_length import block_length
from gpuplan.analysis.statistics.bootstrap import draw_blocks, expanded_tail
from gpuplan.planner.money.gpus_in_use import GpusInUse
from gpuplan.planner.runs.gpu_intervals import GpuInterval, Resampling

BINS = 2048
LEAST_BINS = 20


def commitment_interval(
    use: GpusInUse, owned_gpus: int, share: float, resampling: Resampling
) -> GpuInterval | None:
    """Return the interval of the cheapest commitment, by blocks of successive stretches of time.

    The optimum of a resample is at most c where the next GPU would idle for at least the share
    ``1 - committed / on-demand price`` of its time, so the ends are found without any optimum.

    Args:
        use: GPUs in use over time.
        owned_gpus: that take work first.
        share: that share; above 0, else there is no interval.
        resampling: how.
    """
    bins = min(BINS, use.window_us)
    if share <= 0 or bins < LEAST_BINS:
        return None
    edges = np.linspace(0, use.window_us, bins + 1)
    lasting = np.diff(use.edges_us).astype(np.float64)
    above = np.maximum(use.gpus - owned_gpus, 0.0)

    def per_bin(values: FloatArray) -> FloatArray:
        total = np.append(0.0, np.cumsum(values * lasting))
        return np.diff(np.interp(edges, use.edges_us, total))

    block = block_length(per_bin(above))
    rng = np.random.default_rng(resampling.seed)
    blocks = draw_blocks(bins, block, resampling.resamples, rng)
    tail = expanded_tail(resampling.level, blocks.count) / 100
    needed = share * use.window_us * (1 - 1e-12)

    def reached(gpus: int) -> float:
        """Return the share of the resamples whose optimum is at most so many GPUs."""
        idle = per_bin(1 - np.clip(above - gpus, 0.0, 1.0))
        return float((blocks.sums(idle) >= needed).mean())

    def first(least: float) -> int:
        low, high = 0, max(0, use.peak - owned_gpus)
        while low < high:
            middle = (low + high) // 2
            if reached(middle) >= least:
                high = middle
            else:
                low = middle + 1
        return low

    return GpuInterval(resampling.level, first(tail), first(1 - tail), resampling.resamples)
