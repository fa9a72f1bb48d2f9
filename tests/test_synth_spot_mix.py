"""``gpuplan synth --preset gfs``: published shares, the assumed load, and what it refuses."""

import json

import polars as pl
import pytest

from gpuplan.analysis.synth.spot_mix import GPUS, HP_LOAD, KINDS, SpotMix

WORDS = ("synth", "--preset", "gfs", "--seed", "1")


def test_a_trace_has_the_published_shares(gpuplan, tmp_path):
    out = tmp_path / "gfs.parquet"
    code, text, err = gpuplan(
        *WORDS, "--days", "10", "--spot-load", "4x", "-o", str(out), "--output-format", "json"
    )
    assert code == 0, err
    found = json.loads(text)["results"]
    assert found["statistics_outside"] == 0 and found["statistics_compared"] == 13
    assert any("assumed" in note for note in found["notes"])
    jobs = pl.read_parquet(out)
    assert jobs.height == found["jobs"] and jobs["submit_time"].is_sorted()
    spot = (jobs["priority"] == "spot").mean()
    assert spot == pytest.approx(4 * 26_635 / (138_403 + 4 * 26_635), abs=0.01)
    own = jobs.filter(pl.col("priority") == "hp")
    assert own["duration_s"].mean() == pytest.approx(17_749, rel=0.01)
    gpu_s = float((own["duration_s"] * own["num_gpus"]).sum())
    assert gpu_s / (10 * 86_400 * GPUS) == pytest.approx(HP_LOAD, rel=0.1)
    whole = jobs.filter(pl.col("num_workers") > 1)
    assert (whole["num_gpus"] % whole["num_workers"] == 0).all()
    again = tmp_path / "again.parquet"
    gpuplan(*WORDS, "--days", "10", "--spot-load", "4", "-o", str(again))
    assert again.read_bytes() == out.read_bytes()


def test_the_rate_of_spot_jobs_follows_its_load():
    hp, spot = KINDS
    one, four = SpotMix(1.0), SpotMix(4.0)
    assert four.per_day(spot) == pytest.approx(4 * one.per_day(spot))
    assert four.per_day(hp) == one.per_day(hp)
    assert one.per_day(spot) / one.per_day(hp) == pytest.approx(26_635 / 138_403)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--jobs", "9"), "--jobs"),
        (("--spot-load", "many"), "a factor such as 4x"),
        (("--spot-load", "1000x"), "0x to 100x"),
        (("--days", "1e-9"), "no job is submitted"),
        (("--days", "99999"), "at most"),
        (("--save-model", "m.json"), "not a fitted model"),
    ],
)
def test_what_cannot_be_drawn_is_refused(gpuplan, tmp_path, words, message):
    code, _, err = gpuplan(*WORDS, *words, "-o", str(tmp_path / "x.parquet"))
    assert code == 2 and message in err, err


def test_other_presets_need_jobs_and_no_spot_load(gpuplan, tmp_path):
    out = str(tmp_path / "x.parquet")
    code, _, err = gpuplan("synth", "--preset", "seren", "-o", out)
    assert code == 2 and "--jobs" in err
    code, _, err = gpuplan(
        "synth", "--preset", "seren", "--jobs", "9", "--spot-load", "2", "-o", out
    )
    assert code == 2 and "--preset gfs" in err
