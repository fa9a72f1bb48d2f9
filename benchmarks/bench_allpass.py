"""Allpass: a million jobs, against plain heapq code of the same rules, and a sweep on all cores."""

import json
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl

from benchmarks.bars import Row
from benchmarks.plain_allpass import replay
from gpuplan.analysis.base.plain import plain
from gpuplan.planner.engine import Engine
from gpuplan.planner.parallel import usable_cores
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.planner.sweep.results import sweep_results
from gpuplan.planner.sweep.sweep import SweepGrid, sweep
from gpuplan.simkit.allpass.parameters import Allpass, Draws
from gpuplan.simkit.allpass.simulator import run_allpass
from gpuplan.simkit.workload import Workload

JOBS, POINTS = 1_000_000, 64
MONTHS_S = 6 * 30 * 86_400.0


def seren_like(jobs: int, seed: int = 0) -> Workload:
    """Six months of a large cluster: half the jobs within two minutes, a tail of two weeks."""
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.uniform(0, MONTHS_S, jobs))
    service = np.minimum(rng.lognormal(np.log(120), 2.2, jobs), 14 * 86_400)
    gpus = rng.choice([1, 2, 4, 8, 16, 32], jobs, p=[0.5, 0.1, 0.1, 0.25, 0.03, 0.02])
    deadline = submit + service * rng.uniform(1, 10, jobs)
    return Workload.from_seconds(submit - submit[0], service, gpus, deadline - submit[0])


def first_jobs(workload: Workload, jobs: int) -> Workload:
    return Workload(
        workload.submit_us[:jobs],
        workload.service_us[:jobs],
        workload.gpus[:jobs],
        workload.deadline_us[:jobs],
        workload.billed_gpus[:jobs],
    )


def least_s(work: Callable[[], object], runs: int) -> float:
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def timed_sweep(workload: Workload, engine: Engine) -> tuple[float, str]:
    """A sweep with its bootstrap: how long it took, and its JSON."""
    jobs = TraceJobs(workload, pl.Series("job_id", [], pl.String), ())
    grid = SweepGrid(np.geomspace(1, 36_000, POINTS).tolist(), adaptive=False)
    started = time.perf_counter()
    found = sweep(jobs, Allpass(), grid, np.random.default_rng(0), level=90, engine=engine)
    took_s = time.perf_counter() - started
    return took_s, json.dumps(plain(sweep_results(found)))


def against_plain(workload: Workload, rules: Allpass) -> tuple[float, float]:
    """Seconds of ours and of the plain code, which must end every job and rental alike."""
    draws = Draws.sample(rules, workload.size, np.random.default_rng(0))
    ours = run_allpass(workload, rules, draws)
    started = time.perf_counter()
    plain = replay(workload, rules, draws)
    plain_s = time.perf_counter() - started
    if plain != (ours.finish_us.tolist(), ours.rentals.release_us.tolist()):
        raise AssertionError("the two replays differ")
    return least_s(lambda: run_allpass(workload, rules, draws), 5), plain_s


def run() -> list[Row]:
    rules, workload = Allpass(), seren_like(JOBS)
    run_allpass(first_jobs(workload, 10), rules, np.random.default_rng(0))  # compile
    # All of them: the first thousands, who meet an empty pool, are not like the rest.
    whole_s, whole_plain_s = against_plain(workload, rules)
    published = replace(rules, scale_out="window", scaling="literal", min_threshold_s=0.0)
    published_s, published_plain_s = against_plain(workload, published)

    cores = usable_cores()
    sweep_s, bytes_of = {}, {}
    for engine in (Engine("threads", cores), Engine("processes", cores), Engine("threads", 1)):
        sweep_s[engine], bytes_of[engine] = timed_sweep(workload, engine)
    if len(set(bytes_of.values())) != 1:
        raise AssertionError("the engines differ")
    threads_s, processes_s, alone_s = sweep_s.values()
    return [
        {
            "work": f"Allpass replay of {JOBS:,} jobs, adaptive, default rules",
            "ours_s": whole_s,
            "reference_s": None,
            "ratio": None,
            "bar": "<= 2 s",
            "peak_mb": None,
        },
        {
            "work": "the same, against plain heapq code",
            "ours_s": whole_s,
            "reference_s": whole_plain_s,
            "ratio": whole_plain_s / whole_s,
            "bar": ">= 100x",
            "peak_mb": None,
        },
        {
            "work": "the same jobs under the published rules, against plain heapq code",
            "ours_s": published_s,
            "reference_s": published_plain_s,
            "ratio": published_plain_s / published_s,
            "bar": ">= 100x",
            "peak_mb": None,
        },
        {
            "work": f"{POINTS}-point sweep of {JOBS:,} jobs on {cores} cores, against one by one",
            "ours_s": threads_s,
            "reference_s": alone_s / cores,
            "ratio": threads_s / (alone_s / cores),
            "bar": "<= 1.2x of one by one / cores",
            "peak_mb": None,
        },
        {
            "work": "the same with processes, their start included, against threads (same bytes)",
            "ours_s": processes_s,
            "reference_s": threads_s,
            "ratio": processes_s / threads_s,
            "bar": "",
            "peak_mb": None,
        },
    ]


if __name__ == "__main__":
    for row in run():
        print(row)
