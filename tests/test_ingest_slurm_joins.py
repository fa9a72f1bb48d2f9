"""Slurm's jobs of several rows: components, requeues, overlapping dumps."""

import json

import pytest
from support_ingest import ingest_text, utc
from support_schedulers import SACCT_JOBS
from support_slurm import HEADER, at, log, notes, run

from gpuplan.analysis.reading import delimited


def test_components_of_a_heterogeneous_job_add_up(tmp_path):
    text = log(
        {"JobID": "5+0", "AllocTRES": "cpu=4,gres/gpu=2", "Elapsed": "01:00"},
        {"JobID": "5+0.batch", "User": ""},
        {"JobID": "6"},
        {"JobID": "5+1", "AllocTRES": "cpu=4,gres/gpu:a100=6", "NNodes": "3", "Elapsed": "00:50"},
    )
    jobs, result, rejects = ingest_text(tmp_path, text)
    assert rejects is None
    assert jobs.select("job_id", "num_gpus", "num_workers", "duration_s", "attempts").rows() == [
        ("6", 4.0, 1, 60.0, 1),
        ("5", 8.0, 4, 60.0, 1),
    ]
    assert jobs["gpu_type"].to_list() == [None, "A100"]
    provenance = result.provenance
    assert (provenance.rows_read, provenance.rows_kept, result.rows_by_source) == (2, 2, (2,))
    assert [n for what, n in notes(result).items() if "joined" in what] == ["1"]


def test_notes_count_jobs_after_rows_are_joined(tmp_path):
    mixed, waiting = "gres/gpu:a100=1,gres/gpu:t4=1", {"Start": "Unknown", "End": "Unknown"}
    text = log(
        {"JobID": "704+0", "AllocTRES": "gres/gpu:a100=4"},
        {"JobID": "704+1", "AllocTRES": "gres/gpu:v100=2"},
        # Two runs on several types, one job; and one whose other run tells the type.
        {"JobID": "8", "AllocTRES": mixed, **run(9, "NODE_FAIL")},
        {"JobID": "8", "AllocTRES": mixed, **run(11, "COMPLETED")},
        {"JobID": "9", "AllocTRES": mixed, **run(9, "NODE_FAIL")},
        {"JobID": "9", "AllocTRES": "gres/gpu:t4=2", **run(11, "COMPLETED")},
        # Three components that wait are one job that never started.
        *(
            {"JobID": f"10+{i}", **waiting, "State": "PENDING", "Elapsed": "00:00"}
            for i in range(3)
        ),
    )
    jobs, result, _ = ingest_text(tmp_path, text)
    assert dict(jobs.select("job_id", "gpu_type").rows()) == {
        "704": None, "8": None, "9": "T4", "10": None,
    }  # fmt: skip
    assert notes(result)["jobs with GPUs of several types (no type is kept)"] == "2"
    assert notes(result)["jobs that never started (no duration)"] == "1"


def test_a_running_job_without_a_start_has_never_started(tmp_path):
    row = {"JobID": "1", "State": "RUNNING", "Start": "Unknown", "End": "Unknown"}
    text = log({**row, "Elapsed": "00:00"}, {"JobID": "2", "State": "RUNNING", "End": "Unknown"})
    jobs, result, _ = ingest_text(tmp_path, text)
    assert jobs["state"].to_list() == ["not_started", "running"]
    assert notes(result)["jobs that never started (no duration)"] == "1"
    assert notes(result)["jobs still running (their duration is a lower bound)"] == "1"
    job = {**SACCT_JOBS[0], "state": {"current": ["RUNNING"]}}
    job["time"] = {**job["time"], "start": 0, "end": 0, "elapsed": 0}
    jobs, result, _ = ingest_text(tmp_path, json.dumps({"jobs": [job]}), "log.json")
    assert jobs["state"].to_list() == ["not_started"]
    assert "jobs still running (their duration is a lower bound)" not in notes(result)


def test_runs_after_requeues_are_attempts_of_one_job(tmp_path):
    text = log(
        run(12, "COMPLETED", JobID="8_2", AllocTRES="gres/gpu=2"),
        run(8, "PREEMPTED", JobID="8_2"),
        run(10, "NODE_FAIL", JobID="8_2", Elapsed="04:00"),
        run(8, "COMPLETED", JobID="8_3"),
    )
    jobs, result, _ = ingest_text(tmp_path, text)
    job = jobs.row(1, named=True)
    assert jobs["job_id"].to_list() == ["8_3", "8_2"]
    assert (job["submit_time"], job["queue_s"]) == (utc(2026, 1, 10, 8), 300.0)
    assert (job["duration_s"], job["attempts"]) == (1440.0, 3)
    assert (job["state"], job["source_state"]) == ("completed", "COMPLETED")
    assert job["num_gpus"] == 4.0  # of the first run
    assert result.provenance.rows_read == 2


def test_a_requeued_job_that_waits_again_keeps_what_it_ran(tmp_path):
    waits = {"Start": "Unknown", "End": "Unknown", "Elapsed": "00:00", "AllocTRES": ""}
    text = log(run(8, "REQUEUED"), run(9, "PENDING", **waits))
    jobs, _, _ = ingest_text(tmp_path, text)
    row = jobs.select("state", "duration_s", "num_gpus", "attempts").row(0)
    assert row == ("preempted", 600.0, 4.0, 1)


@pytest.mark.parametrize("start", ["None", "2026-01-10T09:40:00"])
def test_a_requeued_job_that_is_cancelled_in_the_queue_keeps_what_it_ran(tmp_path, start):
    """Slurm writes its end as the Start of a job that is cancelled while it waits."""
    end = "2026-01-10T09:40:00"
    waits = {"Start": start, "End": end, "Elapsed": "00:00", "AllocTRES": ""}
    text = log(run(8, "REQUEUED"), run(9, "CANCELLED by 5", **waits))
    jobs, result, _ = ingest_text(tmp_path, text)
    row = jobs.select("state", "duration_s", "num_gpus", "attempts", "requeue_s").row(0)
    assert row == ("preempted", 600.0, 4.0, 1, None)
    assert [run["start"] is None for run in jobs["runs"][0]] == [False, True]
    assert "jobs that never started (no duration)" not in notes(result)


def test_one_run_in_the_dumps_of_two_months_counts_once(tmp_path):
    waits = {"Start": "Unknown", "End": "Unknown", "Elapsed": "00:00", "AllocTRES": ""}
    text = log(
        run(8, "COMPLETED"),
        run(8, "PENDING", **waits),
        run(8, "RUNNING", End="Unknown", Elapsed="03:00"),
        run(9, "RUNNING", JobID="2", End="Unknown", Elapsed="03:00"),
        run(9, "RUNNING", JobID="2", End="Unknown", Elapsed="05:00"),
    )
    jobs, _, _ = ingest_text(tmp_path, text)
    assert jobs.select("job_id", "state", "duration_s", "attempts").rows() == [
        ("1", "completed", 600.0, 1),
        ("2", "running", 300.0, 1),
    ]


def test_a_run_of_a_heterogeneous_job_is_all_its_components(tmp_path):
    text = log(
        run(8, "PREEMPTED", JobID="5+0"),
        run(8, "PREEMPTED", JobID="5+1"),
        run(9, "COMPLETED", JobID="5+0"),
        run(9, "COMPLETED", JobID="5+1"),
    )
    jobs, _, _ = ingest_text(tmp_path, text)
    assert jobs.select("num_gpus", "duration_s", "attempts").rows() == [(8.0, 1200.0, 2)]


def test_joining_without_a_start_column(tmp_path):
    header = "JobID|State|Submit|ElapsedRaw|AllocTRES"
    rows = [f"1|PREEMPTED|{at(8)}|60|gres/gpu=2", f"1|COMPLETED|{at(9)}|30|gres/gpu=2"]
    jobs, _, _ = ingest_text(tmp_path, "\n".join([header, *rows]))
    assert jobs.select("state", "duration_s", "num_gpus", "attempts").rows() == [
        ("completed", 90.0, 2.0, 2)
    ]
    assert jobs["queue_s"].to_list() == [None]


def test_an_id_of_two_users_is_two_jobs(tmp_path):
    text = log(
        run(8, "FAILED", JobID="7", User="ada"),
        run(10, "COMPLETED", JobID="7", User="bob", AllocTRES="gres/gpu=2"),
        run(9, "COMPLETED", JobID="7", User="ada"),
        run(9, "COMPLETED", JobID="9"),
    )
    jobs, result, rejects = ingest_text(tmp_path, text)
    assert rejects is None
    assert jobs.select("job_id", "user", "attempts", "duration_s", "num_gpus").rows() == [
        ("9", "ada", 1, 600.0, 4.0),
        ("7", "ada", 2, 1200.0, 4.0),
        ("7-2", "bob", 1, 600.0, 2.0),
    ]
    assert [n for what, n in notes(result).items() if "another user's" in what] == ["1"]
    assert result.provenance.rows_read == result.provenance.rows_kept == 3


def test_ids_are_of_an_account_and_a_cluster(tmp_path):
    for column in ("Account", "Cluster"):
        header = HEADER.replace("User", column)
        text = log(
            run(8, "FAILED", **{column: "x"}), run(9, "COMPLETED", **{column: "y"}), header=header
        )
        jobs, _, _ = ingest_text(tmp_path, text)
        assert jobs.select("job_id", "attempts").rows() == [("1", 1), ("1-2", 1)]
    header = HEADER.replace("User", "Partition")  # a requeued job may get into another partition
    text = log(run(8, "FAILED", Partition="x"), run(9, "COMPLETED", Partition="y"), header=header)
    jobs, _, _ = ingest_text(tmp_path, text)
    assert jobs["attempts"].to_list() == [2]


def test_a_job_that_loses_a_run_is_rejected_whole(tmp_path, monkeypatch):
    text = log(
        run(8, "PREEMPTED", JobID="5"),
        run(9, "COMPLETED", JobID="6"),
        run(9, "PREEMPTED", JobID="5", Start="soon"),
        run(10, "COMPLETED", JobID="5"),
        run(9, "COMPLETED", JobID="5", User="bob"),
        run(9, "COMPLETED", JobID="8+0"),
        run(9, "COMPLETED", JobID="8+1", AllocTRES="gres/gpu=x"),
        run(9, "COMPLETED", JobID="9", End="soon"),
    )
    for size in (delimited.BLOCK_BYTES, 100):
        monkeypatch.setattr(delimited, "BLOCK_BYTES", size)
        jobs, result, rejects = ingest_text(tmp_path, text)
        assert jobs.select("job_id", "user").rows() == [("6", "ada"), ("5", "bob")]
        assert rejects.select("row", "reason", "column", "found").rows() == [
            (2, "incomplete", "jobid", "5"),
            (4, "unreadable", "start", "soon"),
            (5, "incomplete", "jobid", "5"),
            (7, "incomplete", "jobid", "8"),
            (8, "unreadable", "alloctres", "gres/gpu=x"),
            (9, "unreadable", "end", "soon"),
        ]
        assert result.provenance.rows_read == 8
        assert rejects["raw"][0].startswith("5|ada|PREEMPTED")


def test_json_tells_the_cluster_of_an_id(tmp_path):
    clusters = [{**SACCT_JOBS[0], "cluster": name} for name in ("east", "west", "east")]
    jobs, _, _ = ingest_text(tmp_path, json.dumps({"jobs": clusters}), "log.json")
    assert jobs["job_id"].to_list() == ["700", "700-2"]
