"""Offers of each source of GPUs: level, band and volatility of its price, and availability.

All snapshots count equally. Changes count by the time they are in force, which
several at one instant share. The latest price and the mean of the period are by time for both.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from gpuplan.analysis.base.arrays import FloatArray, distinct
from gpuplan.analysis.base.time_units import DAY_S, time_of
from gpuplan.analysis.price_formats.schema import OFFER, PRICE, SERIES
from gpuplan.analysis.prices.catalogue import AS_OF, CATALOGUE, ListPrice
from gpuplan.analysis.prices.hourly import HourlyPrices
from gpuplan.analysis.prices.price_table import PriceTable, in_force

STALE_DAYS = 90.0
HOURS_PER_DAY = 24
QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True, slots=True)
class Availability:
    """Availability over the snapshots of a source, summed over regions and offers.

    Attributes:
        mean, least, most: of that sum.
        none_share: share of the snapshots without available GPUs.
    """

    mean: float
    least: int
    most: int
    none_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A source of GPUs: one provider, GPU and kind; null is what is not known.

    Attributes:
        provider: who rents them.
        gpu_type: the GPU.
        kind: of renting.
        rows: its prices.
        regions: regions that they are of; 0 where none is named.
        sampling: ``snapshot``, ``change`` or ``list``.
        variation: standard deviation of the price over its mean.
        daily_volatility: standard deviation of the daily change of the logarithm of the price;
            null for less than two such changes.
        listed_share: the share of the hours with anything known of this GPU in which it has a
            price.
        first: instant of its first price.
        last: instant until which its last price is known to hold.
        age_days: days from there to the date that the prices are used for, at least 0.
        begins_after_days: days from that date to its first price, at least 0.
        available: how many GPUs it has.
        saving: share saved against the reference of its GPU, over the hours in which both have a
            price.
        latest_usd_per_gpu_h: median of the prices in force at the last instant with a price.
        latest_from: instant since which it is that of the source.
        period_mean_usd_per_gpu_h: mean over the time in which prices are known to hold.
        period_end: end of that time, which begins at ``first``.
        median_usd_per_gpu_h: median price of the rows; changes by time.
        mean_usd_per_gpu_h: mean price.
        least_usd_per_gpu_h: lowest price.
        most_usd_per_gpu_h: highest price.
        p25_usd_per_gpu_h: 25th percentile of the price.
        p75_usd_per_gpu_h: 75th percentile of the price.
        stale: whether its last price is too old.
    """

    provider: str
    gpu_type: str
    kind: str
    rows: int
    regions: int
    sampling: str
    variation: float | None = None
    daily_volatility: float | None = None
    listed_share: float | None = None
    first: datetime | None
    last: datetime | None
    age_days: float | None
    begins_after_days: float | None
    available: Availability | None = None
    saving: float | None = None
    latest_usd_per_gpu_h: float | None
    latest_from: datetime | None
    period_mean_usd_per_gpu_h: float | None
    period_end: datetime | None
    median_usd_per_gpu_h: float | None
    mean_usd_per_gpu_h: float | None
    least_usd_per_gpu_h: float
    most_usd_per_gpu_h: float
    p25_usd_per_gpu_h: float | None = None
    p75_usd_per_gpu_h: float | None = None
    stale: bool

    @property
    def source(self) -> tuple[str, str, str]:
        """Provider, GPU and kind."""
        return self.provider, self.gpu_type, self.kind

    @property
    def name(self) -> str:
        """Provider and kind, as ``--reference`` takes them."""
        return f"{self.provider}:{self.kind}"


def listed_offers(as_of: datetime | None = None) -> tuple[Offer, ...]:
    """Return the built-in catalogue as offers, with their age if ``as_of`` is given."""
    return tuple(_listed(listing, as_of) for listing in sorted(CATALOGUE, key=_order))


def _order(listing: ListPrice) -> tuple[str, str, str]:
    return listing.gpu_type, listing.provider, listing.kind


def _listed(listing: ListPrice, as_of: datetime | None) -> Offer:
    return Offer(
        provider=listing.provider,
        gpu_type=listing.gpu_type,
        kind=listing.kind,
        rows=1,
        regions=0,
        sampling="list",
        latest_usd_per_gpu_h=listing.typical,
        latest_from=AS_OF,
        period_mean_usd_per_gpu_h=listing.typical,
        period_end=AS_OF,
        median_usd_per_gpu_h=listing.typical,
        mean_usd_per_gpu_h=listing.typical,
        least_usd_per_gpu_h=listing.least,
        most_usd_per_gpu_h=listing.most,
        first=AS_OF,
        last=AS_OF,
        **_ages(AS_OF, AS_OF, as_of),
    )


def offers_of(
    table: PriceTable, hourly: tuple[HourlyPrices, ...], as_of: datetime | None = None
) -> tuple[Offer, ...]:
    """Return every source of a price table that has prices, in order of GPU, provider and kind.

    Args:
        table: the prices.
        hourly: all of its sources, from `hourly_prices`.
        as_of: when the prices are used; their age is counted to it.
    """
    stretches = in_force(table)
    share = (pl.col("end_us") - pl.col("start_us")) / pl.col("offers")
    known_until = pl.col("start_us").max().over("provider", "kind").alias("known_until_us")
    lasting = stretches.select(*SERIES, "start_us", "end_us", share.alias("lasting"))
    rows = table.prices.with_columns(pl.col("timestamp").dt.epoch("us").alias("start_us"))
    rows = rows.with_columns(known_until)
    rows = rows.join(lasting, on=[*SERIES, "start_us"], how="left", nulls_equal=True)
    hours = {gpu: _hours_known(gpu, hourly) for gpu in {source.gpu_type for source in hourly}}
    groups = rows.partition_by(OFFER, as_dict=True, maintain_order=True)
    prices: dict[tuple[object, ...], HourlyPrices] = {each.source: each for each in hourly}
    supply = table.supply.partition_by(OFFER, as_dict=True)
    offers = [
        _offer(of, supply.get(key), prices[key], hours[str(key[1])], as_of)
        for key, of in groups.items()
    ]
    return tuple(sorted(offers, key=lambda o: (o.gpu_type, o.provider, o.kind)))


def _hours_known(gpu: str, hourly: tuple[HourlyPrices, ...]) -> int:
    """Return the number of hours in which any source of a GPU has a price."""
    hours = [
        source.first_hour + np.flatnonzero(source.cover > 0)
        for source in hourly
        if source.gpu_type == gpu
    ]
    return int(distinct(np.concatenate(hours)).size)


def _offer(
    rows: pl.DataFrame,
    supply: pl.DataFrame | None,
    hourly: HourlyPrices,
    hours: int,
    as_of: datetime | None,
) -> Offer:
    price = rows[PRICE].to_numpy()
    is_change = bool(rows["is_change"].any())
    weight = np.ones(price.size)
    if is_change:
        held = rows["lasting"].to_numpy()
        weight = held if held.sum() > 0 else weight
    p25, median, p75 = _quartiles(price, weight, is_change)
    # Counted from the first price, so that a constant one has exactly its mean and no spread.
    mean = float(price[0] + np.average(price - price[0], weights=weight))
    spread = float(np.sqrt(np.average((price - mean) ** 2, weights=weight)))
    until = pl.from_epoch("end_us" if is_change else "start_us", time_unit="us").max()
    latest, latest_us, period_mean, period_end_us = _over_time(rows)
    first, last = rows.select(
        pl.col("timestamp").min(), until.dt.replace_time_zone("UTC").alias("until")
    ).row(0)
    return Offer(
        provider=hourly.provider,
        gpu_type=hourly.gpu_type,
        kind=hourly.kind,
        rows=rows.height,
        regions=rows["region"].drop_nulls().n_unique(),
        sampling="change" if is_change else "snapshot",
        latest_usd_per_gpu_h=latest,
        latest_from=time_of(latest_us),
        period_mean_usd_per_gpu_h=period_mean,
        period_end=time_of(period_end_us),
        median_usd_per_gpu_h=median,
        mean_usd_per_gpu_h=mean,
        least_usd_per_gpu_h=float(price.min()),
        most_usd_per_gpu_h=float(price.max()),
        p25_usd_per_gpu_h=p25,
        p75_usd_per_gpu_h=p75,
        variation=spread / mean,
        daily_volatility=_daily_volatility(hourly),
        listed_share=float(np.count_nonzero(hourly.cover > 0)) / hours,
        first=first,
        last=last,
        **_ages(first, last, as_of),
        available=None if supply is None else _availability(supply),
    )


def _over_time(rows: pl.DataFrame) -> tuple[float, int, float, int]:
    """Return the latest price, since when it holds, the mean by time and the end of that time.

    A price after which nothing is known of its provider is the latest, with no part in the mean.
    Instants are microseconds of the Unix epoch.
    """
    ends = pl.min_horizontal("end_us", "known_until_us")
    quotes = (
        rows.group_by(*SERIES, "start_us")
        .agg(pl.col(PRICE).median().alias("typical"), pl.len().alias("offers"), ends.first())
        .sort(*SERIES, "start_us", nulls_last=True)
    )
    price = quotes["typical"].to_numpy()
    held = (quotes["end_us"] - quotes["start_us"]).to_numpy().astype(float)
    has_time = held.sum() > 0
    mean = price[0] + np.average(price - price[0], weights=held if has_time else None)
    is_new = (pl.col("typical") != pl.col("typical").shift(1).over(SERIES)).fill_null(True)
    last = (
        quotes.with_columns(pl.col("start_us").filter(is_new).max().over(SERIES).alias("since_us"))
        .group_by(SERIES, maintain_order=True)
        .last()
        .filter(pl.col("end_us") >= quotes["start_us"].max())
    )
    latest = np.median(np.repeat(last["typical"].to_numpy(), last["offers"].to_numpy()))
    starts, ends_us = quotes["start_us"].to_numpy(), quotes["end_us"].to_numpy()
    end_us = max(int(starts.max()), int(ends_us.max()))
    return float(latest), int(last["since_us"].to_numpy().max()), float(mean), end_us


def _quartiles(price: FloatArray, weight: FloatArray, weighted: bool) -> list[float]:
    """Return P25, P50 and P75; weighted by time, the least price not exceeded for that share."""
    if weighted:
        quartiles = np.quantile(price, QUARTILES, weights=weight, method="inverted_cdf")
    else:
        quartiles = np.quantile(price, QUARTILES)
    return [float(value) for value in quartiles]


def _daily_volatility(hourly: HourlyPrices) -> float | None:
    lead = hourly.first_hour % HOURS_PER_DAY
    days = -(-(lead + hourly.typical.size) // HOURS_PER_DAY)
    at = (lead + np.arange(hourly.typical.size)) // HOURS_PER_DAY
    is_priced = hourly.cover > 0
    weight = np.bincount(at[is_priced], hourly.cover[is_priced], days)
    total = np.bincount(at[is_priced], (hourly.typical * hourly.cover)[is_priced], days)
    with np.errstate(invalid="ignore", divide="ignore"):
        steps = np.diff(np.log(total / weight))
    steps = steps[np.isfinite(steps)].round(12)  # a constant price has steps of 0
    return float(steps.std()) if steps.size > 1 else None


def _availability(supply: pl.DataFrame) -> Availability:
    total = supply.group_by("timestamp").agg(pl.col("available").sum())["available"].to_numpy()
    return Availability(
        mean=float(total.mean()),
        least=int(total.min()),
        most=int(total.max()),
        none_share=float(np.mean(total == 0)),
    )


def _ages(first: datetime, last: datetime, as_of: datetime | None) -> dict[str, Any]:
    """Return what an offer says of the time from its prices to the date they are used for."""
    age_days = _days(last, as_of)
    return {
        "age_days": age_days,
        "begins_after_days": _days(as_of, first),
        "stale": age_days is not None and age_days > STALE_DAYS,
    }


def _days(start: datetime | None, end: datetime | None) -> float | None:
    """Return the days from start to end, at least 0; None if one is unknown."""
    if start is None or end is None:
        return None
    return max(0.0, (end - start).total_seconds() / DAY_S)
