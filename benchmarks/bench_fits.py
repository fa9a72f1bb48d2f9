"""Fit every model to 1,000,000 durations, and bootstrap 1,000,000 jobs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.bars import Row
from benchmarks.bench_characterize import JOBS, seconds, write_trace
from gpuplan.analysis.characterize import COLUMNS
from gpuplan.analysis.characterize.intervals import intervals
from gpuplan.analysis.fits.models import fit_times
from gpuplan.analysis.trace.trace import read_trace

RUNS = 3
RESAMPLES = 200


def row(work: str, ours: Callable[[], object]) -> Row:
    return {"work": work, "ours_s": median(seconds(ours) for _ in range(RUNS)), "bar": "-"}


def run() -> list[Row]:
    values = np.random.default_rng(0).lognormal(4, 2.5, JOBS)
    distinct, whole = np.sort(values), np.sort(values.round())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.parquet"
        write_trace(path)
        trace = read_trace(path, columns=COLUMNS)

    def bootstrap() -> object:
        return intervals(trace, level=95, resamples=RESAMPLES, rng=np.random.default_rng(0))

    return [
        row(f"fits of {JOBS:,} distinct durations", lambda: fit_times(distinct)),
        row(f"fits of {JOBS:,} whole seconds", lambda: fit_times(whole)),
        row(f"{RESAMPLES} resamples of {JOBS:,} jobs and their time line", bootstrap),
    ]


if __name__ == "__main__":
    for found in run():
        print(found)
