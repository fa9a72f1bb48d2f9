"""The report of 100,000 jobs, in all forms, as its own process; and the size of the page.

The process includes the start of the interpreter and all imports; its kernels come compiled from
the cache of Numba, which a run before the measured ones fills.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

from benchmarks.bars import Row
from benchmarks.processes import measured

RUNS = 3
SYNTH = ("synth", "--preset", "helios", "--jobs", "100000", "--seed", "1")


def gpuplan(*arguments: str) -> tuple[float, float]:
    """Run gpuplan; returns its seconds and its peak memory in MB."""
    return measured(*arguments, "-q")


def run() -> list[Row]:
    """Time the usual four studies with all documents, and weigh the page."""
    with tempfile.TemporaryDirectory() as folder:
        trace, out = f"{folder}/jobs.parquet", f"{folder}/report"
        gpuplan(*SYNTH, "-o", trace)
        times, peaks = zip(
            *(gpuplan("report", trace, "-o", out) for _ in range(RUNS + 1)), strict=True
        )
        page_mb = Path(out, "report.html").stat().st_size / 1e6
    return [
        {
            "work": "report of 100,000 jobs, four studies, all forms",
            "ours_s": median(times[1:]),
            "bar": "<= 15 s",
            "peak_mb": max(peaks),
        },
        {
            "work": "its page, whose size is the last column",
            "ours_s": None,
            "bar": "<= 3 MB",
            "peak_mb": page_mb,
        },
    ]


if __name__ == "__main__":
    for row in run():
        print(row)
