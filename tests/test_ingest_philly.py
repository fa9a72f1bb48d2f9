"""Philly's job log and table; every expected value is worked out by hand."""

import gzip
import json
from pathlib import Path

import pytest
from support_ingest import (
    PHILLY_CSV,
    PHILLY_JOBS,
    PHILLY_JSON,
    ingest_text,
    utc,
)


def test_philly_table_is_pacific_time_and_keeps_equal_rows(tmp_path):
    jobs, result, _ = ingest_text(tmp_path, PHILLY_CSV)
    assert jobs["submit_time"][0] == utc(2017, 10, 11, 21, 2, 9)  # PDT is UTC-7
    assert jobs["duration_s"].to_list() == [318.0, 77120.0, 77120.0]
    assert jobs["job_id"].to_list() == ["philly-000002", "philly-000003", "philly-000004"]
    assert jobs["group"][0] == "0abc12"
    assert any(note.endswith("another job: 1") for note in result.provenance.notes)
    assert result.provenance.time_zone == "America/Los_Angeles"


def test_philly_clock_changes(tmp_path):
    header = PHILLY_CSV.splitlines()[0]
    rows = [
        "2017-11-05 00:59:59,1,1,1,a",  # still PDT
        "2017-11-05 01:30:00,1,1,1,a",  # happens twice: the earlier reading, PDT
        "2017-11-05 02:00:00,1,1,1,a",  # PST
        "2018-03-11 02:30:00,1,1,1,a",  # skipped
    ]
    jobs, _, rejects = ingest_text(tmp_path, "\n".join([header, *rows]))
    assert jobs["submit_time"].to_list() == [
        utc(2017, 11, 5, 7, 59, 59),
        utc(2017, 11, 5, 8, 30),
        utc(2017, 11, 5, 10, 0),
    ]
    assert rejects.select("row", "reason", "column", "found").rows() == [
        (5, "time_skipped_by_dst", "timestamp", "2018-03-11 02:30:00")
    ]


def test_philly_attempts(tmp_path):
    jobs, _, _ = ingest_text(tmp_path, PHILLY_JSON, "cluster_job_log")
    assert jobs["submit_time"][0] == utc(2017, 10, 5, 16, 0, 0)
    assert jobs["queue_s"].to_list() == [40.0, None, 30.0]
    assert jobs["duration_s"].to_list() == [80.0 + 60.0, None, 30.0]  # without the gap of 10 s
    assert jobs["num_gpus"].to_list() == [3.0, 0.0, 1.0]  # first attempt that tells them
    assert jobs["num_workers"].to_list() == [2, 1, 1]
    assert jobs["attempts"].to_list() == [2, 1, 2]
    assert jobs["state"].to_list() == ["cancelled", "not_started", "running"]
    assert jobs["user"].to_list() == ["c0ffee", "c0ffee", "beef01"]


def philly_runs(tmp_path, *times, detail=({"ip": "m1", "gpus": ["gpu0"]},)):
    """Return jobs, account and rejects of one job, whose attempts have these starts and ends."""
    attempts = [
        {"start_time": start, "end_time": end, "detail": list(detail)} for start, end in times
    ]
    job = {**PHILLY_JOBS[0], "submitted_time": times[0][0], "attempts": attempts}
    return ingest_text(tmp_path, json.dumps([PHILLY_JOBS[1], job]))


def test_philly_attempts_over_the_hour_that_happens_twice(tmp_path):
    night = "2017-11-05"
    jobs, _, rejects = philly_runs(
        tmp_path,
        (f"{night} 01:50:00", f"{night} 01:10:00"),  # the end an hour later: 20 min
        (f"{night} 01:20:00", f"{night} 01:40:00"),  # fits as it is: 20 min
        (f"{night} 01:30:00", f"{night} 02:00:00"),  # first occurrence: 90 min
    )
    assert rejects is None
    assert jobs["duration_s"].to_list() == [None, (20 + 20 + 90) * 60]
    times = (f"{night} 03:50:00", f"{night} 03:10:00"), (f"{night} 04:00:00", f"{night} 09:00:00")
    for wrong in [times, times[::-1], [(f"{night} 02:20:00", f"{night} 01:10:00")]]:
        _, _, rejects = philly_runs(tmp_path, *wrong)
        assert rejects.select("row", "reason").rows() == [(2, "end_before_start")]


def test_philly_jobs_that_ran_without_gpus_are_told(tmp_path):
    times = ("2017-10-05 10:00:00", "2017-10-05 11:20:00")
    jobs, result, _ = philly_runs(tmp_path, times, detail=())
    assert jobs.select("num_gpus", "duration_s", "state").row(1) == (0.0, 4800.0, "cancelled")
    notes = dict(note.rpartition(": ")[::2] for note in result.provenance.notes)
    assert notes["jobs that ran but list no GPUs (0 GPUs, as if they held none)"] == "1"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"submitted_time": None}, "missing"),
        ({"submitted_time": "None"}, "missing"),
        ({"submitted_time": "yesterday"}, "unreadable"),
        ({"jobid": None}, "missing"),
        ({"attempts": 3}, "unreadable"),
        ({"attempts": [{"detail": "m1"}]}, "unreadable"),
        ({"attempts": [{"detail": [{"gpus": 4}]}]}, "unreadable"),
        ({"attempts": [{"start_time": "soon", "end_time": None}]}, "unreadable"),
        (
            {
                "attempts": [
                    {"start_time": "2017-10-05 10:00:00", "end_time": "2017-10-05 09:00:00"}
                ]
            },
            "end_before_start",
        ),
    ],
)
def test_philly_bad_records(tmp_path, change, reason):
    text = json.dumps([PHILLY_JOBS[0], {**PHILLY_JOBS[1], **change}])
    jobs, result, rejects = ingest_text(tmp_path, text)
    assert jobs.height == 1
    assert rejects.select("row", "reason").rows() == [(2, reason)]
    assert json.loads(rejects["raw"][0])["user"] == "c0ffee"
    assert result.provenance.rows_read == 2


def test_real_philly(shared: Path, tmp_path):
    path = shared / "data/philly/philly_jobs_a.csv.gz"
    jobs, result, rejects = ingest_text(tmp_path, path.read_bytes(), "p.csv.gz")
    assert (result.provenance.source_format, jobs.height, rejects) == ("philly", 55_009, None)
    assert any(note.endswith(": 48") for note in result.provenance.notes)
    assert round(jobs["duration_s"].mean(), 1) == 12117.8
    assert round((jobs["duration_s"] * jobs["num_gpus"]).sum() / 3600, 1) == 492097.9
    text = gzip.decompress(path.read_bytes())
    assert ingest_text(tmp_path, text)[0].equals(jobs)
