"""Slurm's jobs of several rows: components, requeues, overlapping dumps."""

from support_ingest import ingest_text, utc
from support_slurm import at, log, notes, run


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
    told = result.provenance
    assert (told.rows_read, told.rows_kept, result.rows_by_source) == (2, 2, (2,))
    assert [n for what, n in notes(result).items() if "joined" in what] == ["1"]


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
