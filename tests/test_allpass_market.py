"""A marketplace that changes: schedules and bills worked by hand, laws, and the twin."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_allpass import as_lists, run_twin

from gpuplan.planner.policies.allpass import replay
from gpuplan.planner.runs.settings import SettingError
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.simkit.allpass.parameters import Allpass, Draws, StartUp
from gpuplan.simkit.allpass.simulator import run_allpass
from gpuplan.simkit.renting.market import Market
from gpuplan.simkit.time import FOREVER, to_micros
from gpuplan.simkit.workload import Workload

NO_DELAY = StartUp(0, 0)
S = 1_000_000


def market(*steps, period_s=None):
    """Return a market of (seconds, prices) steps."""
    return Market(
        start_us=np.array([int(at * S) for at, _ in steps]),
        offers=np.array([len(prices) for _, prices in steps]),
        price=np.array([price for _, prices in steps for price in prices], np.float64),
        period_us=FOREVER if period_s is None else int(period_s * S),
    )


AT_ONCE = Allpass(
    controller="fixed",
    threshold_s=0,
    checkpoint_s=0,
    restore_s=0,
    serverless_startup=NO_DELAY,
    marketplace_startup=NO_DELAY,
    conventional_startup=NO_DELAY,
)


def run_of(workload, rules):
    return run_allpass(workload, rules, np.random.default_rng(0))


@pytest.mark.kernels
def test_a_price_is_paid_as_at_request_or_as_in_force():
    # The tick at 60 rents the cheaper of two offers for 300 s. From 90 on there is one offer, ours.
    # Job 1 comes at 70: at the tick at 120 none is left but the cloud's.
    workload = Workload.from_seconds([0, 70], [300, 100], [1, 1], [300, 400])
    rules = replace(AT_ONCE, market=market((0, [1.0, 2.0]), (90, [3.0]), (150, [0.5, 0.6])))
    asked = run_of(workload, rules)
    assert asked.rentals.price.tolist() == [1.0, 1.29]
    assert asked.rentals.request_us.tolist() == [60 * S, 120 * S]
    assert asked.rentals.release_us.tolist() == [360 * S, 240 * S]
    np.testing.assert_allclose(asked.rental_usd, [300 / 3600, 1.29 * 120 / 3600], rtol=1e-12)
    in_force = run_of(workload, replace(rules, pricing="in-force"))
    assert (in_force.finish_us == asked.finish_us).all()
    assert in_force.rentals.price.tolist() == [1.0, 1.29]
    paid = [(30 * 1 + 60 * 3 + 210 * 0.5) / 3600, 1.29 * 120 / 3600]
    np.testing.assert_allclose(in_force.rental_usd, paid, rtol=1e-12)
    line = in_force.timeline
    shown = (line.time_us // S, line.offers, line.marketplace, line.paid_usd_per_h)
    assert list(zip(*(column.tolist() for column in shown), strict=True)) == [
        (60, 2, 1, 1.0),
        (120, 1, 1, 4.29),
        (180, 2, 1, 1.79),
        (240, 2, 1, 0.5),
    ]  # and at 300 nothing is new
    assert line.mean_price[:2].tolist() == [1.0, 2.145]


@pytest.mark.kernels
def test_a_reclaimed_job_goes_back_to_what_is_saved():
    """Two jobs on the offers at 1 and 2 dollars since 60; at 150 the second offer is gone.

    Job 1 has then restored for 10 s and worked for 80, of which 60 are saved. The tick at 180 rents
    from the cloud: 10 s restore and the other 140 s, until 330. Reclaimed to the second, its first
    worker is billed for 90 s.
    """
    workload = Workload.from_seconds([0, 0], [300, 200], [1, 1], [300, 310])
    falling = market((0, [1.0, 2.0]), (150, [1.0]))
    rules = replace(AT_ONCE, restore_s=10, market=falling, reclaim=True, save_every_s=60)
    run = run_of(workload, rules)
    assert run.finish_us.tolist() == [370 * S, 330 * S]
    assert run.queue_us.tolist() == [60 * S, 90 * S]
    assert run.demotion_us.tolist() == [10 * S, 40 * S]
    rentals = run.rentals
    assert rentals.offer.tolist() == [0, 1, -1]
    assert rentals.reclaimed.tolist() == [False, True, False]
    assert rentals.release_us.tolist() == [370 * S, 150 * S, 360 * S]
    assert rentals.busy_us.tolist() == [310 * S, 90 * S, 150 * S]
    assert run.worker_us.tolist() == [310 * S, 240 * S]
    np.testing.assert_allclose(
        run.rental_usd, np.array([310, 2 * 90, 1.29 * 180]) / 3600, rtol=1e-12
    )
    for every, vain in ((0, 10), (np.inf, 90), (80, 10), (81, 90)):
        again = run_of(workload, replace(rules, save_every_s=every))
        assert again.demotion_us[1] == (vain + 10) * S
    kept = run_of(workload, replace(rules, reclaim=False))
    assert kept.finish_us.tolist() == [370 * S, 270 * S]
    assert not kept.rentals.reclaimed.any()


@pytest.mark.kernels
@pytest.mark.parametrize(("notice_s", "kept_s"), [(0, 0), (19, 0), (20, 70), (30, 70)])
def test_a_job_is_saved_within_the_notice(notice_s, kept_s):
    # On its worker since 60 it restores for 10 s. Its offer is gone at 160, when a checkpoint of
    # 20 s can end if the notice is as long: 70 s of work are kept. The cloud has the rest from 180.
    workload = Workload.from_seconds([0], [200], [1], [310])
    falling = market((0, [1.0]), (160, []))
    moves = {"checkpoint_s": 20, "restore_s": 10, "save_every_s": np.inf}
    run = run_of(
        workload, replace(AT_ONCE, market=falling, reclaim=True, grace_s=notice_s, **moves)
    )
    assert run.finish_us.tolist() == [(180 + 10 + 200 - kept_s) * S]
    assert run.demotion_us.tolist() == [(20 + 100 - kept_s + 10) * S]
    assert run.rentals.release_us[0] == 160 * S and run.rentals.reclaimed[0]


@pytest.mark.kernels
def test_a_job_moves_with_what_it_has_done_where_a_lease_ends():
    # Leased from 60 to 160: 10 s restore, 85 s of work, 5 s checkpoint. The tick at 180 rents the
    # same offer again: 10 s restore, and the other 55 s.
    workload = Workload.from_seconds([0], [140], [1], [310])
    rules = replace(AT_ONCE, marketplace_prices=(1.0,), checkpoint_s=5, restore_s=10, lease_s=100)
    run = run_of(workload, rules)
    assert run.finish_us.tolist() == [245 * S]
    assert run.queue_us.tolist() == [75 * S] and run.demotion_us.tolist() == [30 * S]
    assert run.rentals.offer.tolist() == [0, 0] and not run.rentals.reclaimed.any()
    assert run.rentals.release_us.tolist() == [160 * S, 245 * S]
    for lease_s in (150, np.inf):  # at its very end, the job is done
        assert run_of(workload, replace(rules, lease_s=lease_s)).finish_us.tolist() == [210 * S]
    cloud = replace(rules, marketplace_prices=())  # has no leases
    assert run_of(workload, cloud).finish_us.tolist() == [210 * S]


@pytest.mark.kernels
@pytest.mark.compiled
def test_leases_shorter_than_a_restore_are_refused():
    workload = Workload.from_seconds([0], [140], [1], [310])
    short = replace(AT_ONCE, marketplace_prices=(1.0,), restore_s=10, lease_s=10, capacity=1)
    jobs = TraceJobs(workload, pl.Series(["a"]), ())
    with pytest.raises(SettingError, match="before any job") as error:
        replay(jobs, short, np.random.default_rng(0))
    assert "lease_s" in error.value.names and "longer lease_s" in str(error.value.hint)


@pytest.mark.kernels
def test_a_gang_stops_together_and_its_other_workers_stay():
    # The gang of two runs since 60 and loses its second worker at 150, all saved. The tick at 180
    # adds one of the cloud to the one that is left: 110 s more.
    workload = Workload.from_seconds([0], [200], [2], [300])
    falling = market((0, [1.0, 1.0]), (150, [1.0]))
    run = run_of(workload, replace(AT_ONCE, market=falling, reclaim=True, save_every_s=0))
    assert run.finish_us.tolist() == [290 * S]
    assert run.rentals.offer.tolist() == [0, 1, -1]
    assert run.rentals.busy_us.tolist() == [200 * S, 90 * S, 110 * S]
    assert run.rentals.release_us.tolist() == [290 * S, 150 * S, 290 * S]


@pytest.mark.kernels
def test_a_worker_that_is_still_starting_can_be_reclaimed():
    workload = Workload.from_seconds([0], [100], [1], [200])
    slow = replace(AT_ONCE, marketplace_startup=StartUp(40, 0), reclaim=True)
    for gone_at, idle in ((90, True), (100, True), (101, False)):
        run = run_of(workload, replace(slow, market=market((0, [1.0]), (gone_at, []))))
        assert run.rentals.reclaimed[0]
        # Ready at 100 and idle for no time at all, or never ready: nothing was done on it.
        assert (run.rentals.busy_us[0] == 0) == idle
        assert (run.timeline.starting >= 0).all()
        assert run.finish_us.tolist() == [220 * S]


@pytest.mark.kernels
@pytest.mark.compiled
@pytest.mark.parametrize(
    "helps", [{"reclaim": False}, {"save_every_s": 5.0, "restore_s": 1.0}, {"capacity": 0}]
)
def test_a_run_ends_in_which_offers_vanish_before_any_job_gets_on(helps):
    # Four offers for 44 s of each 48 s: after its start-up a worker is there for a few seconds.
    steps, offers = np.array([0, 44_000_000]), np.array([4, 0])
    market = Market(steps, offers, np.ones(4), 48_000_000)
    fixed = Allpass(controller="fixed", threshold_s=60.0, capacity=4)
    never = replace(fixed, market=market, reclaim=True, save_every_s=60.0)
    work = Workload.from_seconds([0.0, 5.0], [4000.0, 900.0], [4, 1], [9000.0, 9000.0])
    jobs = TraceJobs(work, pl.Series(["a", "b"]), ())
    with pytest.raises(SettingError, match="before any job") as error:
        replay(jobs, never, np.random.default_rng(0))
    assert error.value.names == ("reclaim", "save_every_s")
    assert all(name in str(error.value.hint) for name in ("save_every_s", "restore_s", "reclaim"))
    run = replay(jobs, replace(never, **helps), np.random.default_rng(0))
    assert (run.finish_us > 0).all() and run.rentals.offer.size < 100_000


@pytest.mark.parametrize("turn_s", [130, 162])
def test_jobs_take_what_is_cheapest_now(turn_s):
    # The offer at 1.0 and the cloud at 1.29 are held from 60, busy to 160, and idle at 165, when
    # job 2 can have either. The offer has become dearer before: while it was busy, or while idle.
    workload = Workload.from_seconds([0, 0, 165], [100] * 3, [1] * 3, [100, 100, 500])
    rules = replace(AT_ONCE, market=market((0, [1.0]), (turn_s, [2.0])))
    for pricing, taken in (("request", 0), ("in-force", 1)):
        run = run_of(workload, replace(rules, pricing=pricing))
        busy = [100 * S, 100 * S]
        busy[taken] += 100 * S
        assert run.rentals.busy_us.tolist() == busy
        assert run.rentals.release_us[1 - taken] == 180 * S  # the dearer of the two


@pytest.mark.kernels
def test_the_steps_of_a_market_repeat():
    # 60 s with an offer, 60 s without, over and over: only ticks in the first half of a period.
    workload = Workload.from_seconds([0, 80, 200], [10, 10, 10], [1] * 3, [10, 90, 210])
    run = run_of(workload, replace(AT_ONCE, market=market((0, []), (50, [1.0]), period_s=100)))
    line = run.timeline
    shown = dict(zip((line.time_us // S).tolist(), line.offers.tolist(), strict=True))
    assert {at: shown[at] for at in (60, 120)} == {60: 1, 120: 0}
    assert run.rentals.offer.tolist()[:2] == [0, -1]


def test_time_is_billed_in_steps_and_at_the_last_price():
    workload = Workload.from_seconds([0], [100.5], [1], [100])
    rising = market((0, [1.0]), (100, [2.0]))
    rules = replace(AT_ONCE, market=rising, pricing="in-force")
    for step, least, seconds in ((0, 0, 100.5), (1, 0, 101), (60, 0, 120), (60, 300, 300)):
        run = run_of(workload, replace(rules, billing_step_s=step, minimum_billing_s=least))
        bill = (40 * 1 + (seconds - 40) * 2) / 3600
        np.testing.assert_allclose(run.rental_usd, [bill], rtol=1e-12)
        np.testing.assert_allclose(run.rentals.metered_usd, [(40 + 60.5 * 2) / 3600], rtol=1e-12)


@pytest.mark.kernels
def test_every_job_has_its_own_checkpoint_and_restore():
    workload = replace(
        Workload.from_seconds([0, 0], [100, 100], [1, 1], [100, 100]),
        checkpoint_us=np.array([5, 20]) * S,
        restore_us=np.array([30, 0]) * S,
    )
    run = run_of(workload, replace(AT_ONCE, checkpoint_s=42, restore_s=42))
    assert run.demotion_us.tolist() == [35 * S, 20 * S]
    assert run.finish_us.tolist() == [190 * S, 160 * S]
    assert run.worker_us.tolist() == [130 * S, 100 * S]
    np.testing.assert_allclose(run.serverless_usd, np.array([5, 20]) * 2.10 / 3600, rtol=1e-12)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"start_us": [1, 2]}, "first at 0"),
        ({"start_us": [0, 0]}, "must ascend"),
        ({"period_us": 5}, "before its period"),
        ({"offers": [1, 3]}, "4 offers, but 3 prices"),
        ({"price": [1.0, 3.0, 2.0]}, "ascend within"),
        ({"price": [1.0, 2.0, 900.0]}, "between 0 and 500"),
    ],
)
def test_a_market_is_checked(changes, problem):
    usual = {"start_us": [0, 5], "offers": [1, 2], "price": [9.0, 2.0, 3.0], "period_us": FOREVER}
    arrays = {
        name: value if name == "period_us" else np.array(value)
        for name, value in (usual | changes).items()
    }
    with pytest.raises(ValueError, match=problem):
        Market(**arrays)


def test_the_median_offer_counts_by_time():
    assert market((0, [1.0]), (30, [5.0]), period_s=100).median_usd == 5.0
    assert market((0, [1.0]), (70, [5.0]), period_s=100).median_usd == 1.0
    assert market((0, [1.0]), (50, [5.0]), period_s=100).median_usd == 3.0
    assert Market.constant((0.5, 1.0, 9.0)).median_usd == 1.0
    assert Market.constant((0.5, 1.0)).median_usd == 0.75
    assert Market.constant(()).median_usd is None


PRICES = st.lists(st.sampled_from([0.5, 0.8, 0.8, 1.29, 2.0]), max_size=6).map(sorted)
MARKETS = st.builds(
    lambda steps, spread, period: market(
        *((i * spread, prices) for i, prices in enumerate(steps)),
        period_s=len(steps) * spread if period else None,
    ),
    st.lists(PRICES, min_size=1, max_size=5),
    st.sampled_from([60, 45.5, 317]),
    st.booleans(),
)
RULES = st.builds(
    Allpass,
    controller=st.sampled_from(["adaptive", "fixed"]),
    scale_out=st.sampled_from(["window", "queue"]),
    scaling=st.sampled_from(["literal", "bounded"]),
    queue_order=st.sampled_from(["deadline", "submission"]),
    threshold_s=st.sampled_from([0.0, 60.0]),
    capacity=st.sampled_from([None, 3, 8]),
    market=MARKETS,
    pricing=st.sampled_from(["request", "in-force"]),
    reclaim=st.booleans(),
    save_every_s=st.sampled_from([0.0, 60.0]),
    grace_s=st.sampled_from([0.0, 30.0, 60.0]),
    lease_s=st.sampled_from([np.inf, 200.0, 317.0]),
    checkpoint_s=st.sampled_from([0.0, 42.0]),
    restore_s=st.sampled_from([0.0, 42.0]),
    tick_s=st.sampled_from([60.0, 45.0]),
    window_s=st.sampled_from([300.0, 1800.0]),
    marketplace_startup=st.sampled_from([NO_DELAY, StartUp(36, 7)]),
)
JOBS = st.lists(
    st.tuples(
        st.integers(0, 900),
        st.integers(0, 1500),
        st.integers(1, 4),
        st.sampled_from([0.0, 0.5, 2.0]),
    ),
    min_size=1,
    max_size=20,
)


def build(drawn):
    submit, service, gpus, slack = (np.array(c) for c in zip(*sorted(drawn), strict=True))
    return Workload.from_seconds(submit, service, gpus, submit + service * (1 + slack))


@settings(max_examples=40, deadline=None)
@given(JOBS, RULES, st.integers(0, 3))
def test_the_kernel_agrees_with_its_twin_in_a_market_that_changes(drawn, rules, seed):
    workload = build(drawn)
    draws = Draws.sample(rules, workload.size, np.random.default_rng(seed))
    found, twin = as_lists(run_allpass(workload, rules, draws)), run_twin(workload, rules, draws)
    for part in ("jobs", "rentals", "bills", "vain", "timeline", "pressures"):
        assert found[part] == getattr(twin, part), part


@settings(max_examples=30, deadline=None)
@given(JOBS, RULES, st.integers(0, 3))
def test_laws_of_a_market_that_changes(drawn, rules, seed):
    workload = build(drawn)
    run = run_allpass(workload, rules, np.random.default_rng(seed))
    rentals, offers = run.rentals, rules.market
    assert (
        run.jct_us == workload.service_us + run.startup_us + run.queue_us + run.demotion_us
    ).all()
    assert rentals.busy_us.sum() == run.worker_us.sum()
    assert rules.reclaim or not rentals.reclaimed.any()
    bill = run.serverless_usd.sum() + run.rental_usd.sum()
    np.testing.assert_allclose(run.job_usd.sum(), bill, rtol=1e-12)
    ladders = np.split(offers.price, offers.first[1:-1])

    def ladder(at):
        """The prices at a time; what changes at it counts."""
        return ladders[np.searchsorted(offers.start_us, at % offers.period_us, side="right") - 1]

    for row in np.flatnonzero(rentals.offer >= 0):
        place, begin, end = rentals.offer[row], rentals.request_us[row], rentals.release_us[row]
        assert rentals.price[row] == ladder(begin)[place]
        mine = (rentals.offer == place) & (rentals.request_us >= begin)
        assert (rentals.request_us[mine][1:] >= end).all()
        changes = [t for t in _changes(offers, end) if begin < t < end]
        price, paid, since = rentals.price[row], 0.0, begin
        for at in [*changes, end]:
            paid += price * (at - since) / 3.6e9
            since = at
            if place < len(ladder(at)):
                if rules.pricing == "in-force":
                    price = ladder(at)[place]
            elif at < end:
                assert end - begin <= to_micros(rules.lease_s)
                assert not rules.reclaim  # else it had ended there
        np.testing.assert_allclose(rentals.metered_usd[row], paid, rtol=1e-9)


def _changes(offers, end):
    rounds = range(int(end // offers.period_us) + 1)
    return sorted(n * offers.period_us + at for n in rounds for at in offers.start_us.tolist())
