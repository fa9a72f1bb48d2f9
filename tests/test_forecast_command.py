"""``gpuplan forecast``: its answer, its JSON, and what it refuses."""

import json
from pathlib import Path

import numpy as np
import pytest
from support_traces import write_trace

from gpuplan.planner.requests.forecast import ForecastRequest
from gpuplan.planner.studies.forecast_source import demand_source

SERIES = "data/alibaba-spot-v2026/aggregates/hourly_gpus_a.csv"


@pytest.fixture
def demand(tmp_path):
    """Two teams over two weeks: one with a daily rhythm, one that wanders."""
    rng = np.random.default_rng(0)
    at = np.arange(24 * 21)
    day = np.rint(40 + 20 * np.sin(2 * np.pi * at / 24) + rng.normal(0, 1, at.size))
    walk = np.rint(np.abs(90 + rng.normal(0, 3, at.size).cumsum()))
    path = tmp_path / "demand.csv"
    rows = "".join(f"{hour},{a:g},{b:g}\n" for hour, a, b in zip(at, day, walk, strict=True))
    path.write_text(f"hour,day,walk\n{rows}")
    return path


def results_of(gpuplan, *words):
    code, out, err = gpuplan("forecast", *map(str, words), "--output-format", "json")
    assert code == 0, err
    return json.loads(out)["results"]


def test_a_series_gets_a_model_its_next_hours_and_what_can_be_lent(gpuplan, demand):
    found = results_of(gpuplan, demand, "--horizon", "3h", "--cluster", "200", "--backtest")
    day, walk = found["series"]
    assert (day["name"], walk["name"]) == ("day", "walk")
    for one in (day, walk):
        best = min(one["models"], key=lambda model: model["validation_mae"])
        assert one["chosen"] == best["name"]
    assert day["chosen"] != "last-value"
    assert [one["hour"] for one in day["next_hours"]] == [504, 505, 506]
    first = day["next_hours"][0]
    assert abs(first["mean_gpus"] - 40) < 5
    assert first["p50_gpus"] <= first["p90_gpus"] <= first["p95_gpus"]
    assert {"name", "mae", "rmse", "mape", "coverage_90", "coverage_95"} <= day["models"][0].keys()
    lent = {(one["p"], one["guarantee_h"]): one for one in found["lendable"]}
    assert set(lent) == {(p, h) for p in (0.9, 0.95) for h in (1, 2)}
    assert lent[0.95, 1]["gpus"] <= lent[0.9, 1]["gpus"]
    assert lent[0.9, 2]["gpus"] <= lent[0.9, 1]["gpus"]
    for one in lent.values():
        assert one["gpus"] == np.floor(200 - one["demand_bound_gpus"])


def test_the_answer_is_short_and_the_time_line_of_training_is_no_part_of_it(gpuplan, demand):
    code, out, _ = gpuplan("forecast", str(demand), "--backtest")
    assert code == 0 and len(out.splitlines()) <= 40
    assert "CPU" not in out
    assert "last value" in out
    assert gpuplan("forecast", str(demand), "--backtest")[1] == out


def test_a_forecast_at_a_time_uses_the_hours_before(gpuplan, demand, tmp_path):
    lines = demand.read_text().splitlines(keepends=True)
    short = tmp_path / "short.csv"
    short.write_text("".join(lines[:401]))
    cut = results_of(gpuplan, demand, "--at", "400")
    assert cut["issued_hour"] == 400
    assert cut == results_of(gpuplan, short)


def test_a_cluster_smaller_than_the_past_peak_is_named(gpuplan, demand):
    code, out, err = gpuplan("forecast", str(demand), "--cluster", "90")
    assert code == 0
    assert "more than the 90 there are" in out + err
    code, out, err = gpuplan("forecast", str(demand), "--cluster", "500")
    assert code == 0 and "there are" not in out + err


def test_a_log_that_may_have_been_cut_is_named(gpuplan, demand):
    with demand.open("a") as file:
        file.write("504,0,1\n505,0,0\n")
    code, out, err = gpuplan("forecast", str(demand))
    assert code == 0 and "in the last 2 hours" in out + err and "--at 504" in out + err
    said = " ".join(out.split()).split(". ")[0]
    assert said.endswith("probability, if demand really fell to almost nothing in the last 2 hours")
    code, out, err = gpuplan("forecast", str(demand), "--at", "504")
    assert code == 0 and "below 5%" not in out + err and "really fell" not in out


def test_holidays_change_the_forecast_and_are_among_the_inputs(gpuplan, tmp_path):
    rng = np.random.default_rng(2)
    at = np.arange(24 * 30)
    values = np.where(at // 24 % 6 == 2, 20, 70) + rng.integers(0, 5, at.size)
    times = [f"2026-03-{1 + hour // 24:02}T{hour % 24:02}:00" for hour in at]
    path, days = tmp_path / "demand.csv", tmp_path / "days.csv"
    path.write_text("time,a\n" + "".join(f"{t},{v}\n" for t, v in zip(times, values, strict=True)))
    days.write_text("".join(f"2026-03-{1 + day:02}\n" for day in range(2, 30, 6)))
    words, form = ("--model", "orglinear"), ("--output-format", "json")
    code, out, err = gpuplan("forecast", str(path), "--holidays", str(days), *words, *form)
    assert code == 0, err
    found = json.loads(out)
    assert [one["rows"] for one in found["inputs"]] == [at.size, 5]
    assert found["parameters"]["holidays"] == str(days)
    plain = results_of(gpuplan, path, *words)
    mae = [one["series"][0]["models"][-1]["mae"] for one in (found["results"], plain)]
    assert mae[0] < mae[1]
    code, out, err = gpuplan("forecast", str(path), "--holidays", "2027-01-01", *words, *form)
    assert code == 0 and "treat holidays as other days" in out + err


@pytest.fixture
def trace(tmp_path):
    rng = np.random.default_rng(4)
    n = 3000
    return write_trace(
        tmp_path / "t.parquet",
        np.sort(rng.uniform(0, 6 * 86400, n)),
        rng.exponential(4000, n),
        rng.choice([1.0, 2.0, 8.0], n).tolist(),
        group=[f"team-{one}" for one in rng.integers(0, 3, n)],
        user=["ann"] * n,
    )


def test_a_trace_is_forecast_by_group(gpuplan, trace):
    found = results_of(gpuplan, trace, "--by", "group")
    assert sorted(one["name"] for one in found["series"]) == ["team-0", "team-1", "team-2"]
    assert found["issued_at"].endswith(":00:00")
    assert found["lendable"][0]["capacity_from"] == "peak"
    assert found["lendable"][0]["capacity_gpus"] <= sum(one["peak_gpus"] for one in found["series"])
    held = json.loads(gpuplan("characterize", str(trace), "--output-format", "json")[1])["results"]
    assert found["lendable"][0]["capacity_gpus"] == held["today"]["peak_gpus"]
    one = results_of(gpuplan, trace, "--by", "user")
    assert [each["name"] for each in one["series"]] == ["ann"]
    assert one["series"][0]["peak_gpus"] == found["lendable"][0]["capacity_gpus"]


def test_spot_jobs_are_no_demand(gpuplan, trace):
    every = results_of(gpuplan, trace, "--by", "all")
    some = results_of(gpuplan, trace, "--by", "all", "--spot", "num_gpus = 8")
    only = results_of(gpuplan, trace, "--by", "all", "--where", "num_gpus <> 8")
    assert some["series"][0]["mean_gpus"] < every["series"][0]["mean_gpus"]
    assert some["series"] == only["series"]


def waiting_log(path, **more):
    """Four GPUs: a job holds all for 48 h; one comes at 40 h, waits 8 h and runs 4 h, to 52 h.

    The log was taken at 50 h, when a job without GPUs was submitted.
    """
    hour = 3600.0
    return write_trace(
        path, [0, 40 * hour, 50 * hour], [48 * hour, 4 * hour, 1.0], [4.0, 4.0, 0.0],
        queue_s=[0.0, 8 * hour, 0.0], **more,
    )  # fmt: skip


def test_demand_is_of_jobs_that_wait_and_that_run(tmp_path):
    path = waiting_log(tmp_path / "t.parquet")
    assert demand_source(ForecastRequest(path, by="all")).demand.gpus.tolist() == [
        [4] * 40 + [8] * 8 + [4] * 2
    ]


def test_gpus_to_lend_are_of_those_held_not_requested(gpuplan, tmp_path):
    path = waiting_log(tmp_path / "t.parquet", gpu_type=["H100", "A100", None])
    (lent, *_) = results_of(gpuplan, path, "--by", "all", "--horizon", "1h")["lendable"]
    assert (lent["capacity_gpus"], lent["capacity_from"]) == (4, "peak")  # 8 were requested at once
    words = ("--by", "gpu_type", "--horizon", "1h", "--model", "last-value")
    lent = results_of(gpuplan, path, *words)["lendable"]
    assert {one["pool"]: one["capacity_gpus"] for one in lent} == {"H100": 4, "A100": 4}
    # At 45 h the A100 job waits: so far its type has no GPUs that anybody has held.
    lent = results_of(gpuplan, path, *words, "--at", "2024-03-02T21:00")["lendable"]
    assert {one["pool"]: one["capacity_gpus"] for one in lent} == {"H100": 4, "A100": 0}
    found = results_of(gpuplan, path, *words, "--cluster", "H100=12x8")
    assert {one["name"] for one in found["series"]} == {"H100", "A100"}
    assert {(one["pool"], one["capacity_gpus"]) for one in found["lendable"]} == {("H100", 96)}
    code, out, err = gpuplan("forecast", str(path), *words, "--cluster", "H100=12x8")
    assert code == 0 and "of 96 GPUs (H100 alone, as in --cluster)" in " ".join(out.split())
    code, out, err = gpuplan("forecast", str(path), *words, "--cluster", "H100=3")
    assert code == 0 and "H100: jobs have held 4 GPUs at once, more than the 3" in out + err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--horizon", "90m"), 2, "whole hours"),
        (("--horizon", "25h"), 2, "1h to 24h"),
        (("--model", "arima"), 2, "no such model"),
        (("--at", "soon"), 2, "--at 'soon'"),
        (("--at", "9999"), 2, "allows 1 to 504"),
        (("--at", "20"), 3, "at least 36"),
        (("--where", "num_gpus > 1"), 2, "has no jobs"),
        (("--spot", "num_gpus > 1"), 2, "has no jobs"),
        (("--cluster", "A100=4x8"), 2, "no GPU type is called A100 here"),
        (("--cluster", "x8"), 2, "number of GPUs"),
        (("--at", "100", "--model", "seasonal-168h"), 2, "longer history"),
        (("--by", "user"), 2, "its columns are the series"),
        (("--holidays", "2026/12/25"), 2, "expected a date such as 2026-12-25"),
        (("--holidays", "2026-12-25"), 2, "have no dates"),
        (("--holidays", "2026-12-25", "--model", "dlinear"), 2, "dlinear does not use holidays"),
        (("--holidays", "2026-12-45"), 2, "expected a date such as 2026-12-25"),
        (("--holidays", "absent.csv"), 3, "absent.csv"),
    ],
)
def test_what_cannot_be_forecast_is_refused(gpuplan, demand, words, code, told):
    found, _, err = gpuplan("forecast", str(demand), *words)
    assert found == code and told in err, err


def test_a_history_of_a_century_is_refused_at_once(gpuplan, tmp_path):
    log = tmp_path / "log.csv"
    rows = ("1,1900-01-01T00:00:00Z,60,1", "2,2024-01-01T00:00:00Z,60,1")
    log.write_text("\n".join(("job_id,submit_time,duration_s,num_gpus", *rows, "")))
    code, _, err = gpuplan("forecast", log, "--by", "all")
    assert code == 3, err
    assert "its jobs span 1,086,960 hours, from 1900-01-01 to 2024-01-01" in err
    assert "at most 200,000 hours (22 years)" in err and "--since" in err


def test_the_predicate_of_spot_is_checked(gpuplan, trace):
    code, _, err = gpuplan("forecast", str(trace), "--spot", "num_gpu > 1")
    assert code == 2 and "--spot" in err and "did you mean num_gpus" in err


def test_real_series_are_covered_and_beat_the_season(gpuplan, shared):
    found = results_of(gpuplan, shared / SERIES, "--backtest")
    mae = {one["name"]: one["mae"] for one in found["models"]}
    assert mae["orglinear"] < min(mae["dlinear"], mae["seasonal-24h"], mae["seasonal-168h"])
    for series in found["series"]:
        own = {one["name"]: one for one in series["models"]}
        assert 0.87 <= own["orglinear"]["coverage_90"] <= 0.95
        if own["last-value"]["validation_mae"] <= own["orglinear"]["validation_mae"]:
            assert series["chosen"] != "orglinear"
    assert len(found["lendable"]) == 18  # each GPU type is a pool


def test_a_report_has_a_forecast_with_times_under_the_pointer(gpuplan, tmp_path):
    log = Path(__file__).parents[1] / "sample_traces" / "seren.csv"
    out = tmp_path / "out"
    options = ("--set", "forecast.by=all", "--set", "forecast.horizon=2h", "--formats", "html,md")
    code, _, said = gpuplan("report", log, "--study", "forecast", *options, "-o", out)
    assert code == 0, said
    assert "## Demand of the next hours" in (out / "report.md").read_text(encoding="utf-8")
    assert "GPUs: " in (out / "report.html").read_text(encoding="utf-8")
