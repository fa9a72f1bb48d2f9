"""Read the system metrics of a run of Weights & Biases: its stream of events, as JSON lines or CSV.

The keys are ``system.gpu.0.gpu`` (percent), ``system.gpu.0.memoryAllocated`` (percent of the
memory), ``system.gpu.0.powerWatts`` and ``_timestamp``; older ones ``system.gpu.process.0.gpu``.
The run is a column, or the file is named after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.metrics.samples import (
    MEMORY_SHARE,
    POWER_W,
    UTILIZATION,
    GpuKey,
    GpuSamples,
)
from gpuplan.analysis.reading.records import text_lines
from gpuplan.analysis.reading.source import SourceStream, read_all

KEY = re.compile(r"(?:system\.)?gpu\.(?:process\.)?(\d+)\.(gpu|memoryAllocated|powerWatts)")
MEASURED = {"gpu": UTILIZATION, "memoryAllocated": MEMORY_SHARE, "powerWatts": POWER_W}
TIME_KEYS = ("_timestamp", "timestamp")
RUN_KEYS = ("run_id", "run", "id", "_run_id")
RUN_FOLDER = re.compile(r"^(?:offline-)?run-\d{8}_\d{6}-(\w+)$")
ROWS = 20_000
MOST_CSV_BYTES = 1 << 30
EXPECTED = "events of a run with _timestamp and system.gpu.0.gpu"

Row = dict[str, Any]


def is_wandb_events(head: bytes) -> bool:
    """Return whether a file begins like events of a run."""
    line = head.lstrip().partition(b"\n")[0]
    return KEY.search(line.decode("utf-8", "replace")) is not None and b"_timestamp" in head


def run_of(path: Path) -> str:
    """Return the run that a file is of: its folder names it, or the file."""
    for folder in reversed(path.parts[:-1]):
        if (match := RUN_FOLDER.match(folder)) is not None:
            return match[1]
    stem = path.name.split(".")[0]
    return re.sub(r"^(?:wandb-)?(?:events|system)[-_]?|[-_](?:events|system)$", "", stem) or stem


def read_wandb_events(stream: SourceStream, samples: GpuSamples) -> None:
    """Add the samples of a file. Raises `InputError` where there are none."""
    run = run_of(stream.path)
    before = samples.read
    is_json = stream.head.lstrip()[:1] == b"{"
    rows: list[Row] = []
    for row in _json_rows(stream, samples) if is_json else _csv_rows(stream):
        rows.append(row)
        if len(rows) >= ROWS:
            _add(rows, run, samples)
            rows = []
    _add(rows, run, samples)
    if samples.read == before:
        raise InputError(stream.path, "holds no samples of a GPU", expected=EXPECTED)


def _json_rows(stream: SourceStream, samples: GpuSamples) -> Iterator[Row]:
    for _, line in text_lines(stream):
        try:
            row = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            row = None
        if isinstance(row, dict):
            yield row
        else:
            samples.counts["lines that are no JSON object"] += 1


def _csv_rows(stream: SourceStream) -> Iterator[Row]:
    data = read_all(stream, MOST_CSV_BYTES)
    try:
        table = pl.read_csv(data, infer_schema=False, truncate_ragged_lines=True)
    except pl.exceptions.PolarsError as error:
        raise InputError(stream.path, f"cannot be read ({error})", expected=EXPECTED) from error
    yield from table.iter_rows(named=True)


def _add(rows: list[Row], run: str, samples: GpuSamples) -> None:
    """Take the samples of some rows; a cell that is no number is missing."""
    parts: dict[tuple[GpuKey, str], tuple[list[float], list[float]]] = {}
    for row in rows:
        time_s = next((_number(row[key]) for key in TIME_KEYS if key in row), np.nan)
        name = next((str(row[key]) for key in RUN_KEYS if row.get(key)), run)
        for key, cell in row.items():
            if cell is None or cell == "" or (match := KEY.fullmatch(key)) is None:
                continue
            times, values = parts.setdefault(
                (GpuKey("", match[1], name), MEASURED[match[2]]), ([], [])
            )
            times.append(time_s)
            values.append(_number(cell))
            samples.sources.setdefault(f"system.gpu.{match[2]}", None)
    for (gpu, metric), (times, values) in parts.items():
        samples.add(gpu, metric, np.array(times), np.array(values))


def _number(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return float("nan")
