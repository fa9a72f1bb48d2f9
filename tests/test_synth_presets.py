"""Presets draw what is published of them."""

import numpy as np
import polars as pl
import pytest
from support_synth import (
    rows,
)

from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.characterize import characterize
from gpuplan.analysis.synth import PRESETS, Request, preset_model, synthesize
from gpuplan.analysis.synth.presets import PUBLISHED
from gpuplan.analysis.trace.trace import read_trace


@pytest.mark.parametrize("name", PRESETS)
def test_presets_meet_what_is_published(name, tmp_path):
    model = preset_model(name)
    result = synthesize(model, Request(min(model.jobs, 60_000)), tmp_path / "t.parquet")
    assert not result.outside, [plain(row) for row in result.outside]
    drawn = characterize(read_trace(tmp_path / "t.parquet"))
    assert drawn.interarrival.scv == pytest.approx(model.arrivals.scv, rel=0.1)
    assert drawn.interarrival.zero_share == pytest.approx(model.arrivals.zero_share, abs=0.01)
    if name in ("wandb", "abc"):  # Allpass, section 2.2
        assert drawn.short_jobs["under_600s"] > 0.8
        assert drawn.gpu_time.top10pct_longest_share > 0.84


@pytest.mark.parametrize("name", ["kalos", "philly", "helios"])
def test_states_of_presets_hold_their_published_share_of_the_gpu_time(name, tmp_path):
    files = [tmp_path / f"{seed}.parquet" for seed in range(3)]  # a few long jobs decide
    for seed, path in enumerate(files):
        synthesize(preset_model(name), Request(50_000, seed, days=300), path)
    gpu_s = pl.col("duration_s") * pl.col("num_gpus")
    held = pl.concat(map(rows, files)).group_by("state").agg(gpu_s.sum().alias("gpu_s"))
    total = held["gpu_s"].sum()
    for state, share in PUBLISHED[name].states_by_time.items():
        found = held.filter(pl.col("state") == state)["gpu_s"].item() / total
        assert found == pytest.approx(share, abs=0.05)


@pytest.mark.slow
@pytest.mark.no_cover  # many seeds, few lines
def test_presets_follow_the_figures_of_acmetrace(shared, tmp_path):
    """Largest distance to the published CDFs: durations 1 point, GPU counts 0.2.

    GPU time of Seren, which few jobs decide, is off by 1 to 7 points from seed to seed (six were
    tried); that of the others by less.
    """
    time_points = {"seren": 8.0, "kalos": 0.5, "philly": 0.5, "helios": 3.0}
    folder = shared / "data" / "acmetrace"
    durations = pl.read_csv(folder / "cdf_gpu_job_duration.csv")
    counts = pl.read_csv(folder / "cdf_gpu_count.csv")
    for name in ("seren", "kalos", "philly", "helios"):
        synthesize(preset_model(name), Request(400_000, days=400), tmp_path / "t.parquet")
        jobs = rows(tmp_path / "t.parquet").sort("duration_s")
        here = np.searchsorted(jobs["duration_s"], durations["duration_s"], side="right") / 4000
        assert np.abs(here - durations[name.title()].to_numpy()).max() < 1.01
        weights = {"jobs": pl.len(), "gpu_time": (pl.col("duration_s") * pl.col("num_gpus")).sum()}
        for quantity, close in (("jobs", 0.2), ("gpu_time", time_points[name])):
            points = counts.filter(trace=name.title(), quantity=quantity)
            held = jobs.group_by("num_gpus").agg(weights[quantity].alias("w")).sort("num_gpus")
            share = np.concatenate([[0], np.cumsum(held["w"]) / held["w"].sum() * 100])
            at = np.searchsorted(held["num_gpus"], points["gpus"], side="right")
            assert np.abs(share[at] - points["cdf_percent"].to_numpy()).max() < close, quantity
