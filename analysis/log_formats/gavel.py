"""Traces of the Gavel simulator: arrivals, GPU counts and training steps.

Source: Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning
Workloads", OSDI 2020. A job runs for its steps over the throughput of its type on a GPU.

Throughputs come from the upstream JSON, or from its isolated values as a CSV table.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.job_table.gpu_names import gpu_name
from gpuplan.analysis.job_table.schema import CANONICAL, OWN_COLUMNS, STEPS
from gpuplan.analysis.log_formats.format import LogFormat, SourceContext
from gpuplan.analysis.reading.batch import Rows, Tally
from gpuplan.analysis.reading.delimited import Layout, open_table
from gpuplan.analysis.reading.plan import Field, ReadingPlan, Rule, made_id, number, text
from gpuplan.analysis.reading.source import Head, SourceStream, read_unpacked
from gpuplan.analysis.reading.times import is_number, seconds

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


def read_all_throughputs(path: Path) -> pl.DataFrame:
    """Read the throughputs of jobs that run alone, columns `SCHEMA`; .gz and .zst are unpacked.

    Raises:
        InputError: the file is not such a table.
    """
    data = read_unpacked(path)
    try:
        return _json(data) if data.lstrip()[:1] == b"{" else _csv(data)
    except DAMAGE as error:
        raise InputError(path, "is not a table of throughputs", expected=EXPECTED) from error


def read_throughputs(
    path: Path, worker_type: str | None
) -> tuple[str, pl.DataFrame] | tuple[None, None]:
    """Read the throughputs of one worker type.

    Returns:
        The worker type, and a row per ``job_class`` and ``num_gpus`` with its ``steps_per_s``; two
        times None where there are several types, and none is chosen.

    Raises:
        InputError: the file is not such a table, or lacks the worker type.
    """
    rows = read_all_throughputs(path)
    workers = rows["worker_type"].unique().sort().to_list()
    if worker_type is None and len(workers) > 1:
        return None, None
    chosen = worker_type or next(iter(workers), "")
    rates = rows.filter(pl.col("worker_type") == chosen).drop("worker_type")
    if rates.is_empty():
        raise InputError(
            path, f"has no worker type {chosen!r}", expected=f"one of {_names(workers)}"
        )
    if rates.select("job_class", "num_gpus").is_duplicated().any():
        raise InputError(path, f"has two throughputs for one job type and scale factor on {chosen}")
    return chosen, rates


def _csv(data: bytes) -> pl.DataFrame:
    table = pl.read_csv(BytesIO(data), infer_schema=False).select(COLUMNS)
    return table.rename(dict(zip(COLUMNS, SCHEMA, strict=True))).cast(SCHEMA).drop_nulls()


def _json(data: bytes) -> pl.DataFrame:
    return pl.DataFrame(list(_rows_of_lone_jobs(json.loads(data))), schema=SCHEMA, orient="row")


def _rows_of_lone_jobs(table: Any) -> Iterator[tuple[str, str, float, float]]:
    """Yield worker type, job type, scale factor and steps per second. Raises `ValueError`."""
    for worker, kinds in table.items():
        if not isinstance(kinds, dict):
            raise ValueError("a worker type that is not an object")
        for key, rate_beside in kinds.items():
            name, scale = ast.literal_eval(key)
            if not isinstance(rate_beside, dict):
                raise ValueError("a job type that is not an object")
            if ALONE in rate_beside:
                yield worker, str(name), float(scale), float(rate_beside[ALONE])


def _names(workers: list[str]) -> str:
    return ", ".join(workers[:12]) or "none"


SHORT = (
    "job_type", "command", "num_steps_arg", "needs_data_dir", "total_steps", "arrival_time",
    "scale_factor",
)  # fmt: skip
LONG = (
    "job_type", "command", "working_directory", "num_steps_arg", "needs_data_dir", "total_steps",
    "scale_factor", "priority_weight", "SLO", "arrival_time",
)  # fmt: skip
NUMBERS = ("needs_data_dir", "total_steps", "arrival_time", "scale_factor")
LAYOUTS = {len(names): names for names in (SHORT, LONG)}
UNCONSOLIDATED = "_unconsolidated"
ARRIVAL = "seconds from the start of the trace"


NO_DURATIONS = (
    "the log has no durations: a job runs for its total_steps over the throughput of its type on a "
    "GPU"
)


def _open(stream: SourceStream) -> Rows:
    return open_table(stream, partial(_layout, stream))


def _layout(stream: SourceStream, line: str) -> Layout:
    fields = line.count("\t") + 1
    if fields not in LAYOUTS:
        raise InputError(
            stream.path,
            f"its first line has {fields} tab-separated fields",
            expected="the 7 or 10 fields of a Gavel trace",
            hint="of a descendant that appends fields keep the first 10: cut -f 1-10"
            if fields > len(LONG)
            else "leave out --source-format to detect the format",
        )
    return Layout("\t", LAYOUTS[fields], quotes=False)


def _plan(context: SourceContext) -> ReadingPlan:
    recorded = context.choices.throughputs
    if recorded is None:
        return _arrivals(context)
    plan = _arrivals(context)
    worker, rates = read_throughputs(recorded, context.choices.worker_type)
    if worker is None or rates is None:
        return replace(plan, notes=(NO_DURATIONS + f"; {recorded.name} has several worker types, "
            "so --worker-type chooses the one of the durations, or a replay on several types takes "
            "the table",),
        )  # fmt: skip
    return replace(
        plan,
        jobs={
            **plan.jobs,
            "duration_s": _duration_s(rates),
            "gpu_type": pl.lit(gpu_name(worker.removesuffix(UNCONSOLIDATED))),
        },
        tallies=(
            Tally(f"jobs whose type and GPUs have no throughput on {worker} (no duration)",
                  pl.col("duration_s").is_null()),
        ),
        notes=(f"durations are total_steps over the throughputs of {worker} in {recorded.name}",),
    )  # fmt: skip


def _duration_s(rates: pl.DataFrame) -> pl.Expr:
    """Return steps over the throughput of a type and scale factor; null if that is unknown."""
    rate = pl.col("steps_per_s")
    measured = rates.filter(rate.is_finite() & (rate > 0))

    def look_up(jobs: pl.Series) -> pl.Series:
        joined = jobs.struct.unnest().join(
            measured, on=["job_class", "num_gpus"], how="left", maintain_order="left"
        )
        return joined["steps"] / joined["steps_per_s"]

    jobs = pl.struct("job_class", "num_gpus", "steps")
    return jobs.map_batches(look_up, return_dtype=pl.Float64)


def _arrivals(context: SourceContext) -> ReadingPlan:
    return ReadingPlan(
        fields=(
            text("job_class", "job_type", required=True),
            Field("submit_time", "arrival_time", seconds("arrival_time"), ARRIVAL, required=True),
            number("num_gpus", "scale_factor", required=True),
            number("steps", "total_steps", required=True),
        ),
        rules=(Rule("negative_duration", "total_steps", "at least 0", pl.col("steps") < 0),),
        jobs={"job_id": made_id("gavel", context.number)},
        schema=CANONICAL | {STEPS: OWN_COLUMNS[STEPS]},
        notes=(NO_DURATIONS + ", which --throughputs gives",),
        relative_time=True,
        made_ids=True,
    )


def _recognizes(head: Head) -> str | None:
    if head.line is None or head.is_json:
        return None
    cells = head.line.split("\t")
    names = LAYOUTS.get(len(cells), LONG)
    row = dict(zip(names, cells, strict=False))
    if len(cells) < len(SHORT) or not all(is_number(row.get(name)) for name in NUMBERS):
        return None
    return f"{len(cells)} tab-separated fields, with numbers where a Gavel trace has them"


GAVEL = LogFormat(
    name="gavel",
    description="traces of the Gavel simulator (relative times, steps, no durations)",
    source="stanford-futuredata/gavel on GitHub, scheduler/traces",
    recognizes=_recognizes,
    plan=_plan,
    open=_open,
    takes_throughputs=True,
    keeps=(STEPS,),
)
