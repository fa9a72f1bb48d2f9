"""Originals of every kind can be imitated: any size, any length, much of it missing."""

import numpy as np
import polars as pl
import pytest
import support_synth
import support_traces
from hypothesis import given, settings
from hypothesis import strategies as st
from support_synth import (
    by_key,
    rows,
    synthetic,
    workload,
)

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.characterize import characterize
from gpuplan.analysis.job_table.schema import CANONICAL, Provenance
from gpuplan.analysis.synth import Request, preset_model, synthesize
from gpuplan.analysis.synth.store import read_model
from gpuplan.analysis.trace.trace import read_trace


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 400), st.integers(0, 5), st.one_of(st.none(), st.floats(0.01, 500)))
def test_any_number_of_jobs_in_any_length(tmp_path_factory, jobs, seed, days):
    path = tmp_path_factory.mktemp("synth") / "t.parquet"
    result = synthetic(workload(300), path, jobs=jobs, seed=seed, days=days)
    drawn = rows(path)
    assert drawn.height == jobs == drawn["job_id"].n_unique()
    assert drawn.schema == pl.Schema(CANONICAL)
    assert drawn["submit_time"].is_sorted()
    read_trace(path)  # keeps every rule of the schema
    if days is not None:
        assert result.span_s <= days * 86400


def test_a_preset_in_a_tenth_of_a_second_comes_all_at_once(tmp_path):
    result = synthesize(preset_model("kalos"), Request(3000, days=1e-6), tmp_path / "t.parquet")
    assert rows(tmp_path / "t.parquet")["submit_time"].n_unique() == 1
    assert "interarrival.scv" not in by_key(result)


def test_running_jobs_run_past_the_last_submission(tmp_path):
    trace = workload(2000)
    late = pl.int_range(pl.len()) >= 1900
    trace = support_traces.in_memory(
        trace.jobs.with_columns(
            pl.when(late)
            .then(pl.lit("running"))
            .otherwise("state")
            .cast(CANONICAL["state"])
            .alias("state")
        ),
        support_synth.ZONE,
    )
    synthetic(trace, tmp_path / "t.parquet")
    drawn = rows(tmp_path / "t.parquet")
    running = drawn.filter(pl.col("state") == "running")
    assert 0 < running.height <= 100
    end_s = running["submit_time"].dt.epoch("us") / 1e6 + running["queue_s"] + running["duration_s"]
    snapshot_s = drawn["submit_time"].max().timestamp()
    assert (snapshot_s - end_s).is_between(0, 1).all()


def test_jobs_that_ended_keep_the_longest_durations_though_others_still_run(tmp_path):
    """Of 4,000 jobs one in twenty runs for ten days: were they the ones to be cut, none would."""
    rng = np.random.default_rng(3)
    count = 4000
    duration = np.where(rng.random(count) < 0.05, 864_000.0, 60.0)
    state = np.where(rng.random(count) < 0.1, "running", "completed")
    duration = np.where(state == "running", 3600.0, duration)
    arrivals = support_synth.poisson
    trace = workload(count, arrivals=arrivals, duration_s=duration, state=state)
    result = by_key(synthetic(trace, tmp_path / "t.parquet"))
    assert result["duration_s.mean"].verdict == "within"
    drawn = rows(tmp_path / "t.parquet")
    long = drawn.filter(pl.col("state") == "completed")["duration_s"] > 800_000
    assert long.mean() == pytest.approx(0.05, abs=0.01)
    assert (drawn["state"] == "running").sum() > 100


def test_a_trace_without_durations(tmp_path):
    trace = workload(800, duration_s=[None] * 800, state=["unknown"] * 800)
    result = synthetic(trace, tmp_path / "t.parquet")
    drawn = rows(tmp_path / "t.parquet")
    assert drawn["duration_s"].null_count() == 800
    assert not any(key.startswith("duration_s") for key in by_key(result))
    assert by_key(result)["interarrival.scv"].verdict == "within"
    assert drawn["job_class"].n_unique() == 2


def test_never_started_jobs_stay_without_a_duration(tmp_path):
    rng = np.random.default_rng(0)
    never = rng.random(4000) < 0.2
    duration = np.where(never, None, np.rint(rng.exponential(300, 4000)))
    state = np.where(never, "not_started", "completed")
    trace = workload(4000, duration_s=list(duration), state=list(state))
    synthetic(trace, tmp_path / "t.parquet")
    drawn = rows(tmp_path / "t.parquet")
    assert drawn["duration_s"].null_count() / 4000 == pytest.approx(0.2, abs=0.03)
    assert (drawn["duration_s"].is_null() == (drawn["state"] == "not_started")).all()


def test_one_job_needs_a_length(tmp_path):
    trace = support_traces.in_memory(
        support_traces.frame([0], duration_s=[90.0], num_gpus=[4.0]), support_synth.ZONE
    )
    with pytest.raises(UsageError, match="--days"):
        synthetic(trace, tmp_path / "t.parquet", jobs=10)
    result = synthetic(trace, tmp_path / "t.parquet", jobs=1000, days=2)
    drawn = rows(tmp_path / "t.parquet")
    assert drawn["num_gpus"].unique().to_list() == [4.0]
    assert drawn["duration_s"].is_between(90, 91).all()  # 91 where all else would be recorded
    assert 86400 < result.span_s < 2 * 86400
    gaps = characterize(read_trace(tmp_path / "t.parquet")).interarrival
    assert gaps.scv == pytest.approx(1, abs=0.2)  # nothing but Poisson is known of one job
    synthetic(trace, tmp_path / "one.parquet", jobs=1)
    assert rows(tmp_path / "one.parquet").height == 1


def test_jobs_that_came_all_at_once_do_so_again(tmp_path):
    trace = workload(50, arrivals=lambda rng, n: np.zeros(n))
    synthetic(trace, tmp_path / "t.parquet", jobs=70)
    assert rows(tmp_path / "t.parquet")["submit_time"].n_unique() == 1


def test_a_source_without_a_calendar_stays_without(tmp_path):
    trace = workload(500)
    relative = Provenance(source_format="canonical", relative_time=True)
    trace = support_traces.in_memory(trace.jobs, relative)
    synthetic(trace, tmp_path / "t.parquet")
    read = read_trace(tmp_path / "t.parquet")
    assert read.provenance.relative_time and read.provenance.time_zone is None
    assert read.jobs["submit_time"][0].year == 1970


def test_fractional_gpus_and_many_classes(tmp_path):
    rng = np.random.default_rng(1)
    trace = workload(
        3000,
        num_gpus=list(rng.choice([0.25, 0.5, 1.0], 3000)),
        job_class=[f"c{n}" for n in rng.integers(0, 200, 3000)],
    )
    result = synthetic(trace, tmp_path / "t.parquet")
    drawn = rows(tmp_path / "t.parquet")
    assert set(drawn["num_gpus"].unique()) == {0.25, 0.5, 1.0}
    assert drawn["job_class"].n_unique() == 51  # fifty by name and the rest as one
    assert by_key(result)["duration_s.p50"].verdict == "within"


cell = st.fixed_dictionaries(
    {
        "submit_s": st.integers(0, 10**6) | st.sampled_from([0, 60, 3600]),
        "duration_s": st.none() | st.sampled_from([0.0, 1.0, 30.5, 1e7]) | st.floats(0, 1e9),
        "queue_s": st.none() | st.sampled_from([0.0, 7.0]) | st.floats(0, 1e6),
        "num_gpus": st.sampled_from([0.0, 0.5, 1.0, 8.0, 2048.0]),
        "user": st.none() | st.sampled_from("ab"),
        "group": st.none() | st.sampled_from("xy"),
        "job_class": st.none() | st.sampled_from(["Eval", ""]),
        "state": st.sampled_from(["completed", "running", "not_started", "unknown"]),
    }
)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.lists(cell, min_size=1, max_size=40), st.integers(1, 60), st.booleans())
def test_any_trace_can_be_imitated(tmp_path_factory, drawn, jobs, calendar):
    columns = {name: [row[name] for row in drawn] for name in drawn[0]}
    columns |= {"num_workers": [1] * len(drawn), "attempts": [1] * len(drawn)}
    frame = support_traces.frame(columns.pop("submit_s"), **columns)
    provenance = support_synth.ZONE if calendar else Provenance("canonical", relative_time=True)
    trace = support_traces.in_memory(frame, provenance)
    path = tmp_path_factory.mktemp("any") / "t.parquet"
    result = synthetic(trace, path, jobs=jobs, days=3)
    read = read_trace(path)
    assert read.rows == jobs
    characterize(read)
    timed = read.jobs["duration_s"].drop_nulls()
    assert timed.is_empty() or timed.max() <= 1.2e9
    assert all(row.synthetic == row.synthetic for row in result.compared)
    (path.parent / "m.json").write_text(result.model.to_json())
    assert read_model(path.parent / "m.json") == result.model


def test_more_cells_than_a_model_keeps(tmp_path):
    trace = workload(4000, num_gpus=list(np.arange(4000) % 2500 / 100))
    synthetic(trace, tmp_path / "t.parquet")
    drawn = rows(tmp_path / "t.parquet")
    assert 900 < drawn.select("num_gpus", "job_class").n_unique() <= 1000
    assert set(drawn["num_gpus"]) <= set(trace.jobs["num_gpus"])
