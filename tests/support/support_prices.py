"""Small price tables and price files that tests write and read."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

from gpuplan.analysis.prices.book import PriceBook, book_of
from gpuplan.analysis.prices.run import PricesResult, ingest_prices
from gpuplan.analysis.prices.schema import PRICE, PRICES, PriceProvenance

ORIGIN = datetime(2026, 1, 5, tzinfo=UTC)  # as in support_traces: a Monday, midnight
HEADER = "timestamp,provider,gpu,region,kind,price_usd_per_gpu_hour,available"


def book(rows, *, changes=()) -> PriceBook:
    """Return a book of rows, as `frame` takes them."""
    series = tuple((*key, None)[:5] for key in changes)
    return book_of(frame(rows), PriceProvenance(change_series=series), path=Path("prices.parquet"))


def frame(rows) -> pl.DataFrame:
    """Return (hours after ORIGIN, provider, gpu, region, kind, price[, available]) as a table."""
    full = [(*row, None)[:7] for row in rows]
    return pl.DataFrame(
        {
            "timestamp": [ORIGIN + timedelta(hours=float(row[0])) for row in full],
            **{
                name: [row[i + 1] for row in full]
                for i, name in enumerate(("provider", "gpu_type", "region", "kind", PRICE))
            },
            "available": [row[6] for row in full],
            "instance": None,
        },
        schema=PRICES,
    )


def ingest_text(tmp_path: Path, text: str | bytes, name: str = "p.csv", **options) -> PricesResult:
    """Write a source and bring it in."""
    source = tmp_path / name
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_bytes(text if isinstance(text, bytes) else text.encode())
    return ingest_prices([source], tmp_path / "out.parquet", **options)


def aws_record(time: str, price: str, kind: str = "g2.8xlarge", product: str = "Linux/UNIX"):
    """Return a record of the AWS spot price history."""
    return {
        "Timestamp": time,
        "ProductDescription": product,
        "InstanceType": kind,
        "SpotPrice": price,
        "AvailabilityZone": "us-east-1a",
    }


def aws_history(*records) -> str:
    """Return a whole answer of the AWS command, the key with the records last."""
    return json.dumps({"NextToken": "", "SpotPriceHistory": list(records)}, indent=1)


def prime_line(time: str, offers: dict, gpu="H100_80GB", socket="SXM5") -> str:
    """Return a line of the Prime Intellect tracker."""
    return json.dumps(
        {
            "timestamp": time,
            "gpu_type": gpu,
            "socket_type": socket,
            "price_stats": {"min": 1.0, "median": 2.0},
            "availability": {"total": 9, "available": 3},
            "by_provider": offers,
            "by_config": {"1x": {"count": 1}},
        }
    )
