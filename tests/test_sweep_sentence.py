"""The one answer of ``gpuplan sweep`` in words: over how long, in dollars, what else is cheap."""

import json

import numpy as np
import pytest

from gpuplan.analysis.trace import read_trace
from gpuplan.cli.formats.units import show_between, show_duration, show_jobs, show_usd
from gpuplan.cli.tables.sweep_tables import headline
from gpuplan.planner.runs.trace_jobs import COLUMNS, jobs_of
from gpuplan.planner.sweep.sweep import SweepGrid, sweep
from gpuplan.simkit.allpass.parameters import Allpass

FIFO = "fifo:gpus=40"


@pytest.fixture(scope="module")
def jobs(lab):
    return jobs_of(read_trace(lab, columns=COLUMNS), np.random.default_rng(0))


def answer(gpuplan, *asked):
    """Return the results and the sentences of a sweep."""
    code, out, err = gpuplan("sweep", *asked, "--output-format", "json", "-q")
    assert code == 0, err
    return json.loads(out)["results"], " ".join(gpuplan("sweep", *asked, "-q")[1].split())


@pytest.mark.parametrize("against", [(), ("--against", FIFO)])
def test_the_interval_of_a_saving_is_in_dollars(gpuplan, lab, against):
    results, text = answer(gpuplan, lab, "--threshold", "60,600", *against)
    told = results["recommended"]["against"] or results["recommended"]
    low, high = told["confidence"]["saving_usd"]
    assert low < told["saving_usd"] < high
    saves = f"{show_usd(told['saving_usd'])} ({100 * told['saving_share']:.1f}%; "
    assert f"It saves {saves}90% interval {show_between(low, high, show_usd)}) against" in text


def test_over_how_long_jobs_were_submitted(gpuplan, lab, jobs):
    for scale, asked in ((1, ()), (2, ("--scale-interarrival", 2))):
        results, text = answer(gpuplan, lab, "--threshold", "60", *asked)
        assert results["span_s"] == pytest.approx(scale * jobs.span_s)
        told = f"{results['jobs']:,} jobs over {show_duration(results['span_s'])}: "
        assert text.startswith(f"Recommended for {told}")
    assert [show_jobs(1, 0.0), show_jobs(2, 0.0), show_jobs(2000)] == [
        *("1 job", "2 jobs at once", "2,000 jobs"),
    ]


def test_the_cheapest_is_told_where_it_is_far_slower(jobs):
    # With 8 workers jobs wait: nothing rented is within 10% of the mean JCT of everything
    # serverless, which is thus recommended, though 8 workers cost far less.
    few = sweep(jobs, Allpass(), SweepGrid([60.0], capacities=[8]), np.random.default_rng(1))
    case = few.cases[0]
    costs = [point.cost_usd for point in few.points]
    assert case.recommended is None
    assert case.cheapest == int(np.argmin(costs))
    cheapest, taken = few.points[case.cheapest], few.reference
    less = taken.cost_usd - cheapest.cost_usd
    later = show_duration(cheapest.mean_jct_s - taken.mean_jct_s)
    assert headline(few).endswith(
        f"costs {show_usd(less)} ({100 * less / taken.cost_usd:.1f}%) less for {later} more a "
        "job; --value-of-time weighs the two."
    )
    named = few.summary()["cases"][0]["cheapest"]
    assert (named["cost_usd"], named["policy"]) == (cheapest.cost_usd, cheapest.policy)
    # With a worth of time that has been weighed, and where it is the cheapest there is nothing.
    weighed = SweepGrid([60.0], capacities=[8], values_of_time=[100.0])
    free = SweepGrid([60.0], adaptive=False)
    for grid in (weighed, free):
        assert "The cheapest" not in headline(
            sweep(jobs, Allpass(), grid, np.random.default_rng(1))
        )


def test_the_cheapest_of_several_capacities_has_its_own(jobs):
    grid = SweepGrid([600.0, 3600.0], adaptive=False, capacities=[2, 8])
    found = sweep(jobs, Allpass(), grid, np.random.default_rng(1))
    assert (found.cases[0].recommended, found.cases[0].cheapest) == (3, 2)
    assert "The cheapest, threshold 10 min with at most 8 workers, costs $" in headline(found)
