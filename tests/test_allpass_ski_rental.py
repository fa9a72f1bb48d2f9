"""The closed form is the formula, agrees with the simulation, and is best where it says so."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.planner.sweep.ski_rental import serverful_price, ski_rental
from gpuplan.simkit.allpass.parameters import Allpass, StartUp
from gpuplan.simkit.allpass.simulator import run_allpass
from gpuplan.simkit.renting.market import Market
from gpuplan.simkit.time import to_micros
from gpuplan.simkit.workload import Workload

ONE_PRICE = Allpass(controller="fixed", marketplace_prices=(), conventional_price=1.29)
JOBS = st.lists(
    st.tuples(st.integers(0, 5000), st.sampled_from([(1, 0.25), (1, 1.0), (4, 4.0)])),
    min_size=1,
    max_size=30,
)


def build(drawn):
    service = np.array([d for d, _ in drawn], float)
    gpus = np.array([g for _, (g, _) in drawn])
    submit = np.arange(len(drawn)) * 100.0
    return Workload.from_seconds(
        submit, service, gpus, submit + 2 * service, np.array([b for _, (_, b) in drawn])
    )


@settings(max_examples=30, deadline=None)
@given(JOBS, st.sampled_from([0.0, 1.0, 60.0, 299.5, 2500.0, np.inf]), st.sampled_from([None, 2]))
def test_it_is_the_formula_and_what_the_simulation_bills_to_jobs(drawn, threshold, capacity):
    work = build(drawn)
    rules = Allpass(
        controller="fixed",
        threshold_s=threshold,
        marketplace_prices=(),
        conventional_price=1.29,
        capacity=capacity,
    )
    form = ski_rental(work, rules)
    d, g, b = work.service_us / 1e6, work.gpus, work.billed_gpus
    leaves = (d > threshold) & (g <= (capacity or 99))
    inside = np.where(leaves, threshold, d)
    after = np.where(leaves, d - inside, 0)
    direct = (2.10 * b * (inside + 42 * leaves) + 1.29 * g * (after + 42 * leaves)).sum() / 3600
    np.testing.assert_allclose(form.cost_usd(threshold), direct, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(form.delay_s(threshold), 84 * leaves.mean(), atol=1e-12)

    run = run_allpass(work, rules, np.random.default_rng(0))
    attributable = run.serverless_usd.sum() + 1.29 * run.worker_us.sum() / 3.6e9
    np.testing.assert_allclose(form.cost_usd(threshold), attributable, rtol=1e-9, atol=1e-12)
    assert (run.demoted == leaves).all()


def test_it_is_the_whole_bill_where_nobody_queues_and_no_worker_idles():
    # All times are whole ticks, start-ups take no time and jobs do not meet: workers are rented
    # at the tick that finds the job in the queue and released at the tick at which it ends.
    rng = np.random.default_rng(3)
    submit = np.arange(40) * 36_000.0
    service = 60.0 * rng.integers(0, 200, 40)
    work = Workload.from_seconds(submit, service, rng.integers(1, 5, 40), submit)
    none = StartUp(0, 0)
    rules = Allpass(
        controller="fixed",
        scaling="bounded",  # a late job would otherwise rent what it cannot use
        threshold_s=600,
        checkpoint_s=60,
        restore_s=120,
        marketplace_prices=(),
        serverless_startup=none,
        conventional_startup=none,
    )
    run = run_allpass(work, rules, rng)
    form = ski_rental(work, rules)
    assert run.queue_us.sum() == 0
    np.testing.assert_allclose(
        run.serverless_usd.sum() + run.rental_usd.sum(), form.cost_usd(600), rtol=1e-12
    )
    np.testing.assert_allclose(
        (run.jct_us - work.service_us).mean() / 1e6, form.delay_s(600), rtol=1e-12
    )


@settings(max_examples=30, deadline=None)
@given(JOBS, st.sampled_from([0.0, 2.0, 50.0]))
def test_no_threshold_beats_the_best_one(drawn, value_of_time):
    form = ski_rental(build(drawn), ONE_PRICE, value_of_time)
    least = form.objective_usd(form.best_s())
    anywhere = np.concatenate((np.linspace(0, 5001, 500), [np.inf]))
    assert (form.objective_usd(anywhere) >= least - 1e-9).all()


def test_time_that_is_dear_keeps_jobs_serverless():
    work = Workload.from_seconds([0, 1, 2], [60, 600, 6000], [1, 1, 1], [9e3] * 3)
    assert ski_rental(work, ONE_PRICE).best_s() == 0
    # Leaving saves 0.81 $/h: 1.35 $ on the longest job, less m = 0.04 $, against 84 s of delay.
    assert ski_rental(work, ONE_PRICE, value_of_time=50.0).best_s() == 600
    assert ski_rental(work, ONE_PRICE, value_of_time=100.0).best_s() == 6000


@settings(max_examples=30, deadline=None)
@given(st.floats(0.0, 1e6))
def test_the_competitive_threshold_costs_at_most_twice_hindsight(duration):
    form = ski_rental(Workload.from_seconds([0], [duration], [1], [0]), ONE_PRICE)
    hindsight = min(form.cost_usd(0.0), form.cost_usd(np.inf))
    assert form.cost_usd(form.competitive_s) <= 2 * hindsight + 1e-9


def test_the_competitive_threshold_worked_by_hand():
    # m = 42 s at 2.10 $/h + 42 s at 1.29 $/h = 0.03955 $; over 0.81 $/h: 175.8 s.
    form = ski_rental(Workload.from_seconds([0], [1], [1], [0]), ONE_PRICE)
    assert form.migration_usd == pytest.approx(42 * (2.10 + 1.29) / 3600)
    assert form.competitive_s == pytest.approx(42 * (2.10 + 1.29) / 0.81)
    dear = Allpass(controller="fixed", marketplace_prices=(), conventional_price=3.0)
    assert ski_rental(Workload.from_seconds([0], [1], [1], [0]), dear).competitive_s == np.inf


def test_jobs_may_differ_in_what_leaving_takes():
    work = Workload.from_seconds([0, 0, 0], [100, 200, 300], [1, 2, 4], [9e3] * 3)
    work = replace(work, checkpoint_us=to_micros([1, 10, 100]), restore_us=to_micros([2, 20, 200]))
    form = ski_rental(work, ONE_PRICE)
    # Left at 150 s: 100 s + 2 x 150 s + 4 x 150 s and 2 x 10 s + 4 x 100 s to save them, then
    # 2 x 50 s + 4 x 150 s and 2 x 20 s + 4 x 200 s to load them.
    expected = (2.10 * (1000 + 420) + 1.29 * (700 + 840)) / 3600
    assert form.cost_usd(150.0) == pytest.approx(expected)
    assert form.delay_s(150.0) == pytest.approx((30 + 300) / 3)
    assert (form.checkpoint_s, form.restore_s) == pytest.approx((421 / 7, 842 / 7))
    run = run_allpass(work, replace(ONE_PRICE, threshold_s=150.0), np.random.default_rng(0))
    attributable = run.serverless_usd.sum() + 1.29 * run.worker_us.sum() / 3.6e9
    assert form.cost_usd(150.0) == pytest.approx(attributable)


@settings(max_examples=30, deadline=None)
@given(JOBS, st.sampled_from([0.0, 2.0, 50.0]))
def test_below_the_break_even_threshold_nothing_is_saved(drawn, value_of_time):
    form = ski_rental(build(drawn), ONE_PRICE, value_of_time)
    never, from_s = form.objective_usd(np.inf), form.break_even_s()
    below = np.linspace(0, 5001, 500)
    if from_s is not None:
        assert form.objective_usd(from_s) < never
        below = below[below < from_s]
    assert (form.objective_usd(below) >= never * (1 - 1e-9)).all()


def test_shares_of_a_gpu_that_leave_for_whole_workers_pay_from_between_two_durations_on():
    # Two jobs of 11 s on a quarter GPU cost more on workers than in their containers.
    form = ski_rental(build([(11, (1, 0.25)), (11, (1, 0.25)), (376, (1, 1.0))]), ONE_PRICE, 0.0)
    from_s = form.break_even_s()
    assert from_s == pytest.approx(9.875, abs=1e-3)  # 0.224517 $ less 0.72 $ an hour is 0.222542 $
    assert (
        form.objective_usd(from_s) < form.objective_usd(np.inf) < form.objective_usd(from_s - 0.1)
    )


def test_the_break_even_threshold_worked_by_hand():
    # Without a checkpoint moving at once saves; with one of 42 s, jobs of 60 s alone never do.
    short = Workload.from_seconds([0], [60], [1], [0])
    assert ski_rental(short, replace(ONE_PRICE, checkpoint_s=0, restore_s=0)).break_even_s() == 0
    assert ski_rental(short, ONE_PRICE).break_even_s() is None
    # A hundred jobs of 60 s lose 0.026 $ each if moved at once; one of 6,000 s gains 1.31 $.
    mixed = Workload.from_seconds(np.arange(101), [60] * 100 + [6000], [1] * 101, [9e3] * 101)
    assert ski_rental(mixed, ONE_PRICE).break_even_s() == 60


def test_the_serverful_price_is_the_median_offer_or_the_clouds():
    assert serverful_price(Allpass(marketplace_prices=(0.5, 1.0, 9.0))) == 1.0
    assert serverful_price(ONE_PRICE) == 1.29


def test_the_serverful_price_is_of_the_offers_that_the_capacity_can_take():
    # Of 50 offers the cheapest 6 ask 0.38 + 0.7 x 2 (i + 1/2) / 50: the median is at i = 2.5.
    assert serverful_price(Allpass()) == pytest.approx(1.0788)
    assert serverful_price(Allpass(capacity=6)) == pytest.approx(0.38 + 0.7 * 6 / 50)
    assert serverful_price(Allpass(capacity=500)) == serverful_price(Allpass())
    assert serverful_price(Allpass(capacity=0)) == 1.29  # no offer: the conventional cloud
    # Three hours of 1, 5, 9, then one of 2, 2: of the two cheapest, 1 and 5 stand for longer.
    steps = np.array([0, 3]) * 3_600_000_000
    offers = (np.array([3, 2]), np.array([1.0, 5.0, 9.0, 2.0, 2.0]), 4 * 3_600_000_000)
    market = Market(steps, *offers)
    assert market.cheapest(2).price.tolist() == [1.0, 5.0, 2.0, 2.0]
    assert market.cheapest(3) is market.cheapest(None) is market
    assert serverful_price(Allpass(market=market, capacity=1)) == 1.0
    assert ski_rental(
        Workload.from_seconds([0], [1], [1], [0]), Allpass(capacity=6)
    ).price_ratio == pytest.approx(0.464 / 2.10)
