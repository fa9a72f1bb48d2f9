"""Small CSV tables that users write by hand: read as text, checked cell by cell."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from gpuplan.analysis.base.errors import InputError, shortened
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.reading.source import read_unpacked

Rule = tuple[str, pl.Expr]  # the requirement in words, and its test


@dataclass(frozen=True, slots=True)
class CsvCells:
    """A table as written in its file.

    Attributes:
        path: the file.
        raw: every cell as text, null if empty; the first row is row 2 of the file.
    """

    path: Path
    raw: pl.DataFrame

    def numbers(self, rules: Mapping[str, Rule], optional: Collection[str] = ()) -> pl.DataFrame:
        """Return the table with ``row`` and these columns, where present, as numbers.

        Args:
            rules: column -> what its cells must be.
            optional: columns whose cells may be blank; those are null.

        Raises:
            InputError: a cell is not a number or breaks its rule.
        """
        names = [name for name in rules if name in self.raw.columns]
        table = (
            self.raw.drop("row", strict=False)
            .with_row_index("row", 2)
            .with_columns(
                pl.col(name).str.strip_chars().cast(pl.Float64, strict=False) for name in names
            )
        )
        for name in names:
            expected, holds = rules[name]
            if name in optional:
                written = self.raw[name].str.strip_chars().fill_null("")
                holds |= pl.lit(written == "")
            self.refuse(table, name, expected, holds)
        return table

    def refuse(self, table: pl.DataFrame, column: str, expected: str, holds: pl.Expr) -> None:
        """Raise on the first row that breaks a rule, with the cell as written."""
        bad = table.filter(~holds.fill_null(False)).head(1)
        if bad.height:
            row = int(bad["row"].item())
            cell = self.raw[column][row - 2]
            problem = "an empty cell" if cell is None else f"found {shortened(cell, 40)!r}"
            raise InputError(self.path, problem, row=row, column=column, expected=expected)


def text_cells(
    path: Path, data: bytes, *, expected: str | None = None, hint: str | None = None
) -> pl.DataFrame:
    """Return the cells of a CSV table as text, without blanks around the names of columns.

    Raises:
        InputError: the data are no table, or two columns have one name.
    """
    try:
        raw = pl.read_csv(io.BytesIO(data), infer_schema=False)
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        problem = f"is not a CSV table ({shortened(str(error).splitlines()[0], 200)})"
        raise InputError(path, problem, expected=expected, hint=hint) from error
    names = [name.strip() for name in raw.columns]
    twice = next((name for name, times in Counter(names).items() if times > 1), None)
    if twice is not None:
        problem = f"the column {shortened(twice, 40)!r} is there twice"
        raise InputError(path, problem, row=1, expected=expected, hint=hint)
    return raw.rename(dict(zip(raw.columns, names, strict=True)))


def read_cells(path: Path, required: Sequence[str], *, rows: str, hint: str) -> CsvCells:
    """Read a CSV file that has at least the columns ``required`` and one row of ``rows``.

    Blanks around the values of ``job_class`` are removed.

    Raises:
        InputError: no such file, not text or CSV, a column missing, no rows, or a class without a
            name.
    """
    data = read_unpacked(path)
    if b"\0" in data:
        raise InputError(path, "is not text", expected="a CSV table", hint=hint)
    raw = text_cells(path, data, hint=hint)
    missing = [name for name in required if name not in raw.columns]
    if missing:
        raise InputError(
            path,
            f"no column {', '.join(missing)}; found {listed(raw.columns)}",
            expected=f"the columns {', '.join(required)}",
            hint=hint,
        )
    if raw.is_empty():
        raise InputError(path, "has no rows", expected=f"at least one {rows}")
    cells = CsvCells(path, raw.with_columns(pl.col("job_class").str.strip_chars()))
    named = cells.raw.select("job_class").with_row_index("row", 2)
    cells.refuse(named, "job_class", "a class name", pl.col("job_class") != "")
    return cells


def check_shares(path: Path, epochs: pl.DataFrame, *, off: float = 0.02) -> None:
    """Raise where the shares of work were given for a class and do not add up to 1.

    Args:
        path: the file.
        epochs: one row per epoch: ``row``, ``job_class``, ``work_share``; all shares are 1 where
            none were given.
        off: tolerance for rounded shares, as in three times 0.33.
    """
    for (name,), rows in epochs.group_by("job_class", maintain_order=True):
        total = float(rows["work_share"].sum())
        if abs(total - 1) > off and not (rows["work_share"] == 1).all():
            raise InputError(
                path,
                f"the shares of class {name!r} add up to {total:.4g}",
                row=int(rows["row"][0]),
                column="work_share",
                expected="shares that add up to 1 over the epochs of a class",
            )
