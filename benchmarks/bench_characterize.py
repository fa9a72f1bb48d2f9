"""Characterize 1,000,000 jobs, against a bare polars scan of the same columns and one sort.

The command runs in this process, from its arguments to the text, so that no interpreter start-up
and no import is in the time; a run of each in a process of its own gives the memory.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl

from benchmarks.bars import Row
from benchmarks.processes import measured
from gpuplan.analysis.characterize import COLUMNS
from gpuplan.analysis.job_table.schema import CANONICAL
from gpuplan.cli.app.main import main

JOBS = 1_000_000
RUNS = 9
START_US = 1_680_000_000_000_000


def write_trace(path: Path, jobs: int = JOBS) -> None:
    """Write a made-up trace in the shape of a research cluster: 131 users, bursts, long tails."""
    rng = np.random.default_rng(0)
    submit = START_US + (np.cumsum(rng.gamma(0.05, 320, jobs)) * 1e6).astype(np.int64)
    pl.DataFrame(
        {
            "job_id": np.arange(jobs).astype(str),
            "user": rng.choice([f"user{i:03}" for i in range(131)], jobs),
            "group": rng.choice([f"group{i:02}" for i in range(20)], jobs),
            "job_class": rng.choice(["pretrain", "sft", "eval", "debug", "other"], jobs),
            "submit_time": pl.Series(submit).cast(CANONICAL["submit_time"]),
            "queue_s": rng.exponential(300, jobs).round(),
            "duration_s": rng.lognormal(4, 2.5, jobs).round(),
            "num_gpus": rng.choice(
                [0.0, 1, 2, 4, 8, 16, 64, 256],
                jobs,
                p=[0.1, 0.5, 0.1, 0.1, 0.15, 0.03, 0.015, 0.005],
            ),
            "state": rng.choice(["completed", "failed", "cancelled"], jobs, p=[0.5, 0.3, 0.2]),
        },
        schema_overrides={"state": CANONICAL["state"]},
    ).write_parquet(path)


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def command(path: Path) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        if main(["characterize", str(path), "--quiet"]):
            raise RuntimeError("gpuplan characterize failed")


def bare(path: Path) -> pl.DataFrame:
    return pl.scan_parquet(path).select(COLUMNS).sort("duration_s").collect()


def run() -> list[Row]:
    """Time both in turn, so that a drift of the machine's speed falls on both."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.parquet"
        write_trace(path)
        pairs = [
            (seconds(lambda: command(path)), seconds(lambda: bare(path))) for _ in range(RUNS + 2)
        ][2:]
        _, memory = measured("characterize", str(path), "-q")
    ours, reference = (median(times) for times in zip(*pairs, strict=True))
    return [
        {
            "work": "characterize 1,000,000 jobs as text / polars scan of its columns + one sort",
            "ours_s": ours,
            "reference_s": reference,
            "ratio": median(a / b for a, b in pairs),
            "bar": "<= 5x",
            "peak_mb": memory,
        }
    ]


if __name__ == "__main__":
    for row in run():
        print(row)
