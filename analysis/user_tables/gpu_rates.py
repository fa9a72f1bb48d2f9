"""Tables of how fast each class of jobs runs on each GPU type, by GPUs: Gavel's, or a user's."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from gpuplan.analysis.errors import InputError
from gpuplan.analysis.log_formats.gavel import COLUMNS, read_all_throughputs
from gpuplan.analysis.reading.source import read_unpacked
from gpuplan.analysis.user_tables.cells import Rule, read_cells
from gpuplan.analysis.user_tables.rates import above_zero

RATE_COLUMNS = ("job_class", "gpu_type", "gpus", "rate")
HINT = "for example job_class,gpu_type,gpus,rate with a row ResNet-50,V100,4,11.2"
RULES: dict[str, Rule] = {
    "gpus": ("GPUs, a whole number from 1", (pl.col("gpus") >= 1)
             & (pl.col("gpus") == pl.col("gpus").floor())),
    "rate": above_zero("rate", "work per second"),
}  # fmt: skip


def read_gpu_rates(path: Path) -> pl.DataFrame:
    """Read rates: a CSV of job_class, gpu_type, gpus, rate, or Gavel's throughputs as CSV or JSON.

    Returns:
        One row per ``job_class``, ``gpu_type`` and ``gpus`` with its ``rate``, work per second.

    Raises:
        InputError: no such file, neither table, a cell that breaks a rule, or two rates for one
            class, type and number of GPUs.
    """
    data = read_unpacked(path).lstrip()
    header = data.partition(b"\n")[0].decode(errors="replace")
    if data[:1] == b"{" or all(name in header for name in COLUMNS):
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
        return table
    cells = read_cells(path, RATE_COLUMNS, rows="rate", hint=HINT)
    table = cells.numbers(RULES).with_columns(pl.col("gpu_type").str.strip_chars())
    cells.refuse(table, "gpu_type", "the name of a GPU type", pl.col("gpu_type") != "")
    for name, rule in RULES.items():
        cells.refuse(table, name, *rule)
    once = pl.struct(RATE_COLUMNS[:3]).is_first_distinct()
    cells.refuse(table, "gpus", "one row per class, GPU type and number of GPUs", once)
    return table.select(RATE_COLUMNS)
