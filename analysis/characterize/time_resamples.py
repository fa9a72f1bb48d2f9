"""Resamples of the time line, for statistics that count hours or GPUs held and not jobs.

They are made as those of jobs are (`analysis.statistics.bootstrap`), of blocks of successive hours
whose length follows from the series. Blocks for a rhythm are whole days or weeks; those for the
GPUs held are at least as long as one job affects them (`memory_s`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from gpuplan.analysis.base.arrays import FloatArray, IntArray
from gpuplan.analysis.base.time_units import HOUR_US, MICROS
from gpuplan.analysis.characterize.arrivals import BURST_QUANTILE, poisson_quantile
from gpuplan.analysis.characterize.load import PARTS_PER_GPU, held_over_time
from gpuplan.analysis.characterize.seasonality import (
    DAY_H,
    WEEK_H,
    explained,
    hourly_series,
    most_hours,
)
from gpuplan.analysis.history.jobs import JobArrays
from gpuplan.analysis.history.steps import quantiles_of_sorted
from gpuplan.analysis.statistics.block_length import ENOUGH_BLOCKS, LEAST_BLOCKS, block_length
from gpuplan.analysis.statistics.bootstrap import draw_blocks

LEAST_CELLS = 10 * LEAST_BLOCKS
HELD_SHARES = (0.5, 0.95)
LOAD = ("load.p50_gpus", "load.p95_gpus", "load.peak_gpus")
BURSTS = tuple(f"arrivals.bursts.{name}" for name in
               ("hours", "share_hours", "share_jobs", "windows"))  # fmt: skip
RHYTHMS = {"daily_strength": DAY_H, "weekly_strength": WEEK_H}


Resampled = tuple[dict[str, FloatArray], int]
"""Statistics over resamples, by their paths in the results, and the blocks in a resample."""


def resampled_load(jobs: JobArrays, resamples: int, rng: np.random.Generator) -> Resampled:
    """Return percentiles and peak of the GPUs held from the first submission to the last.

    That time is cut into cells of an hour (at least `LEAST_CELLS`), and a resample is made of
    blocks of cells. The peak of a resample is never above that of the trace.
    """
    until = int(jobs.submit_us[-1] - jobs.submit_us[0])
    if until < LEAST_CELLS or not jobs.holding().any():  # cells are of a microsecond or more
        return _undefined(LOAD, resamples), 0
    cells = min(max(-(-until // HOUR_US), LEAST_CELLS), most_hours(jobs.jobs))
    edges = np.rint(np.arange(cells + 1) * (until / cells)).astype(np.int64)
    times, held, _ = held_over_time(jobs)
    at = np.union1d(times[times < until], edges[:-1])
    level = held[np.searchsorted(times, at, side="right") - 1]
    most = np.maximum.reduceat(level, np.searchsorted(at, edges[:-1]))
    lasting = np.diff(at, append=until)
    cell = np.searchsorted(edges, at, side="right") - 1
    mean = np.bincount(cell, level * (lasting * (cells / until)), minlength=cells)
    order = np.argsort(level, kind="stable")
    lasting, cell, level = lasting[order], cell[order], level[order]
    memory = np.ceil(memory_s(jobs) * MICROS * cells / until)
    block = int(min(max(block_length(mean.astype(np.float64)), memory), cells // ENOUGH_BLOCKS))
    blocks = draw_blocks(cells, block, resamples, rng)

    def held_gpus(resample: int) -> list[float]:
        occurs = blocks.occurrences(resample)
        held = quantiles_of_sorted(level, lasting * occurs[cell], HELD_SHARES)
        return [*(held / PARTS_PER_GPU), most[occurs > 0].max() / PARTS_PER_GPU]

    return _of_resamples(LOAD, held_gpus, resamples), blocks.count


def memory_s(jobs: JobArrays) -> float:
    """Return the correlation time of the GPUs held, in seconds; 0 if none are held.

    If jobs arrive as a Poisson stream, the GPUs held at two times t apart have a covariance in
    proportion to E[g^2 max(D - t, 0)], g the GPUs and D the duration of a job. The area under
    their correlation, on both sides of 0, is E[g^2 D^2] / E[g^2 D].
    """
    chosen = jobs.holding()
    weight = jobs.gpu_s[chosen] * jobs.num_gpus[chosen]
    total = float(weight.sum())
    return float((weight * jobs.held_s[chosen]).sum()) / total if total > 0 else 0.0


def resampled_bursts(submit_us: IntArray, resamples: int, rng: np.random.Generator) -> Resampled:
    """Return the burst hours of resamples; each has the bound that its own mean gives.

    Undefined for less than `LEAST_BLOCKS` hours, and more than `most_hours`.
    """
    hour = (submit_us - submit_us[0]) // HOUR_US
    hours = int(hour[-1]) + 1
    if not LEAST_BLOCKS <= hours <= most_hours(submit_us.size):
        return _undefined(BURSTS, resamples), 0
    counts = np.bincount(hour)
    bursts = counts > poisson_quantile(submit_us.size / hours, BURST_QUANTILE)
    block = block_length(counts.astype(np.float64), bursts.astype(np.float64))
    blocks = draw_blocks(hours, block, resamples, rng)

    def burst_statistics(resample: int) -> list[float]:
        sampled = counts[blocks.positions(resample)]
        jobs = int(sampled.sum())
        if not jobs:
            return [0.0, 0.0, np.nan, 0.0]
        over = sampled > poisson_quantile(jobs / hours, BURST_QUANTILE)
        hours_over = np.count_nonzero(over)
        windows = np.count_nonzero(over[1:] & ~over[:-1]) + over[0]
        return [hours_over, hours_over / hours, sampled[over].sum() / jobs, windows]

    return _of_resamples(BURSTS, burst_statistics, resamples), blocks.count


def resampled_rhythm(
    submit_us: IntArray, zone: str | None, resamples: int, rng: np.random.Generator
) -> list[Resampled]:
    """Return the strength of the daily and of the weekly rhythm, from ten days and weeks on.

    An hour brings along its place on the clock; blocks are whole days, or weeks, so that every
    place is as frequent. Means over days sampled twice differ more than means over different days,
    which makes the rhythm of a resample look stronger: the values are moved to have the
    statistic for their mean, and cut to 0 to 1.
    """
    hourly = hourly_series(submit_us, zone)
    result: list[Resampled] = []
    for clock, (name, cycle_h) in enumerate(RHYTHMS.items()):
        path = f"arrivals.seasonality.{name}"
        cycles = 0 if hourly is None else hourly[0].size // cycle_h
        if hourly is None or cycles < LEAST_BLOCKS:
            result.append((_undefined([path], resamples), 0))
            continue
        series, labels = hourly[0], hourly[1:][clock]
        cycles_gpus = series[: cycles * cycle_h].reshape(cycles, cycle_h)
        block = block_length(cycles_gpus.mean(axis=1), cycles_gpus.std(axis=1))
        blocks = draw_blocks(series.size, cycle_h * block, resamples, rng)
        values = np.full(resamples, np.nan)
        for resample in range(resamples):
            rows = blocks.positions(resample)
            if np.ptp(series[rows]) > 0:
                values[resample] = explained(series[rows], labels[rows])
        moved = values - values.mean() + explained(series, labels)
        result.append(({path: np.clip(moved, 0.0, 1.0)}, blocks.count))
    return result


def _of_resamples(
    names: Sequence[str], statistics: Callable[[int], list[float]], resamples: int
) -> dict[str, FloatArray]:
    with ThreadPoolExecutor(max_workers=2) as pool:  # NumPy releases the interpreter's lock
        rows = np.array(list(pool.map(statistics, range(resamples))), dtype=np.float64)
    return dict(zip(names, rows.T, strict=True))


def _undefined(names: Sequence[str], resamples: int) -> dict[str, FloatArray]:
    return {name: np.full(resamples, np.nan) for name in names}
