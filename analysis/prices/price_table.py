"""A price table in memory: read and checked, and which price is in force when.

A change is in force until the next one of its series, the last one until the end of what is known
of its provider. A snapshot is in force until the next one, but no longer than `HOLD_GAPS` times the
usual gap of its source (an hour at least): beyond that nothing is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from gpuplan.analysis.base.casts import canonical_cast, found_cell
from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.time_units import HOUR_US
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.job_table.gpu_names import gpu_names
from gpuplan.analysis.job_table.schema import UNREADABLE
from gpuplan.analysis.price_formats.schema import (
    KIND_TYPE,
    KIND_WORDS,
    KINDS,
    LEAST_USD,
    METADATA_KEY,
    MOST_AVAILABLE,
    MOST_USD,
    OFFER,
    PRICE,
    PRICES,
    SCHEMA_VERSION,
    SERIES,
    TIME_EXPECTED,
    PriceProvenance,
    is_one_of,
    is_plausible_time,
)
from gpuplan.analysis.storage.files import PARQUET_MAGIC, readable, regular_file, sha256_of
from gpuplan.analysis.storage.parquet_pages import check_pages
from gpuplan.analysis.storage.standard_error import silent_on
from gpuplan.analysis.trace.input_files import InputFile

REQUIRED = ("timestamp", "provider", "gpu_type", "kind", PRICE)
HOLD_GAPS = 3


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices of a canonical table.

    Attributes:
        prices: rows with a price: the columns of `PRICES` and ``is_change``; in order of time.
        supply: rows with an availability, with or without a price; in the same order.
        path: the file.
        sha256: its hash.
        provenance: where the prices come from.
    """

    prices: pl.DataFrame
    supply: pl.DataFrame
    path: Path
    sha256: str
    provenance: PriceProvenance

    @property
    def rows(self) -> int:
        """Rows of the table, each once."""
        return self.prices.height + self.supply[PRICE].null_count()

    @property
    def input(self) -> InputFile:
        """The table as an input of a result."""
        return InputFile(str(self.path), self.sha256, self.rows)


def price_table_of(
    prices: pl.DataFrame, provenance: PriceProvenance, *, path: Path, sha256: str = ""
) -> PriceTable:
    """Return rows in the canonical columns as a price table."""
    is_change = is_one_of(provenance.change_series).alias("is_change")
    rows = prices.select(*PRICES, is_change).sort("timestamp", maintain_order=True)
    return PriceTable(
        prices=rows.filter(pl.col(PRICE).is_not_null()),
        supply=rows.filter(pl.col("available").is_not_null()),
        path=path,
        sha256=sha256,
        provenance=provenance,
    )


def read_prices(path: Path) -> PriceTable:
    """Read a price table, of ``gpuplan prices`` or of any tool that keeps its columns.

    Raises:
        InputError: no such file, not a price table, or an invalid cell.
    """
    with readable(path), regular_file(path).open("rb") as stream:
        if stream.read(4) != PARQUET_MAGIC:
            raise InputError(
                path,
                "is not a Parquet file",
                expected="a price table",
                hint=f"bring prices into one: gpuplan prices {path} -o prices.parquet",
            )
    try:
        with silent_on(*UNREADABLE):
            check_pages(path)
            provenance = _provenance(path)
            prices = _canonical(path, pl.read_parquet(path, glob=False))
    except UNREADABLE as error:
        reason = str(error).strip().partition("\n")[0]
        hint = "write it again with gpuplan prices"
        raise InputError(path, f"is a damaged price table ({reason})", hint=hint) from error
    return price_table_of(prices, provenance, path=path, sha256=sha256_of(path))


def in_force(price_table: PriceTable) -> pl.DataFrame:
    """Return the stretches of time in which the offers of a series do not change.

    Returns:
        One row per series and instant, in order of time within a series: the columns of `SERIES`,
        ``start_us`` and ``end_us`` (microseconds of the Unix epoch), ``lowest`` and ``typical``
        (the least and the median of the offers, US dollars per GPU-hour) and ``offers``.
    """
    return stretches(
        price_table.prices,
        pl.col(PRICE).min().alias("lowest"),
        pl.col(PRICE).median().alias("typical"),
        pl.len().alias("offers"),
    )


def stretches(rows: pl.DataFrame, *levels: pl.Expr) -> pl.DataFrame:
    """Return the intervals of time in which the rows of a price table hold, with their values.

    Args:
        rows: of `PriceTable.prices` or `PriceTable.supply`.
        levels: named values to compute from the rows of one series and time.

    Returns:
        As `in_force`, with these levels.
    """
    time = pl.col("timestamp").dt.epoch("us")
    known_until = time.filter("is_change").max().over("provider", "kind")
    quotes = (
        rows.with_columns(time.alias("start_us"), known_until.alias("known_until"))
        .group_by(*SERIES, "start_us", maintain_order=True)
        .agg(
            *levels,
            pl.col("is_change").any(),
            pl.col("known_until").first(),
        )
        .sort(*SERIES, "start_us")
    )
    gaps = (
        quotes.select(*OFFER, "start_us")
        .unique()
        .sort(*OFFER, "start_us")
        .group_by(OFFER)
        .agg(pl.col("start_us").diff().median().cast(pl.Int64).alias("gap_us"))
    )
    gap = pl.col("gap_us").fill_null(HOUR_US)
    following = pl.col("start_us").shift(-1).over(SERIES)
    held = pl.col("start_us") + pl.max_horizontal(HOLD_GAPS * gap, pl.lit(HOUR_US))
    snapshot_end = pl.min_horizontal(held, following.fill_null(pl.col("start_us") + gap))
    change_end = following.fill_null(pl.col("known_until"))
    # A history of a single change is assumed to hold for an hour.
    alone = (pl.len().over(SERIES) == 1) & (change_end == pl.col("start_us"))
    return quotes.join(gaps, on=OFFER, how="left", nulls_equal=True, maintain_order="left").select(
        *SERIES,
        "start_us",
        pl.when("is_change")
        .then(change_end + pl.when(alone).then(HOUR_US).otherwise(0))
        .otherwise(snapshot_end)
        .alias("end_us"),
        *(level.meta.output_name() for level in levels),
    )


def _provenance(path: Path) -> PriceProvenance:
    stored = pl.read_parquet_metadata(path).get(METADATA_KEY)
    if stored is None:
        return PriceProvenance()
    try:
        provenance = PriceProvenance.from_json(stored)
    except (ValueError, TypeError) as error:
        hint = "write it again with gpuplan prices"
        raise InputError(path, f"its metadata cannot be read ({error})", hint=hint) from error
    if provenance.schema_version > SCHEMA_VERSION:
        problem = f"has the schema version {provenance.schema_version}"
        raise InputError(
            path, problem, expected=f"{SCHEMA_VERSION} or older", hint="upgrade gpuplan"
        )
    return provenance


def _canonical(path: Path, table: pl.DataFrame) -> pl.DataFrame:
    missing = [name for name in REQUIRED if name not in table.columns]
    if missing:
        raise InputError(
            path,
            f"no column {', '.join(missing)}; found {', '.join(table.columns[:12])}",
            expected=f"a price table with {', '.join(REQUIRED)}",
            hint="bring prices into one: gpuplan prices FILE -o prices.parquet",
        )
    hint = "bring it in with gpuplan prices: bad rows are kept aside and counted"
    columns = []
    for name, kind in PRICES.items():
        if name not in table.columns:
            columns.append(pl.lit(None, kind).alias(name))
            continue
        written = pl.String() if isinstance(kind, pl.Enum) else kind
        columns.append(canonical_cast(path, name, table.schema[name], written, hint))
    words = pl.col("kind").str.to_lowercase()
    prices = table.select(columns).with_columns(
        gpu_names("gpu_type"),
        words.replace_strict(KIND_WORDS, default=None, return_dtype=KIND_TYPE),
    )
    if prices.is_empty():
        raise InputError(path, "has no prices", expected="at least one")
    expected = {
        "timestamp": TIME_EXPECTED,
        "kind": f"one of {', '.join(KINDS)}",
        PRICE: "US dollars above 0, at most 10,000; none only where available is given",
        "available": f"a number of GPUs, 0 to {MOST_AVAILABLE:,}",
    }
    for name in (*REQUIRED, "available"):
        good = pl.col(name).is_not_null()
        if name == "timestamp":
            good &= is_plausible_time(name)
        if name == PRICE:
            good &= pl.col(PRICE).is_between(LEAST_USD, MOST_USD)
            good |= pl.lit(table[PRICE].is_null()) & (pl.col("available") >= 0)
        if name == "available":
            good = pl.col(name).is_null() | pl.col(name).is_between(0, MOST_AVAILABLE)
        bad = prices.select((~good.fill_null(False)).arg_true()).to_series()
        if len(bad):
            raise InputError(
                path,
                f"found {found_cell(table.lazy(), name, int(bad[0]))} "
                f"({counted(len(bad), 'such row')})",
                row=int(bad[0]) + 1,
                column=name,
                expected=expected.get(name, "a name"),
                hint=hint,
            )
    return prices
