"""Standard Workload Format: 18 numbers per job, after comments with the start of the log.

Source: Chapin et al., "Benchmarks and Standards for the Evaluation of Parallel Job Schedulers",
JSSPP 1999; version 2.2 of the Parallel Workloads Archive. It counts processors and has no GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.time_units import MICROS
from gpuplan.analysis.job_table.schema import CANONICAL, SCHEDULER_COLUMNS
from gpuplan.analysis.log_formats.format import IngestOptions, LogFormat, SourceContext
from gpuplan.analysis.reading.batch import Rows, Tally
from gpuplan.analysis.reading.delimited import Layout, open_table
from gpuplan.analysis.reading.plan import Field, ReadingPlan, Rule, number, states, text
from gpuplan.analysis.reading.source import Head, SourceStream
from gpuplan.analysis.reading.times import check_zone, is_number, seconds

COLUMNS = (
    "job_number", "submit_time", "wait_time", "run_time", "allocated_processors", "cpu_time",
    "used_memory", "requested_processors", "requested_time", "requested_memory", "status",
    "user_id", "group_id", "executable", "queue", "partition", "preceding_job", "think_time",
)  # fmt: skip
STATUS = {"0": "failed", "1": "completed", "5": "cancelled"}
PARTIAL = ("2", "3", "4")
UNKNOWN = ("-1", "-1.0")
MARKS = ("Version", "UnixStartTime", "MaxJobs", "MaxProcs", "Computer")
SPACES = re.compile(rb"[ \t]+")
EDGES = re.compile(rb"(?m)^ | (?=\r?$)")
COMMENT = re.compile(rb"(?m)^;[^\n]*")
STATE = CANONICAL["state"]
OF_SCHEDULER = ("limit_s", "partition", "account", "cancel_time")


def _clean(lines: bytes) -> bytes:
    """Return the lines with one space between fields, and comments as blank lines."""
    return COMMENT.sub(b"", EDGES.sub(b"", SPACES.sub(b" ", lines)))


def _open(stream: SourceStream) -> Rows:
    return open_table(stream, Layout(" ", COLUMNS, quotes=False, clean=_clean))


def _plan(context: SourceContext) -> ReadingPlan:
    begins_s = int(_header_value(context.head, "UnixStartTime", r"\d{1,10}") or 0)
    offset = pl.duration(seconds=begins_s)
    allocated, requested = pl.col("allocated"), pl.col("requested")
    recorded = pl.coalesce(allocated, requested)
    ran = pl.col("run_s")
    cancelled = pl.col("state_word") == "cancelled"
    never = cancelled & (ran.is_null() | ((ran == 0) & (allocated.fill_null(0) == 0)))
    waited = pl.col("wait_s")
    limit, submit = pl.col("requested_s"), pl.col("submit_time")
    ended = submit + pl.duration(microseconds=(waited + ran.fill_null(0)) * MICROS)
    return ReadingPlan(
        fields=(
            text("job_id", "job_number", required=True),
            text("user", "user_id"),
            text("group", "group_id"),
            text("job_class", "executable"),
            Field("submit_time", "submit_time", seconds("submit_time") + offset,
                  "seconds from the start of the log", required=True),
            number("wait_s", "wait_time", expected="seconds"),
            number("run_s", "run_time", expected="seconds"),
            number("allocated", "allocated_processors"),
            number("requested", "requested_processors"),
            text("source_state", "status"),
            states("status", STATUS, "state_word"),
            number("requested_s", "requested_time", expected="seconds, or -1"),
            text("account", "group_id"),
            text("partition", "partition"),
        ),
        jobs={
            "num_gpus": recorded.fill_null(0.0),
            "queue_s": pl.when(~never & (waited >= 0)).then(waited),
            "duration_s": pl.when(~never).then(ran),
            "state": pl.when(never).then(pl.lit("not_started", STATE)).otherwise("state_word"),
            "limit_s": pl.when(limit > 0).then(limit),
            "cancel_time": pl.when(never).then(ended),
        },
        rules=(
            Rule("negative_duration", "run_time", "seconds, at least 0, or -1", ran < 0),
            Rule("negative_gpus", "allocated_processors", "at least 0, or -1", allocated < 0),
            Rule("negative_gpus", "requested_processors", "at least 0, or -1", recorded < 0),
        ),
        left_out=(
            Tally("lines of partial executions left out (the summary line of the job counts)",
                  pl.col("status").is_in(PARTIAL)),
        ),
        tallies=(
            Tally("jobs that were cancelled before they started (no duration)", never),
            Tally("jobs of unknown duration", ~never & ran.is_null()),
            Tally("jobs that tell no processors (0)", recorded.is_null()),
            Tally("jobs whose allocation is unknown: the request counts",
                  allocated.is_null() & requested.is_not_null()),
            Tally("jobs of negative wait (no wait recorded)", waited < 0),
        ),
        notes=("num_gpus holds processors: the log has no GPUs",),
        time_zone=_zone(context.head) if begins_s else None,
        relative_time=not begins_s,
        empty_words=UNKNOWN,
    )  # fmt: skip


def _kept_columns(
    head: Head, columns: Sequence[str], choices: IngestOptions
) -> dict[str, pl.DataType]:
    """Return the columns of the scheduler that a trace keeps."""
    if choices.scheduler is False:
        return {}
    return {name: SCHEDULER_COLUMNS[name] for name in OF_SCHEDULER}


def _header_value(head: Head, name: str, form: str) -> str | None:
    """Return the value of a comment in the header: ``; UnixStartTime: 820454400``."""
    match = re.search(rf"(?m)^;\s*{name}:\s*({form})".encode(), head.data)
    return match[1].decode() if match else None


def _zone(head: Head) -> str:
    try:
        return check_zone(_header_value(head, "TimeZoneString", r"[\w/+-]+") or "UTC")
    except UsageError:
        return "UTC"


def _recognizes(head: Head) -> str | None:
    line = head.line
    if line is None or head.is_json:
        return None
    if line.startswith(";"):
        mark = next((mark for mark in MARKS if _header_value(head, mark, "") is not None), None)
        return None if mark is None else f"a comment that tells {mark}"
    cells = line.split()
    is_job = len(cells) == len(COLUMNS) and all(is_number(cell) for cell in cells)
    return f"{len(COLUMNS)} numbers in a line" if is_job else None


SWF = LogFormat(
    name="swf",
    description="Standard Workload Format (processors, no GPUs)",
    source="the Parallel Workloads Archive; many simulators of schedulers",
    recognizes=_recognizes,
    plan=_plan,
    open=_open,
    kept=_kept_columns,
    has_scheduler=True,
)
