"""How near a synthetic trace is to its original: every statistic, its tolerance, its verdict."""

from dataclasses import replace

import pytest
from support_synth import (
    by_key,
    synthetic,
    usual,
    without_rhythm,
    working_hours,
    workload,
)

from gpuplan.analysis.base.plain import plain
from gpuplan.analysis.characterize import characterize
from gpuplan.analysis.synth import Request, fit_model, preset_model, synthesize
from gpuplan.analysis.synth.compare import STATISTICS, compared
from gpuplan.analysis.trace.trace import read_trace


@pytest.fixture(scope="module")
def original():
    return usual()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_statistic_is_within_its_tolerance(original, tmp_path, seed):
    result = synthetic(original, tmp_path / "t.parquet", seed=seed)
    judged = [plain(row) for row in result.compared if row.verdict is not None]
    assert not [row for row in judged if row["verdict"] != "within"]
    assert len(judged) >= 28


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_arrivals_without_rhythm_do_not_pass_for_the_original_s(tmp_path, seed):
    trace = workload(arrivals=working_hours)
    result = synthetic(trace, tmp_path / "t.parquet", seed=seed)
    assert by_key(result)["by_hour.distance"].verdict == "within"
    assert by_key(result)["by_weekday.distance"].verdict == "within"
    flat = synthesize(without_rhythm(fit_model(trace)), Request(6000, seed), tmp_path / "f.parquet")
    assert by_key(flat)["by_hour.distance"].verdict == "outside"
    assert by_key(flat)["by_weekday.distance"].verdict == "outside"
    assert by_key(flat)["arrivals.weekly_strength"].verdict == "outside"


def test_jobs_in_no_bursts_do_not_pass_for_bursty_ones(original, tmp_path):
    model = fit_model(original)
    calm = replace(model.arrivals, memory=(0.0,) * 4, scv=1.0, gap=None, hours=None)
    result = synthesize(replace(model, arrivals=calm), Request(6000), tmp_path / "t.parquet")
    for key in ("interarrival.scv", "arrivals.hourly_dispersion", "arrivals.burst_share_jobs"):
        assert by_key(result)[key].verdict == "outside"


def test_what_a_few_jobs_decide_is_not_said_to_pass(tmp_path):
    found = synthesize(preset_model("seren"), Request(20_000), tmp_path / "t.parquet")
    row = by_key(found)["gpu_time_cdf.distance"]
    assert (
        row.verdict == "too_few_data"
        and 0.05 == row.allowed < row.difference < row.explained_by_chance
    )
    assert row not in found.outside
    assert found.summary()["statistics_too_few_data"] >= 1


@pytest.mark.parametrize(
    ("difference", "explained", "few", "verdict"),
    [
        (0.05, 0.0, False, "within"),
        (-0.05, 0.2, False, "within"),
        (0.051, 0.0, False, "outside"),
        (-0.2, 0.2, False, "too_few_data"),
        (0.21, 0.2, False, "outside"),
        (0.0, 0.0, True, "too_few_data"),
    ],
)
def test_verdicts(difference, explained, few, verdict):
    row = compared(STATISTICS[0], 0.0, difference, 0.05, explained, few)
    assert row.verdict == verdict
    assert compared(STATISTICS[0], 0.0, difference, None).verdict is None


def test_what_is_compared_is_what_characterize_says(original, tmp_path):
    result = synthetic(original, tmp_path / "t.parquet")
    drawn = characterize(read_trace(tmp_path / "t.parquet")).summary()
    recorded = characterize(original).summary()
    for key, row in by_key(result).items():
        if key.split(".")[0] in ("duration_s", "interarrival", "queue_s", "short_jobs"):
            group, name = key.split(".")
            assert row.synthetic == pytest.approx(drawn[group][name])
            assert row.original == pytest.approx(recorded[group][name])
    top = by_key(result)["gpu_time.top10pct_longest_share"]
    assert top.synthetic == pytest.approx(drawn["gpu_time"]["top10pct_longest_share"])
    assert drawn["users"] == by_key(result)["users"].synthetic == 6
