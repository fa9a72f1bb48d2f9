"""Rounds decided by a callable: several GPU types, hosts, pauses, by hand and by laws."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_rounds import drawn

from gpuplan.simkit.rounds.decisions import Allocation, RoundsCluster, run_decisions
from gpuplan.simkit.rounds.equal import equal_shares, widest_usable
from gpuplan.simkit.rounds.simulator import RoundsJobs, RoundsPolicy, run_rounds

MINUTE = 60_000_000


def two_types(work_min, submit_min=(0, 0), rescale_us=0):
    """Jobs of one class each; the second type is twice as fast, widths 1 and 2 count."""
    n = len(work_min)
    slow = np.array([0.0, 1.0, 2.0])
    return RoundsJobs(
        submit_us=np.array(submit_min[:n]) * MINUTE,
        group=np.arange(n),
        work_us=np.array(work_min, float) * MINUTE,
        first_epoch=np.arange(n + 1),
        work_share=np.ones(n),
        speedup=np.stack([np.tile(slow, (n, 1)), np.tile(2 * slow, (n, 1))]),
        rescale_us=np.full(n, rescale_us),
    )


def script(*rows):
    """A policy that gives what a script says, row by row, then the last one again."""
    seen = []

    def decide(view):
        width, kind, *more = rows[min(len(seen), len(rows) - 1)]
        seen.append(view)
        keep = view.running
        extra = {} if not more else {key: np.array(one)[keep] for key, one in more[0].items()}
        return Allocation(np.array(width)[keep], np.array(kind)[keep], **extra)

    decide.seen = seen
    return decide


@pytest.mark.kernels
def test_types_change_what_a_round_does():
    # Job 0 works 3 min on the fast type (rate 2), one round, then 1 min of work is left for the
    # slow one. Job 1 has 2 min of work: one round slow, then half a round fast.
    jobs = two_types([3, 2])
    decide = script(((1, 1), (1, 0)), ((1, 1), (0, 1)))
    run = run_decisions(jobs, RoundsCluster((1, 1)), decide)
    assert run.finish_us.tolist() == [2 * MINUTE, 1.5 * MINUTE]
    assert run.starts.tolist() == [2, 2] and run.stops.tolist() == [1, 1]
    assert run.held_us.tolist() == [2 * MINUTE, 1.5 * MINUTE]
    assert run.waited_us.tolist() == [0, 0] and run.capacity == 2
    first, second = decide.seen
    assert first.starts.tolist() == [0, 0] and second.gpu_type.tolist() == [1, 0]
    assert second.left_us.tolist() == [MINUTE, MINUTE] and second.number == 1
    # GPUs that a job leaves inside a round stay idle until it ends.
    assert run.usage.time_us.tolist() == [0, MINUTE, 1.5 * MINUTE, 2 * MINUTE]
    assert run.usage.used.tolist() == [2, 2, 1, 0]


@pytest.mark.kernels
def test_a_start_on_another_type_pauses_and_so_does_one_after_a_wait():
    # A pause of 30 s at each start: 0.5 min of work, then waiting, then 1 min on the fast type
    # gives (1 - 0.5) x 2 = 1 of the 1.5 min left, and the rest takes a quarter of a minute.
    jobs = two_types([2], rescale_us=MINUTE // 2)
    run = run_decisions(
        jobs, RoundsCluster((1, 1)), script(((1,), (0,)), ((0,), (0,)), ((1,), (1,)))
    )
    assert run.finish_us.tolist() == [3.25 * MINUTE]
    assert run.starts.tolist() == [2] and run.waited_us.tolist() == [MINUTE]
    # The policy may say how long: nothing at the first start, 90 s at the next, beyond the round.
    pauses = {"pause_us": [0]}, {"pause_us": [90_000_000]}
    decide = script(((1,), (0,), pauses[0]), ((1,), (1,), pauses[1]))
    run = run_decisions(jobs, RoundsCluster((1, 1)), decide)
    assert run.finish_us.tolist() == [3 * MINUTE]  # 1 min of work left, at rate 2 from 2.5 min on


@pytest.mark.kernels
def test_hosts_that_change_are_a_restart_and_a_gang_spread_over_hosts_is_slower():
    jobs = two_types([8], rescale_us=MINUTE // 2)
    cluster = RoundsCluster((4, 0), (2, 0))
    one, other, both = [[2, 0]], [[0, 2]], [[1, 1]]
    decide = script(
        ((2,), (0,), {"hosts": one}),
        ((2,), (0,), {"hosts": one}),
        ((2,), (0,), {"hosts": other}),
        ((2,), (0,), {"hosts": both, "factor": [0.5]}),
    )
    run = run_decisions(jobs, cluster, decide)
    # 1 + 2 + 1 min of work in the first three rounds, then half a minute at rate 1, and 3.5 more.
    assert run.starts.tolist() == [3]
    assert run.finish_us.tolist() == [(3 + 0.5 + 4) * MINUTE]
    assert decide.seen[3].hosts.tolist() == [[0, 2]]


@pytest.mark.kernels
@pytest.mark.parametrize(
    ("decision", "problem"),
    [
        (Allocation(np.array([2, 2])), "4 GPUs are given|GPUs are given"),
        (Allocation(np.array([3, 0])), "widths must be within"),
        (Allocation(np.array([1, 1]), np.array([0, 2])), "gpu_type must be within"),
        (Allocation(np.array([1])), "shape"),
        (Allocation(np.array([1, 1]), hosts=np.array([[1, 0], [1, 1]])), "add up"),
        (Allocation(np.array([1, 1]), hosts=np.array([[1, 0], [0, 0]])), "add up"),
        (Allocation(np.array([2, 1]), hosts=np.array([[2, 0], [1, 0]])), "than it has"),
        (Allocation(np.array([1, 0]), np.array([1, 0]), np.array([[1, 0], [0, 0]])), "other types"),
        (Allocation(np.array([1, 1]), pause_us=np.array([-1, 0])), "pause_us"),
        (Allocation(np.array([1, 1]), factor=np.array([0.0, 1])), "factor"),
    ],
)
def test_a_decision_that_cannot_be_is_refused(decision, problem):
    cluster = RoundsCluster((4, 2), (2, 0)) if decision.hosts is not None else RoundsCluster((3, 1))
    with pytest.raises(ValueError, match=problem):
        run_decisions(two_types([5, 5]), cluster, lambda view: decision)


@pytest.mark.kernels
def test_jobs_that_never_run_are_an_error_of_the_policy(monkeypatch):
    monkeypatch.setattr("gpuplan.simkit.rounds.decisions.MOST_IDLE", 5)
    with pytest.raises(RuntimeError, match="2 jobs wait"):
        run_decisions(
            two_types([1, 1]), RoundsCluster((1, 1)), lambda view: Allocation(0 * view.running)
        )
    with pytest.raises(ValueError, match="speedups of 2 types"):
        run_decisions(two_types([1]), RoundsCluster((1,)), lambda view: Allocation(view.width))
    with pytest.raises(ValueError, match="one type of GPUs"):
        run_rounds(two_types([1]), RoundsPolicy("equal", 4))
    with pytest.raises(ValueError, match="whole hosts"):
        RoundsCluster((5,), (2,))


@pytest.mark.kernels
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(4, 12))
def test_a_callable_gives_what_the_compiled_loop_gives(seed, gpus):
    jobs = drawn(np.random.default_rng(seed), jobs=15, classes=3)
    widest = widest_usable(jobs.seen)
    ours = run_decisions(
        jobs,
        RoundsCluster((gpus,)),
        lambda view: Allocation(equal_shares(view.epoch, jobs.seen, widest, gpus)),
    )
    theirs = run_rounds(jobs, RoundsPolicy("equal", gpus))
    for name in ("start_us", "finish_us", "waited_us", "held_us", "starts", "time_us", "gpus"):
        assert (getattr(ours, name) == getattr(theirs, name)).all(), name
    for name in ("time_us", "used", "waiting"):
        assert (getattr(ours.usage, name) == getattr(theirs.usage, name)).all(), name


@pytest.mark.kernels
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_two_like_types_are_one_larger_cluster_for_single_gpus(seed):
    # First come, first served on one GPU each: which of two like types a job has does not matter.
    rng = np.random.default_rng(seed)
    one = replace(drawn(rng, jobs=12), rescale_us=np.zeros(12, np.int64))
    two = replace(one, speedup=np.stack([one.speedup, one.speedup]))

    def first(view, sizes):
        free, kind, width = list(sizes), view.gpu_type.copy(), np.zeros(view.running.size, int)
        for i in range(view.running.size):
            on = int(kind[i]) if view.width[i] else next((t for t, f in enumerate(free) if f), 0)
            if free[on]:
                free[on] -= 1
                width[i], kind[i] = 1, on
        return Allocation(width, kind)

    single = run_decisions(one, RoundsCluster((4,)), lambda view: first(view, (4,)))
    typed = run_decisions(two, RoundsCluster((3, 1)), lambda view: first(view, (3, 1)))
    assert (single.finish_us == typed.finish_us).all()
    assert typed.usage.used.max() <= 4
