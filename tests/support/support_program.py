"""A program of its own, and the trace of another tool that it reads."""

import subprocess
import sys
from pathlib import Path

import polars as pl


def write_minutely(path: Path) -> Path:
    """Write a small canonical trace of another tool: 400 jobs, one a minute."""
    jobs = range(400)
    pl.DataFrame(
        {
            "submit_time": [60_000_000 * job for job in jobs],
            "duration_s": [float(10 + 37 * job % 900) for job in jobs],
            "num_gpus": [float(1 + job % 4) for job in jobs],
        },
        schema_overrides={"submit_time": pl.Datetime("us", "UTC")},
    ).write_parquet(path)
    return path


def started(*arguments: object, **options) -> subprocess.Popen:
    command = [sys.executable, "-m", "gpuplan.cli", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **{**pipes, **options})
