"""Hourly demand of a log or a CSV: the most GPUs that each group asks for at once in every hour."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

from gpuplan.analysis.base.arrays import BoolArray, FloatArray, IntArray
from gpuplan.analysis.base.errors import InputError, shortened
from gpuplan.analysis.base.time_units import EPOCH, HOUR_US
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.reading.source import read_unpacked
from gpuplan.analysis.reading.times import read_moments
from gpuplan.analysis.storage.files import is_parquet, is_pipe
from gpuplan.analysis.user_tables.cells import text_cells

PARTS_PER_GPU = 1_000_000
DAY_H, WEEK_H = 24, 168
MOST_HOURS = 200_000
"""Of a history, 22 years: models of a longer one take minutes."""
EPOCH_WEEKDAY = 3  # a Thursday
OTHERS = "(others)"
NO_NAME = "(none)"
HOUR = "hour"
TIMES = ("time", "timestamp", "datetime", "date")
OF_JOBS = frozenset({"duration", "duration_s", "job_id", "num_gpus"})
"""Columns of a job log, which may begin with a time too."""
MOST_GPUS = 1e7
ROUNDING = 1e-6
"""Sums of shares may end this far below 0."""
EXPECTED = "a column 'hour' or 'time', then one column of GPUs per group"


@dataclass(frozen=True, slots=True)
class DemandSeries:
    """GPUs asked for in consecutive hours.

    Attributes:
        names: of the series.
        gpus: highest demand within each hour, shape (series, hours), >= 0.
        first_hour: number of the first hour, since 1970 in UTC where the source has a calendar.
        has_calendar: whether hours are of a calendar.
    """

    names: tuple[str, ...]
    gpus: FloatArray
    first_hour: int
    has_calendar: bool

    @property
    def hours(self) -> int:
        """Number of hours."""
        return int(self.gpus.shape[1])

    @property
    def hour_of_week(self) -> int:
        """Hour of the week of the first value; 0 is Monday at midnight."""
        return (self.first_hour + (DAY_H * EPOCH_WEEKDAY if self.has_calendar else 0)) % WEEK_H

    def holiday_hours(self, days: Collection[date], steps: int) -> BoolArray:
        """Return whether each hour, and each of some steps beyond, is of a day; of a calendar."""
        numbers = [(day - EPOCH.date()).days for day in days]
        hours = self.first_hour + np.arange(self.hours + steps)
        is_holiday: BoolArray = np.isin(hours // DAY_H, numbers)
        return is_holiday

    def before(self, hour: int) -> DemandSeries:
        """Return the hours before an hour."""
        count = hour - self.first_hour
        return DemandSeries(self.names, self.gpus[:, :count], self.first_hour, self.has_calendar)


def time_of_hour(hour: int) -> datetime:
    """Return the beginning of an hour of the calendar, in UTC."""
    return EPOCH + timedelta(hours=hour)


def demand_of_jobs(
    submit_us: IntArray,
    asked_us: IntArray,
    gpus: FloatArray,
    names: pl.Series,
    *,
    has_calendar: bool,
    until_hour: int,
    most: int,
) -> DemandSeries:
    """Return the demand of the jobs of each name, up to an hour.

    A job asks for its GPUs from its submission until it ends: while it waits and while it runs.

    Args:
        submit_us: submissions, microseconds since 1970, ascending; shape (n,).
        asked_us: how long each job asks for its GPUs, its wait and its run; shape (n,).
        gpus: of each job; shape (n,).
        names: the group of each; null for none.
        has_calendar: whether submissions are of a calendar.
        until_hour: the first hour that is left out, after that of the first submission.
        most: series; the smallest groups beyond make one of their own.
    """
    first = int(submit_us[0] // HOUR_US)
    hours = until_hour - first
    work = pl.DataFrame({"name": names.cast(pl.String).fill_null(NO_NAME), "work": gpus * asked_us})
    order = (
        work.group_by("name")
        .agg(pl.col("work").sum())
        .sort(["work", "name"], descending=[True, False])
    )
    groups = order["name"].to_list()
    kept = groups if len(groups) <= most else groups[: most - 1]
    codes = (
        work["name"]
        .replace_strict(kept, list(range(len(kept))), default=len(kept), return_dtype=pl.Int64)
        .to_numpy()
    )
    parts = np.rint(gpus * PARTS_PER_GPU).astype(np.int64)
    labels = [*kept, *([OTHERS] if len(kept) < len(groups) else [])]
    demand = np.stack(
        [
            peaks(submit_us[in_group], asked_us[in_group], parts[in_group], first, hours)
            for in_group in (codes == code for code in range(len(labels)))
        ]
    )
    return DemandSeries(tuple(labels), demand / PARTS_PER_GPU, first, has_calendar)


def peaks(
    begin_us: IntArray, duration_us: IntArray, amount: IntArray, first_hour: int, hours: int
) -> IntArray:
    """Return the highest sum of amounts in each hour; shape (hours,).

    What ends as something else begins makes room for it.
    """
    time = np.concatenate((begin_us + duration_us, begin_us))
    step = np.concatenate((-amount, amount))
    order = np.lexsort((step, time))
    time, level = time[order], np.cumsum(step[order])
    hour = time // HOUR_US - first_hour
    edges = (first_hour + np.arange(hours)) * HOUR_US
    before = np.searchsorted(time, edges, side="left")
    highest = np.where(before > 0, level[np.maximum(before - 1, 0)], 0)
    # What ends at the very beginning of an hour is no demand of that hour.
    at_edge = np.searchsorted(time, edges, side="right")
    ended = (at_edge > before) & (at_edge > 0)
    highest[ended] = np.minimum(highest, level[np.maximum(at_edge - 1, 0)])[ended]
    inside = (hour >= 0) & (hour < hours)
    np.maximum.at(highest, hour[inside], _settled(time, level)[inside])
    return highest


def _settled(time: IntArray, level: IntArray) -> IntArray:
    """Return at every event the level after all events of its instant."""
    last = np.searchsorted(time, time, side="right") - 1
    levels: IntArray = level[last]
    return levels


def is_series(path: Path) -> bool:
    """Return whether a file is a table of hourly demand, by its first line.

    Raises:
        InputError: there is no such file.
    """
    if str(path) == "-" or path.is_dir() or is_pipe(path) or is_parquet(path):
        return False
    if not any(part in (".csv", ".tsv", ".txt") for part in map(str.lower, path.suffixes)):
        return False
    head = _header(read_unpacked(path))
    names = [name.casefold() for name in head]
    return len(names) > 1 and names[0] in (HOUR, *TIMES) and OF_JOBS.isdisjoint(names)


def _header(data: bytes) -> list[str]:
    line = data.partition(b"\n")[0].decode("utf-8-sig", "replace")
    return [cell.strip().strip('"') for cell in line.split(",")]


def read_series(path: Path) -> DemandSeries:
    """Return the demand in a table; of several rows in one hour the highest values.

    Raises:
        InputError: no such table, a cell that is no number of GPUs, or an hour that is missing.
    """
    raw = text_cells(path, read_unpacked(path), expected=EXPECTED)
    if raw.is_empty() or raw.width < 2:
        raise InputError(
            path, f"found {raw.height} rows of {listed(raw.columns)}", expected=EXPECTED
        )
    # The cells first: a table of something else is told as that, and not by gaps in its times
    values = np.stack([_gpus(path, raw, name) for name in raw.columns[1:]])
    hours, has_calendar = _hours(path, raw)
    first, starts = int(hours[0]), np.flatnonzero(np.diff(hours, prepend=hours[0] - 1))
    return DemandSeries(
        tuple(raw.columns[1:]), np.maximum.reduceat(values, starts, axis=1), first, has_calendar
    )


def _hours(
    path: Path, raw: pl.DataFrame
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], bool]:
    """Return the hour of each row, and whether they are of a calendar."""
    name = raw.columns[0]
    cells = raw[name].str.strip_chars()
    is_number = name.casefold() == HOUR
    if is_number:
        parsed = cells.cast(pl.Float64, strict=False)
        parsed = parsed.set(parsed.is_nan() | (parsed.abs() > 1e12), None).floor().cast(pl.Int64)
    else:
        parsed = read_moments(cells, "UTC").dt.epoch("us") // HOUR_US
    expected = "a whole number" if is_number else "a time such as 2026-01-31T12:00:00"
    bad = parsed.is_null().arg_true()
    if bad.len():
        row = int(bad[0])
        cell = shortened(str(raw[name][row]), 40)
        raise InputError(path, f"found {cell!r}", row=row + 2, column=name, expected=expected)
    hours = parsed.to_numpy()
    steps = np.diff(hours)
    wrong = np.flatnonzero((steps < 0) | (steps > 1))
    if wrong.size:
        row = int(wrong[0]) + 1
        raise InputError(
            path,
            f"found {raw[name][row]!r} after {raw[name][row - 1]!r}",
            row=row + 2,
            column=name,
            expected="ascending hours without a gap",
            hint="fill the missing hours",
        )
    if hours[-1] - hours[0] > MOST_HOURS:
        raise InputError(
            path, f"has {hours[-1] - hours[0]:,} hours", expected=f"at most {MOST_HOURS:,}"
        )
    return hours, not is_number


def _gpus(path: Path, raw: pl.DataFrame, name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    values = raw[name].str.strip_chars().cast(pl.Float64, strict=False)
    good = values.is_between(-ROUNDING, MOST_GPUS).fill_null(False)
    bad = (~good).arg_true()
    if bad.len():
        row = int(bad[0])
        cell = raw[name][row]
        problem = "an empty cell" if cell is None else f"found {shortened(cell, 40)!r}"
        raise InputError(
            path, problem, row=row + 2, column=name, expected="a number of GPUs, at least 0"
        )
    gpus: np.ndarray[tuple[int], np.dtype[np.float64]] = np.maximum(values.to_numpy(), 0.0)
    return gpus
