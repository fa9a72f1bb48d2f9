"""Prices that overlapping sources have in common, such as two pulls of one history."""

from __future__ import annotations

import polars as pl

from gpuplan.analysis.prices.schema import PRICE, SERIES

SOURCE_NUMBER = "source_number"
NEAR_USD = 1.5e-6
"""Tables derived from a history round its prices to a millionth, and its times to the second."""


def without_repeats(prices: pl.DataFrame) -> pl.DataFrame:
    """Return prices without those that an earlier source has too, in the same order.

    Prices are the same where series, second, price and availability are; availability is not
    compared where one does not tell it, and the price that tells it stays. Equal prices within one
    source are several offers: as many of them stay as the source with the most has.

    Args:
        prices: canonical columns and `SOURCE_NUMBER`, in order of the sources.
    """
    number = pl.col(SOURCE_NUMBER)
    if prices[SOURCE_NUMBER].n_unique() < 2:
        return prices
    second = pl.col("timestamp").dt.truncate("1s").alias("second")
    moment = (*SERIES, "second")
    is_new_moment = pl.any_horizontal(
        pl.col(name).ne_missing(pl.col(name).shift()) for name in moment
    )
    is_new_price = (pl.col(PRICE).diff() > NEAR_USD).fill_null(True)
    is_told = pl.col("available").is_not_null().all().over("level")
    offer = ("level", "compared")
    repeats = (
        prices.with_row_index("at")
        .with_columns(second)
        .sort(*moment, PRICE, "at")
        .with_columns((is_new_moment | is_new_price).cum_sum().alias("level"))
        .filter(number.min().over("level") < number.max().over("level"))
        .with_columns(pl.when(is_told).then("available").alias("compared"))
        .sort(pl.col("available").is_null(), "at")
        .with_columns(pl.int_range(pl.len()).over(*offer, SOURCE_NUMBER).alias("nth"))
        .filter(pl.int_range(pl.len()).over(*offer, "nth") > 0)
    )
    return prices.filter(~pl.int_range(pl.len()).is_in(repeats["at"].implode()))
