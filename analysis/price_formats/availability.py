"""Spot availability traces: ``{"metadata": ..., "data": [...], "prices": [...]}``.

Per tick the available instances and, if it has ``prices``, US dollars per instance-hour.
Date, zone, GPU and GPUs per instance are only in the names:
``aws-04-22-2023/us-west-2b_v100_1.json``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.time_units import CENTURY_S, MICROS
from gpuplan.analysis.job_table.gpu_names import gpu_name, is_known_gpu
from gpuplan.analysis.price_formats.format import (
    PriceFormat,
    PricePlan,
    PriceSourceContext,
    Skip,
    fixed,
    price_or_availability,
    rules,
)
from gpuplan.analysis.price_formats.schema import KIND_TYPE, PRICE, PRICES, TIME_TYPE
from gpuplan.analysis.reading.batch import ROW, Batch, Rows
from gpuplan.analysis.reading.plan import Field, ReadingPlan, count, number
from gpuplan.analysis.reading.records import Cell, parsed, plain, text
from gpuplan.analysis.reading.source import SourceStream, read_all

FOLDER = re.compile(r"([a-z]+)-(\d{2})-(\d{2})-(\d{4})")
FILE = re.compile(r"([a-z]+-[a-z]+-\d[a-z]?)_([a-z0-9]+)_(\d{1,4})\.json")
TICK_S, COUNT, PRICES_KEY = "gap_seconds", "data", "prices"


def _open(stream: SourceStream) -> Rows:
    data = read_all(stream)
    try:
        document = parsed(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(stream.path, f"is not JSON ({error})", hint="fetch it again") from error
    columns = (TICK_S, COUNT, PRICES_KEY)
    return Rows(columns, (), partial(_batches, stream.path, document))


def _batches(path: Path, document: Any, wanted: Sequence[str]) -> Iterator[Callable[[], Batch]]:
    if not isinstance(document, dict):
        raise InputError(path, f"is a JSON {type(document).__name__}", expected="an object")
    metadata = document.get("metadata")
    tick = metadata.get(TICK_S) if isinstance(metadata, dict) else None
    counts, prices = document.get(COUNT), document.get(PRICES_KEY)
    if not isinstance(tick, int | float) or not 0 < tick < 1e9 or not isinstance(counts, list):
        raise InputError(path, f"needs metadata.{TICK_S} (a number above 0) and a list {COUNT}")
    if prices is None:
        prices = [None] * len(counts)
    if not isinstance(prices, list) or len(prices) != len(counts):
        content = f"{len(prices)} prices" if isinstance(prices, list) else "not a list of prices"
        raise InputError(
            path,
            f"has {len(counts)} ticks and {content}",
            expected=f"a price per tick, or no {PRICES_KEY} at all",
            hint="fetch it again",
        )
    columns = {
        TICK_S: [str(i * tick) for i in range(len(counts))],
        COUNT: [_cell(n) for n in counts],
        PRICES_KEY: [_cell(p) for p in prices],
        ROW: range(1, len(counts) + 1),
    }
    cells = pl.DataFrame(columns, schema_overrides=dict.fromkeys((COUNT, PRICES_KEY), pl.String))

    def raw(positions: Sequence[int]) -> list[str]:
        return [f"{counts[i]!r}, {prices[i]!r}" for i in positions]

    yield lambda: Batch(cells, raw)


def _cell(value: Any) -> Cell:
    """Return a value as a cell; deeply nested values are neither counts nor prices."""
    try:
        return plain(text(value))
    except ValueError as error:
        return str(error)


def _plan(context: PriceSourceContext) -> PricePlan:
    path = context.head.path
    folder, file = FOLDER.search(str(path)), FILE.search(path.name)
    if folder is None or file is None:
        raise InputError(
            path,
            "its name does not say which GPU was where and when",
            expected="names as in aws-04-22-2023/us-west-2b_v100_1.json",
            hint="rename the file and its folder so",
        )
    provider, month, day, year = folder.groups()
    start = context.choices.as_of or _start(path, int(year), int(month), int(day))
    after_us = (pl.col(TICK_S).cast(pl.Float64) * MICROS).clip(upper_bound=CENTURY_S * MICROS)
    after = after_us.cast(pl.Int64).cast(pl.Duration("us"))
    usd = pl.col(PRICES_KEY).cast(pl.Float64, strict=False) / max(1, int(file[3]))
    machine = f"{file[2]}_{file[3]}"
    no_gpu = Skip(f"counts of a machine without a known GPU ({machine})", pl.repeat(True, pl.len()))
    return PricePlan(
        plan=ReadingPlan(
            fields=(
                Field("timestamp", TICK_S, pl.lit(start, TIME_TYPE) + after, required=True),
                count("available", COUNT, least=0),
                Field(PRICE, PRICES_KEY, usd, number("", "").expected),
            ),
            jobs={
                "provider": fixed(provider),
                "gpu_type": fixed(gpu_name(file[2])),
                "region": fixed(file[1]),
                "instance": fixed(machine),
                "kind": fixed("spot").cast(KIND_TYPE),
            },
            schema=PRICES,
            rules=(*rules(TICK_S, PRICES_KEY), price_or_availability(PRICES_KEY)),
            notes=("spot availability: the time of day of the first tick is unknown, taken as 0",),
        ),
        skips=() if is_known_gpu(file[2]) else (no_gpu,),
    )


def _start(path: Path, year: int, month: int, day: int) -> datetime:
    try:
        return datetime(year, month, day, tzinfo=UTC)
    except ValueError as error:
        raise InputError(path, f"the date in its name is none ({error})") from error


AVAILABILITY = PriceFormat(
    name="spot-availability",
    description="spot availability trace, with or without prices, JSON; snapshots",
    source="spot availability and preemption traces of SkyPilot's authors",
    recognizes=lambda head: (
        "JSON with metadata and gap_seconds" if head.mentions("metadata", TICK_S) else None
    ),
    plan=_plan,
    open=_open,
)
