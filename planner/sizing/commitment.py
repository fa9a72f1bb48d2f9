"""How many GPUs to commit to, where others can be rented on demand.

The GPUs in use over time are those of the log's history, each run as recorded. A
committed GPU is paid all the time, one on demand only while it is in use. The cost is convex in
the commitment, and least at the (1 - committed / on-demand price) quantile over time of the GPUs
in use (the newsvendor's critical fractile).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gpuplan.analysis.base.time_units import MONTH_H
from gpuplan.analysis.statistics.block_length import block_length
from gpuplan.analysis.statistics.bootstrap import draw_blocks, expanded_tail
from gpuplan.planner.sizing.sized_replay import GpuInterval, Resampling
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.steps import levels_of_intervals

BINS = 2048
LEAST_BINS = 20


@dataclass(frozen=True, slots=True)
class Demand:
    """GPUs in use over time.

    Attributes:
        edges_us: times at which the number may change, from 0 to the end of the window; (k + 1,).
        gpus: in use between two of them; shape (k,).
    """

    edges_us: IntArray
    gpus: IntArray

    @property
    def window_us(self) -> int:
        """The time in which it is observed."""
        return int(self.edges_us[-1])

    @property
    def peak(self) -> int:
        """Most GPUs in use."""
        return int(self.gpus.max())

    def gpu_us(self, most: int | None = None) -> int:
        """Return the GPU time in use, up to ``most`` GPUs at once."""
        held = self.gpus if most is None else np.minimum(self.gpus, most)
        lasting = np.diff(self.edges_us)
        return int((held.astype(object) * lasting).sum())

    def quantile(self, share: Fraction) -> int:
        """Return the fewest GPUs not exceeded for a share of the time; 0 for a share up to 0."""
        if share <= 0:
            return 0
        order = np.argsort(self.gpus, kind="stable")
        passed = np.cumsum(np.diff(self.edges_us)[order])
        needed = -(-share.numerator * self.window_us // share.denominator)
        return int(self.gpus[order][np.searchsorted(passed, needed, side="left")])


def demand_of(start_us: IntArray, end_us: IntArray, gpus: IntArray, window_us: int) -> Demand:
    """Return the GPUs in use by runs.

    Args:
        start_us, end_us: of each run, after the begin of the window; shape (n,).
        gpus: of each; shape (n,).
        window_us: length of the window; no run ends later.
    """
    first = np.zeros(1, np.int64)  # the function begins at 0
    times, level = levels_of_intervals(
        np.append(first, start_us), np.append(first, end_us), np.append(first, gpus)
    )
    end = max(window_us, int(times[-1]))
    edges = np.append(times, end)
    if edges[-1] == edges[-2]:
        edges, level = edges[:-1], level[:-1]
    return Demand(edges, level)


@dataclass(frozen=True, slots=True)
class CommitmentResult:
    """GPUs to commit to where on-demand GPUs fill in and no job waits.

    Attributes:
        committed_gpus: paid all the time.
        on_demand_mean_gpus, on_demand_peak_gpus: rented beside them.
        usd_per_month: of both.
        all_committed_usd_per_month: of as many committed GPUs as are in use at once.
        all_on_demand_usd_per_month: of the same jobs without a commitment.
        coverage_share: share of the GPU time in use that runs on committed GPUs.
        utilization: share of the committed GPU time that is in use; null without a commitment.
        interval: of the commitment; null without one, or with several GPU types.
    """

    committed_gpus: int
    on_demand_mean_gpus: float
    on_demand_peak_gpus: int
    usd_per_month: float
    all_committed_usd_per_month: float
    all_on_demand_usd_per_month: float
    coverage_share: float | None
    utilization: float | None
    interval: GpuInterval | None


def plan_commitment(
    demand: Demand, commit_usd: float, on_demand_usd: float, confidence: Resampling | None
) -> CommitmentResult:
    """Return the cheapest commitment, exact for the demand given.

    Args:
        demand: GPUs in use over time; some time passes.
        commit_usd, on_demand_usd: dollars per GPU-hour, above 0.
        confidence: of the interval; None for none.
    """
    share = 1 - Fraction(str(commit_usd)) / Fraction(str(on_demand_usd))
    committed = demand.quantile(share)
    within, whole = demand.gpu_us(committed), demand.gpu_us()
    mean_beside = (whole - within) / demand.window_us
    return CommitmentResult(
        committed_gpus=committed,
        on_demand_mean_gpus=mean_beside,
        on_demand_peak_gpus=max(0, demand.peak - committed),
        usd_per_month=(committed * commit_usd + mean_beside * on_demand_usd) * MONTH_H,
        all_committed_usd_per_month=demand.peak * commit_usd * MONTH_H,
        all_on_demand_usd_per_month=whole / demand.window_us * on_demand_usd * MONTH_H,
        coverage_share=within / whole if whole else None,
        utilization=within / (committed * demand.window_us) if committed else None,
        interval=None if confidence is None else _interval(demand, float(share), confidence),
    )


def _interval(demand: Demand, share: float, resampling: Resampling) -> GpuInterval | None:
    """Return the interval of a quantile over time, by blocks of successive stretches of time.

    The quantile of a resample is at most c where its share of the time with at most c GPUs in use
    reaches the share sought, so the ends of the interval are found without any quantile.
    """
    bins = min(BINS, demand.window_us)
    if share <= 0 or bins < LEAST_BINS:
        return None
    edges = np.linspace(0, demand.window_us, bins + 1)
    lasting = np.diff(demand.edges_us).astype(np.float64)

    def per_bin(values: FloatArray) -> FloatArray:
        total = np.append(0.0, np.cumsum(values * lasting))
        return np.diff(np.interp(edges, demand.edges_us, total))

    block = block_length(per_bin(demand.gpus.astype(np.float64)))
    rng = np.random.default_rng(resampling.seed)
    blocks = draw_blocks(bins, block, resampling.resamples, rng)
    tail = expanded_tail(resampling.level, blocks.count) / 100
    needed = share * demand.window_us * (1 - 1e-12)
    levels = np.unique(demand.gpus)

    def reached(level: int) -> float:
        """Return the share of the resamples whose quantile is at most a level."""
        under = per_bin((demand.gpus <= level).astype(np.float64))
        return float((blocks.sums(under) >= needed).mean())

    def first(least: float) -> int:
        low, high = 0, levels.size - 1
        while low < high:
            middle = (low + high) // 2
            if reached(int(levels[middle])) >= least:
                high = middle
            else:
                low = middle + 1
        return int(levels[low])

    return GpuInterval(resampling.level, first(tail), first(1 - tail), resampling.resamples)
