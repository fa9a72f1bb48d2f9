"""Traces of the Gavel simulator: arrivals, GPU counts and training steps.

Source: Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning
Workloads", OSDI 2020. A job runs for its steps over the throughput of its type on a GPU.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import polars as pl

from gpuplan.analysis.errors import InputError
from gpuplan.analysis.gpu_names import gpu_name
from gpuplan.analysis.log_formats.format import LogFormat, SourceContext
from gpuplan.analysis.log_formats.gavel_throughputs import read_throughputs
from gpuplan.analysis.reading.batch import Rows
from gpuplan.analysis.reading.delimited import Layout, open_table
from gpuplan.analysis.reading.plan import Field, ReadingPlan, Rule, made_id, number, text
from gpuplan.analysis.reading.source import Head, SourceStream
from gpuplan.analysis.reading.tally import Tally
from gpuplan.analysis.reading.times import is_number, seconds

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


def _plan(sight: SourceContext) -> ReadingPlan:
    told = sight.choices.throughputs
    if told is None:
        return _arrivals(sight)
    worker, rates = read_throughputs(told, sight.choices.worker_type)
    plan = _arrivals(sight)
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
        notes=(f"durations are total_steps over the throughputs of {worker} in {told.name}",),
    )  # fmt: skip


def _duration_s(rates: pl.DataFrame) -> pl.Expr:
    """Return steps over the throughput of a type and scale factor; null where that is not told."""
    rate = pl.col("steps_per_s")
    known = rates.filter(rate.is_finite() & (rate > 0))

    def look_up(jobs: pl.Series) -> pl.Series:
        found = jobs.struct.unnest().join(
            known, on=["job_class", "num_gpus"], how="left", maintain_order="left"
        )
        return found["steps"] / found["steps_per_s"]

    jobs = pl.struct("job_class", "num_gpus", "steps")
    return jobs.map_batches(look_up, return_dtype=pl.Float64)


def _arrivals(sight: SourceContext) -> ReadingPlan:
    return ReadingPlan(
        fields=(
            text("job_class", "job_type", required=True),
            Field("submit_time", "arrival_time", seconds("arrival_time"), ARRIVAL, required=True),
            number("num_gpus", "scale_factor", required=True),
            number("steps", "total_steps", required=True),
        ),
        rules=(Rule("negative_duration", "total_steps", "at least 0", pl.col("steps") < 0),),
        jobs={"job_id": made_id("gavel", sight.number)},
        notes=(
            "the log has no durations: a job runs for its total_steps over the throughput of its "
            "type on a GPU, which --throughputs tells",
        ),
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
    description="traces of the Gavel simulator (relative times, steps instead of durations)",
    source="stanford-futuredata/gavel on GitHub, scheduler/traces",
    recognizes=_recognizes,
    plan=_plan,
    open=_open,
    takes_throughputs=True,
)
