"""Read delimited text into text columns, quickly if it is regular, otherwise line by line.

A block of whole lines without a quote character, in which every line has the same number of
separators, is parsed by polars. Any other block is split line by line, so that each bad line is
refused with its number and no good line is lost.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.reading.batch import (
    ROW,
    Batch,
    Refused,
    Rows,
    TableShape,
    not_text,
    wrong_width,
)
from gpuplan.analysis.reading.limits import MOST_COLUMNS, MOST_LINE_BYTES, long_line
from gpuplan.analysis.reading.parquets import open_parquet
from gpuplan.analysis.reading.quoted import read_quoted
from gpuplan.analysis.reading.source import Head, SourceStream, header_names
from gpuplan.analysis.reading.unreadable import odd_text

BLOCK_BYTES = 1 << 23
SAMPLE_BYTES = 8192
MOST_GROUP_BYTES = 1 << 20
NEWLINE = ord("\n")
HELD = "\x1f"
"""Stands for a separator inside free text while a line is split."""
QUOTE = b'"'


@dataclass(frozen=True, slots=True)
class Layout:
    """How the lines of a file are laid out.

    Attributes:
        separator: one ASCII character between cells.
        names: column names of a file without a header line; None where the first line has them.
        quotes: whether a cell may be quoted; otherwise a quote is an ordinary character.
        any_case: whether the names in the header are taken in lower case.
        clean: makes whole lines regular before they are read, and keeps the number of lines.
        free: column of free text, which takes the separators that a line has too many; only
            without ``quotes``.
        ends_lines: whether the program that writes it ends every line, the last one too.
        continues: tells a line that belongs to the one above it: both are in one batch, unless
            there are very many.
    """

    separator: str = ","
    names: tuple[str, ...] | None = None
    quotes: bool = True
    any_case: bool = False
    clean: Callable[[bytes], bytes] | None = None
    free: str | None = None
    ends_lines: bool = False
    continues: Callable[[bytes], bool] | None = None


COMMA = Layout()


def open_table(stream: SourceStream, layout: Layout | Callable[[str], Layout] = COMMA) -> Rows:
    """Open delimited text; its header is read at once.

    Args:
        stream: the file.
        layout: the layout of its lines, or a function that finds it from the first line.

    Raises:
        InputError: there is no header, or the encoding or the line ends are not supported.
    """
    if (odd := odd_text(Head(stream.path, stream.head))) is not None:
        raise odd
    line, rest, number = _first_line(stream)
    if not isinstance(layout, Layout):
        layout = layout(line.decode("utf-8", "replace").rstrip("\r"))
    names = list(layout.names or header_names(line, layout.separator, any_case=layout.any_case))
    if len(names) > MOST_COLUMNS:
        problem = f"has {len(names):,} columns"
        raise InputError(stream.path, problem, row=number, expected=f"at most {MOST_COLUMNS:,}")
    if not any(names):
        raise InputError(stream.path, "is empty", expected="a header and rows")
    if layout.names is not None:
        number -= 1
        rest = line + b"\n" + rest if line else rest
    elif not rest:
        rest = stream.read(1)  # the head, or one byte if it is used up
    shape = TableShape(tuple(names), layout.separator, layout.free, layout.ends_lines)
    return Rows(
        columns=shape.names,
        sample=_sample(shape, rest if layout.clean is None else layout.clean(rest)),
        batches=partial(_batches, stream, shape, layout, rest, number),
    )


def _first_line(stream: SourceStream) -> tuple[bytes, bytes, int]:
    """Return the first line that is not blank, what was read after it, and its number."""
    data, number = b"", 0
    while True:
        blank = len(data) - len(data.lstrip())
        begin = data.rfind(b"\n", 0, blank) + 1
        number += data.count(b"\n", 0, begin)
        data = data[begin:]
        end = data.find(b"\n")
        if end >= 0:
            return data[:end], data[end + 1 :], number + 1
        if len(data) > MOST_LINE_BYTES:
            raise long_line(stream.path, number + 1)
        more = stream.read(BLOCK_BYTES)
        if not more:
            return data, b"", number + 1
        data += more


def _sample(shape: TableShape, data: bytes) -> tuple[dict[str, str | None], ...]:
    """Return the cells of the first rows that have the width of the shape."""
    lines = data[:SAMPLE_BYTES].decode("utf-8", "replace").splitlines(keepends=True)
    rows: list[dict[str, str | None]] = []
    with suppress(csv.Error):  # only a preview; reading reports the error
        rows.extend(
            {name: cell or None for name, cell in zip(shape.names, cells, strict=True)}
            for cells in csv.reader(lines, delimiter=shape.separator)
            if len(cells) == shape.width
        )
    return tuple(rows[: max(1, len(rows) - 1)])  # the last one may be cut


def _batches(
    stream: SourceStream,
    shape: TableShape,
    layout: Layout,
    rest: bytes,
    lines_before: int,
    wanted: Sequence[str],
) -> Iterator[Callable[[], Batch]]:
    """Yield one reader per block of lines; quoted blocks are read here, as a cell may span two."""
    first = lines_before + 1
    while True:
        chunk = stream.read(BLOCK_BYTES)
        last = not chunk
        if last and not rest:
            return
        block, rest = (rest, b"") if last else _whole_lines(rest, chunk)
        if layout.continues is not None and not last:
            end = _last_group(block, layout.continues)
            block, rest = block[:end], block[end:] + rest
        if len(rest) > MOST_LINE_BYTES:
            raise long_line(stream.path, first + block.count(b"\n") + rest.count(b"\n"))
        if block and layout.clean is not None:
            block = layout.clean(block)
        if block:
            lines = _count(block, NEWLINE) + (not block.endswith(b"\n"))
            if block.isspace():
                pass
            elif layout.quotes and QUOTE in block:
                batch, left = read_quoted(block, first, shape, wanted, last)
                rest = left + rest
                lines -= _count(left, NEWLINE)
                yield partial(_same, batch)
            else:
                yield partial(_read_plain, block, first, lines, shape, wanted)
            first += lines
        if last:
            return


def _whole_lines(rest: bytes, chunk: bytes) -> tuple[bytes, bytes]:
    """Return the complete lines of two pieces, and the rest; each byte is copied once."""
    end = chunk.rfind(b"\n") + 1
    if end == 0:
        return b"", rest + chunk
    return b"".join((rest, memoryview(chunk)[:end])), chunk[end:]


def _last_group(block: bytes, continues: Callable[[bytes], bool]) -> int:
    """Return where the last line begins that does not continue another; the end for very many."""
    end = len(block)
    while end > len(block) - MOST_GROUP_BYTES and end > 0:
        begin = block.rfind(b"\n", 0, end - 1) + 1
        if not continues(block[begin:end]):
            return begin
        end = begin
    return len(block)


def _same(batch: Batch) -> Batch:
    return batch


def _count(data: bytes, byte: int) -> int:
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == byte))


def _read_plain(
    block: bytes, first: int, lines: int, shape: TableShape, wanted: Sequence[str]
) -> Batch:
    """Read a block without quotes; ``first`` is the number of its first line."""
    unended = not block.endswith(b"\n")
    try:
        cells = _parse(block, shape, wanted)
    except pl.exceptions.PolarsError:  # not UTF-8
        cells = None
    if cells is not None and _is_regular(block, cells, lines, shape):
        numbers = pl.Series(ROW, np.arange(first, first + lines))
        batch = cells.select(*wanted).with_columns(numbers)
        return Batch(batch, partial(_lines, block), may_be_cut=unended and shape.ends_lines)
    good, numbers_of_good, refused = [], [], []
    for number, line in enumerate(block.split(b"\n"), first):
        content = line.removesuffix(b"\r")
        if not content.strip():
            continue
        content = _with_free_text(content, shape)
        unfinished = unended and number == first + lines - 1
        problem = _line_problem(number, content, shape, unfinished)
        if problem is None:
            good.append(content)
            numbers_of_good.append(number)
        else:
            refused.append(problem)
    regular = b"\n".join(good) + b"\n" if good else b""
    cells = _parse(regular, shape, wanted)
    numbers = pl.Series(ROW, numbers_of_good, pl.Int64)
    batch = cells.select(*wanted).with_columns(numbers)
    if shape.free is not None and shape.free in wanted:
        text = pl.col(shape.free).str.replace_all(HELD, shape.separator, literal=True)
        batch = batch.with_columns(text)
    may_be_cut = unended and shape.ends_lines and first + lines - 1 in numbers_of_good[-1:]
    raw = partial(_as_written, regular, shape.separator)
    return Batch(batch, raw, refused, may_be_cut)


def _with_free_text(line: bytes, shape: TableShape) -> bytes:
    """Return a line in which the separators in the free text are held as another character."""
    separator = shape.separator.encode()
    surplus = line.count(separator) + 1 - shape.width
    if shape.free is None or surplus <= 0:
        return line
    cells, at = line.split(separator), shape.names.index(shape.free)
    text = HELD.encode().join(cells[at : at + surplus + 1])
    return separator.join([*cells[:at], text, *cells[at + surplus + 1 :]])


def _as_written(block: bytes, separator: str, positions: Sequence[int]) -> list[str]:
    return [line.replace(HELD, separator) for line in _lines(block, positions)]


def _parse(block: bytes, shape: TableShape, wanted: Sequence[str]) -> pl.DataFrame:
    """Return the wanted columns and the last one, which shows whether a line is too short."""
    names = shape.names
    if not block:
        return pl.DataFrame(schema=dict.fromkeys(names, pl.String))
    keep = sorted({names.index(name) for name in wanted} | {shape.width - 1})
    cells = pl.read_csv(
        block,
        has_header=False,
        separator=shape.separator,
        quote_char=None,
        schema={f"column_{i + 1}": pl.String for i in range(shape.width)},
        columns=keep,
        missing_columns="insert",
        truncate_ragged_lines=True,
    )
    return cells.rename(dict(zip(cells.columns, (names[i] for i in keep), strict=True)))


def _is_regular(block: bytes, cells: pl.DataFrame, lines: int, shape: TableShape) -> bool:
    """Return whether each line has the number of cells of the table and none is blank."""
    separators = lines * (shape.width - 1)
    if cells.height != lines or _count(block, ord(shape.separator)) != separators:
        return False
    if cells[shape.names[-1]].null_count() == 0:
        return shape.width > 1 or b"\n\n" not in block  # no line is short, so none is long
    data = np.frombuffer(block, np.uint8)
    marks = np.flatnonzero((data == ord(shape.separator)) | (data == NEWLINE))
    ends = data[marks[shape.width - 1 :: shape.width]]
    return shape.width > 1 and bool((ends == NEWLINE).all())


def _line_problem(row: int, line: bytes, shape: TableShape, unfinished: bool) -> Refused | None:
    cells = line.count(shape.separator.encode()) + 1
    if cells != shape.width:
        shown = line.decode("utf-8", "backslashreplace")
        return wrong_width(row, cells, shape, shown, unfinished=unfinished)
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return not_text(row, line)
    return None


def _lines(block: bytes, positions: Sequence[int]) -> list[str]:
    lines = block.split(b"\n")
    return [lines[position].rstrip(b"\r").decode("utf-8") for position in positions]


def open_rows(stream: SourceStream) -> Rows:
    """Return the rows of a Parquet file or of a delimited table, by the first bytes."""
    if Head(stream.path, stream.head).is_parquet:
        return open_parquet(stream)
    return open_table(stream)
