"""What each format makes of its rows; every expected value is worked out by hand."""

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from support_ingest import (
    CANONICAL_CSV,
    KALOS,
    LOGS,
    PHILLY_CSV,
    PHILLY_JOBS,
    PHILLY_JSON,
    SEREN,
    SIA,
    WANDB_CSV,
    WANDB_JSON,
    WANDB_JSONL,
    WANDB_RUNS,
    ingest_text,
)

from gpuplan.analysis.errors import InputError, UsageError
from gpuplan.analysis.gpu_names import gpu_name
from gpuplan.analysis.ingest.registry import FORMATS
from gpuplan.analysis.schema import CANONICAL


def utc(*parts):
    return datetime(*parts, tzinfo=UTC)


@pytest.mark.parametrize("log", LOGS)
def test_a_good_log_is_recognized_and_kept_whole(tmp_path, log):
    name, file, text = LOGS[log]
    jobs, result, rejects = ingest_text(tmp_path, text, file)
    assert result.provenance.source_format == name
    assert dict(jobs.schema) == CANONICAL
    assert jobs.height == result.provenance.rows_kept == result.provenance.rows_read > 0
    assert rejects is None
    assert jobs["job_id"].n_unique() == jobs.height


def test_seren(tmp_path):
    jobs, result, _ = ingest_text(tmp_path, SEREN)
    assert jobs["submit_time"][0] == utc(2023, 4, 2, 2, 0, 0)  # 10:00 at +08:00
    assert jobs["queue_s"].to_list() == [1.0, 20.0, 0.0, None, 30.0]
    assert jobs["duration_s"].to_list() == [14.0, 7200.0, 0.0, None, None]
    assert jobs["num_gpus"].to_list() == [0.0, 32.0, 8.0, 8.0, 8.0]
    assert jobs["num_workers"].to_list() == [1, 4, 1, 1, 1]
    states = ["completed", "cancelled", "timeout", "not_started", "running"]
    assert jobs["state"].to_list() == states
    assert jobs["source_state"].to_list()[3] == "CANCELLED"
    assert jobs["job_class"].to_list()[1] == "Pretrain"
    assert result.provenance.notes == ("jobs that never started (no duration): 1",)
    assert result.provenance.time_zone == "+08:00"


def test_seren_clock_errors(tmp_path):
    header, first, second, *_ = SEREN.splitlines()
    rows = [
        first.replace("10:00:00+08", "10:00:05+08"),  # starts 4 s before its submission
        second.replace("2023-04-02 12:05:20+08:00,", ","),  # cancelled, but without an end
    ]
    jobs, result, rejects = ingest_text(tmp_path, "\n".join([header, *rows]))
    assert jobs.select("queue_s", "duration_s").rows() == [(None, 14.0)]
    assert result.provenance.notes == (
        "jobs that start before their submission (no wait recorded): 1",
    )
    assert rejects.select("row", "reason", "column").rows() == [(3, "missing", "end_time")]


def test_kalos_takes_end_minus_start_and_tells_its_own_durations(tmp_path):
    jobs, result, _ = ingest_text(tmp_path, KALOS)
    assert result.provenance.source_format == "kalos"
    assert jobs["duration_s"].to_list() == [48.0, 60.0]  # the first says 60: its wait included
    assert jobs["queue_s"].to_list() == [12.0, 0.0]
    assert [note.rpartition(": ")[2] for note in result.provenance.notes] == ["1"]
    assert "own duration" in result.provenance.notes[0]


def test_the_durations_of_the_log_itself(tmp_path):
    jobs, result, _ = ingest_text(tmp_path, KALOS, own_durations=True)
    assert jobs["duration_s"].to_list() == [60.0, 60.0]  # the first waited for 12 s of them
    assert jobs["queue_s"].to_list() == [12.0, 0.0]
    assert result.provenance.notes == (
        "durations are those of the log's own column duration, not end - start",
        "rows whose own duration is not end - start by more than 1 s (the own one counts): 1",
    )
    # One that never started has none, whatever the column says; one still running may have one.
    told = SEREN.replace(",,120,", ",7,120,").replace("+08:00,,,30", "+08:00,,99,30")
    jobs, _, _ = ingest_text(tmp_path, told, own_durations=True)
    assert jobs["duration_s"].to_list() == [14.0, 7200.0, 0.0, None, 99.0]
    _, _, rejects = ingest_text(tmp_path, KALOS.replace(",60,12", ",-60,12"), own_durations=True)
    assert rejects.select("row", "reason", "column").rows() == [
        (2, "negative_duration", "duration")
    ]
    with pytest.raises(UsageError, match="--duration source: the format philly"):
        ingest_text(tmp_path, PHILLY_CSV, own_durations=True)


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


def test_sia_has_relative_times_and_no_durations(tmp_path):
    jobs, result, _ = ingest_text(tmp_path, SIA)
    assert jobs["submit_time"].dt.epoch("us").to_list() == [61_000_000, 95_500_000]
    assert jobs["duration_s"].to_list() == [None, None]
    assert jobs["job_class"].to_list() == ["cifar10", "bert"]
    assert result.provenance.relative_time
    assert result.provenance.time_zone is None


def test_wandb_table(tmp_path):
    jobs, result, _ = ingest_text(tmp_path, WANDB_CSV)
    assert jobs["submit_time"][0] == utc(2026, 2, 3, 8, 15, 42)
    assert jobs["duration_s"].to_list() == [1834.0, 41.0, 600.0, None]
    assert jobs["num_gpus"].to_list() == [4.0, 4.0, 1.0, 1.0]  # "" and "auto" tell none
    assert jobs["state"].to_list() == ["completed", "failed", "running", "cancelled"]
    # The third run's notes span two lines, so the fourth starts on line 6.
    assert jobs["job_id"].to_list()[2:] == ["wandb-000004", "wandb-000006"]
    notes = dict(note.rpartition(": ")[::2] for note in result.provenance.notes if ": " in note)
    assert notes["runs that tell no GPU count (1 is assumed)"] == "2"


def test_wandb_id_column_and_prefixed_gpu_count(tmp_path):
    text = (
        "ID,Created,Runtime,trainer.Num GPUs,GPU Type\nab,2026-01-01T00:00:00Z,5,2.0,Tesla V100\n"
    )
    jobs, _, _ = ingest_text(tmp_path, text)
    row = jobs.select("job_id", "num_gpus", "gpu_type", "state").row(0)
    assert row == ("ab", 2.0, "V100", "unknown")


@pytest.mark.parametrize("text", [WANDB_JSON, WANDB_JSONL], ids=["array", "lines"])
def test_wandb_records(tmp_path, text):
    jobs, _, _ = ingest_text(tmp_path, text, "runs.json")
    assert jobs["job_id"].to_list() == ["a1b2c3d4", "a1b2c3d5", "a1b2c3d6"]
    assert jobs["duration_s"].to_list() == [1834.0, 41.0, 12.25]
    assert jobs["num_gpus"].to_list() == [8.0, 2.0, 1.0]
    assert jobs["gpu_type"].to_list() == ["A100-80GB", None, None]
    assert jobs["user"].to_list() == ["kim", "kim", None]


A100 = {"name": "NVIDIA A100-SXM4", "memoryTotal": "85899345920"}
SMALL_A100 = {"name": "NVIDIA A100-PCIE", "memoryTotal": 42949672960}


@pytest.mark.parametrize(
    ("metadata", "config", "gpus", "gpu_type"),
    [
        ({"gpu_nvidia": [A100, A100]}, {"gpus": 1}, 2.0, "A100-80GB"),
        ({"gpu_nvidia": [SMALL_A100], "gpu_count": 4}, {}, 4.0, "A100-40GB"),
        ({"gpu_nvidia": [A100], "gpu": "NVIDIA A100"}, {}, 1.0, "A100-80GB"),
        ({"gpu_nvidia": [{"name": "Tesla T4", "memoryTotal": "much"}]}, {}, 1.0, "T4"),
        ({"gpu_nvidia": [{"memoryTotal": 1}] * 3}, {"gpu_name": "L4"}, 3.0, "L4"),
        ({"gpu_nvidia": []}, {"gpus": 2, "trainer.GPU Type": "Tesla V100"}, 2.0, "V100"),
        ({"gpu_nvidia": ["A100"]}, {"gpu_type": {"value": "H100"}}, 1.0, "H100"),
        ({}, {"gpu_type": 7, "gpu_count": 1, "world_size": 8}, 1.0, None),
    ],
)
def test_wandb_gpus_of_a_record(tmp_path, metadata, config, gpus, gpu_type):
    run = {**WANDB_RUNS[2], "metadata": metadata, "config": config, "group": "night"}
    jobs, _, _ = ingest_text(tmp_path, json.dumps([run]))
    found = jobs.select("num_gpus", "gpu_type", "group").row(0)
    assert found == (gpus, gpu_type, "night")


def test_wandb_columns_that_may_hold_the_gpus(tmp_path):
    # The best name counts, not the first column; a number above 100,000 counts something else.
    header = "ID,Created,Runtime,world_size,num_gpus,Group"
    counts = ["64,8,night", "64,,day", "99999,auto,", "100001,,"]
    rows = [f"r{i},2026-01-01T00:00:00Z,5,{row}" for i, row in enumerate(counts)]
    jobs, _, _ = ingest_text(tmp_path, "\n".join([header, *rows]))
    assert jobs["num_gpus"].to_list() == [8.0, 64.0, 99_999.0, 1.0]
    assert jobs["group"].to_list() == ["night", "day", None, None]


def test_wandb_heartbeat_before_creation_is_refused(tmp_path):
    run = {**WANDB_RUNS[1], "heartbeatAt": "2026-02-03T08:00:00Z"}
    _, _, rejects = ingest_text(tmp_path, json.dumps([WANDB_RUNS[0], run]))
    assert rejects["reason"].to_list() == ["negative_duration"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('"Step","amber - loss","amber - loss__MIN"\n"1","2","2"\n', "chart export"),
        ('"Name","State","Notes","User","Tags","Created"\n"a","finished","","","",""\n', "Runtime"),
        ('"Name","State","User","Tags","lr"\n"a","finished","","","1"\n', "Created and Runtime"),
    ],
)
def test_wandb_other_exports_are_refused_with_the_way_out(tmp_path, text, says):
    with pytest.raises(InputError, match=says) as caught:
        ingest_text(tmp_path, text)
    assert "runs table" in str(caught.value)
    assert not (tmp_path / "trace.parquet").exists()


def test_canonical_round_trip(tmp_path):
    jobs, first, _ = ingest_text(tmp_path, CANONICAL_CSV)
    assert jobs["submit_time"].to_list() == [utc(2026, 1, 1), utc(2026, 1, 1)]
    assert jobs["gpu_type"].to_list() == ["A100-80GB", None]
    assert jobs["priority"].to_list() == ["hp", "spot"]
    assert jobs["num_workers"].to_list() == [1, 2]
    again, second, _ = ingest_text(tmp_path, first.output.read_bytes(), "first.parquet")
    assert again.equals(jobs)
    assert second.provenance.source_format == "canonical"


def test_canonical_parquet_keeps_the_relative_clock(tmp_path):
    _, first, _ = ingest_text(tmp_path, SIA)
    _, second, _ = ingest_text(tmp_path, first.output.read_bytes(), "first.parquet")
    assert second.provenance.relative_time
    assert second.provenance.time_zone is None
    assert second.provenance.notes == first.provenance.notes


def test_canonical_parquet_of_another_tool(tmp_path):
    frame = pl.DataFrame(
        {
            "submit_time": [datetime(2026, 1, 1), datetime(2026, 1, 2)],
            "duration_s": [5, -1],
            "num_gpus": pl.Series([1, 2], dtype=pl.Int8),
            "extra": [[1], []],
        }
    )
    frame.write_parquet(tmp_path / "other.parquet")
    source = (tmp_path / "other.parquet").read_bytes()
    jobs, _, rejects = ingest_text(tmp_path, source, "other.parquet")
    assert jobs.select("job_id", "duration_s").rows() == [("job-000001", 5.0)]
    assert rejects.select("row", "reason", "found").rows() == [(2, "negative_duration", "-1")]
    assert json.loads(rejects["raw"][0])["num_gpus"] == "2"


MAP = {"submit_time": "when", "num_gpus": "gpus"}


@pytest.mark.parametrize(
    ("cell", "zone", "expected", "relative"),
    [
        ("2026-01-01 12:00:00", None, utc(2026, 1, 1, 12), False),
        ("2026-01-01 12:00", "Europe/Berlin", utc(2026, 1, 1, 11), False),
        ("2026-07-01T12:00:00.25", "Europe/Berlin", utc(2026, 7, 1, 10, 0, 0, 250_000), False),
        ("2026-01-01T12:00:00+0530", "Europe/Berlin", utc(2026, 1, 1, 6, 30), False),
        ("2026-01-01", None, utc(2026, 1, 1), False),
        ("1767225600", None, utc(2026, 1, 1), False),
        ("1767225600000", None, utc(2026, 1, 1), False),
        ("90.5", None, utc(1970, 1, 1, 0, 1, 30, 500_000), True),
    ],
)
def test_mapped_times(tmp_path, cell, zone, expected, relative):
    text = f"when,gpus\n{cell},2\n"
    jobs, result, _ = ingest_text(tmp_path, text, columns=MAP, time_zone=zone)
    assert jobs["submit_time"].to_list() == [expected]
    assert result.provenance.relative_time is relative


def test_mapped_start_and_end_give_wait_and_duration(tmp_path):
    text = "when,gpus,begin,finish,job_id,result\n10,2,15,75, x ,SUCCEEDED\n20,1,19,30,y,odd\n"
    columns = {**MAP, "start_time": "begin", "end_time": "finish", "state": "result"}
    jobs, result, _ = ingest_text(tmp_path, text, columns=columns)
    assert jobs["job_id"].to_list() == ["x", "y"]
    assert jobs["queue_s"].to_list() == [5.0, None]  # started before its submission
    assert jobs["duration_s"].to_list() == [60.0, 11.0]
    assert jobs["state"].to_list() == ["completed", "unknown"]
    assert jobs["source_state"].to_list() == ["SUCCEEDED", "odd"]
    assert "jobs whose state is unknown, as its word is ('odd'): 1" in result.provenance.notes


@pytest.mark.parametrize(
    ("columns", "error", "says"),
    [
        ({"when": "when"}, UsageError, "no canonical column 'when'"),
        ({"submit_time": "nope"}, InputError, "no column 'nope'"),
        ({"submit_time": "when"}, InputError, "nothing is mapped to num_gpus"),
    ],
)
def test_mapping_mistakes(tmp_path, columns, error, says):
    with pytest.raises(error, match=says):
        ingest_text(tmp_path, "when,gpus\n1,2\n", columns=columns)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"),
        ("A100-80GB", "A100-80GB"),
        ("Tesla V100-SXM2-32GB", "V100-32GB"),
        ("NVIDIA H100 80GB HBM3", "H100-80GB"),
        ("NVIDIA GeForce RTX 3090", "RTX3090"),
        ("v100", "V100"),
        ("Tesla T4", "T4"),
    ],
)
def test_gpu_names(written, name):
    assert gpu_name(written) == name
    assert gpu_name(name) == name  # a normalized name stays


def test_registry_names_are_unique_and_told():
    names = [known.name for known in FORMATS]
    assert len(set(names)) == len(names)
    assert all(known.description and known.source for known in FORMATS)


def test_real_philly(shared: Path, tmp_path):
    path = shared / "data/philly/philly_jobs_a.csv.gz"
    jobs, result, rejects = ingest_text(tmp_path, path.read_bytes(), "p.csv.gz")
    assert (result.provenance.source_format, jobs.height, rejects) == ("philly", 55_009, None)
    assert any(note.endswith(": 48") for note in result.provenance.notes)
    assert round(jobs["duration_s"].mean(), 1) == 12117.8
    assert round((jobs["duration_s"] * jobs["num_gpus"]).sum() / 3600, 1) == 492097.9
    text = gzip.decompress(path.read_bytes())
    assert ingest_text(tmp_path, text)[0].equals(jobs)


def test_real_wandb(shared: Path, tmp_path):
    text = (shared / "data/wandb/wandb_runs_2022.csv").read_bytes()
    jobs, _, _ = ingest_text(tmp_path, text)
    assert jobs.height == 9
    assert round(jobs["duration_s"].mean(), 2) == 16453.78
    assert jobs["state"].value_counts(sort=True).rows() == [("completed", 5), ("running", 4)]


def test_real_sia(shared: Path, tmp_path):
    text = (shared / "data/sia-workloads/newtrace/workload-1.csv").read_bytes()
    jobs, result, _ = ingest_text(tmp_path, text)
    assert jobs.height == 960
    assert result.provenance.relative_time
