"""Read JSON records of any tool as a table: one array of objects, or one object per line.

A member of an object inside another is a column of its own: ``{"request": {"gpus": 4}}`` has the
column ``request.gpus``. A list is one cell, as JSON.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from gpuplan.analysis.base.casts import no_pattern
from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.reading.batch import Rows
from gpuplan.analysis.reading.records import (
    DECODER,
    SPACES,
    Cells,
    open_records,
    parsed,
    plain,
    text,
)
from gpuplan.analysis.reading.source import SourceStream

SAMPLE_ROWS = 100
MOST_LEVELS = 8
"""Objects inside each other that are columns; deeper ones are cells."""


def open_json_table(stream: SourceStream) -> Rows:
    """Open a table of JSON records; its columns are those of the first records.

    Raises `InputError` where there is none.
    """
    sample = tuple(_sample(stream.head))
    if not sample:
        raise InputError(
            stream.path,
            "starts with no JSON object that can be a row",
            expected="one array of objects, or one object per line",
            hint="write one object per line, for example with jq -c '.jobs[]'",
        )
    columns = _names(sample)
    rows = open_records(stream, _flatten, columns)
    return replace(
        rows, sample=tuple({name: plain(row[name]) for name in columns} for row in sample)
    )


def json_columns(head: bytes) -> tuple[str, ...]:
    """Return the columns of the first records in the first bytes of a file."""
    return _names(tuple(_sample(head)))


def _names(sample: tuple[Cells, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for row in sample for name in row))


def _sample(head: bytes) -> Iterator[Cells]:
    for record in islice(_first_records(head.decode("utf-8", "replace")), SAMPLE_ROWS):
        if isinstance(record, dict):
            try:
                yield _flatten(record)
            except (ValueError, RecursionError):  # refused alone, when it is read
                continue


def _first_records(head: str) -> Iterator[Any]:
    """Yield the values of an array or of lines, as far as they are whole."""
    if not head.lstrip().startswith("["):
        for number, line in enumerate(head.lstrip().splitlines()):
            try:
                yield parsed(line)
            except (ValueError, RecursionError):
                if number == 0:  # one object over several lines
                    return
        return
    at = head.index("[") + 1
    while True:
        at = SPACES.match(head, at).end()  # type: ignore[union-attr]
        try:
            value, at = DECODER.raw_decode(head, at)
        except (ValueError, RecursionError):
            return
        yield value
        at = SPACES.match(head, at).end()  # type: ignore[union-attr]
        if head[at : at + 1] != ",":
            return
        at += 1


def _flatten(record: dict[str, Any]) -> Cells:
    """Return the cells of a record; columns that it does not have are empty."""
    cells: Cells = defaultdict(lambda: None)
    _add(cells, record, "", MOST_LEVELS)
    return cells


def _add(cells: Cells, record: dict[str, Any], prefix: str, levels: int) -> None:
    for key, value in record.items():
        name = no_pattern(plain(prefix + key) or "")
        if isinstance(value, dict) and value and levels > 1:
            _add(cells, value, f"{name}.", levels - 1)
        elif "\0" not in name:
            cells[name] = text(value)
