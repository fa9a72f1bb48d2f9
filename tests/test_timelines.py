"""``--timeline``: what happened over time under one policy, under several, in a sweep."""

import json

import polars as pl
import pytest
from support_traces import lab_trace, write_trace

pytestmark = pytest.mark.kernels


def test_a_cluster_tells_gpus_in_use_and_jobs_waiting(gpuplan, tmp_path):
    trace = write_trace(tmp_path / "t.parquet", [0, 2, 4], [10.0, 3.0, 1.0])
    line = tmp_path / "line.parquet"
    free = ("--set", "checkpoint_s=0", "--set", "restore_s=0")
    code, _, err = gpuplan(
        "simulate", trace, "--policy", "srtf", "--gpus", 1, *free, "--timeline", line
    )
    assert code == 0, err
    # The job of 10 s makes room at 2 s for that of 3 s, which ties at 4 s with that of 1 s.
    changes = [(0, 0, 1), (2, 1, 1), (4, 2, 1), (5, 1, 1), (6, 0, 1), (14, 0, 0)]
    assert pl.read_parquet(line).rows() == changes
    code, _, err = gpuplan("simulate", trace, "--policy", "fifo", "--timeline", "x.csv")
    assert code == 2 and "ends in .parquet" in err


def test_compare_writes_the_time_line_of_each_policy(gpuplan, tmp_path):
    trace = lab_trace(tmp_path / "t.parquet", jobs=40)
    several, alone = tmp_path / "several.parquet", tmp_path / "alone.parquet"
    policies = ("--policy", "hpa", "--policy", "srtf:gpus=20", "--policy", "srtf:gpus=30")
    code, _, err = gpuplan("compare", trace, *policies, "--timeline", several)
    assert code == 0, err
    found = pl.read_parquet(several)
    assert found["label"].unique(maintain_order=True).to_list() == ["hpa", *policies[3::2]]
    for label, policy, *options in (("hpa", "hpa"), ("srtf:gpus=30", "srtf", "--gpus", 30)):
        code, _, err = gpuplan("simulate", trace, "--policy", policy, *options, "--timeline", alone)
        assert code == 0, err
        own = pl.read_parquet(alone)
        assert own.equals(found.filter(pl.col("label") == label).select(own.columns))


def test_a_sweep_writes_the_time_line_of_each_point_at_its_prices(gpuplan, tmp_path):
    trace = lab_trace(tmp_path / "t.parquet", jobs=40)
    line = tmp_path / "line.parquet"
    code, out, err = gpuplan(
        *("sweep", trace, "--threshold", "30,5m", "--policy", "fixed", "--capacity", "4,none"),
        *("--price-ratio", "0.25,0.5", "--timeline", line, "--output-format", "json"),
    )
    assert code == 0, err
    points = json.loads(out)["results"]["points"]
    found = pl.read_parquet(line)
    assert found["point"].unique().sort().to_list() == [None, *range(8)]
    for index, point in enumerate(points):
        own = found.filter(pl.col("point") == index)
        assert set(own["threshold_s"]) == {point["threshold_s"]}
        assert set(own["capacity"]) == {point["capacity"]}
        assert own["ready"].max() > 0
    first, second = (
        found.filter(pl.col("point") == index)["paid_usd_per_h"] for index in (0, 4)
    )  # the same replay, at twice the price
    assert first.max() > 0 and (2 * first - second).abs().max() < 1e-9
