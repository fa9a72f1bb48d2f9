"""Offers of each source of GPUs: level, band and volatility of its price, and availability.

All snapshots count equally. Changes count by the time they are in force, which
several at one instant share.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
import polars as pl

from gpuplan.analysis.base.arrays import FloatArray
from gpuplan.analysis.base.time_units import DAY_S
from gpuplan.analysis.price_formats.schema import OFFER, PRICE, SERIES
from gpuplan.analysis.prices.book import PriceBook, in_force
from gpuplan.analysis.prices.catalogue import AS_OF, CATALOGUE, ListPrice
from gpuplan.analysis.prices.hourly import HourlyPrices

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


@dataclass(frozen=True, slots=True)
class Offer:
    """A source of GPUs: one provider, GPU and kind. Prices are US dollars per GPU-hour.

    Attributes:
        provider, gpu_type, kind: its identity.
        rows, regions: number of prices, and of their regions (0 if unknown).
        sampling: ``snapshot``, ``change`` or ``list``.
        median, mean, least, most, p25, p75: of the price; None where not known.
        variation: standard deviation over mean.
        daily_volatility: standard deviation of the change of the logarithm of its daily mean price
            from one day to the next; None for less than two such changes.
        listed_share: share of the hours in which anything is known of this GPU in which this
            source has a price.
        first, last: time of the first price, and end of the known prices.
        age_days: time from ``last`` to the date the prices are used for, at least 0; None without
            one.
        begins_after_days: time from that date to ``first``, at least 0; None without one.
        available: its availability; None if not recorded.
        saving: 1 - mean / mean of the reference for this GPU, over the hours in which both have a
            price; None without one, and without such an hour.
    """

    provider: str
    gpu_type: str
    kind: str
    rows: int
    regions: int
    sampling: str
    median: float | None
    mean: float | None
    least: float
    most: float
    p25: float | None = None
    p75: float | None = None
    variation: float | None = None
    daily_volatility: float | None = None
    listed_share: float | None = None
    first: datetime | None = None
    last: datetime | None = None
    age_days: float | None = None
    begins_after_days: float | None = None
    available: Availability | None = None
    saving: float | None = None

    @property
    def name(self) -> str:
        """Provider and kind, as ``--reference`` takes them."""
        return f"{self.provider}:{self.kind}"

    @property
    def is_stale(self) -> bool:
        """Return whether it is older than `STALE_DAYS`."""
        return self.age_days is not None and self.age_days > STALE_DAYS


def listed_offers(as_of: datetime | None = None) -> tuple[Offer, ...]:
    """Return the built-in catalogue as offers, with their age if ``as_of`` is given."""
    return tuple(_listed(listing, as_of) for listing in sorted(CATALOGUE, key=_order))


def _order(listing: ListPrice) -> tuple[str, str, str]:
    return listing.gpu_type, listing.provider, listing.kind


def _listed(listing: ListPrice, as_of: datetime | None) -> Offer:
    return Offer(
        *(listing.provider, listing.gpu_type, listing.kind),
        rows=1,
        regions=0,
        sampling="list",
        median=listing.typical,
        mean=listing.typical,
        least=listing.least,
        most=listing.most,
        first=AS_OF,
        last=AS_OF,
        age_days=_days(AS_OF, as_of),
        begins_after_days=_days(as_of, AS_OF),
    )


def offers_of(
    book: PriceBook, hourly: tuple[HourlyPrices, ...], as_of: datetime | None = None
) -> tuple[Offer, ...]:
    """Return every source of a book that has prices, in order of GPU, provider and kind.

    Args:
        book: the prices.
        hourly: all of its sources, from `hourly_prices`.
        as_of: when the prices are used; their age is counted to it.
    """
    stretches = in_force(book)
    share = (pl.col("end_us") - pl.col("start_us")) / pl.col("offers")
    lasting = stretches.select(*SERIES, "start_us", "end_us", share.alias("lasting"))
    rows = book.prices.with_columns(pl.col("timestamp").dt.epoch("us").alias("start_us"))
    rows = rows.join(lasting, on=[*SERIES, "start_us"], how="left", nulls_equal=True)
    hours = {gpu: _hours_known(gpu, hourly) for gpu in {source.gpu_type for source in hourly}}
    groups = rows.partition_by(OFFER, as_dict=True, maintain_order=True)
    prices: dict[tuple[object, ...], HourlyPrices] = {
        (source.provider, source.gpu_type, source.kind): source for source in hourly
    }
    supply = book.supply.partition_by(OFFER, as_dict=True)
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
    return int(np.unique(np.concatenate(hours)).size)


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
    first, last = rows.select(
        pl.col("timestamp").min(), until.dt.replace_time_zone("UTC").alias("until")
    ).row(0)
    return Offer(
        *(hourly.provider, hourly.gpu_type, hourly.kind),
        rows=rows.height,
        regions=rows["region"].drop_nulls().n_unique(),
        sampling="change" if is_change else "snapshot",
        median=median,
        mean=mean,
        least=float(price.min()),
        most=float(price.max()),
        p25=p25,
        p75=p75,
        variation=spread / mean,
        daily_volatility=_daily_volatility(hourly),
        listed_share=float(np.count_nonzero(hourly.cover > 0)) / hours,
        first=first,
        last=last,
        age_days=_days(last, as_of),
        begins_after_days=_days(as_of, first),
        available=None if supply is None else _availability(supply),
    )


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


def _days(start: datetime | None, end: datetime | None) -> float | None:
    """Return the days from start to end, at least 0; None if one is unknown."""
    if start is None or end is None:
        return None
    return max(0.0, (end - start).total_seconds() / DAY_S)
