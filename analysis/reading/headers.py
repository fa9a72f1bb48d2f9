"""Errors for tables with a header that no format recognizes."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.words import a_log
from gpuplan.analysis.reading.source import SEPARATORS, Head, likely_separator
from gpuplan.analysis.reading.times import ISO, is_number

MIN_CELLS = 2  # of a table; fewer are prose
WRITTEN = {"\t": r"\t"}


def header_error(head: Head, formats: Mapping[str, Sequence[str]]) -> InputError | None:
    """Return the error for a table with other separators, or without a header; else None.

    Args:
        head: of a file without a known format, or not of the one that the user named.
        formats: name -> required columns of a log.
    """
    names = head.table_columns
    if head.line is None or len(names) < MIN_CELLS:
        return None
    separator = likely_separator(head.line)
    complete = [(len(columns), name) for name, columns in formats.items()
             if columns and set(columns) <= set(names)]  # fmt: skip
    if separator != "," and complete:
        return _separated(head, separator, max(complete)[1])
    if not _is_data(names):
        return None
    needed = next(iter(formats.values())) if len(formats) == 1 else ()
    header = ",".join(needed) if len(needed) == len(names) else "NAME,NAME,..."
    return InputError(
        head.path,
        f"{'' if needed else 'unrecognized log format: '}has no header; it starts with "
        f"{head.shown()}",
        expected="the names of the columns in the first line"
        + (f", {', '.join(needed)} among them" if needed else ""),
        hint=f"put them before it: (echo '{header}'; cat {_quoted(head)}) > headed.csv",
    )


def _separated(head: Head, separator: str, name: str) -> InputError:
    mark = WRITTEN.get(separator, separator)
    has_commas = b"," in head.data
    by_hand = "save it again with commas between the cells"
    command = f"convert it: tr '{mark}' ',' < {_quoted(head)} > commas.csv"
    return InputError(
        head.path,
        f"is {a_log(name)} whose cells are separated by {SEPARATORS[separator]} ('{mark}')",
        expected="commas",
        hint=f"{by_hand}, and quotes around cells that hold one" if has_commas else command,
    )


def _is_data(cells: Sequence[str]) -> bool:
    """Return whether a first line has values: any time, or numbers in half of the cells."""
    numbers = sum(is_number(cell) for cell in cells)
    return 2 * numbers >= len(cells) or any(_is_time(cell) for cell in cells)


def _is_time(cell: str) -> bool:
    match = ISO.match(cell)
    return match is not None and match["sep"] is not None


def _quoted(head: Head) -> str:
    return shlex.quote(str(head.path))
