"""SkyPilot's catalogues: one CSV per cloud with the on-demand and spot price of every instance.

A row becomes two prices; one without a number of GPUs counts once. They are per instance and have
no time: it is that of the commit, given with ``--as-of`` or by a date in the file's name. A price
of 99999999 or 0 means there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import polars as pl

from gpuplan.analysis.price_formats.format import (
    PriceFormat,
    PricePlan,
    PriceSourceContext,
    Skip,
    by_columns,
    fixed,
    gigabytes,
    gpu_with_memory,
    need,
    rules,
    same_time,
)
from gpuplan.analysis.price_formats.schema import KIND_TYPE, PRICE, PRICES
from gpuplan.analysis.reading.batch import Batch, Rows
from gpuplan.analysis.reading.delimited import open_table
from gpuplan.analysis.reading.plan import Field, ReadingPlan, number, text
from gpuplan.analysis.reading.source import SourceStream

COLUMNS = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "SpotPrice")
SENTINEL_ABOVE = 1e7
KIND, USD, AT = "kind", "Price or SpotPrice", "place in the batch"
"""Columns made here: each row of the file becomes one of Price and one of SpotPrice."""
NO_GPU = r"^(?i:tpu|inferentia|trainium|gaudi)"
MEMORY = r"SizeInMiB\D{1,4}(\d+)"
USUAL_MEMORY_GB = {"A100": 40, "V100": 16, "H100": 80, "P100": 16}
"""The memory meant by a name without memory in these catalogues, if the row has none."""


def _open(stream: SourceStream) -> Rows:
    rows = open_table(stream)
    return replace(rows, columns=(*rows.columns, KIND, USD), batches=partial(_batches, rows))


def _batches(rows: Rows, wanted: Sequence[str]) -> Iterator[Callable[[], Batch]]:
    source_columns = [name for name in wanted if name not in (KIND, USD)]
    for task in rows.batches(list(dict.fromkeys((*source_columns, *COLUMNS[1:])))):
        yield partial(_both_kinds, task)


def _both_kinds(task: Callable[[], Batch]) -> Batch:
    batch = task()
    is_bad = pl.col("AcceleratorName").is_not_null() & _gpus().is_null()
    cells = batch.cells.with_row_index(AT)
    on_demand = cells.with_columns(
        pl.lit("on_demand").alias(KIND),
        pl.coalesce("Price", pl.when(is_bad).then("SpotPrice")).alias(USD),
    )
    spot = cells.filter(~is_bad).with_columns(
        pl.lit("spot").alias(KIND), pl.col("SpotPrice").alias(USD)
    )
    both = pl.concat([on_demand, spot])
    at = both[AT]

    def raw(positions: Sequence[int]) -> list[str]:
        return batch.raw([at[position] for position in positions])

    return Batch(both.drop(AT), raw, batch.refused)


def _gpus() -> pl.Expr:
    """Return the GPUs of an instance; null for none or an invalid number."""
    gpus = pl.col("AcceleratorCount").cast(pl.Float64, strict=False)
    return pl.when(gpus.is_finite() & (gpus > 0)).then(gpus)


def _plan(context: PriceSourceContext) -> PricePlan:
    need(context, COLUMNS, "skypilot")
    time, note = same_time(context)
    usd = pl.col(USD).cast(pl.Float64, strict=False)
    name = pl.col("AcceleratorName")
    fields = [
        Field("gpu_type", "AcceleratorName", _names(context), required=True),
        Field("gpus", "AcceleratorCount", _gpus(), "a number of GPUs, above 0", True),
        Field(PRICE, USD, usd / _gpus(), number("", USD).expected, True),
        Field("kind", KIND, pl.col(KIND).cast(KIND_TYPE)),
    ]
    if "Region" in context.columns:
        fields.append(text("region", "Region"))
    return PricePlan(
        plan=ReadingPlan(
            fields=tuple(fields),
            jobs={"timestamp": time, "provider": fixed(_provider(context))},
            schema=PRICES,
            rules=rules(USD, USD),
            notes=(note, "SkyPilot prices are per instance, CPUs and memory included"),
        ),
        skips=(
            Skip("prices of machines without a GPU", name.is_null() | name.str.contains(NO_GPU)),
            Skip(
                "offers that do not exist",
                (usd > SENTINEL_ABOVE) | (usd == 0) | pl.col(USD).is_null(),
            ),
        ),
    )


def _names(context: PriceSourceContext) -> pl.Expr:
    """Return the GPU of a row, with its memory from GpuInfo or the catalogue's default."""
    memory = pl.lit(None, pl.Float64)
    if "GpuInfo" in context.columns:
        memory = gigabytes(pl.col("GpuInfo").str.extract(MEMORY))
    return gpu_with_memory(pl.col("AcceleratorName"), memory, USUAL_MEMORY_GB)


def _provider(context: PriceSourceContext) -> str:
    """Return the cloud: from the user, or from ``aws/vms.csv`` or ``aws.csv``."""
    if context.choices.provider:
        return context.choices.provider
    path = context.head.path
    stem = path.name.partition(".")[0]
    return path.absolute().parent.name if stem == "vms" else stem


SKYPILOT = PriceFormat(
    name="skypilot",
    description="SkyPilot catalog of one cloud, CSV; per instance, one snapshot",
    source="catalogs/<version>/<cloud>/vms.csv of skypilot-catalog",
    recognizes=by_columns(COLUMNS),
    plan=_plan,
    open=_open,
)
