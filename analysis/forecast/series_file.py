"""Read hourly demand from a CSV: an hour or a time, then one column of GPUs per group."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import InputError, shortened
from gpuplan.analysis.base.time_units import HOUR_US
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.forecast.demand import MOST_HOURS, DemandSeries
from gpuplan.analysis.reading.source import read_unpacked
from gpuplan.analysis.reading.times import read_moments
from gpuplan.analysis.storage.files import is_parquet, is_pipe

HOUR = "hour"
TIMES = ("time", "timestamp", "datetime", "date")
OF_JOBS = frozenset({"duration", "duration_s", "job_id", "num_gpus"})
"""Columns of a job log, which may begin with a time too."""
MOST_GPUS = 1e7
ROUNDING = 1e-6
"""Sums of shares may end this far below 0."""
EXPECTED = "a column 'hour' or 'time', then one column of GPUs per group"


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
    data = read_unpacked(path)
    try:
        raw = pl.read_csv(io.BytesIO(data), infer_schema=False)
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        reason = shortened(str(error).splitlines()[0], 200)
        raise InputError(path, f"is not a CSV table ({reason})", expected=EXPECTED) from error
    raw = raw.rename({name: name.strip() for name in raw.columns})
    if raw.is_empty() or raw.width < 2:
        raise InputError(
            path, f"found {raw.height} rows of {listed(raw.columns)}", expected=EXPECTED
        )
    hours, has_calendar = _hours(path, raw)
    values = np.stack([_gpus(path, raw, name) for name in raw.columns[1:]])
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
        found = cells.cast(pl.Float64, strict=False)
        found = found.set(found.is_nan() | (found.abs() > 1e12), None).floor().cast(pl.Int64)
    else:
        found = read_moments(cells, "UTC").dt.epoch("us") // HOUR_US
    expected = "a whole number" if is_number else "a time such as 2026-01-31T12:00:00"
    bad = found.is_null().arg_true()
    if bad.len():
        row = int(bad[0])
        cell = shortened(str(raw[name][row]), 40)
        raise InputError(path, f"found {cell!r}", row=row + 2, column=name, expected=expected)
    hours = found.to_numpy()
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
        found = "an empty cell" if cell is None else f"found {shortened(cell, 40)!r}"
        raise InputError(
            path, found, row=row + 2, column=name, expected="a number of GPUs, at least 0"
        )
    gpus: np.ndarray[tuple[int], np.dtype[np.float64]] = np.maximum(values.to_numpy(), 0.0)
    return gpus
