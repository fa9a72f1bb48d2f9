"""What workers cost that are rented as a run begins and held to its end."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.simkit.allpass.parameters import Allpass, StartUp
from gpuplan.simkit.allpass.simulator import run_allpass
from gpuplan.simkit.renting.billing import PRICING_RULES, RentalTerms, hold, hold_leases, hourly_usd
from gpuplan.simkit.renting.market import Market
from gpuplan.simkit.run import leases_of
from gpuplan.simkit.time import FOREVER
from gpuplan.simkit.workload import Workload

HOUR = 3_600_000_000


def market(*steps, lasting=HOUR, period=None):
    """Return offers that change every hour: (price, price, ...) of each step."""
    return Market(
        np.arange(len(steps)) * lasting,
        np.array([len(step) for step in steps]),
        np.array([price for step in steps for price in step], np.float64),
        lasting * len(steps) if period is None else period,
    )


@pytest.mark.parametrize(
    ("workers", "usd_per_h", "rented"),
    [(0, 0.0, 0), (2, 3.0, 2), (3, 6.0, 3), (5, 10.0, 3)],
)
def test_offers_come_first_and_the_conventional_cloud_last(workers, usd_per_h, rented):
    # Offers at 1, 2 and 3, the conventional cloud at 2: the third offer is dearer, and taken.
    rules = Allpass(marketplace_prices=(1.0, 2.0, 3.0), conventional_price=2.0)
    rent = hold(rules, workers, 3 * HOUR // 2)
    assert rent.offers == rented
    assert rent.metered_usd.sum() == rent.billed_usd.sum() == 1.5 * usd_per_h


def test_a_market_of_three_steps_by_hand():
    # Three are wanted: offers at 1 and 2, then one from the conventional cloud at 5. In the second
    # hour one offer is left, at 4: the other keeps its 2. In the third there are three at 3, of
    # which the conventional place is none.
    rules = Allpass(market=market((1, 2), (4,), (3, 3, 3)), conventional_price=5.0)
    for pricing, expected in (
        ("request", [3.5 * 1, 3.5 * 2, 3.5 * 5]),
        ("in-force", [1 + 4 + 3 + 0.5 * 1, 2 + 2 + 3 + 0.5 * 2, 3.5 * 5]),
    ):
        rent = hold(replace(rules, pricing=pricing), 3, 7 * HOUR // 2)
        assert rent.offers == 2
        np.testing.assert_allclose(rent.metered_usd, expected, rtol=1e-12)


def test_availability_that_falls_to_none_leaves_prices_as_they_were():
    rules = Allpass(market=market((1, 2), (), period=FOREVER), pricing="in-force")
    np.testing.assert_allclose(hold(rules, 2, 9 * HOUR).metered_usd, [9, 18], rtol=1e-12)
    none = Allpass(market=market((), (1, 2)), pricing="in-force", conventional_price=3.0)
    rent = hold(none, 2, 9 * HOUR)  # what comes later is not rented
    assert rent.offers == 0
    np.testing.assert_allclose(rent.metered_usd, [27, 27], rtol=1e-12)


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        (HOUR // 2, 3 * 1.0),  # the least time, at the price of its end
        (5 * HOUR // 2, 1 + 4 + 1.0 * 1),  # half an hour more
        (2 * HOUR, 1 + 4 + 1.0 * 4),  # the third hour would be at the price of the second
        (3 * HOUR, 1 + 4 + 1),
        (0, 3 * 1.0),
    ],
)
def test_what_is_billed_beyond_the_end_has_its_price(held, expected):
    rules = Allpass(market=market((1,), (4,)), pricing="in-force", minimum_billing_s=3 * 3600)
    assert hold(rules, 1, held).billed_usd.sum() == pytest.approx(expected)
    steps = Allpass(market=market((1,), (4,)), pricing="in-force", billing_step_s=3600)
    whole = {0: 0, HOUR // 2: 1, 5 * HOUR // 2: 6, 2 * HOUR: 5, 3 * HOUR: 6}
    assert hold(steps, 1, held).billed_usd.sum() == pytest.approx(whole[held])


prices = st.floats(0, 3).map(lambda usd: round(usd, 3))
STEPS = st.lists(st.lists(prices, max_size=4).map(sorted), min_size=1, max_size=4)


@pytest.mark.kernels
@settings(max_examples=30, deadline=None)
@given(
    STEPS,
    st.integers(1, 5),
    st.integers(1, 40_000),
    st.sampled_from(PRICING_RULES),
    st.booleans(),
    st.sampled_from([(0.0, 0.0), (3600.0, 600.0)]),
)
def test_a_pool_that_is_never_smaller_or_larger_pays_the_same(
    steps, workers, run_s, pricing, repeats, billing
):
    # An autoscaler that may keep no fewer and no more workers rents them at once.
    offers = market(*steps, lasting=HOUR // 2, period=None if repeats else FOREVER)
    rules = Allpass(
        controller="fixed",
        threshold_s=0.0,
        scaling="utilization",
        window_s=60.0,
        min_workers=workers,
        capacity=workers,
        checkpoint_s=0.0,
        restore_s=0.0,
        **{f"{name}_startup": StartUp(0, 0) for name in ("serverless", "marketplace")},
        conventional_startup=StartUp(0, 0),
        market=offers,
        pricing=pricing,
        billing_step_s=billing[0],
        minimum_billing_s=billing[1],
    )
    work = Workload.from_seconds([0.0], [float(run_s)], [1], [float(run_s)])
    run = run_allpass(work, rules, np.random.default_rng(0))
    rent = hold(rules, workers, run.end_us)
    assert not run.rentals.request_us.any() and (run.rentals.release_us == run.end_us).all()
    assert (run.rentals.offer >= 0).tolist() == [i < rent.offers for i in range(workers)]
    for name in ("metered_usd", "billed_usd"):
        np.testing.assert_allclose(getattr(run.rentals, name), getattr(rent, name), atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(STEPS, st.integers(1, 6), st.integers(0, 40_000), st.sampled_from(PRICING_RULES))
def test_where_every_offer_is_cheaper_it_is_never_dearer(steps, workers, held_s, pricing):
    rules = Allpass(market=market(*steps), pricing=pricing, conventional_price=3.0)
    held_us = held_s * 1_000_000
    rent = hold(rules, workers, held_us)
    alone = hold(Allpass(marketplace_prices=(), conventional_price=3.0), workers, held_us)
    assert (rent.billed_usd <= alone.billed_usd * (1 + 1e-12)).all()
    assert alone.billed_usd.sum() == pytest.approx(workers * held_s / 3600 * 3.0)
    some = hold(rules, workers - 1, held_us)  # a smaller cluster has the first places
    np.testing.assert_array_equal(some.billed_usd, rent.billed_usd[:-1])


def test_gpu_time_is_billed_by_the_hour_and_the_rest_at_the_usual_price():
    # 2 GPU-hours at $1 and 3 at $2, and 5 more at $4.
    held, usd = np.array([2.0, 3.0]), np.array([1.0, 2.0])
    assert hourly_usd(held, usd, 10.0, 4.0) == (28.0, 5.0)
    assert hourly_usd(held, usd, 5.0, 4.0) == (8.0, 5.0)
    assert hourly_usd(held[:0], usd[:0], 10.0, 4.0) == (40.0, 0.0)


CHANGING = Market(
    np.array([0, HOUR]), np.array([2, 1]), np.array([1.0, 2.0, 5.0]), period_us=2 * HOUR
)


@pytest.mark.parametrize(
    ("pricing", "begin_h", "taken", "usd"),
    [
        ("in-force", 1.0, 0, 5.0),  # the second step, for an hour
        ("in-force", 1.5, 0, 3.0),  # half an hour of it, then the first step again
        ("in-force", 2.0, 0, 1.0),
        ("in-force", 0.5, 0, 3.0),
        ("request", 1.5, 0, 5.0),
        ("request", 4.5, 0, 1.0),
        ("request", 0.0, 1, 2.0),  # another holds the cheapest
        ("request", 1.0, 1, 10.0),  # the only offer is taken: the conventional cloud
    ],
)
def test_an_hour_that_begins_later_costs_what_offers_cost_then(pricing, begin_h, taken, usd):
    terms = RentalTerms(CHANGING, 10.0, pricing, 0.0, 0.0)
    rent = hold(terms, 1, HOUR, begin_us=int(begin_h * HOUR), rented=taken)
    assert rent.billed_usd.tolist() == pytest.approx([usd])


def test_what_was_rented_last_goes_back_first():
    # One GPU for 3 hours on the cheapest offer, and in between two more for an hour: one on the
    # second offer, one from the conventional cloud.
    terms = RentalTerms(Market.constant([1.0, 2.0]), 10.0, "request", 0.0, 0.0)
    leases = leases_of(np.array([0, 1, 2, 3]) * HOUR, np.array([1, 3, 1, 0]))
    assert leases.gpu_us == 5 * HOUR
    first, second = hold_leases(terms, leases)
    assert first.billed_usd.tolist() == [3.0]
    assert (second.offers, second.billed_usd.tolist()) == (1, [2.0, 10.0])
