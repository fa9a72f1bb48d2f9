"""Read a user's table of goodput parameters: how long a training step takes, what it is worth."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from gpuplan.analysis.time_units import CENTURY_S, HOUR_S
from gpuplan.analysis.user_tables.cells import Rule, check_shares, read_cells
from gpuplan.analysis.user_tables.throughputs import EPOCH, MOST, WORK_SHARE, above_zero

MOST_STEPS = 1_000  # accumulation steps; the search for the best batch tries them all


def _whole(name: str, what: str) -> Rule:
    column = pl.col(name)
    whole = column.is_between(1, 1e9) & (column == column.floor())
    return f"{what}, a whole number from 1", whole


def _seconds(name: str) -> Rule:
    return "seconds, at least 0 and at most a century", pl.col(name).is_between(0, CENTURY_S)


NUMBERS: dict[str, Rule] = {
    "alpha_c": above_zero("alpha_c", "seconds", CENTURY_S),
    **{name: _seconds(name) for name in ("beta_c", "alpha_r", "beta_r", "alpha_n", "beta_n")},
    "gamma": ("a number from 1 to 100", pl.col("gamma").is_between(1, 100)),
    "init_batch_size": _whole("init_batch_size", "samples"),
    "max_batch_size": _whole("max_batch_size", "samples"),
    "min_local_bsz": _whole("min_local_bsz", "samples on a GPU"),
    "max_local_bsz": _whole("max_local_bsz", "samples on a GPU"),
    "gpus_per_node": _whole("gpus_per_node", "GPUs"),
    "noise_scale": ("samples, at least 0", pl.col("noise_scale").is_between(0, MOST)),
    "epoch": EPOCH,
    "work_share": WORK_SHARE,
    "work_h": above_zero("work_h", "hours on one GPU", CENTURY_S / HOUR_S),
    "rescale_s": _seconds("rescale_s"),
}
OPTIONAL = ("epoch", "work_share", "work_h", "rescale_s")
REQUIRED = ("job_class", *(name for name in NUMBERS if name not in OPTIONAL))
WHOLE_BATCH = (
    "init_batch_size",
    "max_batch_size",
    "min_local_bsz",
    "max_local_bsz",
    "gpus_per_node",
)


def read_goodputs(path: Path) -> pl.DataFrame:
    """Read a CSV of Pollux' throughput parameters, batch limits and gradient noise scale.

    Returns:
        One row per class and epoch: ``row`` (in the file), ``job_class``, ``epoch`` (0 where there
        is no such column), the columns of `REQUIRED`, ``work_share`` (1 where not given),
        ``work_h`` and ``rescale_s`` (null where not given), sorted by class and epoch.

    Raises:
        InputError: no such file, not a CSV, a column missing, or a cell that breaks a rule.
    """
    hint = "see docs/boa.md for an example of a table of goodput parameters"
    cells = read_cells(path, REQUIRED, rows="class", hint=hint)
    table = cells.numbers(NUMBERS)
    default = {"epoch": 0.0, "work_share": 1.0, "work_h": None, "rescale_s": None}
    table = table.with_columns(
        pl.lit(value, dtype=pl.Float64).alias(name)
        for name, value in default.items()
        if name not in table.columns
    )
    first = pl.struct("job_class", "epoch").is_first_distinct()
    cells.refuse(table, "job_class", "one row per class and epoch", first)
    low, high = pl.col("init_batch_size"), pl.col("max_batch_size")
    cells.refuse(table, "max_batch_size", "at least init_batch_size", low <= high)
    local = pl.col("min_local_bsz") <= pl.col("max_local_bsz")
    cells.refuse(table, "max_local_bsz", "at least min_local_bsz", local)
    steps = high <= MOST_STEPS * pl.col("max_local_bsz")
    cells.refuse(table, "max_batch_size", f"at most {MOST_STEPS:,} x max_local_bsz", steps)
    for name in ("work_h", "rescale_s"):
        given = pl.col(name)
        same = given.eq_missing(given.first()).over("job_class")
        cells.refuse(table, name, "the same in every row of a class", same)
    check_shares(path, table)
    names = ("row", "job_class", "epoch", *REQUIRED[1:], *OPTIONAL[1:])
    whole = [pl.col("epoch", *WHOLE_BATCH).cast(pl.Int64)]
    return table.select(names).with_columns(whole).sort("job_class", "epoch")
