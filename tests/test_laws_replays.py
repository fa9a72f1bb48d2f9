"""Laws that relate two replays: what must not matter, and what must scale."""

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from support_laws import SEEDS, Runs, jobs_of
from support_laws import numbers as numbers_of

pytestmark = [pytest.mark.kernels, pytest.mark.compiled]

CLASSIC = ("fifo", "first-fit", "sjf", "srtf", "las", "easy")
FREE = ("--set", "checkpoint_s=0", "--set", "restore_s=0")
"""Stops cost nothing, so that a policy has no time constant of its own."""
WITHOUT_CLOCK = ("fifo", "first-fit", "sjf", "smallest", "srtf")


@pytest.fixture
def runs(gpuplan, tmp_path):
    return Runs(gpuplan, tmp_path)


@pytest.fixture(params=SEEDS)
def jobs(request):
    return jobs_of(request.param)


@pytest.fixture
def policy(jobs):
    """One of the policies, another for each trace."""
    return CLASSIC[jobs.height % len(CLASSIC)]


def test_weeks_later_is_the_same_replay(runs, jobs, policy):
    later = jobs.with_columns(pl.col("submit_time").dt.offset_by("3w"))
    assert runs.replay(jobs, policy, 16).equals(runs.replay(later, policy, 16))


def test_the_order_of_rows_does_not_matter(runs, jobs, policy):
    mixed = jobs.sample(fraction=1.0, shuffle=True, seed=1)
    assert runs.replay(jobs, policy, 16).equals(runs.replay(mixed, policy, 16))
    size = ("--policy", policy, "--policy", "allpass", "--cluster", "16")
    assert runs.run("compare", jobs, *size) == runs.run("compare", mixed, *size)


@pytest.mark.parametrize("policy", WITHOUT_CLOCK)
def test_time_scales(runs, jobs, policy):
    twice = ("--scale-duration", "2", "--scale-interarrival", "2")
    once = runs.replay(jobs, policy, 16, *FREE)
    scaled = runs.replay(jobs, policy, 16, *FREE, *twice)
    for column in ("submit_s", "start_s", "finish_s", "jct_s", "jqt_s", "gpu_s"):
        np.testing.assert_allclose(scaled[column], 2 * once[column], rtol=1e-12, atol=1e-6)


@pytest.mark.parametrize("policy", WITHOUT_CLOCK)
def test_gpus_scale(runs, jobs, policy):
    doubled = jobs.with_columns(num_gpus=pl.col("num_gpus") * 2)
    once, twice = runs.replay(jobs, policy, 16), runs.replay(doubled, policy, 32)
    assert once["start_s"].equals(twice["start_s"])
    assert (2 * once["gpu_s"]).equals(twice["gpu_s"])


def test_later_jobs_change_nothing_before(runs, jobs, policy):
    half = jobs.height // 2
    cut_s = (jobs["submit_time"][half] - jobs["submit_time"][0]).total_seconds()
    whole, first = runs.replay(jobs, policy, 16), runs.replay(jobs[:half], policy, 16)
    done = first["finish_s"] < cut_s
    assert done.sum() > half / 4
    columns = ["job_id", "start_s", "finish_s", "gpu_s", "preemptions"]
    assert whole[:half].filter(done)[columns].equals(first.filter(done)[columns])


def test_more_gpus_start_no_job_of_fifo_later(runs, jobs):
    starts = [runs.replay(jobs, "fifo", gpus)["start_s"].to_numpy() for gpus in (8, 9, 16, 64)]
    for fewer, more in pairwise(starts):
        assert (more <= fewer).all()


def test_with_room_for_all_nobody_waits(runs, jobs, policy):
    rows = runs.replay(jobs, policy, int(jobs["num_gpus"].sum()))
    assert (rows["jqt_s"] == 0).all()
    assert rows["jct_s"].to_list() == jobs.sort("job_id")["duration_s"].to_list()


@pytest.mark.parametrize("policy", ["fifo", "first-fit", "smallest", "las", "easy", "conservative"])
def test_gpu_time_in_is_gpu_time_out(runs, jobs, policy):
    stops = () if policy in ("easy", "conservative") else FREE
    rows = runs.replay(jobs, policy, 16, *stops)
    held_s = jobs.sort("job_id").select(pl.col("duration_s") * pl.col("num_gpus")).to_series()
    np.testing.assert_allclose(rows["gpu_s"], held_s, rtol=1e-9)
    assert (rows["start_s"] >= rows["submit_s"]).all()


def test_names_of_people_do_not_matter(runs, jobs, policy):
    renamed = jobs.with_columns(user=pl.lit("x") + pl.col("user"), group=pl.lit("one"))
    assert (
        runs.replay(jobs, policy, 16)
        .select("job_id", "start_s", "finish_s")
        .equals(runs.replay(renamed, policy, 16).select("job_id", "start_s", "finish_s"))
    )


def test_compare_says_what_simulate_says(runs, jobs):
    policies = ("fifo", "srtf", "allpass", "fixed-width")
    words = [word for policy in policies for word in ("--policy", policy)]
    rows = runs.run("compare", jobs, *words, "--cluster", "16")["policies"]
    for policy, row in zip(policies, rows, strict=True):
        alone = runs.run("simulate", jobs, "--policy", policy, "--cluster", "16")
        both = (row.keys() & alone.keys()) - {"today"}
        assert len(both) > 15
        assert {key: row[key] for key in both} == {key: alone[key] for key in both}


def test_every_share_is_a_share(runs, jobs):
    words = [word for policy in (*CLASSIC, "allpass", "hpa") for word in ("--policy", policy)]
    results = runs.run("compare", jobs, *words, "--cluster", "16")
    shares = {
        path: value
        for path, value in numbers_of(results)
        if path.endswith(("_share", ".utilization"))
    }
    assert shares
    assert not {path: value for path, value in shares.items() if not 0 <= value <= 1}


def test_size_grows_with_what_is_asked(runs, jobs):
    def gpus(target, *options):
        words = ("--target", target, "--ci", "0", *options)
        results = runs.run("size", jobs.drop("queue_s"), *words)
        return results["gpus"]

    found = [gpus(f"mean_wait <= {limit}") for limit in ("2h", "20m", "2m", "0s")]
    assert found == sorted(found)


def test_a_sample_of_all_is_all(runs, jobs, policy):
    every = ("--sample", str(jobs.height))
    assert runs.replay(jobs, policy, 16).equals(runs.replay(jobs, policy, 16, *every))
