"""Tables of job classes for speedup functions: measured throughputs, or goodput parameters."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gpuplan.analysis.base.errors import InputError, shortened
from gpuplan.analysis.base.time_units import CENTURY_S, HOUR_S
from gpuplan.analysis.reading.source import read_unpacked
from gpuplan.analysis.user_tables.cells import Rule, check_shares, read_cells

LEAST, MOST = 1e-12, 1e15
"""Range of positive rates, shares and counts, so that sums and ratios of them stay finite."""
MOST_EPOCHS = 1e9
EPOCH: Rule = (
    "a whole number, at least 0",
    pl.col("epoch").is_between(0, MOST_EPOCHS) & (pl.col("epoch") == pl.col("epoch").floor()),
)
THROUGHPUT_COLUMNS = ("job_class", "num_gpus", "throughput")
MOST_STEPS = 1_000  # accumulation steps; the search for the best batch evaluates them all
OPTIONAL = ("epoch", "work_share", "work_h", "rescale_s")
WHOLE_BATCH = (
    "init_batch_size",
    "max_batch_size",
    "min_local_bsz",
    "max_local_bsz",
    "gpus_per_node",
)


def above_zero(name: str, what: str, most: float = MOST) -> Rule:
    """Return the rule of a number above 0, within the range that can be computed."""
    text = f"{what}, above 0"
    return f"{text} ({LEAST:g} to {most:g})", pl.col(name).is_between(LEAST, most)


def whole_number(name: str, what: str) -> Rule:
    """Return the rule of a whole number from 1 to a billion."""
    column = pl.col(name)
    is_valid = column.is_between(1, 1e9) & (column == column.floor())
    return f"{what}, a whole number from 1", is_valid


WORK_SHARE: Rule = above_zero("work_share", "the epoch's share of the work")
THROUGHPUT_RULES: dict[str, Rule] = {
    "num_gpus": ("GPUs, 1 to 1,000,000", pl.col("num_gpus").is_between(1, 1e6)),
    "throughput": above_zero("throughput", "work done per second"),
    "epoch": EPOCH,
    "work_share": WORK_SHARE,
}


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
    cells = read_cells(path, THROUGHPUT_COLUMNS, rows="measurement", hint=hint)
    table = cells.numbers(THROUGHPUT_RULES)
    table = table.with_columns(
        *([] if "epoch" in table.columns else [pl.lit(0.0).alias("epoch")]),
        *([] if "work_share" in table.columns else [pl.lit(1.0).alias("work_share")]),
        _gpu_type(table),
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


def _seconds(name: str) -> Rule:
    return "seconds, at least 0 and at most a century", pl.col(name).is_between(0, CENTURY_S)


GOODPUT_RULES: dict[str, Rule] = {
    "alpha_c": above_zero("alpha_c", "seconds", CENTURY_S),
    **{name: _seconds(name) for name in ("beta_c", "alpha_r", "beta_r", "alpha_n", "beta_n")},
    "gamma": ("a number from 1 to 100", pl.col("gamma").is_between(1, 100)),
    "init_batch_size": whole_number("init_batch_size", "samples"),
    "max_batch_size": whole_number("max_batch_size", "samples"),
    "min_local_bsz": whole_number("min_local_bsz", "samples on a GPU"),
    "max_local_bsz": whole_number("max_local_bsz", "samples on a GPU"),
    "gpus_per_node": whole_number("gpus_per_node", "GPUs"),
    "noise_scale": ("samples, at least 0", pl.col("noise_scale").is_between(0, MOST)),
    "epoch": EPOCH,
    "work_share": WORK_SHARE,
    "work_h": above_zero("work_h", "hours on one GPU", CENTURY_S / HOUR_S),
    "rescale_s": _seconds("rescale_s"),
}
GOODPUT_COLUMNS = ("job_class", *(name for name in GOODPUT_RULES if name not in OPTIONAL))


def read_goodputs(path: Path) -> pl.DataFrame:
    """Read a CSV of Pollux' throughput parameters, batch limits and gradient noise scale.

    Returns:
        One row per GPU type, class and epoch: ``row`` (in the file), ``gpu_type`` (empty where
        there is no such column), ``job_class``, ``epoch`` (0 where there is no such column), the
        columns of `GOODPUT_COLUMNS`, ``work_share`` (1 where not given), ``work_h`` and
        ``rescale_s`` (null where not given), sorted by GPU type, in the order of the file, class
        and epoch.

    Raises:
        InputError: no such file, not a CSV, a column missing, or a cell that breaks a rule.
    """
    hint = "see docs/boa.md for an example of a table of goodput parameters"
    cells = read_cells(path, GOODPUT_COLUMNS, rows="class", hint=hint)
    table = cells.numbers(GOODPUT_RULES)
    default = {"epoch": 0.0, "work_share": 1.0, "work_h": None, "rescale_s": None}
    table = table.with_columns(
        pl.lit(value, dtype=pl.Float64).alias(name)
        for name, value in default.items()
        if name not in table.columns
    ).with_columns(_gpu_type(table))
    typed = "gpu_type" in cells.raw.columns
    if typed:
        cells.refuse(table, "gpu_type", "the name of a GPU type", pl.col("gpu_type") != "")
    first = pl.struct("gpu_type", "job_class", "epoch").is_first_distinct()
    per = f"{'GPU type, ' if typed else ''}class and epoch"
    cells.refuse(table, "job_class", f"one row per {per}", first)
    batch = pl.col("init_batch_size")
    is_same = (batch == batch.first()).over("job_class", "epoch")
    cells.refuse(table, "init_batch_size", "the same on every GPU type", is_same)
    low, high = pl.col("init_batch_size"), pl.col("max_batch_size")
    cells.refuse(table, "max_batch_size", "at least init_batch_size", low <= high)
    local = pl.col("min_local_bsz") <= pl.col("max_local_bsz")
    cells.refuse(table, "max_local_bsz", "at least min_local_bsz", local)
    steps = high <= MOST_STEPS * pl.col("max_local_bsz")
    cells.refuse(table, "max_batch_size", f"at most {MOST_STEPS:,} x max_local_bsz", steps)
    for name in ("work_h", "rescale_s"):
        cell = pl.col(name)
        same = cell.eq_missing(cell.first()).over("gpu_type", "job_class")
        cells.refuse(table, name, "the same in every row of a class", same)
    same = (pl.col("work_share") == pl.col("work_share").first()).over("job_class", "epoch")
    cells.refuse(table, "work_share", "the same share in every row of an epoch", same)
    check_shares(path, table.unique(["job_class", "epoch"], maintain_order=True))
    names = ("row", "gpu_type", "job_class", "epoch", *GOODPUT_COLUMNS[1:], *OPTIONAL[1:])
    whole_columns = [pl.col("epoch", *WHOLE_BATCH).cast(pl.Int64)]
    by_file = pl.col("row").min().over("gpu_type")
    return table.select(names).with_columns(whole_columns).sort(by_file, "job_class", "epoch")


def _gpu_type(table: pl.DataFrame) -> pl.Expr:
    """Return the names of GPU types; empty where a table has none."""
    gpu_type = pl.col("gpu_type").str.strip_chars() if "gpu_type" in table.columns else pl.lit("")
    return gpu_type.alias("gpu_type")


def read_rates(path: Path) -> NDArray[np.float64]:
    """Return the requests of each second.

    Raises:
        InputError: no such file, no number, a negative one, or no row.
    """
    rates: list[float] = []
    lines = read_unpacked(path).decode("utf-8-sig", "replace").splitlines()
    for row, line in enumerate(lines, 1):
        text = line.strip()
        if not text:
            continue
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 <= value < 1e9:
            problem = f"found {shortened(text, 40)!r}"
            expected = "requests of that second, a number, at least 0"
            raise InputError(path, problem, row=row, expected=expected)
        rates.append(value)
    if not rates:
        raise InputError(path, "has no rows", expected="requests per second, one number per line")
    return np.array(rates)
