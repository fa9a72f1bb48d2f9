"""Read blocks of lines in which cells may be quoted: line by line, so that no good row is lost."""

from __future__ import annotations

import csv
from collections.abc import Sequence

import polars as pl

from gpuplan.analysis.reading.batch import ROW, Batch, Refused, TableShape, not_text, wrong_width

ROWS_TURNED = 500
MAX_OPEN_QUOTE_BYTES = 1 << 20  # a quoted cell longer than this was never closed


def read_quoted(
    block: bytes, first: int, shape: TableShape, wanted: Sequence[str], last: bool
) -> tuple[Batch, bytes]:
    """Read a block of lines; returns its rows, and the start of a row that the block cuts.

    A line with an unclosed quote would include the lines after it, so only that line is refused.

    Args:
        block: the lines.
        first: number of the first one.
        shape: columns of the table.
        wanted: columns to return.
        last: whether this is the last block, so that it cuts no row.
    """
    lines = [part + b"\n" for part in block.split(b"\n")]
    if block.endswith(b"\n"):
        lines.pop()
    texts = [line.decode("utf-8", "surrogateescape") for line in lines]
    dialect, width, is_ascii = _dialect(shape.separator), shape.width, block.isascii()
    columns = _Columns(shape, wanted)
    begins: list[int] = []  # first line of each row, from 0, and the line after its last one
    ends: list[int] = []
    refused: list[Refused] = []
    left = b""
    at = 0
    while at < len(texts):
        start = at
        reader = csv.reader(texts[start:] if start else texts, dialect=dialect)
        try:
            for cells in reader:
                begin, at = at, start + reader.line_num
                if len(cells) <= 1 and not any(cell.strip() for cell in cells):
                    continue  # a blank line
                if len(cells) == width and (is_ascii or _is_text(cells)):
                    columns.add(cells)
                    begins.append(begin)
                    ends.append(at)
                    continue
                unfinished = at == len(texts) and not block.endswith(b"\n")
                raw = _joined(texts, begin, at)
                refused.append(_problem(first + begin, cells, raw, shape, unfinished))
                if at > begin + 1:  # the quote may have been opened by mistake: try the next line
                    at = begin + 1
                    break
        except csv.Error as error:
            is_open = "unexpected end" in str(error)
            tail = b"".join(lines[at:])
            if is_open and not last and len(tail) <= MAX_OPEN_QUOTE_BYTES:
                left = tail
                break
            what = "a quote that is not closed" if is_open else f"bad quoting ({error})"
            raw = _printable(_joined(texts, at, at + 1))
            refused.append(Refused(first + at, "bad_quoting", None, what, "quotes in pairs", raw))
            at += 1
    numbers = pl.Series(ROW, begins, pl.Int64) + first
    frame = columns.to_frame().with_columns(numbers)

    def as_written(positions: Sequence[int]) -> list[str]:
        return [_joined(texts, begins[i], ends[i]) for i in positions]

    return Batch(frame, as_written, refused), left


class _Columns:
    """The wanted cells of many rows, column by column.

    Rows are turned in small groups: held as one list each, a million of them keep the garbage
    collector busy for longer than their reading takes.
    """

    def __init__(self, shape: TableShape, wanted: Sequence[str]) -> None:
        self._places = [shape.names.index(name) for name in wanted]
        self._columns: dict[str, list[str | None]] = {name: [] for name in wanted}
        self._rows: list[list[str]] = []

    def add(self, cells: list[str]) -> None:
        self._rows.append(cells)
        if len(self._rows) == ROWS_TURNED:
            self._turn()

    def to_frame(self) -> pl.DataFrame:
        self._turn()
        return pl.DataFrame(self._columns, schema=dict.fromkeys(self._columns, pl.String))

    def _turn(self) -> None:
        for place, column in zip(self._places, self._columns.values(), strict=True):
            column.extend([row[place] or None for row in self._rows])
        self._rows.clear()


def _problem(row: int, cells: list[str], raw: str, shape: TableShape, unfinished: bool) -> Refused:
    if len(cells) != shape.width:
        return wrong_width(row, len(cells), shape, _printable(raw), unfinished=unfinished)
    return not_text(row, raw.encode("utf-8", "surrogateescape"))


def _is_text(cells: list[str]) -> bool:
    """Return whether all bytes were UTF-8: others have become surrogates."""
    try:
        "".join(cells).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _joined(texts: list[str], begin: int, end: int) -> str:
    return "".join(texts[begin:end]).rstrip("\r\n")


def _printable(raw: str) -> str:
    return raw.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _dialect(separator: str) -> type[csv.Dialect]:
    class Dialect(csv.excel):
        delimiter = separator
        strict = True

    return Dialect
