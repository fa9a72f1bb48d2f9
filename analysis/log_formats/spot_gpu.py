"""Alibaba spot-gpu v2026: guaranteed and preemptible jobs of one cluster, over 184 days.

Source: the dataset of the scheduler GFS, ASPLOS 2026. Times count from the first submission.
Requests are per worker.
"""

from __future__ import annotations

import polars as pl

from gpuplan.analysis.base.time_units import MICROS
from gpuplan.analysis.job_table.gpu_names import gpu_names
from gpuplan.analysis.job_table.schema import CANONICAL
from gpuplan.analysis.log_formats.format import LogFormat, SourceContext, has_columns, need
from gpuplan.analysis.reading.batch import Tally
from gpuplan.analysis.reading.plan import Field, ReadingPlan, Rule, count, number, text
from gpuplan.analysis.reading.source import Head
from gpuplan.analysis.reading.times import seconds

COLUMNS = (
    "job_name", "organization", "gpu_model", "gpu_request", "worker_num",
    "submit_time", "duration", "job_type",
)  # fmt: skip
WINDOW_S = 15_897_599
"""A job that ends then was still running when the trace ended."""
KINDS = {"hp": "hp", "spot": "spot"}
STATE = CANONICAL["state"]


def _plan(context: SourceContext) -> ReadingPlan:
    need(context, COLUMNS, "spot-gpu")
    kind = (
        pl.col("job_type")
        .str.to_lowercase()
        .replace_strict(KINDS, default=None, return_dtype=CANONICAL["priority"])
    )
    end_s = pl.col("submit_time").to_physical() / MICROS + pl.col("duration_s")
    cut = end_s >= WINDOW_S
    return ReadingPlan(
        fields=(
            text("job_id", "job_name", required=True),
            text("group", "organization"),
            Field("gpu_type", "gpu_model", gpu_names("gpu_model")),
            Field("submit_time", "submit_time", seconds("submit_time"),
                  "seconds from the first submission", required=True),
            number("duration_s", "duration", required=True, expected="seconds"),
            number("gpus_per_worker", "gpu_request", required=True),
            count("num_workers", "worker_num"),
            Field("priority", "job_type", kind, "HP or Spot"),
        ),
        jobs={
            "num_workers": pl.col("num_workers").fill_null(1),
            "num_gpus": pl.col("gpus_per_worker") * pl.col("num_workers").fill_null(1),
            "state": pl.when(cut)
            .then(pl.lit("running", STATE))
            .otherwise(pl.lit("unknown", STATE)),
        },
        rules=(
            Rule("negative_gpus", "gpu_request", "a number of GPUs, at least 0",
                 pl.col("gpus_per_worker") < 0),
        ),
        tallies=(
            Tally("jobs that last to the end of the trace (running; duration is a lower bound)",
                  cut),
        ),
        notes=("the log has no users, states and waits",),
        relative_time=True,
    )  # fmt: skip


def _recognizes(head: Head) -> str | None:
    return has_columns(head, COLUMNS)


SPOT_GPU = LogFormat(
    name="spot-gpu",
    description="Alibaba spot-gpu (v2026): guaranteed and spot jobs (relative times)",
    source="alibaba/clusterdata on GitHub, cluster-trace-v2026-spot-gpu: job_info_df.csv",
    recognizes=_recognizes,
    plan=_plan,
    columns=COLUMNS,
)
