"""Sizes of a cluster: a curve with intervals, a search for an answer, and a bill.

The reference of the sizes is the bare kernel at the same sizes, one after another, on one core:
what the curve adds are percentiles, bootstraps and the work of all cores. That of the bill is the
GPU-hours by group alone, one sum in polars.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.bars import Row
from benchmarks.bench_allpass import seren_like
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.engine import THREADS
from gpuplan.planner.policies.cluster_settings import SCHEDULERS
from gpuplan.planner.runs.gpu_intervals import Resampling
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.planner.sizing.search import Sizes, interval_of, smallest
from gpuplan.planner.sizing.sized_replay import ReplayTerms
from gpuplan.planner.sizing.targets import parse_target
from gpuplan.simkit.cluster.simulator import run_cluster
from gpuplan.simkit.cluster_shape import GpuPool
from gpuplan.simkit.workload import Workload

JOBS, SIZES, LOAD = 100_000, 16, 0.9
BILLED = 1_000_000
TARGET = "p95_wait <= 10m"
CONTRACTS = """\
[[owned]]
gpu_type = "A100"
gpus = 1000

[[commitment]]
gpu_type = "H100"
gpus = 1000
usd_per_gpu_h = 1.8

[[price]]
gpu_type = "A100"
kind = "on_demand"
usd_per_gpu_h = 1.6

[[price]]
gpu_type = "H100"
kind = "on_demand"
usd_per_gpu_h = 2.6
"""


def elapsed_s(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def bare(work: Workload, sizes: list[int], policy: str) -> None:
    scheduler = SCHEDULERS[policy]
    values = scheduler.complete({})
    for gpus in sizes:
        run_cluster(work, scheduler.cluster(values, GpuPool(gpus)))


def run() -> list[Row]:
    work = seren_like(JOBS)
    busy = float((work.service_us.astype(float) * work.gpus).sum())
    mean = busy / float(work.submit_us[-1])
    names = pl.Series([str(i) for i in range(JOBS)])
    jobs = TraceJobs(work, names, (), window_us=(0, int((work.submit_us + work.service_us).max())))
    widest = int(work.gpus.max())
    sizes = np.linspace(max(mean / LOAD, widest), 2 * max(mean / LOAD, widest), SIZES)
    even = sorted({int(gpus) for gpus in sizes})
    rows = []
    for policy in ("first-fit", "srtf"):
        sure = Resampling(90.0, 200, 0)
        terms = ReplayTerms(
            PolicySpec("size", policy, {}), np.random.default_rng(0), None,
            (parse_target(TARGET),), sure,
        )  # fmt: skip
        Sizes(jobs, terms, 1, THREADS).at_size(even[-1])  # compile
        ours_s = elapsed_s(partial(Sizes(jobs, terms, 1, THREADS).at, even))
        bare_s = elapsed_s(partial(bare, work, even, policy))
        rows.append(
            {
                "work": f"size: {len(even)} sizes x {JOBS:,} jobs with intervals, {policy}",
                "ours_s": ours_s,
                "reference_s": bare_s,
                "ratio": ours_s / bare_s,
                "bar": "<= 5 s" if policy == "first-fit" else "-",
            }
        )
        found = Sizes(jobs, terms, 1, THREADS)

        def search(found: Sizes = found) -> None:
            interval_of(found, smallest(found))

        ours_s = elapsed_s(search)
        rows.append(
            {
                "work": f"size: {TARGET} and its interval, {len(found.replays)} replays, {policy}",
                "ours_s": ours_s,
                "reference_s": bare_s / len(even) * len(found.replays),
                "ratio": ours_s / (bare_s / len(even) * len(found.replays)),
                "bar": "-",
            }
        )
    return [*rows, billed()]


def billed() -> Row:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.parquet"
        submit = np.sort(rng.integers(0, 365 * 86_400, BILLED)) * 1_000_000 + 1_700_000_000_000_000
        pl.DataFrame(
            {
                "submit_time": pl.Series(submit).cast(pl.Datetime("us", "UTC")),
                "duration_s": rng.lognormal(6, 2, BILLED),
                "num_gpus": rng.choice([1.0, 2.0, 8.0], BILLED),
                "gpu_type": rng.choice(["A100", "H100"], BILLED),
                "group": [f"g{i}" for i in rng.integers(0, 40, BILLED)],
            }
        ).write_parquet(path)
        book = Path(folder) / "contracts.toml"
        book.write_text(CONTRACTS)
        command = [sys.executable, "-m", "gpuplan.cli", "bill", str(path), "--contracts", str(book)]
        used_s = []
        for _ in range(2):
            before_s = os.times().children_user
            subprocess.run(command, check=True, capture_output=True)
            used_s.append(os.times().children_user - before_s)
        ours_s = min(used_s)

        def plain() -> None:
            jobs = read_trace(path, columns=("num_gpus", "duration_s", "group")).jobs
            gpu_s = (pl.col("duration_s") * pl.col("num_gpus")).sum()
            jobs.group_by("group").agg(pl.len(), gpu_s).sort("duration_s", descending=True)

        reference_s = min(elapsed_s(plain) for _ in range(3))
    return {
        "work": f"gpuplan bill by group and month of {BILLED:,} jobs under contracts, all of it",
        "ours_s": ours_s,
        "reference_s": reference_s,
        "ratio": ours_s / reference_s,
        "bar": "<= 5 s",
    }


if __name__ == "__main__":
    for row in run():
        print(row)
