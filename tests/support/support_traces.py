"""Small canonical traces that tests make for themselves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl

START = datetime(2024, 3, 1, tzinfo=UTC)


def write_trace(path, submit_s, duration_s, num_gpus=None, **columns):
    """Write a canonical trace with the given columns; returns the path."""
    pl.DataFrame(
        {
            "submit_time": [START + timedelta(seconds=float(s)) for s in submit_s],
            "duration_s": pl.Series(duration_s, dtype=pl.Float64),
            "num_gpus": pl.Series(num_gpus or [1.0] * len(submit_s), dtype=pl.Float64),
            **columns,
        },
        schema_overrides={"submit_time": pl.Datetime("us", "UTC")},
    ).write_parquet(path)
    return path


def lab_trace(path, jobs=400, seed=0):
    """Write two days of a lab: many short jobs, a few long ones, some on several GPUs."""
    rng = np.random.default_rng(seed)
    return write_trace(
        path,
        np.sort(rng.uniform(0, 2 * 86_400, jobs)),
        np.minimum(rng.lognormal(np.log(300), 1.8, jobs), 40_000),
        rng.choice([0.5, 1.0, 1.0, 2.0, 4.0], jobs).tolist(),
        job_id=[f"job-{i}" for i in range(jobs)],
    )
