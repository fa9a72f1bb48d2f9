"""Whether the prices of a table are of the time of the log that they are applied to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from gpuplan.analysis.base.time_units import DAY_US, micros_of, time_of
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.history.jobs import PeriodUs
from gpuplan.analysis.job_table.gpu_names import UNNAMED
from gpuplan.analysis.prices.catalogue import AS_OF, BUILT_IN
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.money.price_book import Prices

MOST_NAMED = 6
LONG_AGO_US = 183 * DAY_US
"""Prices of one day are of the time of a log within half a year of it."""
SNAPSHOT = "snapshot"
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
    return period_notes(trace.arrays().window_us(), prices, gpu_types)


def period_notes(
    period_us: PeriodUs | None, prices: Prices, gpu_types: Iterable[str | None]
) -> tuple[str, ...]:
    """Return `price_time_notes` of a log of a period; None for one without dates."""
    if prices.table is None or period_us is None:
        return ()
    of_table = [
        name
        for name in dict.fromkeys(gpu_types)
        if (price := prices.get(name)) is not None and price.offers
    ]
    if not of_table:
        return ()
    begin, end = period_us
    span = f"the jobs ran from {_day(begin)} to {_day(end)}"
    if prices.table == BUILT_IN:
        return _of_other_day(span, period_us)
    firsts = {name: prices.table_begins_us(name) for name in of_table}
    late = {name: at for name, at in firsts.items() if at is not None and at > begin}
    if late:
        types = listed([name or prices.gpu or UNNAMED for name in late], MOST_NAMED)
        first = min(late.values())
        begins = f"the prices of {types} in {prices.table} begin on {_day(first)}"
        if first >= end:
            return (f"{begins}; {span}, and pay the first ones",)
        before = f"{begins}; what ran before, from {_day(begin)}, pays the first ones"
        return (before, *_stale(prices, of_table, span, end))
    return _stale(prices, of_table, span, end)


def _stale(prices: Prices, types: Sequence[str | None], span: str, end_us: int) -> tuple[str, ...]:
    """Return which types have their last sample long before the end of a log; a change holds on."""
    last: dict[str, datetime] = {}
    for name in types:
        offers = prices.offers_of(name)
        ends = [offer.last for offer in offers if offer.last is not None]
        if ends and all(offer.sampling == SNAPSHOT for offer in offers):
            if micros_of(max(ends)) < end_us - STALE_US:
                last[name or prices.gpu or UNNAMED] = max(ends)
    if not last:
        return ()
    names, first = listed(list(last), MOST_NAMED), min(last.values())
    day = f"on {first:%Y-%m-%d}" if len(set(last.values())) == 1 else f"from {first:%Y-%m-%d} on"
    return (
        f"price samples of {names} in {prices.table} end {day}; {span}, and later runs are billed "
        "at the last price",
    )


def _of_other_day(span: str, period_us: PeriodUs) -> tuple[str, ...]:
    """Return that the built-in prices are used for a log of another time; empty where near."""
    begin, end = period_us
    if begin - LONG_AGO_US <= micros_of(AS_OF) <= end + LONG_AGO_US:
        return ()
    return (f"the built-in prices are from {AS_OF:%Y-%m-%d}; {span}",)


def _day(at_us: int) -> str:
    return f"{time_of(at_us):%Y-%m-%d}"
