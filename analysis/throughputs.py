"""Read a user's table of measured throughputs, the raw form of a speedup function."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from gpuplan.analysis.errors import InputError
from gpuplan.analysis.files import existing_file

NUMBERS = {  # column: (what a cell must be, the test for it)
    "num_gpus": ("GPUs, 1 to 1,000,000", pl.col("num_gpus").is_between(1, 1e6)),
    "throughput": (
        "work done per second, above 0",
        pl.col("throughput").is_between(0, float("inf"), "none"),
    ),
    "epoch": (
        "a whole number, at least 0",
        (pl.col("epoch") >= 0) & (pl.col("epoch") == pl.col("epoch").floor()),
    ),
    "work_share": (
        "the epoch's share of the work, above 0",
        pl.col("work_share").is_between(0, float("inf"), "none"),
    ),
}
SHARES_OFF = 0.02  # what rounding, as in three times 0.33, may take from a sum of 1
REQUIRED = ("job_class", "num_gpus", "throughput")


def read_throughputs(path: Path) -> pl.DataFrame:
    """Read a CSV of job_class, num_gpus, throughput and, where known, epoch and work_share.

    Returns:
        One row per measurement: ``row`` (in the file), ``job_class``, ``epoch`` (0 where there is
        no such column), ``num_gpus``, ``throughput``, ``work_share`` (1 where there is no such
        column), sorted by class, epoch and GPUs.

    Raises:
        InputError: no such file, not a CSV, a column missing, or a cell that breaks a rule.
    """
    try:
        raw = pl.read_csv(existing_file(path), infer_schema=False)
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(path, f"is no CSV table ({reason})", hint=_hint()) from error
    raw = raw.rename({name: name.strip() for name in raw.columns})
    missing = [name for name in REQUIRED if name not in raw.columns]
    if missing:
        raise InputError(
            path,
            f"no column {', '.join(missing)}; found {', '.join(raw.columns[:12])}",
            expected=f"the columns {', '.join(REQUIRED)}",
            hint=_hint(),
        )
    if raw.is_empty():
        raise InputError(path, "has no rows", expected="at least one measurement")
    numbers = [name for name in NUMBERS if name in raw.columns]
    table = raw.with_row_index("row", 2).with_columns(
        pl.col("job_class").str.strip_chars(),
        *(pl.col(name).str.strip_chars().cast(pl.Float64, strict=False) for name in numbers),
    )
    _refuse(path, raw, table, "job_class", "a class name", pl.col("job_class") != "")
    for name in numbers:
        _refuse(path, raw, table, name, *NUMBERS[name])
    table = table.with_columns(
        *([] if "epoch" in numbers else [pl.lit(0.0).alias("epoch")]),
        *([] if "work_share" in numbers else [pl.lit(1.0).alias("work_share")]),
    )
    measured = ("job_class", "epoch", "num_gpus")
    first = ~pl.struct(measured).is_duplicated() | pl.struct(measured).is_first_distinct()
    _refuse(path, raw, table, "num_gpus", "one row per class, epoch and GPU count", first)
    same = (pl.col("work_share") == pl.col("work_share").first()).over("job_class", "epoch")
    _refuse(path, raw, table, "work_share", "the same share in every row of an epoch", same)
    _check_shares(path, table)
    columns = ("row", "job_class", "epoch", "num_gpus", "throughput", "work_share")
    return table.select(columns).cast({"epoch": pl.Int64}).sort(measured)


def _refuse(
    path: Path, raw: pl.DataFrame, table: pl.DataFrame, column: str, expected: str, holds: pl.Expr
) -> None:
    """Raise on the first row where a rule does not hold, with the cell as it stands there."""
    bad = table.filter(~holds.fill_null(False)).head(1)
    if bad.height:
        row = int(bad["row"].item())
        cell = raw[column][row - 2]
        found = "an empty cell" if cell is None else f"found {cell!r}"
        raise InputError(path, found, row=row, column=column, expected=expected)


def _check_shares(path: Path, table: pl.DataFrame) -> None:
    """Raise where shares were given for a class and do not add up to 1."""
    epochs = table.unique(["job_class", "epoch"], maintain_order=True)
    for (name,), rows in epochs.group_by("job_class", maintain_order=True):
        total = float(rows["work_share"].sum())
        if abs(total - 1) > SHARES_OFF and not (rows["work_share"] == 1).all():
            raise InputError(
                path,
                f"the shares of class {name!r} add up to {total:.4g}",
                row=int(rows["row"][0]),
                column="work_share",
                expected="shares that add up to 1 over the epochs of a class",
            )


def _hint() -> str:
    return "see docs/boa.md for an example of a throughput table"
