"""When GPUs did nothing: while other jobs waited for GPUs of the same type, or while nobody did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from gpuplan.analysis.base.time_units import HOUR_S, HOUR_US, MICROS
from gpuplan.analysis.characterize.clock import local_time
from gpuplan.analysis.characterize.load import bin_width_s
from gpuplan.analysis.history.runs import START_US, SUBMIT_US
from gpuplan.analysis.trace.trace import Trace
from gpuplan.analysis.waits.pools import kind_of, partition_kinds
from gpuplan.simkit.arrays import FloatArray, IntArray, distinct

HOURS_A_DAY = 24


@dataclass(frozen=True, slots=True)
class WasteHour:
    """The GPU-hours that did nothing in one hour of the day, of the whole log.

    Attributes:
        hour: 0 to 23, local time of the log.
        waited_gpu_h: while other jobs waited for GPUs of the same type.
        free_gpu_h: while none did.
    """

    hour: int
    waited_gpu_h: float
    free_gpu_h: float


@dataclass(frozen=True, slots=True)
class WasteBin:
    """The GPU-hours that did nothing in one stretch of time.

    Attributes:
        start: of the stretch, UTC.
        waited_gpu_h, free_gpu_h: as in `WasteHour`.
    """

    start: str
    waited_gpu_h: float
    free_gpu_h: float


@dataclass(frozen=True, slots=True)
class WasteClock:
    """When GPUs did nothing.

    Attributes:
        waited_gpu_h, free_gpu_h: as in `WasteHour`, of the whole log.
        waited_share: of both, the share while other jobs waited.
        hours: by hour of the day; empty for a log without dates.
        timeline: over time, by the hour, or in at most 200 bins of whole hours.
    """

    waited_gpu_h: float
    free_gpu_h: float
    waited_share: float
    hours: tuple[WasteHour, ...]
    timeline: tuple[WasteBin, ...]


def waste_clock(log: Trace, waste_gpu_h: FloatArray, zone: str) -> WasteClock | None:
    """Return when GPUs did nothing; None where no wait is recorded, or no GPU did nothing.

    The GPU-hours of a job are spread evenly over its runs.

    Args:
        log: with the columns of waits.
        waste_gpu_h: GPU-hours of each job in which its GPUs did nothing; shape (n,).
        zone: of local times.
    """
    jobs = log.jobs
    if not waste_gpu_h.sum() > 0 or jobs["queue_s"].null_count() == jobs.height:
        return None
    kinds = jobs.select(kind_of(jobs, partition_kinds(jobs)))["kind"]
    arrays = log.arrays()
    runs = arrays.runs()
    chosen = (waste_gpu_h[runs.job] > 0) & (runs.end_us > runs.start_us)
    runs = runs.chosen(chosen)
    begin = int(runs.start_us.min()) // HOUR_US * HOUR_US
    end = -(-int(runs.end_us.max()) // HOUR_US) * HOUR_US
    edges = np.arange(begin, end + 1, HOUR_US, dtype=np.int64)
    held_gpu_h = arrays.gpu_s / HOUR_S
    rate = runs.gpus * (waste_gpu_h / np.maximum(held_gpu_h, 1e-12))[runs.job]
    waited = np.zeros(edges.size - 1)
    total_h = np.zeros(edges.size - 1)
    names, codes = np.unique(kinds.to_numpy().astype(str), return_inverse=True)
    codes = codes.reshape(-1)
    for code in range(names.size):
        of_kind = codes[runs.job] == code
        if not of_kind.any():
            continue
        held = _Integral.of(runs.start_us[of_kind], runs.end_us[of_kind], rate[of_kind])
        total_h += np.diff(held.until(edges))
        for first, last in _stretches(jobs.filter(codes == code), edges):
            hour = (first - begin) // HOUR_US
            np.add.at(waited, hour, held.until(last) - held.until(first))
    waited, total_h = waited / HOUR_US, total_h / HOUR_US
    free = np.maximum(total_h - waited, 0)
    hours = () if log.provenance.relative_time else tuple(_by_hour(edges, waited, free, zone))
    return WasteClock(
        waited_gpu_h=float(waited.sum()),
        free_gpu_h=float(free.sum()),
        waited_share=float(waited.sum() / (waited.sum() + free.sum())),
        hours=hours,
        timeline=tuple(_timeline(edges, waited, free)),
    )


@dataclass(frozen=True, slots=True)
class _Integral:
    """The sum over time of stretches that hold a level.

    Attributes:
        at: instants, ascending; shape (m,).
        total: the sum until each.
    """

    at: IntArray
    total: FloatArray

    @classmethod
    def of(cls, start: IntArray, end: IntArray, level: FloatArray) -> _Integral:
        at, place = np.unique(np.concatenate([start, end]), return_inverse=True)
        change = np.bincount(
            place.reshape(-1), weights=np.concatenate([level, -level]), minlength=at.size
        )
        steps = np.cumsum(change)[:-1] * np.diff(at)
        return cls(at, np.concatenate([[0.0], np.cumsum(steps)]))

    def until(self, at: IntArray) -> FloatArray:
        total: FloatArray = np.interp(at, self.at, self.total)
        return total


def _stretches(jobs: pl.DataFrame, edges: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield begins and ends of the stretches in which a job waits, cut at the edges."""
    is_known = pl.col("queue_s").is_not_null() & pl.col("queue_s").is_not_nan()
    waiting = jobs.filter((pl.col("num_gpus") > 0) & is_known & (pl.col("queue_s") > 0))
    if waiting.is_empty():
        return
    ready = SUBMIT_US
    if "eligible_time" in waiting.columns:
        ready = pl.max_horizontal(ready, pl.col("eligible_time").dt.epoch("us").fill_null(0))
    times = waiting.select(first=ready, last=START_US).filter(pl.col("last") > pl.col("first"))
    times = times.sort("first")
    first, last = times["first"].to_numpy(), np.maximum.accumulate(times["last"].to_numpy())
    if not first.size:
        return
    is_new = np.concatenate([[True], first[1:] > last[:-1]])
    opens = first[is_new]
    closes = last[np.concatenate([np.flatnonzero(is_new)[1:] - 1, [first.size - 1]])]
    opens, closes = np.clip(opens, edges[0], edges[-1]), np.clip(closes, edges[0], edges[-1])
    cuts = distinct(np.concatenate([opens, closes, edges]))
    inside = np.searchsorted(opens, cuts[:-1], side="right") - 1
    within = (inside >= 0) & (cuts[:-1] < closes[np.maximum(inside, 0)])
    yield cuts[:-1][within], cuts[1:][within]


def _by_hour(
    edges: IntArray, waited: FloatArray, free: FloatArray, zone: str
) -> Iterator[WasteHour]:
    hour = local_time(pl.Series(edges[:-1]), zone).dt.hour().to_numpy()
    sums = [np.bincount(hour, weights=each, minlength=HOURS_A_DAY) for each in (waited, free)]
    for number in range(HOURS_A_DAY):
        yield WasteHour(number, float(sums[0][number]), float(sums[1][number]))


def _timeline(edges: IntArray, waited: FloatArray, free: FloatArray) -> Iterator[WasteBin]:
    width_s = bin_width_s(float(edges[-1] - edges[0]) / MICROS)
    hours = max(int(width_s // HOUR_S), 1)
    for first in range(0, waited.size, hours):
        part = slice(first, first + hours)
        start = pl.Series(edges[first : first + 1]).cast(pl.Datetime("us"))[0]
        yield WasteBin(start.isoformat(), float(waited[part].sum()), float(free[part].sum()))
