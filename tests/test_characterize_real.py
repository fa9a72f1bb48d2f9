"""The statistics of real traces, as their folders' READMEs state them."""

import polars as pl
import pytest

from gpuplan.analysis.characterize import COLUMNS, characterize
from gpuplan.analysis.trace.trace import read_trace

HOUR = 3600.0


def philly(shared, tmp_path, zone):
    """The Philly table with its times read as wall clock of ``zone``."""
    raw = pl.read_csv(shared / "data/philly/philly_jobs_a.csv.gz").drop_nulls("timestamp")
    submit = pl.col("timestamp").str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us")
    path = tmp_path / "philly.parquet"
    raw.select(
        submit.dt.replace_time_zone(zone, ambiguous="earliest")
        .dt.convert_time_zone("UTC")
        .alias("submit_time"),
        pl.col("duration").alias("duration_s"),
        pl.col("num_gpus").cast(pl.Float64),
        pl.col("cluster").alias("group"),
    ).write_parquet(path)
    return characterize(read_trace(path, columns=COLUMNS)).summary()


def test_philly_prints_its_published_statistics(shared, tmp_path):
    found = philly(shared, tmp_path, "UTC")  # wall-clock gaps, as in the folder's README
    assert found["jobs"] == 55009
    duration = {name: round(value, 1) for name, value in found["duration_s"].items()}
    assert duration == {
        "jobs": 55009, "mean": 12117.8, "p50": 1800.0, "p90": 11350.6, "p95": 31199.8,
        "p99": 212958.6, "max": 3256045.0, "min": 1.0,
    }  # fmt: skip
    assert round(found["short_jobs"]["under_600s"], 4) == 0.3100
    assert round(found["gpu_time"]["top10pct_longest_share"], 4) == 0.9327
    assert round(found["gpu_time"]["gpu_hours"], 1) == 492097.9
    assert round(found["interarrival"]["mean_s"], 1) == 166.7
    assert round(found["interarrival"]["scv"], 1) == 163.0
    assert round(found["interarrival"]["zero_share"], 4) == 0.0687
    assert found["span_s"] == 9171736
    assert {row["num_gpus"]: row["jobs"] for row in found["gpu_counts"]} == {
        1: 52281, 4: 1238, 8: 1110, 2: 232, 16: 111, 32: 16, 12: 7, 64: 6, 24: 5, 128: 3,
    }  # fmt: skip
    groups = found["groups"]["group"]["rows"]
    assert {row["name"]: row["jobs"] for row in groups} == {
        "6214e9": 41226, "6c71a0": 9953, "103959": 1934, "ee9e8c": 1511, "e13805": 374,
        "23dbec": 8, "925e2b": 3,
    }  # fmt: skip
    assert found["load"]["mean_gpus"] == pytest.approx(492097.865 * 3600 / 9171736)


def test_philly_in_its_own_zone_lasts_the_hour_longer_that_it_did(shared, tmp_path):
    # The clocks went back on 2017-11-05 inside the trace: 3600 s more passed than the wall shows.
    found = philly(shared, tmp_path, "America/Los_Angeles")
    assert found["span_s"] == 9171736 + 3600
    assert round(found["interarrival"]["mean_s"], 1) == 166.8
    assert round(found["interarrival"]["scv"], 1) == 162.9


def test_openb_has_fractional_gpus_and_cpu_jobs(shared, tmp_path):
    raw = pl.read_csv(shared / "data/alibaba-openb-v2023/openb_pod_list_default.csv.gz")
    gpus = pl.col("num_gpu") * pl.col("gpu_milli") / 1000
    jobs = raw.select(
        (pl.from_epoch(pl.col("creation_time"), time_unit="s")).alias("submit_time"),
        (pl.col("deletion_time") - pl.col("creation_time")).cast(pl.Float64).alias("duration_s"),
        gpus.fill_null(0).cast(pl.Float64).alias("num_gpus"),
    ).filter(pl.col("duration_s").is_null() | (pl.col("duration_s") >= 0))
    path = tmp_path / "openb.parquet"
    jobs.write_parquet(path)
    found = characterize(read_trace(path, columns=COLUMNS)).summary()
    assert found["cpu_only_jobs"] == jobs.filter(pl.col("num_gpus") == 0).height > 0
    assert any(row["num_gpus"] % 1 for row in found["gpu_counts"])
    held = float((jobs["duration_s"] * jobs["num_gpus"]).sum())
    assert found["gpu_time"]["gpu_hours"] == pytest.approx(held / HOUR)
    load = found["load"]
    assert load["window_mean_gpus"] * load["window_s"] == pytest.approx(held)
