"""Workloads of the Sia and Pollux simulators: arrivals and GPU counts, no run times.

Source: Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster scheduling",
SOSP 2023; Qiao et al., "Pollux", OSDI 2021. A profile of the application supplies the run time.
"""

from __future__ import annotations

from functools import partial

from gpuplan.analysis.log_formats.format import LogFormat, SourceContext, has_columns, need
from gpuplan.analysis.reading.plan import Field, ReadingPlan, number, text
from gpuplan.analysis.reading.times import seconds

COLUMNS = ("name", "time", "application", "num_replicas", "batch_size")
START_S = "seconds from the start of the workload"


def _plan(context: SourceContext) -> ReadingPlan:
    need(context, COLUMNS[:4], "sia")
    return ReadingPlan(
        fields=(
            text("job_id", "name", required=True),
            Field("submit_time", "time", seconds("time"), START_S, required=True),
            text("job_class", "application"),
            number("num_gpus", "num_replicas", required=True),
        ),
        notes=("the log has no durations: a profile of each application supplies them",),
        relative_time=True,
    )


SIA = LogFormat(
    name="sia",
    description="workloads of the Sia and Pollux simulators (relative times)",
    source="siasosp23/artifacts and petuum/adaptdl (branch osdi21-artifact) on GitHub",
    recognizes=partial(has_columns, names=COLUMNS),
    plan=_plan,
    columns=COLUMNS,
)
