"""Ingest: Seren-shaped tables against a bare polars scan, and the memory of large logs."""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import sys
import tempfile
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl

from benchmarks.bars import Row

ROWS = 1_000_000
RUNS = 7
LARGE = 10  # times the rows
JSON_MB = 300  # of a Philly log; another size as an argument, such as 1050
SEED = 0
START_S = 1_677_600_000  # 2023-02-28 16:00 UTC, midnight at +08:00
SPAN_S = 184 * 86_400
OFFSET_S = 8 * 3600

# Each measurement is a process of its own, so that its peak memory is its own too; getrusage would
# count what this process held when it started the other. The time is that of the work alone, with
# everything imported.
TIMED = """
import json, sys, time
from pathlib import Path
source, output = map(Path, sys.argv[1:])
{imports}
began = time.perf_counter()
{work}
seconds = time.perf_counter() - began
status = Path("/proc/self/status")
lines = status.read_text().splitlines() if status.exists() else []
peak = [int(line.split()[1]) / 1000 for line in lines if line.startswith("VmHWM")]
print(json.dumps([seconds, *(peak or [None])]))
"""
OURS = TIMED.format(
    imports="import gpuplan.analysis.ingest.ingest as it", work="it.ingest([source], output)"
)
BARE = TIMED.format(imports="import polars as pl", work="pl.scan_csv(source).sink_parquet(output)")
PANDAS = TIMED.format(
    imports="import pandas as pd, pyarrow.parquet",
    work="times = ['submit_time', 'start_time', 'end_time']\n"
    "pd.read_csv(source, parse_dates=times).to_parquet(output)",
)


def write_seren(path: Path, rows: int, rng: np.random.Generator) -> None:
    """Write a table in the layout of AcmeTrace's Seren, sorted by submission."""
    submit = np.sort(rng.integers(0, SPAN_S, rows)) + START_S + OFFSET_S
    wait = rng.integers(0, 100, rows) * (rng.random(rows) < 0.4)
    ran = np.minimum(rng.lognormal(3.1, 2.5, rows), 3e6).astype(np.int64)
    gpus = rng.choice(
        [0, 1, 2, 4, 8, 16, 32, 64], rows, p=[0.45, 0.3, 0.05, 0.05, 0.1, 0.03, 0.01, 0.01]
    )
    kinds = ["Eval", "Pretrain", "SFT", "MLLM", "Debug", "Other"]
    states = ["COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED"]

    def local(seconds: np.ndarray[Any, Any]) -> pl.Series:
        times = pl.Series(seconds).cast(pl.Int64) * 1_000_000
        return times.cast(pl.Datetime("us")).dt.to_string("%Y-%m-%d %H:%M:%S+08:00")

    pl.DataFrame(
        {
            "job_id": np.arange(6_000_000, 6_000_000 + rows),
            "user": [f"u{code:04x}" for code in rng.integers(0, 131, rows)],
            "node_num": np.maximum(gpus // 8, 1),
            "gpu_num": gpus,
            "cpu_num": np.maximum(gpus * 16, 4),
            "type": rng.choice(kinds, rows),
            "state": rng.choice(states, rows, p=[0.5, 0.2, 0.15, 0.03, 0.02, 0.1]),
            "submit_time": local(submit),
            "start_time": local(submit + wait),
            "end_time": local(submit + wait + ran),
            "duration": ran,
            "queue": wait,
            "gpu_time": (ran * gpus).astype(float),
        }
    ).write_csv(path)


def measure(script: str, source: Path, output: Path) -> tuple[float, float | None]:
    """Run one script in a process of its own; returns seconds and, on Linux, peak memory in MB."""
    command = [sys.executable, "-c", script, str(source), str(output)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    seconds, peak_mb = json.loads(done.stdout)
    return seconds, peak_mb


def run(json_mb: int = JSON_MB) -> list[Row]:
    """Measure in turn, so that a drift of the machine's speed falls on both."""
    rng = np.random.default_rng(SEED)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small, large, output = folder / "s.csv", folder / "l.csv", folder / "o.parquet"
        write_seren(small, ROWS, rng)
        pairs = [
            (measure(OURS, small, output), measure(BARE, small, output)) for _ in range(RUNS + 1)
        ][1:]
        ours_s = median(ours[0] for ours, _ in pairs)
        peak_mb = max((ours[1] for ours, _ in pairs if ours[1]), default=None)
        results = [
            {
                "work": "ingest 1,000,000 Seren rows / bare polars CSV scan to Parquet",
                "ours_s": ours_s,
                "reference_s": median(bare[0] for _, bare in pairs),
                "ratio": median(ours[0] / bare[0] for ours, bare in pairs),
                "bar": "<= 1.8x, <= 1000 MB",
                "peak_mb": peak_mb,
            }
        ]
        if has_pandas():
            pandas_s, _ = measure(PANDAS, small, output)
            results.append(
                {
                    "work": "the same / pandas read_csv to Parquet",
                    "ours_s": ours_s,
                    "reference_s": pandas_s,
                    "ratio": ours_s / pandas_s,
                    "bar": "< 1x",
                    "peak_mb": None,
                }
            )
        write_large(small, large, LARGE)
        seconds, large_mb = measure(OURS, large, output)
        results.append(
            {
                "work": "peak memory of 10,000,000 rows / of 1,000,000",
                "ours_s": seconds,
                "reference_s": None,
                "ratio": large_mb / peak_mb if large_mb and peak_mb else None,
                "bar": "<= 1.5x memory",
                "peak_mb": large_mb,
            }
        )
        large.unlink()
        results.append(run_json(folder, json_mb))
    return results


def run_json(folder: Path, json_mb: int) -> Row:
    """Measure a Philly log, one JSON array."""
    log, output = folder / "philly.json", folder / "o.parquet"
    size_mb = write_philly(log, json_mb)
    ours_s, peak_mb = measure(OURS, log, output)
    return {
        "work": f"peak memory of a Philly JSON / its {size_mb:,.0f} MB",
        "ours_s": ours_s,
        "reference_s": None,
        "ratio": peak_mb / size_mb if peak_mb else None,
        "bar": "<= 3x its size",
        "peak_mb": peak_mb,
    }


def write_large(small: Path, large: Path, times: int) -> None:
    """Repeat the rows of a table, each time under new ids."""
    with small.open("rb") as source:
        header = source.readline()
        body = source.read()
    with large.open("wb") as target:
        target.write(header)
        for digit in range(times):
            prefix = str(digit).encode()
            target.write(prefix + body[:-1].replace(b"\n", b"\n" + prefix) + b"\n")


def write_philly(path: Path, size_mb: int) -> float:
    """Write a log in the layout of Philly's ``cluster_job_log``; returns its size in MB.

    The same jobs come again and again under new ids.
    """
    rng = random.Random(SEED)
    jobs = ",\n".join(json.dumps(philly_job(rng, number)) for number in range(20_000))
    with path.open("w") as target:
        for part in range(max(1, round(size_mb * 1e6 / len(jobs)))):
            target.write(",\n" if part else "[")
            target.write(jobs.replace("application_", f"application_{part}_"))
        target.write("]\n")
    return path.stat().st_size / 1e6


def philly_job(rng: random.Random, number: int) -> dict[str, Any]:
    """Return a job of no, one or a few attempts."""
    clock = datetime(2017, 8, 7) + timedelta(minutes=9 * number)
    submitted, attempts = str(clock), []
    for _ in range(rng.choice([0, 1, 1, 1, 1, 2, 3])):
        start = clock + timedelta(seconds=rng.randrange(900))
        clock = start + timedelta(seconds=rng.randrange(90_000))
        gpus = [f"gpu{i}" for i in range(rng.choice([1, 1, 2, 4, 8]))]
        servers = rng.sample(range(500), rng.choice([1, 1, 1, 2, 4]))
        detail = [{"ip": f"m{server}", "gpus": gpus} for server in servers]
        attempts.append({"start_time": str(start), "end_time": str(clock), "detail": detail})
    return {
        "status": rng.choice(["Pass", "Killed", "Failed"]),
        "vc": f"{rng.randrange(14):06x}",
        "jobid": f"application_{1_500_000_000_000 + number}_{number:04d}",
        "attempts": attempts,
        "submitted_time": submitted,
        "user": f"{rng.randrange(400):06x}",
    }


def has_pandas() -> bool:
    return importlib.util.find_spec("pandas") is not None


if __name__ == "__main__":
    for row in run(*map(int, sys.argv[1:])):
        print(row)
