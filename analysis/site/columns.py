"""Columns that the twin reads of a log, and what a log loses without one."""

from __future__ import annotations

import polars as pl

TEXT, WHOLE = pl.String(), pl.Int64()
SITE_COLUMNS: dict[str, pl.DataType] = {
    "job_id": TEXT, "user": TEXT, "account": TEXT, "partition": TEXT, "qos": TEXT,
    "submit": WHOLE, "eligible": WHOLE, "start": WHOLE, "end": WHOLE, "run_s": WHOLE,
    "limit_s": WHOLE, "nodes": WHOLE, "gpus": WHOLE, "gpu_type": TEXT, "state": TEXT,
    "priority": WHOLE, "reason": TEXT, "flags": TEXT, "reservation": TEXT, "node_list": TEXT,
    "submit_line": TEXT, "billing": pl.Float64(),
}  # fmt: skip
"""Times are seconds after 1970; ``start`` is null for a job that never started."""

SWITCHED_OFF = {
    "eligible": ("Eligible", "waits count from the submission, holds and dependencies included"),
    "limit_s": ("Timelimit", "backfill plans with twice the run time of every job"),
    "user": ("User", "limits per user and fair share are off"),
    "account": ("Account", "limits and shares of accounts are off"),
    "partition": ("Partition", "all jobs run in one partition"),
    "qos": ("QOS", "limits and priorities of QOS are off"),
    "nodes": ("NNodes", "a job takes as few nodes as can hold it"),
    "reason": ("Reason", "jobs that a dependency, a hold or a license kept waiting are scored"),
    "node_list": ("NodeList", "nodes that partitions share are not known"),
    "submit_line": ("SubmitLine", "jobs that requested named nodes are not pinned"),
    "reservation": ("Reservation", "jobs in reservations are not pinned"),
    "billing": ("billing", "usage counts GPUs"),
}
"""Field -> its name in sacct, and the rule that is off without it."""

KEPT_COLUMNS: dict[str, pl.DataType] = {
    "eligible_time": pl.Datetime("us", "UTC"),
    "limit_s": pl.Float64(),
    "partition": TEXT,
    "qos": TEXT,
    "account": TEXT,
    "req_nodes": pl.Int32(),
    "recorded_priority": WHOLE,
    "reason": TEXT,
    "cancel_time": pl.Datetime("us", "UTC"),
    "billing": pl.Float64(),
}
"""Columns that ``ingest --twin`` adds to a trace; all may be null."""
