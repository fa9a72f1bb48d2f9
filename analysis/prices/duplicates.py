"""Prices that overlapping sources have in common, such as two pulls of one history."""

from __future__ import annotations

import polars as pl

from gpuplan.analysis.price_formats.schema import PRICE, ZONE

SOURCE_NUMBER = "source_number"
NEAR_USD = 1.5e-6
"""Tables derived from a history round its prices to a millionth, and its times to the second."""


def without_repeats(prices: pl.DataFrame) -> pl.DataFrame:
    """Return prices without those that an earlier source has too, in the same order.

    Prices are the same where zone, second, price, availability and instance type are; the last two
    are not compared where one does not tell them, as derived tables do not. Of such prices the one
    that tells availability stays. Equal prices within one source are several offers: as many of
    them stay as the source with the most has. Rows without a price are compared alike.

    Args:
        prices: canonical columns and `SOURCE_NUMBER`, in order of the sources.
    """
    number = pl.col(SOURCE_NUMBER)
    if prices[SOURCE_NUMBER].n_unique() < 2:
        return prices
    moment = ("series", "second")
    names = (pl.col(name).cast(pl.String).fill_null("") for name in ZONE)
    series = pl.concat_str(*names, separator="\0").cast(pl.Categorical).to_physical()
    second = pl.col("timestamp").dt.epoch("s").alias("second")
    usd = pl.col(PRICE)
    is_priced = usd.is_not_null() | usd.shift().is_not_null()
    is_new_price = (usd.diff() > NEAR_USD).fill_null(is_priced)
    levels = (
        prices.select(series.alias("series"), second, PRICE, "available", "instance", SOURCE_NUMBER)
        .with_row_index("at")
        .sort(*moment, PRICE, "at")
        .with_columns((_is_new(moment) | is_new_price).cum_sum().alias("level"))
    )
    shared = (
        levels.group_by("level")
        .agg(
            (number.min() < number.max()).alias("is_shared"),
            pl.col("available", "instance").is_not_null().all().name.prefix("told_"),
        )
        .filter("is_shared")
    )
    told = ("available", "instance")
    offer = ("level", *(f"compared_{name}" for name in told))
    row = pl.int_range(pl.len())
    first_row = pl.when(_is_new((*offer, SOURCE_NUMBER))).then(row).forward_fill()
    repeats = (
        levels.join(shared, on="level")
        .with_columns(pl.when(f"told_{name}").then(name).alias(f"compared_{name}") for name in told)
        .sort(*offer, SOURCE_NUMBER, pl.col("available").is_null(), "at")
        .with_columns((row - first_row).alias("nth"))
        .sort(*offer, "nth", pl.col("available").is_null(), "at")
        .filter(~_is_new((*offer, "nth")))
    )
    return prices.filter(~row.is_in(repeats["at"].implode()))


def _is_new(names: tuple[str, ...]) -> pl.Expr:
    """Return where a row differs from the one before it; the first row does."""
    differs = (pl.col(name).ne_missing(pl.col(name).shift()) for name in names)
    return pl.any_horizontal(pl.int_range(pl.len()) == 0, *differs)
