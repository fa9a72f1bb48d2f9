"""Alibaba openb: pods of a cluster where pods share GPUs (cluster-trace-gpu-v2023).

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent", USENIX ATC 2023. Times count from the start of the trace. The phase of a pod is
that at its deletion, so "Running" means neither success nor that it still runs.
"""

from __future__ import annotations

import polars as pl

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.time_units import MICROS
from gpuplan.analysis.job_table.gpu_names import gpu_name
from gpuplan.analysis.job_table.schema import CANONICAL
from gpuplan.analysis.log_formats.format import LogFormat, SourceContext, has_columns, need
from gpuplan.analysis.reading.batch import Tally
from gpuplan.analysis.reading.plan import Field, ReadingPlan, Rule, number, states, text
from gpuplan.analysis.reading.source import Head
from gpuplan.analysis.reading.times import seconds, seconds_between

SHAPE_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
COLUMNS = (
    *SHAPE_COLUMNS, "gpu_spec", "qos", "pod_phase",
    "creation_time", "deletion_time", "scheduled_time",
)  # fmt: skip
TRACE_END_S = 12_902_960
"""A pod deleted at this instant was alive when the trace was cut."""
PHASES = {"succeeded": "completed", "failed": "failed", "pending": "not_started"}
SHARE = "thousandths of a GPU, at least 0"
SECONDS = "seconds from the start of the trace"
STATE = CANONICAL["state"]


def _plan(context: SourceContext) -> ReadingPlan:
    if not {"creation_time", "scheduled_time", "deletion_time"} & set(context.columns):
        need(context, SHAPE_COLUMNS, "openb")
        raise InputError(
            context.head.path,
            "has the shapes of the pods but no times (no column creation_time, deletion_time, "
            "scheduled_time), as all openb_pod_list_multigpu files",
            expected="a pod list with times",
            hint="ingest openb_pod_list_default.csv or one of its variants cpu, gpushare, gpuspec",
        )
    need(context, COLUMNS, "openb")
    scheduled = pl.col("start_time").is_not_null()
    cut = scheduled & (pl.col("end_time").to_physical() >= TRACE_END_S * MICROS)
    waited = seconds_between("start_time", "submit_time")
    return ReadingPlan(
        fields=(
            text("job_id", "name", required=True),
            text("job_class", "qos"),
            Field("gpu_type", "gpu_spec", _gpu_names("gpu_spec")),
            Field("submit_time", "creation_time", seconds("creation_time"), SECONDS, True),
            Field("start_time", "scheduled_time", seconds("scheduled_time"), SECONDS),
            Field("end_time", "deletion_time", seconds("deletion_time"), SECONDS, True),
            number("gpus", "num_gpu", required=True),
            number("milli", "gpu_milli"),
            text("source_state", "pod_phase"),
            states("pod_phase", PHASES, "phase"),
        ),
        jobs={
            "queue_s": pl.when(waited >= 0).then(waited),
            "duration_s": seconds_between("end_time", "start_time"),
            "num_gpus": pl.when(pl.col("gpus") == 0)
            .then(0.0)
            .otherwise(pl.col("gpus") * pl.col("milli") / 1000),
            "state": pl.when(~scheduled)
            .then(pl.lit("not_started", STATE))
            .when(cut)
            .then(pl.lit("running", STATE))
            .otherwise("phase"),
        },
        rules=(
            Rule("missing", "gpu_milli", SHARE, pl.col("num_gpus").is_null()),
            Rule("negative_gpus", "gpu_milli", SHARE, pl.col("milli") < 0),
            Rule("negative_gpus", "num_gpu", "a number of GPUs, at least 0", pl.col("gpus") < 0),
        ),
        tallies=(
            Tally("pods that were never scheduled (no duration)", ~scheduled),
            Tally("pods deleted at the end of the trace (running; duration is a lower bound)", cut),
            Tally("pods that may run on one of several GPU types (all are named)",
                  pl.col("gpu_type").str.contains("|", literal=True)),
            Tally("pods scheduled before their creation (no wait recorded)", waited < 0),
        ),
        notes=("a pod's phase is that at its deletion, so Running says nothing about the outcome",),
        relative_time=True,
    )  # fmt: skip


def _gpu_names(source: str) -> pl.Expr:
    """Return the GPUs that a pod accepts, each normalized, joined as in the source."""

    def name_each(cells: pl.Series) -> pl.Series:
        table = {
            written: "|".join(dict.fromkeys(gpu_name(model) for model in written.split("|")))
            for written in cells.drop_nulls().unique(maintain_order=True)
        }
        return cells.replace_strict(table, default=None, return_dtype=pl.String)

    return pl.col(source).map_batches(name_each, return_dtype=pl.String)


def _recognizes(head: Head) -> str | None:
    if head.columns == SHAPE_COLUMNS:
        return f"the columns {', '.join(SHAPE_COLUMNS)}"
    return has_columns(head, COLUMNS)


OPENB = LogFormat(
    name="openb",
    description="Alibaba openb (gpu-v2023): pods on shared GPUs (relative times)",
    source="alibaba/clusterdata on GitHub, cluster-trace-gpu-v2023: csv/openb_pod_list_*.csv",
    recognizes=_recognizes,
    plan=_plan,
    columns=COLUMNS,
)
