"""Allocations of OpenCost: the JSON of ``/allocation/compute``, a map of allocations per step.

The GPU dollars of an allocation are one charge with its GPU-hours, all else is another one. What is
idle is unused capacity. GPU dollars without hours are a charge without a type: no rate is of them.
An allocation does not say of which type its GPUs are: a label, or the name of the node, may, and
else they are of the only type of the log.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
from msgspec import Struct
from msgspec import field as member

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.words import counted
from gpuplan.analysis.invoices.charges import STANDARD, UNUSED_CAPACITY, USAGE
from gpuplan.analysis.invoices.format import InvoiceCells, InvoiceFormat
from gpuplan.analysis.invoices.gpu_skus import IS_A_NAME
from gpuplan.analysis.kubernetes.gpus import INSTANCE_LABEL, PRODUCT_LABELS, clean_type
from gpuplan.analysis.kubernetes.refusals import ALLOCATIONS
from gpuplan.analysis.reading.batch import Refused, Rows
from gpuplan.analysis.reading.records import Flat, open_rows
from gpuplan.analysis.reading.source import SourceStream

IDLE = "__idle__"
COLUMNS = (
    "name", "part", "sku", "sku_from", "instance", "window.start", "window.end", "gpuHours", "cost",
)  # fmt: skip
"""Of the rows that allocations become: one for the GPUs, one for all else (``part``). ``sku`` is
the GPU type that a label names (``sku_from``), else the node; ``instance`` the instance type of a
label."""
FROM_LABEL, FROM_NAME = "label", "name"
GPUS, HOURS_UNKNOWN, REST = "gpus", "gpus without hours", "rest"
USE = ("minutes", "gpuCount", "gpuHours")
AMOUNTS = (*USE, "gpuCost", "gpuCostAdjustment", "totalCost")
OTHER = "CPUs, memory, storage and network"
NO_HOURS = "GPUs, hours unknown"


class _Window(Struct):
    start: str | None = None
    end: str | None = None


class _Properties(Struct):
    node: str | None = None
    labels: dict[str, str] | None = None


class _CostAllocation(Struct):
    name: str | None = None
    properties: _Properties | None = None
    window: _Window | None = None
    start: str | None = None
    end: str | None = None
    minutes: float | None = None
    gpu_count: float | None = member(name="gpuCount", default=None)
    gpu_hours: float | None = member(name="gpuHours", default=None)
    gpu_cost: float | None = member(name="gpuCost", default=None)
    adjustment: float | None = member(name="gpuCostAdjustment", default=None)
    total_cost: float | None = member(name="totalCost", default=None)


class _CostAnswer(Struct):
    code: int = 0
    message: str | None = None
    data: list[dict[str, _CostAllocation] | None] | None = None


_DECODER = msgspec.json.Decoder(_CostAnswer, strict=False)


def open_opencost(stream: SourceStream) -> Rows:
    """Open the allocations of an answer.

    Raises:
        InputError: it is not JSON of allocations, or OpenCost says that it failed.
    """
    data = stream.to_file().read_bytes()
    try:
        answer = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            stream.path, f"cannot be read as allocations of OpenCost ({error})",
            expected="the whole answer of /allocation/compute", hint=ALLOCATIONS,
        ) from None  # fmt: skip
    if answer.code != 200:
        raise InputError(
            stream.path, f"OpenCost says that it failed: {answer.code} {answer.message or ''}",
            expected="code 200", hint=ALLOCATIONS,
        )  # fmt: skip
    allocations = [
        (key, allocation) for step in answer.data or () for key, allocation in (step or {}).items()
    ]
    if not allocations:
        raise InputError(
            stream.path, "OpenCost has no allocations in that window",
            expected="a window in which pods ran", hint=ALLOCATIONS,
        )  # fmt: skip
    _check(stream.path, allocations)
    rows = open_rows(partial(_rows, allocations), COLUMNS)
    return replace(rows, notes=_empty_steps(answer.data or ()))


def _empty_steps(steps: Sequence[Mapping[str, _CostAllocation] | None]) -> tuple[str, ...]:
    """Return a warning on steps without allocations, such as days of an outage; none for none."""
    empty = [number for number, step in enumerate(steps, start=1) if not step]
    if not empty:
        return ()
    has = "has" if len(empty) == 1 else "have"
    return (
        f"{len(empty):,} of {counted(len(steps), 'step')} {has} no allocations (first step "
        f"{empty[0]:,}): nothing is billed for that time",
    )


def _check(path: Path, allocations: Sequence[tuple[str, _CostAllocation]]) -> None:
    """Refuse amounts that are no number, negative use, and an allocation that is there twice.

    Costs of what is idle may be negative, and so may adjustments: OpenCost corrects with them.

    Raises:
        InputError: with the name of the allocation.
    """
    windows: set[tuple[str, str, str | None]] = set()
    for key, allocation in allocations:
        is_idle = (allocation.name or key).startswith(IDLE)
        for part in msgspec.structs.fields(_CostAllocation):
            name, amount = part.encode_name, getattr(allocation, part.name)
            if name not in AMOUNTS or amount is None:
                continue
            never_below_0 = name in USE or (name == "gpuCost" and not is_idle)
            if not math.isfinite(amount) or (amount < 0 and never_below_0):
                raise InputError(
                    path, f"allocation {key!r}: found {amount:g}", column=name,
                    expected="a number of at least 0" if never_below_0 else "a number",
                    hint=f"ask OpenCost again: {ALLOCATIONS}",
                )  # fmt: skip
        begin, end = _window_of(allocation)
        if begin is not None and (key, begin, end) in windows:
            raise InputError(
                path, f"allocation {key!r} is there twice for {begin} to {end}",
                expected="each allocation once in a window, so that nothing is billed twice",
                hint=f"ask OpenCost again: {ALLOCATIONS}",
            )  # fmt: skip
        if begin is not None:
            windows.add((key, begin, end))


def _window_of(allocation: _CostAllocation) -> tuple[str | None, str | None]:
    window = allocation.window or _Window(allocation.start, allocation.end)
    return window.start, window.end


def _rows(
    allocations: Sequence[tuple[str, _CostAllocation]], wanted: Sequence[str]
) -> Iterator[Flat | Refused]:
    parts = ((key, cells) for key, allocation in allocations for cells in _parts(key, allocation))
    for number, (key, cells) in enumerate(parts, start=1):
        yield number, tuple(cells.get(name) for name in wanted), key


def _parts(key: str, allocation: _CostAllocation) -> Iterator[Mapping[str, str | None]]:
    """Yield the GPUs of an allocation, and the rest of it, as cells."""
    properties = allocation.properties or _Properties()
    begin, end = _window_of(allocation)
    labels = properties.labels or {}
    hours = allocation.gpu_hours
    if hours is None and allocation.gpu_count is not None and allocation.minutes is not None:
        hours = allocation.gpu_count * allocation.minutes / 60
    gpu_cost = _exact(allocation.gpu_cost) + _exact(allocation.adjustment)
    rest = gpu_cost if allocation.total_cost is None else _exact(allocation.total_cost)
    label = {name: labels.get(name) or labels.get(as_metric(name)) for name in GPU_LABELS}
    product = next((label[name] for name in PRODUCT_LABELS if label[name]), None)
    labelled = clean_type(product or "")
    shared = {
        "name": allocation.name or key,
        "sku": labelled or properties.node or allocation.name or key,
        "sku_from": FROM_LABEL if labelled else FROM_NAME,
        "instance": label[INSTANCE_LABEL],
        "window.start": begin,
        "window.end": end,
    }
    is_idle = (allocation.name or key).startswith(IDLE)
    if gpu_cost and hours is None and not is_idle:
        yield {**shared, "part": HOURS_UNKNOWN, "cost": f"{gpu_cost:f}"}
    elif gpu_cost or hours:
        gpu_hours = f"{_exact(hours):f}"
        yield {**shared, "part": GPUS, "gpuHours": gpu_hours, "cost": f"{gpu_cost:f}"}
    if rest != gpu_cost or not (gpu_cost or hours):
        yield {**shared, "part": REST, "cost": f"{rest - gpu_cost:f}"}


GPU_LABELS = (*PRODUCT_LABELS, INSTANCE_LABEL)


def as_metric(label: str) -> str:
    """Return a label as Prometheus writes it."""
    return re.sub(r"[^a-zA-Z0-9]", "_", label)


def _exact(value: float | None) -> Decimal:
    """Return a number as it is written; 0 for none."""
    return Decimal(0) if value is None else Decimal(repr(value))


def _recognizes(columns: Sequence[str]) -> str | None:
    return "allocations by window" if set(COLUMNS) <= set(columns) else None


def opencost_charges(cells: InvoiceCells) -> pl.DataFrame:
    """Return the charges of allocations. Raises `InputError` where a cell cannot be read."""
    begin = cells.instant("window.start")
    end = cells.period_end("window.end", begin)
    cells.need_cells("window.start", begin, "the time at which the window starts")
    is_gpu = cells.text("part") == GPUS
    is_idle = is_gpu & cells.text("name").str.starts_with(IDLE)
    cost = cells.amount("cost")

    is_a_name = cells.text("sku_from") == FROM_NAME
    of_name = json.dumps({"GpuCount": 1, IS_A_NAME: True})
    details = _same(of_name, len(cost)).set(~is_a_name, json.dumps({"GpuCount": 1}))

    def of_gpus(words: pl.Series | str, other_words: str | None) -> pl.Series:
        """Return words for the GPUs, and others for the rest."""
        rows = [words if isinstance(words, pl.Series) else _same(words, len(cost))]
        return rows[0].zip_with(is_gpu, _same(other_words, len(cost)).cast(pl.String))

    return cells.frame(
        {
            "kind": _same(USAGE, len(cost)).set(is_idle, UNUSED_CAPACITY),
            "month": cells.month("window.start"),
            "month_begin_us": begin,
            "month_end_us": end,
            "begin_us": begin,
            "end_us": end,
            "billed": cost,
            "effective": cost,
            "quantity": cells.amount("gpuHours"),
            "unit": of_gpus("GPU-Hours", "allocation"),
            "pricing": of_gpus(STANDARD, None),
            "sku": of_gpus(cells.text("sku"), None),
            "service": of_gpus("GPUs", OTHER).set(cells.text("part") == HOURS_UNKNOWN, NO_HOURS),
            "service_category": of_gpus("Compute", "Other"),
            "texts": of_gpus(cells.text("instance").fill_null(""), ""),
            "details": of_gpus(details, None),
        }
    )


def _same(value: Any, count: int) -> pl.Series:
    return pl.Series([value]).new_from_index(0, count)


OPENCOST = InvoiceFormat(
    name="opencost",
    description="allocations of OpenCost, JSON",
    source="opencost.io",
    columns=COLUMNS,
    as_named=str,
    recognizes=_recognizes,
    charges=opencost_charges,
)
