"""Whether the prices of a table are of the time of the log that they are applied to."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from gpuplan.analysis.base.time_units import DAY_US, micros_of, time_of
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.job_table.gpu_names import UNNAMED
from gpuplan.analysis.prices.catalogue import AS_OF, BUILT_IN
from gpuplan.analysis.prices.price_table import read_prices
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.money.price_book import Prices

MOST_NAMED = 6
LONG_AGO_US = 183 * DAY_US
"""Prices of one day, or samples that end, are of the time of a log within half a year of it."""


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
    rows = read_prices(Path(prices.table)).prices
    last = rows["timestamp"].max()
    if isinstance(last, datetime) and not rows["is_change"].any():
        return _of_other_day(
            f"the prices of {prices.table} end on {last:%Y-%m-%d}", last, span, trace
        )
    return ()


def _of_other_day(what: str, at: datetime, span: str, trace: Trace) -> tuple[str, ...]:
    """Return that prices known at one time are used for a log of another; empty where near."""
    begin, end = trace.arrays().window_us()
    at_us = micros_of(at)
    if begin - LONG_AGO_US <= at_us <= end + LONG_AGO_US:
        return ()
    return (f"{what}; {span}",)


def _day(at_us: int) -> str:
    return f"{time_of(at_us):%Y-%m-%d}"
