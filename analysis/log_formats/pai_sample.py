"""The sample of 100,000 jobs that comes with the simulator of Alibaba PAI, one row per job.

Its scheduler places ``num_inst`` instances of ``num_gpu`` GPUs each, so a job holds their product.
"""

from __future__ import annotations

import polars as pl

from gpuplan.analysis.gpu_names import gpu_names
from gpuplan.analysis.log_formats.format import SourceContext
from gpuplan.analysis.reading.plan import Field, ReadingPlan, Rule, count, number, text
from gpuplan.analysis.reading.tally import Tally
from gpuplan.analysis.reading.times import seconds

SAMPLE_COLUMNS = ("job_id", "submit_time", "num_cpu", "num_gpu", "gpu_type", "duration", "user")
INSTANCES = ("num_inst", "num_pod")
"""The files call the number of instances by either name."""


def is_sample(columns: tuple[str, ...]) -> bool:
    """Whether a table has the columns of a sample."""
    return set(SAMPLE_COLUMNS) <= set(columns) and bool(set(INSTANCES) & set(columns))


def sample_plan(sight: SourceContext) -> ReadingPlan:
    """Return the plan of a sample."""
    instances = next(name for name in INSTANCES if name in sight.columns)
    workers = pl.col("num_workers").fill_null(1)
    fields = [
        text("job_id", "job_id", required=True),
        text("user", "user"),
        Field("submit_time", "submit_time", seconds("submit_time"), "seconds", required=True),
        number("duration_s", "duration", expected="seconds"),
        number("gpus", "num_gpu"),
        count("num_workers", instances),
        Field("written_type", "gpu_type", gpu_names("gpu_type")),
    ]
    rules = [Rule("negative_gpus", "num_gpu", "a number, at least 0", pl.col("gpus") < 0)]
    if "wait_time" in sight.columns:
        fields.append(number("queue_s", "wait_time", expected="seconds"))
        rules.append(
            Rule("negative_wait", "wait_time", "seconds, at least 0", pl.col("queue_s") < 0)
        )
    asks = pl.col("gpus") > 0
    return ReadingPlan(
        fields=tuple(fields),
        jobs={
            "num_gpus": pl.col("gpus").fill_null(0) * workers,
            "num_workers": workers,
            "gpu_type": pl.when(asks & (pl.col("written_type").str.to_uppercase() != "CPU")).then(
                "written_type"
            ),
        },
        rules=tuple(rules),
        tallies=(Tally("jobs without a duration", pl.col("duration_s").is_null()),),
        notes=(
            "the log has no states",
            *(() if "wait_time" in sight.columns else ("the log has no waits",)),
        ),
        relative_time=True,
    )
