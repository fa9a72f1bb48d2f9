"""The canonical trace: columns, types, states, and the provenance in the Parquet metadata."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import msgspec
import polars as pl

from gpuplan.analysis.base.time_units import LAST_SUBMIT, MICROS

SCHEMA_VERSION = 1
METADATA_KEY = "gpuplan"
UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""Exceptions of polars on a damaged Parquet file; some damage makes it panic."""

STATES = (
    "completed",
    "failed",
    "cancelled",
    "timeout",
    "node_fail",
    "preempted",
    "running",  # right-censored: the duration is a lower bound
    "not_started",
    "unknown",
)
PRIORITIES = ("hp", "spot")

SUBMIT_TYPE = pl.Datetime("us", "UTC")
CANONICAL: dict[str, pl.DataType] = {
    "job_id": pl.String(),
    "user": pl.String(),
    "group": pl.String(),
    "job_class": pl.String(),
    "submit_time": SUBMIT_TYPE,
    "queue_s": pl.Float64(),
    "duration_s": pl.Float64(),
    "num_gpus": pl.Float64(),
    "num_workers": pl.Int32(),
    "gpu_type": pl.String(),
    "state": pl.Enum(STATES),
    "source_state": pl.String(),
    "priority": pl.Enum(PRIORITIES),
    "deadline_s": pl.Float64(),
    "attempts": pl.Int32(),
}
"""Column name -> type, in file order (product specification, section 2)."""

SOURCE = "source"
"""Column that only a trace of several log formats has: the format of each job."""

LIMIT_COLUMN = "limit_s"
"""Column that only a trace with its scheduler's fields has: the time limit of each job."""

SCHEDULER_COLUMNS: dict[str, pl.DataType] = {
    "eligible_time": SUBMIT_TYPE,
    LIMIT_COLUMN: pl.Float64(),
    "partition": pl.String(),
    "qos": pl.String(),
    "account": pl.String(),
    "req_nodes": pl.Int32(),
    "recorded_priority": pl.Int64(),
    "reason": pl.String(),
    "cancel_time": SUBMIT_TYPE,
    "billing": pl.Float64(),
    "gres_type": pl.String(),
    "reservation": pl.String(),
    "node_list": pl.String(),
    "submit_line": pl.String(),
    "cpus": pl.Float64(),
    "memory_mb": pl.Float64(),
}
"""Fields of the scheduler that a trace keeps where its log has them; all may be null."""

UTILIZATION_COLUMNS: dict[str, pl.DataType] = {
    "gpu_util_mean": pl.Float64(),
    "gpus_idle": pl.Float64(),
    "gpu_util_coverage": pl.Float64(),
    "gpu_mem_used_share": pl.Float64(),
    "gpu_mem_used_gib": pl.Float64(),
    "gpu_mem_total_gib": pl.Float64(),
    "gpu_util_source": pl.String(),
}
"""What the GPUs of a job did, where the log says so; null where it does not, which is not idle.

Mean percent of the time in which a GPU was in use; GPUs at 0% for the whole run, null where only
their sum is known; share of the job's GPU-hours that have figures, to which all of these refer;
share of the GPUs' memory in use; memory in use on the fullest GPU, and that of one GPU; where the
figures come from."""

RUNS, REQUEUE = "runs", "requeue_s"
RUN_FIELDS: dict[str, pl.DataType] = {
    "start": SUBMIT_TYPE,
    "end": SUBMIT_TYPE,
    "gpus": pl.Float64(),
    "nodes": pl.Int32(),
    "state": CANONICAL["state"],
    "submit_time": SUBMIT_TYPE,
    **{
        name: SCHEDULER_COLUMNS[name]
        for name in (
            "eligible_time", LIMIT_COLUMN, "partition", "qos", "req_nodes", "recorded_priority",
            "reason", "cancel_time", "billing", "gres_type", "node_list",
        )
    },
}  # fmt: skip
"""What a trace keeps of each run of a requeued job. A run without a start waits, or gave up."""

RUN_COLUMNS: dict[str, pl.DataType] = {
    RUNS: pl.List(pl.Struct(RUN_FIELDS)),
    REQUEUE: pl.Float64(),
}
"""Columns of a trace whose log has several runs of a job: the runs, null where a job had one, in
order; and the seconds between them, null where there are none."""

QUEUE_COLUMNS: dict[str, pl.DataType] = {
    "queue": pl.String(),
    "cluster_queue": pl.String(),
    "reserved_time": SUBMIT_TYPE,
    "preemptions": pl.Int32(),
    "wait_includes_attempts": pl.Boolean(),
    "preemptible": pl.Boolean(),
}
"""What the traces of Kubernetes logs keep of queues: the queue of the user and that of the
cluster, when quota was reserved, how often a job was preempted, whether its wait has attempts in it
that the log forgot, and whether it may be preempted, where the log says so. All may be null."""

SAME_NAMES = (SCHEDULER_COLUMNS.keys() | UTILIZATION_COLUMNS.keys() | QUEUE_COLUMNS.keys()) - {
    LIMIT_COLUMN
}
"""Of these, the names that columns of a log may have too: ``--keep`` takes them as kept."""

STEPS = "steps"
"""Column of the traces of logs that record training steps: what a job has to do."""

OWN_COLUMNS: dict[str, pl.DataType] = {STEPS: pl.Float64()}
"""Columns that only the traces of some log formats have, by name; after the canonical ones."""

TRACE_COLUMNS = (
    *CANONICAL,
    *OWN_COLUMNS,
    *SCHEDULER_COLUMNS,
    *UTILIZATION_COLUMNS,
    *QUEUE_COLUMNS,
    *UTILIZATION_COLUMNS,
    *RUN_COLUMNS,
    *RUN_FIELDS,
)
"""What a trace may hold: one that was kept when it held less is made anew."""

REQUIRED = ("submit_time", "duration_s", "num_gpus")
"""Columns that a canonical file from another tool must have; `DEFAULTS` fills the rest."""

MAX_GPUS = 1e7
"""GPUs that a job may hold; a larger number is a unit or a column mistaken."""


LAST_INSTANT_US = int(LAST_SUBMIT.timestamp()) * MICROS

LEAST_SHARE = 1e-6
"""The smallest share of a GPU above 0; anything smaller is a mistake of units."""

LEAST_S = 1e-6
"""Shorter spans of time above 0 are read as this one: simulations count microseconds."""

DEFAULTS: dict[str, Any] = {"num_workers": 1, "state": "unknown", "attempts": 1}
"""Values of optional columns that a source does not have; every other one is null."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One input file of an ingest.

    Attributes:
        name: the path as the user gave it.
        sha256: hash of the bytes on disk (of the compressed file if it is compressed).
    """

    name: str
    sha256: str


Stored = TypeVar("Stored")
SYNTHETIC = "synthetic"
"""Source format of the traces of ``gpuplan synth``."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a trace comes from; stored as JSON under `METADATA_KEY` of the Parquet file.

    Attributes:
        source_format: name of the format the rows were read from.
        sources: the input files.
        rows_read: rows found in the sources.
        rows_kept: rows in the trace.
        rows_rejected: rejected rows by reason; read = kept + rejected.
        relative_time: True if the source has no calendar: time 0 is 1970-01-01.
        time_zone: zone in which the source wrote its times, as an IANA name or offset; None where
            it is relative. Submissions are stored in UTC whatever it is.
        notes: caveats for readers of the trace, one sentence each.
        schema_version: version of the canonical schema.
        gpuplan_version: version that wrote the file.
    """

    source_format: str
    sources: tuple[SourceFile, ...] = ()
    rows_read: int = 0
    rows_kept: int = 0
    rows_rejected: dict[str, int] | None = None
    relative_time: bool = False
    time_zone: str | None = None
    notes: tuple[str, ...] = ()
    schema_version: int = SCHEMA_VERSION
    gpuplan_version: str = ""

    def to_json(self) -> str:
        """Return the stored form: compact JSON with sorted keys."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Provenance:
        """Read the stored form. Raises ValueError if it is malformed."""
        return stored_as(cls, text)


def stored_as(cls: type[Stored], text: str) -> Stored:
    """Return a stored provenance. Raises ValueError if it is malformed."""
    try:
        return msgspec.convert(stored_fields(text), cls)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


def stored_fields(text: str) -> dict[str, Any]:
    """Return the fields of a stored provenance. Raises ValueError if it is not a JSON object."""
    try:
        fields = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(fields, dict):
        raise ValueError(f"provenance must be a JSON object, got {type(fields).__name__}")
    return fields
