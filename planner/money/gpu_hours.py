"""GPU-hours that the jobs of a log hold, by group, user, class or GPU type, and by month.

The window is the period, or runs from the first submission to the last submission or end. Months
are those of the calendar in UTC, or stretches of 730.5 hours where the log has no dates.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl

from gpuplan.analysis.base.arrays import BoolArray, FloatArray, IntArray
from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.time_units import HOUR_US, MONTH_H
from gpuplan.analysis.characterize.load import PARTS_PER_GPU, levels_until
from gpuplan.analysis.characterize.shares import name_codes
from gpuplan.analysis.history.jobs import BY, JobArrays
from gpuplan.analysis.trace.trace import Trace

COLUMNS = ("submit_time", "queue_s", "duration_s", "num_gpus", "state", "gpu_type")
"""Canonical columns that every bill reads."""

UNKNOWN = "unknown"
MONTH_US = round(MONTH_H * HOUR_US)


@dataclass(frozen=True, slots=True)
class GpuHours:
    """GPU-hours of a log by name, GPU type and period.

    Attributes:
        names: what the bill is split by.
        gpu_types: the types, by their names in the log; None for jobs that name none.
        edges_us: of the periods, microseconds of the Unix epoch; shape (m + 1,).
        gpu_h: GPU-hours; shape (names, types, m).
        jobs: jobs that held GPUs; shape (names,).
        peak_gpus: most GPUs of each type held at once; shape (types,).
        running: jobs still running, and the GPU-hours that they have held so far.
    """

    names: tuple[str, ...]
    gpu_types: tuple[str | None, ...]
    edges_us: IntArray
    gpu_h: FloatArray
    jobs: IntArray
    peak_gpus: FloatArray
    running: tuple[int, float]

    @property
    def window_us(self) -> int:
        """The period, or first submission to last submission or end."""
        return int(self.edges_us[-1] - self.edges_us[0])


def gpu_hours(trace: Trace, by: str) -> GpuHours:
    """Return the GPU-hours of a trace.

    Args:
        trace: with `COLUMNS` and the column of ``by``.
        by: one of `BY`, or another column of the trace.

    Raises:
        InputError: no job has both a run time and GPUs, or no time passes.
    """
    jobs = trace.arrays()
    counted = jobs.holding()
    if not counted.any():
        raise InputError(
            trace.path,
            "no job has both a run time and GPUs, so there is nothing to bill",
            hint="loosen the selection",
        )
    begin_us, end_us = jobs.window_us()
    if end_us <= begin_us:
        raise InputError(trace.path, "no time passes in it, so it has no bill for a month")
    edges = _edges(begin_us, end_us, has_calendar=not trace.provenance.relative_time)
    names, name_of = _codes(trace.jobs[BY.get(by, by)])
    types, type_of = _codes(trace.jobs["gpu_type"])
    runs = jobs.runs()
    cells = (name_of * len(types) + type_of)[runs.job]
    held = _held(
        edges, runs.start_us, runs.end_us, runs.gpus, cells, len(names) * len(types)
    ).reshape(len(names), len(types), edges.size - 1)  # fmt: skip
    nameless = UNKNOWN if UNKNOWN not in names else f"({UNKNOWN})"
    of_name = np.bincount(name_of[counted], minlength=len(names))
    used = np.flatnonzero(np.bincount(type_of[counted], minlength=len(types)))
    kept = np.flatnonzero(of_name)
    kept = kept[np.argsort(-held[kept].sum(axis=(1, 2)), kind="stable")]
    return GpuHours(
        names=tuple(nameless if names[i] is None else str(names[i]) for i in kept),
        gpu_types=tuple(types[i] for i in used),
        edges_us=edges,
        gpu_h=held[np.ix_(kept, used, np.arange(edges.size - 1))],
        jobs=of_name[kept],
        peak_gpus=np.array([_peak(jobs, counted & (type_of == i)) for i in used]),
        running=jobs.running(),
    )


def _codes(column: pl.Series) -> tuple[list[str | None], IntArray]:
    """Return the distinct names, None last, and the place of each among them."""
    codes, names = name_codes(column)
    return [*names.to_list(), None], codes.astype(np.int64)


def _peak(jobs: JobArrays, chosen: BoolArray) -> float:
    return levels_until(jobs.only(chosen), 0)[2] / PARTS_PER_GPU


def _held(
    edges: IntArray, start: IntArray, stop: IntArray, gpus: FloatArray, cell: IntArray, cells: int
) -> FloatArray:
    """Return GPU-hours by cell and period; shape (cells, periods)."""
    periods = edges.size - 1
    first = np.clip(np.searchsorted(edges, start, side="right") - 1, 0, periods - 1)
    last = np.clip(np.searchsorted(edges, stop, side="left") - 1, first, periods - 1)
    within = first == last
    gpu_h = gpus * (stop - start) / HOUR_US
    inside = np.bincount((cell * periods + first)[within], gpu_h[within], cells * periods)
    held: FloatArray = inside.astype(np.float64).reshape(cells, periods)  # without jobs: whole
    long = np.flatnonzero(~within)
    for period in range(periods):
        jobs = long[(first[long] <= period) & (period <= last[long])]
        lasting = np.minimum(stop[jobs], edges[period + 1]) - np.maximum(start[jobs], edges[period])
        held[:, period] += np.bincount(cell[jobs], gpus[jobs] * lasting / HOUR_US, cells)
    return held


def _edges(begin_us: int, end_us: int, *, has_calendar: bool) -> IntArray:
    """Return the edges of the calendar months (UTC), or of months of 730.5 hours without dates."""
    edges = [begin_us]
    if not has_calendar:
        edges += range(begin_us + MONTH_US, end_us, MONTH_US)
        return np.array([*edges, end_us], np.int64)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    at = epoch + timedelta(microseconds=begin_us)
    while True:
        year, month = (at.year + 1, 1) if at.month == 12 else (at.year, at.month + 1)
        if year > 9999:
            break
        at = datetime(year, month, 1, tzinfo=UTC)
        edge = (at - epoch) // timedelta(microseconds=1)
        if edge >= end_us:
            break
        edges.append(edge)
    return np.array([*edges, end_us], np.int64)
