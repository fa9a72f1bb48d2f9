"""Runs of Weights & Biases; every expected value is worked out by hand."""

import json
from pathlib import Path

import pytest
from support_ingest import (
    WANDB_CSV,
    WANDB_JSON,
    WANDB_JSONL,
    WANDB_RUNS,
    ingest_text,
    utc,
)

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.trace.trace import read_trace


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
    assert read_trace(result.output).notes == ("runs that tell no GPU count (1 is assumed): 2",)


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


def test_real_wandb(shared: Path, tmp_path):
    text = (shared / "data/wandb/wandb_runs_2022.csv").read_bytes()
    jobs, _, _ = ingest_text(tmp_path, text)
    assert jobs.height == 9
    assert round(jobs["duration_s"].mean(), 2) == 16453.78
    assert jobs["state"].value_counts(sort=True).rows() == [("completed", 5), ("running", 4)]


BAD_COUNTS = [(-1, "negative_gpus"), ("two", "unreadable"), (1.5, "unreadable"),
              ("1e300", "unreadable")]  # fmt: skip


@pytest.mark.parametrize(("count", "reason"), BAD_COUNTS)
@pytest.mark.parametrize("place", ["metadata", "config", "csv"])
def test_a_gpu_count_that_is_none_rejects_its_run(tmp_path, count, reason, place):
    if place == "csv":
        rows = [f"r{i},2026-01-01T00:00:00Z,5,{cell}" for i, cell in enumerate([count, "auto", ""])]
        text = "\n".join(["ID,Created,Runtime,GPU Count", *rows])
    else:
        plain = {**WANDB_RUNS[2], "metadata": {}, "config": {}}
        cells = enumerate([count, "auto", None])
        runs = [{**plain, "id": f"r{i}", place: {"gpu_count": gpus}} for i, gpus in cells]
        text = json.dumps(runs)
    jobs, _, rejected = ingest_text(tmp_path, text)
    assert jobs.select("job_id", "num_gpus").rows() == [("r1", 1.0), ("r2", 1.0)]
    column = "GPU Count" if place == "csv" else "gpu_count"
    assert rejected.select("reason", "column", "found").rows() == [(reason, column, str(count))]


def test_a_negative_count_under_another_name_is_none(tmp_path):
    run = {**WANDB_RUNS[2], "metadata": {}, "config": {"gpus": -1, "devices": 3}}
    assert ingest_text(tmp_path, json.dumps([run]))[0]["num_gpus"].to_list() == [3.0]


def test_a_negative_time_names_its_column(tmp_path):
    run = {"created_at": "2026-01-02T00:00:00Z", "heartbeat_at": "2026-01-01T00:00:00Z"}
    runs = [{**run, "id": "a", "summary": {}}, {**run, "id": "b", "summary": {"_runtime": -2}}]
    _, _, rejected = ingest_text(tmp_path, json.dumps([*runs, WANDB_RUNS[0]]))
    assert rejected.select("reason", "column", "found").rows() == [
        ("negative_duration", "heartbeat", "2026-01-01T00:00:00Z"),
        ("negative_duration", "runtime", "-2"),
    ]
