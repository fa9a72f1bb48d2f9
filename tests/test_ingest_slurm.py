"""Slurm's accounting; every expected value is worked out by hand."""

import json

import polars as pl
import pytest
from support_ingest import ingest_text, utc
from support_schedulers import SACCT, SACCT_JOBS, SACCT_JSON, SACCT_P
from support_slurm import DEFAULTS, HEADER, at, log, notes

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.log_formats.sacct_command import SACCT_COMMAND
from gpuplan.analysis.log_formats.slurm_cells import elapsed_s, time_limit_s
from gpuplan.analysis.reading.batch import GPU_SHARES


@pytest.mark.parametrize(
    "text", [SACCT, SACCT_P, SACCT.replace("|", "\t")], ids=["-P", "-p", "tab"]
)
def test_a_table(tmp_path, text):
    jobs, result, rejects = ingest_text(tmp_path, text)
    assert rejects is None
    assert jobs["job_id"].to_list() == ["700", "701_3", "701_[4-9%2]", "702", "703"]
    assert jobs["num_gpus"].to_list() == [2.0, 4.0, 4.0, 12.0, 0.0]
    assert jobs["gpu_type"].to_list() == ["H100", None, None, None, None]
    assert jobs["duration_s"].to_list() == [7200.0, None, None, 3600.0, 3600.0]
    assert jobs["queue_s"].to_list() == [5.0, None, None, 2.0, 0.0]
    states = ["completed", "not_started", "not_started", "running", "timeout"]
    assert jobs["state"].to_list() == states
    assert jobs["source_state"].to_list()[1] == "CANCELLED by 1002"
    assert jobs["num_workers"].to_list() == [1, 1, 1, 2, 1]
    assert jobs["user"].to_list() == ["ada", "bob", "bob", "bob", "ada"]
    assert jobs["group"].to_list() == ["nlp", "cv", "cv", "cv", "nlp"]
    assert jobs["job_class"].to_list() == ["gpu", "gpu", "gpu", "gpu", "cpu"]
    assert result.provenance.rows_read == 5  # the two steps are no rows
    assert notes(result) == {
        "steps of jobs left out (the row of the job counts)": "2",
        "jobs that never started (no duration)": "2",
        "jobs still running (their duration is a lower bound)": "1",
        "arrays that wait, one row for all their tasks": "1",
        "jobs with GPUs of several types (no type is kept)": "1",
    }
    assert "--time-zone" in result.provenance.notes[0]


def test_a_comma_table_quotes_its_resources(tmp_path):
    lines = [[f'"{cell}"' for cell in line.split("|")] for line in SACCT.splitlines()]
    jobs, _, _ = ingest_text(tmp_path, SACCT)
    again, _, _ = ingest_text(tmp_path, "\n".join(",".join(cells) for cells in lines))
    assert again.equals(jobs)


def test_header_in_any_case_and_order(tmp_path):
    header = "ALLOCTRES|submit|state|jobid|ELAPSED|Start"
    text = log({}).replace(HEADER, header)
    names = HEADER.split("|")
    by_lower = {name.lower(): value for name, value in DEFAULTS.items()}
    text = f"{header}\n" + "|".join(by_lower[name.lower()] for name in header.split("|"))
    assert {name.lower() for name in header.split("|")} < {name.lower() for name in names}
    jobs, _, _ = ingest_text(tmp_path, text)
    assert jobs.select("job_id", "num_gpus", "duration_s", "queue_s").row(0) == ("1", 4, 60, 10)


@pytest.mark.parametrize(
    ("cell", "gpus", "kind"),
    [
        ("cpu=8,gres/gpu=4,gres/gpu:a100=4", 4, "A100"),
        ("gres/gpu:a100=4,gres/gpu=4", 4, "A100"),
        ("gres/gpu:a100=2,cpu=1,gres/gpu:A100=6", 8, "A100"),
        ("gres/gpu:a100=2,cpu=1,gres/gpu:v100=6", 8, None),
        ("gres/gpu=8,gres/gpu:t4=4,gres/gpu:h100=4", 8, None),
        ("gres/gpu:t4=0,gres/gpu:h100=4", 4, "H100"),
        ("gres/gpu:nvidia_h100_80gb_hbm3=8", 8, "H100-80GB"),
        ("billing=8,cpu=8,mem=64G,node=1", 0, None),
        ("cpu=1,gres/gpumem=40G,gres/gpuutil=90", 0, None),
        ("gres/gpu=128", 128, None),
    ],
)
def test_tres(tmp_path, cell, gpus, kind):
    jobs, _, _ = ingest_text(tmp_path, log({"AllocTRES": cell}))
    assert jobs.select("num_gpus", "gpu_type").row(0) == (gpus, kind)


@pytest.mark.parametrize(
    ("cell", "gpus", "kind"),
    [
        ("gpu:4", 8, None),
        ("gpu:a100:4", 8, "A100"),
        ("gpu:a100:4(S:0-1)", 8, "A100"),
        ("gpu:tesla:2(IDX:0,1),craynetwork:1", 4, "tesla"),
        ("gpu:a100:1,gpu:v100:2", 6, None),
        ("gpu:a100", 2, "A100"),
        ("gpu:2080ti", 2, "RTX2080Ti"),
        ("gres:gpu:1", 2, None),
        ("gpu", 2, None),
        ("craynetwork:1", 0, None),
    ],
)
def test_gres_is_per_node(tmp_path, cell, gpus, kind):
    text = log({"AllocTRES": cell, "NNodes": "2"}).replace("AllocTRES", "AllocGRES")
    jobs, _, _ = ingest_text(tmp_path, text)
    assert jobs.select("num_gpus", "gpu_type", "num_workers").row(0) == (gpus, kind, 2)


def test_gpus_that_only_gres_or_only_the_request_tells(tmp_path):
    header = "JobID|State|Submit|Start|End|NNodes|AllocTRES|AllocGRES|ReqTRES|ReqGRES"
    rows = [
        "1|CD|S|S|E|2|cpu=4|gpu:2|cpu=4|",  # a site that does not track GPUs as TRES
        "2|PD|S|Unknown|Unknown|2|||gres/gpu=3|gpu:1",
        "3|PD|S|Unknown|Unknown|2||||gpu:1",
        "4|PD|S|Unknown|Unknown|2||||",
    ]
    start, end = "2026-01-10T08:00:00", "2026-01-10T09:00:00"
    text = "\n".join(
        [header, *(row.replace("|S", f"|{start}").replace("E|", f"{end}|") for row in rows)]
    )
    jobs, result, _ = ingest_text(tmp_path, text)
    assert jobs["num_gpus"].to_list() == [4.0, 3.0, 2.0, 0.0]
    assert notes(result)["jobs that tell no GPUs (0)"] == "1"


@pytest.mark.parametrize(
    ("cell", "seconds"),
    [
        ("00:00", 0),
        ("01:30", 90),
        ("01:30.5", 90.5),
        ("02:01:30", 7290),
        ("3-02:01:30", 266_490),
        ("1-01:30", 86_490),
        ("UNLIMITED", 60),  # end - start
        ("INVALID", 60),
        ("", 60),
    ],
)
def test_elapsed(tmp_path, cell, seconds):
    jobs, _, _ = ingest_text(tmp_path, log({"Elapsed": cell}))
    assert jobs["duration_s"].to_list() == [seconds]


def test_elapsed_counts_where_the_job_was_suspended(tmp_path):
    jobs, result, _ = ingest_text(tmp_path, log({"Elapsed": "00:20"}, {"JobID": "2"}))
    assert jobs["duration_s"].to_list() == [20.0, 60.0]
    assert [n for what, n in notes(result).items() if "suspended" in what] == ["1"]


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("COMPLETED", "completed"),
        ("CD", "completed"),
        ("CANCELLED by 1001", "cancelled"),
        ("CANCELLED+", "cancelled"),
        ("CA", "cancelled"),
        ("FAILED", "failed"),
        ("OUT_OF_MEMORY", "failed"),
        ("OOM", "failed"),
        ("TIMEOUT", "timeout"),
        ("DEADLINE", "timeout"),
        ("NODE_FAIL", "node_fail"),
        ("BOOT_FAIL", "node_fail"),
        ("NF", "node_fail"),
        ("PREEMPTED", "preempted"),
        ("PR", "preempted"),
        ("REQUEUED", "preempted"),
        ("RUNNING", "running"),
        ("SUSPENDED", "running"),
        ("completing", "running"),
        ("PENDING", "not_started"),
        ("REVOKED", "not_started"),
        ("HELD_FOR_TEA", "unknown"),
    ],
)
def test_states(tmp_path, word, state):
    jobs, _, _ = ingest_text(tmp_path, log({"State": word}))
    assert jobs.select("state", "source_state").row(0) == (state, word)
    assert (jobs["duration_s"][0] is None) == (state == "not_started")


@pytest.mark.parametrize("start", ["None", "Unknown", "", "2026-01-10T08:01:10"])
def test_cancelled_while_it_waited(tmp_path, start):
    waited = {"State": "CANCELLED by 7", "Start": start, "Elapsed": "00:00", "AllocTRES": ""}
    began = {"JobID": "2", "State": "CANCELLED", "Start": DEFAULTS["End"], "Elapsed": "00:00"}
    jobs, _, _ = ingest_text(tmp_path, log(waited, began))
    assert jobs["state"].to_list() == ["not_started", "cancelled"]
    assert jobs["duration_s"].to_list() == [None, 0.0]
    assert jobs["queue_s"].to_list() == [None, 70.0]


def test_times_local_epoch_and_with_an_offset(tmp_path):
    def of(change, zone=None):
        row = dict.fromkeys(("Submit", "Start", "End"), change)
        jobs, result, _ = ingest_text(tmp_path, log(row), time_zone=zone)
        return jobs["submit_time"][0], any("--time-zone" in n for n in result.provenance.notes)

    assert of("2026-07-01T12:00:00") == (utc(2026, 7, 1, 12), True)
    assert of("2026-07-01T12:00:00", "Europe/Berlin") == (utc(2026, 7, 1, 10), False)
    assert of("1767225600", "Europe/Berlin") == (utc(2026, 1, 1), False)
    assert of("1767225600") == (utc(2026, 1, 1), False)
    assert of("2026-07-01T12:00:00+0200") == (utc(2026, 7, 1, 10), False)


@pytest.mark.parametrize("elapsed", ["20:00", ""])
def test_an_hour_that_comes_twice_does_not_turn_the_time_round(tmp_path, elapsed):
    # 02:50 summer time to 02:10 winter time on 2026-10-25 at Berlin is 20 minutes.
    row = {"Submit": "2026-10-25T02:50:00", "Start": "2026-10-25T02:50:00", "Elapsed": elapsed}
    text = log(
        {**row, "End": "2026-10-25T02:10:00"},
        {**row, "JobID": "2", "End": "1792890600", "Elapsed": ""},  # 02:10 winter time
        {"JobID": "3", "End": "2026-01-10T08:00:00", "Elapsed": ""},
    )
    jobs, result, rejects = ingest_text(tmp_path, text, time_zone="Europe/Berlin")
    assert rejects.select("row", "reason").rows() == [(4, "end_before_start")]
    assert jobs["duration_s"].to_list() == [1200.0, 1200.0]
    assert not any("Elapsed" in note for note in result.provenance.notes)


@pytest.mark.parametrize(
    ("change", "reason", "column"),
    [
        ({"JobID": "x12"}, "unreadable", "jobid"),
        ({"JobID": ""}, "missing", "jobid"),
        ({"Submit": "Unknown"}, "missing", "submit"),
        ({"Submit": "soon"}, "unreadable", "submit"),
        ({"Start": "text"}, "unreadable", "start"),
        ({"Elapsed": "long"}, "unreadable", "elapsed"),
        ({"NNodes": "-1"}, "unreadable", "nnodes"),
        ({"AllocTRES": "gpu 4"}, "unreadable", "alloctres"),
        ({"AllocTRES": "cpu=1,gres/gpu=4K"}, "unreadable", "alloctres"),
        ({"AllocTRES": "gres/gpu=-3,cpu=1"}, "unreadable", "alloctres"),
        ({"AllocTRES": "gres/gpu=4,gres/gpu:a100=x"}, "unreadable", "alloctres"),
        ({"AllocTRES": "gres/gpu=,cpu=1"}, "unreadable", "alloctres"),
        ({"AllocTRES": "gres/gpu:=4"}, "unreadable", "alloctres"),
        ({"Start": "Unknown", "Elapsed": "00:00"}, "missing", "start"),
        ({"End": "Unknown", "Elapsed": ""}, "missing", "elapsed"),
        ({"End": "2026-01-10T07:00:00", "Elapsed": ""}, "end_before_start", "elapsed"),
        ({"User": "a|b"}, "wrong_number_of_fields", None),
    ],
)
def test_bad_rows(tmp_path, change, reason, column):
    jobs, result, rejects = ingest_text(tmp_path, log({"JobID": "9"}, change))
    assert jobs["job_id"].to_list() == ["9"]
    assert rejects.select("row", "reason", "column").rows() == [(3, reason, column)]
    assert result.provenance.rows_read == 2


@pytest.mark.parametrize("cell", ["gpu:4K", "gpu:-3", "gpu:a100:x", "gpu:a100:-3", "gpu:a100:"])
def test_bad_gres_counts_are_no_cpu_jobs(tmp_path, cell):
    text = log({"AllocTRES": cell}, {"JobID": "2", "AllocTRES": "gpu:1"}).replace(
        "AllocTRES", "AllocGRES"
    )
    _, _, rejects = ingest_text(tmp_path, text)
    assert rejects.select("reason", "column", "found").rows() == [("unreadable", "allocgres", cell)]


def test_several_gpu_types_are_told(tmp_path):
    mixed = "gres/gpu:t4=4,gres/gpu:h100=4"
    text = log(
        {"AllocTRES": mixed},
        {"JobID": "5+0", "AllocTRES": "gres/gpu:t4=2"},
        {"JobID": "5+1", "AllocTRES": "gres/gpu:h100=2"},
        {"JobID": "6+0", "AllocTRES": "gres/gpu:t4=2"},
        {"JobID": "6+1", "AllocTRES": mixed},
    )
    jobs, result, _ = ingest_text(tmp_path, text)
    assert jobs.select("job_id", "num_gpus", "gpu_type").rows() == [
        ("1", 8.0, None),
        ("5", 4.0, None),
        ("6", 10.0, None),
    ]
    assert notes(result)["jobs with GPUs of several types (no type is kept)"] == "3"


def test_negative_elapsed_raw(tmp_path):
    text = log({"Elapsed": "-5"}, {"JobID": "2", "Elapsed": "5"}).replace("Elapsed", "ElapsedRaw")
    jobs, _, rejects = ingest_text(tmp_path, text)
    assert jobs["duration_s"].to_list() == [5.0]
    assert rejects["reason"].to_list() == ["negative_duration"]


def test_job_names_may_hold_quotes(tmp_path):
    text = log({"User": 'say "hi'}, {"JobID": "2", "User": '"'})
    jobs, _, rejects = ingest_text(tmp_path, text)
    assert (jobs["user"].to_list(), rejects) == (['say "hi', '"'], None)


def test_other_columns_stand_in_and_are_told(tmp_path):
    text = f"JobIDRaw|Start|End|ReqGRES\n12|{at(8)}|{at(9)}|gpu:4\n12.0|{at(8)}|{at(9)}|\n"
    jobs, result, _ = ingest_text(tmp_path, text)
    row = jobs.select("job_id", "duration_s", "num_gpus", "queue_s", "state").row(0)
    assert row == ("12", 3600.0, 4.0, 0.0, "unknown")
    notes = " ".join(result.provenance.notes)
    assert "no Submit: a job counts as submitted at its Start" in notes
    assert "GPUs are those requested" in notes
    assert "no NNodes" in notes


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "       JobID    JobName      State  AllocTRES    Elapsed     Submit\n"
            "------------ ---------- ---------- ---------- ---------- ----------\n"
            "700               train  COMPLETED billing=1+   01:00:00 2026-01-1+\n",
            "fixed width",
        ),
        (
            "JobID|State|Submit|Start|End|ExitCode|NNodes\n1|CD|||||\n",
            r"GPUs \(AllocTRES, or",
        ),
        (
            "JobID|State|AllocTRES|ElapsedRaw\n1|CD|cpu=1|5\n",
            r"submissions \(Submit, or",
        ),
        (
            "JobID|State|AllocTRES|Submit\n1|CD|cpu=1|5\n",
            r"run times \(ElapsedRaw, or",
        ),
    ],
)
def test_what_cannot_become_jobs_is_refused_with_the_command(tmp_path, text, says):
    with pytest.raises(InputError, match=says) as caught:
        ingest_text(tmp_path, text, source_format="slurm")
    assert SACCT_COMMAND in str(caught.value)
    assert not (tmp_path / "trace.parquet").exists()


def test_fixed_width_is_recognized_to_be_refused(tmp_path):
    text = "JobID         State     Submit\n------------ ---------- ----------\n7   COMPLETED   x\n"
    with pytest.raises(InputError, match="fixed width"):
        ingest_text(tmp_path, text)


def test_json(tmp_path):
    jobs, result, _ = ingest_text(tmp_path, SACCT_JSON, "log.json")
    assert jobs["job_id"].to_list() == ["700", "701_3"]
    assert jobs["submit_time"].to_list() == [utc(2026, 1, 10, 8), utc(2026, 1, 10, 8, 1)]
    assert jobs["queue_s"].to_list() == [5.0, None]
    assert jobs["duration_s"].to_list() == [7200.0, None]
    assert jobs["num_gpus"].to_list() == [8.0, 4.0]  # not those of the steps
    assert jobs["gpu_type"].to_list() == ["A100", None]
    assert jobs["num_workers"].to_list() == [2, 1]
    assert jobs["state"].to_list() == ["completed", "not_started"]
    assert not any("--time-zone" in note for note in result.provenance.notes)


def test_json_ids(tmp_path):
    number = {"set": True, "infinite": False, "number": 1}
    none = {"set": False, "infinite": False, "number": 0}
    changes = [
        {"job_id": 10, "array": {"job_id": 9, "task_id": number, "task": ""}},
        {"job_id": 9, "array": {"job_id": 9, "task_id": none, "task": "4-7%2"}},
        {"job_id": 20, "het": {"job_id": 20, "job_offset": {**number, "number": 0}}},
        {"job_id": 21, "het": {"job_id": 20, "job_offset": number}},
        {"job_id": 30, "array": None, "het": None},
    ]
    jobs, _, _ = ingest_text(tmp_path, json.dumps({"jobs": [SACCT_JOBS[0] | c for c in changes]}))
    assert jobs.select("job_id", "num_gpus").rows() == [
        ("9_1", 8.0),
        ("9_[4-7%2]", 8.0),
        ("30", 8.0),
        ("20", 16.0),
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"time": 5},
        {"tres": {"allocated": 4}},
        {"tres": {"allocated": [4]}},
        {"tres": {"allocated": [{"type": "cpu"}]}},
        {"tres": {"allocated": [{"type": "gres", "name": "gpu", "count": -2}]}},
        {"job_id": None},
        {"job_id": "x"},
        {"time": {"submission": 0}},
    ],
)
def test_json_bad_records(tmp_path, change):
    text = json.dumps({"jobs": [SACCT_JOBS[1], SACCT_JOBS[0] | change]})
    jobs, _, rejects = ingest_text(tmp_path, text)
    assert jobs.height == 1
    assert rejects["row"].to_list() == [2]


def test_json_without_jobs_is_refused(tmp_path):
    with pytest.raises(InputError, match="has no member 'jobs'"):
        ingest_text(tmp_path, '{"meta": {}}', source_format="slurm")


def test_limit_of_more_digits_than_a_scheduler_writes_is_none():
    cells = pl.DataFrame({"cell": ["9" * 30, "9" * 30 + "-00:00:00", "1-00:00:00", "90"]})
    limits = cells.select(time_limit_s(pl.col("cell")).alias("s"))["s"].to_list()
    assert limits == [None, None, 86400, 5400]


def test_digits_of_other_scripts_are_no_numbers():
    """An Arabic 3 is a digit in Unicode, which Slurm writes no number with."""
    cells = pl.DataFrame({"cell": ["02:0\u0663:00", "\u0663-00:00:10", "02:03:00"]})
    for reading in (elapsed_s("cell"), time_limit_s(pl.col("cell"))):
        assert cells.select(reading.alias("s"))["s"].to_list() == [None, None, 7380]


def test_shares_of_gpus_slices_and_several_clusters_are_told(gpuplan, tmp_path):
    header = f"Cluster|{HEADER}"
    plain = {"Cluster": "east", "Submit": at(8), "Start": at(8), "End": at(9), "Elapsed": "1:00:00"}
    rows = [
        {**plain, "JobID": "1", "AllocTRES": "cpu=8,gres/shard=2,node=1"},
        {**plain, "JobID": "2", "AllocTRES": "cpu=8,gres/gpu=1,gres/shard=4,node=1"},
        {**plain, "JobID": "3", "AllocTRES": "cpu=8,gres/gpu:a100_1g.5gb=2,gres/gpu=2,node=1"},
        {**plain, "JobID": "4", "AllocTRES": "cpu=8,gres/gpu:h100=2,gres/gpu=2,node=1"},
        {**plain, "JobID": "5", "AllocTRES": "cpu=8,gres/shard=0,node=1"},
        {**plain, "JobID": "1", "Cluster": "west"},
        {**plain, "JobID": "2", "Cluster": "west"},
    ]
    path = tmp_path / "sacct.txt"
    path.write_text(log(*rows, header=header))
    code, _, err = gpuplan("characterize", path)
    assert code == 0
    assert "the log is of several clusters (2 of 7 jobs are of others than the first row)" in err
    assert "1 job holds shares of GPUs" in err and "leave them out" in err
    assert "1 job runs on MIG slices" in err
    path.write_text(log(*(row for row in rows[1:] if row["Cluster"] == "west"), header=header))
    _, _, err = gpuplan("characterize", path)
    assert not any(text in err for text in ("several clusters", "shares of GPUs", "MIG"))


@pytest.mark.parametrize(
    ("column", "cell", "is_shared"),
    [
        ("AllocGRES", "shard:2", True),
        ("AllocGRES", "mps:50", True),
        ("AllocGRES", "gres:shard:a100:2", True),
        ("AllocGRES", "tmpdisk:100", False),
        ("AllocTRES", "cpu=1,gres/mps=50", True),
        ("AllocTRES", "cpu=1,gres/shard:a100=2", True),
        ("AllocTRES", "cpu=1,mem=50G", False),
    ],
)
def test_cells_with_shares_of_gpus(tmp_path, column, cell, is_shared):
    header = HEADER.replace("AllocTRES", column)
    _, result, _ = ingest_text(tmp_path, log({column: cell}, header=header))
    assert (GPU_SHARES in notes(result)) == is_shared
