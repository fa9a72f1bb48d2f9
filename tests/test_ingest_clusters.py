"""Helios and Alibaba's clusters: what becomes of their rows, each value worked out by hand."""

from datetime import UTC, datetime

import polars as pl
import pytest
from support_clusters import GENAI, HELIOS, OPENB, SPOT_GPU
from support_ingest import ingest_text

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.ingest.ingest import ingest


def seconds(jobs):
    return [us / 1e6 for us in jobs["submit_time"].dt.epoch("us")]


def refused(text, old, new, tmp_path):
    """Return (row, reason, column) of the rows refused once a cell is changed."""
    assert old in text
    _, _, rejects = ingest_text(tmp_path, text.replace(old, new, 1))
    return rejects.select("row", "reason", "column").rows()


def test_helios_is_china_time_with_cpu_jobs(tmp_path):
    jobs, result, _ = ingest_text(tmp_path, HELIOS)
    assert jobs["submit_time"][0] == datetime(2020, 7, 1, 1, 0, tzinfo=UTC)
    assert jobs["queue_s"].to_list() == [200.0, 0.0, 30.0, 10.0, None]
    assert jobs["duration_s"].to_list() == [7200.0, 0.0, 120.0, 60.0, None]
    assert jobs["num_gpus"].to_list() == [8.0, 0.0, 16.0, 1.0, 1.0]
    assert jobs["num_workers"].to_list() == [1, 1, 2, 1, 1]
    states = ["completed", "failed", "node_fail", "running", "not_started"]
    assert jobs["state"].to_list() == states
    assert jobs["group"].to_list()[:3] == ["vcAbC", "vcAbC", "vcDeF"]
    assert jobs["job_class"].null_count() == jobs.height
    assert result.provenance.time_zone == "Asia/Shanghai"
    assert result.provenance.notes == ("jobs that never started (no duration): 1",)


def test_helios_may_tell_its_own_durations(gpuplan, tmp_path):
    log, trace = tmp_path / "log.csv", tmp_path / "t.parquet"
    log.write_text(HELIOS.replace(",7200,", ",7400,"))
    found = []
    for duration in ([], ["--duration", "source"]):
        assert gpuplan("ingest", log, "-o", trace, *duration)[0] == 0
        found.append(pl.read_parquet(trace)["duration_s"][0])
    assert found == [7200.0, 7400.0]
    assert gpuplan("ingest", log, "-o", trace, "--duration", "mine")[0] == 2


def test_helios_ids_are_unique_over_clusters(tmp_path):
    logs = []
    for cluster in ("Venus", "earth", "third", "fourth"):
        (tmp_path / cluster).mkdir()
        logs.append(tmp_path / cluster / "cluster_log.csv")
        logs[-1].write_text(HELIOS)
    result = ingest(logs, tmp_path / "trace.parquet")
    assert (result.provenance.rows_kept, result.rejects_file) == (20, None)
    ids = pl.read_parquet(result.output)["job_id"].gather_every(5).to_list()
    assert ids == ["Venus-2000001", "Earth-2000001", "3-2000001", "4-2000001"]


def test_helios_bad_rows(tmp_path):
    start = "2020-07-01 09:03:20"
    assert refused(HELIOS, f"{start},", "2020-07-01 11:03:21,", tmp_path) == [
        (2, "end_before_start", "end_time")
    ]
    assert refused(HELIOS, f"{start},", ",", tmp_path) == [(2, "missing", "start_time")]
    assert refused(HELIOS, f"{start},", "09:03,", tmp_path) == [(2, "unreadable", "start_time")]
    assert refused(HELIOS, "2000002", "2000001", tmp_path) == [(3, "duplicate_id", "job_id")]


def test_openb_has_shares_of_gpus_and_pods_cut_by_the_end(tmp_path):
    jobs, result, _ = ingest_text(tmp_path, OPENB)
    assert seconds(jobs) == [500000, 500100, 500200, 500300, 400000]
    assert jobs["num_gpus"].to_list() == [0.25, 8.0, 1.0, 0.0, 2.0]
    assert jobs["queue_s"].to_list() == [30.0, 0.0, None, 10.0, 0.0]
    assert jobs["duration_s"].to_list() == [870.0, 12_402_860.0, None, 50.0, 100_000.0]
    states = ["failed", "running", "not_started", "completed", "unknown"]
    assert jobs["state"].to_list() == states
    assert jobs["gpu_type"].to_list() == [None, "V100-16GB|V100-32GB", None, None, "T4"]
    assert jobs["job_class"].to_list()[:2] == ["BE", "LS"]
    assert result.provenance.relative_time
    counts = dict(note.rpartition(": ")[::2] for note in result.provenance.notes)
    assert counts["pods that were never scheduled (no duration)"] == "1"
    assert (
        counts["pods deleted at the end of the trace (running; duration is a lower bound)"] == "1"
    )


def test_openb_bad_rows(tmp_path):
    assert refused(OPENB, "1,250", "1,-250", tmp_path) == [(2, "negative_gpus", "gpu_milli")]
    assert refused(OPENB, "1,250", "-1,250", tmp_path) == [(2, "negative_gpus", "num_gpu")]
    assert refused(OPENB, "1,250", "1,", tmp_path) == [(2, "missing", "gpu_milli")]
    assert refused(OPENB, "500900,", ",", tmp_path) == [(2, "missing", "deletion_time")]
    assert refused(OPENB, "500900,", "500029,", tmp_path) == [
        (2, "end_before_start", "deletion_time")
    ]


def test_openb_shapes_without_times_are_refused_with_the_way_out(gpuplan, tmp_path):
    log = tmp_path / "openb_pod_list_multigpu50.csv"
    log.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\nopenb-pod-0,8000,1,1,500\n")
    code, _, err = gpuplan("ingest", log, "-o", tmp_path / "t.parquet")
    assert code == 3
    assert "no times" in err
    assert "openb_pod_list_default.csv" in err
    assert not (tmp_path / "t.parquet").exists()


def test_spot_gpu_multiplies_workers_and_tells_the_priority(tmp_path):
    jobs, result, _ = ingest_text(tmp_path, SPOT_GPU)
    assert jobs["num_gpus"].to_list() == [32.0, 20.0, 0.5]
    assert jobs["num_workers"].to_list() == [4, 20, 1]
    assert jobs["priority"].to_list() == ["hp", "spot", "hp"]
    assert jobs["gpu_type"].to_list() == ["A100-80GB", "A10", "GPU-series-1"]
    assert jobs["duration_s"].to_list() == [86400.0, 1312.0, 15_897_599.0]
    assert jobs["state"].to_list() == ["unknown", "unknown", "running"]
    assert jobs["group"].to_list() == ["7", "3", "3"]
    assert seconds(jobs) == [120, 5400, 0]
    assert result.provenance.relative_time


def test_spot_gpu_reads_its_job_types_in_any_case(tmp_path):
    jobs, _, rejects = ingest_text(tmp_path, SPOT_GPU.replace("HP", "hp").replace("Spot", "SPOT"))
    assert rejects is None
    assert jobs["priority"].to_list() == ["hp", "spot", "hp"]


def test_spot_gpu_bad_rows(tmp_path):
    for old, new, reason, column in [
        (",8,4,120", ",-8,4,120", "negative_gpus", "gpu_request"),
        (",8,4,120", ",8,0,120", "unreadable", "worker_num"),
        ("86400,HP", "86400,High", "unreadable", "job_type"),
        ("86400,HP", "-1,HP", "negative_duration", "duration"),
        ("86400,HP", ",HP", "missing", "duration"),
    ]:
        assert refused(SPOT_GPU, old, new, tmp_path) == [(2, reason, column)]


def test_genai_requests_hold_one_gpu_each(tmp_path):
    jobs, result, _ = ingest_text(tmp_path, GENAI)
    assert jobs["submit_time"][0] == datetime(2024, 11, 15, 16, 57, 50, tzinfo=UTC)
    assert jobs["job_id"].to_list()[:2] == ["genai-000002", "genai-000003"]
    assert jobs["duration_s"].to_list() == [32.0, 32.0, 3.5, 0.0]
    assert jobs["num_gpus"].to_list() == [1.0] * 4
    assert jobs["user"].to_list() == ["G1", "G1", "G2", "G2"]
    assert jobs["job_class"].to_list()[2] == "INPAINTING"
    # A request that is not done has run for 0 s so far: censored, not without a duration.
    assert jobs["state"].to_list() == ["completed", "completed", "failed", "running"]
    assert any(note.endswith("another job: 1") for note in result.provenance.notes)
    there, _, _ = ingest_text(tmp_path, GENAI, time_zone="Asia/Shanghai")
    assert there["submit_time"][0] == datetime(2024, 11, 15, 8, 57, 50, tzinfo=UTC)


def test_genai_bad_rows(tmp_path):
    assert refused(GENAI, "32.0", "-32.0", tmp_path) == [
        (2, "negative_duration", "exec_time_seconds")
    ]
    assert refused(GENAI, "2024-11-15 16:57:50", "", tmp_path) == [(2, "missing", "gmt_create")]


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ("sn,cpu_milli,memory_mib,gpu,model", "nodes of Alibaba openb"),
        ("gpu_model,gpu_capacity_num,cpu_num,node_name", "nodes of Alibaba spot-gpu"),
        ("time,total_gpu_num,running_gpu_num,pending_gpu_num,running_gpujob_num", "GPU demand"),
        ("id,gpu_num,job_num,cpu_job_num,avg_run_time_gpu", "sums per cluster"),
    ],
)
def test_tables_without_jobs_are_told_for_what_they_are(tmp_path, header, says):
    with pytest.raises(InputError, match=says) as caught:
        ingest_text(tmp_path, f"{header}\n1,2,3,4\n")
    assert "no jobs" in str(caught.value)
    assert "next: ingest" in str(caught.value)
