"""Tables of how fast each class of jobs runs on each GPU type, by GPUs: Gavel's, or a user's."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.log_formats.gavel import COLUMNS, UNCONSOLIDATED, read_all_throughputs
from gpuplan.analysis.reading.source import read_unpacked
from gpuplan.analysis.user_tables.cells import CsvCells, Rule, read_cells
from gpuplan.analysis.user_tables.rates import above_zero, whole_number

RATE_COLUMNS = ("job_class", "gpu_type", "gpus", "rate")
PARALLEL = ("data", "tensor", "pipeline")
OF_CLASS: dict[str, pl.DataType] = {
    "state_gb": pl.Float64(),
    "dataset_gb": pl.Float64(),
    "parallelism": pl.String(),
}
"""Optional columns about all jobs of a class."""
OPTIONAL = ("cross_host", *OF_CLASS)
"""Columns whose cells may be blank."""
SCHEMA: dict[str, pl.DataType] = {
    "job_class": pl.String(),
    "gpu_type": pl.String(),
    "gpus": pl.Float64(),
    "rate": pl.Float64(),
    "cross_host": pl.Float64(),
    **OF_CLASS,
}
HINT = "for example job_class,gpu_type,gpus,rate with a row ResNet-50,V100,4,11.2"
MOST_GB = 1e9


RULES: dict[str, Rule] = {
    "gpus": whole_number("gpus", "GPUs"),
    "rate": above_zero("rate", "work per second"),
    "batch_size": whole_number("batch_size", "samples"),
    "cross_host": ("a factor on the rate, above 0 and at most 1",
                   (pl.col("cross_host") > 0) & (pl.col("cross_host") <= 1)),
    "state_gb": ("GB, at least 0", pl.col("state_gb").is_between(0, MOST_GB)),
    "dataset_gb": ("GB, at least 0", pl.col("dataset_gb").is_between(0, MOST_GB)),
}  # fmt: skip


def read_gpu_rates(path: Path) -> pl.DataFrame:
    """Read rates: a CSV of job_class, gpu_type, gpus, rate, or Gavel's throughputs as CSV or JSON.

    Of several ``batch_size`` for one class, type and number of GPUs the one with the best rate
    counts. Gavel's rates of GPUs on different hosts give ``cross_host``.

    Returns:
        One row per ``job_class``, ``gpu_type`` and ``gpus`` with its ``rate``, work per second, and
        the other columns of `SCHEMA`, null where unknown.

    Raises:
        InputError: no such file, neither table, a cell that breaks a rule, or two rates for one
            class, type and number of GPUs.
    """
    data = read_unpacked(path).lstrip()
    header = data.partition(b"\n")[0].decode(errors="replace")
    if data[:1] == b"{" or all(name in header for name in COLUMNS):
        return _of_gavel(path)
    cells = read_cells(path, RATE_COLUMNS, rows="rate", hint=HINT)
    table = cells.numbers(RULES, optional=OPTIONAL).with_columns(
        pl.col("gpu_type").str.strip_chars()
    )
    cells.refuse(table, "gpu_type", "the name of a GPU type", pl.col("gpu_type") != "")
    if "parallelism" in table.columns:
        blank = pl.col("parallelism").str.strip_chars().replace("", None)
        table = table.with_columns(blank)
        is_valid = pl.col("parallelism").is_in(PARALLEL) | blank.is_null()
        cells.refuse(table, "parallelism", f"one of {', '.join(PARALLEL)}", is_valid)
    per, once = "class, GPU type and number of GPUs", pl.struct(RATE_COLUMNS[:3])
    if "batch_size" in table.columns:
        per = "class, GPU type, number of GPUs and batch size"
        once = pl.struct(*RATE_COLUMNS[:3], "batch_size")
    cells.refuse(table, "gpus", f"one row per {per}", once.is_first_distinct())
    table = _of_classes(cells, table)
    best = table.sort("rate", descending=True, maintain_order=True).unique(
        RATE_COLUMNS[:3], keep="first", maintain_order=True
    )
    return _complete(best.sort("row"))


def _of_classes(cells: CsvCells, table: pl.DataFrame) -> pl.DataFrame:
    """Return the table with what one row of a class has in every row of it."""
    for name in OF_CLASS:
        if name in table.columns:
            value = pl.col(name).drop_nulls().first().over("job_class")
            same = pl.col(name).is_null() | (pl.col(name) == value)
            cells.refuse(table, name, "the same in every row of a class", same)
            table = table.with_columns(value)
    return table


def _of_gavel(path: Path) -> pl.DataFrame:
    rows = read_all_throughputs(path)
    table = rows.select(
        "job_class",
        pl.col("worker_type").alias("gpu_type"),
        pl.col("num_gpus").alias("gpus"),
        pl.col("steps_per_s").alias("rate"),
    ).filter(pl.col("rate").is_finite() & (pl.col("rate") > 0))
    twice = table.filter(table.select(RATE_COLUMNS[:3]).is_duplicated())
    if twice.height:
        name, gpu, *_ = twice.row(0)
        raise InputError(path, f"has two throughputs of {name!r} on {gpu}")
    is_spread = pl.col("gpu_type").str.ends_with(UNCONSOLIDATED)
    spread = table.filter(is_spread).with_columns(
        pl.col("gpu_type").str.strip_suffix(UNCONSOLIDATED)
    )
    return _complete(
        table.filter(~is_spread)
        .join(spread, on=RATE_COLUMNS[:3], how="left", suffix="_spread", maintain_order="left")
        .with_columns((pl.col("rate_spread") / pl.col("rate")).clip(None, 1.0).alias("cross_host"))
    )


def _complete(table: pl.DataFrame) -> pl.DataFrame:
    """Return the columns of `SCHEMA`; those that a table lacks are null."""
    return table.select(
        (pl.col(name) if name in table.columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in SCHEMA.items()
    )
