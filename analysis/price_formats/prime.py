"""The Prime Intellect price tracker: a line of JSON per snapshot of the offers of one GPU.

Each provider of a snapshot becomes a price, the cheapest of its offers. Which of them are spot is
unknown, so all are of the kind marketplace. A missing provider has no offers.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from gpuplan.analysis.job_table.gpu_names import gpu_names
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
from gpuplan.analysis.reading.plan import Field, ReadingPlan, count, number, text
from gpuplan.analysis.reading.records import Cells, open_records
from gpuplan.analysis.reading.records import text as as_text
from gpuplan.analysis.reading.source import SourceStream
from gpuplan.analysis.reading.times import moment

COLUMNS = ("timestamp", "gpu_type", "provider", "min", "count")
NO_OFFER: dict[str, dict[str, Any]] = {"": {}}
"""Provider of a snapshot without offers, so that it counts; real providers have a name."""


def _open(stream: SourceStream) -> Rows:
    return open_records(stream, _cells, COLUMNS)


def _cells(record: dict[str, Any]) -> list[Cells]:
    offers = record.get("by_provider")
    if not isinstance(offers, dict) or not all(
        isinstance(entry, dict) for entry in offers.values()
    ):
        raise ValueError("no object by_provider with an object per provider")
    names = [record.get("gpu_type"), record.get("socket_type")]
    gpu = " ".join(name for name in names if isinstance(name, str))
    return [
        {
            "timestamp": as_text(record.get("timestamp")),
            "gpu_type": as_text(gpu),
            "provider": as_text(provider),
            "min": as_text(offer.get("min")),
            "count": as_text(offer.get("count")),
        }
        for provider, offer in (offers or NO_OFFER).items()
    ]


def _plan(context: PriceSourceContext) -> PricePlan:
    is_empty = pl.all_horizontal(pl.col("provider", "min", "count").is_null())
    return PricePlan(
        ReadingPlan(
            fields=(
                Field("timestamp", "timestamp", moment("timestamp", "UTC"), "an ISO time", True),
                Field("gpu_type", "gpu_type", gpu_names("gpu_type"), required=True),
                text("provider", "provider", required=True),
                number(PRICE, "min", required=True, expected="US dollars per GPU-hour"),
                count("available", "count", least=0),
            ),
            jobs={"kind": fixed("marketplace").cast(KIND_TYPE)},
            schema=PRICES,
            rules=rules("timestamp", "min"),
            notes=("Prime Intellect: cheapest offer per provider; available counts offers",),
        ),
        skips=(Skip("snapshots without an offer", is_empty),),
    )


PRIME = PriceFormat(
    name="prime",
    description="Prime Intellect tracker, JSON lines; cheapest per provider, snapshots",
    source="summaries of the Prime Intellect price tracker",
    recognizes=lambda head: (
        "JSON with by_provider and gpu_type" if head.mentions("by_provider", "gpu_type") else None
    ),
    plan=_plan,
    open=_open,
)
