"""Odd names, numbers and metadata in logs and tables: read, or refused by name."""

import json

import polars as pl
import pytest
from support_traces import frame, write

from gpuplan.analysis.base.casts import no_pattern
from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.job_table.gpu_names import match_types, same_gpu
from gpuplan.analysis.job_table.schema import Provenance

SEREN = """\
job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,\
gpu_time
1,ada,1,8,64,Pretrain,COMPLETED,2023-03-01 00:00:00+08:00,2023-03-01 00:01:00+08:00,\
2023-03-01 01:01:00+08:00,3600,60,28800
"""
TABLE = "submit_time,duration_s,num_gpus,{}\n2026-01-05T00:00:00Z,60,1,x\n"
RECORD = {"submit_time": "2026-01-05T00:00:00Z", "duration_s": 60, "num_gpus": 1}
SACCT = "JobID|User|Submit|Start|End|State|AllocTRES|{}\n"
JOB = "1|ada|2026-03-01T00:00:00|2026-03-01T00:00:10|2026-03-01T01:00:10|COMPLETED|gres/gpu=1|{}\n"


def written(path, text):
    path.write_text(text)
    return path


def test_a_kept_start_time_hides_no_time_of_the_log(gpuplan, tmp_path):
    log, trace = written(tmp_path / "seren.csv", SEREN), tmp_path / "t.parquet"
    code, _, err = gpuplan("ingest", log, "--keep", "start_time", "-o", trace)
    assert code == 0, err
    row = pl.read_parquet(trace).row(0, named=True)
    assert row["start_time"] == "2023-03-01 00:01:00+08:00"
    assert (row["queue_s"], row["duration_s"]) == (60.0, 3600.0)
    again = tmp_path / "again.parquet"
    for more in ((), ("--map", "num_gpus=num_gpus")):
        assert gpuplan("ingest", trace, *more, "-o", again)[0] == 0
        assert pl.read_parquet(again)["duration_s"].to_list() == [3600.0]
    assert gpuplan("ingest", trace, "-o", again)[0] == 0
    assert pl.read_parquet(again).row(0, named=True) == row


@pytest.mark.parametrize("name", ["*", "^.*$"])
def test_a_column_that_polars_takes_for_several_is_one(gpuplan, tmp_path, name):
    assert no_pattern(name) == f" {name}" and no_pattern("a*") == "a*"
    log, trace = written(tmp_path / "log.csv", TABLE.format(name)), tmp_path / "t.parquet"
    assert gpuplan("ingest", log, "-o", trace)[0] == 0
    code, _, err = gpuplan("ingest", log, "--keep", name, "-o", trace)
    assert code == 2 and f"no column {name!r} in the log" in err
    jobs = frame([0], duration_s=[60.0], num_gpus=[1.0], **{name: ["x"]})
    odd = write(tmp_path / "odd.parquet", jobs, Provenance(source_format="csv"))
    assert gpuplan("characterize", odd)[0] == 0
    assert gpuplan("ingest", odd, "-o", trace)[0] == 0
    records = written(tmp_path / "log.json", json.dumps([{**RECORD, name: 1}]))
    assert gpuplan("ingest", records, "--map", "submit_time=submit_time", "-o", trace)[0] == 0


def test_a_header_of_sacct_with_a_name_in_two_cases(gpuplan, tmp_path):
    log = written(tmp_path / "s.txt", SACCT.format("STATE") + JOB.format("x"))
    assert gpuplan("ingest", log, "-o", tmp_path / "t.parquet")[0] == 0
    assert pl.read_parquet(tmp_path / "t.parquet")["state"].to_list() == ["completed"]


def test_a_usage_that_is_no_number_is_unknown(gpuplan, tmp_path):
    step = JOB.replace("1|ada", "1.0|").format("gres/gpuutil=1.2.3")
    text = SACCT.format("TRESUsageInAve") + JOB.format("") + step
    log = written(tmp_path / "s.txt", text)
    code, _, err = gpuplan("ingest", log, "-o", tmp_path / "t.parquet")
    assert code == 0, err
    jobs = pl.read_parquet(tmp_path / "t.parquet")
    assert "gpu_util_mean" not in jobs.columns or jobs["gpu_util_mean"].to_list() == [None]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"source_format": "x", "schema_version": "9"}, "Expected `int`, got `str`"),
        ({"source_format": "x", "notes": [1]}, "Expected `str`, got `int`"),
        ("[" * 100_000, "it is nested too deeply"),
        ("[]", "a JSON object"),
    ],
)
def test_metadata_of_other_types_is_refused(gpuplan, tmp_path, fields, said):
    path = tmp_path / "t.parquet"
    text = fields if isinstance(fields, str) else json.dumps(fields)
    frame([0], duration_s=[60.0], num_gpus=[1.0]).write_parquet(path, metadata={"gpuplan": text})
    code, _, err = gpuplan("characterize", path)
    assert code == 3
    assert "its 'gpuplan' metadata cannot be read" in err and said in err


def test_pods_after_one_with_bytes_that_are_no_text_are_all_counted(gpuplan, tmp_path):
    def pod(number, **more):
        spec = {"containers": [{"resources": {"requests": {"nvidia.com/gpu": "1"}}}]}
        made = "2026-01-05T00:00:00Z"
        metadata = {"name": f"p{number}", "namespace": "a", "creationTimestamp": made}
        ran = {"terminated": {"startedAt": made, "finishedAt": "2026-01-05T01:00:00Z"}}
        status = {"phase": "Succeeded", "containerStatuses": [{"name": "c", "state": ran}]}
        parts = {"metadata": metadata, "spec": spec, "status": status}
        return {"kind": "Pod", "apiVersion": "v1", **parts, **more}

    odd = json.dumps(pod(0, x="@", y="#")).encode()
    odd = odd.replace(b'"@"', b"NaN").replace(b"#", b"\xff" * 1000)
    rest = [json.dumps(pod(number)).encode() for number in range(1, 11)]
    path, trace = tmp_path / "pods.json", tmp_path / "t.parquet"
    path.write_bytes(b"\n".join([odd, *rest, b""]))
    code, out, err = gpuplan(
        "ingest", path, "--max-rejects", "100%", "-o", trace, "--output-format", "json"
    )
    assert code == 0, err
    assert json.loads(out)["results"]["rows_read"] == 11


def test_many_gpu_types_are_matched_as_one_by_one():
    names = ["A100", "A100-80GB", "H100", "card 1", "NVIDIA L4", "a100-sxm4-40gb", "CARD 1"]
    log_types = ["A100-40GB", "H100-80GB", "L4", "card 2", None, "card 1"]
    for log_type in log_types:
        alike = [name for name in names if log_type is not None and same_gpu(name, log_type)]
        for name in names:
            means = match_types([name], [log_type], "--price")[log_type]
            assert means == (name if name in alike or name == log_type else None)
    several = match_types(["A100", "H100", "card 1"], log_types, "--price")
    assert several == dict(
        zip(log_types, ["A100", "H100", None, None, None, "card 1"], strict=True)
    )
    with pytest.raises(UsageError, match="A100 is A100-40GB and A100-80GB in the log"):
        match_types(["A100"], ["A100-40GB", "A100-80GB"], "--cluster", one_type_each=True)


def test_prices_a_century_apart_of_many_regions_are_refused(gpuplan, tmp_path):
    head = "timestamp,provider,gpu_type,region,kind,price_usd_per_gpu_hour\n"
    rows = [
        f"{year}-01-01T00:00:00Z,p,A100,r{region},on_demand,1.5\n"
        for region in range(60)
        for year in (2000, 2099)
    ]
    code, _, err = gpuplan(
        "prices", written(tmp_path / "p.csv", head + "".join(rows)), "-o", tmp_path / "p.parquet"
    )
    assert code == 3 and "has prices of p A100 in 60 series over" in err


def test_gaps_between_runs_that_add_up_past_the_calendar_are_a_century(gpuplan, tmp_path):
    times = [(f"9798-01-0{i}", "9898-01-01" if i % 2 else f"9798-01-0{i + 1}") for i in range(1, 6)]
    rows = [
        f"7|ada|{submit}T00:00:00|{start}T00:00:00|{start}T01:00:00|REQUEUED|gres/gpu=1|\n"
        for submit, start in times
    ]
    log = written(tmp_path / "s.txt", SACCT.format("Comment") + "".join(rows))
    assert gpuplan("ingest", log, "-o", tmp_path / "t.parquet")[0] == 0
    assert pl.read_parquet(tmp_path / "t.parquet")["requeue_s"].to_list() == [3155760000.0]


def test_a_forecast_of_more_hours_than_its_test_holds_waits_for_them(gpuplan, tmp_path):
    jobs = frame(
        [7200.0 * i for i in range(30)],
        duration_s=[3600.0 * (1 + i % 5) for i in range(30)],
        num_gpus=[1.0 + i % 3 for i in range(30)],
        priority=[("hp", "spot")[i % 2] for i in range(30)],
        state=["completed"] * 30,
    )
    path = write(tmp_path / "t.parquet", jobs)
    code, _, err = gpuplan("simulate", path, "--policy", "gfs", "--set", "guarantee_h=10")
    assert code == 0, err


@pytest.mark.parametrize(
    ("policy", "words", "said"),
    [
        (
            "las",
            ("--gpus", "1", "--set", "limits_s=0.000001", "--set", "starvation=0.000001"),
            "jobs could be demoted",
        ),
        (
            "fft",
            ("--cluster", "16000000x1"),
            "20 jobs on 16,000,000 nodes: expected at most 1,000,000 nodes",
        ),
    ],
)
def test_a_replay_without_end_or_measure_is_refused(gpuplan, tmp_path, policy, words, said):
    jobs = frame(range(20), duration_s=[360.0] * 20, num_gpus=[1.0] * 20)
    path = write(tmp_path / "t.parquet", jobs)
    code, _, err = gpuplan("simulate", path, "--policy", policy, *words)
    assert code == 2 and said in err


def test_a_match_on_a_million_idle_gpus_needs_little_memory(gpuplan, tmp_path):
    path = write(tmp_path / "t.parquet", frame([0, 0], duration_s=[60.0] * 2, num_gpus=[1.0] * 2))
    few, many = (
        json.loads(gpuplan(
            "simulate", path, "--policy", "allox", "--set", "rule=match", "--gpus", gpus,
            "--price", "1", "--output-format", "json",
        )[1])["results"]["mean_jct_s"]
        for gpus in ("2", "1000000")
    )  # fmt: skip
    assert few == many == 60.0
