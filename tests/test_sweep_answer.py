"""The table of ``gpuplan sweep``: today's cluster, everything rented, thresholds, serverless."""

import json

import numpy as np
import pytest
from support_traces import write_trace

from gpuplan.analysis.trace.trace import read_trace
from gpuplan.planner.compare import PolicySpec, compare
from gpuplan.planner.runs.trace_jobs import COLUMNS, jobs_of
from gpuplan.planner.sweep.sweep import SweepGrid, sweep
from gpuplan.simkit.allpass.parameters import Allpass


def results(gpuplan, *asked):
    code, out, err = gpuplan("sweep", *asked, "--output-format", "json", "-q")
    assert code == 0, err
    return json.loads(out)["results"]


def test_everything_rented_is_the_policy_serverful_only(lab):
    jobs = jobs_of(read_trace(lab, columns=COLUMNS), np.random.default_rng(0))
    grid = SweepGrid([60.0], adaptive=False)
    for settings in ({}, {"capacity": 30, "conventional_usd_per_gpu_h": 2.5}):
        base = Allpass(
            capacity=settings.get("capacity"),
            conventional_price=settings.get("conventional_usd_per_gpu_h", 1.29),
            serverless_minimum_billing_s=60.0,
            serverless_limit=1000,
        )
        found = sweep(jobs, base, grid, np.random.default_rng(3))
        one = PolicySpec("rented", "serverful-only", settings)
        (same,) = compare(jobs, [one], np.random.default_rng(3)).outcomes
        for key in ("cost_usd", "mean_jct_s", "p95_jct_s", "workers_peak"):
            assert getattr(found.rented.results, key) == pytest.approx(
                getattr(same.results, key)
            ), key
        assert found.rented.results.cost_serverless_usd == 0
    none = sweep(jobs, Allpass(capacity=1), grid, np.random.default_rng(3))
    assert none.rented is None and none.verdict is None  # some job needs more workers


def test_prices_of_the_case_are_those_of_rented_workers_too(lab):
    jobs = jobs_of(read_trace(lab, columns=COLUMNS), np.random.default_rng(0))
    bills = {}
    for ratio in (0.5, 1.0):
        grid = SweepGrid([60.0], adaptive=False, price_ratios=[ratio])
        bills[ratio] = sweep(jobs, Allpass(), grid, np.random.default_rng(3)).rented.cost_usd
    assert bills[1.0] == pytest.approx(2 * bills[0.5])


def test_todays_cluster_costs_its_size_times_price_times_window(gpuplan, tmp_path):
    # 4 GPUs from 100 s to 3,700 s, 2 more from 3,650 s to 7,250 s, where the window ends.
    path = write_trace(
        tmp_path / "t.parquet", [0, 3600], [3600.0, 3600.0], num_gpus=[4, 2],
        queue_s=[100.0, 50.0],
    )  # fmt: skip
    found = results(gpuplan, path, "--threshold", "60")
    cluster = found["today_cluster"]
    assert (cluster["gpus"], cluster["size_from"]) == (6, "recorded peak")
    assert found["window_s"] == cluster["window_s"] == 7250
    assert cluster["cost_usd"] == pytest.approx(6 * 1.29 * 7250 / 3600)
    assert cluster["usd_per_month"] == pytest.approx(6 * 1.29 * 730.5)
    assert cluster["mean_jct_s"] == 3675  # as recorded
    sized = results(gpuplan, path, "--threshold", "60", "--cluster", "2x8")["today_cluster"]
    assert (sized["gpus"], sized["size_from"]) == (16, "--cluster 2x8")
    assert sized["mean_jct_s"] == 3675
    small = results(gpuplan, path, "--threshold", "60", "--cluster", "4")["today_cluster"]
    assert small["gpus"] == 4 and small["mean_jct_s"] is None  # never recorded so small
    assert results(gpuplan, path, "--threshold", "60", "--against", "fifo:gpus=8")[
        "today_cluster"
    ] is None  # fmt: skip


def test_the_answer_is_short_and_its_rows_say_what_they_are(gpuplan, lab):
    code, out, err = gpuplan("sweep", lab)
    assert code == 0 and len(out.splitlines()) <= 45
    assert err.count("warning:") <= 3 and "assumed deadline" not in err
    assert max(map(len, out.splitlines())) <= 100
    for row in ("around the clock", "all on rented workers", "adaptive", "all serverless"):
        assert row in out
    assert " late " not in out  # the log has no deadlines
    assert "Where the money goes" not in out
    full = gpuplan("sweep", lab, "--full")
    assert "Where the money goes" in full[1] and "assumed deadline" in full[2]
    drawn = gpuplan("sweep", lab, "--deadline-factor", "2:3")[1]
    assert " late " in drawn


def test_few_jobs_get_few_digits(gpuplan, tmp_path):
    path = write_trace(tmp_path / "t.parquet", [1000.0 * i for i in range(6)], [3777.0] * 6)
    _, out, _ = gpuplan("sweep", path, "--threshold", "60,600")
    assert "these 6 jobs (few, so these figures are rough)" in " ".join(out.split())
    for line in out.splitlines():
        for word in line.split():
            if word.startswith("$") and word[1].isdigit() and word != "$1.29":  # the price
                digits = word.strip("$M;.,()").replace(",", "").replace(".", "").strip("0")
                assert len(digits) <= 2, line


def test_other_gpu_types_are_never_silently_priced_alike(gpuplan, tmp_path):
    path = write_trace(
        tmp_path / "t.parquet", [1800.0 * i for i in range(40)], [3600.0] * 40,
        gpu_type=["A100"] * 30 + ["H100"] * 10,
    )  # fmt: skip
    found = results(gpuplan, path, "--threshold", "60")
    mix = found["gpu_mix"]
    assert (mix["planned_gpu_type"], mix["other_gpu_types"]) == ("A100", ["H100"])
    assert mix["other_gpu_h_share"] == pytest.approx(0.25)
    said = " ".join(gpuplan("sweep", path, "--threshold", "60")[2].split())
    assert ("25% of the GPU-hours ran on H100; the replays rent A100 for all; ") in said
    # Without any price one is assumed for all types, and marked.
    assert found["today"]["usd_per_gpu_h"] == found["today_cluster"]["usd_per_gpu_h"] == 1.29
    assert found["today"]["price_is_assumed"] is True
    types = {one["gpu_type"]: one["usd_per_gpu_h"] for one in found["today"]["gpu_types"]}
    assert types == {"A100": 1.29, "H100": 1.29}
    each = ("--price", "A100=1.29,H100=2.49", "--set", "serverless_usd_per_gpu_h=3")
    given = results(gpuplan, path, "--threshold", "60", *each)
    mean = 0.75 * 1.29 + 0.25 * 2.49
    assert given["today"]["usd_per_gpu_h"] == pytest.approx(mean)
    assert given["today_cluster"]["usd_per_gpu_h"] == pytest.approx(mean)
    assert "price_is_assumed" not in given["today"]
    by_hand = ("--set", "conventional_usd_per_gpu_h=2")
    assert results(gpuplan, path, "--threshold", "60", *by_hand)["today"]["usd_per_gpu_h"] == 2
    code, out, err = gpuplan("simulate", path, "--policy", "allpass", "--output-format", "json")
    assert code == 0, err
    assert json.loads(out)["results"]["today"]["usd_per_gpu_h"] == 1.29
    assert "H100, not on A100" in " ".join(err.split())
    priced = ("--prices", "builtin", "--set", "gpu=H100")
    other = results(gpuplan, path, "--threshold", "60", *priced)["gpu_mix"]
    assert (other["planned_gpu_type"], other["other_gpu_h_share"]) == ("H100", 0.75)
    one = ("--where", "gpu_type = 'H100'", *priced)
    assert results(gpuplan, path, "--threshold", "60", *one)["gpu_mix"] is None
