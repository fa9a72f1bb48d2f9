"""Values over time, whatever the policy: as pictures and tables show them, and as rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.run import Run
from gpuplan.simkit.time import MICROS

GPUS, JOBS, SECONDS, RATIO, USD, FACTOR = "GPUs", "jobs", "s", "ratio", "$/GPU-h", "factor"
"""Units of values over time."""


@dataclass(frozen=True, slots=True)
class Panel:
    """Values over time that share an axis.

    Attributes:
        title: what they are.
        unit: one of `GPUS`, `JOBS`, `SECONDS`, `RATIO`, `USD` and `FACTOR`.
        series: the values by name, each of shape (k,); of GPUs, several are by kind.
        limit: a level that matters, such as the GPUs there are; None for none.
    """

    title: str
    unit: str
    series: Mapping[str, Any]
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class JobBars:
    """When each of a few jobs ran, and on which GPU type; arrays of shape (k,), one per bar.

    Attributes:
        job_id: of each row, from the top.
        kinds: the GPU types.
        row, kind: of each bar, places among the two.
        begin_us, end_us: of each bar.
    """

    job_id: tuple[str, ...]
    kinds: tuple[str, ...]
    row: IntArray
    kind: IntArray
    begin_us: IntArray
    end_us: IntArray


@dataclass(frozen=True, slots=True)
class TimeLines:
    """What happened over time in one run.

    Attributes:
        time_us: when anything changes, microseconds, ascending; shape (k,).
        end_us: end of the run.
        panels: for pictures.
        rows: for tables: what it is, its unit and its values, of shape (k,).
        bars: the jobs of a small run on several GPU types, for pictures; None for others.
    """

    time_us: IntArray
    end_us: int
    panels: tuple[Panel, ...]
    rows: tuple[tuple[str, str, Any], ...]
    bars: JobBars | None = None


def usage_lines(run: Run) -> TimeLines:
    """Return GPUs in use and, where any job waits, jobs waiting; times after the first."""
    usage = run.usage
    first = int(usage.time_us[0])
    of = "" if run.capacity is None else f", of {run.capacity:,}"
    waits = bool(np.any(usage.waiting))
    title = f"GPUs in use{of}" + ("" if waits else "; no job waits")
    panels = [Panel(title, GPUS, {"GPUs in use": usage.used}, run.capacity)]
    if waits:
        panels.append(Panel("Jobs waiting", JOBS, {"jobs waiting": usage.waiting}))
    return TimeLines(
        time_us=usage.time_us - first,
        end_us=int(run.finish_us.max()) - first,
        panels=tuple(panels),
        rows=(("GPUs in use", GPUS, usage.used), ("jobs waiting", JOBS, usage.waiting)),
    )


def stacked(named: list[tuple[dict[str, Any], pl.DataFrame | None]]) -> pl.DataFrame:
    """Return time lines below each other, each with the columns that say whose it is.

    What a run does not have is null.
    """
    frames = [
        frame.select(*(pl.lit(value).alias(name) for name, value in names.items()), pl.all())
        for names, frame in named
        if frame is not None
    ]
    return pl.concat(frames, how="diagonal_relaxed")


def usage_frame(run: Run) -> pl.DataFrame:
    """Return a row per change of a run.

    Columns: ``time_s`` after the first submission, ``queued`` jobs and ``used_gpus`` from then on.
    """
    usage = run.usage
    frame = pl.DataFrame(
        {
            "time_s": (usage.time_us - usage.time_us[0]) / MICROS,
            "queued": usage.waiting,
            "used_gpus": usage.used,
        }
    )
    changed = pl.any_horizontal(pl.col("queued", "used_gpus").diff().fill_null(1) != 0)
    return frame.filter(changed)
