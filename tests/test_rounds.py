"""Policies that share a cluster anew in every round: by hand, against a twin, by laws."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_rounds import best_widths, drawn, run_twin

from gpuplan.simkit.rounds.allocate import allocate
from gpuplan.simkit.rounds.decisions import Allocation, RoundsCluster, run_decisions
from gpuplan.simkit.rounds.equal import equal_shares, widest_usable
from gpuplan.simkit.rounds.pollux import PolluxRules, best_size, efficiency_of, pollux_shares
from gpuplan.simkit.rounds.simulator import RoundsJobs, RoundsPolicy, run_rounds

MINUTE = 60_000_000


def total(cost, widths):
    return float(cost[np.arange(len(cost)), widths].sum())


def costs(rng, kind, jobs, most):
    """Costs by number of GPUs: whole numbers with ties, Pollux' fitness, or noise with gaps."""
    if kind == 0:
        return rng.integers(-9, 10, (jobs, most + 1)).astype(float)
    if kind == 1:
        speedup = np.arange(most + 1) ** rng.uniform(0.3, 0.95, (jobs, 1))
        cost = 1 / (speedup * rng.uniform(0.2, 1, (jobs, 1)) + 4e-3)
        cost[np.arange(jobs), rng.integers(0, most + 1, jobs)] *= 0.8  # the width it has
        return cost
    cost = rng.normal(size=(jobs, most + 1))
    cost[:, 1:][rng.random((jobs, most)) < 0.3] = np.inf
    return cost


@pytest.mark.kernels
@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(0, 2), st.integers(1, 7), st.integers(1, 9))
def test_allocation_is_the_best_there_is(seed, kind, jobs, most):
    rng = np.random.default_rng(seed)
    cost, gpus = costs(rng, kind, jobs, most), int(rng.integers(0, 25))
    widths = allocate(cost, np.arange(jobs), gpus)
    assert widths.sum() <= gpus
    expected = total(cost, best_widths(cost.tolist(), gpus))
    assert total(cost, widths) == pytest.approx(expected, rel=1e-9, abs=1e-7)


@pytest.mark.kernels
@settings(max_examples=50)
@given(st.integers(0, 10**6), st.integers(0, 2), st.integers(1, 7), st.integers(1, 9))
def test_jobs_of_one_kind_get_what_they_get_with_a_row_each(seed, how, kinds, most):
    rng = np.random.default_rng(seed)
    cost, gpus = costs(rng, how, kinds, most), int(rng.integers(0, 40))
    kind = rng.integers(0, kinds, int(rng.integers(1, 12)))
    alone = allocate(cost[kind], np.arange(kind.size), gpus)
    assert allocate(cost, kind, gpus).tolist() == alone.tolist()


@pytest.mark.kernels
def test_no_random_search_finds_a_better_allocation():
    # What the genetic search of the original does: mutate and keep the best, for long.
    rng = np.random.default_rng(3)
    for _ in range(3):
        cost = costs(rng, 1, 12, 16)
        ours = total(cost, allocate(cost, np.arange(12), 40))
        widths = np.zeros(12, np.int64)
        for _ in range(3_000):
            other = widths.copy()
            for job in rng.integers(0, 12, rng.integers(1, 4)):
                other[job] = rng.integers(0, 17)
            if other.sum() <= 40 and total(cost, other) < total(cost, widths):
                widths = other
        assert ours <= total(cost, widths)


@pytest.mark.kernels
def test_equal_shares_by_hand():
    rows = np.arange(3)
    free = np.tile(np.arange(9.0), (3, 1))
    assert equal_shares(rows, free, widest_usable(free), 8).tolist() == [
        3,
        3,
        2,
    ]  # the earliest have one more
    assert equal_shares(rows, free, widest_usable(free), 2).tolist() == [1, 1, 0]
    assert equal_shares(rows, free, widest_usable(free), 99).tolist() == [8, 8, 8]
    narrow = free.copy()
    narrow[0, 2:] = 0  # the first can use one GPU; the others share what it leaves
    assert equal_shares(rows, narrow, widest_usable(narrow), 8).tolist() == [1, 4, 3]
    fours = np.where(np.arange(9) % 4 == 0, free, 0)  # widths 4 and 8 only
    assert equal_shares(rows, fours, widest_usable(fours), 12).tolist() == [4, 4, 4]
    assert equal_shares(rows, fours, widest_usable(fours), 10).tolist() == [4, 4, 0]
    assert equal_shares(rows, fours, widest_usable(fours), 16).tolist() == [8, 4, 4]


def one_class(submit_s, work_s, *, pause_s=0.0, most=8, alpha=1.0, epochs=1):
    return RoundsJobs(
        submit_us=np.array(submit_s) * 1_000_000,
        group=np.zeros(len(submit_s), np.int64),
        work_us=np.array(work_s) * 1e6,
        first_epoch=np.array([0, epochs]),
        work_share=np.full(epochs, 1 / epochs),
        speedup=np.tile(np.arange(most + 1.0) ** alpha, (epochs, 1)),
        rescale_us=np.array([round(pause_s * 1e6)]),
    )


@pytest.mark.kernels
def test_equal_share_by_hand():
    # 4 GPUs, rounds of 60 s. Job 0 has all from 0 on: 10 s pause, then 50 x 4 = 200 of its 600 s of
    # work. Job 1 arrives at 30, so from 60 on both have 2: 10 s pause, 50 x 2 = 100 a round, then
    # 120. Job 1 (220) ends after 120 + 60 = 180 s of rounds at 60 + 120 = 180.
    # Job 0: 400 left at 60, 300 at 120, 180 at 180; then 4 GPUs again: pause to 190, 45 s: 235.
    jobs = one_class([0, 30], [600.0, 220.0], pause_s=10)
    run = run_rounds(jobs, RoundsPolicy("equal", max_gpus=4))
    assert (run.finish_us / 1e6).tolist() == [235.0, 180.0]
    assert (run.waited_us / 1e6).tolist() == [0.0, 30.0]
    assert run.starts.tolist() == [3, 1]
    assert (run.held_us / 1e6).tolist() == [60 * 4 + 120 * 2 + 55 * 4, 240.0]
    assert run.time_us.tolist() == [0, 235_000_000] and run.gpus.tolist() == [4, 0]


@pytest.mark.kernels
@pytest.mark.parametrize("pause_s", [0.0, 25.0, 90.0])
def test_rounds_without_a_change_are_passed_as_one_by_one(pause_s):
    """To the last bit: jobs of weeks and of several epochs, some of which come meanwhile."""
    rng = np.random.default_rng(5)
    submit = np.sort(rng.integers(0, 300_000, 12)).tolist()
    work = rng.uniform(1e3, 2e6, 12).tolist()
    jobs = one_class(submit, work, pause_s=pause_s, alpha=0.7, epochs=3)
    factor = rng.uniform(0.3, 1.0, 12)

    def played(more_rounds):
        def decide(view):
            width = 1 + view.running % 3
            width[np.cumsum(width) > 15] = 0  # the last ones wait
            return Allocation(width, factor=factor[view.running], more_rounds=more_rounds)

        return run_decisions(jobs, RoundsCluster((15,), (0,), 60.0), decide)

    each, passed = played(0), played(1 << 40)
    for name in ("start_us", "finish_us", "waited_us", "held_us", "starts", "time_us", "gpus"):
        assert getattr(each, name).tolist() == getattr(passed, name).tolist()


@pytest.mark.kernels
def test_epochs_are_crossed_within_a_round():
    jobs = one_class([0], [100.0], epochs=2)
    jobs = replace(jobs, speedup=np.array([[0, 1.0], [0, 0.5]]))
    run = run_rounds(jobs, RoundsPolicy("equal", max_gpus=1))
    assert run.finish_us.tolist() == [150_000_000]  # 50 s at full speed, 50 s at half


@pytest.mark.kernels
def test_pollux_leaves_the_young_alone_and_starves_no_one():
    # A job of age 0 has no claim to a start, so both wait a round; then 1 GPU each of 2.
    jobs = one_class([0, 0], [60.0, 60.0], pause_s=30, alpha=0.5)
    run = run_rounds(jobs, RoundsPolicy("pollux", max_gpus=2))
    assert (run.waited_us / 1e6).tolist() == [60.0, 60.0]
    assert (run.finish_us / 1e6).tolist() == [150.0, 150.0]
    assert run.starts.tolist() == [1, 1]


@pytest.mark.kernels
def test_autoscaler_by_hand():
    # One job, s(k) = sqrt(k): efficiency 1/sqrt(k), so a target of 0.5 asks for 4 GPUs. They are
    # ready after 90 s, at the round of 120; rented from the request to the round after the end.
    jobs = one_class([0], [240.0], alpha=0.5)
    scaling = RoundsPolicy("pollux", max_gpus=100, target=0.5, provision_s=90.0)
    run = run_rounds(jobs, scaling)
    assert (run.finish_us / 1e6).tolist() == [240.0]
    assert run.time_us.tolist() == [0, 4 * MINUTE + 0] and run.gpus.tolist() == [4, 0]
    # Nodes of 3: 3 GPUs give 0.577, 6 give 0.408; the first is closer.
    run = run_rounds(jobs, replace(scaling, node_gpus=3, provision_s=0.0))
    assert run.gpus.tolist() == [3, 0]
    assert run.waited_us.tolist() == [0]


@pytest.mark.compiled
@pytest.mark.kernels
@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("target, band", [(0.5, 0.1), (0.9, 0.0)])
def test_an_autoscaler_passes_quiet_rounds_at_once(window, target, band):
    # Days go by between the jobs: the rounds between that change nothing are not decided anew, and
    # the window and the efficiency at the next change are what each round would have made them.
    submit = [0, 90 * 60 + 7, 1500 * 60, 1502 * 60]
    jobs = one_class(submit, [4e5, 3e5, 4e4, 700.0], alpha=0.5)
    policy = RoundsPolicy(
        "pollux", max_gpus=12, target=target, band=band, window=window, provision_s=90.0
    )
    run = run_rounds(jobs, policy)
    finish, waited, held, starts, timeline = run_twin(jobs, policy)
    assert (run.starts.tolist(), run.waited_us.tolist()) == (starts, waited)
    np.testing.assert_allclose(run.finish_us, finish, atol=2)
    np.testing.assert_allclose(run.held_us, held, atol=30)
    assert list(zip(run.time_us.tolist(), run.gpus.tolist(), strict=True))[:-1] == timeline[:-1]


def test_the_size_found_by_bisection_is_as_close_to_the_target_as_any():
    rng = np.random.default_rng(0)
    for _ in range(30):
        jobs, most, node = int(rng.integers(1, 30)), int(rng.integers(4, 33)), rng.choice([1, 4])
        speedup = np.arange(most + 1) ** rng.uniform(0.4, 0.95, (4, 1))
        rows, none = rng.integers(0, 4, jobs), np.zeros(jobs, np.int64)
        state = (0, np.arange(jobs), rows, none, none, np.zeros((jobs, 7), np.int64), speedup)
        target = float(rng.uniform(0.2, 0.9))

        def off(gpus, state=state, rows=rows, speedup=speedup, target=target):
            widths = pollux_shares(*state, gpus, -1.0, False)
            return abs(efficiency_of(widths, rows, speedup, gpus) - target)

        rules = PolluxRules(int(node), int(node), 1 << 30, 0, target, 0.0, 1, -1.0)
        found = off(best_size(*state, rules))
        assert found <= min(off(n) for n in range(node, jobs * most + node, node)) + 0.01


POLICIES = st.builds(
    RoundsPolicy,
    share=st.just("pollux"),
    max_gpus=st.sampled_from([8, 13]),
    node_gpus=st.sampled_from([1, 4]),
    target=st.sampled_from([None, 0.3, 0.6, 0.8]),
    band=st.sampled_from([0.0, 0.1]),
    window=st.sampled_from([1, 3]),
    provision_s=st.sampled_from([0.0, 90.0]),
    power=st.sampled_from([-1.0, 0.5]),
)


@pytest.mark.compiled
@pytest.mark.kernels
@settings(max_examples=25)
@given(POLICIES | st.just(RoundsPolicy("equal", 9)), st.integers(0, 10**6))
def test_kernel_agrees_with_its_twin(policy, seed):
    jobs = drawn(np.random.default_rng(seed))
    run = run_rounds(jobs, policy)
    finish, waited, held, starts, timeline = run_twin(jobs, policy)
    assert run.starts.tolist() == starts
    assert run.waited_us.tolist() == waited
    np.testing.assert_allclose(run.finish_us, finish, atol=2)
    np.testing.assert_allclose(run.held_us, held, atol=30)
    rented = list(zip(run.time_us.tolist(), run.gpus.tolist(), strict=True))
    assert rented[:-1] == timeline[:-1]


@pytest.mark.compiled
@pytest.mark.kernels
@pytest.mark.parametrize("target", [None, 0.5])
@pytest.mark.parametrize("seed", range(4))
def test_widths_that_changes_cannot_better_yet_are_passed_at_once(seed, target):
    """As round by round: pauses of up to 20 minutes in jobs of many hours, which change often."""
    jobs = drawn(np.random.default_rng(seed), jobs=8)
    jobs = replace(jobs, work_us=jobs.work_us * 60, rescale_us=1_000_000 + jobs.rescale_us * 30)
    policy = RoundsPolicy("pollux", max_gpus=13, target=target, band=0.05, provision_s=90.0)
    run = run_rounds(jobs, policy)
    finish, waited, held, starts, timeline = run_twin(jobs, policy)
    assert (run.starts.tolist(), run.waited_us.tolist()) == (starts, waited)
    np.testing.assert_allclose(run.finish_us, finish, atol=2)
    np.testing.assert_allclose(run.held_us, held, atol=60)
    assert list(zip(run.time_us.tolist(), run.gpus.tolist(), strict=True))[:-1] == timeline[:-1]


@settings(max_examples=40)
@given(POLICIES | st.just(RoundsPolicy("equal", 9)), st.integers(0, 10**6))
def test_laws(policy, seed):
    jobs = drawn(np.random.default_rng(seed), jobs=60, classes=3)
    run = run_rounds(jobs, policy)
    rented = int(np.dot(run.gpus[:-1], np.diff(run.time_us)))
    assert run.held_us.sum() <= rented <= policy.max_gpus * run.time_us[-1]
    assert (run.gpus <= policy.max_gpus).all() and run.gpus[-1] == 0
    assert (run.gpus % policy.node_gpus == 0).all()
    jct = run.finish_us - jobs.submit_us
    assert (run.starts >= 1).all() and (run.waited_us >= 0).all()
    # Concave speedups: work on k GPUs takes at least its work in GPU time, and s(K) at best.
    assert (run.held_us >= jobs.work_us - run.starts).all()
    best = jobs.work_us / jobs.speedup.max()
    assert (jct - run.waited_us >= best + jobs.rescale_us[jobs.group] - 1).all()


def test_a_wrong_belief_costs():
    jobs = drawn(np.random.default_rng(1), jobs=20, classes=3)
    flat = np.where(np.arange(7) > 0, 1.0, 0.0) + np.zeros((jobs.speedup.shape[0], 1))
    policy = RoundsPolicy("pollux", max_gpus=12)
    right = run_rounds(jobs, policy)
    wrong = run_rounds(replace(jobs, belief=flat), policy)
    assert wrong.finish_us.mean() > right.finish_us.mean()


def test_callers_mistakes_are_refused():
    jobs = one_class([0], [1.0])
    with pytest.raises(ValueError, match="needs 2 GPUs, the cluster has 1"):
        wide = replace(jobs, speedup=np.array([[0, 0, 2.0]]))
        run_rounds(wide, RoundsPolicy("equal", max_gpus=1))
    with pytest.raises(ValueError, match="usable width"):
        replace(jobs, speedup=np.array([[0, 0.0]]))
    with pytest.raises(ValueError, match="agree"):
        replace(jobs, belief=jobs.speedup * (np.arange(9) != 3))
    with pytest.raises(ValueError, match="ascend"):
        one_class([3, 1], [1.0, 1.0])
    with pytest.raises(ValueError, match="only pollux"):
        RoundsPolicy("equal", 4, target=0.5)
    with pytest.raises(ValueError, match="share must be"):
        RoundsPolicy("fair", 4)
