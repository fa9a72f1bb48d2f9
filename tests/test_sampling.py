"""What --sample says of the load: what the sample really has, and what restores it."""

import json
import re

import numpy as np
import polars as pl
import pytest
from support_traces import frame, write

from gpuplan.analysis.job_table.sampling import load_gpus
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import read_trace

COMMANDS = {
    "characterize": (),
    "simulate": ("--policy", "fifo", "--gpus", 64),
    "sweep": ("--threshold", "60", "--resamples", 0),
    "compare": ("--policy", "fifo:gpus=64"),
    "pareto": ("--no-replay",),
}


@pytest.fixture
def uneven(tmp_path):
    """A hundred jobs, one a minute: one in ten holds 8 GPUs for an hour, the others 1 for 10 s."""
    wide = np.arange(100) % 10 == 0
    jobs = frame(
        [60 * i for i in range(100)],
        duration_s=np.where(wide, 3600.0, 10.0).tolist(),
        num_gpus=np.where(wide, 8.0, 1.0).tolist(),
        job_class=["a"] * 100,
        state=["completed"] * 100,
    )
    return write(tmp_path / "uneven.parquet", jobs)


def measured(path, selection):
    """The load of some jobs of a trace over that of all of them."""
    whole, part = (read_trace(path, one).jobs for one in (None, selection))
    return load_gpus(part, include_running=False) / load_gpus(whole, include_running=False)


def test_the_load_is_gpu_time_over_the_span_of_submissions(uneven):
    jobs = read_trace(uneven).jobs
    assert load_gpus(jobs, include_running=False) == (10 * 8 * 3600 + 90 * 10) / (99 * 60)


@pytest.mark.parametrize("seed", range(4))
def test_the_share_of_the_load_is_not_that_of_the_jobs(uneven, seed):
    (note,) = read_trace(uneven, Selection(sample=20, seed=seed)).notes
    share = measured(uneven, Selection(sample=20, seed=seed))
    assert note.startswith("20 of 100 jobs sampled over the whole span: the load is ")
    assert f"is {share:.3g} times the trace's; --scale-interarrival {share:.3g} restores" in note
    again = Selection(sample=20, seed=seed, scale_interarrival=float(f"{share:.3g}"))
    assert measured(uneven, again) == pytest.approx(1, rel=5e-3)
    (note,) = read_trace(uneven, again).notes
    assert note.endswith(f"with --scale-interarrival {share:.3g} the load is that of the trace")


def test_other_scales_count_in_the_load_that_is_said(uneven):
    chosen = Selection(sample=20, seed=1, scale_duration=0.5, scale_interarrival=0.1)
    (note,) = read_trace(uneven, chosen).notes
    now = measured(uneven, chosen)
    assert now == pytest.approx(5 * measured(uneven, Selection(sample=20, seed=1)))
    given = "with --scale-duration 0.5 --scale-interarrival 0.1 the load is"
    assert f"{given} {now:.3g} times the trace's" in note
    restores = float(re.search(r"--scale-interarrival (\S+) restores it", note)[1])
    assert restores == pytest.approx(0.1 * now, rel=5e-3)


def test_jobs_still_running_are_told_apart_where_they_matter(tmp_path):
    jobs = frame(
        [0, 60, 120, 180],
        duration_s=[100.0, 100.0, 9000.0, 100.0],
        num_gpus=[1.0] * 4,
        state=["completed", "completed", "running", "completed"],
    )
    path = write(tmp_path / "t.parquet", jobs)
    for seed in range(5):
        (note,) = read_trace(path, Selection(sample=3, seed=seed)).notes
        whole, part = (
            load_gpus(read_trace(path, one).jobs, include_running=True)
            for one in (None, Selection(sample=3, seed=seed))
        )
        message = f"({part / whole:.3g} times with jobs still running)"
        assert (message in note) == ("running)" in note)
    assert "running)" in note


@pytest.mark.parametrize(
    "columns",
    [
        {"submit": range(4), "duration_s": [None] * 4},
        {"submit": [0] * 4, "duration_s": [10.0] * 4},
        {"submit": range(4), "duration_s": [10.0] * 4, "num_gpus": [0.0] * 4},
    ],
    ids=["no durations", "all at once", "no GPUs"],
)
def test_a_load_that_cannot_be_measured_is_not_told(tmp_path, columns):
    submit = [60 * i for i in columns.pop("submit")]
    jobs = frame(submit, **{"num_gpus": [1.0] * 4, **columns}).cast({"duration_s": pl.Float64})
    (note,) = read_trace(write(tmp_path / "t.parquet", jobs), Selection(sample=2)).notes
    assert note == (
        "2 of 4 jobs sampled over the whole span: their load cannot be compared with the trace's"
    )


def test_columns_of_the_load_are_not_kept(uneven):
    jobs = read_trace(uneven, Selection(sample=5), columns=["user"]).jobs
    assert jobs.columns == ["submit_time", "user"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_the_load_that_its_sample_has(gpuplan, uneven, command):
    asked = (command, uneven, "--sample", 20, "--seed", 1, *COMMANDS[command])
    code, out, err = gpuplan(*asked, "--output-format", "json")
    assert code == 0, err
    share = measured(uneven, Selection(sample=20, seed=1))
    (note,) = [text for text in json.loads(out)["warnings"] if "restores it" in text]
    assert f"--scale-interarrival {share:.3g} restores it" in note
