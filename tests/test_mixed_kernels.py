"""Kernels of rounds on several GPU types agree with their slow twins."""

from types import SimpleNamespace

import numpy as np
import pytest
import support_mixed_kernels as twin
from scipy.optimize import linprog

from gpuplan.planner.policies.mixed import mixed_rounds
from gpuplan.planner.policies.mixed.fairness import ideal_rounds
from gpuplan.planner.policies.mixed.mixed_policy import fastest_free
from gpuplan.planner.policies.mixed.mixed_rounds import place
from gpuplan.planner.policies.mixed.rated_jobs import MixedCluster, RatedJobs
from gpuplan.simkit import watch
from gpuplan.simkit.rounds.least_loss import least_loss, least_of_states
from gpuplan.simkit.rounds.transport import transport

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize("seed", range(12))
def test_gangs_are_placed_as_by_the_twin(seed):
    rng = np.random.default_rng(seed)
    hosts, each = int(rng.integers(1, 9)), int(rng.choice([1, 2, 4, 8]))
    free, left = np.full(hosts, each), hosts * each
    width, before, stays, was_here = [], [], [], []
    for wide in rng.choice([1, 1, 2, 3, 4, 8], 12).tolist():
        if wide > left:
            continue
        left -= wide
        here, stay = rng.random() < 0.6, rng.random() < 0.5
        room = free if here and stay else np.full(hosts, each)
        last = np.zeros(hosts, np.int64)
        for host in rng.permutation(hosts).tolist():
            last[host] = min(wide - last.sum(), room[host]) * here
        free = free - last * stay
        for values, value in ((width, wide), (before, last), (stays, here and stay)):
            values.append(value)
        was_here.append(here)
    state = (np.array(width), np.array(before), np.array(stays), np.array(was_here))
    rest = {
        "each": each,
        "is_pipeline": rng.random(len(width)) < 0.3,
        "state_gb": rng.choice([1.0, 2.0], len(width)),
        "consolidates": bool(seed % 2),
    }
    assert np.array_equal(place(*state, **rest), twin.place(*state, **rest))


@pytest.mark.parametrize("seed", range(12))
def test_types_and_shares_are_those_of_the_twin(seed):
    rng = np.random.default_rng(seed)
    m, types, rounds = 40, int(rng.integers(1, 6)), 60
    rate = np.round(rng.uniform(0, 1, (m, types)), seed % 4) * (rng.random((m, types)) < 0.8)
    rate[np.arange(m), rng.integers(0, types, m)] = 1.0
    width, gpus = rng.choice([1, 2, 4, 8], m), rng.choice([4, 8, 64], types)
    keeps = None if seed % 3 else np.where(rng.random(m) < 0.5, rate.argmax(axis=1), -1)
    given = (rng.permutation(m), rate, width, gpus)
    for skipping in (True, False):
        found = fastest_free(*given, keeps=keeps, skipping=skipping)
        assert np.array_equal(found, twin.fastest_free(*given, keeps=keeps, skipping=skipping))
    number = np.cumsum(rng.integers(1, 3, rounds))
    first, last = number[np.sort(rng.integers(0, rounds, (2, m)), axis=0)]
    shared = (rng.exponential(20, m), rate, width, gpus, first)
    active = rng.integers(1, m + 1, rounds)
    found = ideal_rounds(*shared, (number, active), last)
    assert np.array_equal(found, twin.ideal_rounds(*shared, (number, active), last))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_the_search_finds_the_least_loss(seed):
    rng = np.random.default_rng(seed)
    m, types = 6, int(rng.integers(1, 4))
    loss = rng.exponential(1.0, (m, types + 1))
    loss[np.arange(m), rng.integers(0, types + 1, m)] = 0.0
    loss[rng.random(loss.shape) < 0.1] = np.inf
    width, gpus = rng.choice([1, 2, 4], m), rng.integers(1, 7, types)
    price, used = rng.uniform(0, 0.5, types), int(rng.integers(1, gpus.sum() + 1))
    for most in (0.5, 2.0, 50.0):
        best = twin.least_loss(loss, width, gpus, price, used, most)
        choice, ended = least_loss(loss, width, gpus, price, used, most, 10_000)
        assert ended
        if choice is None:
            assert best == np.inf
            continue
        taken = np.bincount(choice, weights=width, minlength=types + 1)[:-1]
        assert (taken <= gpus).all() and taken.sum() == used
        value = loss[np.arange(m), choice].sum() + price @ (gpus - taken)
        assert value == pytest.approx(best)


def test_jobs_of_one_width_and_rate_share_a_row_of_speedups():
    n = 5_000
    jobs = RatedJobs(
        submit_s=np.arange(n) * 10.0,
        gpus=np.where(np.arange(n) % 2, 128, 1),
        work=np.ones(n),
        rate=np.tile([1.0, 0.5, 0.25], (n, 1)),
        state_gb=np.ones(n),
        is_pipeline=np.zeros(n, bool),
    ).rounds_jobs(300.0)
    assert jobs.speedup.shape == (3, 2, 129)  # not a row for each of 5,000 jobs
    assert jobs.speedup[1, jobs.group[1], 128] == 0.5 and jobs.speedup[1, jobs.group[0], 128] == 0


def test_a_long_replay_says_how_far_it_is(monkeypatch, library_log):
    clock = iter(range(1000))
    monkeypatch.setattr(watch, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(watch, "SAY_S", 1.0)
    jobs = RatedJobs(
        submit_s=np.arange(8) * 1000.0,
        gpus=np.ones(8, np.int64),
        work=np.ones(8),
        rate=np.ones((8, 2)),
        state_gb=np.ones(8),
        is_pipeline=np.zeros(8, bool),
    )
    mixed_rounds.play(jobs, MixedCluster((1, 1)), lambda state: state.running * 0)
    # The clock goes on by 1 s a round. 5 of 8 jobs are done after 5 s: 3 s for 3 more, or 2 s for
    # the 7 rounds until the last job comes, as 17 took 5 s.
    assert [line.partition(" of ")[2] for line in library_log.messages if "replayed" in line] == [
        "8 jobs replayed in rounds after 5 s, about 2 to 3 s left",
        "8 jobs replayed in rounds after 6 s, about 1 to 2 s left",
        "8 jobs replayed in rounds after 7 s, about 0 to 1 s left",
    ]


@pytest.mark.parametrize("seed", range(8))
def test_the_states_of_a_small_round_are_those_of_the_twin(seed):
    rng = np.random.default_rng(seed)
    m, types = 12, int(rng.integers(1, 4))
    gpus, width = rng.integers(1, 7, types), rng.choice([1, 2, 4], m)
    cost = np.round(rng.normal(1, 5, (m, types)), 1)
    cost[rng.random(cost.shape) < 0.2] = np.inf
    best, choice = least_of_states(cost, width, gpus)
    expected, chosen = twin.least_of_states(cost, width, gpus)
    assert np.array_equal(best, expected.reshape(-1))
    assert np.array_equal(choice, chosen.reshape(m, -1))


@pytest.mark.parametrize("seed", range(8))
def test_a_flow_costs_as_little_as_the_linear_program(seed):
    rng = np.random.default_rng(seed)
    n, sinks = 25, int(rng.integers(2, 6))
    unit = rng.normal(0, 3, (n, sinks))
    unit[rng.random(unit.shape) < 0.3] = np.inf
    unit[:, -1] = 0.0  # as waiting, where all can go
    supply = rng.integers(1, 6, n)
    capacity = np.append(rng.integers(0, 8, sinks - 1), 0)
    capacity[-1] = supply.sum() - capacity.sum()
    flow, price, is_found = transport(unit, supply, capacity, rng.normal(0, 2, sinks))
    source, sink = np.nonzero(np.isfinite(unit))
    best = linprog(
        unit[source, sink],
        A_eq=np.vstack((np.eye(n)[:, source], np.eye(sinks)[:, sink])),
        b_eq=np.append(supply, capacity),
    )
    assert is_found == best.success
    if not is_found:
        return
    assert (flow.sum(axis=1) == supply).all() and (flow.sum(axis=0) == capacity).all()
    assert (flow[source, sink] * unit[source, sink]).sum() == pytest.approx(best.fun)
    lowest = (unit + price).min(axis=1)  # the prices prove it
    assert supply @ lowest - price @ capacity == pytest.approx(best.fun)
