"""Kubernetes' autoscaler on the serverful tier: a schedule worked by hand, a slow twin, laws."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_allpass import as_lists, run_twin

from gpuplan.simkit.allpass.parameters import Allpass, Draws, StartUp
from gpuplan.simkit.allpass.simulator import run_allpass
from gpuplan.simkit.workload import Workload

S = 1_000_000
HPA = Allpass(
    controller="fixed",
    threshold_s=0,
    checkpoint_s=0,
    restore_s=0,
    serverless_startup=StartUp(0, 0),
    scaling="utilization",
    queue_order="submission",
    tick_s=15,
)


@pytest.mark.kernels
def test_a_schedule_worked_by_hand():
    """Every 15 s desired = ceil(busy / 0.70), within 10% nothing; workers start in 20 s; the most
    desired of the last 60 s stay.

    Jobs 0-2 (1 GPU, 100 s) come at 0, job 3 (4 GPUs, 30 s) at 10, job 4 (1 GPU, 100 s) at 300.
      0: no worker: the least, 1, ready at 20. Job 0: 20-120.
     15: none ready: no utilization, no change.
     30: 1 busy: ceil(1.43) = 2, ready at 50. Job 1: 50-150.
     45: the one starting is idle: 1 / (0.7 x 2) < 1, a rise may not become a fall: 2.
     60: 2 busy: ceil(2.86) = 3, ready at 80. Job 2: 80-180.
     90: 3 busy: ceil(4.29) = 5, ready at 110. Job 3 at the head wants 4; 2 are idle, 3 from 120.
    120: those 3 are kept for job 3 and count as busy: ceil(7.14) = 8, ready at 140.
    135: 5 / (0.7 x 8) < 1: a rise may not become a fall. Job 3: 140-170 on 4 of 6 idle ones.
    150: job 1 is done, 5 busy of 8: ceil(7.14) = 8. 165: the same.
    180: 0 busy: 1. The 8 of 165 count until 225.
    240: 1: the other seven go. Job 4: 300-400 on the one.
    300: it is busy: ceil(1.43) = 2, ready at 320. 330: 1 of 2 busy: ceil(1.43) = 2.
    """
    work = Workload.from_seconds(
        [0, 0, 0, 10, 300], [100, 100, 100, 30, 100], [1, 1, 1, 4, 1], [9e3] * 5
    )
    rules = replace(
        HPA, marketplace_prices=(), conventional_startup=StartUp(20, 0), stabilization_s=60
    )
    run = run_allpass(work, rules, np.random.default_rng(0))
    assert run.finish_us.tolist() == [120 * S, 150 * S, 180 * S, 170 * S, 400 * S]
    assert run.queue_us.tolist() == [20 * S, 50 * S, 80 * S, 130 * S, 0]
    requests = [0, 30, 60, 90, 90, 120, 120, 120, 300]
    assert run.rentals.request_us.tolist() == [time * S for time in requests]
    assert run.rentals.release_us.tolist() == [400 * S, *[240 * S] * 7, 400 * S]
    assert run.rental_usd.sum() == pytest.approx(
        1.29 / 3600 * (400 + 210 + 180 + 2 * 150 + 3 * 120 + 100)
    )


RULES = st.builds(
    replace,
    st.just(HPA),
    tick_s=st.sampled_from([15.0, 60.0, 37.0]),
    target_utilization=st.sampled_from([0.7, 0.5, 1.0]),
    utilization_tolerance=st.sampled_from([0.0, 0.1, 0.4]),
    stabilization_s=st.sampled_from([0.0, 60.0, 300.0]),
    min_workers=st.sampled_from([1, 3]),
    capacity=st.sampled_from([None, 4, 9]),
    marketplace_prices=st.sampled_from([(), (0.5, 1.0, 2.0)]),
    threshold_s=st.sampled_from([0.0, 60.0]),  # as the second tier of Allpass too
    queue_order=st.sampled_from(["submission", "deadline"]),
)
JOBS = st.lists(
    st.tuples(
        st.integers(0, 60), st.integers(0, 400), st.sampled_from([1, 1, 2, 4]), st.integers(0, 9)
    ),
    min_size=1,
    max_size=14,
)


def drawn(jobs, rules, seed):
    submit, service, gpus, slack = (np.array(column) for column in zip(*sorted(jobs), strict=True))
    work = Workload.from_seconds(submit * 7, service, gpus, submit * 7 + service * (1 + slack))
    return work, Draws.sample(rules, work.size, np.random.default_rng(seed))


@pytest.mark.compiled
@pytest.mark.kernels
@settings(max_examples=60, deadline=None)
@given(JOBS, RULES, st.integers(0, 3))
def test_the_kernel_agrees_with_the_twin(jobs, rules, seed):
    work, draws = drawn(jobs, rules, seed)
    twin = run_twin(work, rules, draws)
    found = as_lists(run_allpass(work, rules, draws))
    assert found == {key: getattr(twin, key) for key in found}


@pytest.mark.compiled
@pytest.mark.kernels
@settings(max_examples=30, deadline=None)
@given(JOBS, RULES, st.integers(0, 3))
def test_laws(jobs, rules, seed):
    rules = replace(rules, threshold_s=0, queue_order="submission")
    work, draws = drawn(jobs, rules, seed)
    run = run_allpass(work, rules, draws)
    begin = run.finish_us - work.service_us
    waits = work.service_us > 0  # a job of no length ends in its container of no length
    assert (np.diff(begin[waits]) >= 0).all()  # first come, first served: nobody overtakes
    assert (run.jct_us == work.service_us + run.queue_us).all()
    assert run.serverless_usd.sum() == 0
    held = run.timeline.ready + run.timeline.starting
    most = rules.capacity or np.inf
    assert (held >= min(rules.min_workers, most)).all()
    assert (held <= most).all()
    assert run.rentals.busy_us.sum() == (work.service_us * work.gpus)[waits].sum()


@pytest.mark.kernels
def test_under_a_steady_load_the_busy_share_comes_to_the_target():
    # 30 jobs are always there: one of 1 h every 2 min, workers at once: 30 / 0.7 = 42.9 workers.
    # The tolerance lets the pool rest at 30 / (0.7 x 1.1) = 39 to 30 / (0.7 x 0.9) = 48.
    n = 600
    work = Workload.from_seconds(np.arange(n) * 120.0, np.full(n, 3600.0), np.ones(n), np.ones(n))
    rules = replace(HPA, conventional_startup=StartUp(0, 0), marketplace_startup=StartUp(0, 0))
    run = run_allpass(work, rules, np.random.default_rng(0))
    steady = (run.timeline.time_us > 4 * 3600 * S) & (run.timeline.time_us < 119 * 600 * S)
    held = run.timeline.ready[steady]
    assert 39 <= held.min() <= held.max() <= 48
    assert run.queue_us[200:].max() == 0
