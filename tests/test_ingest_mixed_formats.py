"""``--map`` on detected formats, and one trace of logs of several formats."""

import json
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from gpuplan.analysis.base.errors import InputError, UsageError
from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.job_table.schema import SCHEDULER_COLUMNS
from gpuplan.analysis.log_formats.format import IngestOptions
from gpuplan.analysis.storage.parquet import write_parquet
from gpuplan.analysis.trace.selection import Selection
from gpuplan.analysis.trace.trace import read_trace

SACCT = """JobID|User|Account|State|Submit|Start|End|ElapsedRaw|AllocTRES|Comment|Queued
7|ann|lab|COMPLETED|2026-01-05T10:00:00|2026-01-05T10:05:00|2026-01-05T11:05:00|3600|gres/gpu=2|bert|1
8|bob|lab|FAILED|2026-01-05T10:30:00|2026-01-05T10:30:00|2026-01-05T10:40:00|600|gres/gpu=1|gpt|2
"""
WANDB = """"Name","State","User","Created","Runtime","ID","method","num_gpus","GPU"
"calm","finished","cleo","2026-01-05T09:00:00.000Z","1200","7","lora","4","A100"
"wild","crashed","dan","2026-01-05T12:00:00.000Z","90","xx","full","1","H100"
"""


def written(folder: Path, **files: str) -> list[Path]:
    paths = []
    for name, text in files.items():
        paths.append(folder / name.replace("_", "."))
        paths[-1].write_text(text, encoding="utf-8")
    return paths


def jobs_of(paths, folder: Path, source_format=None, **columns: str) -> pl.DataFrame:
    """Ingest and return the jobs."""
    out = folder / "out.parquet"
    ingest(paths, out, source_format=source_format, choices=IngestOptions(columns))
    return pl.read_parquet(out)


@pytest.mark.parametrize("source_format", [None, "wandb"])
def test_a_mapped_column_is_added_to_a_detected_format(tmp_path, source_format):
    paths = written(tmp_path, runs_csv=WANDB)
    before = jobs_of(paths, tmp_path, source_format)
    after = jobs_of(paths, tmp_path, source_format, job_class="method")
    assert after["job_class"].to_list() == ["lora", "full"]
    assert before.drop("job_class").equals(after.drop("job_class"))


def test_a_mapped_column_overrides_that_of_the_format(tmp_path):
    paths = written(tmp_path, sacct_txt=SACCT)
    before = jobs_of(paths, tmp_path)
    after = jobs_of(paths, tmp_path, job_class="Comment", queue_s="Queued", group="User")
    assert before["queue_s"].to_list() == [300.0, 0.0] and after["queue_s"].to_list() == [1.0, 2.0]
    assert after["job_class"].to_list() == ["bert", "gpt"]
    assert after["group"].to_list() == after["user"].to_list() == ["ann", "bob"]
    changed = ("job_class", "queue_s", "group")
    assert before.drop(changed).equals(after.drop(changed))


def test_the_state_and_times_can_be_overridden(tmp_path):
    paths = written(tmp_path, runs_csv=WANDB.replace("Created", "CreatedAt,Created", 1))
    text = WANDB.replace('"ID"', '"ID","Word","When"').replace(
        '"7"', '"7","OUT_OF_MEMORY","2026-01-06T00:00:00+01:00"'
    )
    text = text.replace('"xx"', '"xx","COMPLETED","2026-01-06T01:00:00+01:00"')
    paths = written(tmp_path, runs_csv=text)
    jobs = jobs_of(paths, tmp_path, state="Word", submit_time="When", job_id="Name")
    assert jobs["state"].to_list() == ["failed", "completed"]
    assert jobs["source_state"].to_list() == ["OUT_OF_MEMORY", "COMPLETED"]
    assert jobs["submit_time"][0] == datetime(2026, 1, 5, 23, tzinfo=UTC)
    assert jobs["job_id"].to_list() == ["calm", "wild"]


def test_bad_cells_of_a_mapped_column_reject_their_row(tmp_path):
    paths = written(tmp_path, sacct_txt=SACCT)
    with pytest.raises(InputError, match=r"column 'comment': found 'bert' \(unreadable\)"):
        jobs_of(paths, tmp_path, queue_s="Comment")


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"job_class": "absent"}, "no column 'absent' for --map job_class=absent"),
        ({"start_time": "Comment"}, "no canonical column 'start_time' of the format slurm"),
        ({"colour": "Comment"}, "no canonical column 'colour'"),
    ],
)
def test_maps_that_cannot_be_meant(tmp_path, columns, problem):
    with pytest.raises((InputError, UsageError), match=problem):
        jobs_of(written(tmp_path, sacct_txt=SACCT), tmp_path, **columns)


def test_a_trace_takes_a_mapped_column_and_keeps_its_zone(tmp_path):
    paths = written(tmp_path, runs_csv=WANDB)
    trace = tmp_path / "t.parquet"
    ingest(paths, trace, choices=IngestOptions(time_zone=None))
    jobs = jobs_of([trace], tmp_path, job_class="user")
    assert jobs["job_class"].to_list() == ["cleo", "dan"]


def test_logs_of_two_formats_make_one_trace(gpuplan, tmp_path):
    slurm, wandb = written(tmp_path, sacct_txt=SACCT, runs_csv=WANDB)
    out = tmp_path / "both.parquet"
    code, said, err = gpuplan("ingest", slurm, wandb, "-o", out, "--output-format", "json")
    assert code == 0, err
    found = json.loads(said)
    assert found["results"]["source_format"] == "slurm+wandb"
    assert found["results"]["rows_read"] == found["results"]["rows_kept"] == 4
    assert [(Path(one["path"]).name, one["rows"]) for one in found["inputs"]] == [
        ("sacct.txt", 2),
        ("runs.csv", 2),
    ]
    jobs = pl.read_parquet(out)
    assert jobs["source"].to_list() == ["slurm", "slurm", "wandb", "wandb"]
    assert jobs["job_id"].to_list() == ["slurm:7", "8", "wandb:7", "xx"]  # two jobs are called 7
    for name, path in (("slurm", slurm), ("wandb", wandb)):
        alone = jobs_of([path], tmp_path).drop("job_id")
        assert jobs.filter(pl.col("source") == name)[alone.columns].equals(alone)
    chosen = read_trace(out, Selection(where="source = 'wandb'"))
    assert chosen.jobs["user"].to_list() == ["cleo", "dan"]
    code, said, err = gpuplan("characterize", out, "--output-format", "json")
    assert code == 0 and json.loads(said)["results"]["jobs"] == 4, err


def test_the_rejects_of_all_formats_are_in_one_file(gpuplan, tmp_path):
    paths = written(
        tmp_path,
        sacct_txt=SACCT.replace("gres/gpu=1", "gres/gpu=many"),
        runs_csv=WANDB.replace('"90"', '"soon"'),
    )
    out = tmp_path / "both.parquet"
    assert gpuplan("ingest", *paths, "-o", out)[0] == 3
    code, _, err = gpuplan("ingest", *paths, "-o", out, "--max-rejects", "50%")
    assert code == 0 and "2 rows cannot be used" in err
    rejects = pl.read_parquet(tmp_path / "both.rejects.parquet")
    assert rejects["file"].to_list() == list(map(str, paths))


def test_a_folder_may_hold_logs_of_two_formats_but_not_a_trace_beside_a_log(tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    slurm, _ = written(folder, sacct_txt=SACCT, runs_csv=WANDB)
    assert sorted(jobs_of([folder], tmp_path)["source"].unique()) == ["slurm", "wandb"]
    ingest([slurm], folder / "old.parquet")
    with pytest.raises(InputError, match="a trace and a log may hold the same jobs"):
        jobs_of([folder], tmp_path)
    both = jobs_of([folder / "old.parquet", folder / "runs.csv"], tmp_path)
    assert both.height == 4  # named, so meant


def test_a_log_without_a_calendar_joins_none_with_dates(tmp_path):
    relative = "submit_time,duration_s,num_gpus\n0,60,1\n5,60,1\n"
    with pytest.raises(InputError, match="has times from the start of the log"):
        jobs_of(written(tmp_path, sacct_txt=SACCT, other_csv=relative), tmp_path)


def test_a_trace_of_several_formats_keeps_them_when_it_is_ingested_again(tmp_path):
    slurm, wandb = written(tmp_path, sacct_txt=SACCT, runs_csv=WANDB)
    both = tmp_path / "both.parquet"
    ingest([slurm, wandb], both)
    before = pl.read_parquet(both)
    assert jobs_of([both], tmp_path).equals(before)
    before.write_csv(tmp_path / "both.csv", datetime_format="%Y-%m-%dT%H:%M:%SZ")
    of_csv = jobs_of([tmp_path / "both.csv"], tmp_path)  # without the fields of a scheduler
    assert of_csv.equals(before.drop(SCHEDULER_COLUMNS, strict=False))
    # Beside a trace of one log, whose jobs have no such column, and beside another log.
    ingest([slurm], tmp_path / "one.parquet")
    one = pl.read_parquet(tmp_path / "one.parquet").with_columns(job_id="n" + pl.col("job_id"))
    one.write_csv(tmp_path / "one.csv", datetime_format="%Y-%m-%dT%H:%M:%SZ")
    jobs = jobs_of([both, tmp_path / "one.csv"], tmp_path)
    assert jobs["source"].to_list() == [*before["source"], None, None]
    other = written(tmp_path, other_csv=WANDB.replace('"7"', '"9"').replace('"xx"', '"yy"'))
    jobs = jobs_of([both, *other], tmp_path)
    assert jobs["source"].to_list() == [*before["source"], "wandb", "wandb"]


def test_what_ingest_wrote_it_reads_in_full(tmp_path):
    log = tmp_path / "a.trace"
    log.write_text("ResNet-18\tpython main.py\t--steps\t0\t1200\t5.5\t2\n" * 2)
    first = tmp_path / "first.parquet"
    ingest([log], first)
    when = datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC)
    values = {
        "eligible_time": when,
        "limit_s": 0.1 + 0.2,
        "partition": "gpu",
        "req_nodes": 2,
        "recorded_priority": 2**53 + 1,
    }
    more = {
        name: pl.Series([one, None], dtype=SCHEDULER_COLUMNS[name]) for name, one in values.items()
    }
    whole = pl.read_parquet(first).with_columns(**more)
    write_parquet(whole, first, pl.read_parquet_metadata(first))
    again = tmp_path / "again.parquet"
    ingest([first], again)
    assert pl.read_parquet(again).equals(whole)
    assert whole["steps"].to_list() == [1200.0, 1200.0]
