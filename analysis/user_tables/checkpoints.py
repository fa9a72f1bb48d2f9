"""Read a user's table of the times to save and to load jobs of each class."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.time_units import CENTURY_S
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.user_tables.cells import Rule, read_cells

EVERY_OTHER = "*"
TIMES = ("checkpoint_s", "restore_s")
SIZES = ("state_gb", "gb_per_s")
RULES: dict[str, Rule] = {
    **{name: ("seconds, at least 0", pl.col(name).is_between(0, CENTURY_S)) for name in TIMES},
    "state_gb": ("gigabytes, at least 0", pl.col("state_gb").is_between(0, 1e9)),
    "gb_per_s": ("gigabytes per second, above 0", pl.col("gb_per_s").is_between(1e-6, 1e9)),
}


def read_checkpoints(path: Path) -> dict[str, tuple[float, float]]:
    """Read a CSV of job_class and either checkpoint_s, restore_s or state_gb, gb_per_s.

    With the latter both take state_gb / gb_per_s. The class ``*`` means all other classes.

    Returns:
        Class -> seconds to save and to load a job of it.

    Raises:
        InputError: no such file, not a CSV, a column missing, columns of both kinds, a cell that
            breaks a rule, or a class that comes twice.
    """
    hint = "for example job_class,checkpoint_s,restore_s or job_class,state_gb,gb_per_s"
    cells = read_cells(path, ("job_class",), rows="class", hint=hint)
    both = [name for name in (*TIMES, *SIZES) if name in cells.raw.columns]
    if {*both} & {*TIMES} and {*both} & {*SIZES}:
        raise InputError(
            path,
            f"found the columns {listed(both)}",
            expected=f"{' and '.join(TIMES)}, or {' and '.join(SIZES)}",
            hint="give one of the two",
        )
    names = next(
        (columns for columns in (TIMES, SIZES) if set(columns) <= set(cells.raw.columns)), None
    )
    if names is None:
        raise InputError(
            path,
            f"found the columns {listed(cells.raw.columns)}",
            expected=f"job_class and {' and '.join(TIMES)}, or {' and '.join(SIZES)}",
            hint=hint,
        )
    table = cells.numbers({name: RULES[name] for name in names})
    once = pl.col("job_class").is_first_distinct()
    cells.refuse(table, "job_class", "one row per class", once)
    if names == SIZES:
        lasting = pl.col("state_gb") / pl.col("gb_per_s")
        table = table.select("job_class", *(lasting.alias(name) for name in TIMES))
    return {name: (save, load) for name, save, load in table.select("job_class", *TIMES).rows()}
