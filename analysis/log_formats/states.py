"""The meaning of the state words of job logs."""

from __future__ import annotations

from gpuplan.analysis.job_table.schema import STATES

SLURM = {
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "timeout": "timeout",
    "deadline": "timeout",
    "node_fail": "node_fail",
    "boot_fail": "node_fail",
    "launch_failed": "node_fail",
    "reconfig_fail": "node_fail",
    "out_of_memory": "failed",
    "special_exit": "failed",
    "preempted": "preempted",
    "requeued": "preempted",
    "running": "running",
    "suspended": "running",
    "resizing": "running",
    "configuring": "running",
    "completing": "running",
    "signaling": "running",
    "stage_out": "running",
    "stopped": "running",
    "pending": "not_started",
    "revoked": "not_started",
}
"""Slurm's words, which AcmeTrace and Helios use too."""

SLURM_SUFFIX = r"( by \S+|\+)$"
"""Suffixes that Slurm adds to a word: ``CANCELLED by 1001``, or ``CANCELLED+`` if truncated."""

SLURM_SHORT = {
    "cd": "completed",
    "f": "failed",
    "ca": "cancelled",
    "to": "timeout",
    "dl": "timeout",
    "nf": "node_fail",
    "bf": "node_fail",
    "lf": "node_fail",
    "oom": "failed",
    "se": "failed",
    "pr": "preempted",
    "rq": "preempted",
    "r": "running",
    "s": "running",
    "rs": "running",
    "cf": "running",
    "cg": "running",
    "si": "running",
    "so": "running",
    "st": "running",
    "pd": "not_started",
    "rv": "not_started",
}
"""Slurm's codes for the same."""

WANDB = {
    "finished": "completed",
    "failed": "failed",
    "crashed": "failed",  # the heartbeat was lost
    "killed": "cancelled",
    "preempting": "preempted",
    "preempted": "preempted",
    "running": "running",
    "pending": "not_started",
}

PHILLY = {"pass": "completed", "killed": "cancelled", "failed": "failed"}

ANY = {
    **PHILLY,
    **WANDB,
    **SLURM,
    "canceled": "cancelled",
    "success": "completed",
    "succeeded": "completed",
    "terminated": "completed",
    "OOMKilled": "failed",
    "evicted": "preempted",
    **{state: state for state in STATES},
}
"""Every word above and other common ones, for logs with columns mapped by the user."""
