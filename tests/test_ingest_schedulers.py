"""Logs of schedulers and simulators; every expected value is worked out by hand."""

import gzip
import json
from datetime import UTC, datetime

import polars as pl
import pytest
from support_ingest import ingest_text
from support_schedulers import (
    AZURE_FUNCTIONS,
    AZURE_LLM,
    BY_WORKER,
    DILU,
    GAVEL_LONG,
    GAVEL_SHORT,
    SWF,
    TIRESIAS,
)

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.log_formats.format import IngestOptions


def utc(*parts):
    return datetime(*parts, tzinfo=UTC)


def micros(jobs):
    return jobs["submit_time"].dt.epoch("us").to_list()


def test_gavel_with_seven_fields(tmp_path):
    jobs, result, _ = ingest_text(tmp_path, GAVEL_SHORT, "a.trace")
    assert jobs["job_id"].to_list() == ["gavel-000001", "gavel-000002"]
    assert jobs["job_class"].to_list() == ["ResNet-18 (batch size 32)", "LM (batch size 10)"]
    assert micros(jobs) == [0, 360_500_000]
    assert jobs["num_gpus"].to_list() == [2.0, 12.0]
    assert jobs["duration_s"].to_list() == [None, None]
    assert result.provenance.relative_time
    assert "no durations" in result.provenance.notes[0]


def test_gavel_with_ten_fields(tmp_path):
    jobs, _, _ = ingest_text(tmp_path, GAVEL_LONG, "a.trace")
    assert micros(jobs) == [0, 90_250_000]
    assert jobs["num_gpus"].to_list() == [1.0, 4.0]


def test_gavel_lines_of_another_width_are_rejected(tmp_path):
    jobs, _, rejects = ingest_text(tmp_path, GAVEL_SHORT + GAVEL_LONG, "a.trace")
    assert jobs.height == 2
    assert rejects.select("row", "reason").rows() == [
        (3, "wrong_number_of_fields"),
        (4, "wrong_number_of_fields"),
    ]


@pytest.mark.parametrize("name", [None, "gavel"])
def test_gavel_descendants_are_refused_with_the_way_out(tmp_path, name):
    text = "".join(f"{line}\tstatic\t3600\n" for line in GAVEL_LONG.splitlines())
    with pytest.raises(InputError, match="12 tab-separated fields") as caught:
        ingest_text(tmp_path, text, "a.trace", source_format=name)
    assert "cut -f 1-10" in str(caught.value)
    assert not (tmp_path / "trace.parquet").exists()


def test_gavel_forced_on_another_file(tmp_path):
    with pytest.raises(InputError, match="1 tab-separated fields"):
        ingest_text(tmp_path, TIRESIAS, source_format="gavel")
    with pytest.raises(InputError, match="is empty"):
        ingest_text(tmp_path, "\n", source_format="gavel")


RATES = """\
worker_type,job_type,scale_factor,steps_per_second
v100,ResNet-18 (batch size 32),2,40.0
v100,LM (batch size 10),1,8
v100,LM (batch size 10),4,0
k80_unconsolidated,ResNet-18 (batch size 32),2,10.0
"""
RATES_JSON = json.dumps(
    {
        "v100": {
            "('ResNet-18 (batch size 32)', 2)": {"null": 40.0, "('LM (batch size 10)', 1)": [1, 2]},
            "('LM (batch size 10)', 1)": {"null": 8},
            "('LM (batch size 10)', 4)": {"null": 0.0},
            "('A3C', 1)": {"('A3C', 1)": [1, 2]},
        },
        "k80_unconsolidated": {"('ResNet-18 (batch size 32)', 2)": {"null": 10.0}},
    }
)


def gavel_with(tmp_path, text, rates, worker):
    log, table, trace = tmp_path / "a.trace", tmp_path / "rates", tmp_path / "t.parquet"
    log.write_text(text)
    table.write_bytes(rates if isinstance(rates, bytes) else rates.encode())
    provenance = ingest(
        [log], trace, choices=IngestOptions(throughputs=table, worker_type=worker)
    ).provenance
    return pl.read_parquet(trace), provenance


@pytest.mark.parametrize(
    "rates",
    [RATES, RATES_JSON, gzip.compress(RATES_JSON.encode())],
    ids=["csv", "json", "json in gzip"],
)
def test_gavel_durations_from_throughputs(tmp_path, rates):
    jobs, provenance = gavel_with(tmp_path, GAVEL_SHORT, rates, "v100")
    assert jobs["duration_s"].to_list() == [3000.0, None]  # 120000 / 40; no LM on 12 GPUs
    assert jobs["gpu_type"].to_list() == ["V100", "V100"]
    assert provenance.notes == (
        "durations are total_steps over the throughputs of v100 in rates",
        "jobs whose type and GPUs have no throughput on v100 (no duration): 1",
    )
    jobs, _ = gavel_with(tmp_path, GAVEL_LONG, rates, "v100")
    assert jobs["duration_s"].to_list() == [6000.0, None]  # a throughput of 0 is none
    jobs, _ = gavel_with(tmp_path, GAVEL_SHORT, rates, "k80_unconsolidated")
    assert jobs.select("duration_s", "gpu_type").row(0) == (12_000.0, "K80")


@pytest.mark.parametrize(
    ("rates", "worker", "error", "says"),
    [
        (RATES, "a100", InputError, "no worker type 'a100'"),
        (RATES + "v100,LM (batch size 10),1,9\n", "v100", InputError, "two throughputs"),
        (TIRESIAS, "v100", InputError, "not a table of throughputs"),
        (RATES.replace("40.0", "fast"), "v100", InputError, "not a table of throughputs"),
        (RATES_JSON[:60], "v100", InputError, "not a table of throughputs"),
        ('{"v100": 1}', "v100", InputError, "not a table of throughputs"),
        ('{"v100": {"7": {"null": 1}}}', "v100", InputError, "not a table of throughputs"),
        ('{"v100": {"(1, 2)": {"null": []}}}', "v100", InputError, "not a table of throughputs"),
        (b"\xff\xfe", "v100", InputError, "not a table of throughputs"),
        ("{}", None, InputError, "no worker type"),
    ],
)
def test_bad_throughputs(tmp_path, rates, worker, error, says):
    with pytest.raises(error, match=says):
        gavel_with(tmp_path, GAVEL_SHORT, rates, worker)
    assert not (tmp_path / "t.parquet").exists()


def test_steps_are_kept_where_no_worker_type_is_chosen(tmp_path):
    jobs, provenance = gavel_with(tmp_path, GAVEL_SHORT, RATES, None)
    assert jobs["duration_s"].to_list() == [None, None]
    assert jobs["steps"].to_list() == [120_000.0, 48_000.0]
    assert "--worker-type chooses" in provenance.notes[0]


def test_throughputs_only_where_they_mean_something(gpuplan, tmp_path):
    log, table, trace = tmp_path / "log.csv", tmp_path / "rates.csv", tmp_path / "t.parquet"
    log.write_text(TIRESIAS)
    table.write_text(RATES)
    code, _, err = gpuplan("ingest", log, "-o", trace, "--throughputs", table)
    assert code == 2
    assert "records no steps" in err
    code, _, err = gpuplan("ingest", log, "-o", trace, "--worker-type", "v100")
    assert code == 2
    assert "--throughputs FILE" in err
    log.write_text(GAVEL_SHORT)
    options = ("--throughputs", table, "--worker-type", "v100", "--output-format", "json")
    code, out, _ = gpuplan("ingest", log, "-o", trace, *options)
    assert code == 0
    assert json.loads(out)["parameters"]["worker_type"] == "v100"


def test_tiresias(tmp_path):
    jobs, result, _ = ingest_text(tmp_path, TIRESIAS)
    assert jobs["duration_s"].to_list() == [164.0, 147.0]
    assert jobs["num_gpus"].to_list() == [1.0, 8.0]
    assert micros(jobs) == [0, 30_000_000]
    assert jobs["job_class"].to_list() == ["vgg19", "vgg11"]
    assert result.provenance.relative_time


def test_tiresias_forks_may_add_and_move_columns(tmp_path):
    text = "model_name,job_id,duration,num_gpu,scale,submit_time,iterations\nvgg,7,10,2,x,1.5,9\n"
    jobs, result, _ = ingest_text(tmp_path, text)
    assert result.provenance.source_format == "tiresias"
    assert jobs.select("job_id", "duration_s", "num_gpus").row(0) == ("7", 10.0, 2.0)


def test_tiresias_by_worker(tmp_path):
    jobs, result, _ = ingest_text(tmp_path, BY_WORKER)
    assert jobs["num_gpus"].to_list() == [64.0, 7.0]  # 3 workers of 7/3 GPUs, which is rounded
    assert jobs["num_workers"].to_list() == [8, 3]
    assert jobs["duration_s"].to_list() == [104.0, 1.5]
    assert micros(jobs) == [0, 313_500_000]
    assert "includes the wait" in result.provenance.notes[0]


def test_tiresias_jobs_without_workers_run_on_a_cpu_and_have_one(tmp_path):
    jobs, _, _ = ingest_text(tmp_path, BY_WORKER + "2,5,1,0.5,0,0,0,1\n")
    assert jobs.select("num_gpus", "num_workers").row(2) == (0.0, 1)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("2,5,-1,0.5,0,1,0,1", "negative_duration"),
        ("2,5,1,-0.5,0,1,0,1", "negative_duration"),
        ("2,5,1,0.5,0,,0,1", "missing"),
        ("2,5,1,0.5,0,1,0,-1", "negative_gpus"),
        ("2,5,1,0.5,0,1.5,0,1", "unreadable"),
        ("0,5,1,0.5,0,1,0,1", "duplicate_id"),
    ],
)
def test_tiresias_by_worker_bad_rows(tmp_path, row, reason):
    jobs, _, rejects = ingest_text(tmp_path, BY_WORKER + row + "\n")
    assert jobs.height == 2
    assert rejects.select("row", "reason").rows() == [(4, reason)]


def test_azure_requests(tmp_path):
    jobs, result, _ = ingest_text(tmp_path, AZURE_LLM.replace("\n", "\r\n"))
    assert jobs["submit_time"][0] == utc(2023, 11, 16, 18, 17, 3, 979_960)
    assert jobs["num_gpus"].to_list() == [1.0, 1.0]
    assert jobs["duration_s"].null_count() == 2
    assert "1 GPU per request is assumed" in result.provenance.notes[0]
    late, _, _ = ingest_text(tmp_path, AZURE_LLM, time_zone="America/New_York")
    assert late["submit_time"][0] == utc(2023, 11, 16, 23, 17, 3, 979_960)


def test_azure_requests_of_later_years(tmp_path):
    header = "TIMESTAMP,ContextTokens,GeneratedTokens,NumImages"
    text = f"{header}\n2024-05-10 00:00:00.009930+00:00,2,1,0\n"
    jobs, _, _ = ingest_text(tmp_path, text, time_zone="Europe/Berlin")
    assert jobs["submit_time"][0] == utc(2024, 5, 10, 0, 0, 0, 9_930)


def test_azure_functions_begin_their_duration_before_their_end(tmp_path):
    jobs, result, _ = ingest_text(tmp_path, AZURE_FUNCTIONS)
    rows = jobs.select("submit_time", "duration_s", "num_gpus", "queue_s", "group", "job_class")
    at = [at.timestamp() for at in rows["submit_time"]]
    assert at == pytest.approx([12.25, 12.3, 12.3], abs=1e-6)
    assert rows.drop("submit_time").rows() == [
        (0.25, 1.0, None, "a1", "a1/f1"),
        (31.0, 1.0, None, "a1", "a1/f2"),
        (0.0, 1.0, None, "a2", "a2/f1"),
    ]
    assert result.provenance.relative_time
    assert "1 GPU per call is assumed" in result.provenance.notes[0]


@pytest.mark.parametrize(
    ("row", "reason", "column"),
    [
        ("a,f,9,-1", "negative_duration", "duration"),
        ("a,f,9,", "missing", "duration"),
        ("a,f,9,1e400", "unreadable", "duration"),
        ("a,f,,1", "missing", "end_timestamp"),
        ("a,f,soon,1", "unreadable", "end_timestamp"),
    ],
)
def test_azure_functions_bad_rows(tmp_path, row, reason, column):
    _, _, rejects = ingest_text(tmp_path, f"{AZURE_FUNCTIONS}{row}\n")
    assert rejects.select("row", "reason", "column").rows() == [(5, reason, column)]


def test_azure_functions_of_2019_have_no_calls(gpuplan, tmp_path):
    minutes = ",".join(map(str, range(1, 1441)))
    log = tmp_path / "invocations_per_function_md.anon.d01.csv"
    log.write_text(f"HashOwner,HashApp,HashFunction,Trigger,{minutes}\n")
    code, _, err = gpuplan("ingest", log, "-o", tmp_path / "t.parquet")
    assert code == 3 and "calls of Azure Functions per minute" in err


def test_dilu_pairs_the_start_and_the_deletion_of_a_service(tmp_path):
    jobs, result, _ = ingest_text(tmp_path, DILU, "instances-2.txt")
    assert jobs["job_id"].to_list() == ["inference-ab12cd", "training-x1"]
    assert jobs["duration_s"].to_list() == [240.0, None]
    assert jobs["state"].to_list() == ["completed", "running"]
    assert jobs["num_gpus"].to_list() == [1.0, 2.0]
    assert jobs["submit_time"][0] == utc(2026, 1, 1, 0, 0, 5)
    assert result.provenance.rows_read == 2
    assert any(note.endswith("still running (no duration): 1") for note in result.provenance.notes)


def event(name, action="start", time="2026-01-01 00:00:09", **more):
    return repr({"Time": time, "Action": action, "Instance": {"service_name": name, **more}})


@pytest.mark.parametrize(
    ("line", "reason", "found"),
    [
        (event("b", "delete"), "delete_without_start", "b"),
        (event("training-x1", gpu_num=1), "duplicate_id", "training-x1"),
        (event("b", "pause", gpu_num=1), "unreadable", "the action 'pause'"),
        (event(None, gpu_num=1), "unreadable", "an instance without a service_name"),
        (event(["b"], gpu_num=1), "unreadable", "a list where a text or a number belongs"),
        (event("b"), "missing", None),
        (event("b", gpu_num="two"), "unreadable", "two"),
        (event("b", gpu_num=-1), "negative_gpus", "-1"),
        (event("b", gpu_num=1, time=None), "missing", None),
        (event("b", gpu_num=1, time="noon"), "unreadable", "noon"),
        ("[1, 2]", "unreadable", "no event of an instance"),
        ("__import__('os').abort()", "unreadable", "not a Python literal"),
        ("(" * 3000, "unreadable", "not a Python literal"),
        ("'" + "x" * 70_000 + "'", "unreadable", "a line longer than 64 KB"),
    ],
)
def test_dilu_bad_events(tmp_path, line, reason, found):
    jobs, result, rejects = ingest_text(tmp_path, DILU + line + "\n")
    assert jobs.height == 2
    assert rejects.select("row", "reason", "found").rows() == [(4, reason, found)]
    assert rejects["raw"][0] == line
    assert result.provenance.rows_read == 3


def test_dilu_deletion_before_its_start(tmp_path):
    text = DILU.replace("2026-01-01 00:04:05", "2025-01-01 00:04:05")
    _, _, rejects = ingest_text(tmp_path, text)
    assert rejects.select("row", "reason").rows() == [(1, "end_before_start")]


SWF_ROW = "9 40 5 60 8 -1 -1 16 100 -1 1 3 2 7 1 1 -1 -1"


def swf_row(**changes):
    cells = SWF_ROW.split()
    for place, cell in changes.items():
        cells[int(place.removeprefix("f")) - 1] = cell
    return " ".join(cells)


def test_swf(tmp_path):
    jobs, result, _ = ingest_text(tmp_path, SWF, "log.swf")
    assert jobs["job_id"].to_list() == ["1", "2", "3"]
    assert jobs["submit_time"].to_list() == [
        utc(2026, 1, 1),
        utc(2026, 1, 1, 0, 0, 30),
        utc(2026, 1, 1, 0, 0, 31, 500_000),
    ]
    assert jobs["queue_s"].to_list() == [5.0, None, 0.0]
    assert jobs["duration_s"].to_list() == [60.0, None, 0.0]
    assert jobs["num_gpus"].to_list() == [8.0, 4.0, 4.0]  # the request where nothing is allocated
    assert jobs["state"].to_list() == ["completed", "not_started", "failed"]
    assert jobs["source_state"].to_list() == ["1", "5", "0"]
    assert jobs.select("user", "group", "job_class").rows() == [
        ("3", "2", "7"),
        ("3", "2", "7"),
        ("4", "2", None),
    ]
    provenance = result.provenance
    assert (provenance.relative_time, provenance.time_zone) == (False, "Europe/Berlin")
    assert provenance.notes == (
        "num_gpus holds processors: the log has no GPUs",
        "jobs that were cancelled before they started (no duration): 1",
        "jobs whose allocation is unknown: the request counts: 1",
    )


@pytest.mark.parametrize("header", ["", "; Version: 2.2\n; TimeZoneString: Mars/Base\n"])
def test_swf_without_a_start_is_relative(tmp_path, header):
    jobs, result, _ = ingest_text(tmp_path, header + SWF_ROW, "log.swf")
    assert micros(jobs) == [40_000_000]
    assert (result.provenance.relative_time, result.provenance.time_zone) == (True, None)


def test_swf_leaves_partial_executions_out(tmp_path):
    rows = [swf_row(), swf_row(f4="20", f11="2"), swf_row(f4="40", f11="3")]
    jobs, result, rejects = ingest_text(tmp_path, "\n".join(rows), "log.swf")
    assert (jobs.height, result.provenance.rows_read, rejects) == (1, 1, None)
    assert jobs["duration_s"].to_list() == [60.0]
    assert any("partial executions" in n and n.endswith(": 2") for n in result.provenance.notes)


def test_swf_jobs_that_tell_little(tmp_path):
    rows = [
        swf_row(f1="1", f4="0", f5="0", f11="5"),  # cancelled while it waited
        swf_row(f1="2", f4="0", f5="8", f11="5"),  # cancelled in its first second
        swf_row(f1="3", f4="-1", f5="-1", f8="-1", f11="-1"),
        swf_row(f1="4", f3="-7"),
    ]
    jobs, result, _ = ingest_text(tmp_path, "\n".join(rows), "log.swf")
    assert jobs["state"].to_list() == ["not_started", "cancelled", "unknown", "completed"]
    assert jobs["duration_s"].to_list() == [None, 0.0, None, 60.0]
    assert jobs["num_gpus"].to_list() == [0.0, 8.0, 0.0, 8.0]
    assert jobs["queue_s"].to_list() == [None, 5.0, 5.0, None]
    notes = dict(note.rpartition(": ")[::2] for note in result.provenance.notes)
    assert notes["jobs of unknown duration"] == "1"
    assert notes["jobs that tell no processors (0)"] == "1"
    assert notes["jobs of negative wait (no wait recorded)"] == "1"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (swf_row(f2="-1"), "missing"),
        (swf_row(f1="-1"), "missing"),
        (swf_row(f2="soon"), "unreadable"),
        (swf_row(f4="-60"), "negative_duration"),
        (swf_row(f5="-8"), "negative_gpus"),
        (swf_row(f5="-1", f8="-8"), "negative_gpus"),
        (swf_row() + " 1", "wrong_number_of_fields"),
        ("9 40 5", "cut_off"),
        (swf_row(f1="1"), "duplicate_id"),
    ],
)
def test_swf_bad_rows(tmp_path, row, reason):
    jobs, _, rejects = ingest_text(tmp_path, SWF + "; a comment between\n" + row, "log.swf")
    assert jobs.height == 3
    assert rejects.select("row", "reason", "raw").rows() == [(9, reason, row)]
