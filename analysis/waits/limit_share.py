"""How much of what jobs waited a log itself puts down to limits."""

from __future__ import annotations

import polars as pl

from gpuplan.analysis.waits.spells import is_limit

COLUMN = "reason"
"""The last reason that the scheduler gave; only some logs have it."""


def limit_share(jobs: pl.DataFrame) -> float | None:
    """Return the share of the wait whose recorded reason is a limit of a QOS, an account or a user.

    Args:
        jobs: with ``queue_s`` and ``num_gpus``, and `COLUMN` where the log has it.

    Returns:
        None where the log names no reason, or nobody waited.
    """
    if COLUMN not in jobs.columns or jobs[COLUMN].null_count() == jobs.height:
        return None
    waits = jobs.filter(pl.col("num_gpus") > 0).select(
        pl.col(COLUMN).cast(pl.String).fill_null("None"), pl.col("queue_s").fill_nan(None)
    )
    by_reason = waits.group_by(COLUMN).agg(pl.col("queue_s").sum()).rows()
    total = sum(waited for _, waited in by_reason)
    return (
        sum(waited for reason, waited in by_reason if is_limit(reason)) / total if total else None
    )
