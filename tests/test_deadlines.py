"""Where soft deadlines come from: the trace, the turnaround of a class, or a draw."""

import json

import numpy as np
import pytest
from support_traces import write_trace

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.planner.runs.deadlines import INFERRED_FROM
from gpuplan.planner.runs.trace_jobs import COLUMNS, jobs_of

YEAR_S = 365.25 * 86_400
DURATIONS = [10.0, 20.0, 30.0, 100.0, 50.0]
LOG = {
    "job_class": ["a", "a", "a", "b", "c"],
    "queue_s": [0.0, 30.0, 60.0, 100.0, None],
    "deadline_s": [None, 7.0, None, None, None],
}


def slack_s(path, **options):
    trace = read_trace(path, columns=[*COLUMNS, *INFERRED_FROM])
    found = jobs_of(trace, np.random.default_rng(0), **options)
    work = found.workload
    return ((work.deadline_us - work.submit_us) / 1e6).tolist(), found.notes


def test_inferred_is_the_usual_turnaround_of_the_class(tmp_path):
    path = write_trace(tmp_path / "t.parquet", range(5), DURATIONS, **LOG)
    found, notes = slack_s(path, deadlines="inferred")
    # a took 10, 50, 90 s: 9 in 10 within 50 + 0.8 x 40. All took 10, 50, 90, 200: 90 + 0.7 x 110.
    assert found == pytest.approx([82, 82, 82, 200, 167])
    assert notes == (
        "5 jobs get as soft deadline the time in which 9 in 10 jobs of their class were done when "
        "recorded",
        "1 of them that of all jobs: their class has no recorded wait",
    )


def test_a_job_still_running_tells_no_turnaround(tmp_path):
    state = ["completed", "completed", "running", "completed", "completed"]
    path = write_trace(tmp_path / "t.parquet", range(5), DURATIONS, **LOG, state=state)
    found, _ = slack_s(path, deadlines="inferred", include_running=True)
    assert found[:3] == pytest.approx([46, 46, 46])  # 10 + 0.9 x 40


def test_jobs_without_a_class_are_one(tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0, 1], [10.0, 20.0], queue_s=[0.0, 10.0])
    assert slack_s(path, deadlines="inferred")[0] == pytest.approx([28, 28])


def test_one_in_ten_is_late_where_the_trace_is_replayed_as_it_was(tmp_path):
    rng = np.random.default_rng(1)
    took = rng.lognormal(5, 1, 1000)
    path = write_trace(
        tmp_path / "t.parquet", range(1000), took, queue_s=np.zeros(1000), job_class=["x"] * 1000
    )
    found, _ = slack_s(path, deadlines="inferred")
    assert (took > np.array(found)).mean() == 0.1


def test_given_takes_a_factor_where_the_trace_has_none(tmp_path):
    path = write_trace(tmp_path / "t.parquet", range(5), DURATIONS, **LOG)
    assert slack_s(path, deadlines="given", deadline_factor=(3.0, 3.0))[0] == [30, 7, 90, 300, 150]
    assert slack_s(path, deadline_factor=(3.0, 3.0))[0] == [30, 60, 90, 300, 150]
    drawn, notes = slack_s(path, deadlines="drawn")
    assert (np.array(drawn) >= DURATIONS).all()
    assert notes == ("5 jobs get an assumed deadline sampled from 1 to 10 times their duration",)


def test_what_cannot_be_inferred_is_refused(tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0], [10.0])
    with pytest.raises(InputError, match=r"no job that is replayed has a recorded wait"):
        slack_s(path, deadlines="inferred")
    with pytest.raises(UsageError, match="leave out --deadline-factor"):
        slack_s(path, deadlines="inferred", deadline_factor=(1.0, 2.0))
    with pytest.raises(ValueError, match="one of given, inferred, drawn"):
        slack_s(path, deadlines="guessed")


@pytest.mark.kernels
def test_commands_that_replay_infer_deadlines(gpuplan, tmp_path):
    # A fifo of one GPU: done after 10, 29, 58, 157 and 206 s, and the job of class c is late.
    path = write_trace(tmp_path / "t.parquet", range(5), DURATIONS, **LOG)
    infer = ("--deadline", "inferred", "--output-format", "json")
    code, out, err = gpuplan("simulate", path, "--policy", "fifo", "--gpus", 1, *infer)
    assert code == 0, err
    document = json.loads(out)
    assert document["parameters"]["deadline"] == "inferred"
    assert document["results"]["deadline_miss_share"] == 0.2
    for command in ("sweep", "compare"):
        code, out, err = gpuplan(command, path, *infer)
        assert code == 0, err
        assert json.loads(out)["parameters"]["deadline"] == "inferred"
        assert "9 in 10 jobs of their class" in err
    code, _, err = gpuplan("sweep", path, *infer, "--deadline-factor", 3)
    assert code == 2 and "leave out --deadline-factor" in err


@pytest.mark.parametrize("rule", ["given", "drawn", "inferred"])
def test_deadlines_that_are_not_given_end_at_a_century(tmp_path, rule):
    long = 31 * YEAR_S
    path = write_trace(tmp_path / "t.parquet", [0, 1], [long, 3.0 * long], queue_s=[99 * YEAR_S, 0])
    factor = None if rule == "inferred" else (10.0, 10.0)
    found, _ = slack_s(path, deadlines=rule, deadline_factor=factor)
    assert found == [100 * YEAR_S] * 2


def test_a_given_deadline_of_more_than_a_century_is_refused(tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0], [10.0], deadline_s=[101 * YEAR_S])
    with pytest.raises(InputError, match=r"found 3187317600\.0 .*at most a century"):
        slack_s(path)


@pytest.mark.kernels
@pytest.mark.parametrize(
    "command",
    [("simulate",), ("compare", "--policy", "fifo:gpus=1"), ("sweep", "--threshold", "60")],
)
def test_a_job_of_decades_that_ingest_writes_is_replayed(gpuplan, tmp_path, command):
    log, path = tmp_path / "log.csv", tmp_path / "t.parquet"
    log.write_text(f"id,at,took,n\na,2020-01-01T00:00:00Z,{31 * YEAR_S:.0f},1\n")
    columns = {"job_id": "id", "submit_time": "at", "duration_s": "took", "num_gpus": "n"}
    maps = [word for name, own in columns.items() for word in ("--map", f"{name}={own}")]
    assert gpuplan("ingest", log, "-o", path, *maps)[0] == 0
    name, *options = command
    code, _, err = gpuplan(name, path, *options, "--deadline-factor", 10)
    assert code == 0, err
