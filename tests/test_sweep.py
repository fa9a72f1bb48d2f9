"""``gpuplan sweep`` and the library under it."""

import csv
import json
import math
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from support_traces import write_trace

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.planner.policies.allpass import simulate
from gpuplan.planner.requests.replays import read_deadline_factor
from gpuplan.planner.requests.thresholds import (
    parse_capacities,
    parse_numbers,
    parse_thresholds,
)
from gpuplan.planner.runs.deadlines import check_factor
from gpuplan.planner.runs.ties import non_dominated
from gpuplan.planner.runs.trace_jobs import COLUMNS, jobs_of
from gpuplan.planner.sweep.recommendation import knee_of
from gpuplan.planner.sweep.results import sweep_frame
from gpuplan.planner.sweep.sweep import SweepGrid, sweep
from gpuplan.planner.sweep.verdict import judge
from gpuplan.simkit.allpass.parameters import Allpass, StartUp

FACTOR = "--deadline-factor"


def test_the_front_and_its_knee_by_hand():
    cost = np.array([4.0, 1.0, 2.0, 3.0, 1.0])
    jct = np.array([1.0, 9.0, 3.0, 3.5, 9.5])
    # 1 (1, 9), 2 (2, 3), 0 (4, 1); 3 is beaten by 2, and 4 by 1.
    front = non_dominated(cost, jct)
    assert front == [1, 2, 0]
    # Below the chord from (1, 9) to (4, 1): 1 - 1/3 - 2/8 = 5/12 at point 2.
    assert knee_of(cost, jct, front) == 2
    assert knee_of(cost, jct, front[:2]) is None
    line = np.array([0.0, 1.0, 2.0])
    assert knee_of(line, line[::-1], [0, 1, 2]) is None


def test_equal_points_do_not_dominate_each_other():
    assert non_dominated(np.array([1.0, 1.0]), np.array([2.0, 2.0])) == [0, 1]
    same = np.full(4, 3.0)
    assert knee_of(same, same, non_dominated(same, same)) is None


def test_every_point_is_the_replay_it_names(lab):
    jobs = jobs_of(read_trace(lab, columns=COLUMNS), np.random.default_rng(0))
    base = Allpass(capacity=20)
    found = sweep(jobs, base, SweepGrid([600.0, 60.0, 60.0]), np.random.default_rng(5))
    assert [(p.policy, p.threshold_s) for p in found.points] == [
        ("fixed", 60.0),
        ("fixed", 600.0),
        ("adaptive", 300.0),
    ]
    for point in found.points:
        settings = {
            "controller": point.policy,
            "threshold_s": point.threshold_s,
            "capacity": 20,
        }
        replayed = simulate(jobs, settings, np.random.default_rng(5)).results
        measured = vars(point.results)
        assert measured == {name: replayed[name] for name in measured}
    assert found.points[2].closed_form_cost_usd is None
    assert found.points[0].closed_form_cost_usd == found.cases[0].closed_form.cost_usd(60.0)
    assert found.reference.results.finished_serverless_share == 1
    choices = (*found.points, found.reference)
    fastest = min(p.mean_jct_s for p in choices)
    near = [p for p in choices if p.mean_jct_s <= 1.1 * fastest]
    assert found.chosen(found.cases[0]) is min(near, key=lambda p: p.cost_usd)
    with pytest.raises(ValueError, match="nothing to sweep"):
        sweep(jobs, Allpass(), SweepGrid([], adaptive=False), np.random.default_rng(0))


def test_thresholds_of_one_microsecond_are_one(gpuplan, lab):
    jobs = jobs_of(read_trace(lab, columns=COLUMNS), np.random.default_rng(0))
    grid = SweepGrid([60.0, 60.0000001, 60.000002], adaptive=False)
    found = sweep(jobs, Allpass(), grid, np.random.default_rng(5))
    assert [point.threshold_s for point in found.points] == [60.0, 60.000002]
    code, out, _ = gpuplan(
        *("sweep", lab, "--threshold", "60,60.0000002", "--mark", "60.0000001"),
        *("--policy", "fixed", "--resamples", 0, "--full"),
    )
    table = out.partition("Cost and job completion time")[2].partition("all serverless")[0]
    (row,) = [line for line in table.splitlines() if line.startswith(" 60 s")]
    assert code == 0 and row.endswith("marked")


def test_limits_of_the_adaptive_threshold_bind_no_fixed_one(gpuplan, lab):
    asked = ("sweep", lab, "--threshold", 60, "--set", "max_threshold_s=200")
    code, out, _ = gpuplan(*asked, "--policy", "fixed", "--resamples", 0)
    assert code == 0 and "60 s" in out
    code, _, err = gpuplan(*asked)
    assert code == 2 and "next: set threshold_s=200 too" in err


def test_the_number_of_workers_does_not_change_a_byte(gpuplan, lab):
    outputs = []
    for workers in (1, 2, 4):
        code, out, _ = gpuplan(
            "sweep", lab, "--threshold", "0:1h:6", "--parallel", workers, "--output-format", "json"
        )
        assert code == 0
        outputs.append(out)
    assert outputs[0] == outputs[1] == outputs[2]


def test_the_json_contract(gpuplan, lab):
    code, out, err = gpuplan(
        *("sweep", lab, "--sample", 200, "--threshold", "30,60,2m,300,600,1800"),
        *("--policy", "fixed", "--policy", "adaptive", "--output-format", "json"),
    )
    assert code == 0, err
    document = json.loads(out)
    results = document["results"]
    assert document["parameters"]["threshold_s"] == [30, 60, 120, 300, 600, 1800]
    assert document["parameters"]["policy"] == ["adaptive", "fixed"]
    assert "controller" not in document["parameters"]["settings"]
    assert [p["policy"] for p in results["points"]] == ["fixed"] * 6 + ["adaptive"]
    expected = {
        "policy",
        "threshold_s",
        "mean_threshold_s",
        "mean_jct_s",
        "median_jct_s",
        "p90_jct_s",
        "p95_jct_s",
        "p99_jct_s",
        "mean_startup_s",
        "mean_queue_s",
        "mean_demotion_s",
        "cost_usd",
        "cost_serverless_usd",
        "cost_marketplace_usd",
        "cost_conventional_usd",
        "finished_serverless_share",
        "deadline_miss_share",
        "closed_form_cost_usd",
        "closed_form_delay_s",
        "capacity",
        "price_ratio",
        "break_even_price_ratio",
        "non_dominated",
        "knee",
        "recommended",
    }
    for point in results["points"]:
        assert expected <= point.keys()
    assert results["recommended"]["policy"] == "serverful_only"  # cheaper, and as fast
    assert not any(p["recommended"] for p in results["points"])
    assert results["serverless_only"]["threshold_s"] is None  # no threshold at all
    assert results["jobs"] == 200
    form = results["closed_form"]
    assert form["serverful_usd_per_gpu_h"] == pytest.approx(1.08, abs=0.002)
    assert form["competitive_threshold_s"] == pytest.approx(
        42 * (2.10 + form["serverful_usd_per_gpu_h"]) / (2.10 - form["serverful_usd_per_gpu_h"])
    )
    assert "200 of 400 jobs sampled" in err
    assert any("200 of 400 jobs sampled" in text for text in document["warnings"])
    assert "notes" not in results


ALONE = ("serverful_only", "serverless_only")


def test_csv_has_raw_values_under_the_names_of_the_json(gpuplan, lab):
    asked = ("sweep", lab, "--threshold", "30,60", "--output-format")
    points = json.loads(gpuplan(*asked, "json")[1])["results"]["points"]
    code, out, _ = gpuplan(*asked, "csv")
    assert code == 0
    rows = list(csv.DictReader(out.splitlines()))
    assert [row["policy"] for row in rows] == ["fixed", "fixed", "adaptive", *ALONE]
    assert [row["threshold_s"] for row in rows] == ["30.0", "60.0", "300.0", "0.0", ""]
    split = {f"cost_{tier}_usd" for tier in ("serverless", "marketplace", "conventional")}
    assert split | {"cost_usd", "mean_jct_s", "mean_threshold_s"} <= rows[0].keys()
    for point, row in zip(points, rows, strict=False):
        for key, text in row.items():
            assert text == ("" if point[key] is None else str(point[key]))


def test_the_table_fits_a_terminal_and_says_what_to_take(gpuplan, lab):
    code, out, _ = gpuplan("sweep", lab, "--quiet", "--full")
    assert code == 0
    assert out.startswith("Today: ")
    assert max(map(len, out.splitlines())) <= 100
    for word in ("adaptive", "all serverless", "recommended", "cheapest for these durations"):
        assert word in out


def test_pictures_and_rows(gpuplan, lab, tmp_path):
    code, _, err = gpuplan(
        *("sweep", lab, "--threshold", "0:1h:20", "--plot", tmp_path / "s.svg"),
        *("--plot", tmp_path / "s.png", "-o", tmp_path / "s.parquet"),
    )
    assert code == 0, err
    svg = (tmp_path / "s.svg").read_text()
    assert "best threshold" in svg
    assert "mean job completion time" in svg
    frame = pl.read_parquet(tmp_path / "s.parquet")
    assert frame["policy"][-2:].to_list() == list(ALONE) and frame.height == 23
    assert frame["threshold_s"][-2:].to_list() == [0.0, None]
    assert frame.filter("recommended")["policy"].to_list() == ["serverful_only"]
    assert frame["threshold_s"][:2].to_list() == [0.0, pytest.approx(3600 / 19)]


def test_one_replay_is_enough_for_a_picture(gpuplan, lab, tmp_path):
    code, out, err = gpuplan(
        *("sweep", lab, "--threshold", "60", "--policy", "fixed", "--capacity", 0),
        *("--plot", tmp_path / "s.svg"),
    )
    assert code == 0, err
    text = " ".join(out.split())  # no workers, so nothing to compare with
    assert "For these 400 jobs, everything serverless costs $" in text


def test_a_gate_on_the_recommendation(gpuplan, lab):
    code, _, _ = gpuplan("sweep", lab, "--quiet", "--fail-if", "recommended.cost_usd > $1")
    assert code == 1


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--threshold", "5:1:3"], "from low to high"),
        (["--threshold", "1:2"], "LOW:HIGH:COUNT"),
        (["--threshold", "soon"], "expected a duration"),
        (["--deadline-factor", "9:1"], "the lower first"),
        (["--deadline-factor", "x"], "LOW:HIGH such as 1:10"),
        (["--set", "controller=fixed"], "--policy fixed or adaptive"),
        (["--set", "tick_s=0"], "tick_s must be at least 1"),
        (["--policy", "fast"], "fixed"),
        (["--capacity", "10,few"], "whole numbers or none, such as 10,20,none"),
        (["--capacity", "-1"], "whole numbers or none"),
        (["--price-ratio", "0.5,inf"], "--price-ratio must be a finite number, got 'inf'"),
        (["--price-ratio", "0"], "--price-ratio '0': expected numbers above 0"),
        (["--price-ratio", "1", "--set", "serverless_usd_per_gpu_h=0"], "price above 0"),
        (["--mark", "30,60"], "--mark '30,60': expected a duration"),
        (["--value-of-time", "much"], "--value-of-time 'much': expected numbers"),
        (["--ci", "99.9"], "--resamples 200 is too few for --ci 99.9"),
        (["--ci", "100"], "--ci must be above 1 and below 100"),
        (["--plot", "x.gif"], ".svg or .png"),
    ],
)
def test_usage_errors_say_what_was_expected(gpuplan, lab, arguments, problem):
    code, out, err = gpuplan("sweep", lab, *arguments)
    assert (code, out) == (2, "")
    assert problem in err


def test_a_trace_without_durations_is_unusable(gpuplan, tmp_path):
    path = write_trace(tmp_path / "sia.parquet", [0, 1], [None, None])
    code, _, err = gpuplan("sweep", path)
    assert code == 3
    assert "next: a replay needs run times" in err


def test_thresholds_and_factors_are_read():
    assert parse_thresholds("30, 5m,0:60:3") == (30.0, 300.0, 0.0, 60.0)
    assert parse_thresholds("none,60,inf,60") == (math.inf, 60.0)
    assert read_deadline_factor("1:10", FACTOR) == (1.0, 10.0)
    assert read_deadline_factor("3", FACTOR) == (3.0, 3.0)
    assert parse_capacities("10, 20,none") == (10, 20, None)
    assert parse_numbers("0.3,1", "--price-ratio", most=1) == (0.3, 1.0)
    assert parse_numbers("0", "--value-of-time", most=1) == (0.0,)
    for text in ("0", "-1", "1,0"):
        with pytest.raises(UsageError, match="expected numbers above 0"):
            parse_numbers(text, "--price-ratio", most=9, above=True)
    for text, problem in (("0", "0: expected a factor above 0"), ("nan", "must be a finite")):
        with pytest.raises(UsageError, match=f"--deadline-factor {problem}"):
            check_factor(None, read_deadline_factor(text, FACTOR))
    with pytest.raises(UsageError, match="3:2: expected two factors"):
        check_factor(None, read_deadline_factor("3:2", FACTOR))
    with pytest.raises(UsageError):
        parse_thresholds("")


def test_philly_sweeps(gpuplan, shared, tmp_path):
    flat = pl.read_csv(shared / "data" / "philly" / "philly_jobs_a.csv.gz").drop_nulls()
    flat.select(
        pl.col("timestamp").str.to_datetime(time_zone="UTC", time_unit="us").alias("submit_time"),
        pl.col("duration").alias("duration_s"),
        pl.col("num_gpus").cast(pl.Float64),
    ).write_parquet(tmp_path / "philly.parquet")
    code, out, err = gpuplan(
        *("sweep", tmp_path / "philly.parquet", "--sample", 5000),
        *("--threshold", "30,60,120,300,600,1800", "--policy", "fixed", "--policy", "adaptive"),
        *("--output-format", "json"),
    )
    assert code == 0, err
    results = json.loads(out)["results"]
    shares = [p["finished_serverless_share"] for p in results["points"][:-1]]
    assert shares == sorted(shares)
    assert results["recommended"]["cost_usd"] < results["serverless_only"]["cost_usd"]


def test_rented_workers_compete_with_the_fastest_choice_not_with_the_chosen_one():
    def point(cost_usd, mean_jct_s):
        return SimpleNamespace(
            policy="fixed", threshold_s=60.0, capacity=None, resampled=None,
            cost_usd=cost_usd, mean_jct_s=mean_jct_s,
        )  # fmt: skip

    case = SimpleNamespace(best=1, value_of_time=None, closed_form=SimpleNamespace(jobs=200))
    chosen, everything = point(50.0, 109.0), point(100.0, 105.0)

    def of(mean_jct_s, fastest_s=100.0):
        points, rented = [point(90.0, fastest_s), chosen], point(30.0, mean_jct_s)
        return judge(case, points, chosen, everything, rented, None, 1)

    assert of(110.0).takes_rented and of(110.0).rented_later_s == 1.0
    assert not of(118.0).takes_rented  # 8% above the chosen point, 18% above the fastest
    # Everything serverless is the fastest.
    assert not of(118.0, 109.0).takes_rented and of(115.0, 109.0).takes_rented


def test_warnings_are_those_of_the_recommended_run(tmp_path):
    # An adaptive threshold of 10 to 20 s is less than the 84 s of a move, which gets a warning.
    path = write_trace(tmp_path / "t.parquet", [600.0 * i for i in range(40)], [6000.0] * 40)
    jobs = jobs_of(read_trace(path, columns=COLUMNS), np.random.default_rng(0))
    at_once = {"marketplace_startup": StartUp(0, 0), "conventional_startup": StartUp(0, 0)}
    base = Allpass(
        threshold_s=10.0, min_threshold_s=0.0, max_threshold_s=20.0, marketplace_prices=(0.2,),
        conventional_price=0.2, **at_once,
    )  # fmt: skip
    found = sweep(jobs, base, SweepGrid([]), np.random.default_rng(0))
    assert found.cases[0].best == 0  # the adaptive rule is the best threshold
    assert found.recommended is found.cases[0].rented.point
    assert "adaptive threshold" not in " ".join(found.warnings)


def test_rows_have_one_recommendation_per_price_ratio(lab):
    jobs = jobs_of(read_trace(lab, columns=COLUMNS), np.random.default_rng(0))
    grid = SweepGrid([60.0], adaptive=False, price_ratios=[0.1, 9.0], values_of_time=[None, 5.0])
    rows = sweep_frame(sweep(jobs, Allpass(), grid, np.random.default_rng(3)))
    assert rows.drop_nulls("knee")["policy"].to_list() == ["fixed", "fixed"]
    assert rows["price_ratio"].to_list() == [0.1, 9.0] * 3
    best = rows.filter("recommended")
    assert best["policy"].to_list() == ["serverful_only", "serverless_only"]
    assert best["price_ratio"].to_list() == [0.1, 9.0]
