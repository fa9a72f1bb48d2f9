"""A requeued job is one job with several runs: what it holds between them is nothing."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_runs import DAY, H, row, trace_of

from gpuplan.analysis.characterize.characterization import characterize
from gpuplan.analysis.characterize.load import load
from gpuplan.analysis.characterize.today import today
from gpuplan.analysis.ingest.logs import read_trace as read_log
from gpuplan.analysis.job_table.log_options import LogOptions
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.planner.money.held_runs import billed_runs
from gpuplan.planner.requests.forecast import ForecastRequest
from gpuplan.planner.studies.forecast_source import demand_source

SITELAB = (
    Path(__file__).resolve().parents[2] / "shared" / "data" / "sitelab" / "dumps" / "sacct.txt.gz"
)


WORKED = [
    row(1, 0, 300, H + 300, 4, "NODE_FAIL"),
    row(1, H + 300, 2 * H, 4 * H, 8),
    row(2, 0, 0, 5 * H, 2, group="other"),
]
"""Job 1 holds 4 GPUs for an hour from 0:05, none for 55 minutes, and 8 for two hours."""


def test_gpus_held_worked_by_hand(tmp_path):
    trace = read_trace(trace_of(tmp_path, WORKED))
    held = today(trace)
    assert held.usage.gpu_h == 4 * 1 + 8 * 2 + 2 * 5
    assert held.usage.peak_gpus == 10
    assert held.window_s == 5 * H
    of_load = load(trace.arrays())
    assert of_load.peak_gpus == 10 and of_load.window_mean_gpus == 6
    assert held.mean_run_s == (3 * H + 5 * H) / 2 and held.mean_wait_s == 150


def test_the_gpus_between_runs_are_free(tmp_path):
    runs = read_trace(trace_of(tmp_path, WORKED)).arrays().runs()
    first = int(DAY.timestamp()) * 1_000_000
    assert runs.job.tolist() == [0, 1, 1] and runs.gpus.tolist() == [2, 4, 8]  # joined jobs last
    assert ((runs.start_us - first) / 1e6).tolist() == [0, 300, 2 * H]
    assert ((runs.end_us - first) / 1e6).tolist() == [5 * H, H + 300, 4 * H]


def test_the_longest_is_a_run_and_the_duration_their_sum(tmp_path):
    trace = read_trace(trace_of(tmp_path, [*WORKED[:2], row(3, 0, 0, H, 1)]))
    spread = characterize(trace).duration_s
    assert spread.max == 2 * H and spread.mean == (3 * H + H) / 2


def test_a_period_cuts_each_run(tmp_path):
    begin, end = DAY + timedelta(hours=0.5), DAY + timedelta(hours=3)
    trace = read_trace(trace_of(tmp_path, WORKED), Selection(period_from=begin, period_to=end))
    held = today(trace)
    assert held.usage.gpu_h == pytest.approx(4 * (H + 300 - H / 2) / H + 8 * 1 + 2 * 2.5)
    # A job is in a period that touches one of its runs only.
    begin = DAY + timedelta(hours=3.5)
    later = read_trace(trace_of(tmp_path, WORKED), Selection(period_from=begin))
    assert today(later).usage.gpu_h == 8 * 0.5 + 2 * 1.5


def test_times_of_a_trace_can_be_scaled(tmp_path):
    path = trace_of(tmp_path, WORKED)
    longer = read_trace(path, Selection(scale_duration=2.0))
    assert today(longer).usage.gpu_h == 2 * 30
    assert read_trace(path, Selection(scale_interarrival=3.0)).arrays().gpu_s.sum() == 30 * H


def test_a_requeued_job_that_still_runs(tmp_path):
    rows = [row(1, 0, 0, H, 4, "PREEMPTED"), row(1, H, 3 * H, None, 4, "RUNNING")]
    path = trace_of(tmp_path, rows)
    plain = read_trace(path).arrays()
    assert plain.gpu_s.sum() == 4 * (H + 21 * H)
    later = read_trace(path, Selection(as_of=DAY + timedelta(hours=30))).arrays()
    assert later.gpu_s.sum() == 4 * (H + 27 * H)
    assert (later.runs().end_us[-1] / 1e6) == DAY.timestamp() + 30 * H


def test_a_job_of_another_tool_may_tell_start_end_and_gpus_alone(tmp_path):
    path = trace_of(tmp_path, WORKED)
    jobs = pl.read_parquet(path).drop("requeue_s")
    run = pl.element().struct
    few = pl.struct(run.field("start"), run.field("end"), run.field("gpus"))
    jobs.with_columns(pl.col("runs").list.eval(few)).write_parquet(tmp_path / "few.parquet")
    assert today(read_trace(tmp_path / "few.parquet")).usage.gpu_h == 30


def test_a_forecast_counts_the_demand_of_a_requeued_job_until_its_last_end(tmp_path):
    rows = [
        row(1, 0, 0, H, 4, "NODE_FAIL"),
        row(1, H, 9 * H, 10 * H, 4),
        row(2, 0, 0, 20 * H, 1),
        row(3, 21 * H, 21 * H, 22 * H, 1),
    ]
    source = demand_source(ForecastRequest(trace=trace_of(tmp_path, rows)))
    assert source.demand.gpus[0][:20].tolist() == pytest.approx([5] * 10 + [1] * 10)


@st.composite
def logs(draw):
    """Draw jobs of one to four runs after each other: (job, submit, start, end, gpus)."""
    runs = []
    for job in range(draw(st.integers(1, 6))):
        submit = draw(st.integers(0, 30_000))
        for _ in range(draw(st.integers(1, 4))):
            start = submit + draw(st.integers(0, 9_000))
            end = start + draw(st.integers(0, 20_000))
            runs.append((job, submit, start, end, draw(st.integers(1, 8))))
            submit = end
    return runs


def most_held(runs):
    times = {start for _, _, start, _, _ in runs}
    return max(sum(g for _, _, s, e, g in runs if s <= t < e) for t in times)


@settings(deadline=None, max_examples=20)
@given(logs(), st.integers(0, 60_000), st.integers(1, 60_000))
def test_gpu_seconds_of_the_runs_are_those_of_history_and_bill(tmp_path_factory, runs, begin, last):
    folder = tmp_path_factory.mktemp("log")
    states = {job: place for place, (job, *_) in enumerate(runs)}
    rows = [
        row(job, submit, start, end, gpus, "COMPLETED" if states[job] == place else "PREEMPTED",
            group=f"team{job % 2}")
        for place, (job, submit, start, end, gpus) in enumerate(runs)
    ]  # fmt: skip
    trace = read_trace(trace_of(folder, rows))
    gpu_s = sum((end - start) * gpus for _, _, start, end, gpus in runs)
    arrays = trace.arrays()
    assert arrays.gpu_s.sum() == gpu_s
    held = today(trace)
    assert held.usage.gpu_h * H == pytest.approx(gpu_s)
    assert held.usage.peak_gpus == most_held(runs)
    if arrays.window_us()[1] > arrays.window_us()[0]:
        billed = billed_runs(trace, ("group",))
        billed_gpu_s = (billed.runs.end_us - billed.runs.start_us) * billed.runs.gpus / 1e6
        assert billed_gpu_s.sum() == pytest.approx(gpu_s)
        for place, (name, _) in enumerate(billed.labels):
            team = [run for run in runs if f"team{run[0] % 2}" == name]
            of_team = sum((end - start) * gpus for _, _, start, end, gpus in team)
            assert billed_gpu_s[billed.runs.label == place].sum() == pytest.approx(of_team)
    until = begin + last
    within = sum(
        max(0, min(end, until) - max(start, begin)) * gpus for _, _, start, end, gpus in runs
    )
    span = [DAY + timedelta(seconds=second) for second in (begin, until)]
    if within:
        part = read_trace(folder / "s.parquet", Selection(period_from=span[0], period_to=span[1]))
        assert part.arrays().gpu_s.sum() == pytest.approx(within)


@pytest.mark.skipif(not SITELAB.is_file(), reason="needs ../shared/data/sitelab")
def test_a_site_holds_what_it_has():
    """286,900 GPU-hours in the window, 68, 56 and 8 GPUs by type, all 131, P95 180 (README)."""
    log = LogOptions(time_zone="America/New_York")
    zone = timedelta(hours=4)
    begin, end = (datetime(2025, month, 1, tzinfo=UTC) + zone for month in (9, 12))
    window = read_log(SITELAB, Selection(log=log, period_from=begin, period_to=end))
    held = today(window)
    assert held.usage.gpu_h == pytest.approx(286_900, rel=0.002)
    assert held.usage.mean_gpus == pytest.approx(131, abs=0.5)
    assert held.usage.p95_gpus == pytest.approx(180, abs=1)
    means = {usage.gpu_type: usage.mean_gpus for usage in held.gpu_types}
    assert means == pytest.approx({"H100": 68, "A100": 56, "L40S": 8}, abs=0.6)
    whole = today(read_log(SITELAB, Selection(log=log)))
    peaks = {usage.gpu_type: usage.peak_gpus for usage in whole.gpu_types}
    assert peaks == {"H100": 96, "A100": 80, "L40S": 24}  # 12 x 8, 20 x 4, 3 x 8
    assert np.nanmax(window.jobs["duration_s"].to_numpy()) <= 4 * 86_400
