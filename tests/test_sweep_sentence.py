"""The answer of ``gpuplan sweep`` in words: whether serverless pays, and which threshold."""

import json
from dataclasses import replace

import numpy as np
import pytest
from support_traces import write_trace

from gpuplan.analysis.trace.trace import read_trace
from gpuplan.cli.formats.units import Precision, show_jobs
from gpuplan.cli.tables.sweep_answer import answer_tables, headline, sweep_warnings
from gpuplan.planner.runs.trace_jobs import COLUMNS, jobs_of
from gpuplan.planner.sweep.results import marked_thresholds, sweep_results
from gpuplan.planner.sweep.sweep import SweepGrid, sweep
from gpuplan.planner.sweep.verdict import SAME
from gpuplan.simkit.allpass.parameters import Allpass, StartUp

FIFO = "fifo:gpus=40"
SHOW = Precision(400)


@pytest.fixture(scope="module")
def jobs(lab):
    return jobs_of(read_trace(lab, columns=COLUMNS), np.random.default_rng(0))


def answer(gpuplan, *asked):
    """Return the results and the sentences of a sweep."""
    code, out, err = gpuplan("sweep", *asked, "--output-format", "json", "-q")
    assert code == 0, err
    return json.loads(out)["results"], " ".join(gpuplan("sweep", *asked, "-q")[1].split())


def test_the_interval_of_a_saving_is_in_dollars_a_month(gpuplan, lab):
    results, text = answer(gpuplan, lab, "--threshold", "60,600", "--against", FIFO)
    told, month = results["recommended"]["against"], 730.5 * 3600 / results["window_s"]
    low, high = (SHOW.usd(usd * month) for usd in told["confidence"]["saving_usd"])
    more = SHOW.usd(told["saving_usd"] * month)
    bill = SHOW.usd(results["against"]["cost_usd"] * month)
    assert f"{FIFO} costs {more} a month more ({bill} a month for " in text
    assert f"; 90% interval {low} to {high} a month)." in text


def test_bills_are_scaled_from_the_window_of_the_log_to_a_month(gpuplan, lab):
    for scale in (1, 2):
        results, text = answer(gpuplan, lab, "--threshold", "60", "--scale-interarrival", scale)
        window_h = results["window_s"] / 3600
        assert results["window_s"] >= results["span_s"]
        for one in (*results["points"], results["serverless_only"], results["serverful_only"]):
            month = one["cost_usd"] / window_h * 730.5
            assert one["usd_per_month"] == pytest.approx(month)
            assert SHOW.usd(month) in text
    assert [show_jobs(1, 0.0), show_jobs(2, 0.0), show_jobs(2000)] == [
        *("1 job", "2 jobs at once", "2,000 jobs"),
    ]


def test_the_cheapest_is_told_where_it_is_far_slower(jobs):
    # With 8 workers jobs wait: nothing rented is within 10% of the mean JCT of everything
    # serverless, which is thus recommended, though 8 workers cost far less.
    few = sweep(jobs, Allpass(), SweepGrid([60.0], capacities=[8]), np.random.default_rng(1))
    case = few.cases[0]
    costs = [point.cost_usd for point in few.points]
    assert case.best is None
    assert case.cheapest == int(np.argmin(costs))
    cheapest, taken = few.points[case.cheapest], few.reference
    less = taken.cost_usd - cheapest.cost_usd
    later = SHOW.duration(cheapest.mean_jct_s - taken.mean_jct_s)
    (warning,) = sweep_warnings(few)
    assert f"costs {SHOW.usd(less)} (" in warning and f"takes {later} longer" in warning
    assert "Serverless saves time, not money, for these 400 jobs: " in headline(few)
    named = sweep_results(few).cases[0].cheapest
    assert (named.cost_usd, named.policy) == (cheapest.cost_usd, cheapest.policy)
    # With a worth of time that has been weighed, and where it is the cheapest there is nothing.
    weighed = SweepGrid([60.0], capacities=[8], values_of_time=[100.0])
    free = SweepGrid([60.0], adaptive=False)
    for grid in (weighed, free):
        assert not [*sweep_warnings(sweep(jobs, Allpass(), grid, np.random.default_rng(1)))]


def test_the_cheapest_of_several_capacities_has_its_own(jobs):
    grid = SweepGrid([600.0, 3600.0], adaptive=False, capacities=[2, 8])
    found = sweep(jobs, Allpass(), grid, np.random.default_rng(1))
    assert (found.cases[0].best, found.cases[0].cheapest) == (3, 2)
    (warning,) = sweep_warnings(found)
    assert "a threshold of 10 min with at most 8 workers, costs $" in warning


def test_whether_serverless_pays_is_said_by_the_bill_of_rented_workers(jobs):
    # Rented workers as dear as serverless: each is idle at times, so containers are cheaper. At a
    # tenth of the price workers are. Neither where both are free.
    grid, rng = SweepGrid([60.0, 600.0], adaptive=False), np.random.default_rng
    said = {}
    for usd in (0.0, 0.2, 4.0):
        at_once = {"marketplace_startup": StartUp(0, 0), "conventional_startup": StartUp(0, 0)}
        base = replace(Allpass(), marketplace_prices=(usd,), conventional_price=usd, **at_once)
        base = replace(base, serverless_price=0.0) if not usd else base
        found = sweep(jobs, base, grid, rng(1), level=90)
        verdict = found.verdict
        assert verdict.saving_usd == pytest.approx(
            found.rented.cost_usd - found.point(found.cases[0].best).cost_usd
        )
        named = sweep_results(found).recommended
        taken = (
            found.rented if verdict.serverless_pays is False else found.point(found.cases[0].best)
        )
        assert (named.chosen.cost_usd, named.chosen.mean_jct_s) == (
            taken.cost_usd,
            taken.mean_jct_s,
        )
        assert (named.chosen.policy == "serverful_only") == (verdict.serverless_pays is False)
        assert named.savings.saving_usd == pytest.approx(found.reference.cost_usd - taken.cost_usd)
        if verdict.serverless_pays is False:
            assert not any(point.recommended for point in marked_thresholds(found))
            assert named.savings.confidence.saving_usd[0] <= named.savings.saving_usd
            notes = [row[-1] for row in answer_tables(found)[0].rows]
            assert notes.count("recommended") == 1 and "best threshold" in " ".join(notes)
        said[usd] = (verdict.serverless_pays, headline(found).split(" for these")[0])
    assert said == {
        0.0: (None, "Serverless makes no real difference"),
        0.2: (False, "Serverless does not pay"),
        4.0: (True, "Serverless pays"),
    }


def test_thresholds_that_cost_the_same_are_one_range_without_a_winner(jobs):
    # 56 to 60 s: the bills differ by less than 2%; an hour costs more.
    grid = SweepGrid([56.0, 58.0, 60.0, 3600.0], adaptive=False)
    found = sweep(jobs, Allpass(), grid, np.random.default_rng(1), level=90)
    cost = np.array([point.cost_usd for point in found.points])
    near = cost <= (1 + SAME) * cost.min()
    assert near.tolist() == [True, True, True, False]
    assert (found.verdict.same_cost_from_s, found.verdict.same_cost_to_s) == (56.0, 60.0)
    assert found.verdict.tied
    assert "Any threshold from 56 to 60 s costs the same within 2%" in headline(found)
    alone = sweep(jobs, Allpass(), SweepGrid([60.0, 3600.0], adaptive=False),
        np.random.default_rng(1))  # fmt: skip
    assert not alone.verdict.tied and alone.verdict.same_cost_from_s is None
    assert "a threshold of 60 s is the cheapest whose mean JCT is within 10%" in headline(
        alone
    ).replace("A threshold", "a threshold")


def test_one_job_is_singular(gpuplan, tmp_path):
    trace = write_trace(tmp_path / "t.parquet", [0], [3600.0])
    code, out, _ = gpuplan("sweep", str(trace), "--threshold", "60")
    assert code == 0 and "for this 1 job" in " ".join(out.split())
