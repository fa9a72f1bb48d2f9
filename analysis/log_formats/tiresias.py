"""Job lists of the Tiresias simulator, and a relative that counts iterations of workers.

Source: Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019. The
relative gives iterations and the seconds of each; jobs of Kalos are published in that form.
"""

from __future__ import annotations

import polars as pl

from gpuplan.analysis.log_formats.format import LogFormat, SourceContext, has_columns, need
from gpuplan.analysis.reading.plan import Field, ReadingPlan, Rule, count, number, text
from gpuplan.analysis.reading.source import Head
from gpuplan.analysis.reading.times import seconds

COLUMNS = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration")
BY_WORKER = (
    "job_id", "arrival_time", "num_iteration", "iteration_computing_time", "gpu_workers",
    "gpu_per_worker",
)  # fmt: skip
START_S = "seconds from the start of the list"
GPU_DIGITS = 6  # workers times a share of GPUs, which was itself rounded


def _plan(context: SourceContext) -> ReadingPlan:
    if set(BY_WORKER) <= set(context.columns):
        return _plan_by_worker()
    need(context, COLUMNS, "tiresias")
    return ReadingPlan(
        fields=(
            text("job_id", "job_id", required=True),
            text("job_class", "model_name"),
            Field("submit_time", "submit_time", seconds("submit_time"), START_S, required=True),
            number("num_gpus", "num_gpu", required=True),
            number("duration_s", "duration", required=True),
        ),
        relative_time=True,
    )


def _plan_by_worker() -> ReadingPlan:
    return ReadingPlan(
        fields=(
            text("job_id", "job_id", required=True),
            Field("submit_time", "arrival_time", seconds("arrival_time"), START_S, required=True),
            number("iterations", "num_iteration", required=True),
            number("iteration_s", "iteration_computing_time", required=True),
            count("num_workers", "gpu_workers", least=0),
            number("gpus_each", "gpu_per_worker", required=True),
        ),
        jobs={
            "num_workers": pl.col("num_workers").clip(1),  # without GPUs it runs on a CPU alone
            "num_gpus": (pl.col("num_workers") * pl.col("gpus_each")).round(GPU_DIGITS),
            "duration_s": pl.col("iterations") * pl.col("iteration_s"),
        },
        rules=(
            Rule("missing", "gpu_workers", "a number of workers", pl.col("num_workers").is_null()),
            Rule("negative_gpus", "gpu_per_worker", "GPUs, at least 0", pl.col("gpus_each") < 0),
            Rule("negative_duration", "num_iteration", "at least 0", pl.col("iterations") < 0),
            Rule(
                "negative_duration",
                "iteration_computing_time",
                "seconds, at least 0",
                pl.col("iteration_s") < 0,
            ),
        ),
        notes=(
            "a duration is num_iteration x iteration_computing_time; for jobs taken from the Kalos "
            "table that is its duration column, which includes the wait",
        ),
        relative_time=True,
    )


def _recognizes(head: Head) -> str | None:
    return has_columns(head, COLUMNS) or has_columns(head, BY_WORKER)


TIRESIAS = LogFormat(
    name="tiresias",
    description="job lists of the Tiresias simulator, by duration or by iterations",
    source="SymbioticLab/Tiresias on GitHub, simulator; converted Kalos jobs",
    recognizes=_recognizes,
    plan=_plan,
    columns=COLUMNS,
)
