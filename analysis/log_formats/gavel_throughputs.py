"""Throughputs of Gavel's job types: the upstream JSON, or its isolated values as a CSV table."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from gpuplan.analysis.errors import InputError, UsageError
from gpuplan.analysis.reading.source import read_unpacked

COLUMNS = ("worker_type", "job_type", "scale_factor", "steps_per_second")
ALONE = "null"
DAMAGE = (ValueError, TypeError, SyntaxError, RecursionError, OverflowError, MemoryError,
          pl.exceptions.PolarsError)  # fmt: skip
EXPECTED = (
    f"a CSV table of {', '.join(COLUMNS)}, or JSON as "
    """{"v100": {"('ResNet-18 (batch size 32)', 1)": {"null": 13.4}}}"""
)
SCHEMA = pl.Schema(
    {
        "worker_type": pl.String(),
        "job_class": pl.String(),
        "num_gpus": pl.Float64(),
        "steps_per_s": pl.Float64(),
    }
)


def read_throughputs(path: Path, worker_type: str | None) -> tuple[str, pl.DataFrame]:
    """Read the throughputs of jobs that run alone on one worker type; .gz and .zst are unpacked.

    Returns:
        The worker type, and a row per ``job_class`` and ``num_gpus`` with its ``steps_per_s``.

    Raises:
        InputError: the file is no such table, or has not the worker type.
        UsageError: it has several, and none is chosen.
    """
    data = read_unpacked(path)
    try:
        rows = _json(data) if data.lstrip()[:1] == b"{" else _csv(data)
    except DAMAGE as error:
        raise InputError(path, "is no table of throughputs", expected=EXPECTED) from error
    workers = rows["worker_type"].unique().sort().to_list()
    if worker_type is None and len(workers) > 1:
        raise UsageError(f"--throughputs {path}: choose one with --worker-type: {_few(workers)}")
    chosen = worker_type or next(iter(workers), "")
    rates = rows.filter(pl.col("worker_type") == chosen).drop("worker_type")
    if rates.is_empty():
        raise InputError(path, f"has no worker type {chosen!r}", expected=f"one of {_few(workers)}")
    if rates.select("job_class", "num_gpus").is_duplicated().any():
        raise InputError(path, f"has two throughputs for one job type and scale factor on {chosen}")
    return chosen, rates


def _csv(data: bytes) -> pl.DataFrame:
    table = pl.read_csv(BytesIO(data), infer_schema=False).select(COLUMNS)
    return table.rename(dict(zip(COLUMNS, SCHEMA, strict=True))).cast(SCHEMA).drop_nulls()


def _json(data: bytes) -> pl.DataFrame:
    return pl.DataFrame(list(_alone(json.loads(data))), schema=SCHEMA, orient="row")


def _alone(table: Any) -> Iterator[tuple[str, str, float, float]]:
    """Yield worker type, job type, scale factor and steps per second. Raises `ValueError`."""
    for worker, kinds in table.items():
        if not isinstance(kinds, dict):
            raise ValueError("a worker type that is no object")
        for key, others in kinds.items():
            name, scale = ast.literal_eval(key)
            if not isinstance(others, dict):
                raise ValueError("a job type that is no object")
            if ALONE in others:
                yield worker, str(name), float(scale), float(others[ALONE])


def _few(workers: list[str]) -> str:
    return ", ".join(workers[:12]) or "none"
