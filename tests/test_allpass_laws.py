"""Laws every Allpass run obeys, whatever the workload, and the limits with a known answer."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_allpass import run_twin

from gpuplan.simkit.allpass.parameters import Allpass, Draws, StartUp
from gpuplan.simkit.allpass.simulator import run_allpass
from gpuplan.simkit.renting.market import price_ladder
from gpuplan.simkit.time import to_micros
from gpuplan.simkit.workload import Workload


def seren_like(jobs, days, seed, *, gangs=(1, 1, 1, 2, 4, 8), median_s=120.0):
    """Many short jobs, a heavy tail, deadlines between 1 and 10 times the service."""
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.uniform(0, days * 86_400, jobs))
    service = np.minimum(rng.lognormal(np.log(median_s), 2.0, jobs), 86_400)
    deadline = submit + service * rng.uniform(1, 10, jobs)
    return Workload.from_seconds(submit - submit[0], service, rng.choice(gangs, jobs), deadline)


RULES = st.builds(
    Allpass,
    controller=st.sampled_from(["adaptive", "fixed"]),
    threshold_rule=st.sampled_from(["live", "admission"]),
    threshold_s=st.sampled_from([0.0, 60.0, 300.0]),
    scale_out=st.sampled_from(["window", "queue"]),
    scaling=st.sampled_from(["literal", "bounded"]),
    capacity=st.sampled_from([None, 4, 16]),
    serverless_limit=st.sampled_from([None, 16]),
    minimum_billing_s=st.sampled_from([0.0, 60.0]),
)


@settings(max_examples=40, deadline=None)
@given(RULES, st.integers(0, 1000))
def test_what_goes_in_comes_out(rules, seed):
    workload = seren_like(200, 0.2, seed)
    run = run_allpass(workload, rules, np.random.default_rng(seed))
    waits = run.startup_us + run.queue_us + run.demotion_us
    assert (run.jct_us == workload.service_us + waits).all()
    assert (waits >= 0).all()
    assert (run.start_us == workload.submit_us + run.startup_us + run.queue_us)[~run.demoted].all()
    assert (run.start_us >= workload.submit_us).all()
    assert ((run.serverless_us >= 0) & (run.serverless_us <= workload.service_us)).all()
    # Worker time supplied = remaining service and restores of the demoted, to the microsecond.
    assert run.rentals.busy_us.sum() == run.worker_us.sum()
    assert run.end_us == run.finish_us.max() == run.rentals.release_us.max(initial=run.end_us)
    bill = run.serverless_usd.sum() + run.rental_usd.sum()
    np.testing.assert_allclose(run.job_usd.sum(), bill, rtol=1e-12)


def test_a_rental_is_billed_for_the_least_time_at_its_price():
    workload = seren_like(200, 0.2, 1)
    rules = Allpass(minimum_billing_s=3600.0)
    run = run_allpass(workload, rules, np.random.default_rng(1))
    held_h = (run.rentals.release_us - run.rentals.request_us) / 3.6e9
    assert held_h.min() < 1 < held_h.max()
    np.testing.assert_allclose(run.rental_usd, np.maximum(held_h, 1.0) * run.rentals.price)


@settings(max_examples=40, deadline=None)
@given(RULES, st.integers(0, 1000))
def test_never_above_capacity_and_no_offer_rented_twice(rules, seed):
    run = run_allpass(seren_like(200, 0.1, seed), rules, np.random.default_rng(seed))
    rentals = run.rentals
    usable = np.minimum(rentals.ready_us, rentals.release_us)
    assert (rentals.busy_us <= rentals.release_us - usable).all()
    assert (rentals.request_us <= usable).all()
    if rules.capacity is not None:
        for now in rentals.request_us:  # the number can only rise at a request
            held = (rentals.request_us <= now) & (now < rentals.release_us)
            assert held.sum() <= rules.capacity
    for offer in range(len(rules.marketplace_prices)):
        mine = rentals.offer == offer
        begin, end = rentals.request_us[mine], rentals.release_us[mine]
        assert (begin[1:] >= end[:-1]).all()


def test_the_earliest_deadline_goes_first_and_nobody_overtakes():
    workload = seren_like(150, 0.1, 3, median_s=900.0)
    rules = Allpass(capacity=8)
    draws = Draws.sample(rules, workload.size, np.random.default_rng(0))
    run = run_allpass(workload, rules, draws)
    dispatched = run.finish_us - (
        workload.service_us - run.serverless_us + to_micros(rules.restore_s)
    )  # of the demoted
    order = [job for _, job in run_twin(workload, rules, draws).dispatches]
    assert len(order) == run.demoted.sum() > 20
    saved = run.start_us + run.serverless_us + to_micros(rules.checkpoint_s)
    for job in order:
        waiting = run.demoted & (saved < dispatched[job]) & (dispatched > dispatched[job])
        assert (workload.deadline_us[waiting] >= workload.deadline_us[job]).all()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([0.0, 60.0, 300.0, np.inf]))
def test_with_a_fixed_threshold_both_rules_are_one(seed, threshold):
    workload = seren_like(200, 0.2, seed)
    live = Allpass(controller="fixed", threshold_s=threshold, capacity=12)
    runs = [
        run_allpass(workload, rules, np.random.default_rng(seed))
        for rules in (live, replace(live, threshold_rule="admission"))
    ]
    for name in ("start_us", "finish_us", "serverless_us", "queue_us"):
        assert (getattr(runs[0], name) == getattr(runs[1], name)).all()
    assert (runs[0].rentals.release_us == runs[1].rentals.release_us).all()


def test_an_infinite_threshold_is_serverless_only():
    workload = seren_like(500, 1, 1)
    rules = Allpass(controller="fixed", threshold_s=np.inf)
    run = run_allpass(workload, rules, np.random.default_rng(1))
    assert not run.demoted.any()
    assert run.rentals.offer.size == 0
    assert (run.jct_us == workload.service_us + run.startup_us).all()
    hours = (workload.service_us / 3.6e9 * workload.gpus).sum()
    np.testing.assert_allclose(run.job_usd.sum(), 2.10 * hours, rtol=1e-12)


def test_the_same_seed_gives_the_same_run():
    workload = seren_like(300, 0.5, 2)
    runs = [run_allpass(workload, Allpass(), np.random.default_rng(9)) for _ in range(2)]
    assert (runs[0].finish_us == runs[1].finish_us).all()
    assert (runs[0].timeline.pressure == runs[1].timeline.pressure).all()


def test_mean_number_in_containers_is_that_of_an_infinite_server_queue():
    """M/G/infinity: with Poisson arrivals the number in system is Poisson with mean rate x stay.

    The mean over 40 separate spans of 5000 s (the stay is 104 s at most) has a standard error that
    is estimated from the spans; the law must hold within 4 of them.
    """
    rng = np.random.default_rng(11)
    rate, jobs = 0.5, 110_000
    submit = np.cumsum(rng.exponential(1 / rate, jobs))
    service = rng.choice([10.0, 100.0], jobs, p=[0.8, 0.2])
    workload = Workload.from_seconds(submit - submit[0], service, np.ones(jobs), submit + 1e4)
    rules = Allpass(
        controller="fixed", threshold_s=np.inf, serverless_startup=StartUp(4, 0), capacity=0
    )
    run = run_allpass(workload, rules, rng)
    spans = to_micros(np.arange(41) * 5000.0 + 500)
    begin, end = workload.submit_us, run.finish_us
    means = [
        np.maximum(0, np.minimum(end, b) - np.maximum(begin, a)).sum() / (b - a)
        for a, b in pairwise(spans)
    ]
    error = np.std(means, ddof=1) / np.sqrt(len(means))
    assert abs(np.mean(means) - rate * (4 + service.mean())) < 4 * error
    assert error < 0.5


def test_under_a_limit_containers_are_given_in_the_order_of_submission():
    workload = seren_like(300, 0.05, 4)
    rules = Allpass(serverless_limit=8, serverless_startup=StartUp(0, 0))
    run = run_allpass(workload, rules, np.random.default_rng(0))
    assert (np.diff(run.start_us) >= 0).all()
    assert run.queue_us.max() > 0
    assert run.timeline.serverless.max() <= 8


def test_no_negative_start_up():
    drawn = StartUp(1.0, 5.0).draw_us(10_000, np.random.default_rng(0))
    assert drawn.min() >= 0
    assert drawn.mean() > 3e6  # the normal part above 0 alone


def test_the_price_ladder_has_the_quantiles_of_the_market():
    ladder = price_ladder(50, 0.38, 1.08, 1.66)
    assert len(ladder) == 50
    assert np.median(ladder) == pytest.approx(1.08, abs=0.01)
    assert min(ladder) == pytest.approx(0.38 + 0.7 * 0.02)  # the quantile 1/100
    assert price_ladder(0, 1, 1, 1) == ()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"threshold_s": np.inf}, "between min_threshold_s"),
        ({"marketplace_prices": (2.0, 1.0)}, "ascend"),
    ],
)
def test_parameters_are_checked(changes, problem):
    with pytest.raises(ValueError, match=problem):
        Allpass(**changes)


def test_what_cannot_be_run_is_refused():
    wide = Workload.from_seconds([0], [1], [8], [2])
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="serverless_limit 4"):
        run_allpass(wide, Allpass(serverless_limit=4), rng)
    with pytest.raises(ValueError, match="1 jobs"):
        run_allpass(wide, Allpass(), Draws.sample(Allpass(), 3, rng))
    endless = Workload.from_seconds([0] * 9, [2e11] * 9, [1000] * 9, [1e9] * 9)
    with pytest.raises(ValueError, match="36,000 years"):
        run_allpass(endless, Allpass(), rng)
    with pytest.raises(ValueError, match="least <= median"):
        price_ladder(5, 2, 1, 3)
