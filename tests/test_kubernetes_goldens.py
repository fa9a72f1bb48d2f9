"""Every job of an invented cluster is found in every format of it (skips without ../shared)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.job_table.gpu_names import gpu_name


@pytest.fixture
def golden(shared: Path) -> Path:
    folder = shared / "golden/kube"
    if not folder.is_dir():
        pytest.skip("no golden/kube in ../shared")
    return folder


def expected(golden: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((golden / "expected.json").read_text())
    return values


def read(
    golden: Path, tmp_path: Path, *names: str
) -> tuple[dict[str, dict[str, Any]], dict[str, int]]:
    """Return the jobs of files by id, and what was left out."""
    done = ingest([golden / name for name in names], tmp_path / "k.parquet")
    jobs = pl.read_parquet(tmp_path / "k.parquet").rows(named=True)
    assert not done.rows_rejected
    return {job["job_id"]: job for job in jobs}, done.left_out


def times(job: dict[str, Any]) -> tuple[float, float | None, float | None]:
    """Return submission, start and end."""
    submit = job["submit_time"].timestamp()
    if job["queue_s"] is None:
        return submit, None, None
    start = submit + job["queue_s"]
    is_running = job["state"] == "running" or job["duration_s"] is None
    return submit, start, None if is_running else start + job["duration_s"]


@pytest.mark.parametrize("name", ["kube", "kube_metrics_3600", "kube_metrics_300"])
def test_pods(golden: Path, tmp_path: Path, name: str) -> None:
    files = [f"{name}.json", *(["kube_node_labels.json"] if "metrics" in name else [])]
    jobs, left_out = read(golden, tmp_path, *files)
    wanted = expected(golden)[name]
    for job in wanted["jobs"]:
        found = jobs.pop(f"{job['ns']}/{job['name']}")
        submit, start, end = times(found)
        assert (submit, start) == (job["submit"], job["start"]), job
        assert (end is None) is (job["end"] is None), job
        assert end is None or abs(end - job["end"]) <= job["end_error_s"] + 1e-3, job
        assert found["num_gpus"] == pytest.approx(job["gpus"]), job
        assert found["num_workers"] == job["workers"], job
        assert found["gpu_type"] == gpu_name(job["gpu_type"]), job
        assert (found["state"], found["job_class"]) == (job["state"], job["job_class"]), job
    assert not jobs
    if name == "kube":  # the query of the metrics asks for pods with GPUs only
        assert left_out == wanted["left_out"]
    assert left_out["pending"] == wanted["left_out"]["pending"]


@pytest.mark.parametrize("name", ["kueue", "kueue_v1beta1"])
def test_workloads(golden: Path, tmp_path: Path, name: str) -> None:
    jobs, left_out = read(golden, tmp_path, f"{name}.json")
    for job in expected(golden)["kueue"]:
        found = jobs.pop(job["job_id"])
        assert times(found) == (job["submit"], job["start"], job["end"]), job
        assert found["recorded_priority"] == job["priority"], job
        kind = None if job["gpu_type"] == "unknown" else gpu_name(job["gpu_type"])
        assert found["gpu_type"] == kind, job
        assert (found["num_gpus"], found["num_workers"]) == (job["gpus"], job["workers"]), job
        for column in ("state", "queue", "cluster_queue", "group", "attempts", "preemptions",
                       "wait_includes_attempts"):  # fmt: skip
            assert found[column] == job[column], (column, job)
    assert not jobs
    assert left_out == {"without_gpus": 1, "pending": 2, "stuck": 1, "inactive": 1}


def test_a_watch_stream_has_every_attempt(golden: Path, tmp_path: Path) -> None:
    jobs, _ = read(golden, tmp_path, "kueue_watch.json")
    for job in expected(golden)["kueue_watch"]:
        found = jobs.pop(job["job_id"])
        assert found["submit_time"].timestamp() == job["submit"]
        assert (found["num_gpus"], found["attempts"]) == (job["gpus"], len(job["attempts"]))
        if len(job["attempts"]) == 1:
            assert times(found)[1:] == tuple(job["attempts"][0][:2])
            continue
        for run, (start, end, how) in zip(found["runs"], job["attempts"], strict=True):
            assert (run["start"].timestamp(), run["end"].timestamp()) == (start, end)
            assert how in (run["state"], run["reason"])
        lost_s = sum(run["end"].timestamp() - run["start"].timestamp() for run in found["runs"])
        assert found["duration_s"] == lost_s
        last = job["attempts"][-1][1]
        ended = job["submit"] + found["queue_s"] + found["duration_s"] + found["requeue_s"]
        assert ended == last
    assert not jobs


def test_an_error_of_prometheus_is_refused_in_its_words(golden: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"exceeded maximum resolution.*\n  next: ask for a long"):
        ingest([golden / "error.json"], tmp_path / "k.parquet")


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("empty.json", "the answer is empty"),
        ("vector.json", "no series says how many GPUs"),
        ("promtool_range.json", "no series says how many GPUs"),
        ("promtool_dump.txt", "no series says how many GPUs"),
    ],
)
def test_an_answer_without_jobs_says_why(
    golden: Path, tmp_path: Path, name: str, note: str
) -> None:
    done = ingest([golden / name], tmp_path / "k.parquet")
    assert done.rows_kept == 0
    assert any(note in text for text in done.notes)


@pytest.mark.parametrize("name", ["dcgm_900.json", "dcgm_avg_3600.json"])
def test_other_metrics_are_no_jobs(golden: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="no series of kube-state-metrics"):
        ingest([golden / name], tmp_path / "k.parquet")
