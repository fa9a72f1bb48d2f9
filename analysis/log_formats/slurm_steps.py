"""Slurm's own utilization of GPUs: ``TRESUsageInAve`` of the steps of a job.

``sacct`` without ``-X`` writes the steps of a job below it. Their figures become one cell of the
row of the job: the mean of ``gres/gpuutil``, weighted by the time of the steps that have it. Slurm
counts percents over all GPUs of a step, so that two busy GPUs have 200.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from gpuplan.analysis.log_formats.slurm_cells import STEP, elapsed_s
from gpuplan.analysis.reading.batch import Batch, Rows

USAGE = "tresusageinave"
GPU_UTIL = r"(?:^|,)gres/gpuutil=([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)(?:,|$)"
GPU_MEM = r"(?:^|,)gres/gpumem=([1-9][0-9]*)"
LEAST_S = 1e-6


def with_steps(rows: Rows, ident: str | None) -> Rows:
    """Return rows in which the row of a job has the usage of its steps.

    Args:
        rows: of jobs and steps, the steps below their job.
        ident: the column with the ids.
    """
    if USAGE not in rows.columns or ident is None:
        return rows
    elapsed = next((name for name in ("elapsedraw", "elapsed") if name in rows.columns), None)

    def batches(wanted: Sequence[str]) -> Iterator[Callable[[], Batch]]:
        for task in rows.batches(wanted):
            yield partial(_with_usage, task, ident, elapsed) if USAGE in wanted else task

    return replace(rows, batches=batches)


def _with_usage(task: Callable[[], Batch], ident: str, elapsed: str | None) -> Batch:
    batch = task()
    return replace(batch, cells=usage_of_steps(batch.cells, ident, elapsed))


def usage_of_steps(cells: pl.DataFrame, ident: str, elapsed: str | None) -> pl.DataFrame:
    """Return rows in which those of jobs have a cell `USAGE` of their steps."""
    is_step = pl.col(ident).str.contains(STEP).fill_null(False)
    run_s = pl.lit(1.0)
    if elapsed is not None and elapsed in cells.columns:
        cell = pl.col(elapsed)
        run_s = (
            cell.cast(pl.Float64, strict=False) if elapsed == "elapsedraw" else elapsed_s(elapsed)
        )
    percent = pl.when(is_step).then(
        pl.col(USAGE).str.extract(GPU_UTIL).cast(pl.Float64, strict=False)
    )
    weight = pl.when(percent.is_not_null()).then(run_s.fill_null(0).clip(LEAST_S))
    job = pl.col(ident).str.extract(r"^([^.]+)")
    of_job = [(~is_step).cum_sum(), job]
    mean = ((weight * percent).sum() / weight.sum()).over(of_job)
    has_percent = (percent.count() > 0).over(of_job)
    memory = pl.when(is_step & pl.col(USAGE).str.contains(GPU_MEM)).then(1).count().over(of_job)
    written = pl.format("gres/gpuutil={}", mean) + pl.when(memory > 0).then(
        pl.lit(",gres/gpumem=1")
    ).otherwise(pl.lit(""))
    usage = pl.when(~is_step & has_percent).then(written).otherwise(pl.col(USAGE))
    return cells.with_columns(usage.alias(USAGE))


def usage_of_json(steps: Any) -> str | None:
    """Return the cell `USAGE` of the steps of a job of ``sacct --json``; None without figures."""
    weights, total, has_memory = 0.0, 0.0, False
    for step in steps if isinstance(steps, list) else ():
        amounts = _usage_of_step(step)
        if (percent := amounts.get("gpuutil")) is None:
            continue
        run_s = step["time"].get("elapsed") if isinstance(step.get("time"), dict) else None
        weight = max(_number(run_s), LEAST_S)
        weights, total = weights + weight, total + weight * percent
        has_memory |= amounts.get("gpumem", 0) > 0
    if not weights:
        return None
    return f"gres/gpuutil={total / weights}" + (",gres/gpumem=1" if has_memory else "")


def _usage_of_step(step: Any) -> dict[str, float]:
    """Return the resources of a step that Slurm calls ``tres.requested.average`` in JSON."""
    entries = step
    for key in ("tres", "requested", "average"):
        entries = entries.get(key) if isinstance(entries, dict) else None
    return {
        entry["name"]: _number(entry["count"])
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict) and entry.get("type") == "gres"
        if isinstance(entry.get("name"), str) and isinstance(entry.get("count"), int | float)
    }


def _number(value: Any) -> float:
    """Return a number of JSON; 0 for what is none, and infinity for one that is too long."""
    try:
        return float(value) if isinstance(value, int | float) else 0.0
    except OverflowError:
        return math.inf
