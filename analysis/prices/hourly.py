"""Prices hour by hour, as arrays for replays and bills."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from gpuplan.analysis.arrays import FloatArray
from gpuplan.analysis.gpu_names import same_gpu
from gpuplan.analysis.price_formats.schema import OFFER
from gpuplan.analysis.prices.book import PriceBook, in_force
from gpuplan.analysis.steps import means_within
from gpuplan.analysis.time_units import HOUR_US


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
    def mean(self) -> float:
        """Time-weighted mean of the typical price."""
        return self._mean(self.typical)

    @property
    def mean_lowest(self) -> float:
        """Time-weighted mean of the lowest price."""
        return self._mean(self.lowest)

    def _mean(self, price: FloatArray) -> float:
        known = self.cover > 0
        return float(np.average(price[known], weights=self.cover[known]))


def hourly_prices(book: PriceBook, gpu: str | None = None) -> tuple[HourlyPrices, ...]:
    """Return every source of a book hour by hour, in the order of provider, GPU and kind.

    Args:
        book: the prices.
        gpu: only sources with a GPU that can be this one (see `same_gpu`).
    """
    groups = in_force(book).partition_by(OFFER, as_dict=True, maintain_order=True)
    names = sorted((str(p), str(g), str(k)) for p, g, k in groups)
    return tuple(
        _hourly(*name, groups[name]) for name in names if gpu is None or same_gpu(gpu, name[1])
    )


def common_means(one: HourlyPrices, other: HourlyPrices) -> tuple[float, float] | None:
    """Return the means of two typical prices over the hours in which both are known.

    Hours count by the share of them in which ``one`` is in force. None without such an hour.
    """
    first = max(one.first_hour, other.first_hour)
    last = min(o.first_hour + o.typical.size for o in (one, other))
    if first >= last:
        return None
    mine, theirs = (slice(first - o.first_hour, last - o.first_hour) for o in (one, other))
    both = (one.cover[mine] > 0) & (other.cover[theirs] > 0)
    if not both.any():
        return None
    weight = one.cover[mine][both]
    means = (
        np.average(p[both], weights=weight) for p in (one.typical[mine], other.typical[theirs])
    )
    mean, full = map(float, means)
    return mean, full


def _hourly(provider: str, gpu_type: str, kind: str, stretches: pl.DataFrame) -> HourlyPrices:
    first = int(stretches["start_us"].min()) // HOUR_US  # type: ignore[arg-type]
    last = -(-int(stretches["end_us"].max()) // HOUR_US)  # type: ignore[arg-type]
    edges = np.arange(first, max(last, first + 1) + 1) * HOUR_US
    typical, lowest, cover = [], [], []
    for series in stretches.partition_by("region", "instance", maintain_order=True):
        start, end = series["start_us"].to_numpy(), series["end_us"].to_numpy()
        known, (usual, cheapest) = means_within(
            edges, start, end, series["typical"].to_numpy(), series["lowest"].to_numpy()
        )
        typical.append(usual)
        lowest.append(cheapest)
        cover.append(known)
    some = np.max(cover, axis=0) > 0
    middle, least = np.full((2, edges.size - 1), np.nan)
    middle[some] = np.nanmedian(np.stack(typical)[:, some], axis=0)
    least[some] = np.nanmin(np.stack(lowest)[:, some], axis=0)
    return HourlyPrices(provider, gpu_type, kind, first, middle, least, np.max(cover, axis=0))
