"""Read the holidays that a user names: dates, or a file with one date per line."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

from gpuplan.analysis.base.errors import InputError, UsageError, shortened
from gpuplan.analysis.reading.source import read_unpacked

EXPECTED = "a date such as 2026-12-25"
HEADERS = ("date", "day", "holiday")
MOST_DATES = 20_000
DATES = re.compile(r"[\d\s,./-]*")


def holidays_file(text: str) -> Path | None:
    """Return the file that holidays are in; None where the text has the dates itself."""
    return None if DATES.fullmatch(text) else Path(text)


def read_holidays(text: str) -> tuple[date, ...]:
    """Return the dates, ascending, each once.

    Args:
        text: dates with commas between them, or the name of a file. Of each line of it the first
            cell counts; empty lines and lines that begin with ``#`` do not.

    Raises:
        InputError: no such file, or a line without a date.
        UsageError: no such date in the text.
    """
    path = holidays_file(text)
    if path is not None:
        return _read(path)
    days = []
    for cell in (cell.strip() for cell in text.split(",")):
        day = _date(cell)
        if day is None:
            raise UsageError(
                f"--holidays: found {shortened(cell, 40)!r}, expected {EXPECTED}, several with "
                "commas between them, or a file with one per line"
            )
        days.append(day)
    return tuple(sorted(set(days)))


def _read(path: Path) -> tuple[date, ...]:
    lines = read_unpacked(path).decode("utf-8-sig", "replace").splitlines()
    days, is_first = [], True
    for row, line in enumerate(lines, 1):
        cell = line.partition(",")[0].strip().strip('"')
        if not cell or cell.startswith("#"):
            continue
        day = _date(cell)
        if day is None and not (is_first and cell.casefold() in HEADERS):
            raise InputError(path, f"found {shortened(cell, 40)!r}", row=row, expected=EXPECTED)
        is_first = False
        if day is not None:
            days.append(day)
        if len(days) > MOST_DATES:
            raise InputError(path, f"has more than {MOST_DATES:,} dates", expected="holidays")
    if not days:
        raise InputError(path, "has no dates", expected=f"one per line, {EXPECTED}")
    return tuple(sorted(set(days)))


def _date(cell: str) -> date | None:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", cell):
        return None
    try:
        return date.fromisoformat(cell)
    except ValueError:
        return None
