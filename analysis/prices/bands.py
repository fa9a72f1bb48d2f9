"""Price and availability over time, thinned for a picture (Allpass, Figures 2 and 3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from gpuplan.analysis.base.arrays import FloatArray
from gpuplan.analysis.base.time_units import HOUR_US
from gpuplan.analysis.price_formats.schema import PRICE
from gpuplan.analysis.prices.hourly import HourlyPrices
from gpuplan.analysis.prices.price_table import PriceTable

MAX_BINS = 160
BIN_HOURS = (1, 2, 3, 6, 12, 24, 48, 168, 336, 672)
_HOUR = (pl.col("timestamp").dt.epoch("us") // HOUR_US).alias("hour")


@dataclass(frozen=True, slots=True)
class PriceBand:
    """The offers of one GPU and kind over time, in bins of ``bin_h`` hours.

    Attributes:
        gpu_type, kind: the GPU and kind of the prices.
        start_h: start of each bin of which anything is known, hours of the Unix epoch; shape (n,).
        p25, median, p75: of the offers of all providers and regions in the bin, US dollars per
            GPU-hour; NaN where there is none; shape (n,).
        sources: providers with a price in the bin; shape (n,).
        available: available GPUs, summed per snapshot, mean of the bin, NaN if not recorded;
            None where it never is.
        bin_h: width of a bin, hours.
    """

    gpu_type: str
    kind: str
    start_h: FloatArray
    p25: FloatArray
    median: FloatArray
    p75: FloatArray
    sources: FloatArray
    available: FloatArray | None
    bin_h: int

    @property
    def has_prices(self) -> bool:
        """Whether any bin has a price."""
        return bool(np.isfinite(self.median).any())


def bands(table: PriceTable, hourly: tuple[HourlyPrices, ...]) -> tuple[PriceBand, ...]:
    """Return a band per GPU and kind of a price table that has any row, the longest first.

    A snapshot counts in the bin in which it was taken, a change in every hour it is in force.
    """
    recorded = table.supply.select(_HOUR).to_series()
    spans = [(source.first_hour, source.first_hour + source.typical.size) for source in hourly]
    if not recorded.is_empty():
        spans.append((int(recorded[0]), int(recorded[-1]) + 1))
    first, last = min(start for start, _ in spans), max(end for _, end in spans)
    bin_h = next((h for h in BIN_HOURS if (last - first) <= h * MAX_BINS), BIN_HOURS[-1])
    points = pl.concat([_snapshots(table), _changes(table, hourly)]).with_columns(
        (pl.col("hour") - first) // bin_h
    )
    binned = (
        points.group_by("gpu_type", "kind", "hour")
        .agg(
            *(
                pl.col(PRICE).quantile(share, "linear").alias(name)
                for name, share in (("p25", 0.25), ("median", 0.5), ("p75", 0.75))
            ),
            pl.col("provider").n_unique().cast(pl.Float64).alias("sources"),
        )
        .join(
            _available(table, first, bin_h),
            on=["gpu_type", "kind", "hour"],
            how="full",
            coalesce=True,
        )
        .with_columns(
            pl.col("p25", "median", "p75").fill_null(np.nan), pl.col("sources").fill_null(0)
        )
        .sort("gpu_type", "kind", "hour")
    )
    groups = binned.partition_by("gpu_type", "kind", maintain_order=True)
    each = (_band(group, first, bin_h) for group in groups)
    return tuple(sorted(each, key=lambda band: (-band.start_h.size, band.gpu_type, band.kind)))


def _snapshots(table: PriceTable) -> pl.DataFrame:
    rows = table.prices.filter(~pl.col("is_change"))
    return rows.select("gpu_type", pl.col("kind").cast(pl.String), "provider", _HOUR, PRICE)


def _changes(table: PriceTable, hourly: tuple[HourlyPrices, ...]) -> pl.DataFrame:
    changing = table.prices.filter("is_change").select("provider", "gpu_type", "kind")
    names = {tuple(map(str, row)) for row in changing.unique().rows()}
    schema = {"gpu_type": pl.String(), "kind": pl.String(), "provider": pl.String(),
              "hour": pl.Int64(), PRICE: pl.Float64()}  # fmt: skip
    parts = [pl.DataFrame(schema=schema)]
    for series in hourly:
        if series.source in names:
            priced = np.flatnonzero(series.cover > 0)
            columns = {
                "gpu_type": series.gpu_type,
                "kind": series.kind,
                "provider": series.provider,
                "hour": series.first_hour + priced,
                PRICE: series.typical[priced],
            }
            parts.append(pl.DataFrame(columns, schema=schema))
    return pl.concat(parts)


def _available(table: PriceTable, first: int, bin_h: int) -> pl.DataFrame:
    """Return the mean availability of all sources together over the snapshots of a bin."""
    # Providers are seldom seen in the same instant, so each is averaged by itself and then added.
    per_instant = table.supply.group_by(
        "gpu_type", "kind", "provider", "timestamp", maintain_order=True
    ).agg(pl.col("available").sum())
    return (
        per_instant.with_columns((_HOUR - first) // bin_h, pl.col("kind").cast(pl.String))
        .group_by("gpu_type", "kind", "provider", "hour", maintain_order=True)
        .agg(pl.col("available").mean())
        .group_by("gpu_type", "kind", "hour", maintain_order=True)
        .agg(pl.col("available").sum())
    )


def _band(group: pl.DataFrame, first: int, bin_h: int) -> PriceBand:
    available = group["available"]
    return PriceBand(
        gpu_type=group["gpu_type"][0],
        kind=group["kind"][0],
        start_h=first + group["hour"].to_numpy() * float(bin_h),
        p25=group["p25"].to_numpy(),
        median=group["median"].to_numpy(),
        p75=group["p75"].to_numpy(),
        sources=group["sources"].to_numpy(),
        available=None if available.null_count() == len(available) else available.to_numpy(),
        bin_h=bin_h,
    )
