"""Logs of one's own: run times from starts and ends, and the columns of an unknown table."""

import json

import pytest

from gpuplan.analysis.ingest.unknown_files import guessed_map

TIMES = "2024-01-01 00:00:00,2024-01-01 00:30:00,2024-01-01 02:30:00"


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            ["job", "start", "end", "gpus", "user"],
            ["submit_time=start", "start_time=start", "end_time=end", "num_gpus=gpus", "user=user"],
        ),
        (
            ["Id", "SubmitTime", "StartTime", "EndTime", "NumGPUs", "GPUModel"],
            ["submit_time=SubmitTime", "start_time=StartTime", "end_time=EndTime",
             "num_gpus=NumGPUs"],
        ),
        (
            ["created at", "runtime", "gpu_count"],
            ["submit_time='created at'", "duration_s=runtime", "num_gpus=gpu_count"],
        ),
        (
            ["created_by", "submit_host", "created", "submitted_at", "start_node", "started",
             "end_user", "ended", "gpu_id", "gpu", "gpus"],
            ["submit_time=submitted_at", "start_time=started", "end_time=ended", "num_gpus=gpus",
             "user=end_user"],
        ),
        (["submitted_at", "elapsed_limit", "gpus"], []),
        (["submitted_at", "elapsed_limit", "gpus", "elapsed"],
         ["submit_time=submitted_at", "duration_s=elapsed", "num_gpus=gpus"]),
        (["gpu_mem", "start", "end"], []),
        (["submit", "end", "gpus"], []),
    ],
)  # fmt: skip
def test_columns_are_guessed_by_their_words(columns, expected):
    assert guessed_map(columns) == " ".join(f"--map {one}" for one in expected)


def test_the_suggested_options_read_the_table(gpuplan, tmp_path):
    log = tmp_path / "jobs.csv"
    log.write_text(f"job,queued,start,end,gpus\na,{TIMES},2\nb,{TIMES},1\n")
    code, _, err = gpuplan("characterize", log)
    text = " ".join(err.split())
    assert code == 3 and "unrecognized log format" in text
    options = text.partition("check these columns: ")[2].split()
    out = tmp_path / "jobs.parquet"
    code, _, err = gpuplan("ingest", log, *options, "-o", out)
    assert code == 0, err
    found = json.loads(gpuplan("characterize", out, "--output-format", "json")[1])["results"]
    assert (found["today"]["mean_run_s"], found["today"]["mean_wait_s"]) == (7200, 1800)


def test_a_log_with_starts_and_ends_needs_no_run_times(gpuplan, tmp_path):
    log = tmp_path / "jobs.csv"
    log.write_text(f"submit_time,start_time,end_time,num_gpus\n{TIMES},2\n{TIMES},1\n")
    code, out, err = gpuplan("characterize", log, "--output-format", "json")
    assert code == 0, err
    today = json.loads(out)["results"]["today"]
    assert (today["mean_run_s"], today["mean_wait_s"], today["peak_gpus"]) == (7200, 1800, 3)
