"""AcmeTrace job tables: Seren and Kalos, two clusters for large language models, 2023.

Source: Hu et al., "Characterization of Large Language Model Development in the Datacenter",
NSDI 2024. The run time is end - start: the column ``duration`` of Kalos includes the queue. The
published figures of Kalos use the column, which the user can choose.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import polars as pl

from gpuplan.analysis.job_table.schema import CANONICAL
from gpuplan.analysis.log_formats.format import (
    LogFormat,
    SourceContext,
    has_columns,
    need,
    state_words,
)
from gpuplan.analysis.reading.batch import EARLY, Tally
from gpuplan.analysis.reading.plan import Field, ReadingPlan, Rule, count, number, states, text
from gpuplan.analysis.reading.source import Head
from gpuplan.analysis.reading.times import moment, seconds_between

COMMON = (
    "job_id", "user", "node_num", "gpu_num", "state",
    "submit_time", "start_time", "end_time", "duration",
)  # fmt: skip
"""Columns that Helios, of the same laboratory, has too."""
COLUMNS = (*COMMON, "type")
KALOS_ONLY = ("fail_time", "stop_time")
CLOCK_S = 1.0  # resolution of the times
STATE = CANONICAL["state"]
OWN_DURATIONS = "durations are those of the log's own column duration, not end - start"
INSTANT = "a time with its offset, like 2023-04-02 10:00:00+08:00"
LOCAL = "a local time like 2020-07-01 09:00:00"


def _plan(context: SourceContext, name: str, time_zone: str) -> ReadingPlan:
    need(context, COLUMNS, name)
    fields = (text("job_id", "job_id", required=True), text("job_class", "type"))
    return cluster_log(fields, time_zone, own_durations=context.choices.own_durations)


def cluster_log(
    own_fields: Sequence[Field], time_zone: str, zone: str | None = None, *, own_durations: bool
) -> ReadingPlan:
    """Return the plan of a table with submission, start and end of each job.

    Args:
        own_fields: the fields of a log besides those of `COMMON`, including its ids.
        time_zone: zone of its clock, unless the offsets of its times are others.
        zone: zone of times without an offset; None where all have one.
        own_durations: whether to use the column ``duration`` instead of end - start.
    """
    expected = INSTANT if zone is None else LOCAL
    started = pl.col("start_time").is_not_null()
    ended = pl.col("end_time").is_not_null()
    waited = seconds_between("start_time", "submit_time")
    ran = seconds_between("end_time", "start_time")
    recorded = pl.col("source_duration_s")
    not_negative = Rule("negative_duration", "duration", "seconds, at least 0", recorded < 0)
    return ReadingPlan(
        fields=(
            *own_fields,
            text("user", "user"),
            Field("submit_time", "submit_time", moment("submit_time", zone), expected, True, zone),
            Field("start_time", "start_time", moment("start_time", zone), expected, zone=zone),
            Field("end_time", "end_time", moment("end_time", zone), expected, zone=zone),
            number("num_gpus", "gpu_num", required=True),
            count("nodes", "node_num", least=0),
            text("source_state", "state"),
            states("state", state_words("slurm"), "state_word"),
            number("source_duration_s", "duration"),
        ),
        jobs={
            "queue_s": pl.when(waited >= 0).then(waited),
            "duration_s": pl.when(started).then(recorded) if own_durations else ran,
            "num_workers": pl.col("nodes").clip(1).fill_null(1),
            "state": pl.when(started).then("state_word").otherwise(pl.lit("not_started", STATE)),
        },
        rules=(
            Rule(
                "missing",
                "end_time",
                "the end of a job that has started and is not running",
                started & ~ended & (pl.col("state_word") != "running"),
            ),
            Rule(
                "missing",
                "start_time",
                "the start of a completed job",
                ~started & (pl.col("state_word") == "completed"),
            ),
            *([not_negative] if own_durations else []),
        ),
        tallies=(
            Tally(
                "rows whose own duration is not end - start by more than 1 s "
                f"({'that one' if own_durations else 'end - start'} counts)",
                (recorded - ran).abs() > CLOCK_S,
            ),
            Tally(
                "jobs that never started (no duration)",
                ~started,
            ),
            Tally(EARLY, waited < 0),
        ),
        notes=(OWN_DURATIONS,) if own_durations else (),
        time_zone=time_zone,
        zone_columns=("submit_time", "start_time", "end_time") if zone is None else (),
    )


def _recognizes_kalos(head: Head) -> str | None:
    return has_columns(head, (*COLUMNS, *KALOS_ONLY))


def _recognizes_seren(head: Head) -> str | None:
    # Helios has the same columns and a virtual cluster, and its times have no offset.
    return None if {*KALOS_ONLY, "vc"} & set(head.columns) else has_columns(head, COLUMNS)


SEREN = LogFormat(
    name="seren",
    description="AcmeTrace, cluster Seren: 818 thousand jobs, March to August 2023",
    source="InternLM/AcmeTrace on GitHub, data/job_trace/trace_seren.csv",
    recognizes=_recognizes_seren,
    plan=partial(_plan, name="seren", time_zone="+08:00"),
    has_durations=True,
    columns=COLUMNS,
)
KALOS = LogFormat(
    name="kalos",
    description="AcmeTrace, cluster Kalos: 62 thousand jobs, May to August 2023",
    source="InternLM/AcmeTrace on GitHub, data/job_trace/trace_kalos.csv",
    recognizes=_recognizes_kalos,
    plan=partial(_plan, name="kalos", time_zone="+00:00"),
    has_durations=True,
    columns=(*COLUMNS, *KALOS_ONLY),
)
