"""Amazon's spot price history: ``aws ec2 describe-spot-price-history``, or its TSV archives.

Prices are text, in US dollars per instance-hour; every row is a change of its instance
type. Prices for Linux are kept; other systems repeat the series at other prices.

The GPUs of each instance type are from Amazon's instance type pages, as of 2025; old histories need
the sizes that are no longer sold. Any other type has no known GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import polars as pl

from gpuplan.analysis.price_formats.format import PriceFormat, PricePlan, PriceSourceContext, Skip
from gpuplan.analysis.price_formats.plan import fixed, rules
from gpuplan.analysis.price_formats.schema import KIND_TYPE, PRICE, PRICES
from gpuplan.analysis.reading.batch import Rows
from gpuplan.analysis.reading.delimited import Layout, open_table
from gpuplan.analysis.reading.plan import Field, ReadingPlan, number, text
from gpuplan.analysis.reading.records import Cells, open_records
from gpuplan.analysis.reading.records import text as as_text
from gpuplan.analysis.reading.source import Head, SourceStream
from gpuplan.analysis.reading.times import moment

_SMALL = ("xlarge", "2xlarge", "4xlarge", "8xlarge")

_FAMILIES: dict[str, tuple[str, dict[str, int]]] = {
    "cg1": ("M2050", {"4xlarge": 2}),
    "g2": ("K520", {"2xlarge": 1, "8xlarge": 4}),
    "g3": ("M60", {"4xlarge": 1, "8xlarge": 2, "16xlarge": 4}),
    "g3s": ("M60", {"xlarge": 1}),
    "g4dn": ("T4", dict.fromkeys((*_SMALL, "16xlarge"), 1) | {"12xlarge": 4, "metal": 8}),
    "g5": (
        "A10G",
        dict.fromkeys((*_SMALL, "16xlarge"), 1) | {"12xlarge": 4, "24xlarge": 4, "48xlarge": 8},
    ),
    "g5g": ("T4G", dict.fromkeys(_SMALL, 1) | {"16xlarge": 2, "metal": 2}),
    "g6": (
        "L4",
        dict.fromkeys((*_SMALL, "16xlarge"), 1) | {"12xlarge": 4, "24xlarge": 4, "48xlarge": 8},
    ),
    "g6e": (
        "L40S",
        dict.fromkeys((*_SMALL, "16xlarge"), 1) | {"12xlarge": 4, "24xlarge": 4, "48xlarge": 8},
    ),
    "gr6": ("L4", {"4xlarge": 1, "8xlarge": 1}),
    "p2": ("K80", {"xlarge": 1, "8xlarge": 8, "16xlarge": 16}),
    "p3": ("V100-16GB", {"2xlarge": 1, "8xlarge": 4, "16xlarge": 8}),
    "p3dn": ("V100-32GB", {"24xlarge": 8}),
    "p4d": ("A100-40GB", {"24xlarge": 8}),
    "p4de": ("A100-80GB", {"24xlarge": 8}),
    "p5": ("H100-80GB", {"4xlarge": 1, "48xlarge": 8}),
    "p5e": ("H200", {"48xlarge": 8}),
    "p5en": ("H200", {"48xlarge": 8}),
    "p6-b200": ("B200", {"48xlarge": 8}),
}


def _types() -> Iterator[tuple[str, tuple[str, int]]]:
    for family, (gpu, sizes) in _FAMILIES.items():
        for size, gpus in sizes.items():
            yield f"{family}.{size}", (gpu, gpus)


AWS_INSTANCES: dict[str, tuple[str, int]] = dict(_types())
"""Instance type -> its GPU and how many of them."""


ARRAY = "SpotPriceHistory"
COLUMNS = ("AvailabilityZone", "InstanceType", "ProductDescription", "SpotPrice", "Timestamp")
"""The columns in the order of the archives, which have no header."""
LINUX = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
INSTANCE = re.compile(r"[a-z][a-z0-9-]*\.(\d*x?large|metal|micro|small|medium)[a-z0-9-]*")


def _open_json(stream: SourceStream) -> Rows:
    inside = f'"{ARRAY}"'.encode() in stream.head
    return open_records(stream, _cells, COLUMNS, key=ARRAY if inside else None)


def _cells(record: dict[str, Any]) -> Cells:
    return {name: as_text(record.get(name)) for name in COLUMNS}


def _plan(context: PriceSourceContext) -> PricePlan:
    kind = pl.col("InstanceType")
    gpu = kind.replace_strict({k: gpu for k, (gpu, _) in AWS_INSTANCES.items()}, default=None)
    gpus = kind.replace_strict({k: n for k, (_, n) in AWS_INSTANCES.items()}, default=None)
    usd = pl.col("SpotPrice").cast(pl.Float64, strict=False) / gpus
    unknown = kind.is_not_null() & ~kind.is_in(list(AWS_INSTANCES))
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
