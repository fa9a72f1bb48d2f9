"""Commands on 10,000,000 jobs, each in a process of its own, for its time and peak memory.

``size`` is given jobs of three GPU types.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.bars import Row
from benchmarks.bench_characterize import write_trace
from benchmarks.processes import measured

JOBS = 10_000_000


def run() -> list[Row]:
    """Return one row per command; the time has the start-up of the process in it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.parquet"
        write_trace(path, JOBS)
        took, memory = measured("characterize", str(path), "-q")
        kinds = np.random.default_rng(1).choice(["A100-80GB", "H100", "L40S"], JOBS)
        pl.read_parquet(path).with_columns(gpu_type=pl.Series(kinds)).write_parquet(path)
        took_size, memory_size = measured("size", str(path), "--target", "p95_wait <= 1h", "-q")
    return [
        {
            "work": "characterize 10,000,000 jobs as text, start-up included",
            "ours_s": took,
            "bar": "<= 2000 MB",
            "peak_mb": memory,
        },
        {
            "work": "size for 10,000,000 jobs of three GPU types, start-up included",
            "ours_s": took_size,
            "bar": "<= 120 s, <= 2500 MB",
            "peak_mb": memory_size,
        },
    ]


if __name__ == "__main__":
    for row in run():
        print(row)
