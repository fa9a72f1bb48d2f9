"""Microsoft Philly: the job log with its attempts (JSON), and the table made from it (CSV).

Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training
Workloads", USENIX ATC 2019. Times are US Pacific local times without an offset. The run time of a
job of several attempts is the sum over its attempts: the gaps between them hold no GPUs.
"""

from __future__ import annotations

from typing import Any, Literal

import polars as pl

from gpuplan.analysis.base.time_units import MICROS
from gpuplan.analysis.job_table.schema import CANONICAL
from gpuplan.analysis.log_formats.format import (
    LogFormat,
    SourceContext,
    has_columns,
    need,
    state_words,
)
from gpuplan.analysis.reading.batch import EARLY, Rows, Tally
from gpuplan.analysis.reading.delimited import open_table
from gpuplan.analysis.reading.plan import Field, ReadingPlan, Rule, made_id, number, states, text
from gpuplan.analysis.reading.records import Cell, open_records
from gpuplan.analysis.reading.records import text as text_cell
from gpuplan.analysis.reading.source import Head, SourceStream
from gpuplan.analysis.reading.times import moment

ZONE = "America/Los_Angeles"
TABLE_COLUMNS = ("timestamp", "duration", "num_gpus", "gpu_time", "cluster")
RECORD_COLUMNS = (
    "jobid", "user", "vc", "status", "submitted_time", "attempts", "gpus", "servers",
    "start_times", "end_times",  # of all attempts, joined
)  # fmt: skip
JOINT = "; "
NO_TIME = (None, "", "None")
STATE = CANONICAL["state"]
LOCAL = "a local time like 2017-10-05 09:00:00"
EACH_LOCAL = f"{LOCAL}, or none"


def _open(stream: SourceStream) -> Rows:
    if Head(stream.path, stream.head).is_json:
        return open_records(stream, _flatten, RECORD_COLUMNS)
    return open_table(stream)


def _flatten(job: dict[str, Any]) -> dict[str, Cell]:
    """Return the cells of a job; its GPUs are those of the first attempt that records them."""
    attempts = job.get("attempts") or []
    if not isinstance(attempts, list) or not all(isinstance(run, dict) for run in attempts):
        raise ValueError("attempts that are not a list of objects")
    placed: list[dict[str, Any]] = []
    for run in attempts:
        servers = run.get("detail") or []
        if not isinstance(servers, list) or not all(isinstance(s, dict) for s in servers):
            raise ValueError("an attempt whose detail is not a list of objects")
        placed = placed or servers
    gpus = [server.get("gpus") or [] for server in placed]
    if not all(isinstance(devices, list) for devices in gpus):
        raise ValueError("a server whose gpus are not a list")
    submitted = job.get("submitted_time")
    return {
        "jobid": text_cell(job.get("jobid")),
        "user": text_cell(job.get("user")),
        "vc": text_cell(job.get("vc")),
        "status": text_cell(job.get("status")),
        "submitted_time": None if submitted in NO_TIME else text_cell(submitted),
        "attempts": str(len(attempts)),
        "gpus": str(sum(len(devices) for devices in gpus)),
        "servers": str(len(placed)),
        "start_times": _joined(attempts, "start_time"),
        "end_times": _joined(attempts, "end_time"),
    }


def _joined(attempts: list[dict[str, Any]], key: str) -> str | None:
    """Return the times of all attempts as one cell, a missing one as an empty item."""
    if not attempts:
        return None
    times = (run.get(key) for run in attempts)
    cells = ("" if time in NO_TIME else text_cell(time) or "" for time in times)
    return JOINT.join(cell.replace(JOINT.strip(), ",") for cell in cells)


def _plan(context: SourceContext) -> ReadingPlan:
    zone = context.choices.time_zone or ZONE
    if "start_times" in context.columns and context.head.is_json:
        return _plan_records(zone)
    need(context, TABLE_COLUMNS, "philly")
    return ReadingPlan(
        fields=(
            Field("submit_time", "timestamp", moment("timestamp", zone), LOCAL, True, zone),
            number("duration_s", "duration", required=True),
            number("num_gpus", "num_gpus", required=True),
            text("group", "cluster"),
        ),
        jobs={"job_id": made_id("philly", context.number)},
        notes=("the log has no users, states and waits",),
        time_zone=zone,
        made_ids=True,
    )


def _plan_records(zone: str) -> ReadingPlan:
    starts, ends = pl.col("starts_us"), pl.col("ends_us")
    runs_us = _runs_us(starts, ends, pl.col("late_ends_us"))
    has_run = runs_us.list.drop_nulls().list.len() > 0
    open_ended = (
        (ends.list.len() > 0) & ends.list.last().is_null() & starts.list.last().is_not_null()
    )
    waited = (starts.list.first() - pl.col("submit_time").to_physical()) / MICROS
    never = pl.col("runs") == 0
    return ReadingPlan(
        fields=(
            text("job_id", "jobid", required=True),
            text("user", "user"),
            text("group", "vc"),
            text("source_state", "status"),
            states("status", state_words("philly"), "state_word"),
            Field("submit_time", "submitted_time", moment("submitted_time", zone), LOCAL, True,
                  zone),
            number("num_gpus", "gpus", required=True),
            Field("servers", "servers", pl.col("servers").cast(pl.Int32, strict=False)),
            Field("runs", "attempts", pl.col("attempts").cast(pl.Int32, strict=False)),
            Field("starts_us", "start_times", _local_times("start_times", zone)),
            Field("ends_us", "end_times", _local_times("end_times", zone)),
            Field("late_ends_us", "end_times", _local_times("end_times", zone, "latest")),
            Field("starts_told", "start_times", _all_times("start_times")),
            Field("ends_told", "end_times", _all_times("end_times")),
        ),
        jobs={
            "queue_s": pl.when(waited >= 0).then(waited),
            "duration_s": pl.when(has_run).then(runs_us.list.sum() / MICROS),
            "num_workers": pl.col("servers").clip(1),
            "attempts": pl.col("runs").clip(1),
            "state": pl.when(never)
            .then(pl.lit("not_started", STATE))
            .when(open_ended)
            .then(pl.lit("running", STATE))
            .otherwise("state_word"),
        },
        rules=(
            Rule("unreadable", "start_times", EACH_LOCAL, _count(starts) < pl.col("starts_told")),
            Rule("unreadable", "end_times", EACH_LOCAL, _count(ends) < pl.col("ends_told")),
            Rule("end_before_start", "end_times", "an end at the start or after it",
                 runs_us.list.min() < 0),
        ),
        tallies=(
            Tally("jobs that never ran (no duration; 0 GPUs, as the log gives none)", never),
            Tally("jobs that ran but list no GPUs (0 GPUs, as if they held none)",
                  ~never & (pl.col("num_gpus") == 0)),
            Tally("jobs still running (their duration is that of the attempts that ended)",
                  open_ended),
            Tally("jobs with an attempt without start or end, which adds no duration",
                  ~open_ended & (_count(runs_us) < pl.col("runs"))),
            Tally(EARLY, waited < 0),
            Tally("jobs that ran more than once (their duration is the sum over the attempts)",
                  pl.col("runs") > 1),
        ),
        time_zone=zone,
    )  # fmt: skip


def _count(values: pl.Expr) -> pl.Expr:
    return values.list.drop_nulls().list.len()


def _runs_us(starts: pl.Expr, ends: pl.Expr, late_ends: pl.Expr) -> pl.Expr:
    """Return the lengths of the attempts as lists; null where a time is missing.

    An end before its start is in the hour that happens twice in autumn, for the second time, where
    that puts it after the start. Elsewhere both readings of an end are the same.
    """
    early, late = ends - starts, late_ends - starts
    is_wrong = early.list.eval((pl.element() < 0).cast(pl.Int64))
    is_mended = late.list.eval((pl.element() >= 0).cast(pl.Int64))
    return early + (late - early) * is_wrong * is_mended


def _all_times(source: str) -> pl.Expr:
    return pl.col(source).str.split(JOINT).list.eval(pl.element() != "").list.sum()


def _local_times(
    source: str, zone: str, twice: Literal["earliest", "latest"] = "earliest"
) -> pl.Expr:
    """Return lists of microseconds after 1970, in UTC; null for invalid times.

    ``twice`` selects which of two readings of an ambiguous local time to take.
    """
    naive = pl.element().str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us", strict=False)
    local = naive.dt.replace_time_zone(zone, ambiguous=twice, non_existent="null")
    times = pl.col(source).str.split(JOINT)
    return times.list.eval(local.dt.convert_time_zone("UTC").to_physical())


def _recognizes(head: Head) -> str | None:
    if head.mentions("jobid", "attempts"):
        return "JSON records with jobid and attempts"
    return has_columns(head, TABLE_COLUMNS)


PHILLY_FORMAT = LogFormat(
    name="philly",
    description="Microsoft Philly, 2017: cluster_job_log (JSON) or the flat table (CSV)",
    source="msr-fiddle/philly-traces on GitHub; the flat table with the Pollux and Sia simulators",
    recognizes=_recognizes,
    plan=_plan,
    open=_open,
    takes_zone=True,
    columns=TABLE_COLUMNS,
)
