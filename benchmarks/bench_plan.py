"""One purchase plan: columns, the program by groups of bins, resamples, and the whole command.

The reference of the program is the bare solver over all bins at once: same rows, same optimum, no
groups. That of the resamples is as many bare solutions. Times are CPU seconds; those of the whole
command are its wall clock, and its peak that of a process of its own.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.bars import Row
from benchmarks.processes import measured
from gpuplan.analysis.base.time_units import HOUR_S
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.planner.plan.assignment import assigned_jobs
from gpuplan.planner.plan.caps import PARTS, capped_runs, caps_at
from gpuplan.planner.plan.columns import RouteColumns, route_columns
from gpuplan.planner.plan.jobs import jobs_of_trace
from gpuplan.planner.plan.levers import COMMITMENT, bought_with
from gpuplan.planner.plan.markets import GpuMarkets
from gpuplan.planner.plan.optimum import optimum
from gpuplan.planner.plan.partition import single_bins
from gpuplan.planner.plan.program import PlanLimits, PlanProgram, plan_program
from gpuplan.planner.plan.purchase import Purchase, purchase
from gpuplan.planner.plan.replay import RentingTerms, replay_plan
from gpuplan.planner.plan.uncertainty import RESAMPLES, plan_intervals
from gpuplan.planner.plan.warm_start import ProgramStart
from gpuplan.planner.speedup.registry import load_speedup
from gpuplan.simkit.plan.simulator import run_plan

JOBS, DAYS, LABELS = 100_000, 100, 7
MILLION = 1_000_000
PRICES = GpuMarkets({"1y": 0.90}, on_demand_usd=1.29, spot_usd=0.55, serverless_usd=2.10)
SPOT = "num_gpus <= 2"
LIMITS = PlanLimits(slower=1.25, spot_max=0.3)
SMALLEST = ("--commit", "0.90", "--on-demand", "1.29")
LEVERS = (
    *("--spot", SPOT, "--spot-price", "0.55", "--spot-max", "30%", "--serverless", "2.10"),
    *("--speedup", "power:0.8", "--slower", "1.25x", "--growth", "-20%:50%"),
)
DEFERRED_JOBS = "job_class = 'class3'"
DEFERRED = ("--defer", f"{DEFERRED_JOBS}:6h")


def write_jobs(path: Path, count: int) -> None:
    """Write jobs of 28 classes over 100 days: busier by day, run times of many sizes."""
    rng = np.random.default_rng(0)
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    day_s = rng.integers(0, DAYS, count) * 86_400
    submit_s = np.sort(day_s + np.clip(rng.normal(50_000, 15_000, count), 0, 86_399))
    pl.DataFrame(
        {
            "submit_time": [begin + timedelta(seconds=float(s)) for s in submit_s],
            "duration_s": rng.lognormal(7.5, 1.8, count),
            "num_gpus": rng.choice([1.0, 2.0, 8.0, 16.0], count, p=[0.7, 0.15, 0.12, 0.03]),
            "job_class": [f"class{i}" for i in rng.integers(0, LABELS, count)],
        }
    ).write_parquet(path)


def cpu_s(work: Callable[[], object], runs: int = 3) -> float:
    """Return the least CPU seconds of some runs."""
    times = []
    for _ in range(runs):
        before = time.process_time()
        work()
        times.append(time.process_time() - before)
    return min(times)


def columns_of(path: Path) -> RouteColumns:
    """Return the columns of the jobs of a trace with every lever but deferral."""
    jobs = jobs_of_trace(read_trace(path), spot=SPOT)
    return route_columns(jobs, {"": PRICES}, speedup=load_speedup("power:0.8"))


def program_rows(program: PlanProgram) -> list[Row]:
    """Return the program by groups of bins, and its resamples, against the bare solver."""
    columns = program.columns
    all_bins = ProgramStart((single_bins(columns.bins.count),) * len(columns.types))
    ours_s = cpu_s(lambda: optimum(program))
    bare_s = cpu_s(lambda: optimum(program, all_bins), runs=1)
    bought = purchase(program)
    recorded = bought_with(program, {COMMITMENT})
    resamples_s = cpu_s(lambda: plan_intervals(bought, seed=0, recorded=recorded), runs=1)
    size = f"{len(columns.classes)} classes, {program.used.size} routes, {columns.bins.count} bins"
    return [
        _row(f"the program, {size}", ours_s, "<= 0.5 s", bare_s),
        _row(f"{RESAMPLES} resamples of weeks, CPU", resamples_s, "<= 5 s", RESAMPLES * bare_s),
    ]


def replay_rows(bought: Purchase, name: str = "") -> list[Row]:
    """Return the replay of a plan, also under four caps, against the kernel on the same jobs."""
    columns, committed, terms = bought.program.columns, bought.whole_nodes.committed, RentingTerms()
    assigned = assigned_jobs(columns, bought.whole_nodes.share)
    run = replay_plan(columns, assigned, committed, terms)
    (of,) = run.types
    bare_s = cpu_s(lambda: run_plan(of.run.jobs, of.run.cluster))
    ours_s = cpu_s(lambda: replay_plan(columns, assigned, committed, terms))
    rows = [_row(f"the joint replay{name}, against its kernel", ours_s, "-", bare_s)]
    if name:
        return rows
    clusters = [replace(of.run.cluster, most=caps_at(run, part)[""]) for part in PARTS]
    bare_s = cpu_s(lambda: [run_plan(of.run.jobs, cluster) for cluster in clusters], runs=1)
    ours_s = cpu_s(lambda: capped_runs(run), runs=1)
    return [*rows, _row(f"{len(PARTS)} replays under caps, against them", ours_s, "-", bare_s)]


def deferred_rows(path: Path) -> list[Row]:
    """Return the joint replay of a plan that defers a class."""
    jobs = jobs_of_trace(read_trace(path), defer=DEFERRED_JOBS)
    columns = route_columns(jobs, {"": PRICES}, within_s=6 * HOUR_S)
    return replay_rows(purchase(plan_program(columns, LIMITS)), " with deferred jobs")


def command_row(path: Path, work: str, words: tuple[str, ...], bar: str) -> Row:
    """Return the time and peak memory of a whole command."""
    ours_s, peak_mb = measured("plan", str(path), "--quiet", *words)
    return {**_row(work, ours_s, bar), "peak_mb": peak_mb}


def _row(work: str, ours_s: float, bar: str, reference_s: float | None = None) -> Row:
    row: Row = {"work": work, "ours_s": ours_s, "bar": bar}
    if reference_s is not None:
        row |= {"reference_s": reference_s, "ratio": ours_s / reference_s}
    return row


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        path, larger = Path(folder) / "t.parquet", Path(folder) / "larger.parquet"
        write_jobs(path, JOBS)
        columns = columns_of(path)
        jobs, speedup = columns.jobs, columns.speedup
        columns_s = cpu_s(lambda: route_columns(jobs, {"": PRICES}, speedup=speedup))
        program = plan_program(columns, LIMITS)
        rows = [
            _row(f"columns of {JOBS:,} jobs, CPU", columns_s, "<= 0.5 s"),
            *program_rows(program),
            *replay_rows(purchase(program)),
            *deferred_rows(path),
            command_row(path, f"gpuplan plan, {JOBS:,} jobs, commit and rent", SMALLEST, "<= 5 s"),
            command_row(
                path,
                f"gpuplan plan, {JOBS:,} jobs, four levers and growth",
                (*SMALLEST, *LEVERS),
                "<= 20 s, <= 1000 MB",
            ),
            command_row(
                path,
                f"gpuplan plan, {JOBS:,} jobs, five levers and growth",
                (*SMALLEST, *LEVERS, *DEFERRED),
                "<= 20 s, <= 1000 MB",
            ),
        ]
        write_jobs(larger, MILLION)
        work = f"gpuplan plan, {MILLION:,} jobs, five levers and growth"
        return [*rows, command_row(larger, work, (*SMALLEST, *LEVERS, *DEFERRED), "<= 60 s")]


if __name__ == "__main__":
    for row in run():
        print(row)
