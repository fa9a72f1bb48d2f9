"""Confidence intervals of the headline statistics, by a moving-block bootstrap.

Statistics that are sums over the jobs (means, C^2, the offered load) have a studentized interval,
all others an expanded percentile interval. A resample is a trace of the same length, made of
blocks of consecutive jobs; each job brings along its duration, its GPUs, its wait and the gap to
the next submission (see `analysis.statistics.bootstrap`). Statistics of hours and of GPUs held come
from blocks of time (`time_resamples`), the number of users from `shares.distinct_interval`.
The longest job and the main period have no interval.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.base.arrays import CountArray, FloatArray, IntArray
from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.plain import Hidden
from gpuplan.analysis.base.time_units import HOUR_S, MICROS
from gpuplan.analysis.characterize.arrivals import zone_of
from gpuplan.analysis.characterize.durations import SHORT_S
from gpuplan.analysis.characterize.shares import block_of_a_day, distinct_interval
from gpuplan.analysis.characterize.time_resamples import (
    resampled_bursts,
    resampled_load,
    resampled_rhythm,
)
from gpuplan.analysis.history.jobs import JobArrays
from gpuplan.analysis.statistics.block_length import block_length
from gpuplan.analysis.statistics.bootstrap import (
    Blocks,
    Studentized,
    at_least,
    draw_blocks,
    interval,
    ratio,
    share_hint,
    share_interval,
    squared_cv,
    studentize,
)
from gpuplan.analysis.trace.trace import Trace

MOST_RESAMPLES = 10_000  # all are held at once: of a million jobs in a day, some 3 GB
PERCENTILES = (50, 90, 95, 99)
QUEUE_PERCENTILES = (50, 90, 99)
LONGEST_PERCENTS = (10, 1)
EXTREMES = ("load.peak_gpus",)
"""Statistics that are largest in the trace itself: their intervals have a lower end only."""

Ends = tuple[float, float | None]


@dataclass(frozen=True, slots=True)
class Intervals:
    """Confidence intervals by a block bootstrap.

    Attributes:
        level: percent.
        resamples: of the bootstrap.
        block_jobs: consecutive jobs of a block.
        statistics: path of a statistic in the results -> the ends of its interval.
        medians: median duration of each resample, for comparisons; shape (resamples,).
        blocks: blocks in a resample.
    """

    level: float
    resamples: int
    block_jobs: int
    statistics: dict[str, Ends | None]
    medians: Hidden[FloatArray]
    blocks: Hidden[int]


def check_level(level: float, resamples: int) -> None:
    """Refuse too few resamples for the level, and too many. Raises `UsageError`."""
    if not 1 < level < 100:
        raise UsageError(
            f"--ci must be above 1 and below 100 percent, got {level:g}{share_hint(level)}"
        )
    if resamples > MOST_RESAMPLES:
        raise UsageError(
            f"--resamples {resamples} is too many; expected {MOST_RESAMPLES} or fewer, which tell "
            f"levels up to {100 - 400 / MOST_RESAMPLES:g}"
        )
    least = int(np.ceil(round(400 / (100 - level), 6)))  # two resamples beyond each end
    if least > MOST_RESAMPLES:
        raise UsageError(f"--ci {level:g}: expected at most {100 - 400 / MOST_RESAMPLES:g} percent")
    if resamples < least:
        raise UsageError(
            f"--resamples {resamples} is too few for --ci {level:g}; expected {least} or more"
        )


def intervals(
    trace: Trace,
    *,
    level: float,
    resamples: int,
    rng: np.random.Generator,
) -> Intervals:
    """Return the confidence intervals of a trace.

    Args:
        trace: read with at least the columns of a characterization.
        level: confidence, percent, 0 to 100 exclusive.
        resamples: number of resamples, at least 1.
        rng: draws the blocks.
    """
    jobs = trace.arrays()
    gap_s = _gaps(jobs)
    block = block_length(jobs.duration_s, gap_s, jobs.gpu_s, jobs.queue_s)
    blocks = draw_blocks(jobs.jobs, block, resamples, rng)
    samples = resampled(jobs, blocks)
    medians = samples["duration_s.p50"]
    assert isinstance(medians, np.ndarray)
    ends = {name: _ends(name, values, level, blocks.count) for name, values in samples.items()}
    for values, count in (
        resampled_load(jobs, resamples, rng),
        resampled_bursts(jobs.submit_us, resamples, rng),
        *resampled_rhythm(jobs.submit_us, zone_of(trace.provenance), resamples, rng),
    ):
        ends |= {name: _ends(name, samples, level, count) for name, samples in values.items()}
    return Intervals(
        level=level,
        resamples=resamples,
        block_jobs=block,
        statistics={
            "users": distinct_interval(
                trace.jobs["user"], block_of_a_day(jobs.jobs, jobs.span_s), level
            ),
            **ends,
        },
        medians=medians,
        blocks=blocks.count,
    )


@dataclass(frozen=True, slots=True)
class ResampledShare:
    """A share that a few jobs decide: in the resamples, shape (resamples,), and in the trace."""

    values: FloatArray
    share: float

    def interval(self, level: float, blocks: int) -> tuple[float, float] | None:
        """Return the interval of `gpuplan.analysis.statistics.bootstrap.share_interval`."""
        return share_interval(self.values, self.share, level, blocks)


Resampled = FloatArray | Studentized | ResampledShare


def _ends(name: str, samples: Resampled, level: float, blocks: int) -> Ends | None:
    """Return the interval of a statistic from its resamples."""
    if isinstance(samples, Studentized | ResampledShare):
        return samples.interval(level, blocks)
    if name in EXTREMES:
        return at_least(samples, level)
    return interval(samples, level, blocks)


def _gaps(jobs: JobArrays) -> FloatArray:
    """Return the gap after each job in seconds; NaN after the last."""
    return np.append(np.diff(jobs.submit_us) / MICROS, np.nan)


def resampled(jobs: JobArrays, blocks: Blocks) -> dict[str, Resampled]:
    """Return each statistic, by its path in the results, of every resample; NaN is undefined."""
    duration, queue, gpu = _Sorted(jobs.duration_s), _Sorted(jobs.queue_s), _GpuTime(jobs)

    def ordered(resample: int) -> list[float]:
        times = blocks.occurrences(resample)
        long, wait = duration.upto(times), queue.upto(times)
        return [
            *(duration.percentile(long, q) for q in PERCENTILES),
            *(duration.share_at_most(long, limit) for limit in SHORT_S),
            *gpu.concentration(times),
            *(queue.percentile(wait, q) for q in QUEUE_PERCENTILES),
        ]

    names = (
        *(f"duration_s.p{q}" for q in PERCENTILES),
        *(f"short_jobs.under_{limit:.0f}s" for limit in SHORT_S),
        *(f"gpu_time.top{percent}pct_longest_share" for percent in LONGEST_PERCENTS),
        "gpu_time.gini",
        *(f"queue_s.p{q}" for q in QUEUE_PERCENTILES),
    )
    with ThreadPoolExecutor(max_workers=2) as pool:  # NumPy releases the interpreter's lock
        rows = np.array(list(pool.map(ordered, range(len(blocks.starts)))))
    samples: dict[str, Resampled] = dict(zip(names, rows.T, strict=True))
    top_shares = gpu.concentration(np.ones(jobs.jobs, dtype=np.int32))
    shares = [name for name in names if name.startswith("gpu_time.")]
    samples |= {
        name: ResampledShare(rows[:, names.index(name)], share)
        for name, share in zip(shares, top_shares, strict=True)
    }
    return {
        "duration_s.mean": _mean(blocks, jobs.duration_s),
        **samples,
        "queue_s.mean": _mean(blocks, jobs.queue_s),
        **_additive(jobs, blocks),
    }


def _additive(jobs: JobArrays, blocks: Blocks) -> dict[str, Resampled]:
    """Return the statistics that are made of sums over the jobs."""
    gap_s = _gaps(jobs)
    has_gap = (~np.isnan(gap_s)).astype(np.float64)
    unit = float(np.nanmean(gap_s)) if jobs.jobs > 1 else 0.0  # keeps squares small
    gap = np.nan_to_num(gap_s) / (unit or 1.0)
    gpu_s = jobs.gpu_s if jobs.holding().any() else np.full(jobs.jobs, np.nan)
    hours = gpu_s * (jobs.jobs / HOUR_S)
    moments = np.stack([has_gap, gap, gap**2])
    zero = (gap_s == 0).astype(np.float64)
    return {
        "gpu_time.gpu_hours": studentize(blocks, np.stack([hours, np.ones(jobs.jobs)]), ratio),
        "interarrival.mean_s": _mean(blocks, gap_s),
        "interarrival.scv": studentize(blocks, moments, squared_cv),
        # A share has no heavy tail, and a rare event leaves resamples without any error.
        "interarrival.zero_share": ratio(np.stack([blocks.sums(zero), blocks.sums(has_gap)]))[0],
        "load.mean_gpus": studentize(blocks, np.stack([gpu_s, np.nan_to_num(gap_s)]), ratio),
    }


def _mean(blocks: Blocks, column: FloatArray) -> Studentized:
    """Return the mean of the known values of a column in each resample."""
    has_value = ~np.isnan(column)
    marks = np.stack([np.where(has_value, column, 0.0), has_value.astype(np.float64)])
    return studentize(blocks, marks, ratio)


class _Sorted:
    """The known values of a column, sorted, and their positions in the trace."""

    def __init__(self, column: FloatArray) -> None:
        order = np.argsort(column, kind="stable")  # NaN sorts to the end
        self.at: IntArray = order[: order.size - np.count_nonzero(np.isnan(column))]
        self.value = column[self.at]

    def upto(self, times: CountArray) -> CountArray:
        """Return the number of resampled values up to each position; empty without any."""
        upto = np.cumsum(times[self.at], dtype=np.int32)
        return upto if upto.size and upto[-1] else upto[:0]

    def percentile(self, upto: CountArray, q: float) -> float:
        """Return a percentile of a resample, by linear interpolation."""
        if not upto.size:
            return np.nan
        last = int(upto[-1]) - 1
        position = last * q / 100
        ranks = np.array([int(position), min(int(position) + 1, last)], dtype=np.int32)
        low, high = self.value[np.searchsorted(upto, ranks, side="right")]
        return float(low + (high - low) * (position - int(position)))

    def share_at_most(self, upto: CountArray, limit: float) -> float:
        """Return the share of a resample that is ``limit`` or less."""
        if not upto.size:
            return np.nan
        at = int(np.searchsorted(self.value, limit, side="right"))
        return int(upto[at - 1]) / int(upto[-1]) if at else 0.0


class _GpuTime:
    """The jobs that hold GPUs by run time and by GPU time."""

    def __init__(self, jobs: JobArrays) -> None:
        self._by_duration = _Sorted(np.where(jobs.holding(), jobs.held_s, np.nan))
        at, value = self._by_duration.at, self._by_duration.value
        self._gpu_s = jobs.gpu_s[at]
        self._tie_first = np.flatnonzero(np.diff(value, prepend=-1.0))
        self._tie_last = np.append(self._tie_first[1:], value.size) - 1
        by_gpu_s = np.argsort(self._gpu_s, kind="stable")
        self._ascending, self._ascending_at = self._gpu_s[by_gpu_s], at[by_gpu_s]

    def concentration(self, times: CountArray) -> list[float]:
        """Return the shares of the longest jobs and the Gini coefficient of a resample."""
        occur = times[self._by_duration.at]
        jobs, held = np.cumsum(occur, dtype=np.int32), np.cumsum(occur * self._gpu_s)
        if not held.size or held[-1] == 0:
            return [np.nan] * (len(LONGEST_PERCENTS) + 1)
        shares = (self._longest(jobs, held, percent) for percent in LONGEST_PERCENTS)
        return [*shares, self._gini(times[self._ascending_at], float(held[-1]))]

    def _longest(self, jobs: CountArray, held: FloatArray, percent: int) -> float:
        """Return the share of GPU time of the longest jobs, ties in proportion."""
        total = int(jobs[-1])
        count = -(-percent * total // 100)
        cut = int(np.searchsorted(jobs, np.int32(total - count), side="right"))
        tie = int(np.searchsorted(self._tie_first, cut, side="right")) - 1
        first, last = int(self._tie_first[tie]), int(self._tie_last[tie])
        jobs_below, held_below = (int(jobs[first - 1]), held[first - 1]) if first else (0, 0.0)
        places = (count - total + int(jobs[last])) / (int(jobs[last]) - jobs_below)
        return float((held[-1] - held[last] + (held[last] - held_below) * places) / held[-1])

    def _gini(self, occur: CountArray, held: float) -> float:
        """Return the Gini coefficient; a job that occurs w times has the sum of w ranks."""
        last = np.cumsum(occur, dtype=np.float64)
        total = float(last[-1])
        ranks = occur * (2 * last - occur + 1)  # twice their sum
        # Not a BLAS product: its threads cost more than they save when two resamples run at once.
        value = float(np.einsum("i,i->", ranks, self._ascending)) / (total * held)
        return min(max(value - (total + 1) / total, 0.0), 1.0)
