"""Read JSON records, from one array or one per line, in bounded memory."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.reading.batch import ROW, Batch, Refused, Rows
from gpuplan.analysis.reading.limits import MOST_RECORD_BYTES, shown_size
from gpuplan.analysis.reading.source import SourceStream

CHUNK_BYTES = 1 << 20
ROWS_PER_BATCH = 20_000
LETTERS_PER_BATCH = 1 << 23
SPACES = re.compile(r"[ \t\r\n]*")
MOST_DIGITS = 1_000  # of a whole number; Python converts 4,300 at most
JSON_WORDS: dict[type, str] = {
    **{list: "an array", str: "a text", bool: "true or false"},
    **{int: "a number", float: "a number", type(None): "null"},
}
"""Names of JSON values that are not objects."""

Cell = str | None
Cells = dict[str, Cell]
Flatten = Callable[[dict[str, Any]], Cells | list[Cells]]
"""Turns a record into cells of one row or several; raises ValueError with the value found if it
cannot."""
Record = tuple[int, Any, str]
"""Number, parsed JSON (or `_NoJson`) and text of one record."""
Flat = tuple[int, tuple[Cell, ...], str]
"""Number, cells and text of one row."""


@dataclass(frozen=True, slots=True)
class _NoJson:
    """Marks a record that cannot be parsed."""

    problem: str


def _number(digits: str) -> int | float:
    return int(digits) if len(digits) < MOST_DIGITS else float(digits)


DECODER = json.JSONDecoder()
LENIENT = json.JSONDecoder(parse_int=_number)
"""What to parse with where whole numbers may be too long for Python."""


def open_records(
    stream: SourceStream,
    flatten: Flatten,
    columns: Sequence[str],
    *,
    key: str | None = None,
) -> Rows:
    """Open a JSON array of objects, or objects one per line.

    Args:
        stream: the file.
        flatten: makes the cells of one record.
        columns: the columns that ``flatten`` makes.
        key: where the file is one object, its member that is the array.
    """
    is_array = stream.head.lstrip()[:1] == b"[" or key is not None
    records = _array(stream, key) if is_array else _lines(stream)
    return open_rows(partial(_flat, records, flatten), columns)


def open_rows(
    rows: Callable[[Sequence[str]], Iterator[Flat | Refused]], columns: Sequence[str]
) -> Rows:
    """Open rows that are made one by one.

    Args:
        rows: makes them, with the cells of the columns that it is given.
        columns: the columns that it can make.
    """
    # The rows are read in one thread, in order; only the columns are made elsewhere.
    return Rows(columns=tuple(columns), sample=(), batches=partial(_batches, rows))


def text(value: Any) -> str | None:
    """Return a JSON value as a text cell; null and empty text are an empty cell.

    Raises `ValueError` if it is nested too deeply to be written.
    """
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value)
    except RecursionError as error:
        raise ValueError("a value that is nested too deeply") from error


def parsed(text: str) -> Any:
    """Return parsed JSON; a whole number too long for Python to convert is a float.

    Raises `ValueError` if it is not JSON, and `RecursionError` if it is too deep.
    """
    try:
        return DECODER.decode(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # thousands of digits
        return LENIENT.decode(text)


def plain(cell: Cell) -> Cell:
    """Return a cell that can be written: JSON may have lone surrogates, which are not text."""
    if cell is None or cell.isascii():
        return cell
    return cell.encode("utf-8", "replace").decode("utf-8")


def _batches(
    make: Callable[[Sequence[str]], Iterator[Flat | Refused]], wanted: Sequence[str]
) -> Iterator[Callable[[], Batch]]:
    """Yield the rows in groups; each is flattened at once, for the parsed form is large."""
    rows = make(wanted)
    while group := _group(rows):
        yield partial(_batch, group, wanted)


def _group(rows: Iterator[Flat | Refused]) -> list[Flat | Refused]:
    """Take the rows of one batch: not many, and not much text, as a record may be long."""
    group: list[Flat | Refused] = []
    letters = 0
    for row in islice(rows, ROWS_PER_BATCH):
        group.append(row)
        letters += len(row.raw if isinstance(row, Refused) else row[2])
        if letters > LETTERS_PER_BATCH:
            break
    return group


def _flat(
    records: Iterator[Record], flatten: Flatten, wanted: Sequence[str]
) -> Iterator[Flat | Refused]:
    """Yield each row of each record as its number, its cells and its text."""
    for number, record, raw in records:
        if not isinstance(record, dict):
            no_json = isinstance(record, _NoJson)
            problem = record.problem if no_json else JSON_WORDS[type(record)]
            yield Refused(number, "unreadable", None, problem, "a JSON object", raw)
            continue
        try:
            rows = flatten(record)
        except (ValueError, RecursionError) as error:
            expected = "a record of this format"
            yield Refused(number, "unreadable", None, plain(str(error)), expected, raw)
            continue
        for row in rows if isinstance(rows, list) else [rows]:
            yield number, tuple(plain(row[name]) for name in wanted), raw


def _batch(group: list[Flat | Refused], wanted: Sequence[str]) -> Batch:
    refused = [row for row in group if isinstance(row, Refused)]
    kept = [row for row in group if not isinstance(row, Refused)]
    columns = {name: [cells[i] for _, cells, _ in kept] for i, name in enumerate(wanted)}
    frame = pl.DataFrame(columns, schema=dict.fromkeys(wanted, pl.String))
    numbers = pl.Series(ROW, [number for number, _, _ in kept], pl.Int64)
    return Batch(
        frame.with_columns(numbers), lambda positions: [kept[i][2] for i in positions], refused
    )


def _array(stream: SourceStream, key: str | None = None) -> Iterator[Record]:
    """Yield the elements of one array, or of the member ``key``, with their 1-based positions."""
    decoder = DECODER
    source = _Decoded(stream)
    if key is not None:
        _skip_to_member(source, decoder, key, stream)
    source.skip("[")
    number = 0
    while True:
        number += 1
        letter = source.next_letter()
        if letter == "]" and number == 1:
            break
        yield number, source.element(decoder, number), source.raw
        letter = source.next_letter()
        if letter == "]":
            break
        if letter != ",":
            shown = repr(letter) if letter else "the end of the file"
            raise _broken(stream, number, f"found {shown} after this element", "',' or ']'")
        source.skip(",")
    source.skip("]")
    if key is None and source.next_letter():
        raise _broken(stream, number, "text after the end of the array", "one JSON array")


def _skip_to_member(
    source: _Decoded, decoder: json.JSONDecoder, key: str, stream: SourceStream
) -> None:
    """Take an object up to the value of one of its members. Raises `InputError` without it."""
    source.skip("{")
    number = 0
    while source.next_letter() not in ("}", ""):
        number += 1
        name = source.element(decoder, number)
        source.skip(":")
        source.next_letter()
        if name == key:
            return
        source.element(decoder, number)
        if source.next_letter() == ",":
            source.skip(",")
    raise _broken(stream, max(number, 1), f"has no member {key!r}", f"an array under {key!r}")


def _lines(stream: SourceStream) -> Iterator[Record]:
    """Yield one element per line with its line number; a bad line is refused alone."""
    for number, line in text_lines(stream):
        yield number, *_line(line)


def text_lines(stream: SourceStream) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank with their numbers. Raises `InputError`."""
    rest, number = b"", 0
    while True:
        chunk = stream.read(CHUNK_BYTES)
        data = rest + chunk
        lines = data.split(b"\n")
        rest = lines.pop() if chunk else b""
        if len(rest) > MOST_RECORD_BYTES:
            raise _broken(
                stream,
                number + 1,
                f"is longer than {shown_size(MOST_RECORD_BYTES)}",
                "one record per line",
            )
        for line in lines:
            number += 1
            if line.strip():
                yield number, line
        if not chunk:
            return


def _line(line: bytes) -> tuple[Any, str]:
    """Return the element in a line and its text, or the problem instead."""
    raw = line.decode("utf-8", "backslashreplace").rstrip("\r")
    try:
        element = parsed(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        return _NoJson(f"no JSON ({_message(error)})"), raw
    return element, raw


def _broken(stream: SourceStream, number: int, problem: str, expected: str) -> InputError:
    return InputError(
        stream.path, problem, row=number, expected=expected, hint="export the log again"
    )


class _Decoded:
    """The text of a stream with a current position; the text before it is discarded."""

    def __init__(self, stream: SourceStream) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._at = 0
        self._ended = False
        self.raw = ""  # text of the last element

    def next_letter(self) -> str:
        """Return the next character that is not a space, without consuming it; empty at the end."""
        while True:
            self._at += len(SPACES.match(self._text, self._at)[0])  # type: ignore[index]
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more(CHUNK_BYTES):
                return ""

    def skip(self, letter: str) -> None:
        """Consume the next character that is not a space, which must be ``letter``."""
        if self.next_letter() != letter:
            raise _broken(self._stream, 1, "is not a JSON array", f"{letter!r}")
        self._at += 1

    def element(self, decoder: json.JSONDecoder, number: int) -> Any:
        """Take the next value. Raises `InputError` where there is none."""
        size = CHUNK_BYTES
        while True:
            try:
                value, end = decoder.raw_decode(self._text, self._at)
            except RecursionError as error:
                raise _broken(self._stream, number, "is nested too deeply", "an object") from error
            except ValueError as error:
                if not isinstance(error, json.JSONDecodeError) and decoder is not LENIENT:
                    decoder = LENIENT
                    continue
                if len(self._text) - self._at > MOST_RECORD_BYTES or not self._more(size):
                    cut = "ends in the middle of this record: the file was cut"
                    problem = cut if self._is_cut(error) else f"is not JSON ({_message(error)})"
                    raise _broken(self._stream, number, problem, "a JSON object") from error
                size *= 2  # a record longer than a chunk is decoded again few times
                continue
            # A number may continue in the next chunk; objects, which we want, have an end.
            self.raw, self._at = self._text[self._at : end], end
            return value

    def _is_cut(self, error: ValueError) -> bool:
        """Return whether a value cannot be read since the text ends within it."""
        if not self._ended or not isinstance(error, json.JSONDecodeError):
            return False
        return error.pos >= len(self._text.rstrip()) or error.msg.startswith("Unterminated string")

    def _more(self, size: int) -> bool:
        if self._ended:
            return False
        data = b""
        while len(data) < size and (part := self._stream.read(size - len(data))):
            data += part
        self._ended = not data
        self._text = self._text[self._at :] + self._decoder.decode(data, self._ended)
        self._at = 0
        return not self._ended or bool(self._text)


def _message(error: Exception) -> str:
    # The place that a JSON error names is one in our buffer, not in the file.
    return getattr(error, "msg", None) or str(error)
