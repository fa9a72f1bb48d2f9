"""Parts that the plans of several price formats share."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.price_formats.format import PriceSourceContext
from gpuplan.analysis.price_formats.schema import (
    LEAST_USD,
    MOST_USD,
    PRICE,
    TIME_EXPECTED,
    TIME_TYPE,
    is_plausible_time,
)
from gpuplan.analysis.reading.plan import Rule

DATE = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")


def rules(time: str, price: str) -> tuple[Rule, ...]:
    """Return the rules of every price, for a format with these source columns.

    A free GPU is not an offer, one of 10,000 dollars an hour is a placeholder, and a history that
    spans centuries has a mistyped year.
    """
    usd = pl.col(PRICE)
    return (
        Rule("bad_time", time, TIME_EXPECTED, ~is_plausible_time("timestamp")),
        Rule(
            "bad_price",
            price,
            "US dollars per GPU-hour, above 0 and at most 10,000",
            ~usd.is_between(LEAST_USD, MOST_USD),
        ),
    )


def price_or_availability(price: str) -> Rule:
    """Return the rule that a row has a price or an availability."""
    nothing = pl.col(PRICE).is_null() & pl.col("available").is_null()
    return Rule("missing", price, "a price, or a count of what is available", nothing)


def fixed(value: str) -> pl.Expr:
    """Return one word in every row."""
    return pl.repeat(value, pl.len(), dtype=pl.String())


def same_time(context: PriceSourceContext) -> tuple[pl.Expr, str]:
    """Return the common time of a list without times in its rows, and a note about it.

    It is ``--as-of``, else a date in the name of the file or its folder.

    Raises:
        InputError: there is neither.
    """
    moment, origin = context.choices.as_of, "--as-of"
    if moment is None:
        found = [_date(part) for part in context.head.path.parts[:-3:-1]]
        moment, origin = next((date for date in found if date), None), "the name of the file"
    if moment is None:
        raise InputError(
            context.head.path,
            "its prices have no date",
            hint="say when they held: --as-of 2026-01-05",
        )
    note = f"prices as of {moment:%Y-%m-%d}, from {origin}: {context.head.path.name}"
    return pl.repeat(moment, pl.len(), dtype=TIME_TYPE), note


def _date(text: str) -> datetime | None:
    match = DATE.search(text)
    if match is None:
        return None
    year, month, day = map(int, match.groups())
    try:
        return datetime(year, month, day, tzinfo=UTC)
    except ValueError:
        return None
