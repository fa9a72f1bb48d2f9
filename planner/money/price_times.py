"""Whether the prices of a table are of the time of the log that they are applied to."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import polars as pl

from gpuplan.analysis.base.time_units import DAY_US, micros_of, time_of
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.job_table.gpu_names import UNNAMED, same_gpu
from gpuplan.analysis.prices.catalogue import AS_OF, BUILT_IN
from gpuplan.analysis.prices.price_table import read_prices
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.money.price_book import Prices

MOST_NAMED = 6
LONG_AGO_US = 183 * DAY_US
"""Prices of one day are of the time of a log within half a year of it."""
STALE_US = 31 * DAY_US
"""From the last sample of a type on, after which its price is no longer an observation."""


def price_time_notes(
    trace: Trace, prices: Prices, gpu_types: Iterable[str | None]
) -> tuple[str, ...]:
    """Return a sentence where a price table is of another time than a log, if it is.

    Args:
        trace: the log; nothing is said of one without dates.
        prices: of which those of a price table are looked at.
        gpu_types: of the log.
    """
    if prices.table is None or trace.provenance.relative_time:
        return ()
    of_table = [
        name
        for name in dict.fromkeys(gpu_types)
        if (price := prices.get(name)) is not None and price.offers
    ]
    if not of_table:
        return ()
    begin, end = trace.arrays().window_us()
    span = f"the jobs ran from {_day(begin)} to {_day(end)}"
    if prices.table == BUILT_IN:
        return _of_other_day(f"the built-in prices are from {AS_OF:%Y-%m-%d}", AS_OF, span, trace)
    firsts = {name: prices.table_begins_us(name) for name in of_table}
    late = {name: at for name, at in firsts.items() if at is not None and at > begin}
    if late:
        types = listed([name or prices.gpu or UNNAMED for name in late], MOST_NAMED)
        first = min(late.values())
        begins = f"the prices of {types} in {prices.table} begin on {_day(first)}"
        if first >= end:
            return (f"{begins}; {span}, and pay the first ones",)
        return (f"{begins}; what ran before, from {_day(begin)}, pays the first ones",)
    return _stale(prices.table, [name or prices.gpu for name in of_table], span, end)


def _stale(table: str, types: Iterable[str | None], span: str, end_us: int) -> tuple[str, ...]:
    """Return which types have their last sample long before the end of a log; a change holds on."""
    rows = read_prices(Path(table)).prices
    by_type = rows.group_by(pl.col("gpu_type").cast(pl.String)).agg(
        pl.col("timestamp").max(), pl.col("is_change").any()
    )
    ends = {
        name: last
        for name in types
        for listed_type, last, is_change in by_type.rows()
        if name is not None and same_gpu(name, listed_type) and not is_change
    }
    stale = {name: last for name, last in ends.items() if micros_of(last) < end_us - STALE_US}
    if not stale:
        return ()
    first = min(stale.values())
    names = listed(list(stale), MOST_NAMED)
    return (
        f"the samples of the price of {names} in {table} end on {first:%Y-%m-%d}; {span}, and what "
        "ran later pays the last one",
    )


def _of_other_day(what: str, at: datetime, span: str, trace: Trace) -> tuple[str, ...]:
    """Return that prices known at one time are used for a log of another; empty where near."""
    begin, end = trace.arrays().window_us()
    at_us = micros_of(at)
    if begin - LONG_AGO_US <= at_us <= end + LONG_AGO_US:
        return ()
    return (f"{what}; {span}",)


def _day(at_us: int) -> str:
    return f"{time_of(at_us):%Y-%m-%d}"
