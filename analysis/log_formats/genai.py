"""Alibaba GenAI v2026: requests of a serverless image service, each as a job of one GPU.

Source: the dataset GenTD26 of alibaba/clusterdata. The log has no ids, waits and GPU counts; its
times have no zone, and the publisher has shifted them.
"""

from __future__ import annotations

from functools import partial

import polars as pl

from gpuplan.analysis.log_formats.format import LogFormat, SourceContext, has_columns, need
from gpuplan.analysis.reading.batch import Tally
from gpuplan.analysis.reading.plan import Field, ReadingPlan, made_id, number, states, text
from gpuplan.analysis.reading.times import moment

COLUMNS = ("gmt_create", "predict_type", "predict_status", "exec_time_seconds", "groupId")
STATUSES = {
    "succeed": "completed",
    "failed": "failed",
    "pending": "running",
    "processing": "running",
}
"""Requests unfinished when the log was taken have run for the recorded time, which may be 0."""
LOCAL = "a time like 2024-11-15 16:57:50"


def _plan(context: SourceContext) -> ReadingPlan:
    need(context, COLUMNS, "genai")
    zone = context.choices.time_zone or "UTC"
    return ReadingPlan(
        fields=(
            Field("submit_time", "gmt_create", moment("gmt_create", zone), LOCAL, True, zone),
            number("duration_s", "exec_time_seconds", expected="seconds"),
            text("user", "groupId"),
            text("job_class", "predict_type"),
            text("source_state", "predict_status"),
            states("predict_status", STATUSES),
        ),
        jobs={
            "job_id": made_id("genai", context.number),
            "num_gpus": pl.lit(1.0),
        },
        tallies=(
            Tally(
                "requests that were not done (running; duration is a lower bound)",
                pl.col("state") == "running",
            ),
        ),
        notes=(
            "the log has no GPU counts (1 per request is assumed) and no waits",
            "its publisher has shifted the times: hours and days are not those of a calendar",
        ),
        time_zone=zone,
        made_ids=True,
    )


GENAI = LogFormat(
    name="genai",
    description="Alibaba GenAI (v2026): requests of an image service, one GPU each",
    source="alibaba/clusterdata on GitHub, cluster-trace-v2026-GenAI: lora_request_trace.csv",
    recognizes=partial(has_columns, names=COLUMNS),
    plan=_plan,
    takes_zone=True,
    columns=COLUMNS,
)
