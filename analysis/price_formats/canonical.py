"""The canonical price table, as Parquet or CSV, of ``gpuplan prices`` or of your own making."""

from __future__ import annotations

import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.job_table.gpu_names import gpu_names
from gpuplan.analysis.price_formats.format import (
    PriceFormat,
    PricePlan,
    PriceSourceContext,
    need,
    price_or_availability,
    rules,
)
from gpuplan.analysis.price_formats.schema import (
    KIND_TYPE,
    KIND_WORDS,
    KINDS,
    METADATA_KEY,
    PRICE,
    PRICES,
    PriceProvenance,
    is_one_of,
)
from gpuplan.analysis.reading.delimited import open_rows
from gpuplan.analysis.reading.plan import Field, ReadingPlan, count, number, text
from gpuplan.analysis.reading.source import Head
from gpuplan.analysis.reading.times import moment

COLUMNS = ("timestamp", "provider", "kind")
LEVELS = (PRICE, "available")
"""The content of a row; one of the columns is enough."""
GPU_COLUMNS = ("gpu_type", "gpu")
OF_A_TRACE = {"job_id", "submit_time", "num_gpus"}
AWS_SPOT = (pl.col("provider") == "aws") & (pl.col("kind") == "spot")
"""Amazon publishes spot prices as changes, whoever copies them into a table."""


def _plan(context: PriceSourceContext) -> PricePlan:
    gpu = next((name for name in GPU_COLUMNS if name in context.columns), GPU_COLUMNS[0])
    if OF_A_TRACE <= set(context.columns):
        raise InputError(
            context.head.path,
            "is a trace of jobs; it has no prices",
            expected="a price list",
            hint=f"gpuplan characterize {context.head.path} --prices builtin "
            "says what it would cost",
        )
    levels = [name for name in LEVELS if name in context.columns] or [PRICE]
    need(context, (*COLUMNS, gpu, *levels), "canonical")
    word = pl.col("kind").str.strip_chars().str.to_lowercase()
    kind = word.replace_strict(KIND_WORDS, default=None, return_dtype=KIND_TYPE)
    fields = [
        Field("timestamp", "timestamp", moment("timestamp", "UTC"), "an ISO 8601 time", True),
        text("provider", "provider", required=True),
        Field("gpu_type", gpu, gpu_names(gpu), required=True),
        Field("kind", "kind", kind, f"one of {', '.join(KINDS)}", True),
    ]
    if PRICE in levels:
        fields.append(number(PRICE, PRICE, expected="US dollars per GPU-hour"))
    fields += [text(name, name) for name in ("region", "instance") if name in context.columns]
    if "available" in levels:
        fields.append(count("available", "available", least=0))
    before = _provenance(context.head)
    return PricePlan(
        plan=ReadingPlan(
            fields=tuple(fields),
            schema=PRICES,
            rules=(*rules("timestamp", levels[0]), price_or_availability(levels[0])),
            notes=() if before is None else before.notes,
        ),
        changes=AWS_SPOT if before is None else is_one_of(before.change_series),
    )


def _provenance(head: Head) -> PriceProvenance | None:
    if not head.is_parquet:
        return None
    try:
        stored = pl.read_parquet_metadata(head.file or head.path)[METADATA_KEY]
        return PriceProvenance.from_json(stored)
    except (KeyError, ValueError, TypeError, pl.exceptions.PolarsError):
        return None  # written by another tool


def _recognizes(head: Head) -> str | None:
    if head.is_parquet:
        return "a Parquet file"
    columns = set(head.columns)
    level = next((name for name in LEVELS if name in columns), None)
    if set(COLUMNS) <= columns and level is not None:
        return f"the columns {', '.join((*COLUMNS, level))}"
    return None


CANONICAL_PRICES = PriceFormat(
    name="canonical",
    description="the price table itself, CSV or Parquet; the GPU in gpu_type or gpu",
    source="gpuplan prices, or your own tool",
    recognizes=_recognizes,
    plan=_plan,
    open=open_rows,
)
