"""Read measured profiles of models: batch size, share of the SMs, latency, throughput.

The format of the Dilu artifact has no header and any order of rows; a CSV with a header has the
same columns by name, or by the names that ``--map`` gives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuplan.analysis.base.errors import InputError, shortened
from gpuplan.analysis.reading.source import read_unpacked

COLUMNS = ("batch", "sm_percent", "latency_s", "throughput")
MOST_BATCH = 1_000_000
RANGE = (1e-9, 1e12)
"""Latencies in seconds and throughputs that a measurement can have."""
HINT = "for example 8,20,0.036,222.2: batch size, percent of the SMs, seconds, items per second"


@dataclass(frozen=True, slots=True)
class ProfileTable:
    """A grid of measurements.

    Attributes:
        path: the file.
        name: its name without the suffix and without a leading ``bs_sm_``.
        batch: batch sizes, ascending; shape (m,).
        sm_percent: shares in percent, ascending; shape (k,).
        latency_s: seconds of a batch; shape (m, k).
        throughput: items per second; shape (m, k).
    """

    path: Path
    name: str
    batch: NDArray[np.int64]
    sm_percent: NDArray[np.float64]
    latency_s: NDArray[np.float64]
    throughput: NDArray[np.float64]

    def columns(self) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.float64]]:
        """Return batch, share of 1 and latency of every measurement, in one order."""
        batch = np.repeat(self.batch, self.sm_percent.size)
        share = np.tile(self.sm_percent / 100, self.batch.size)
        return batch, share, self.latency_s.ravel()


def read_profile(path: Path, names: Mapping[str, str] | None = None) -> ProfileTable:
    """Read a profile.

    Args:
        path: a CSV file, with or without a header.
        names: our column -> its name in the header, where they differ; None where no option
            tells that.

    Raises:
        InputError: no such file, a cell that is not a number in its range, a pair of batch and
            share that is measured twice or not at all.
    """
    lines = read_unpacked(path).decode("utf-8-sig", "replace").splitlines()
    rows = [(at, line.split(",")) for at, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise InputError(path, "has no rows", expected="at least one measurement", hint=HINT)
    places = _header(path, rows[0][1], names)
    if places is not None:
        rows = rows[1:]
    measured: dict[tuple[int, float], tuple[float, float]] = {}
    for row, cells in rows:
        batch, percent, latency_s, throughput = _measurement(path, row, cells, places)
        if (batch, percent) in measured:
            twice = f"batch {batch} at {percent:g}% is measured twice"
            raise InputError(path, twice, row=row, expected="one row per batch and share")
        measured[batch, percent] = (latency_s, throughput)
    if not measured:
        raise InputError(path, "has no rows", expected="at least one measurement", hint=HINT)
    batches = sorted({batch for batch, _ in measured})
    shares = sorted({percent for _, percent in measured})
    missing = next(((b, s) for b in batches for s in shares if (b, s) not in measured), None)
    if missing is not None:
        absent = f"batch {missing[0]} is not measured at {missing[1]:g}%"
        raise InputError(path, absent, expected="every batch size at every share")
    grid = np.array([[measured[batch, percent] for percent in shares] for batch in batches])
    name = path.name.split(".")[0].removeprefix("bs_sm_")
    return ProfileTable(
        path=path,
        name=name or path.name,
        batch=np.array(batches, np.int64),
        sm_percent=np.array(shares, np.float64),
        latency_s=grid[:, :, 0],
        throughput=grid[:, :, 1],
    )


def _header(
    path: Path, cells: list[str], headers: Mapping[str, str] | None
) -> list[int | None] | None:
    """Return the place of each of `COLUMNS` in the rows; None for a file without a header."""
    names = headers or {}
    stripped = [cell.strip().strip('"') for cell in cells]
    if not names and _number(stripped[0]) is not None:
        return None
    places: list[int | None] = []
    for column in COLUMNS:
        name = names.get(column, column)
        if name in stripped:
            places.append(stripped.index(name))
        elif column == "throughput" and column not in names:
            places.append(None)  # batch / latency
        else:
            raise InputError(
                path,
                f"no column {name!r}; found {', '.join(shortened(cell, 40) for cell in stripped)}",
                row=1,
                expected=f"the columns {', '.join(COLUMNS)}",
                hint=HINT if headers is None else f"--map {column}=NAME",
            )
    return places


def _measurement(
    path: Path, row: int, cells: list[str], places: list[int | None] | None
) -> tuple[int, float, float, float]:
    if places is None and len(cells) not in (3, 4):
        wrong = f"has {len(cells)} cells"
        raise InputError(path, wrong, row=row, expected="4 cells", hint=HINT)
    at = [0, 1, 2, 3 if len(cells) == 4 else None] if places is None else places
    values: list[float] = []
    for column, place in zip(COLUMNS, at, strict=True):
        if place is None:
            values.append(values[0] / values[2])
            continue
        cell = cells[place].strip().strip('"') if place < len(cells) else ""
        value = _number(cell)
        least = 0 if column == "sm_percent" else RANGE[0]
        most = {"batch": MOST_BATCH, "sm_percent": 100}.get(column, RANGE[1])
        if value is None or not least < value <= most or (column == "batch" and value % 1):
            raise InputError(
                path,
                f"found {shortened(cell, 40)!r}",
                row=row,
                column=column,
                expected={
                    "batch": "a whole number from 1",
                    "sm_percent": "percent of the SMs, above 0 and at most 100",
                }.get(column, f"a number above {RANGE[0]:g}, at most {RANGE[1]:g}"),
            )
        values.append(value)
    return int(values[0]), values[1], values[2], values[3]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
