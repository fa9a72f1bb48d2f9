"""Whether the pages of a Parquet file can be as they say, before polars reads them.

Polars allocates what a page's header asks for. A damaged header can ask for exabytes, at which the
process dies without an exception. The headers are a small part of the file: a page holds about a
megabyte. They are structs of Thrift's compact protocol, whose fields parquet.thrift of Apache
Parquet numbers.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

FOOTER = 8
"""Bytes at the end of the file: the length of the metadata, and the magic word."""
ROW_GROUPS, COLUMNS, COLUMN_METADATA = 4, 1, 3
NUM_VALUES, COMPRESSED_SIZE, DATA_OFFSET, DICTIONARY_OFFSET = 5, 7, 9, 11
"""Fields of a column's metadata."""
PAGE_SIZE, PAGE_COMPRESSED_SIZE = 2, 3
DATA_PAGES, DICTIONARY_PAGE = (5, 8), 7
"""Fields of a page's header; the first field of each of these headers is its number of values."""
VALUES_OF_PAGE = 1
TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
INTEGERS = (4, 5, 6)


def check_pages(path: Path) -> None:
    """Check the headers of all pages of a Parquet file.

    Raises:
        OSError: the file or a header cannot be read, or one counts more than its column has.
    """
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            length = int.from_bytes(data[-FOOTER : -FOOTER // 2], "little")
            metadata, _ = _struct(data, max(len(data) - FOOTER - length, 0))
            for group in metadata.get(ROW_GROUPS, ()):
                for column in group[COLUMNS]:
                    _check_column(data, column[COLUMN_METADATA])
        except (LookupError, TypeError, AttributeError, RecursionError, OverflowError) as error:
            raise OSError("the header of a page cannot be read") from error


def _check_column(data: mmap.mmap, column: dict[int, Any]) -> None:
    begin = column.get(DICTIONARY_OFFSET) or column[DATA_OFFSET]
    begin = min(begin, column[DATA_OFFSET])
    end, left = begin + column[COMPRESSED_SIZE], column[NUM_VALUES]
    while left > 0:
        header, begin = _struct(data, begin)
        begin += header[PAGE_COMPRESSED_SIZE]
        if min(header[PAGE_SIZE], header[PAGE_COMPRESSED_SIZE]) < 0 or begin > end:
            raise OSError("a page is larger than its column")
        values = [header[kind][VALUES_OF_PAGE] for kind in DATA_PAGES if kind in header]
        left -= sum(values)
        if DICTIONARY_PAGE in header:
            values.append(header[DICTIONARY_PAGE][VALUES_OF_PAGE])
        if min(values, default=0) < 0 or left < 0:
            raise OSError("a page counts other values than its column")


def _struct(data: mmap.mmap, at: int) -> tuple[dict[int, Any], int]:
    """Return the fields of a struct by their numbers, and where it ends."""
    fields: dict[int, Any] = {}
    number = 0
    while (byte := data[at]) != 0:
        at += 1
        if byte >> 4:
            number += byte >> 4
        else:
            number, at = _integer(data, at)
        fields[number], at = _value(data, at, byte & 15)
    return fields, at + 1


def _value(data: mmap.mmap, at: int, kind: int) -> tuple[Any, int]:
    """Return a field's value and where it ends; binary is skipped."""
    if kind in (TRUE, FALSE):
        return kind == TRUE, at
    if kind in INTEGERS:
        return _integer(data, at)
    if kind == STRUCT:
        return _struct(data, at)
    if kind in (LIST, SET):
        return _list(data, at)
    if kind == BINARY:
        length, at = _varint(data, at)
        return None, at + length
    if kind in (BYTE, DOUBLE):
        return None, at + (1 if kind == BYTE else 8)
    raise OSError("the header of a page cannot be read")


def _list(data: mmap.mmap, at: int) -> tuple[list[Any], int]:
    size, kind = data[at] >> 4, data[at] & 15
    at += 1
    if size == 15:
        size, at = _varint(data, at)
    values = []
    for _ in range(size):
        value, at = _value(data, at, BYTE if kind in (TRUE, FALSE) else kind)
        values.append(value)
    return values, at


def _integer(data: mmap.mmap, at: int) -> tuple[int, int]:
    """Return an integer whose sign is its last bit (zigzag)."""
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _varint(data: mmap.mmap, at: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := data[at]) >= 128:
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
    return value | byte << shift, at + 1
