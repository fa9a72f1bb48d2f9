"""What one cluster is paid: its GPUs are rented once and held, or have a price that is set."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_traces import write_trace

from gpuplan.analysis.base.errors import UsageError
from gpuplan.planner.policies.cluster import simulate
from gpuplan.planner.registry import POLICIES
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.simkit.renting.market import Market
from gpuplan.simkit.workload import Workload

pytestmark = pytest.mark.kernels

FLAT = {f"marketplace_{part}_usd_per_gpu_h": 1.0 for part in ("min", "median", "max")}
OFFERS = FLAT | {"marketplace_offers": 4, "conventional_usd_per_gpu_h": 3.0}
NO_WAIT = {f"{p}_startup_{s}s": 0.0 for p in ("marketplace", "conventional") for s in ("", "sd_")}


def jobs(*rows):
    """Return jobs of (submission, run time, GPUs), seconds."""
    submit, run, gpus = np.array(rows, np.float64).T
    work = Workload.from_seconds(submit, run, gpus.astype(np.int64), submit + run)
    return TraceJobs(work, pl.Series("job_id", [str(i) for i in range(work.size)]), ())


HOURS = jobs((0, 3600, 2), (1800, 5400, 1))  # two hours from the first submission to the last end


@pytest.mark.parametrize(
    ("gpus", "market_usd", "conventional_usd"), [(3, 6, 0), (4, 8, 0), (5, 8, 6), (9, 8, 30)]
)
def test_below_at_and_above_the_number_of_offers(gpus, market_usd, conventional_usd):
    found = simulate(HOURS, OFFERS | {"gpus": gpus}, "fifo")
    results = found.results
    assert results["cost_marketplace_usd"] == pytest.approx(market_usd)
    assert results["cost_conventional_usd"] == pytest.approx(conventional_usd)
    assert results["cost_usd"] == pytest.approx(market_usd + conventional_usd)
    assert results["mean_usd_per_gpu_h"] == pytest.approx(results["cost_usd"] / 2 / gpus)
    assert found.settings["marketplace_usd_per_gpu_h"] == [1.0] * 4
    # The first held 2 GPUs for 1 h, the second 1 GPU for 1.5 h.
    assert found.frame["cost_usd"].to_list() == pytest.approx(
        [results["cost_usd"] * share for share in (2 / 3.5, 1.5 / 3.5)]
    )


def test_a_price_that_is_set_is_that_of_every_gpu():
    found = simulate(HOURS, OFFERS | {"gpus": 9, "usd_per_gpu_h": 2.0}, "fifo")
    assert found.results["cost_usd"] == pytest.approx(2 * 9 * 2.0)
    assert found.results["mean_usd_per_gpu_h"] == 2.0
    assert not [key for key in found.results if "marketplace" in key or "conventional" in key]
    assert found.settings["usd_per_gpu_h"] == 2.0
    assert not [key for key in found.settings if "marketplace" in key or "conventional" in key]
    assert "usd_per_gpu_h is the whole price, so" in found.warnings[0]
    assert "marketplace_offers" in found.warnings[0]
    assert not simulate(HOURS, {"gpus": 9, "usd_per_gpu_h": 0.0}, "fifo").warnings


def test_prices_are_those_of_the_beginning_or_those_in_force():
    # At first two offers at 1; after 30 min one at 5, so that the other place keeps its price; in
    # the last half hour three at 2. The third GPU is conventional, at 3, all along.
    steps = np.array([0, 1800, 5400]) * 1_000_000
    market = Market(steps, np.array([2, 1, 3]), np.array([1.0, 1, 5, 2, 2, 2]))
    some = {"gpus": 3, "market": market, "conventional_usd_per_gpu_h": 3.0}
    at_first = simulate(HOURS, some, "fifo").results
    assert at_first["cost_marketplace_usd"] == pytest.approx(2 * 2 * 1.0)
    in_force = simulate(HOURS, some | {"pricing": "in-force"}, "fifo").results
    assert in_force["cost_marketplace_usd"] == pytest.approx(
        (0.5 * 1 + 1 * 5 + 0.5 * 2) + (0.5 * 1 + 1 * 1 + 0.5 * 2)
    )
    for results in (at_first, in_force):
        assert results["cost_conventional_usd"] == pytest.approx(6)
    late = {"billing_step_s": 3 * 3600.0, "pricing": "in-force"}
    billed = simulate(HOURS, some | late, "fifo").results  # a third hour, as at the end
    assert billed["cost_usd"] == pytest.approx(in_force["cost_usd"] + 2 + 2 + 3)
    assert billed["mean_usd_per_gpu_h"] == in_force["mean_usd_per_gpu_h"]


def test_no_time_costs_nothing_and_has_no_mean():
    found = simulate(jobs((0, 0, 2)), {}, "srtf").results
    assert (found["cost_usd"], found["mean_usd_per_gpu_h"]) == (0, None)


def test_prices_that_cannot_be_are_refused():
    for bad, problem in (
        ({"usd_per_gpu_h": -1.0}, "usd_per_gpu_h must be at least 0 and at most 500, got -1"),
        ({"usd_per_gpu_h": 1e308}, "usd_per_gpu_h must be at least 0 and at most 500"),
        ({"marketplace_min_usd_per_gpu_h": 9.0}, "most expensive offer must ascend"),
        ({"conventional_usd_per_gpu_h": -1.0}, "conventional_usd_per_gpu_h must be"),
        ({"minimum_billing_s": -1.0}, "minimum_billing_s must be"),
        ({"provider": "vast"}, "--set provider: needs --prices"),
    ):
        with pytest.raises(UsageError, match=problem):
            simulate(HOURS, bad, "fifo")


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 9000), st.integers(1, 4)), min_size=1),
    st.sampled_from(["fifo", "srtf", "2d-las"]),
    st.integers(4, 12),
    st.integers(0, 12),
    st.sampled_from([None, 0.0, 1.5]),
    st.sampled_from([0.0, 600.0]),
)
def test_the_bill_is_the_sum_of_places_and_of_jobs(rows, policy, gpus, offers, usd, step_s):
    own = {"gpus": gpus, "marketplace_offers": offers, "billing_step_s": step_s}
    found = simulate(jobs(*sorted(rows)), own | {"usd_per_gpu_h": usd}, policy)
    results = found.results
    hours = results["makespan_s"] / 3600
    if usd is not None:
        assert results["cost_usd"] == pytest.approx(hours * gpus * usd)
    else:
        at = (np.arange(min(offers, gpus)) + 0.5) / max(offers, 1)
        each = np.interp(at, (0, 0.5, 1), (0.38, 1.08, 1.66)).tolist()
        each += [1.29] * (gpus - len(each))
        billed_h = np.ceil(round(results["makespan_s"] / step_s, 9)) * step_s if step_s else None
        billed_h = hours if billed_h is None else billed_h / 3600
        assert results["cost_usd"] == pytest.approx(sum(each) * billed_h)
        parts = results["cost_marketplace_usd"] + results["cost_conventional_usd"]
        assert results["cost_usd"] == pytest.approx(parts)
    assert found.frame["cost_usd"].sum() == pytest.approx(results["cost_usd"], abs=1e-12)


@pytest.mark.parametrize("gpus", [3, 4, 7])
def test_workers_held_all_the_time_cost_the_same_an_hour(gpus):
    work = jobs((0, 36_000, gpus))
    cluster = simulate(work, OFFERS | {"gpus": gpus}, "fifo").results
    rng = np.random.default_rng(0)
    pool = POLICIES["serverful-only"].run(work, OFFERS | NO_WAIT | {"capacity": gpus}, rng).results
    assert pool["workers_peak"] == gpus and pool["worker_busy_share"] == 1
    for tier in ("cost_marketplace_usd", "cost_conventional_usd"):
        assert pool[tier] / 36_000 == pytest.approx(cluster[tier] / cluster["makespan_s"])


@pytest.mark.compiled
def test_one_setting_puts_all_of_a_comparison_on_the_conventional_cloud(gpuplan, tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0.0, 60.0], [9000.0, 4000.0], [2.0, 3.0])
    policies = ("allpass", "serverful-only", "hpa", "fifo", "edf")
    given = [word for name in policies for word in ("--policy", name)]
    code, out, err = gpuplan(
        *("compare", path, *given, "--gpus", 5, "--set", "marketplace_offers=0"),
        *("--set", "conventional_usd_per_gpu_h=2", "--output-format", "json"),
        *("--plot", tmp_path / "c.svg"),
    )
    assert code == 0, err
    for row in json.loads(out)["results"]["policies"]:
        assert row["cost_marketplace_usd"] == 0 < row["cost_conventional_usd"]
    assert row["mean_usd_per_gpu_h"] == 2
    assert row["cost_usd"] == pytest.approx(5 * 2 * 2.5)


def test_what_is_not_rented_has_no_tiers_in_the_rows(gpuplan, tmp_path):
    path = write_trace(tmp_path / "t.parquet", [0.0], [3600.0], [2.0])
    out = tmp_path / "rows.parquet"
    code, _, err = gpuplan(
        *("compare", path, "--policy", "fifo:usd_per_gpu_h=2", "-o", out),
        *("--policy", "fifo:marketplace_offers=50"),
    )
    assert code == 0, err
    rows = pl.read_parquet(out)
    least = np.interp((0.01, 0.03), (0, 0.5), (0.38, 1.08)).sum()
    assert rows["cost_usd"].to_list() == pytest.approx([4, least])
    assert rows["cost_marketplace_usd"].to_list() == [None, pytest.approx(least)]
    assert rows["cost_conventional_usd"].to_list() == [None, 0]
