"""Memory of a characterization: a bounded number of bytes a job, and chunks that change nothing."""

from __future__ import annotations

import tracemalloc

import numpy as np
import polars as pl
import pytest
from support_traces import frame, in_memory, write

from gpuplan.analysis.characterize import COLUMNS, NAMES, characterize
from gpuplan.analysis.characterize.load import held_over_time
from gpuplan.analysis.characterize.shares import name_codes
from gpuplan.analysis.history.jobs import job_arrays
from gpuplan.analysis.statistics import chunks
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.planner.money.price_request import PriceRequest
from gpuplan.planner.studies.characterize import CharacterizeRequest
from gpuplan.planner.studies.characterize import characterize as run_study

JOBS = 20_000
BYTES_PER_JOB = 80
"""It is 70 to 75 here, a quarter of the jobs still running; 104 to 110 with a whole time line."""
BYTES_WITH_WAITS = 160
"""It is 120 to 140 here: only logs of up to two million jobs tell why jobs wait."""


def made_up(jobs: int) -> pl.DataFrame:
    rng = np.random.default_rng(7)
    missing = rng.random((3, jobs)) < 0.1
    return frame(
        np.sort(rng.integers(0, jobs, jobs)) * 60.0,
        duration_s=pl.Series(rng.lognormal(6, 2, jobs).round(2)).set(pl.Series(missing[0]), None),
        queue_s=pl.Series(rng.exponential(3000, jobs).round()).set(pl.Series(missing[1]), None),
        num_gpus=rng.choice([0.0, 0.25, 1, 8, 64], jobs),
        user=pl.Series(rng.choice(["ü", "b", "a", ""], jobs)).set(pl.Series(missing[2]), None),
        group=[f"g{i % 40}" for i in range(jobs)],
        state=rng.choice(["completed", "running", "failed", "not_started"], jobs),
    )


@pytest.mark.parametrize("jobs", [1, 2, 700])
@pytest.mark.parametrize("size", [1, 7, 256])
def test_the_length_of_a_chunk_changes_nothing(jobs, size, monkeypatch):
    trace = in_memory(made_up(jobs))
    expected = characterize(trace, top=3).summary()
    arrays = job_arrays(trace.jobs)
    line = held_over_time(arrays) if arrays.holding().any() else ()
    monkeypatch.setattr(chunks, "CHUNK", size)
    assert characterize(trace, top=3).summary() == expected
    again = held_over_time(arrays) if arrays.holding().any() else ()
    for one, other in zip(line, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_names_read_as_codes_give_the_same_tables(tmp_path):
    path = write(tmp_path / "jobs.parquet", made_up(500).sample(fraction=1.0, shuffle=True, seed=1))
    coded = read_trace(path, columns=COLUMNS, categories=NAMES)
    assert all(coded.jobs[name].dtype == pl.Categorical for name in NAMES)
    assert set(coded.jobs.n_chunks("all")) == {1}
    plain = read_trace(path, columns=COLUMNS)
    assert characterize(coded, top=2).summary() == characterize(plain, top=2).summary()


def test_codes_are_short_and_follow_the_order_of_the_names():
    codes, known = name_codes(pl.Series(["b", None, "a", "b", "ä"]))
    assert known.to_list() == ["a", "b", "ä"]
    assert codes.dtype == np.uint8 and codes.tolist() == [1, 3, 0, 1, 2]


def test_a_characterization_holds_few_bytes_a_job(monkeypatch):
    trace = in_memory(made_up(JOBS))
    check_bytes(lambda: characterize(trace), BYTES_PER_JOB, monkeypatch)


@pytest.mark.parametrize("gpu_types", [1, 3])
def test_the_command_holds_few_bytes_a_job_beside_its_columns(gpu_types, tmp_path, monkeypatch):
    jobs = made_up(JOBS).with_columns(
        gpu_type=pl.Series([f"T{i % gpu_types}" for i in range(JOBS)])
    )
    path = write(tmp_path / "jobs.parquet", jobs)
    study = CharacterizeRequest((path,), prices=PriceRequest({"": 2}))
    check_bytes(lambda: run_study(study), BYTES_WITH_WAITS, monkeypatch)
    monkeypatch.setattr("gpuplan.planner.studies.characterize.MOST_JOBS", JOBS - 1)
    check_bytes(lambda: run_study(study), BYTES_PER_JOB, monkeypatch)


def check_bytes(work, most, monkeypatch):
    """Check the bytes per job that NumPy and Python hold; those of polars do not count."""
    monkeypatch.setattr(chunks, "CHUNK", 1 << 10)
    work()  # what is imported and cached the first time does not count
    peaks = []
    while not peaks or (peaks[-1] >= most and len(peaks) < 3):  # overlapping threads add up
        tracemalloc.start()
        try:
            work()
            peaks.append(tracemalloc.get_traced_memory()[1] / JOBS)
        finally:
            tracemalloc.stop()
    assert min(peaks) < most
