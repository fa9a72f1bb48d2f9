"""Offers of a marketplace over time: the number of GPUs and the price of each, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from gpuplan.analysis.base.arrays import FloatArray, IntArray, distinct
from gpuplan.analysis.history.steps import sum_between
from gpuplan.analysis.job_table.gpu_names import same_gpu
from gpuplan.analysis.price_formats.schema import PRICE
from gpuplan.analysis.prices.price_table import PriceTable, stretches
from gpuplan.analysis.prices.supply import AvailabilitySteps, availability_steps

MOST_PRICES = 20_000_000


class TooManyOffers(ValueError):
    """A ladder would have more than `MOST_PRICES` prices."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """Offers of one GPU each, in steps without gaps.

    In unknown periods the last known values continue.

    Attributes:
        edges_us: start of each step and end of the last, microseconds of the Unix epoch;
            ascending; shape (k + 1,).
        offers: number of the cheapest offers that are kept; shape (k,).
        offered: number of all offers; shape (k,).
        price: US dollars per GPU-hour of each offer kept, step after step, ascending within one;
            shape (offers.sum(),). None if the source has only availability.
        counted: whether the numbers are the source's; otherwise all steps have the same number.
    """

    edges_us: IntArray
    offers: IntArray
    offered: IntArray
    price: FloatArray | None
    counted: bool


def ladder_of(
    table: PriceTable,
    *,
    gpu: str,
    provider: str,
    kind: str,
    region: str | None = None,
    assumed: int,
    recorded: bool = True,
    most: int | None = None,
) -> Ladder:
    """Return the offers of one source, all of its regions and instance types together.

    With n available, the i-th cheapest has the quantile (i - 1/2) / n of the prices in force,
    weighted by the availability at each price, or equally if that is unknown.

    Args:
        table: the prices.
        gpu, provider, kind: the source; the GPU may be any that can be ``gpu`` (see `same_gpu`).
        region: one of its regions; None for all.
        assumed: number of offers if the source does not have it.
        recorded: whether to use the recorded numbers; otherwise ``assumed`` at all times.
        most: number of the cheapest to keep; None for all.

    Raises:
        TooManyOffers: all steps together have more than `MOST_PRICES`.
        ValueError: the table has no such source.
    """
    wanted = (pl.col("provider") == provider) & (pl.col("kind").cast(pl.String) == kind)
    if region is not None:
        wanted &= pl.col("region") == region
    rows = table.prices.filter(wanted)
    rows = rows.filter(pl.col("gpu_type").map_elements(lambda g: same_gpu(gpu, g), pl.Boolean))
    priced = stretches(
        rows, pl.col(PRICE).alias("prices"), pl.col("available").fill_null(1).alias("weights")
    ).filter(pl.col("end_us") > pl.col("start_us"))
    counts = [
        steps
        for steps in availability_steps(table, gpu)
        if (steps.provider, steps.kind) == (provider, kind) and region in (None, steps.region)
    ]
    times = [priced["start_us"].to_numpy(), priced["end_us"].to_numpy()]
    times += [edge for steps in counts for edge in (steps.start_us, steps.end_us)]
    edges = distinct(np.concatenate(times).astype(np.int64))
    if edges.size < 2:
        raise ValueError(f"no prices or availability of {gpu} at {provider} ({kind})")
    offers = np.full(edges.size - 1, assumed, np.int64)
    if counted := bool(counts) and recorded:
        offers = _counted(edges, counts)
    kept = offers if most is None else np.minimum(offers, most)
    if kept.sum(dtype=np.float64) > MOST_PRICES:
        raise TooManyOffers(f"{kept.sum(dtype=np.float64):,.0f} offers over time are too many")
    price = _prices(edges, priced, offers, kept) if priced.height else None
    return Ladder(edges, kept, offers, price, counted)


def _counted(edges: IntArray, counts: Sequence[AvailabilitySteps]) -> IntArray:
    """Add up availability by step; unknown steps take the last known value."""
    start, end, available = (
        np.concatenate([getattr(steps, name) for steps in counts])
        for name in ("start_us", "end_us", "available")
    )
    total, is_counted = sum_between(edges, start, end, available)
    result: IntArray = total[_carried(np.flatnonzero(is_counted), edges.size - 1)]
    return result


def _prices(edges: IntArray, priced: pl.DataFrame, offers: IntArray, kept: IntArray) -> FloatArray:
    """Return the price of each offer kept, step after step."""
    first = np.searchsorted(edges, priced["start_us"].to_numpy())
    spans = np.searchsorted(edges, priced["end_us"].to_numpy()) - first
    which = np.repeat(np.arange(spans.size), spans)
    step = first[which] + np.arange(spans.sum()) - np.repeat(np.cumsum(spans) - spans, spans)
    lists = priced.select("prices", "weights")[which].with_columns(step=step).explode(
        "prices", "weights"
    )  # fmt: skip
    lists = lists.filter(pl.col("weights") > 0).sort("step", "prices")
    place, price = lists["step"].to_numpy(), lists["prices"].to_numpy()
    weight = lists["weights"].to_numpy().astype(np.float64)
    if not place.size:  # prices of GPUs that are never available
        return np.zeros(int(kept.sum()))
    total = np.concatenate(([0.0], np.cumsum(weight)))
    source = _carried(np.unique(place), edges.size - 1)
    low = total[np.searchsorted(place, source, side="left")]
    high = total[np.searchsorted(place, source, side="right")]
    number = np.arange(kept.sum()) - np.repeat(np.cumsum(kept) - kept, kept)
    share = (number + 0.5) / np.repeat(np.maximum(offers, 1), kept)
    wanted = np.repeat(low, kept) + share * np.repeat(high - low, kept)
    prices: FloatArray = price[np.searchsorted(total, wanted, side="right") - 1]
    return prices


def _carried(known_steps: IntArray, steps: int) -> IntArray:
    """Return, for each step, the last known one up to it, or the first known one."""
    last = np.searchsorted(known_steps, np.arange(steps), side="right") - 1
    carried: IntArray = known_steps[np.maximum(last, 0)]
    return carried
