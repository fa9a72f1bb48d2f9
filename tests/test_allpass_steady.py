"""Ticks that repeat are passed over: runs are those in which every tick is taken."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_allpass import as_lists, run_twin

from gpuplan.simkit.allpass.parameters import Allpass, Draws, StartUp
from gpuplan.simkit.allpass.simulator import run_allpass
from gpuplan.simkit.renting.market import Market
from gpuplan.simkit.workload import Workload

NO_DELAY = StartUp(0, 0)
S = 1_000_000
DAY_S = 86_400
PERIOD_US = 10 * DAY_S * S
YEAR_S = 365.25 * DAY_S


def market(*steps):
    """Return a market of (hours, prices) steps that comes again every ten days."""
    return Market(
        start_us=np.array([at * 3600 * S for at, _ in steps]),
        offers=np.array([len(prices) for _, prices in steps]),
        price=np.array([price for _, prices in steps for price in prices], np.float64),
        period_us=PERIOD_US,
    )


def with_a_step_per_tick(known, tick_us):
    """Return a market that is the same, in steps of a tick at most: no tick is passed over."""
    start = np.union1d(known.start_us, np.arange(0, known.period_us, tick_us))
    step = np.searchsorted(known.start_us, start, side="right") - 1
    ladders = np.split(known.price, known.first[1:-1])
    return Market(
        start_us=start,
        offers=known.offers[step],
        price=np.concatenate([ladders[i] for i in step]),
        period_us=known.period_us,
    )


RULES = st.builds(
    Allpass,
    controller=st.sampled_from(["adaptive", "fixed"]),
    threshold_rule=st.sampled_from(["live", "admission"]),
    scale_out=st.sampled_from(["window", "queue"]),
    scaling=st.sampled_from(["literal", "bounded", "utilization"]),
    threshold_s=st.sampled_from([0.0, 60.0, 300.0, 3600.0]),
    min_threshold_s=st.sampled_from([None, 0.0]),
    max_threshold_s=st.sampled_from([3600.0, 30.0 * DAY_S]),
    gain_down_s=st.sampled_from([0.0, 2.0, 30.0]),
    max_pressure=st.sampled_from([0.5, 1.0, 3.0, 100.0]),
    queue_order=st.sampled_from(["deadline", "submission"]),
    stabilization_s=st.sampled_from([0.0, 300.0, 7200.0]),
    min_workers=st.integers(1, 2),
    capacity=st.sampled_from([None, 0, 2, 4, 8]),
    serverless_limit=st.sampled_from([None, 6]),
    market=st.sampled_from(
        [
            market((0, [])),
            market((0, [0.5, 0.5, 2.0])),
            market((0, [0.5, 0.6, 2.0]), (30, [0.7]), (150, [0.4, 3.0])),
        ]
    ),
    pricing=st.sampled_from(["request", "in-force"]),
    reclaim=st.booleans(),
    save_every_s=st.sampled_from([0.0, 600.0]),
    grace_s=st.sampled_from([0.0, 60.0]),
    lease_s=st.sampled_from([np.inf, 3.0 * DAY_S]),
    tick_s=st.sampled_from([30.0, 60.0, 100.5, 3600.0]),
    window_s=st.sampled_from([60.0, 300.0, 1800.0]),
    serverless_startup=st.sampled_from([NO_DELAY, StartUp(4, 2)]),
    marketplace_startup=st.sampled_from([NO_DELAY, StartUp(36, 7), StartUp(7200, 0)]),
    conventional_startup=st.sampled_from([NO_DELAY, StartUp(255, 26)]),
)
JOBS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.001, 0.3, 4.0]),  # days since the last submission
        st.sampled_from([50.0, 2000.0, 40_000.0, 3.0 * DAY_S, 14.0 * DAY_S]),
        st.integers(1, 4),
        st.sampled_from([0.0, 0.01, 0.5, 2.0, 9.0]),
    ),
    min_size=1,
    max_size=6,
)


def workload_of(drawn):
    gap, service, gpus, slack = (np.array(column) for column in zip(*drawn, strict=True))
    submit = np.cumsum(gap) * DAY_S
    return Workload.from_seconds(submit, service, gpus, submit + service * (1 + slack))


def outcome(workload, rules, draws):
    try:
        return as_lists(run_allpass(workload, rules, draws))
    except ValueError as error:
        return str(error)


def check_every_tick_alike(drawn, rules, seed):
    workload = workload_of(drawn)
    draws = Draws.sample(rules, workload.size, np.random.default_rng(seed))
    own = replace(rules, market=with_a_step_per_tick(rules.market, int(rules.tick_s * S)))
    assert outcome(workload, rules, draws) == outcome(workload, own, draws)


INSTANCES = given(JOBS, RULES, st.integers(0, 3))


@settings(max_examples=60, deadline=None)
@INSTANCES
def test_a_run_is_the_one_in_which_every_tick_is_taken(drawn, rules, seed):
    check_every_tick_alike(drawn, rules, seed)


@pytest.mark.slow
@settings(max_examples=1500, deadline=None)
@INSTANCES
def test_runs_are_those_in_which_every_tick_is_taken_in_many_more_cases(drawn, rules, seed):
    check_every_tick_alike(drawn, rules, seed)


@pytest.mark.kernels
@pytest.mark.parametrize("scaling", ["bounded", "utilization"])
@pytest.mark.parametrize("slack_s", [0, 3600, 10 * DAY_S])
def test_long_jobs_agree_with_the_twin(scaling, slack_s):
    workload = Workload.from_seconds(
        [0, 100, 50_000, 50_060],
        [2 * DAY_S, 300, 90_000, 20],
        [2, 1, 3, 1],
        [2 * DAY_S + slack_s, 500, 140_000 + slack_s, 50_100],
    )
    rules = Allpass(scaling=scaling, capacity=4)
    draws = Draws.sample(rules, 4, np.random.default_rng(0))
    found, twin = as_lists(run_allpass(workload, rules, draws)), run_twin(workload, rules, draws)
    assert found["jobs"] == twin.jobs
    assert found["rentals"] == twin.rentals
    assert found["timeline"] == twin.timeline
    assert found["pressures"] == twin.pressures


@pytest.mark.kernels
@pytest.mark.parametrize("controller", ["adaptive", "fixed"])
@pytest.mark.parametrize("slack_s", [-90 * YEAR_S, 0, 100 * YEAR_S])
@pytest.mark.parametrize("capacity", [0, 2])
def test_jobs_of_a_century_are_replayed_at_once(controller, slack_s, capacity):
    """Tick by tick, as plain Python, each run would take an hour.

    Job 0 (2 GPUs) runs for a century, in its container or on all workers that there may be. Job 1
    (1 GPU) comes soon after it and waits for a worker all the time where there are any.
    """
    century = 100 * YEAR_S
    workload = Workload.from_seconds(
        [0, 7200], [century, 7200], [2, 1], [max(0, century + slack_s), 7300]
    )
    rules = Allpass(
        controller=controller,
        capacity=capacity,
        serverless_startup=NO_DELAY,
        marketplace_startup=NO_DELAY,
    )
    run = run_allpass(workload, rules, np.random.default_rng(0))
    if capacity == 0:
        assert run.finish_us.tolist() == [century * S, 14_400 * S]
        assert not run.demoted.any()
        return
    assert run.finish_us[0] == century * S + run.demotion_us[0] + run.queue_us[0]
    assert run.finish_us[1] == run.finish_us[0] + (42 + 7200) * S - run.serverless_us[1]
    assert run.timeline.queued[-1] == 0
