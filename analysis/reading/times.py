"""Read times: written with or without an offset, or as seconds, into UTC microseconds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import MICROS
from gpuplan.analysis.job_table.schema import SUBMIT_TYPE

ISO = re.compile(
    r"^\d{4}(?P<dash>[-/])\d{2}[-/]\d{2}"
    r"(?:(?P<sep>[T ])\d{2}:\d{2}(?P<seconds>:\d{2}(?P<fraction>[.]\d{1,9})?)?)?"
    r"(?P<space> ?)(?P<offset>Z|UTC|[+-]\d{2}:?\d{2}|[+-]\d{2})?$"
)
OFFSET = re.compile(r" ?(Z|UTC|[+-]\d{2}:?\d{2}|[+-]\d{2})")
LOCAL_TIMES = (
    "times without an offset are read as UTC; the log does not tell the zone, --time-zone NAME does"
)
"""The note on a log with local times of a zone that nobody named."""
Twice = Literal["earliest", "latest"]
"""Which reading of a local time that happens twice in autumn."""
CELLS_SEEN = 16  # for a look at whether all have the same offset
MAX_LAYOUTS = 64  # in one column; a log has one or two
RELATIVE_BELOW_S = 1e8  # as Unix time this is 1973: no such job log, so it counts from 0
MILLIS_ABOVE = 1e11  # as Unix seconds this is the year 5138
TAIL = 8  # last characters of a cell, with its offset; a date alone has none
CLOCK = len(":30:00")
TAIL_OFFSET = re.compile(r"(?:Z|UTC|[+-]\d\d:?\d\d|(?<!-\d\d)[+-]\d\d)$")
Offsets = Counter[tuple[str, str | None]]
"""(column, offset such as ``+08:00``; None where a cell has none) -> cells."""


def check_zone(name: str) -> str:
    """Return ``name`` if it is a time zone. Raises `UsageError` otherwise."""
    try:
        pl.Series([None], dtype=pl.Datetime("us")).dt.replace_time_zone(name)
    except pl.exceptions.PolarsError as error:
        raise UsageError(
            f"--time-zone {name}: no such zone\n  next: use an IANA name such as Europe/Berlin"
        ) from error
    return name


def moment(column: str, zone: str | None = None) -> pl.Expr:
    """Return the instants in a text column, in UTC; null where a cell is none.

    Args:
        column: the text column.
        zone: zone of the cells without an offset; None reads only cells with one. Of an hour
            that happens twice in autumn the earlier reading counts; a time that the clock skips
            in spring is none.
    """
    return pl.col(column).map_batches(
        lambda cells: read_moments(cells, zone), return_dtype=SUBMIT_TYPE
    )


def moment_after(column: str, earlier: str, zone: str | None = None) -> pl.Expr:
    """Return times as `moment` does, but after those of another text column if possible.

    A local time before the earlier one means the second time that its hour happens in autumn, where
    that puts it after.
    """

    def read(cells: pl.Series) -> pl.Series:
        recorded = cells.struct.field(column)
        moments = read_moments(recorded, zone)
        if zone in (None, "UTC"):  # no hour happens twice
            return moments
        starts = read_moments(cells.struct.field(earlier), zone)
        if not (moments < starts).any():
            return moments
        late = read_moments(recorded, zone, "latest")
        is_meant = ((moments < starts) & (late >= starts)).fill_null(False)
        return late.zip_with(is_meant, moments)

    return pl.struct(column, earlier).map_batches(read, return_dtype=SUBMIT_TYPE)


def seconds(column: str, unit: Literal["s", "ms"] = "s") -> pl.Expr:
    """Return the instants of a text column with seconds (or milliseconds) after 1970 or 0."""
    factor = 1e6 if unit == "s" else 1e3
    number = pl.col(column).cast(pl.Float64, strict=False)
    # Numbers beyond the year 9999 are not times; they would not fit the calendar.
    fits = number.is_between(-6e10 * 1e6 / factor, 2.5e11 * 1e6 / factor)
    micros = pl.when(fits).then((number * factor).round()).cast(pl.Int64, strict=False)
    return micros.cast(pl.Datetime("us")).dt.replace_time_zone("UTC")


def seconds_between(later: str, earlier: str) -> pl.Expr:
    """Return the seconds from one instant column to another, as a float."""
    micros = pl.col(later).to_physical() - pl.col(earlier).to_physical()
    return micros.cast(pl.Float64) / MICROS


def read_moments(cells: pl.Series, zone: str | None, twice: Twice = "earliest") -> pl.Series:
    """Return the times of text cells (see `moment`); ``twice`` selects one of two readings.

    The layout of the first cell is applied to all cells at once, without their offsets, which are
    few and subtracted afterwards: many times as fast as reading an offset per cell. Other layouts
    get the cells that are left.
    """
    result: pl.Series | None = None
    todo = cells
    for _ in range(MAX_LAYOUTS):
        if todo.null_count() == len(todo):
            break
        first = str(todo.drop_nulls()[0])
        layout = _Layout.of(first)
        if layout is None:
            todo = todo.set(~todo.str.contains(ISO.pattern) | (todo == first), None)
            continue
        moments = layout.read(todo, zone, twice)
        if moments.null_count() == cells.null_count():
            return moments
        result = moments if result is None else result.zip_with(result.is_not_null(), moments)
        todo = todo.set(todo.str.contains(layout.shape) | (todo == first), None)
    if result is None:
        return pl.Series(cells.name, [None], SUBMIT_TYPE).new_from_index(0, len(cells))
    return result


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a time is written.

    Attributes:
        form: its chrono format, without the offset.
        shape: pattern of all cells written in this way.
        tail: the offset of one cell, with the space before it; empty without an offset.
    """

    form: str
    shape: str
    tail: str

    @classmethod
    def of(cls, cell: str) -> _Layout | None:
        match = ISO.match(cell)
        if match is None:
            return None
        form = f"%Y{match['dash']}%m{match['dash']}%d"
        if match["sep"]:
            form += match["sep"] + ("%H:%M:%S" if match["seconds"] else "%H:%M")
        shape = re.sub("%.", lambda part: r"\d{4}" if part[0] == "%Y" else r"\d{2}", form)
        if match["fraction"]:
            form, shape = form + "%.f", shape + r"[.]\d+"
        offset = match["offset"]
        if offset is None:
            return cls(form + match["space"], f"^{shape}{match['space']}$", "")
        tails = offset if offset in ("Z", "UTC") else re.sub(r"\d", r"\\d", f"[+-]{offset[1:]}")
        return cls(form, f"^{shape}{match['space']}{tails}$", match["space"] + offset)

    def read(self, cells: pl.Series, zone: str | None, twice: Twice) -> pl.Series:
        """Return the instants of the cells of this layout; null for every other cell."""
        if self.tail:
            return self._with_offset(cells).dt.replace_time_zone("UTC")
        naive = _naive(cells, self.form)
        if zone is None:
            return naive.clear(len(cells)).dt.replace_time_zone("UTC")
        local = naive.dt.replace_time_zone(zone, ambiguous=twice, non_existent="null")
        return local.dt.convert_time_zone("UTC")

    def _with_offset(self, cells: pl.Series) -> pl.Series:
        """Return the instants in UTC of cells with an offset, without a zone."""
        step = max(1, len(cells) // CELLS_SEEN)
        if cells.gather_every(step).str.ends_with(self.tail).all():  # most often it is every cell's
            moments = _naive(cells, self.form + self.tail)
            if moments.null_count() == cells.null_count():
                return _less_offset(moments, offset_s(self.tail.strip()) * MICROS)
        letters = len(self.tail)
        naive = _naive(cells.str.head(-letters), self.form)
        tails = cells.str.tail(letters)
        offset_us = {
            tail: offset_s(tail.strip()) * MICROS
            for tail in tails.unique().drop_nulls()
            if OFFSET.fullmatch(tail)
        }
        return _less_offset(
            naive, tails.replace_strict(offset_us, default=None, return_dtype=pl.Int64)
        )


def _naive(cells: pl.Series, form: str) -> pl.Series:
    return cells.str.to_datetime(form, time_unit="us", strict=False, cache=False)


def _less_offset(naive: pl.Series, offset_us: pl.Series | int) -> pl.Series:
    return (naive.to_physical() - offset_us).cast(pl.Datetime("us"))


def offset_s(offset: str) -> int:
    """Return the seconds east of UTC of ``Z``, ``UTC``, ``+08:00``, ``+0800`` or ``+08``."""
    if offset in ("Z", "UTC"):
        return 0
    digits = offset[1:].replace(":", "").ljust(4, "0")
    size = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return -size if offset[0] == "-" else size


def are_skipped(cells: pl.Series, zone: str) -> pl.Series:
    """Return which text cells are local times that the clocks of ``zone`` skip."""
    return read_moments(cells, zone).is_null() & read_moments(cells, "UTC").is_not_null()


def is_number(cell: str | None) -> bool:
    """Return whether a cell is a plain number."""
    try:
        float(cell or "")
    except ValueError:
        return False
    return True


def offsets_of(cells: pl.DataFrame, columns: Sequence[str]) -> Offsets:
    """Count the offsets in text columns of times."""
    offsets: Offsets = Counter()
    for column in columns:
        recorded = cells[column]
        count = len(recorded) - recorded.null_count()
        if not count:
            continue
        first = recorded.item(recorded.is_not_null().arg_max() or 0)
        match = TAIL_OFFSET.search(first)
        # Where all cells end as the first does, which is most often so, one look is enough.
        if match is not None and recorded.str.ends_with(match[0]).sum() == count:
            offsets[column, _shown(offset_s(match[0]))] += count
            continue
        if match is None:  # times such as 10:30:00 have many tails, and no offset
            is_clock = recorded.str.tail(CLOCK).str.starts_with(":")
            is_clock &= recorded.str.tail(CLOCK // 2).str.starts_with(":")
            clocks = int(is_clock.sum())
            if clocks:
                offsets[column, None] += clocks
                recorded = recorded.filter(~is_clock)
        for tail, some in recorded.str.tail(TAIL).drop_nulls().value_counts().iter_rows():
            match = TAIL_OFFSET.search(tail)
            offsets[column, None if match is None else _shown(offset_s(match[0]))] += some
    return offsets


def zone_of(offsets: Offsets, column: str, zone: str | None) -> str | None:
    """Return the most common offset of a column; ``zone`` if it has none, or the same."""
    counts = Counter({offset: count for (name, offset), count in offsets.items() if name == column})
    offset = max(counts, key=lambda candidate: (counts[candidate], str(candidate)), default=None)
    return zone if offset is None or (zone == "UTC" and offset == "+00:00") else offset


def mixed_note(offsets: Offsets, zone: str | None) -> str | None:
    """Return a note if times have several offsets; otherwise None."""
    total = Counter[str]()
    for (_, offset), count in offsets.items():
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
