"""Waits by group under each policy, worked out by hand: ``--by`` of simulate, compare and size."""

import json
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from support_traces import write_trace

from gpuplan.planner.runs.group_waits import group_waits


@pytest.fixture
def log(tmp_path):
    # On 2 GPUs, first come first served: vision's second job waits 100 s and nlp's 190 s.
    return write_trace(
        tmp_path / "t.parquet", [0, 0, 10, 300], [100.0, 100.0, 100.0, 50.0],
        num_gpus=[2, 2, 2, 1], group=["vision", "vision", "nlp", None],
        user=["ann", "bo", "cy", "cy"], gpu_type=["T4"] * 4, queue_s=[0.0, 5.0, 7.0, 0.0],
    )  # fmt: skip


def results(gpuplan, *words):
    code, out, err = gpuplan(*map(str, words), "--output-format", "json")
    assert code == 0, err
    return json.loads(out)


VISION = {"name": "vision", "jobs": 2, "gpu_h": pytest.approx(400 / 3600), "mean_wait_s": 50,
          "p50_wait_s": 50, "p95_wait_s": pytest.approx(95)}  # fmt: skip
NLP = {"name": "nlp", "jobs": 1, "gpu_h": pytest.approx(200 / 3600), "mean_wait_s": 190,
       "p50_wait_s": 190, "p95_wait_s": 190}  # fmt: skip
FIFO = ("--gpus", "2", "--window", "run")


def test_simulate_has_waits_by_group_and_the_labels_of_each_job(gpuplan, log, tmp_path):
    rows = tmp_path / "jobs.parquet"
    found = results(
        gpuplan, "simulate", log, "--policy", "fifo", *FIFO, "--by", "group", "-o", rows
    )
    assert found["parameters"]["by"] == "group"
    vision, nlp, nobody = found["results"]["groups"]
    assert (vision, nlp) == (VISION, NLP)
    assert (nobody["name"], nobody["jobs"], nobody["mean_wait_s"]) == ("unknown", 1, 0)
    jobs = pl.read_parquet(rows)
    assert jobs["group"].to_list() == ["vision", "vision", "nlp", None]
    assert jobs["user"].to_list() == ["ann", "bo", "cy", "cy"] and "job_class" in jobs.columns
    assert "groups" not in results(gpuplan, "simulate", log, "--policy", "fifo", *FIFO)["results"]


CLUSTERS = {
    "one type": ("--cluster", "2x2", "--policy", "srtf"),
    "two types": ("--cluster", "A100=1x2,T4=1x2", "--gpu-speed", "A100=3,T4=1", "--policy", "srtf"),
    "spot": ("--cluster", "2x2", "--policy", "yarn-cs", "--spot", "duration_s > 500"),
}


@pytest.fixture
def teams(tmp_path):
    jobs = range(40)  # of both GPU types, more than fit at once
    return write_trace(
        tmp_path / "teams.parquet", [100 * i for i in jobs], [300.0 + 40 * (i % 11) for i in jobs],
        num_gpus=[1 + i % 2 for i in jobs], group=[("vision", "nlp", "ads")[i % 3] for i in jobs],
        gpu_type=["A100", "T4"] * 20, queue_s=[float(i) for i in jobs],
    )  # fmt: skip


@pytest.mark.parametrize("kind", CLUSTERS)
def test_waits_by_group_are_those_of_the_file_per_job(gpuplan, teams, tmp_path, kind):
    out = tmp_path / "jobs.parquet"
    words = ("simulate", teams, *CLUSTERS[kind], "--by", "group", "-o", out)
    groups = results(gpuplan, *words)["results"]["groups"]
    rows = pl.read_parquet(out)
    if kind == "spot":  # of the jobs that are not lent their GPUs
        rows = rows.filter(pl.col("finished") & (pl.col("priority") == "hp"))
    for one in groups:
        own = rows.filter(group=one["name"])["jqt_s"]
        assert (one["jobs"], one["mean_wait_s"]) == (len(own), pytest.approx(own.mean()))
        assert one["p95_wait_s"] == pytest.approx(own.quantile(0.95, "linear"))
    assert sum(one["jobs"] for one in groups) == rows.height and rows["jqt_s"].sum() > 0


def test_compare_has_waits_by_two_columns_and_gates_read_them(gpuplan, log):
    words = ("compare", log, "--policy", "fifo", "--policy", "srtf", *FIFO)
    found = results(gpuplan, *words, "--by", "group,type")["results"]["policies"]
    assert [one["groups"][0]["name"] for one in found] == ["vision/T4"] * 2
    gate = "policies[fifo].groups[nlp].p95_wait_s > 3m"
    assert gpuplan(*map(str, words), "--by", "group", "--fail-if", gate)[0] == 1
    gate = "policies[fifo].groups[nlp].p95_wait_s > 4m"
    code, out, err = gpuplan(*map(str, words), "--by", "group", "--fail-if", gate)
    assert code == 0, err
    assert "Waits by group" in out and "vision" in out


@pytest.mark.parametrize("kind", CLUSTERS)
def test_the_waits_by_group_are_part_of_every_answer_beside_those_of_today(gpuplan, teams, kind):
    cluster = CLUSTERS[kind]
    words = ("compare", teams, *cluster, "--policy", "fifo", "--by", "group")
    found = results(gpuplan, *words)["results"]
    out = gpuplan(*map(str, words))[1]
    title = "Waits of high-priority jobs by group" if kind == "spot" else "Waits by group"
    assert title in out and " today " in out.partition(title)[2]
    waits_s = {"vision": range(0, 40, 3), "nlp": range(1, 40, 3), "ads": range(2, 40, 3)}
    if kind == "spot":
        short = {i for i in range(40) if 300 + 40 * (i % 11) <= 500}
        waits_s = {name: [i for i in own if i in short] for name, own in waits_s.items()}
    assert {one["name"]: one["mean_wait_s"] for one in found["today_groups"]} == {
        name: pytest.approx(sum(own) / len(own)) for name, own in waits_s.items()
    }


def test_the_full_table_of_waits_has_all_groups(gpuplan, tmp_path):
    path = write_trace(
        tmp_path / "t.parquet", range(30), [60.0] * 30, group=[f"team-{i:02}" for i in range(30)]
    )
    words = ("simulate", str(path), "--policy", "fifo", "--gpus", "4", "--by", "group")
    short, full = gpuplan(*words)[1], gpuplan(*words, "--full")[1]
    assert short.count("team-") == 12 and "And 18 more rows" in short
    assert full.count("team-") == 30 and "today" not in full.partition("Waits by group")[2]
    assert "today_groups" not in results(gpuplan, *words)["results"]


def test_size_has_waits_by_group_at_each_size(gpuplan, log):
    found = results(gpuplan, "size", log, "--gpus", "2,4", "--by", "user", "--ci", "0")["results"]
    assert [one["mean_wait_s"] for one in found["today_groups"]] == [3.5, 0, 5]  # cy, ann, bo
    at_two, at_four = ({one["name"]: one for one in row["groups"]} for row in found["points"])
    assert at_two["cy"]["mean_wait_s"] == pytest.approx(95) and at_four["bo"]["mean_wait_s"] == 0


def test_characterize_has_recorded_waits_by_group(gpuplan, log):
    found = results(gpuplan, "characterize", log)["results"]["groups"]["group"]["rows"]
    vision = next(row for row in found if row["name"] == "vision")
    assert (vision["mean_wait_s"], vision["p50_wait_s"], vision["p95_wait_s"]) == (2.5, 2.5, 4.75)
    assert "P95 wait" in gpuplan("characterize", log, "--full")[1]


@pytest.mark.parametrize("by", ["team", "group,group", "group,user,type"])
def test_what_waits_cannot_be_split_by_is_refused(gpuplan, log, by):
    code, _, err = gpuplan("simulate", str(log), "--policy", "fifo", *FIFO, "--by", by)
    assert code == 2 and f"--by {by}"[:8] in err


def test_groups_that_look_alike_stay_apart():
    labels = pl.DataFrame(
        {"group": ["a/b", "a", None, "unknown"], "gpu_type": ["c", "b/c", "x", "x"]}
    )
    jobs = SimpleNamespace(labels=labels, by=("group", "type"), tenants=None)
    names = {row.name for row in group_waits(jobs, np.zeros(4), np.zeros(4))}
    assert names == {'"a/b"/c', 'a/"b/c"', "(unknown)/x", "unknown/x"}
    jobs.by = ("group",)
    names = {row.name for row in group_waits(jobs, np.zeros(4), np.zeros(4))}
    assert names == {"a/b", "a", "(unknown)", "unknown"}
