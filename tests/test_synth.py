"""Whole synthetic traces: like the original, the same for the same seed."""

import numpy as np
import polars as pl
import pytest
from support_synth import (
    bursty,
    by_key,
    lonely_giants,
    poisson,
    regardless_of_crowds,
    regular,
    rows,
    synthetic,
    usual,
    workload,
)

from gpuplan.analysis.base.errors import OutputError
from gpuplan.analysis.characterize import characterize
from gpuplan.analysis.synth import Request, fit_model, synthesize
from gpuplan.analysis.trace.trace import read_trace


@pytest.fixture(scope="module")
def original():
    return usual()


@pytest.mark.parametrize("arrivals", [poisson, regular, bursty])
def test_the_original_s_burstiness_comes_back_in_the_file(arrivals, tmp_path):
    trace = workload(3000, arrivals=arrivals)
    synthetic(trace, tmp_path / "t.parquet")
    drawn = characterize(read_trace(tmp_path / "t.parquet")).interarrival
    recorded = characterize(trace).interarrival
    assert drawn.scv == pytest.approx(recorded.scv, rel=0.1, abs=0.05)
    assert drawn.zero_share == pytest.approx(recorded.zero_share, abs=0.01)


def test_classes_and_widths_keep_their_shares_and_their_durations(original, tmp_path):
    synthetic(original, tmp_path / "t.parquet")

    def table(jobs):
        return (
            jobs.group_by("job_class", "num_gpus")
            .agg(
                pl.len().alias("jobs"),
                pl.col("duration_s").mean(),
                pl.col("duration_s").median().alias("p50"),
            )
            .sort("job_class", "num_gpus")
        )

    here, there = table(rows(tmp_path / "t.parquet")), table(original.jobs)
    assert here["jobs"].to_list() == there["jobs"].to_list()
    for name in ("duration_s", "p50"):
        np.testing.assert_allclose(here[name], there[name], rtol=0.06)


def test_what_goes_with_a_gpu_count_stays_with_it(original, tmp_path):
    synthetic(original, tmp_path / "t.parquet")
    pairs = rows(tmp_path / "t.parquet").select("num_gpus", "num_workers", "gpu_type").unique()
    recorded = original.jobs.select("num_gpus", "num_workers", "gpu_type").unique()
    assert pairs.join(recorded, on=pairs.columns, how="anti").is_empty()


def test_states_depend_on_the_duration(original, tmp_path):
    synthetic(original, tmp_path / "t.parquet")
    jobs = rows(tmp_path / "t.parquet")
    long, short = (
        jobs.filter(pl.col("duration_s") > 600),
        jobs.filter(pl.col("duration_s") <= 600),
    )
    assert (long["state"] == "completed").mean() == pytest.approx(0.2, abs=0.05)
    assert (short["state"] == "completed").mean() == pytest.approx(0.6, abs=0.05)


def test_users_have_habits(original, tmp_path):
    """Users' median durations differ, jobs in a row are of one user, activity is unequal."""
    synthetic(original, tmp_path / "t.parquet", jobs=20_000)
    jobs = rows(tmp_path / "t.parquet")
    activity = jobs["user"].value_counts(sort=True)["count"]
    assert activity[0] > 5 * activity[-1]
    again = (jobs["user"] == jobs["user"].shift()).mean()
    assert again > 0.75 > 0.35 > (activity / activity.sum()).pow(2).sum()
    logs = jobs.with_columns(pl.col("duration_s").add(1).log())
    spread = logs.group_by("user").agg(pl.col("duration_s").mean())["duration_s"].std()
    shuffled = logs.with_columns(pl.col("user").shuffle(seed=1))
    assert (
        spread > 3 * shuffled.group_by("user").agg(pl.col("duration_s").mean())["duration_s"].std()
    )
    assert set(jobs["group"].unique()) == {"group-1", "group-2"}
    assert not set(jobs["user"]) & set(original.jobs["user"])


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(original, tmp_path):
    files = [tmp_path / f"{n}.parquet" for n in range(3)]
    for path, seed in zip(files, (7, 7, 8), strict=True):
        synthetic(original, path, seed=seed)
    first, second, third = (path.read_bytes() for path in files)
    assert first == second != third
    assert rows(files[0]).drop("job_id").equals(rows(files[2]).drop("job_id")) is False


def test_the_file_says_what_it_is(original, tmp_path):
    synthetic(original, tmp_path / "t.parquet", seed=3)
    provenance = read_trace(tmp_path / "t.parquet").provenance
    assert provenance.source_format == "synthetic" and provenance.time_zone == "+08:00"
    assert "none was recorded" in provenance.notes[0]
    assert "seed 3" in provenance.notes[1]
    assert provenance.rows_kept == original.jobs.height
    assert not provenance.relative_time


def test_a_failure_leaves_nothing(original, tmp_path):
    with pytest.raises(OutputError):
        synthetic(original, tmp_path / "no" / "t.parquet")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_long_wide_jobs_come_when_few_others_do(tmp_path):
    """Drawn regardless of that, they come together in bursts, and hold far more GPUs there."""
    model = fit_model(lonely_giants())

    def held(model, seed):
        drawn = by_key(synthesize(model, Request(8000, seed), tmp_path / "t.parquet"))
        found = drawn["load.p95_gpus"], drawn["load.peak_gpus"]
        return [row.synthetic / row.original for row in found]

    p95, peak = np.mean([held(model, seed) for seed in range(4)], axis=0)
    assert p95 == pytest.approx(1, abs=0.25)
    assert peak < 1.9
    p95, peak = np.mean([held(regardless_of_crowds(model), seed) for seed in range(4)], axis=0)
    assert p95 > 1.5 and peak > 2.2
