"""Jobs for policies on several GPU types."""

import numpy as np
import polars as pl

from gpuplan.planner.runs.job_rates import JobRates
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.simkit.workload import Workload


def jobs_of(submit_s, duration_s, gpus, rate):
    """Jobs whose durations are those on the fastest type."""
    n = len(gpus)
    submit = np.array(submit_s, np.int64) * 1_000_000
    work = Workload(
        submit_us=submit,
        service_us=np.array(duration_s, np.int64) * 1_000_000,
        gpus=np.array(gpus, np.int64),
        deadline_us=submit + 10**12,
        billed_gpus=np.array(gpus, float),
    )
    rates = np.array(rate, float)
    own = JobRates(("V100", "T4"), rates, np.array(duration_s) * rates.max(axis=1))
    ids = pl.Series([f"j{i}" for i in range(n)])
    return TraceJobs(work, ids, (), rates=own)


def rows(classes, gpus, duration=None, gpu_type=None, steps=None, state=None):
    n = len(classes)
    return pl.DataFrame(
        {
            "job_class": pl.Series(classes, dtype=pl.String),
            "num_gpus": pl.Series(gpus, dtype=pl.Float64),
            "duration_s": pl.Series(duration or [None] * n, dtype=pl.Float64),
            "gpu_type": pl.Series(gpu_type or [None] * n, dtype=pl.String),
            "state": pl.Series(state or ["completed"] * n, dtype=pl.String),
            "steps": pl.Series(steps or [None] * n, dtype=pl.Float64),
        }
    )
