"""``--policy twin``: the rules of a Slurm site beside other policies, on the same jobs."""

import json

import numpy as np
import polars as pl
import pytest
from support_schemas import SAMPLES
from support_traces import write_trace

pytestmark = [pytest.mark.compiled, pytest.mark.kernels]

ONE_NODE = """
[node.n1]
count = 1
gpus = 4
type = "gpu"
[partition.p]
Nodes = "n1"
MaxTime = 100
[qos.low]
Priority = 1
[qos.high]
Priority = 9
[priority]
PriorityType = "priority/multifactor"
PriorityWeightQOS = 1000
"""
TWO_PARTITIONS = """
[node.n1]
count = 1
gpus = 4
type = "gpu"
[node.n2]
count = 1
gpus = 8
type = "gpu"
[partition.small]
Nodes = "n1"
[partition.large]
Nodes = "n2"
"""


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def rows_of(gpuplan, tmp_path, *words):
    out = tmp_path / "jobs.parquet"
    code, _, err = gpuplan("simulate", *words, "--policy", "twin", "-o", out)
    assert code == 0, err
    return pl.read_parquet(out).sort("job_id"), err


def test_the_site_orders_its_queue_and_refuses_what_is_too_long(gpuplan, tmp_path):
    """A holds all GPUs for 1,000 s. High priority passes low; three hours are over MaxTime."""
    trace = write_trace(
        tmp_path / "t.parquet", [0, 10, 20, 30], [1000.0, 500.0, 300.0, 60.0], [4.0] * 4,
        qos=["low", "low", "high", "low"], partition=["p"] * 4,
        limit_s=[1200.0, 600.0, 600.0, 3 * 3600.0],
    )  # fmt: skip
    site = written(tmp_path / "twin.toml", ONE_NODE)
    rows, err = rows_of(gpuplan, tmp_path, trace, "--site", site)
    assert rows["start_s"].to_list() == [0, 1300, 1000]  # first, low, high
    assert rows["jct_s"].to_list() == [1000, 1790, 1280]
    assert rows["partition"].to_list() == ["p"] * 3
    assert "twin: the site refuses 1 job: 1 for PartitionTimeLimit" in err


def test_jobs_keep_to_the_nodes_of_their_partition(gpuplan, tmp_path):
    trace = write_trace(
        tmp_path / "t.parquet", [0, 5, 6], [100.0, 100.0, 100.0], [4.0, 4.0, 4.0],
        partition=["small", "small", "large"],
    )  # fmt: skip
    site = written(tmp_path / "twin.toml", TWO_PARTITIONS)
    rows, err = rows_of(gpuplan, tmp_path, trace, "--site", site, "--full")
    assert rows["start_s"].to_list() == [0, 100, 6] and "do not count" not in err
    small = ("--site", site, "--where", "partition = 'small'", "--full")
    assert "8 GPUs of the site do not count" in rows_of(gpuplan, tmp_path, trace, *small)[1]
    code, out, err = gpuplan(
        "compare", trace, "--policy", "twin", "--policy", "fifo", "--site", site,
        "--output-format", "json",
    )  # fmt: skip
    assert code == 0, err
    twin, fifo = json.loads(out)["results"]["policies"]
    assert (twin["gpus"], fifo["gpus"]) == (12, 12)  # --site gives the others as many
    assert twin["mean_wait_s"] == pytest.approx(95 / 3) and fifo["mean_wait_s"] == 0


def test_jobs_keep_to_the_nodes_of_their_gpu_type(gpuplan, tmp_path):
    """The second waits for the A100s beside idle H100s; backfill, every 30 s, starts the third."""
    trace = write_trace(
        tmp_path / "t.parquet", [0, 5, 6], [100.0] * 3, [4.0] * 3,
        gpu_type=["A100-80GB", "A100-80GB", None],
    )  # fmt: skip
    nodes = "".join(
        f'[node.{kind}]\ncount = 1\ngpus = 4\ntype = "{kind}"\n' for kind in ("a100", "h100")
    )
    site = written(tmp_path / "twin.toml", f'{nodes}[partition.p]\nNodes = "ALL"\n')
    rows, _ = rows_of(gpuplan, tmp_path, trace, "--site", site)
    assert rows["start_s"].to_list() == [0, 100, 35]
    words = ("--policy", "twin", "--policy", "fifo", "--site", site)
    code, out, err = gpuplan("compare", trace, *words)
    assert code == 0, err
    assert "twin keeps jobs to 4 A100 and 4 H100" in " ".join(out.split())


def test_plain_rules_are_those_of_the_policy_easy(gpuplan, tmp_path):
    """Equal nodes, one partition, no priorities: another way to the same schedule."""
    rng = np.random.default_rng(0)
    n = 80
    run = rng.integers(10, 4000, n).astype(float)
    trace = write_trace(
        tmp_path / "t.parquet", np.sort(rng.integers(0, 20_000, n)).tolist(), run.tolist(),
        rng.choice([1.0, 2.0, 4.0, 8.0], n).tolist(),
        limit_s=(run * rng.uniform(1, 3, n)).round().tolist(),
    )  # fmt: skip
    site = written(
        tmp_path / "twin.toml",
        '[node.n]\ncount = 4\ngpus = 4\ntype = "gpu"\n[partition.p]\nNodes = "ALL"\n'
        '[calibration]\nlevel = "easy"\n',
    )
    rows, _ = rows_of(gpuplan, tmp_path, trace, "--site", site)
    out = tmp_path / "easy.parquet"
    code, _, err = gpuplan("simulate", trace, "--policy", "easy", "--cluster", "4x4", "-o", out)
    assert code == 0, err
    easy = pl.read_parquet(out).sort("job_id")
    assert (rows["start_s"] > rows["submit_s"]).any()
    assert rows["start_s"].equals(easy["start_s"]) and rows["jct_s"].equals(easy["jct_s"])


def test_a_log_of_the_sample_site_is_replayed_beside_other_policies(gpuplan, tmp_path):
    folder, site = SAMPLES / "slurm_site", tmp_path / "twin.toml"
    log = folder / "sacct.txt"
    code, _, err = gpuplan("calibrate", log, "--slurm-conf", folder / "slurm.conf", "-o", site)
    assert code == 0, err
    rows, err = rows_of(gpuplan, tmp_path, log, "--site", site)
    assert rows.height == 780
    assert (rows["start_s"] >= rows["submit_s"]).all()
    assert rows["start_s"].gt(rows["submit_s"] + 3600).any()
    code, out, err = gpuplan("simulate", log, "--policy", "slurm", "--site", site)
    assert code == 0 and "twin" in out, err


def test_waits_that_the_rules_do_not_explain_are_said_to_come_from_elsewhere(gpuplan, tmp_path):
    """60 jobs that waited an hour each for something that is no rule of a site."""
    n = 60
    trace = write_trace(
        tmp_path / "t.parquet", [4000 * i for i in range(n)], [100.0] * n, [4.0] * n,
        queue_s=[3600.0] * n,
    )  # fmt: skip
    site = written(tmp_path / "twin.toml", ONE_NODE.replace("MaxTime = 100\n", ""))
    code, out, err = gpuplan("compare", trace, "--policy", "twin", "--site", site)
    assert code == 0, err
    text = " ".join(out.split())
    assert "under twin waits 0 s (P95), your log 60 min: dependencies, begin times or rules" in text
    assert "gpuplan calibrate ... --advice" in text


@pytest.mark.parametrize("policy", ["twin", "kueue"])
@pytest.mark.parametrize(
    "words", [("size", "--target", "p95_wait <= 1h"), ("waste",), ("bill", "--delays")]
)
def test_studies_of_one_cluster_name_their_option_for_a_site(gpuplan, policy, words):
    command, *options = words
    log = SAMPLES / "slurm_site" / "sacct.txt"
    code, _, err = gpuplan(command, log, *options, "--policy", policy)
    assert code == 2 and f"--policy {policy}: its GPUs are those of a site" in err
    assert "next: --twin FILE" in err


@pytest.mark.parametrize(
    "words, text",
    [
        ([], "--site: twin replays the rules of a Slurm site, and none is given"),
        (["--site", "twin.toml", "--cluster", "8"], "twin runs jobs on the GPUs of the site"),
        (["--site", "kueue.json"], "kueue.json:1: not TOML"),
        (["--site", "queues.toml"], "is of a site of Kueue"),
        (["--site", "level.toml"], "level.toml: calibration.level"),
        (["--site", "missing.toml"], "no such file"),
        (["--site", "broken.toml"], "broken.toml:1: not TOML"),
        (["--site", "other.toml"], "job 0 names no partition, and other.toml has"),
    ],
)  # fmt: skip
def test_a_site_that_cannot_be_replayed_is_refused(gpuplan, tmp_path, monkeypatch, words, text):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "twin.toml", ONE_NODE)
    written(tmp_path / "other.toml", TWO_PARTITIONS)
    written(tmp_path / "broken.toml", "[partition")
    written(tmp_path / "level.toml", ONE_NODE + '[calibration]\nlevel = "x"\n')
    written(tmp_path / "queues.toml", "[clusterqueue.a]\nx = 1\n")
    written(tmp_path / "kueue.json", '{"kind": "List", "items": []}')
    trace = write_trace(tmp_path / "t.parquet", [0, 10], [60.0, 60.0], [1.0, 1.0])
    code, _, err = gpuplan("simulate", trace, "--policy", "twin", *words)
    assert code in (2, 3), err
    assert text in " ".join(err.split())
