"""The canonical price table: columns, kinds, and the Parquet metadata.

A row has a price, an availability, or both.

A source gives prices in one of two ways. A *snapshot* has the prices at one time; nothing is
known between two of them. A *change* has a price that holds from then on, until the next change
of the same series: such rows must be weighted by the time they are in force.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime

import polars as pl

from gpuplan.analysis.job_table.schema import stored_as

SCHEMA_VERSION = 1
METADATA_KEY = "gpuplan_prices"

KINDS = ("on_demand", "spot", "marketplace", "serverless")
KIND_WORDS = {kind.replace("_", joint): kind for kind in KINDS for joint in ("_", "-", " ", "")}
SAMPLINGS = ("snapshot", "change")

KIND_TYPE = pl.Enum(KINDS)
TIME_TYPE = pl.Datetime("us", "UTC")
PRICES: dict[str, pl.DataType] = {
    "timestamp": TIME_TYPE,
    "provider": pl.String(),
    "gpu_type": pl.String(),
    "region": pl.String(),
    "kind": KIND_TYPE,
    "price_usd_per_gpu_hour": pl.Float64(),
    "available": pl.Int64(),
    "instance": pl.String(),
}
"""Column name -> type, in file order (product specification, section 2, and the instance type)."""
PRICE = "price_usd_per_gpu_hour"

TIME_EXPECTED = "a time from 2000 to 2099"
FIRST_TIME = datetime(2000, 1, 1, tzinfo=UTC)
END_TIME = datetime(2100, 1, 1, tzinfo=UTC)

LEAST_USD, MOST_USD = 1e-6, 1e4
"""Range of prices per GPU-hour: a free GPU is not an offer, and 10,000 dollars a placeholder."""

MOST_AVAILABLE = 2**31 - 1
"""Range of the number of available GPUs in a row."""

OFFER = ("provider", "gpu_type", "kind")
"""Columns that identify a source of GPUs; its regions are pooled."""
ZONE = (*OFFER, "region")
SERIES = (*ZONE, "instance")
"""Columns that identify a series with one price at a time; instance types have their own."""


@dataclass(frozen=True, slots=True)
class PriceSource:
    """One input file of a price table.

    Attributes:
        name: the path as the user gave it.
        sha256: hash of the bytes on disk.
        source_format: format it was read in.
        sampling: ``snapshot``, ``change`` or, where it has series of both, ``mixed``.
        rows: prices found in it, those that an earlier source has too included.
    """

    name: str
    sha256: str
    source_format: str
    sampling: str
    rows: int


@dataclass(frozen=True, slots=True)
class PriceProvenance:
    """Where prices come from; stored as JSON under `METADATA_KEY` of the Parquet file.

    Attributes:
        sources: the input files.
        rows_read: rows found; read = kept + skipped + rejected.
        rows_kept: prices in the table.
        rows_skipped: prices that do not belong here (another operating system, a machine without a
            GPU) or that another source has too, by reason.
        rows_rejected: prices that cannot be used, by reason.
        change_series: the series (provider, GPU, kind, region, instance) whose rows are changes;
            all others are snapshots.
        notes: caveats for readers of the prices, one sentence each.
        schema_version: version of this table.
        gpuplan_version: version that wrote the file.
    """

    sources: tuple[PriceSource, ...] = ()
    rows_read: int = 0
    rows_kept: int = 0
    rows_skipped: dict[str, int] = field(default_factory=dict)
    rows_rejected: dict[str, int] = field(default_factory=dict)
    change_series: tuple[tuple[str | None, ...], ...] = ()
    notes: tuple[str, ...] = ()
    schema_version: int = SCHEMA_VERSION
    gpuplan_version: str = ""

    def to_json(self) -> str:
        """Return the stored form: compact JSON with sorted keys."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> PriceProvenance:
        """Read the stored form. Raises ValueError if it is malformed."""
        stored = stored_as(cls, text)
        # Tables from older versions have no fifth part, the instance type.
        series = tuple((*key, None)[: len(SERIES)] for key in stored.change_series)
        return replace(stored, change_series=series)


def is_plausible_time(column: str) -> pl.Expr:
    """Return where a time is one that GPU prices can be of."""
    return pl.col(column).is_between(FIRST_TIME, END_TIME, "left")


def is_one_of(series: tuple[tuple[str | None, ...], ...]) -> pl.Expr:
    """Return where a row belongs to one of these series (in the order of `SERIES`)."""
    keys = ["\0".join(part or "" for part in key) for key in series]
    parts = [pl.col(name).cast(pl.String).fill_null("") for name in SERIES]
    return pl.concat_str(parts, separator="\0").is_in(keys)
