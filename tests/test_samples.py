"""The sample traces: reproducible, and true to the statistics they are drawn from."""

import gzip
import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path

import polars as pl
import pytest
from support_kubernetes import DAY

from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.sample_traces import make_samples

FOLDER = Path(make_samples.__file__).parent


def content(path: Path) -> bytes:
    """The bytes of a file, of its content where it is compressed (zlib versions differ)."""
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def test_the_script_makes_the_shipped_files(tmp_path):
    made = make_samples.make_samples(tmp_path)
    assert len(made) == 15
    for path in made:
        assert content(path) == content(FOLDER / path.relative_to(tmp_path)), path.name


@pytest.mark.parametrize(
    ("name", "jobs", "mean_s", "p50_s", "p90_s"),
    [  # Allpass, Table 1; AcmeTrace's cluster summary and CDF for Philly
        ("seren.csv", 2000, 1208, 22, 765),
        ("wandb_export.csv", 500, 630, 32, 2025),
        ("philly.json.gz", 500, 18006, 874, 15830),
    ],
)
def test_published_statistics_within_ten_percent(
    gpuplan, tmp_path, name, jobs, mean_s, p50_s, p90_s
):
    out = tmp_path / "trace.parquet"
    code, shown, said = gpuplan("ingest", FOLDER / name, "-o", out, "--output-format", "json")
    assert code == 0, said
    results = json.loads(shown)["results"]
    assert (results["rows_read"], results["rows_rejected"]) == (jobs, 0)
    duration = read_trace(out).jobs["duration_s"].drop_nulls()
    assert duration.mean() == pytest.approx(mean_s, rel=0.1)
    assert duration.median() == pytest.approx(p50_s, rel=0.1)
    assert duration.quantile(0.9, "linear") == pytest.approx(p90_s, rel=0.1)


def test_prices_stay_in_the_published_ranges():
    prices = pl.read_csv(FOLDER / "gpu_prices.csv")
    of = prices.filter(pl.col("provider") == "vast.ai", pl.col("gpu_type") == "A100-80GB")
    assert of["price_usd_per_gpu_hour"].is_between(0.38, 1.66).all()
    assert of["price_usd_per_gpu_hour"].median() == pytest.approx(1.08, abs=0.15)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the jobs of the sample site of Kueue by their names."""
    return read(tmp_path_factory.mktemp("site"), "kueue/workloads.json")


def read(folder, name):
    """Return the jobs of a sample by the last two words of their names, as ``train-001``."""
    out = folder / "trace.parquet"
    ingest([FOLDER / name], out)
    jobs = pl.read_parquet(out).with_columns(end=pl.col("submit_time") + seconds("queue_s")
                                             + seconds("duration_s"))  # fmt: skip
    return {"-".join(row["job_id"].split("-")[-2:]): row for row in jobs.iter_rows(named=True)}


def seconds(column):
    return pl.duration(microseconds=(pl.col(column) * 1e6).cast(pl.Int64))


SAME = ("submit_time", "queue_s", "duration_s", "num_gpus")


def told(row, names=SAME):
    return [round(row[name], 3) if isinstance(row[name], float) else row[name] for name in names]


def test_yunikorn_has_the_jobs_of_a_cohort_that_ended_within_three_days(tmp_path, site):
    jobs = read(tmp_path, "yunikorn.json")
    since = datetime.fromtimestamp(DAY, UTC) + timedelta(days=4)
    expected = {
        name for name, row in site.items()
        if row["group"] in ("team-a", "team-b") and row["end"] and row["end"] > since
        and row["state"] != "running"
    }  # fmt: skip
    assert jobs.keys() == expected and len(jobs) == 47
    for name, row in jobs.items():
        assert told(row) == told(site[name]), name
        assert (row["queue"].split(".")[-1], row["state"]) == (row["group"], site[name]["state"])
        assert row["gpu_type"] == site[name]["gpu_type"] == "H100-80GB"


def test_dstack_has_the_runs_of_a_team_and_their_spot_instances(tmp_path, site):
    jobs = read(tmp_path, "dstack.json")
    assert jobs.keys() == {name for name, row in site.items() if row["group"] == "team-d"}
    assert len(jobs) == 60
    lost = {name for name, row in jobs.items() if row["attempts"] > 1}
    ended = {name for name in jobs if site[name]["state"] != "running"}
    assert lost & ended == {
        name for name in ended
        if int(name.split("-")[1]) % 5 == 0 and site[name]["duration_s"] > 3600
    }  # fmt: skip
    assert lost
    for name, row in jobs.items():
        of_site = site[name]
        assert told(row, SAME[:2]) == told(of_site, SAME[:2])
        if of_site["state"] == "running":
            # It runs until the last instant that the dump tells of.
            assert row["state"] == "running" and 0 < row["duration_s"] <= of_site["duration_s"]
            continue
        away_s = 60 if name in lost else 0
        assert row["duration_s"] == of_site["duration_s"] - away_s, name
        held_h = row["duration_s"] / 3600
        assert row["cost"] == pytest.approx(held_h * 1.5 * row["num_gpus"], abs=1e-3)


def test_a_watch_stream_has_attempts_that_the_snapshot_forgot(tmp_path, site):
    jobs = read(tmp_path, "kueue/watch.json")
    since = datetime.fromtimestamp(DAY, UTC) + timedelta(days=5)
    assert jobs.keys() == {
        name for name, row in site.items()
        if row["group"] == "team-a" and row["submit_time"] >= since
    }  # fmt: skip
    again = {name: row for name, row in jobs.items() if row["attempts"] > 1}
    assert again and all(site[name]["attempts"] == 1 for name in again)
    for name, row in again.items():
        first, second = row["runs"]
        assert (first["end"] - first["start"], second["start"] - first["end"]) == (
            timedelta(seconds=300), timedelta(seconds=60)
        )  # fmt: skip
        assert first["reason"] == "PodsReadyTimeout"
        assert row["duration_s"] == site[name]["duration_s"] - 60
    for name, row in jobs.items():
        if name not in again:
            assert told(row) == told(site[name]), name


def test_opencost_bills_what_the_log_of_the_site_holds(gpuplan):
    code, out, err = gpuplan(
        "bill", FOLDER / "kueue" / "workloads.json", "--price", "H100=2.4,A100-80GB=1.5",
        "--invoice", FOLDER / "opencost.json", "--output-format", "json",
    )  # fmt: skip
    assert code == 0, err
    invoice = json.loads(out)["results"]["invoice"]
    for row in invoice["gpu_types"]:
        if row["billed_gpu_h"]:
            assert row["log_gpu_h"] == pytest.approx(row["billed_gpu_h"], rel=0.02)
    priced = {"H100-80GB": 2.4, "A100-80GB": 1.5}
    billed = {row["gpu_type"]: row["billed_gpu_h"] for row in invoice["gpu_types"]}
    held = sum(priced[name] * hours for name, hours in billed.items() if hours)
    lines = {line["kind"]: line["effective_usd"] for line in invoice["lines"]}
    capacity = 2 * 24 * (56 * 2.4 + 16 * 1.5)  # of two days, of 7 nodes with H100 and 2 with A100
    assert held + lines["unused_capacity"] == pytest.approx(capacity, rel=1e-4)


def test_no_node_holds_more_gpus_than_it_has(tmp_path):
    items = json.loads((FOLDER / "kube" / "kube.json").read_text())["items"]
    has = {
        item["metadata"]["name"]: int(item["status"]["allocatable"]["nvidia.com/gpu"])
        for item in items if item["kind"] == "Node"
    }  # fmt: skip
    assert set(has.values()) == {8} and len(has) == 9
    changes = defaultdict(list)
    for item in items:
        status = item.get("status", {})
        if item["kind"] != "Pod" or "nodeName" not in item["spec"]:
            continue
        requests = item["spec"]["containers"][0]["resources"]["requests"]
        gpus = int(requests["nvidia.com/gpu"])
        state = status["containerStatuses"][0]["state"]
        end = state.get("terminated", {}).get("finishedAt", "9999")
        start = status["conditions"][0]["lastTransitionTime"]
        changes[item["spec"]["nodeName"]] += [(start, gpus), (end, -gpus)]
    assert len(changes) > 4
    for node, steps in changes.items():
        assert max(accumulate(gpus for _, gpus in sorted(steps))) <= has[node], node


def test_samples_of_kubernetes_are_small():
    views = ("dstack.json", "yunikorn.json", "opencost.json", "kueue/watch.json")
    assert all((FOLDER / name).stat().st_size < 60_000 for name in views)
