"""Amazon's spot price history: ``aws ec2 describe-spot-price-history``, or its TSV archives.

Prices are text, in US dollars per instance-hour; every row is a change of its instance
type. Prices for Linux are kept; other systems repeat the series at other prices.
"""

from __future__ import annotations

import re
from csv import DictReader
from functools import cache, partial
from pathlib import Path
from typing import Any

import polars as pl

from gpuplan.analysis.price_formats.format import (
    PriceFormat,
    PricePlan,
    PriceSourceContext,
    Skip,
    fixed,
    rules,
)
from gpuplan.analysis.price_formats.schema import KIND_TYPE, PRICE, PRICES
from gpuplan.analysis.reading.batch import Rows
from gpuplan.analysis.reading.delimited import Layout, open_table
from gpuplan.analysis.reading.plan import Field, ReadingPlan, number, text
from gpuplan.analysis.reading.records import Cells, open_records
from gpuplan.analysis.reading.records import text as as_text
from gpuplan.analysis.reading.source import Head, SourceStream
from gpuplan.analysis.reading.times import moment

ARRAY = "SpotPriceHistory"
COLUMNS = ("AvailabilityZone", "InstanceType", "ProductDescription", "SpotPrice", "Timestamp")
"""The columns in the order of the archives, which have no header."""
LINUX = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
INSTANCE = re.compile(r"[a-z][a-z0-9-]*\.(\d*x?large|metal|micro|small|medium)[a-z0-9-]*")


@cache
def aws_instances() -> dict[str, tuple[str, int]]:
    """Return instance type -> its GPU and how many of them; any other type has no known GPU.

    They are from Amazon's instance type pages, as of 2025; old histories need the sizes that are no
    longer sold.
    """
    with Path(__file__).with_name("aws_instances.csv").open(encoding="utf-8", newline="") as lines:
        return {row["instance"]: (row["gpu_type"], int(row["gpus"])) for row in DictReader(lines)}


def _open_json(stream: SourceStream) -> Rows:
    inside = f'"{ARRAY}"'.encode() in stream.head
    return open_records(stream, _cells, COLUMNS, key=ARRAY if inside else None)


def _cells(record: dict[str, Any]) -> Cells:
    return {name: as_text(record.get(name)) for name in COLUMNS}


def _plan(context: PriceSourceContext) -> PricePlan:
    kind, instances = pl.col("InstanceType"), aws_instances()
    gpu = kind.replace_strict({k: gpu for k, (gpu, _) in instances.items()}, default=None)
    gpus = kind.replace_strict({k: n for k, (_, n) in instances.items()}, default=None)
    usd = pl.col("SpotPrice").cast(pl.Float64, strict=False) / gpus
    unknown = kind.is_not_null() & ~kind.is_in(list(instances))
    system = pl.col("ProductDescription")
    return PricePlan(
        plan=ReadingPlan(
            fields=(
                Field("timestamp", "Timestamp", moment("Timestamp", "UTC"), "an ISO time", True),
                Field("gpu_type", "InstanceType", gpu, required=True),
                text("region", "AvailabilityZone", required=True),
                text("instance", "InstanceType"),
                Field(PRICE, "SpotPrice", usd, number("", "SpotPrice").expected, True),
            ),
            jobs={"provider": fixed("aws"), "kind": fixed("spot").cast(KIND_TYPE)},
            schema=PRICES,
            rules=rules("Timestamp", "SpotPrice"),
            notes=("AWS spot prices are per instance, CPUs and memory included",),
        ),
        skips=(
            Skip("prices without a system (ProductDescription)", system.is_null()),
            Skip("prices of another system than Linux", ~system.is_in(LINUX), "ProductDescription"),
            Skip("prices of instance types not in the GPU table", unknown, "InstanceType"),
        ),
        changes=pl.lit(True),
    )


def _is_history(head: Head) -> str | None:
    if head.mentions("SpotPrice", "InstanceType"):
        return "JSON with SpotPrice and InstanceType"
    return f"JSON with {ARRAY}" if head.mentions(ARRAY) else None


def _is_archive(head: Head) -> str | None:
    if head.is_json or head.is_parquet or head.line is None:
        return None
    row = head.line.split("\t")
    if len(row) == len(COLUMNS) and INSTANCE.fullmatch(row[1]):
        return "five tab-separated columns, the second an instance type"
    return None


AWS_JSON = PriceFormat(
    name="aws",
    description="AWS spot price history, JSON; per instance, changes",
    source="aws ec2 describe-spot-price-history",
    recognizes=_is_history,
    plan=_plan,
    open=_open_json,
)
AWS_TSV = PriceFormat(
    name="aws-tsv",
    description="AWS spot price archive: zone, type, product, price, time; no header",
    source="monthly archives of the spot price history",
    recognizes=_is_archive,
    plan=_plan,
    open=partial(open_table, layout=Layout("\t", COLUMNS)),
)
