"""What each format makes of its rows; every expected value is worked out by hand."""

import json
from datetime import datetime
from importlib import import_module
from pathlib import Path

import polars as pl
import pytest
from support_ingest import (
    CANONICAL_CSV,
    KALOS,
    LOGS,
    PHILLY_CSV,
    SEREN,
    SIA,
    ingest_text,
    utc,
)

from gpuplan.analysis import log_formats
from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.job_table.gpu_names import gpu_name
from gpuplan.analysis.job_table.schema import (
    CANONICAL,
    QUEUE_COLUMNS,
    RUN_COLUMNS,
    SCHEDULER_COLUMNS,
    UTILIZATION_COLUMNS,
)
from gpuplan.analysis.log_formats.format import LogFormat
from gpuplan.analysis.log_formats.registry import FORMATS


@pytest.mark.parametrize("log", LOGS)
def test_a_good_log_is_recognized_and_kept_whole(tmp_path, log):
    name, file, text = LOGS[log]
    jobs, result, rejects = ingest_text(tmp_path, text, file)
    assert result.provenance.source_format == name
    kept = {"steps": pl.Float64()} if name == "gavel" else {}
    of_slurm = SCHEDULER_COLUMNS | UTILIZATION_COLUMNS | RUN_COLUMNS
    more = of_slurm if name in ("slurm", "swf") else {}
    if name in ("kube", "kube-metrics", "kueue", "dstack", "yunikorn"):
        more = SCHEDULER_COLUMNS | RUN_COLUMNS | QUEUE_COLUMNS
        more |= {"price": pl.Float64(), "cost": pl.Float64()} if name == "dstack" else {}
    schema = dict(jobs.schema)
    assert {key: schema[key] for key in schema if key not in more} == CANONICAL | kept
    assert schema.items() <= (CANONICAL | kept | more).items()
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
        "rows whose own duration is not end - start by more than 1 s (that one counts): 1",
    )
    # One that never started has none, whatever the column says; one still running may have one.
    log = SEREN.replace(",,120,", ",7,120,").replace("+08:00,,,30", "+08:00,,99,30")
    jobs, _, _ = ingest_text(tmp_path, log, own_durations=True)
    assert jobs["duration_s"].to_list() == [14.0, 7200.0, 0.0, None, 99.0]
    _, _, rejects = ingest_text(tmp_path, KALOS.replace(",60,12", ",-60,12"), own_durations=True)
    assert rejects.select("row", "reason", "column").rows() == [
        (2, "negative_duration", "duration")
    ]
    with pytest.raises(UsageError, match="--duration source: the format philly"):
        ingest_text(tmp_path, PHILLY_CSV, own_durations=True)


def test_sia_has_relative_times_and_no_durations(tmp_path):
    jobs, result, _ = ingest_text(tmp_path, SIA)
    assert jobs["submit_time"].dt.epoch("us").to_list() == [61_000_000, 95_500_000]
    assert jobs["duration_s"].to_list() == [None, None]
    assert jobs["job_class"].to_list() == ["cifar10", "bert"]
    assert result.provenance.relative_time
    assert result.provenance.time_zone is None


def test_canonical_round_trip(tmp_path):
    jobs, first, _ = ingest_text(tmp_path, CANONICAL_CSV)
    assert jobs["submit_time"].to_list() == [utc(2026, 1, 1), utc(2026, 1, 1)]
    assert jobs["gpu_type"].to_list() == ["A100-80GB", None]
    assert jobs["priority"].to_list() == ["hp", "spot"]
    assert jobs["num_workers"].to_list() == [1, 2]
    again, second, _ = ingest_text(tmp_path, first.output.read_bytes(), "first.parquet")
    assert again.equals(jobs)
    assert second.provenance.source_format == "canonical"


def test_canonical_priorities_are_read_in_any_case(tmp_path):
    text = CANONICAL_CSV.replace("hp", "HP").replace("spot", " Spot")
    jobs, _, rejects = ingest_text(tmp_path, text)
    assert rejects is None
    assert jobs["priority"].to_list() == ["hp", "spot"]


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


def test_mapped_words_of_slurm_and_an_end_in_the_second_hour(tmp_path):
    text = (
        "when,gpus,begin,finish,result\n"
        "2026-10-25T02:30,2,2026-10-25T02:50,2026-10-25T02:10,CANCELLED by 1001\n"
        "2026-10-25T02:30,2,2026-10-25T02:50,2026-10-25T03:10,OUT_OF_ME+\n"
        "2026-10-25T02:30,2,2026-10-25T02:50,2026-10-25T01:10,COMPLETED\n"
    )
    columns = {**MAP, "start_time": "begin", "end_time": "finish", "state": "result"}
    jobs, _, rejects = ingest_text(tmp_path, text, columns=columns, time_zone="Europe/Berlin")
    assert jobs["duration_s"].to_list() == [1200.0, 4800.0]
    assert jobs["state"].to_list() == ["cancelled", "unknown"]
    assert jobs["source_state"].to_list() == ["CANCELLED by 1001", "OUT_OF_ME+"]
    assert rejects.select("row", "reason", "column").rows() == [(4, "end_before_start", "finish")]


def test_an_end_without_a_start_is_told(tmp_path):
    def notes(text, **more):
        _, result, _ = ingest_text(tmp_path, text, columns={**MAP, **more})
        return [note for note in result.provenance.notes if "durations" in note]

    text = "when,gpus,done,ran\n10,2,75,5\n"
    said = "no durations: done has the ends, but no column is mapped to start_time or duration_s"
    assert notes(text, end_time="done") == [said]
    assert notes(text, end_time="done", duration_s="ran") == notes(text) == []


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


def test_every_format_of_the_folder_is_registered_and_described():
    folder = Path(log_formats.__file__).parent
    modules = [import_module(f"{log_formats.__name__}.{path.stem}") for path in folder.glob("*.py")]
    declared = {id(value): value for module in modules for value in vars(module).values()
                if isinstance(value, LogFormat)}.values()  # fmt: skip
    assert {known.name for known in declared} == FORMATS.built_in.keys()
    assert len(declared) == len(FORMATS.built_in)
    assert all(known.description and known.source for known in declared)


def test_real_sia(shared: Path, tmp_path):
    text = (shared / "data/sia-workloads/newtrace/workload-1.csv").read_bytes()
    jobs, result, _ = ingest_text(tmp_path, text)
    assert jobs.height == 960
    assert result.provenance.relative_time


def test_words_of_states_of_a_plain_table_are_counted_once(tmp_path):
    words = ["completed", "done", "done", "FOO", "unknown", ""]
    rows = [f"j{i},2024-01-01 00:00:00,60,1,{word}" for i, word in enumerate(words)]
    text = "\n".join(["job_id,submit_time,duration_s,num_gpus,state", *rows]) + "\n"
    note = "jobs whose state is unknown, as its word is ('done', 'FOO'): 3"
    _, result, _ = ingest_text(tmp_path, text)
    assert result.provenance.notes.count(note) == 1
    trace = (tmp_path / "trace.parquet").read_bytes()
    (tmp_path / "again").mkdir()
    _, again, _ = ingest_text(tmp_path / "again", trace, "log.parquet")
    assert again.provenance.notes.count(note) == 1
