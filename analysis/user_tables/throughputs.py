"""Read a user's table of measured throughputs, the raw form of a speedup function."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from gpuplan.analysis.user_tables.cells import Rule, check_shares, read_cells

LEAST, MOST = 1e-12, 1e15
"""Rates, shares and counts above 0 lie between; sums and ratios of them are numbers too."""
MOST_EPOCHS = 1e9


def above_zero(name: str, what: str, most: float = MOST) -> Rule:
    """Return the rule of a number above 0, within what can be computed with."""
    text = f"{what}, above 0"
    return f"{text} ({LEAST:g} to {most:g})", pl.col(name).is_between(LEAST, most)


EPOCH: Rule = (
    "a whole number, at least 0",
    pl.col("epoch").is_between(0, MOST_EPOCHS) & (pl.col("epoch") == pl.col("epoch").floor()),
)
WORK_SHARE: Rule = above_zero("work_share", "the epoch's share of the work")
NUMBERS: dict[str, Rule] = {
    "num_gpus": ("GPUs, 1 to 1,000,000", pl.col("num_gpus").is_between(1, 1e6)),
    "throughput": above_zero("throughput", "work done per second"),
    "epoch": EPOCH,
    "work_share": WORK_SHARE,
}
REQUIRED = ("job_class", "num_gpus", "throughput")


def read_throughputs(path: Path) -> pl.DataFrame:
    """Read a CSV of job_class, num_gpus, throughput and, where known, gpu_type, epoch, work_share.

    Returns:
        One row per measurement: ``row`` (in the file), ``gpu_type`` (empty where there is no such
        column), ``job_class``, ``epoch`` (0 where there is no such column), ``num_gpus``,
        ``throughput``, ``work_share`` (1 where there is no such column), sorted by GPU type, in
        the order of the file, class, epoch and GPUs.

    Raises:
        InputError: no such file, not a CSV, a column missing, or a cell that breaks a rule.
    """
    hint = "see docs/boa.md for an example of a throughput table"
    cells = read_cells(path, REQUIRED, rows="measurement", hint=hint)
    table = cells.numbers(NUMBERS)
    table = table.with_columns(
        *([] if "epoch" in table.columns else [pl.lit(0.0).alias("epoch")]),
        *([] if "work_share" in table.columns else [pl.lit(1.0).alias("work_share")]),
        pl.col("gpu_type").str.strip_chars()
        if "gpu_type" in table.columns
        else pl.lit("").alias("gpu_type"),
    )
    typed = "gpu_type" in cells.raw.columns
    if typed:
        cells.refuse(table, "gpu_type", "the name of a GPU type", pl.col("gpu_type") != "")
    measured = ("gpu_type", "job_class", "epoch", "num_gpus")
    first = ~pl.struct(measured).is_duplicated() | pl.struct(measured).is_first_distinct()
    per = f"{'GPU type, ' if typed else ''}class, epoch and GPU count"
    cells.refuse(table, "num_gpus", f"one row per {per}", first)
    same = (pl.col("work_share") == pl.col("work_share").first()).over("job_class", "epoch")
    cells.refuse(table, "work_share", "the same share in every row of an epoch", same)
    check_shares(path, table.unique(["job_class", "epoch"], maintain_order=True))
    columns = ("row", "gpu_type", "job_class", "epoch", "num_gpus", "throughput", "work_share")
    by_file = pl.col("row").min().over("gpu_type")
    return table.select(columns).cast({"epoch": pl.Int64}).sort(by_file, *measured)
