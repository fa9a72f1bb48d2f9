"""A sweep beside one replay of any policy, such as the scheduler of today."""

import csv
import json

import numpy as np
import polars as pl
import pytest

from gpuplan.analysis.prices.catalogue import CATALOGUE
from gpuplan.analysis.trace.trace import read_trace
from gpuplan.cli.figures.sweep import draw_sweep
from gpuplan.planner.compare import PolicySpec, compare
from gpuplan.planner.requests.policy_specs import read_reference
from gpuplan.planner.runs.trace_jobs import COLUMNS, TraceJobs, jobs_of
from gpuplan.planner.sweep.sweep import SweepGrid, sweep
from gpuplan.simkit.allpass.parameters import Allpass, StartUp
from gpuplan.simkit.workload import Workload

GRID = SweepGrid([60.0, 600.0], adaptive=False)
FIFO = "fifo:gpus=40"


@pytest.fixture(scope="module")
def jobs(lab):
    return jobs_of(read_trace(lab, columns=COLUMNS), np.random.default_rng(0))


def test_ten_jobs_by_hand():
    # Each hour follows a gap of an hour. One GPU at $3 is paid for 19 h: $57, and no job waits.
    # Serverless at $2 from the start to the end: $20 for 10 h, and no job waits either.
    submit_s = np.arange(10) * 7200.0
    work = Workload.from_seconds(submit_s, np.full(10, 3600.0), np.ones(10), submit_s + 3600)
    alone = TraceJobs(work, pl.Series("job_id", [str(i) for i in range(10)]), ())
    base = Allpass(
        serverless_price=2.0, serverless_startup=StartUp(0, 0), checkpoint_s=0.0, restore_s=0.0
    )
    today = PolicySpec("today", "fifo", {"gpus": 1, "usd_per_gpu_h": 3.0})
    grid = SweepGrid([7200.0], adaptive=False, values_of_time=[None, 5.0])
    found = sweep(alone, base, grid, np.random.default_rng(0), against=today, level=90)
    assert found.against.cost_usd == pytest.approx(57)
    for case in found.cases:
        assert found.chosen(case).cost_usd == pytest.approx(20)
        assert case.savings.against.saving_usd == pytest.approx(37)
        assert case.savings.against.saving_share == pytest.approx(37 / 57)
        assert case.savings.against.mean_jct_change_s == 0
        assert case.savings.against.confidence.mean_jct_change_s == (0, 0)
    assert found.cases[0].savings.against.net_saving_usd is None
    assert found.cases[1].savings.against.net_saving_usd == pytest.approx(37)


def test_it_is_the_policy_of_compare_and_changes_nothing_else(jobs):
    for policy in ("fifo", "hpa", "allpass"):  # the last two draw start-up times
        one = PolicySpec("now", policy, {})
        found = sweep(jobs, Allpass(), GRID, np.random.default_rng(1), against=one, level=90)
        (same,) = compare(jobs, [one], np.random.default_rng(1)).outcomes
        assert vars(found.against.results) == {
            key: getattr(same.results, key) for key in vars(found.against.results)
        }
        alone = sweep(jobs, Allpass(), GRID, np.random.default_rng(1), level=90)
        assert _results(found) == _results(alone)
        assert found.cases[0].savings.confidence == alone.cases[0].savings.confidence
        assert found.cases[0].savings.saving_usd == alone.cases[0].savings.saving_usd


def _results(found):
    return [point.results for point in (*found.points, found.reference)]


def test_resamples_add_up_the_bills_of_the_same_jobs(jobs):
    # Set against the replay that is recommended, every resample saves nothing.
    base = Allpass(controller="fixed", threshold_s=60.0)
    same = PolicySpec("same", "allpass", {"controller": "fixed", "threshold_s": 60.0})
    grid = SweepGrid([60.0], adaptive=False, values_of_time=[0.0])
    found = sweep(jobs, base, grid, np.random.default_rng(1), against=same, level=90)
    case = found.cases[0]
    assert case.best == 0
    assert found.against.cost_usd == pytest.approx(found.points[0].cost_usd)
    assert case.savings.against.confidence.saving_usd == pytest.approx((0, 0), abs=1e-6)
    assert case.savings.against.confidence.mean_jct_change_s == pytest.approx((0, 0), abs=1e-6)
    # The bills of everything serverless give the interval that is told of it anyway.
    alone = PolicySpec("alone", "serverless-only", {})
    case = sweep(jobs, base, grid, np.random.default_rng(1), against=alone, level=90).cases[0]
    assert case.savings.against.confidence.saving_usd == pytest.approx(
        case.savings.confidence.saving_usd, rel=1e-6
    )
    assert case.savings.against.confidence.saving_share == pytest.approx(
        case.savings.confidence.saving_share, rel=1e-6
    )


def test_settings_are_shared_but_not_what_is_swept():
    shared = ["marketplace_offers=3", "capacity=5", "checkpoint_s=7", "tick_s=2"]
    assert read_reference("srtf:gpus=64", shared) == PolicySpec(
        "srtf:gpus=64", "srtf", {"marketplace_offers": 3, "checkpoint_s": 7.0, "gpus": 64}
    )
    assert read_reference("fixed:threshold_s=9", ["threshold_s=5"]).settings == {"threshold_s": 9.0}


def test_json_table_picture_and_time_line(gpuplan, lab, tmp_path):
    asked = (
        *("sweep", lab, "--threshold", "60,600", "--against", FIFO),
        *("--timeline", tmp_path / "t.parquet", "--plot", tmp_path / "s.svg"),
    )
    code, out, err = gpuplan(*asked, "--output-format", "json")
    assert code == 0, err
    document = json.loads(out)
    results = document["results"]
    against, told = results["against"], results["recommended"]["against"]
    assert (against["label"], against["policy"]) == (FIFO, "fifo")
    saving = against["cost_usd"] - results["recommended"]["cost_usd"]
    assert told["saving_usd"] == pytest.approx(saving)
    low, high = told["confidence"]["saving_usd"]
    assert low < saving < high
    assert told == results["cases"][0]["against"]
    assert document["parameters"]["against"]["settings"]["gpus"] == 40
    svg = (tmp_path / "s.svg").read_text()
    assert ">against<" in svg and f"against: {FIFO}" in svg
    kept = pl.read_parquet(tmp_path / "t.parquet")
    assert kept.filter(pl.col("policy") == FIFO)["used_gpus"].max() <= 40
    code, out, _ = gpuplan(*asked, "--quiet")
    text = " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 100
    assert f"{FIFO} costs $" in text and "90% interval" in text
    (row,) = [line for line in out.splitlines() if line.split()[:1] == ["against"]]
    assert f"Savings vs. {FIFO} (90% interval" in " ".join(gpuplan(*asked, "--full")[1].split())
    assert FIFO in row
    rows = list(csv.DictReader(gpuplan(*asked, "--output-format", "csv")[1].splitlines()))
    assert rows[-1]["policy"] == FIFO
    assert float(rows[-1]["cost_usd"]) == against["cost_usd"]


def test_dearer_and_slower_is_said(gpuplan, lab):
    asked = ("sweep", lab, "--threshold", "60", "--policy", "fixed", "--quiet", "--against")
    code, out, _ = gpuplan(*asked, "fifo:gpus=40,usd_per_gpu_h=0.01")
    text = " ".join(out.split())
    assert code == 0
    assert "fifo:gpus=40,usd_per_gpu_h=0.01 costs $" in text
    assert " a month less ($" in text
    out = gpuplan(*asked, "fifo:gpus=8", "--resamples", 0, "--full")[1]
    assert "resamples" not in out


def test_without_one_nothing_is_said_of_it(gpuplan, lab):
    out = gpuplan("sweep", lab, "--threshold", "60", "--output-format", "json")[1]
    document = json.loads(out)
    assert document["parameters"]["against"] is None
    assert document["results"]["against"] is None
    assert document["results"]["recommended"]["against"] is None


def test_a_bill_far_above_has_a_logarithmic_axis(jobs):
    for usd, scale in ((0.2, "linear"), (10.0, "log")):
        one = PolicySpec("now", "fifo", {"gpus": 40, "usd_per_gpu_h": usd})
        found = sweep(jobs, Allpass(), GRID, np.random.default_rng(1), against=one)
        bills = [p.cost_usd for p in (*found.points, found.reference, found.against)]
        assert (max(bills) > 5 * min(bills)) == (scale == "log")
        figure = draw_sweep(found)
        assert figure.axes[0].get_yscale() == scale
        assert "against" in [text.get_text() for text in figure.axes[0].texts]


def test_prices_of_a_table_are_those_of_todays_policy_too(gpuplan, lab):
    """On demand, as of every cluster; those of a market where the policy chooses one."""

    def settings(policy):
        asked = ("sweep", lab, "--threshold", "60", "--prices", "builtin", "--against", policy)
        code, out, err = gpuplan(*asked, "--output-format", "json")
        assert code == 0, err
        parameters = json.loads(out)["parameters"]
        return parameters["against"]["settings"], parameters["settings"]

    own, shared = settings(f"{FIFO},provider=vast")
    for name in ("conventional_usd_per_gpu_h", "marketplace_usd_per_gpu_h"):
        assert own[name] == shared[name]
    offers = [one.typical for one in CATALOGUE if (one.gpu_type, one.kind) == ("A100", "on_demand")]
    assert settings(FIFO)[0]["usd_per_gpu_h"] == np.median(offers)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("fifi", "--against 'fifi': no such policy (did you mean fifo?)"),
        ("fifo:", "--against 'fifo:': expected fifo or fifo:key=value"),
        ("fifo:gpus=many", "expected a whole number"),
        ("fifo:threshold_s=5", "no setting 'threshold_s'"),
        ("fifo:gpus=1", "would never start"),
    ],
)
def test_usage_errors(gpuplan, lab, text, problem):
    code, out, err = gpuplan("sweep", lab, "--threshold", "60", "--against", text)
    assert (code, out) == (2, "")
    assert problem in " ".join(err.split())
