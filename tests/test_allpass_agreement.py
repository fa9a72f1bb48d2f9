"""The kernel of Allpass agrees with a plain simulator, event for event."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_allpass import as_lists, run_twin

from gpuplan.simkit.allpass.parameters import Allpass, Draws, StartUp
from gpuplan.simkit.allpass.simulator import run_allpass
from gpuplan.simkit.workload import Workload

NO_DELAY = StartUp(0, 0)


def build(drawn, unit):
    submit, service, gpus, slack = (np.array(c) for c in zip(*sorted(drawn), strict=True))
    return Workload.from_seconds(
        submit * unit, service, gpus, submit * unit + service * (1 + slack)
    )


RULES = st.builds(
    Allpass,
    controller=st.sampled_from(["adaptive", "fixed"]),
    threshold_rule=st.sampled_from(["live", "admission"]),
    scale_out=st.sampled_from(["window", "queue"]),
    scaling=st.sampled_from(["literal", "bounded"]),
    threshold_s=st.sampled_from([0.0, 30.0, 60.0, 300.0, 1000.0]),
    min_threshold_s=st.sampled_from([None, 0.0]),
    capacity=st.sampled_from([None, 0, 1, 3, 8]),
    serverless_limit=st.sampled_from([None, 6, 12]),
    marketplace_prices=st.sampled_from([(), (0.5, 0.5, 2.0), tuple(np.linspace(0.4, 1.6, 40))]),
    checkpoint_s=st.sampled_from([0.0, 42.0]),
    restore_s=st.sampled_from([0.0, 42.0]),
    tick_s=st.sampled_from([60.0, 45.0, 7.0, 100.5]),
    window_s=st.sampled_from([60.0, 300.0, 1800.0]),
    serverless_startup=st.sampled_from([NO_DELAY, StartUp(4, 2)]),
    marketplace_startup=st.sampled_from([NO_DELAY, StartUp(36, 7)]),
    conventional_startup=st.sampled_from([NO_DELAY, StartUp(255, 26)]),
)


JOBS = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.integers(0, 2000),
        st.integers(1, 6),
        st.sampled_from([0.0, 0.1, 0.5, 2.0, 9.0]),
    ),
    min_size=1,
    max_size=25,
)


INSTANCES = given(JOBS, RULES, st.sampled_from([0.5, 1.0, 30.0]), st.integers(0, 3))


@settings(max_examples=50, deadline=None)
@INSTANCES
def test_the_kernel_agrees_with_its_twin_event_for_event(drawn, rules, unit, seed):
    check_agreement(drawn, rules, unit, seed)


@pytest.mark.slow
@settings(max_examples=800, deadline=None)
@INSTANCES
def test_the_kernel_agrees_with_its_twin_in_many_more_cases(drawn, rules, unit, seed):
    check_agreement(drawn, rules, unit, seed)


def check_agreement(drawn, rules, unit, seed):
    workload = build(drawn, unit)
    draws = Draws.sample(rules, workload.size, np.random.default_rng(seed))
    found, twin = as_lists(run_allpass(workload, rules, draws)), run_twin(workload, rules, draws)
    assert found["jobs"] == twin.jobs
    assert found["rentals"] == twin.rentals
    assert found["timeline"] == twin.timeline
    assert found["pressures"] == twin.pressures


@pytest.mark.kernels
def test_the_plain_kernel_agrees_with_its_twin_on_a_busy_day():
    # Every kind of event comes up, and containers are full.
    rng = np.random.default_rng(5)
    submit = np.sort(rng.uniform(0, 14_400, 120))
    service = rng.exponential(1500, 120)
    workload = Workload.from_seconds(
        submit, service, rng.integers(1, 10, 120), submit + service * rng.uniform(1, 3, 120)
    )
    rules = Allpass(marketplace_prices=(0.5, 1.0, 1.5), max_threshold_s=400, serverless_limit=60)
    draws = Draws.sample(rules, 120, rng)
    found, twin = as_lists(run_allpass(workload, rules, draws)), run_twin(workload, rules, draws)
    assert len(twin.rentals) > 64
    assert len(twin.timeline) > 256
    assert [found[k] for k in ("jobs", "rentals", "timeline", "pressures")] == [
        twin.jobs,
        twin.rentals,
        twin.timeline,
        twin.pressures,
    ]
