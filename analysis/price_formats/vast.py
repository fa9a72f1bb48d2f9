"""Vast.ai offers as stored by community scrapers: a row per offer and snapshot, asks or bids.

``dph_total`` is US dollars per hour for the whole offer. Asks are on demand (kind marketplace);
bids, recognized by the name of the file, can be interrupted (kind spot). Only free machines are
listed.
"""

from __future__ import annotations

import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.price_formats.format import (
    PriceFormat,
    PricePlan,
    PriceSourceContext,
    by_columns,
    fixed,
    gigabytes,
    gpu_with_memory,
    need,
    rules,
)
from gpuplan.analysis.price_formats.schema import KIND_TYPE, PRICE, PRICES
from gpuplan.analysis.reading.plan import Field, ReadingPlan, count, number
from gpuplan.analysis.reading.times import moment

COLUMNS = ("timestamp", "machine_id", "dph_total", "num_gpus")
BIDS = "bids"


def _plan(context: PriceSourceContext) -> PricePlan:
    need(context, COLUMNS, "vast")
    per_gpu = pl.col("dph_total").cast(pl.Float64, strict=False) / _gpus()
    fields = [
        Field("timestamp", "timestamp", moment("timestamp", "UTC"), "an ISO time", True),
        Field(PRICE, "dph_total", per_gpu, number("", "dph_total").expected, True),
        count("available", "num_gpus"),
        Field("gpu_type", *_gpu(context), required=True),
    ]
    if "geolocation" in context.columns:
        place = pl.col("geolocation").str.split(",").list.last().str.strip_chars()
        fields.append(Field("region", "geolocation", place))
    is_bid = BIDS in context.head.path.name.lower()
    kind = "spot" if is_bid else "marketplace"
    return PricePlan(
        ReadingPlan(
            fields=tuple(fields),
            jobs={"provider": fixed("vast.ai"), "kind": fixed(kind).cast(KIND_TYPE)},
            schema=PRICES,
            rules=rules("timestamp", "dph_total"),
            notes=(f"Vast.ai: {'bids, interruptible' if is_bid else 'asks'}, one row per offer",),
        )
    )


def _gpus() -> pl.Expr:
    gpus = pl.col("num_gpus").cast(pl.Float64, strict=False)
    return pl.when(gpus > 0).then(gpus).otherwise(1.0)  # a bad count refuses the row by itself


def _gpu(context: PriceSourceContext) -> tuple[str, pl.Expr]:
    """Return the source column of the GPU, and its name with the memory of the offer."""
    named = "gpu_name" in context.columns
    if not named and context.choices.gpu is None:
        raise InputError(
            context.head.path,
            "names no GPU: no column gpu_name",
            hint="say which one it lists: --gpu RTX5090",
        )
    written = pl.col("gpu_name") if named else fixed(str(context.choices.gpu))
    memory = pl.lit(None, pl.Float64)
    if "gpu_ram" in context.columns:
        memory = gigabytes("gpu_ram").round().fill_nan(None)
    return ("gpu_name" if named else "machine_id"), gpu_with_memory(written, memory)


VAST = PriceFormat(
    name="vast",
    description="Vast.ai offers, asks or bids, CSV; per offer, snapshots",
    source="scrapers of the Vast.ai offers",
    recognizes=by_columns(COLUMNS),
    plan=_plan,
)
