"""The UTC offsets in the times of a log: the zone they imply, and whether they agree."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import polars as pl

from gpuplan.analysis.reading.times import offset_s

TAIL = 8  # last characters of a cell, with its offset; a date alone has none
CLOCK = len(":30:00")
OFFSET = re.compile(r"(?:Z|UTC|[+-]\d\d:?\d\d|(?<!-\d\d)[+-]\d\d)$")
Offsets = Counter[tuple[str, str | None]]
"""(column, offset such as ``+08:00``; None where a cell has none) -> cells."""


def offsets_of(cells: pl.DataFrame, columns: Sequence[str]) -> Offsets:
    """Count the offsets in text columns of times."""
    found: Offsets = Counter()
    for column in columns:
        recorded = cells[column]
        count = len(recorded) - recorded.null_count()
        if not count:
            continue
        first = recorded.item(recorded.is_not_null().arg_max() or 0)
        match = OFFSET.search(first)
        # Where all cells end as the first does, which is most often so, one look is enough.
        if match is not None and recorded.str.ends_with(match[0]).sum() == count:
            found[column, _shown(offset_s(match[0]))] += count
            continue
        if match is None:  # times such as 10:30:00 have many tails, and no offset
            is_clock = recorded.str.tail(CLOCK).str.starts_with(":")
            is_clock &= recorded.str.tail(CLOCK // 2).str.starts_with(":")
            clocks = int(is_clock.sum())
            if clocks:
                found[column, None] += clocks
                recorded = recorded.filter(~is_clock)
        for tail, some in recorded.str.tail(TAIL).drop_nulls().value_counts().iter_rows():
            match = OFFSET.search(tail)
            found[column, None if match is None else _shown(offset_s(match[0]))] += some
    return found


def zone_of(found: Offsets, column: str, zone: str | None) -> str | None:
    """Return the most common offset of a column; ``zone`` if it has none, or the same."""
    mine = Counter({offset: count for (name, offset), count in found.items() if name == column})
    offset = max(mine, key=lambda one: (mine[one], str(one)), default=None)
    return zone if offset is None or (zone == "UTC" and offset == "+00:00") else offset


def mixed_note(found: Offsets, zone: str | None) -> str | None:
    """Return a note if times have several offsets; otherwise None."""
    total = Counter[str]()
    for (_, offset), count in found.items():
        total[offset or "none"] += count
    if len(total) < 2:
        return None
    recorded = ", ".join(
        f"{offset} ({count:,})" for offset, count in sorted(total.items(), key=lambda o: (-o[1], o))
    )
    return f"times of several offsets: {recorded}; hours of the day are those of {zone}"


def _shown(offset: int) -> str:
    minutes = abs(offset) // 60
    return f"{'-' if offset < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"
