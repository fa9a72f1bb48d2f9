"""What the formats of Kubernetes share: how their jobs become rows of a trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from gpuplan.analysis.base.time_units import MICROS
from gpuplan.analysis.job_table.run_cells import runs_of_text
from gpuplan.analysis.job_table.schema import (
    QUEUE_COLUMNS,
    REQUEUE,
    RUN_COLUMNS,
    RUNS,
    SCHEDULER_COLUMNS,
    STATES,
)
from gpuplan.analysis.kubernetes.job import KubeJob
from gpuplan.analysis.kubernetes.jobs import NOTES_BETWEEN
from gpuplan.analysis.kubernetes.pods import Surroundings
from gpuplan.analysis.kubernetes.same_jobs import IN_ANOTHER_LOG
from gpuplan.analysis.log_formats.format import IngestOptions, SourceContext
from gpuplan.analysis.price_formats.instances import instance_models
from gpuplan.analysis.reading.batch import EARLY, FAR_TIMES, PENDING, WITHOUT_GPUS, Tally
from gpuplan.analysis.reading.plan import Field, ReadingPlan, count, number, text
from gpuplan.analysis.reading.source import Head
from gpuplan.analysis.reading.times import seconds

A_TIME = "a time"
LEFT_OUT = {
    WITHOUT_GPUS: "pods or workloads without GPUs left out (gpuplan ingest --include-cpu keeps "
    "them)",
    "gpus_unknown": "pods left out because no series says how many GPUs they request",
    PENDING: "pods or workloads that have not started left out",
    "deleted": "deleted before they started",
    "stuck": "workloads that are evicted but hold their quota, left out (nothing runs)",
    "inactive": "workloads that are deactivated, left out",
    IN_ANOTHER_LOG: "jobs that another log of the same cluster has too, left out: each counts once",
    "never_provisioned": "runs that never got an instance left out",
    "gpu_reservation": "reservation pods of KAI left out (the pods with shares of a GPU count)",
}
"""Machine word -> why an object is no job."""
NOTES = {
    "mig": "jobs with MIG slices (a slice of N sevenths counts as N/7 of a GPU)",
    "shared": "jobs with shared GPUs (1 / replicas of a GPU each)",
    "shared_unknown": "jobs with shared GPUs of unknown replicas (1 GPU each: give the nodes too)",
    "fraction": "jobs with a fraction of a GPU by KAI",
    "mixed_types": "jobs with GPUs of several types (the one with the most GPUs counts)",
    "far": FAR_TIMES,
    "attempts": "jobs with several attempts (all are kept as their runs)",
    "slice": "workloads replaced by a slice of their own (the successor carries the rest)",
    "past_time": "jobs whose earlier attempts are known by their length only (their run time has "
    "it, their wait does not)",
    "end_by_last_sample": "jobs deleted while they ran: their end is that of the last sample, up "
    "to a step too early or late",
    "end_by_last_event": "jobs deleted while they ran, without a time: their end is the last time "
    "of the stream before, so it may be too early",
    "end_by_phase": "jobs whose end is that of the first sample after it, up to half a step early "
    "or late",
    "start_by_sample": "jobs whose start is that of the first sample on a node, up to a step late",
    "mean_gpus": "jobs whose GPUs are a mean: GPU-seconds over run time, a whole number within 10%",
    "preempted_resource": "jobs that lost resources to others by preemption",
    "controller": "jobs known by their controller only (their pods are gone: requested GPUs count)",
}  # fmt: skip
"""Machine word -> what is counted of the jobs."""
NO_TYPE = "jobs whose GPU type nothing tells"
ADD_NODES, ADD_NODE_LABELS, ADD_FLAVORS = (
    "give the nodes too: kubectl get pods,jobs,nodes",
    "give kube_node_labels in another file, or gpuplan ingest --node-types FILE",
    "give the ResourceFlavors too: kubectl get workloads.kueue.x-k8s.io,resourceflavors",
)
"""What else a log may have that tells the types of GPUs."""
WAIT_HAS_ATTEMPTS = (
    "jobs evicted and admitted again, of which the log has the last admission only: their wait "
    "includes lost attempts (a watch stream has them all)"
)


def kept_columns(
    head: Head, columns: Sequence[str], choices: IngestOptions
) -> Mapping[str, pl.DataType]:
    """Return what the traces of Kubernetes have besides the canonical columns."""
    names = ("partition", "recorded_priority", "reason", "node_list")
    scheduler = {name: SCHEDULER_COLUMNS[name] for name in names}
    return {**QUEUE_COLUMNS, **scheduler, **RUN_COLUMNS}


def surroundings(choices: IngestOptions) -> Surroundings:
    """Return what the user says of pods and jobs, and the GPUs of instance types."""
    options = choices.kubernetes
    return Surroundings(
        instances=instance_models(),
        gpu_resources=options.gpu_resources,
        user_label=options.user_label,
        include_cpu=options.include_cpu,
    )


def user_note(jobs: Iterable[KubeJob], choices: IngestOptions) -> list[str]:
    """Return a note where no job has the label that the user says to name its user."""
    label = choices.kubernetes.user_label
    if label is None or any(job.user for job in jobs):
        return []
    return [
        f"no object has the label or annotation {label!r} of --user-label: its namespace is the "
        "user of each job"
    ]


def job_plan(context: SourceContext, types: str = ADD_NODES) -> ReadingPlan:
    """Return how the cells of `gpuplan.analysis.kubernetes.jobs` become jobs.

    Args:
        context: of the source.
        types: what else would tell the types of GPUs.

    A job without a user, as no label names one, has its namespace as user.
    """
    wait_s = (pl.col("wait_end").to_physical() - pl.col("submit_time").to_physical()) / MICROS
    span_s = (pl.col("end").to_physical() - pl.col("start").to_physical()) / MICROS
    words = pl.col("notes").str.split(NOTES_BETWEEN)
    return ReadingPlan(
        fields=(
            text("job_id", "job_id", required=True),
            text("user", "user"),
            text("group", "group"),
            text("job_class", "job_class"),
            Field("submit_time", "submit", seconds("submit"), A_TIME, required=True),
            Field("wait_end", "wait_end", seconds("wait_end"), A_TIME),
            Field("start", "start", seconds("start"), A_TIME),
            Field("end", "end", seconds("end"), A_TIME),
            Field("reserved_time", "reserved", seconds("reserved"), A_TIME),
            number("seconds", "seconds"),
            number(REQUEUE, "requeue_seconds"),
            number("num_gpus", "gpus", required=True),
            count("num_workers", "workers"),
            text("gpu_type", "gpu_type"),
            Field("state", "state", pl.col("state").cast(pl.Enum(STATES), strict=False)),
            text("source_state", "source_state"),
            count("attempts", "attempts"),
            count("preemptions", "preemptions", least=0),
            Field(
                "recorded_priority",
                "priority",
                pl.col("priority").cast(pl.Int64, strict=False),
                "a whole number",
            ),
            text("queue", "queue"),
            text("cluster_queue", "cluster_queue"),
            text("reason", "reason"),
            text("node_list", "nodes"),
            Field(
                "wait_includes_attempts",
                "wait_includes_attempts",
                pl.col("wait_includes_attempts") == "true",
            ),
            Field("preemptible", "preemptible", pl.col("preemptible") == "true"),
            Field(RUNS, "runs", runs_of_text("runs")),
            text("notes", "notes"),
            number("price", "price"),
            number("cost", "cost"),
        ),
        jobs={
            "user": pl.coalesce("user", "group"),
            "queue_s": pl.when(wait_s >= 0).then(wait_s),
            "duration_s": pl.coalesce(
                "seconds", pl.when(pl.col("state") != "not_started").then(span_s)
            ),
            "partition": pl.coalesce("cluster_queue", "queue"),
        },
        left_out=tuple(
            Tally(what, pl.col("left_out") == reason, reason) for reason, what in LEFT_OUT.items()
        ),
        tallies=(
            Tally("jobs still running", pl.col("state") == "running"),
            Tally("jobs that never started (no duration)", pl.col("state").is_in(
                ["not_started", "cancelled"]) & pl.col("wait_end").is_null()),
            Tally(EARLY, wait_s < 0),
            Tally(f"{NO_TYPE} ({types})", pl.col("gpu_type").is_null() & (pl.col("num_gpus") > 0)),
            *(Tally(what, words.list.contains(word)) for word, what in NOTES.items()),
            Tally(WAIT_HAS_ATTEMPTS, pl.col("wait_includes_attempts").fill_null(False)),
        ),
        time_zone="UTC",
    )  # fmt: skip
