"""Rounds of gangs on several GPU types: the program of a round, hosts, whole runs."""

import importlib.util
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp
from support_mixed_twin import replay

from gpuplan.planner.policies.mixed.fairness import ideal_rounds, share_rates
from gpuplan.planner.policies.mixed.fft import FftRounds, FftRules
from gpuplan.planner.policies.mixed.gang_packing import is_small, pack_gangs
from gpuplan.planner.policies.mixed.gavel import GavelRounds
from gpuplan.planner.policies.mixed.mixed_rounds import place, play
from gpuplan.planner.policies.mixed.rated_jobs import MixedCluster, RatedJobs
from gpuplan.planner.policies.mixed.round_program import (
    assign_types,
    lagrangian_bound,
    solve_round,
)


def rated(submit_s, gpus, work, rate, state_gb=0.0, **more):
    n = len(gpus)
    return RatedJobs(
        submit_s=np.array(submit_s, float),
        gpus=np.array(gpus, np.int64),
        work=np.array(work, float),
        rate=np.array(rate, float),
        state_gb=np.broadcast_to(np.array(state_gb, float), n).copy(),
        is_pipeline=np.zeros(n, bool),
        **more,
    )


def best_by_hand(cost, width, gpus):
    """Every allocation: the most GPUs, then the least cost."""
    best = (0, 0.0)
    for kinds in itertools.product(range(-1, gpus.size), repeat=width.size):
        used = np.zeros(gpus.size, int)
        total = 0.0
        for job, kind in enumerate(kinds):
            if kind >= 0:
                used[kind] += width[job]
                total += cost[job, kind]
        if np.isfinite(total) and (used <= gpus).all():
            best = min(best, (-int(used.sum()), total))
    return -best[0], best[1]


ROUNDS = st.tuples(
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2**20)), min_size=1, max_size=5),
)


@given(ROUNDS, st.booleans())
@settings(max_examples=30)
def test_a_round_is_the_best_of_all_allocations(drawn, exact):
    gpus, jobs = np.array(drawn[0]), drawn[1]
    width = np.array([w for w, _ in jobs])
    rows = [np.random.default_rng(seed) for _, seed in jobs]
    cost = np.array([rng.normal(5, 10, gpus.size) for rng in rows])
    cost[np.array([rng.uniform(size=gpus.size) < 0.2 for rng in rows])] = np.inf
    k, value = best_by_hand(cost, width, gpus)
    answer = solve_round(cost, width, gpus, exact=exact)
    assert answer.gpus == k
    assert answer.objective <= value + (1e-6 if exact else 1e-3) * abs(value) + 1e-6
    assert answer.bound <= value + 1e-9 * abs(value)
    prices = np.abs(np.random.default_rng(1).normal(size=gpus.size + 1))
    assert lagrangian_bound(cost, width, gpus, k, prices) <= value + 1e-9


@given(ROUNDS)
@settings(max_examples=30)
def test_types_without_a_floor_on_gpus_in_use_cost_least_of_all(drawn):
    gpus, jobs = np.array(drawn[0]), drawn[1]
    width = np.array([w for w, _ in jobs])
    cost = np.array([np.random.default_rng(s).normal(-1, 2, gpus.size) for _, s in jobs])
    kind, is_proven = assign_types(cost, width, gpus)
    runs = np.flatnonzero(kind >= 0)
    least, used = 0.0, np.bincount(kind[runs], weights=width[runs], minlength=gpus.size)
    for kinds in itertools.product(range(-1, gpus.size), repeat=width.size):
        on = np.flatnonzero(np.array(kinds) >= 0)
        where = np.array(kinds, int)[on]
        if (np.bincount(where, weights=width[on], minlength=gpus.size) <= gpus).all():
            least = min(least, float(cost[on, where].sum()))
    assert is_proven and (used <= gpus).all()
    assert cost[runs, kind[runs]].sum() == pytest.approx(least, abs=1e-12)


def test_gangs_that_cannot_fill_a_type_leave_it_idle():
    # 3 + 3 of 4 GPUs each: a gang of 3 on each type; a fourth GPU stays idle, two gangs wait.
    found = pack_gangs(np.array([3, 3, 3, 3]), np.ones((4, 2), bool), np.array([4, 4]))
    assert found.gpus == 6
    assert found.is_proven


def test_a_round_of_many_jobs_is_certified():
    rng = np.random.default_rng(3)
    m, gpus = 700, np.array([24, 40, 16])
    assert not is_small(np.array([1, 2, 4] * 233), gpus)
    width = rng.choice([1, 2, 4, 8], m)
    cost = rng.lognormal(2, 1, (m, 3)) * width[:, None]
    first = solve_round(cost, width, gpus)
    again = solve_round(cost, width, gpus, prices=first.prices)
    for answer in (first, again):
        assert answer.is_within
        assert answer.gpus == 80
        assert 0 <= answer.gap <= 1e-3
        used = np.bincount(answer.kind + 1, weights=width, minlength=4)[1:]
        assert (used <= gpus).all() and used.sum() == 80
    assert lagrangian_bound(cost, width, gpus, 80, first.prices) <= first.objective


def integer_optimum(cost, width, gpus, used):
    """The least cost of an allocation that uses so many GPUs, by HiGHS."""
    job, kind = np.nonzero(np.isfinite(cost))
    rows = np.vstack(
        (np.eye(width.size)[:, job], np.eye(gpus.size)[:, kind] * width[job], width[job])
    )
    least = np.append(np.zeros(rows.shape[0] - 1), used)
    most = np.concatenate((np.ones(width.size), gpus, [used]))
    found = milp(
        cost[job, kind],
        integrality=np.ones(job.size),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(rows, least, most),
        options={"mip_rel_gap": 0.0},
    )
    return found.fun


@pytest.mark.parametrize("seed", range(10))
def test_a_medium_round_is_as_good_as_the_integer_program(seed):
    # Gangs of 1 GPU, or none, and wide ones: the relaxation is off by up to some percent, and
    # the cost of the round is near 0 in every other case, as where debts are large.
    rng = np.random.default_rng(seed)
    m, gpus = 90, np.array([64, 48, 40])
    width = rng.choice([[1, 2, 4, 8, 16], [2, 3, 4, 6, 12]][seed % 3 == 0], m)
    cost = rng.lognormal(1, 1, (m, 1)) * width[:, None] * rng.uniform(1, 3, (m, 3))
    cost[rng.random(cost.shape) < 0.1] = np.inf
    finite = cost[np.isfinite(cost)]
    cost -= (
        (seed % 2) * np.median(finite / width[np.nonzero(np.isfinite(cost))[0]]) * width[:, None]
    )
    assert not is_small(width, gpus)
    first = solve_round(cost, width, gpus)
    warm = solve_round(cost * rng.uniform(0.98, 1.02, cost.shape), width, gpus, prices=first.prices)
    again = solve_round(cost, width, gpus, prices=warm.prices)
    best = integer_optimum(cost, width, gpus, first.gpus)
    scale = np.abs(cost[np.isfinite(cost)]).max()
    for answer in (first, again):
        assert answer.is_within and answer.gap <= 1e-3
        assert answer.objective == pytest.approx(best, rel=1e-6, abs=1e-6 * scale)
        assert answer.bound <= best + 1e-6 * scale
        runs = answer.kind >= 0
        used = np.bincount(answer.kind[runs], weights=width[runs], minlength=3)
        assert (used <= gpus).all() and used.sum() == answer.gpus


def test_hosts_are_kept_and_spread_gangs_come_together():
    before = np.array([[2, 2, 0], [2, 0, 0]])
    args = {
        "each": 4,
        "is_pipeline": np.zeros(2, bool),
        "state_gb": np.zeros(2),
        "width": np.array([4, 2]),
        "before": before,
        "was_here": np.ones(2, bool),
    }
    stays = np.ones(2, bool)
    kept = place(stays=stays, consolidates=False, **args)
    assert kept.tolist() == before.tolist()
    moved = place(stays=stays, consolidates=True, **args)
    assert moved.tolist() == [[0, 4, 0], [2, 0, 0]]
    resumed = place(stays=np.array([True, False]), consolidates=False, **args)
    assert resumed.tolist() == before.tolist()
    new = place(
        stays=np.array([True, False]),
        consolidates=False,
        **args | {"was_here": np.array([True, False])},
    )
    assert new.tolist() == [[2, 2, 0], [2, 0, 0]]  # the first host that it fits best


@given(
    st.integers(1, 4),
    st.lists(
        st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=6), min_size=1, max_size=5
    ),
    st.booleans(),
)
def test_gangs_are_placed_whole_and_no_host_is_over_its_gpus(hosts, rounds, consolidates):
    each = 4
    known = np.zeros((0, hosts), np.int64)  # hosts of the gangs that ran in the last round
    for drawn in rounds:
        known = known[: len(drawn)]
        width = [*known.sum(axis=1).tolist(), *(w for w, _ in drawn[len(known) :])]
        while sum(width) > each * hosts:
            width.pop()
        m = len(width)
        before = np.zeros((m, hosts), np.int64)
        before[: len(known)] = known[:m]
        stays = np.arange(m) < len(known)
        for j in range(m):  # some paused, and want their old hosts
            stays[j] &= drawn[j][1]
        found = place(
            np.array(width, np.int64),
            before,
            stays,
            before.any(axis=1),
            each=each,
            is_pipeline=np.array([wide for _, wide in drawn[:m]], bool),
            state_gb=np.arange(m, dtype=float)[::-1],
            consolidates=consolidates,
        )
        assert found.sum(axis=1).tolist() == width
        assert (found >= 0).all() and (found.sum(axis=0) <= each).all()
        if not consolidates:
            assert (found[stays] == before[stays]).all()
        known = found


@pytest.mark.parametrize(
    ("width", "pipeline", "expected"),
    [
        ([2, 2, 4], [0, 0, 0], [[0, 2], [0, 2], [4, 0]]),  # the wide gang has its old host
        ([2, 2, 2], [1, 0, 0], [[0, 2], [2, 0], [2, 0]]),  # the pipeline comes last
        ([2, 2, 2], [0, 0, 0], [[2, 0], [2, 0], [0, 2]]),  # by id
    ],
)
def test_paused_gangs_that_claim_the_same_hosts_are_ranked(width, pipeline, expected):
    found = place(
        np.array(width),
        np.array(width)[:, None] * np.array([1, 0]),
        np.zeros(3, bool),
        np.ones(3, bool),
        each=4,
        is_pipeline=np.array(pipeline, bool),
        state_gb=np.zeros(3),
        consolidates=False,
    )
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("kinds", "end_s", "lost_s"),
    [
        ([0, 1, 0, 0, 0], 1350, 750),  # 300 of 450 s; then 450 anew, not 600
        ([0, 1, -1, 1, 1, 1], 1800, 900),  # 300 of 450 s; then 150 and 450
    ],
)
def test_what_a_pause_leaves_unpaid_is_due_on_the_same_hosts_and_replaced_by_a_move(
    kinds, end_s, lost_s
):
    jobs = rated([0], [1], [2.0], np.ones((1, 2)))
    cluster = MixedCluster((4, 4), (4, 4), restart_s=450.0)
    run = play(jobs, cluster, lambda state: np.array([kinds[state.number]]))
    assert (run.run.finish_us.tolist(), run.lost_s.tolist()) == ([end_s * 1e6], [lost_s])


def test_a_cluster_of_partial_hosts_is_refused():
    jobs = rated([0], [1], [1.0], np.ones((1, 2)))
    with pytest.raises(ValueError, match=r"10 GPUs of type 1 .* must be a multiple of 4"):
        play(jobs, MixedCluster((8, 10), (4, 4)), FftRounds(FftRules()))


def test_a_job_that_comes_as_a_round_begins_can_run_in_it():
    # Times are in microseconds: 3e-7 s after the round begins is as it begins.
    jobs = rated([0, 300.0000003, 300.000001], [1] * 3, [1.0] * 3, np.ones((3, 1)))
    run = play(jobs, MixedCluster((3,)), FftRounds(FftRules()))
    assert run.first_round.tolist() == [0, 1, 2]
    assert run.run.start_us.tolist() == [0, 300_000_000, 600_000_000]


@given(st.integers(0, 2**20))
@settings(max_examples=30)
def test_runs_agree_with_a_slow_twin(seed):
    rng = np.random.default_rng(seed)
    n, restart_s = int(rng.integers(2, 9)), float(rng.choice([30.0, 200.0, 400.0]))
    cluster = MixedCluster((8, 12), (4, 4), restart_s=restart_s)
    jobs = rated(
        np.sort(rng.integers(0, 5, n) * 150),
        rng.choice([1, 2, 3, 4, 6], n),
        rng.uniform(0.2, 6, n),
        rng.uniform(0.3, 1, (n, 2)),
        rng.choice([0.0, 20.0, 300.0], n),
    )
    jobs.is_pipeline[:] = rng.uniform(size=n) < 0.3

    def choose(number, ids):
        own = np.random.default_rng((seed, number))
        free, kinds = [8, 12], {}
        for job in own.permutation(ids).tolist():
            kind = int(own.integers(0, 2)) if own.uniform() < 0.75 else -1
            fits = kind >= 0 and free[kind] >= jobs.gpus[job]
            kinds[job] = kind if fits else -1
            free[kind] -= int(jobs.gpus[job]) * fits
        return kinds

    def chosen(state):
        kinds = choose(state.number, state.running.tolist())
        return np.array([kinds[job] for job in state.running.tolist()], np.int64)

    run = play(jobs, cluster, chosen)
    end_s, lost_s, again = replay(jobs, cluster, choose)
    assert run.run.finish_us / 1e6 == pytest.approx(end_s, abs=1e-3)
    assert run.lost_s.tolist() == pytest.approx(lost_s, abs=1e-5)
    assert run.switches.tolist() == again


def test_a_share_takes_the_fastest_types_first():
    # 1/2 of 2 + 4 GPUs for gangs of 2: half the time on the fast type, half on the slow one.
    rates = share_rates(np.array([[1.0, 0.5], [0.0, 0.5]]), np.array([2, 2]), np.array([2, 4]), 2)
    assert rates.tolist() == [0.75, 0.5]


def test_ideal_rounds_go_on_at_the_last_rate():
    found = ideal_rounds(
        np.array([1.0, 4.0]),
        np.ones((2, 1)),
        np.array([1, 1]),
        np.array([1]),
        np.array([0, 0]),
        (np.array([0, 1, 2]), np.array([2, 2, 1])),
        np.array([2, 1]),
    )
    assert found.tolist() == [2.0, 8.0]


@pytest.mark.parametrize("phi", ["mixed", "total"])
@pytest.mark.parametrize("seed", range(6))
def test_skipped_rounds_of_fft_decide_the_same(phi, seed):
    rng = np.random.default_rng(seed)
    n = 12
    rate = rng.uniform(0.2, 1, (n, 2))
    rate[rng.random(n) < 0.2, 0] = 0
    submit = np.sort(rng.integers(0, 400_000, n)).tolist()
    work = (rng.lognormal(4, 1.5, n)).tolist()
    jobs = rated(submit, rng.choice([1, 2, 4], n).tolist(), work, rate, state_gb=3.0)
    cluster = MixedCluster((4, 8), (4, 4))
    every, some = FftRounds(FftRules(phi=phi)), FftRounds(FftRules(phi=phi))
    run, skipped = play(jobs, cluster, every), play(jobs, cluster, some, some.lasts)
    assert len(some.answers) < len(every.answers)
    assert set(some.answers) <= set(every.answers)
    for name in ("switches", "type_changes", "lost_s", "number", "active", "busy", "stretches"):
        assert np.array_equal(getattr(run, name), getattr(skipped, name)), name
    assert run.run.held_us.tolist() == skipped.run.held_us.tolist()
    assert run.run.finish_us.tolist() == skipped.run.finish_us.tolist()


RUNS = st.lists(
    st.tuples(
        st.integers(0, 2000), st.sampled_from([1, 2, 4]), st.floats(0.1, 6), st.integers(0, 2**20)
    ),
    min_size=1,
    max_size=8,
)


@given(RUNS)
@settings(max_examples=25)
def test_work_is_conserved_and_no_type_is_over_capacity(drawn):
    drawn = sorted(drawn)
    rate = np.array([np.random.default_rng(seed).uniform(0.2, 1, 2) for *_, seed in drawn])
    rate[np.array([seed % 4 == 0 for *_, seed in drawn]), 0] = 0
    submit, gpus, work, _ = zip(*drawn, strict=True)
    jobs = rated(submit, gpus, work, rate, state_gb=3.0)
    cluster = MixedCluster((4, 8), (4, 4))
    fft = FftRounds(FftRules())
    run = play(jobs, cluster, fft)
    again = play(jobs, cluster, FftRounds(FftRules()))
    assert (run.busy <= np.array(cluster.gpus)).all()
    assert run.busy.sum(axis=1).tolist() == [k for _, k, *_ in fft.answers]
    assert run.run.finish_us.tobytes() == again.run.finish_us.tobytes()
    held, lost = run.run.held_us / jobs.gpus / 1e6, run.lost_s
    fastest = jobs.work / jobs.rate.max(axis=1) * 300
    usable = np.where(jobs.rate > 0, jobs.rate, np.inf).min(axis=1) * 0.9
    assert (held - lost >= fastest - 1e-3).all()
    assert (held - lost <= jobs.work / usable * 300 + 1e-3).all()
    for job, kind, begin, end in run.stretches:
        assert jobs.rate[job, kind] > 0
        assert begin < end


def golden_module():
    path = Path(__file__).with_name("golden_fft.py")
    spec = importlib.util.spec_from_file_location("golden_fft", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "name", ["rounds", "w1_two_types_four", "w2_three_types_mixed", "w3_total"]
)
def test_golden_results(shared, name):
    path = shared / "golden" / "fft" / f"{name}.json"
    assert list(golden_module().differences(path)) == []


def test_deficits_of_gavel_are_what_each_job_did_not_get_of_its_fraction():
    # One GPU, solved in rounds 0, 10, 20 and 30, each time for the shortest job alone. The job of
    # 3 rounds ends in round 12; then the first job, which has no fraction, fills rounds 13 to 19.
    # It ends in round 22, and the last one fills rounds 23 to 29.
    jobs = rated([0, 1, 2], [1, 1, 1], [20.0, 30.0, 3.0], np.ones((3, 1)))
    gavel = GavelRounds("sjf", 3000.0, jobs, 300.0)
    chosen = []

    def choose(state):
        kind = gavel(state)
        chosen.append(int(state.running[np.flatnonzero(kind >= 0)[0]]))
        return kind

    play(jobs, MixedCluster((1,), restart_s=0), choose)
    assert chosen[:30] == [*[0] * 10, *[2] * 3, *[0] * 10, *[1] * 7]
    assert gavel.deficit[:, 0].tolist() == [-7.0, -7.0, 0.0]
