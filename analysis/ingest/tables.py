"""Read delimited text into text columns, quickly where it is regular, exactly where it is not.

A block of whole lines without a quote character, in which every line has the same number of
separators, is parsed by polars. Any other block is taken apart line by line, so that each bad line
is refused with its number and takes no good one with it.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import polars as pl

from gpuplan.analysis.errors import InputError
from gpuplan.analysis.ingest.batch import ROW, Batch, Refused, Rows
from gpuplan.analysis.ingest.source import SourceStream, header_names

BLOCK_BYTES = 1 << 23
MAX_OPEN_QUOTE_BYTES = 1 << 20  # a quoted cell longer than this was never closed
MAX_LINE_BYTES = 1 << 26
SAMPLE_BYTES = 8192
NEWLINE = ord("\n")
QUOTE = b'"'


@dataclass(frozen=True, slots=True)
class Layout:
    """How the lines of a file are laid out.

    Attributes:
        separator: one ASCII character between cells.
        names: column names of a file without a header line; None where the first line has them.
    """

    separator: str = ","
    names: tuple[str, ...] | None = None


COMMA = Layout()


def open_table(stream: SourceStream, layout: Layout = COMMA) -> Rows:
    """Open delimited text; its header is read at once.

    Raises:
        InputError: there is no header.
    """
    rest, lines_before = b"", 0
    if layout.names is not None:
        names = list(layout.names)
    else:
        header, rest, lines_before = _first_line(stream)
        names = header_names(header, layout.separator)
        if not any(names):
            raise InputError(stream.path, "is empty", expected="a header and rows")
    if not rest:
        rest = stream.read(1)  # the head, or one byte where it is used up
    table = _Table(tuple(names), layout.separator)
    return Rows(
        columns=table.names,
        sample=_sample(table, rest),
        batches=partial(_batches, stream, table, rest, lines_before),
    )


@dataclass(frozen=True, slots=True)
class _Table:
    names: tuple[str, ...]
    separator: str

    @property
    def width(self) -> int:
        return len(self.names)


def _first_line(stream: SourceStream) -> tuple[bytes, bytes, int]:
    """Return the first line that is not blank, what was read after it, and its number."""
    data, number = b"", 0
    while True:
        line, newline, rest = data.partition(b"\n")
        if newline:
            number += 1
            if line.strip():
                return line, rest, number
            data = rest
            continue
        more = stream.read(BLOCK_BYTES)
        if not more:
            return line, b"", number + 1
        data += more


def _sample(table: _Table, data: bytes) -> tuple[dict[str, str | None], ...]:
    """Return the cells of the first rows that have the width of the table."""
    lines = data[:SAMPLE_BYTES].decode("utf-8", "replace").splitlines(keepends=True)
    rows: list[dict[str, str | None]] = []
    with suppress(csv.Error):  # this is only a look; the reading tells what is wrong
        rows.extend(
            {name: cell or None for name, cell in zip(table.names, cells, strict=True)}
            for cells in csv.reader(lines, delimiter=table.separator)
            if len(cells) == table.width
        )
    return tuple(rows[: max(1, len(rows) - 1)])  # the last one may be cut


def _batches(
    stream: SourceStream, table: _Table, rest: bytes, lines_before: int, wanted: Sequence[str]
) -> Iterator[Callable[[], Batch]]:
    """Yield one reader per block of lines; quoted blocks are read here, as a cell may span two."""
    first = lines_before + 1
    while True:
        chunk = stream.read(BLOCK_BYTES)
        last = not chunk
        if last and not rest:
            return
        block, rest = (rest, b"") if last else _whole_lines(rest, chunk)
        if len(rest) > MAX_LINE_BYTES:
            raise InputError(
                stream.path,
                f"has a line longer than {MAX_LINE_BYTES >> 20} MB",
                row=first,
                expected="one job per line",
            )
        if block:
            lines = _count(block, NEWLINE) + (not block.endswith(b"\n"))
            if QUOTE in block:
                batch, left = _read_quoted(block, first, table, wanted, last)
                rest = left + rest
                lines -= _count(left, NEWLINE)
                yield partial(_same, batch)
            else:
                yield partial(_read_plain, block, first, lines, table, wanted)
            first += lines
        if last:
            return


def _whole_lines(rest: bytes, chunk: bytes) -> tuple[bytes, bytes]:
    """Return the whole lines of two pieces, and what is left; each byte is copied once."""
    end = chunk.rfind(b"\n") + 1
    if end == 0:
        return b"", rest + chunk
    return b"".join((rest, memoryview(chunk)[:end])), chunk[end:]


def _same(batch: Batch) -> Batch:
    return batch


def _count(data: bytes, byte: int) -> int:
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == byte))


def _read_plain(
    block: bytes, first: int, lines: int, table: _Table, wanted: Sequence[str]
) -> Batch:
    """Read a block without quotes; ``first`` is the number of its first line."""
    try:
        cells = _parse(block, table, wanted)
    except pl.exceptions.PolarsError:  # not UTF-8
        cells = None
    if cells is not None and _is_regular(block, cells, lines, table):
        numbers = pl.Series(ROW, np.arange(first, first + lines))
        return Batch(cells.select(*wanted).with_columns(numbers), partial(_lines, block))
    good, numbers_of_good, refused = [], [], []
    for number, line in enumerate(block.split(b"\n"), first):
        content = line.removesuffix(b"\r")
        if not content.strip():
            continue
        problem = _line_problem(content, table)
        if problem is None:
            good.append(content)
            numbers_of_good.append(number)
        else:
            refused.append(replace(problem, row=number))
    regular = b"\n".join(good) + b"\n" if good else b""
    cells = _parse(regular, table, wanted)
    numbers = pl.Series(ROW, numbers_of_good, pl.Int64)
    return Batch(cells.select(*wanted).with_columns(numbers), partial(_lines, regular), refused)


def _parse(block: bytes, table: _Table, wanted: Sequence[str]) -> pl.DataFrame:
    """Return the wanted columns and the last one, which tells whether a line is too short."""
    names = table.names
    if not block:
        return pl.DataFrame(schema=dict.fromkeys(names, pl.String))
    keep = sorted({names.index(name) for name in wanted} | {table.width - 1})
    cells = pl.read_csv(
        block,
        has_header=False,
        separator=table.separator,
        quote_char=None,
        schema={f"column_{i + 1}": pl.String for i in range(table.width)},
        columns=keep,
        missing_columns="insert",
        truncate_ragged_lines=True,
    )
    return cells.rename(dict(zip(cells.columns, (names[i] for i in keep), strict=True)))


def _is_regular(block: bytes, cells: pl.DataFrame, lines: int, table: _Table) -> bool:
    """Whether each line has as many cells as the table and none is blank."""
    separators = lines * (table.width - 1)
    if cells.height != lines or _count(block, ord(table.separator)) != separators:
        return False
    if cells[table.names[-1]].null_count() == 0:
        return table.width > 1 or b"\n\n" not in block  # no line is short, so none is long
    data = np.frombuffer(block, np.uint8)
    marks = np.flatnonzero((data == ord(table.separator)) | (data == NEWLINE))
    ends = data[marks[table.width - 1 :: table.width]]
    return table.width > 1 and bool((ends == NEWLINE).all())


def _line_problem(line: bytes, table: _Table) -> Refused | None:
    found = line.count(table.separator.encode()) + 1
    if found != table.width:
        return _wrong_width(found, table, line.decode("utf-8", "backslashreplace"))
    if line.isascii():
        return None
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return _not_text(line)
    return None


def _wrong_width(found: int, table: _Table, raw: str) -> Refused:
    return Refused(
        0, "wrong_number_of_fields", None, f"{found} fields", f"{table.width} fields", raw
    )


def _not_text(line: bytes) -> Refused:
    raw = line.decode("utf-8", "backslashreplace")
    return Refused(0, "not_utf8", None, "bytes that are no UTF-8 text", "UTF-8 text", raw)


def _lines(block: bytes, positions: Sequence[int]) -> list[str]:
    lines = block.split(b"\n")
    return [lines[position].rstrip(b"\r").decode("utf-8") for position in positions]


def _read_quoted(
    block: bytes, first: int, table: _Table, wanted: Sequence[str], last: bool
) -> tuple[Batch, bytes]:
    """Read a block with quotes; returns the rows and the start of a row that the block cuts.

    A line with an unclosed quote would swallow the lines after it: it is refused alone.
    """
    lines = [part + b"\n" for part in block.split(b"\n")]
    if block.endswith(b"\n"):
        lines.pop()
    texts = [line.decode("utf-8", "surrogateescape") for line in lines]
    rows: list[list[str]] = []
    numbers: list[int] = []
    spans: list[tuple[int, int]] = []
    refused: list[Refused] = []
    left = b""
    at = 0
    while at < len(texts):
        reader = csv.reader(texts[at:] if at else texts, dialect=_dialect(table.separator))
        start = at
        try:
            for cells in reader:
                begin, at = at, start + reader.line_num
                if not any(cell.strip() for cell in cells) and len(cells) <= 1:
                    continue
                raw = "".join(texts[begin:at]).rstrip("\r\n")
                problem = _row_problem(cells, raw, table)
                if problem is None:
                    rows.append(cells)
                    numbers.append(first + begin)
                    spans.append((begin, at))
                    continue
                refused.append(replace(problem, row=first + begin))
                if at > begin + 1:  # the quote may have been opened by mistake: try the next line
                    at = begin + 1
                    break
        except csv.Error as error:
            unfinished = "unexpected end" in str(error)
            tail = b"".join(lines[at:])
            if unfinished and not last and len(tail) <= MAX_OPEN_QUOTE_BYTES:
                left = tail
                break
            raw = texts[at].rstrip("\r\n")
            what = "a quote that is not closed" if unfinished else f"bad quoting ({error})"
            refused.append(
                Refused(first + at, "bad_quoting", None, what, "quotes in pairs", _printable(raw))
            )
            at += 1
    columns: dict[str, list[str | None]] = {}
    for name in wanted:
        index = table.names.index(name)
        columns[name] = [row[index] or None for row in rows]
    frame = pl.DataFrame(columns, schema=dict.fromkeys(wanted, pl.String))
    frame = frame.with_columns(pl.Series(ROW, numbers, pl.Int64))

    def as_written(positions: Sequence[int]) -> list[str]:
        return ["".join(texts[slice(*spans[i])]).rstrip("\r\n") for i in positions]

    return Batch(frame, as_written, refused), left


def _row_problem(cells: list[str], raw: str, table: _Table) -> Refused | None:
    if len(cells) != table.width:
        return _wrong_width(len(cells), table, _printable(raw))
    if not raw.isascii() and any("\udc80" <= letter <= "\udcff" for letter in raw):
        return _not_text(raw.encode("utf-8", "surrogateescape"))
    return None


def _printable(raw: str) -> str:
    return raw.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _dialect(separator: str) -> type[csv.Dialect]:
    class Dialect(csv.excel):
        delimiter = separator
        strict = True

    return Dialect
