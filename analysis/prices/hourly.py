"""Prices and the GPU time of a trace, both hour by hour, as arrays for replays and bills.

A job holds its GPUs from submission + wait for its duration.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from gpuplan.analysis.base.arrays import FloatArray
from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.time_units import HOUR_S, HOUR_US
from gpuplan.analysis.characterize.shares import name_codes
from gpuplan.analysis.history.steps import means_within
from gpuplan.analysis.job_table.gpu_names import gpu_name, same_gpu
from gpuplan.analysis.price_formats.schema import OFFER
from gpuplan.analysis.prices.price_table import PriceTable, in_force
from gpuplan.analysis.trace.trace import Trace

US_PER_S = 1e6
MOST_HOURS = 100_000_000
"""Hours of all series of an offer; of each there are several numbers."""


@dataclass(frozen=True, slots=True)
class HourlyPrices:
    """The price of one source of GPUs in each hour of the Unix epoch, US dollars per GPU-hour.

    Within an hour a price counts by the time it is in force. NaN if unknown.

    Attributes:
        provider, gpu_type, kind: the identity of the source.
        first_hour: hours of the Unix epoch before the first element.
        typical: median of the median offers of its regions and instance types; shape (n,).
        lowest: the lowest offer of any of them; shape (n,).
        cover: share of the hour in which a price is in force; shape (n,).
    """

    provider: str
    gpu_type: str
    kind: str
    first_hour: int
    typical: FloatArray
    lowest: FloatArray
    cover: FloatArray

    @property
    def source(self) -> tuple[str, str, str]:
        """Provider, GPU and kind."""
        return self.provider, self.gpu_type, self.kind

    @property
    def mean(self) -> float:
        """Time-weighted mean of the typical price."""
        return self._mean(self.typical)

    @property
    def mean_lowest(self) -> float:
        """Time-weighted mean of the lowest price."""
        return self._mean(self.lowest)

    def _mean(self, price: FloatArray) -> float:
        is_priced = self.cover > 0
        return float(np.average(price[is_priced], weights=self.cover[is_priced]))


def hourly_prices(table: PriceTable, gpu: str | None = None) -> tuple[HourlyPrices, ...]:
    """Return every source of a price table hour by hour, in the order of provider, GPU and kind.

    Args:
        table: the prices.
        gpu: only sources with a GPU that can be this one (see `same_gpu`).
    """
    groups = in_force(table).partition_by(OFFER, as_dict=True, maintain_order=True)
    names = sorted((str(p), str(g), str(k)) for p, g, k in groups)
    return tuple(
        _hourly(table.path, *name, groups[name])
        for name in names
        if gpu is None or same_gpu(gpu, name[1])
    )


def common_means(prices: HourlyPrices, other: HourlyPrices) -> tuple[float, float] | None:
    """Return the means of two typical prices over the hours in which both are known.

    Hours count by the share of them in which ``prices`` are in force. None without such an hour.
    """
    first = max(prices.first_hour, other.first_hour)
    last = min(o.first_hour + o.typical.size for o in (prices, other))
    if first >= last:
        return None
    of_first, of_second = (
        slice(first - o.first_hour, last - o.first_hour) for o in (prices, other)
    )
    both = (prices.cover[of_first] > 0) & (other.cover[of_second] > 0)
    if not both.any():
        return None
    weight = prices.cover[of_first][both]
    means = (
        np.average(p[both], weights=weight)
        for p in (prices.typical[of_first], other.typical[of_second])
    )
    mean, full = map(float, means)
    return mean, full


def _hourly(
    path: Path, provider: str, gpu_type: str, kind: str, stretches: pl.DataFrame
) -> HourlyPrices:
    first = int(stretches["start_us"].min()) // HOUR_US  # type: ignore[arg-type]
    last = -(-int(stretches["end_us"].max()) // HOUR_US)  # type: ignore[arg-type]
    series_count = stretches.n_unique(["region", "instance"])
    if (last - first) * series_count > MOST_HOURS:
        raise InputError(
            path,
            f"has prices of {provider} {gpu_type} in {series_count:,} series over "
            f"{last - first:,} hours",
            expected=f"at most {MOST_HOURS:,} hours of all series",
            hint="keep the rows of fewer years or regions",
        )
    edges = np.arange(first, max(last, first + 1) + 1) * HOUR_US
    typical, lowest, cover = [], [], []
    for series in stretches.partition_by("region", "instance", maintain_order=True):
        start, end = series["start_us"].to_numpy(), series["end_us"].to_numpy()
        has_price, (usual, cheapest) = means_within(
            edges, start, end, series["typical"].to_numpy(), series["lowest"].to_numpy()
        )
        typical.append(usual)
        lowest.append(cheapest)
        cover.append(has_price)
    some = np.max(cover, axis=0) > 0
    middle, least = np.full((2, edges.size - 1), np.nan)
    middle[some] = np.nanmedian(np.stack(typical)[:, some], axis=0)
    least[some] = np.nanmin(np.stack(lowest)[:, some], axis=0)
    return HourlyPrices(provider, gpu_type, kind, first, middle, least, np.max(cover, axis=0))


@dataclass(frozen=True, slots=True)
class HourlyDemand:
    """GPU time of the jobs of one GPU type, in hours of the Unix epoch.

    Attributes:
        gpu_type: the GPU; None where it is not known.
        jobs: jobs that hold GPUs.
        gpu_hours: time held x GPUs, summed.
        start_h, end_h: when each job holds its GPUs; shape (n,). Empty without a calendar.
        num_gpus: GPUs held; shape (n,).
    """

    gpu_type: str | None
    jobs: int
    gpu_hours: float
    start_h: FloatArray
    end_h: FloatArray
    num_gpus: FloatArray

    def in_hours(self, first: int, count: int) -> FloatArray:
        """Return the GPU-hours in each of ``count`` hours from ``first`` on; shape (count,)."""
        begin = np.clip(self.start_h - first, 0.0, count)
        end = np.clip(self.end_h - first, 0.0, count)
        into, out = begin.astype(np.int64), end.astype(np.int64)  # floors: nothing is below 0
        gpus, within = self.num_gpus, into == out
        held = np.zeros(count + 2)
        held += np.bincount(into, gpus * (np.where(within, end, into + 1) - begin), count + 2)
        held += np.bincount(out, gpus * np.where(within, 0.0, end - out), count + 2)
        held_gpus = np.where(within, 0.0, gpus)  # held throughout the hours between
        steps = np.bincount(into + 1, held_gpus, count + 2) - np.bincount(out, held_gpus, count + 2)
        result: FloatArray = (held + np.cumsum(steps).round(9))[:count]  # rounding leaves no GPU
        return result


def demands(trace: Trace, gpu: str | None) -> tuple[HourlyDemand, ...]:
    """Return the GPU time of a trace by GPU type, in order of names, the unknown last.

    Args:
        trace: read with at least `DEMAND_COLUMNS`.
        gpu: the GPU of jobs that name none.
    """
    jobs = trace.arrays()
    chosen = jobs.holding()
    codes, written = name_codes(trace.jobs["gpu_type"])
    named = [*map(gpu_name, written), gpu]  # the last code is that of jobs that name none
    is_held = np.zeros(len(named), dtype=np.bool_)
    is_held[codes[chosen]] = True
    calendar = not trace.provenance.relative_time

    def of(gpu_type: str | None) -> HourlyDemand:
        of_type = np.array([name == gpu_type for name in named])[codes] & chosen
        runs = jobs.only(of_type).runs()
        duration_h, gpus = (runs.end_us - runs.start_us) / US_PER_S / HOUR_S, runs.gpus
        count, gpu_hours = int(of_type.sum()), float((duration_h * gpus).sum())
        if not calendar:
            none = np.zeros(0)
            return HourlyDemand(gpu_type, count, gpu_hours, start_h=none, end_h=none, num_gpus=none)
        start_h = runs.start_us / US_PER_S / HOUR_S
        return HourlyDemand(gpu_type, count, gpu_hours, start_h, start_h + duration_h, gpus)

    types = {name for name, some in zip(named, is_held, strict=True) if some}
    return tuple(
        of(gpu_type) for gpu_type in sorted(types, key=lambda name: (name is None, name or ""))
    )
