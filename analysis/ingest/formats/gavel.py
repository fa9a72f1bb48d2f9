"""Traces of the Gavel simulator: arrivals, GPU counts and training steps, no run times.

Source: Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning
Workloads", OSDI 2020. A job runs for its steps over the throughput of its type on a GPU.
"""

from __future__ import annotations

from functools import partial

from gpuplan.analysis.errors import InputError
from gpuplan.analysis.ingest.batch import Rows
from gpuplan.analysis.ingest.format import Format, Sight
from gpuplan.analysis.ingest.plan import Field, Plan, made_id, number, text
from gpuplan.analysis.ingest.source import Head, SourceStream
from gpuplan.analysis.ingest.tables import Layout, open_table
from gpuplan.analysis.ingest.times import is_number, seconds

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


def _plan(sight: Sight) -> Plan:
    return Plan(
        fields=(
            text("job_class", "job_type", required=True),
            Field("submit_time", "arrival_time", seconds("arrival_time"), ARRIVAL, required=True),
            number("num_gpus", "scale_factor", required=True),
            number("steps", "total_steps", required=True),
        ),
        jobs={"job_id": made_id("gavel", sight.number)},
        notes=(
            "the log has no durations: a job runs for its total_steps over the throughput of its "
            "type on a GPU",
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


GAVEL = Format(
    name="gavel",
    description="traces of the Gavel simulator (relative times, steps instead of durations)",
    source="stanford-futuredata/gavel on GitHub, scheduler/traces",
    recognizes=_recognizes,
    plan=_plan,
    open=_open,
)
