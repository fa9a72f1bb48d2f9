"""Small price tables and price files that tests write and read, and jobs to bill at them."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import support_traces
from support_traces import ORIGIN

from gpuplan.analysis.price_formats.schema import PRICE, PRICES, PriceProvenance
from gpuplan.analysis.prices.ingest import PriceAccount, ingest_prices
from gpuplan.analysis.prices.price_table import PriceTable, price_table_of
from gpuplan.analysis.trace.trace import Trace
from gpuplan.planner.money.trace_bill import SourceBill, TraceCost

FIRST_HOUR = int(ORIGIN.timestamp()) // 3600
SPOT = ("aws", "L4", "spot", "z")  # a series, for the changes of `book`
HEADER = "timestamp,provider,gpu,region,kind,price_usd_per_gpu_hour,available"
SKYPILOT = (
    "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice"
)
VAST = "timestamp,id,host_id,machine_id,dph_total,min_bid,num_gpus,gpu_ram,geolocation"


def at(hour: int, minute: int = 0) -> datetime:
    """Return a time of the day of `ORIGIN`."""
    return ORIGIN.replace(hour=hour, minute=minute)


def book(rows, *, changes=()) -> PriceTable:
    """Return a price table of rows, as `frame` takes them."""
    series = tuple((*key, None)[:5] for key in changes)
    return price_table_of(
        frame(rows), PriceProvenance(change_series=series), path=Path("prices.parquet")
    )


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


def ingest_text(tmp_path: Path, text: str | bytes, name: str = "p.csv", **options) -> PriceAccount:
    """Write a source and bring it in."""
    source = tmp_path / name
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_bytes(text if isinstance(text, bytes) else text.encode())
    return ingest_prices([source], tmp_path / "out.parquet", **options)


def rows(result: PriceAccount, *columns: str) -> list[tuple]:
    """Return the rows that were kept, of all columns or of some."""
    return result.prices.select(columns or list(PRICES)).rows()


def jobs(*rows, gpu="L4", **columns) -> Trace:
    """Return a trace of (submit hour, wait in hours, duration in hours, GPUs)."""
    submit, wait, lasting, gpus = zip(*rows, strict=True)
    frame = support_traces.frame(
        [3600 * s for s in submit],
        queue_s=[None if w is None else 3600.0 * w for w in wait],
        duration_s=[None if d is None else 3600.0 * d for d in lasting],
        num_gpus=[float(g) for g in gpus],
        gpu_type=pl.Series([gpu] * len(rows), dtype=pl.String),
        **columns,
    )
    return support_traces.in_memory(frame)


def bill(cost: TraceCost, provider: str, kind: str) -> SourceBill:
    """Return the cost of the jobs at one source."""
    return next(b for b in cost.bills if (b.provider, b.kind) == (provider, kind))


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


WHOLE = {
    "p.csv": "\n".join([HEADER, *(f"2026-01-05T0{i}:00:00Z,c,L4,,spot,0.{i + 1},{i}"
                                  for i in range(9))]),
    "h.json": aws_history(*(aws_record(f"2016-04-25T12:4{i}:29.000Z", "1.5") for i in range(9))),
    "l.jsonl": "\n".join(prime_line(f"2025-10-19T21:0{i}:58+00:00", {"a": {"min": 2, "count": 1}})
                         for i in range(9)),
    "vms.csv": "\n".join([SKYPILOT, *(f"i{i},L4,1,2,3,0.{i + 1},r,,0.1" for i in range(9))]),
    "asks.csv": "\n".join([VAST.replace("id,host_id", "gpu_name,host_id"),
                           *(f"2026-01-21T14:1{i}:00Z,L4,1,2,1.0,0.5,1,24000,US"
                             for i in range(9))]),
    "a.tsv": "\n".join(f"use1-az2\tg5.xlarge\tLinux/UNIX\t0.{i + 1}\t2026-01-01T00:00:00Z"
                       for i in range(9)),
    "aws-10-26-2022_us-west-2a_v100_1.json": json.dumps(
        {"metadata": {"gap_seconds": 60}, "data": [1] * 9, "prices": [2.0] * 9}
    ),
    "aws-10-26-2022_us-west-2a_k80_1.json": json.dumps(
        {"metadata": {"gap_seconds": 60}, "data": [1, 0, 2] * 3}
    ),
    "counts.csv": "\n".join([HEADER, *(f"2026-01-05T0{i}:00:00Z,c,L4,,spot,,{i}"
                                       for i in range(9))]),
}  # fmt: skip
"""Name -> text of a whole file of every price format."""
