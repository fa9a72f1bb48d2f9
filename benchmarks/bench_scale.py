"""Characterize 10,000,000 jobs in a process of its own, for its peak memory."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.bench_characterize import write_trace
from benchmarks.processes import measured

JOBS = 10_000_000


def run() -> list[dict[str, Any]]:
    """Return one row; the time has the start-up of the process in it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.parquet"
        write_trace(path, JOBS)
        took, memory = measured("characterize", str(path), "-q")
    return [
        {
            "work": "characterize 10,000,000 jobs as text, start-up included",
            "ours_s": took,
            "bar": "<= 2000 MB",
            "peak_mb": memory,
        }
    ]


if __name__ == "__main__":
    for row in run():
        print(row)
