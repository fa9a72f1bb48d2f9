"""What the state words of job logs mean."""

from __future__ import annotations

from gpuplan.analysis.schema import STATES

SLURM = {
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "timeout": "timeout",
    "deadline": "timeout",
    "node_fail": "node_fail",
    "boot_fail": "node_fail",
    "out_of_memory": "failed",
    "preempted": "preempted",
    "requeued": "preempted",
    "running": "running",
    "suspended": "running",
    "resizing": "running",
    "pending": "not_started",
    "revoked": "not_started",
}
"""Slurm's words, which AcmeTrace and Helios use too."""

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
    **{state: state for state in STATES},
}
"""Every word above and some of common use, for logs whose columns the user maps."""
