"""Calls of Azure Functions in 2021: when each ended and how long it took.

Source: Zhang et al., "Faster and Cheaper Serverless Computing on Harvested Resources", SOSP 2021
(AzurePublicDataset, Functions Invocation Trace 2021). The functions ran on CPUs: the log gives
arrivals and run times of a service that starts containers, not GPUs.
"""

from __future__ import annotations

from functools import partial

import polars as pl

from gpuplan.analysis.base.time_units import MICROS
from gpuplan.analysis.log_formats.format import LogFormat, SourceContext, has_columns, need
from gpuplan.analysis.reading.plan import Field, ReadingPlan, made_id, number, text
from gpuplan.analysis.reading.times import seconds

COLUMNS = ("app", "func", "end_timestamp", "duration")


def _plan(context: SourceContext) -> ReadingPlan:
    need(context, COLUMNS, "azure-functions")
    duration_s = pl.col("duration").cast(pl.Float64, strict=False)
    duration_us = (duration_s * MICROS).round().cast(pl.Int64, strict=False).fill_null(0)
    start = seconds("end_timestamp") - pl.duration(microseconds=duration_us)
    return ReadingPlan(
        fields=(
            Field("submit_time", "end_timestamp", start, "seconds from the start of the log", True),
            number("duration_s", "duration", required=True, expected="seconds"),
            text("group", "app"),
            text("function", "func"),
        ),
        jobs={
            "job_id": made_id("call", context.number),
            "job_class": pl.concat_str("group", "function", separator="/"),
            "num_gpus": pl.lit(1.0),
        },
        notes=(
            "the functions ran on CPUs: 1 GPU per call is assumed",
            "the log has no waits: a call is submitted when it starts",
        ),
        relative_time=True,
        made_ids=True,
    )


AZURE_FUNCTIONS = LogFormat(
    name="azure-functions",
    description="calls of Azure Functions, 2021 (arrivals and run times; relative times)",
    source="Azure/AzurePublicDataset on GitHub, invocation trace of 2021",
    recognizes=partial(has_columns, names=COLUMNS),
    plan=_plan,
    columns=COLUMNS,
)
