"""What an invoice format is: how a file is recognized, and how its cells become charges."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.time_units import DAY_US
from gpuplan.analysis.invoices.charges import AMOUNT, CHARGES
from gpuplan.analysis.reading.batch import ROW
from gpuplan.analysis.reading.times import read_moments

NOTHING = ["", "NULL", "null", "Null", "None", "\\N", "nan", "NaN"]
"""Words for an empty cell."""
DECIMAL_COMMA = r"^[+-]?\d+,\d+$"
MIDNIGHT = r"^(\d{4}-\d{2})-\d{2}(?:[T ]00:00(?::00(?:\.0+)?)?(?: ?[+-]\d{2}:?\d{2})?)?$"
"""A time at midnight where it was written: its month is the one meant, whatever its offset."""
MOST_AMOUNT = 10**15
YEARS = (1990, 2200)
"""Years in which a charge can be; the second one is not."""


@dataclass(frozen=True, slots=True)
class InvoiceCells:
    """The cells of one file, as text.

    Attributes:
        path: of the file.
        cells: text columns under the names of the format, and `ROW`; null where a cell is empty.
        names: name of the format -> as the file has it, for messages.
        decimal_comma: whether a comma may stand for the point of an amount, as it does in files
            whose cells are separated by semicolons.
    """

    path: Path
    cells: pl.DataFrame
    names: Mapping[str, str]
    decimal_comma: bool = False

    def has(self, name: str) -> bool:
        """Return whether the file has a column."""
        return name in self.cells.columns

    def text(self, name: str) -> pl.Series:
        """Return a column; nulls where the file has none."""
        if self.has(name):
            return self.cells[name]
        return pl.Series(name, [None], pl.String).new_from_index(0, self.cells.height)

    def select_texts(self, names: Sequence[str]) -> pl.Series:
        """Return several columns as one text with a line for each cell."""
        frame = pl.DataFrame([self.text(name).alias(name) for name in names])
        return frame.select(pl.concat_str(pl.all(), separator="\n", ignore_nulls=True)).to_series()

    def amount(self, name: str) -> pl.Series:
        """Return a column of exact amounts. Raises `InputError` for a cell that is none."""
        cells = self.text(name)
        if self.decimal_comma and not cells.str.contains(".", literal=True).any():
            has_comma = cells.str.contains(DECIMAL_COMMA).fill_null(False)
            cells = cells.str.replace(",", ".").zip_with(has_comma, cells)
        amounts = cells.cast(AMOUNT, strict=False)
        large = amounts.abs() > MOST_AMOUNT
        self._refuse(name, cells, amounts.set(large, None), "a number such as 12.345")
        return amounts

    def instant(self, name: str) -> pl.Series:
        """Return a column of times as microseconds since 1970; without an offset they are UTC.

        Raises:
            InputError: a cell is no time.
        """
        cells = self.text(name)
        moments = read_moments(cells, "UTC")
        year = moments.dt.year()
        is_plausible = ((year >= YEARS[0]) & (year < YEARS[1])).fill_null(False)
        moments_us = moments.to_physical()
        nothing = pl.Series([None], dtype=pl.Int64).new_from_index(0, len(cells))
        moments_us = moments_us.zip_with(is_plausible, nothing)
        self._refuse(name, cells, moments_us, "a time such as 2026-01-31T00:00:00Z")
        return moments_us

    def period_end(self, name: str, begin_us: pl.Series) -> pl.Series:
        """Return a column of ends; one day for a period without an end, or without length.

        Raises:
            InputError: a period ends before it begins.
        """
        end = self.instant(name)
        self._refuse(name, self.text(name), end.set(end < begin_us, None), "a time after its begin")
        is_open = end.is_null() | (end == begin_us)
        return end.zip_with(~is_open, begin_us + DAY_US)

    def word(self, name: str, words: Mapping[str, str]) -> pl.Series:
        """Return a column of known words, in any case. Raises `InputError` for another."""
        cells = self.text(name)
        meanings = {word.lower(): meaning for word, meaning in words.items()}
        lower = cells.str.to_lowercase()
        meant = lower.replace_strict(meanings, default=None, return_dtype=pl.String)
        self._refuse(name, cells, meant, f"one of {', '.join(words)}")
        return meant

    def month(self, name: str) -> pl.Series:
        """Return the month of a column of times, ``2026-01``: as written at midnight, else UTC."""
        begin = pl.from_epoch(self.instant(name), time_unit="us").dt.replace_time_zone("UTC")
        month = begin.dt.strftime("%Y-%m")
        as_written = self.text(name).str.extract(MIDNIGHT)
        return as_written.zip_with(as_written.is_not_null(), month)

    def periods(self, begin: str, end: str, billing: str, billing_end: str) -> dict[str, pl.Series]:
        """Return the columns of charges on the charge period and the billing period.

        Args:
            begin, end: columns of the charge period; each row has a begin.
            billing, billing_end: of the billing period; a file without it has that of the charge.

        Raises:
            InputError: a cell is empty or is no time, or a period ends before it begins.
        """
        begin_us = self.instant(begin)
        self.need_cells(begin, begin_us, "a time such as 2026-01-31T00:00:00Z")
        billing = billing if self.has(billing) else begin
        month_begin_us = self.instant(billing)
        self.need_cells(billing, month_begin_us, "a time such as 2026-01-01T00:00:00Z")
        return {
            "month": self.month(billing),
            "month_begin_us": month_begin_us,
            "month_end_us": self.instant(billing_end),
            "begin_us": begin_us,
            "end_us": self.period_end(end, begin_us),
        }

    def need(self, *names: str) -> None:
        """Raise `InputError` where a column is missing."""
        missing = [name for name in names if not self.has(name)]
        if missing:
            raise InputError(
                self.path,
                f"no column {', '.join(missing)}",
                row=1,
                expected=f"the columns {', '.join(names)}",
                hint=f"say which column it is: --map {missing[0]}=COLUMN",
            )

    def need_cells(self, name: str, cells: pl.Series, expected: str) -> None:
        """Raise `InputError` at the first empty cell of a column."""
        if cells.null_count():
            row = int(self.cells[ROW][int(cells.is_null().arg_max() or 0)])
            column = self.names.get(name, name)
            raise InputError(self.path, "is empty", row=row, column=column, expected=expected)

    def frame(self, columns: Mapping[str, pl.Series]) -> pl.DataFrame:
        """Return columns as charges; those that are missing are null."""
        rows = {ROW: self.cells[ROW], **columns}
        nothing = pl.Series([None]).new_from_index(0, self.cells.height)
        return pl.DataFrame(
            {name: rows.get(name, nothing).cast(kind) for name, kind in CHARGES.items()}
        )

    def _refuse(self, name: str, cells: pl.Series, values: pl.Series, expected: str) -> None:
        bad = values.is_null() & cells.is_not_null()
        if bad.any():
            at = int(bad.arg_max() or 0)
            raise InputError(
                self.path,
                f"found {cells[at]!r}",
                row=int(self.cells[ROW][at]),
                column=self.names.get(name, name),
                expected=expected,
            )


@dataclass(frozen=True, slots=True)
class InvoiceFormat:
    """A format of invoices.

    Attributes:
        name: what lists of formats call it.
        description: what it is, in a few words.
        source: who defines it.
        columns: that it reads, as it names them.
        as_named: returns the name of the format for a column of a file.
        recognizes: returns the evidence that the columns of a file are of this format, or None.
        charges: makes charges of the cells of a file; their amounts add up to those of the file.
            Raises `InputError` where a cell cannot be read.
    """

    name: str
    description: str
    source: str
    columns: tuple[str, ...]
    as_named: Callable[[str], str]
    recognizes: Callable[[Sequence[str]], str | None]
    charges: Callable[[InvoiceCells], pl.DataFrame]

    @classmethod
    def of_columns(
        cls,
        name: str,
        *,
        description: str,
        source: str,
        columns: tuple[str, ...],
        needed: tuple[str, ...],
        charges: Callable[[InvoiceCells], pl.DataFrame],
    ) -> InvoiceFormat:
        """Return a format that is recognized by the columns that it needs, however written.

        Case and separators of a column name do not matter.
        """
        names = {_plain_name(column): column for column in columns}

        def as_named(column: str) -> str:
            return names.get(_plain_name(column), column)

        def recognizes(in_file: Sequence[str]) -> str | None:
            is_here = set(map(as_named, in_file)).issuperset(needed)
            return f"the columns {', '.join(needed)}" if is_here else None

        return cls(name, description, source, columns, as_named, recognizes, charges)


def _plain_name(column: str) -> str:
    """Return a column name without case and separators: ``billed_cost`` as ``BilledCost``."""
    return re.sub(r"[\s_/]", "", column).lower()
