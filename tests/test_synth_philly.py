"""A synthetic Philly against the recorded one."""

import json

import numpy as np
import pytest
from support_synth import KEY, by_key, regardless_of_crowds, rows, without_rhythm

from gpuplan.analysis.characterize import characterize
from gpuplan.analysis.ingest.ingest import ingest
from gpuplan.analysis.synth import Request, fit_model, synthesize
from gpuplan.analysis.trace.trace import read_trace


@pytest.mark.slow
def test_philly(shared, tmp_path, gpuplan):
    log = shared / "data" / "philly" / "philly_jobs_a.csv.gz"
    trace, out = tmp_path / "philly.parquet", tmp_path / "synth.parquet"
    assert gpuplan("ingest", log, "-o", trace)[0] == 0
    code, text, _ = gpuplan(
        *("synth", "--like", trace, "--jobs", 55_009, "--seed", 1, "-o", out),
        *("--output-format", "json"),
    )
    document = {row["statistic"]: row["verdict"] for row in json.loads(text)["results"]["compared"]}
    assert code == 0
    assert not [key for key, verdict in document.items() if verdict not in (None, "within")]
    assert {"by_hour.distance", "by_weekday.distance", "arrivals.weekly_strength"} <= set(document)
    assert {"load.p95_gpus", "load.peak_gpus", "arrivals.burst_share_hours"} <= set(document)
    flat = synthesize(
        without_rhythm(fit_model(read_trace(trace))), Request(55_009, 1), tmp_path / "flat.parquet"
    )
    assert by_key(flat)["by_hour.distance"].verdict != "within"
    assert by_key(flat)["by_weekday.distance"].verdict != "within"
    recorded, drawn = (characterize(read_trace(path)).summary() for path in (trace, out))
    for path, close in (
        (("duration_s", "mean"), 0.05),
        (("duration_s", "p50"), 0.05),
        (("duration_s", "p90"), 0.05),
        (("duration_s", "p99"), 0.10),
        (("short_jobs", "under_60s"), 0.05),
        (("short_jobs", "under_600s"), 0.05),
        (("gpu_time", "gpu_hours"), 0.10),
        (("gpu_time", "top10pct_longest_share"), 0.02),
        (("interarrival", "mean_s"), 0.02),
        (("interarrival", "scv"), 0.10),
        (("interarrival", "zero_share"), 0.05),
    ):
        wanted, found = recorded, drawn
        for part in path:
            wanted, found = wanted[part], found[part]
        assert found == pytest.approx(wanted, rel=close), path
    for name in ("by_hour", "by_weekday"):  # a flat pattern is 15.0 and 17.3 points away
        wanted, found = (np.array(s["arrivals"][name]) / 55_009 for s in (recorded, drawn))
        assert np.abs(wanted - found).sum() / 2 < 0.05
        assert np.abs(wanted - 1 / wanted.size).sum() / 2 > 0.14
    mix = [[(row["num_gpus"], row["jobs"]) for row in s["gpu_counts"]] for s in (recorded, drawn)]
    assert mix[0] == mix[1]
    assert rows(out).join(rows(trace), on=KEY, how="semi").is_empty()


@pytest.mark.slow
@pytest.mark.no_cover  # many seeds, few lines
def test_philly_with_every_seed(shared, tmp_path):
    """All statistics are met; the GPUs held are not by jobs drawn regardless of their crowd."""
    log = shared / "data" / "philly" / "philly_jobs_a.csv.gz"
    ingest([log], tmp_path / "philly.parquet")
    model = fit_model(read_trace(tmp_path / "philly.parquet"))
    for seed in range(10):
        result = synthesize(model, Request(55_009, seed), tmp_path / "t.parquet")
        judged = {row.statistic: row.verdict for row in result.compared if row.verdict}
        assert set(judged.values()) == {"within"}, (seed, result.outside)
    alone = [
        synthesize(regardless_of_crowds(model), Request(55_009, seed), tmp_path / "t.parquet")
        for seed in range(4)
    ]
    assert "outside" in {by_key(result)["load.p95_gpus"].verdict for result in alone}
