"""KAI's shares and rounds, worked out by hand, and laws of the division."""

import numpy as np
import pytest
from golden_kueue import kai_round
from hypothesis import given, settings
from hypothesis import strategies as st
from support_quota_state import KaiJob, fair_shares, kai_state

from gpuplan.simkit.quota import kai_columns as col
from gpuplan.simkit.quota.kai_round import settle
from gpuplan.simkit.quota.kai_site import KaiQueue

pytestmark = pytest.mark.kernels

QUEUES = st.lists(
    st.tuples(
        st.integers(0, 2),  # priority
        st.sampled_from([-1.0, 0.0, 2.0, 5.0]),  # deserved
        st.sampled_from([-1.0, 3.0, 10.0]),  # limit
        st.sampled_from([0.0, 1.0, 3.0]),  # weight
        st.integers(0, 20),  # requested
    ),
    min_size=1,
    max_size=5,
)


@given(QUEUES, st.integers(0, 40), st.sampled_from([0.0, 1.0]))
@settings(max_examples=40, deadline=None)
def test_no_queue_gets_more_than_it_requests_and_nothing_is_divided_twice(rows, total, k):
    queues = [KaiQueue(f"q{i}", None, *row[:4]) for i, row in enumerate(rows)]
    requested = np.array([row[4] for row in rows], float)
    shares = fair_shares(queues, requested, total, k)
    most = [r if q.limit < 0 else min(r, q.limit) for q, r in zip(queues, requested, strict=True)]
    assert (shares <= np.array(most)).all()
    granted = [
        min(m, total if q.deserved < 0 else q.deserved) for q, m in zip(queues, most, strict=True)
    ]
    assert (shares >= np.array(granted)).all()
    assert shares.sum() <= max(total, sum(granted)) + 1e-9
    if k == 0 and all(q.over_quota_weight > 0 for q in queues):
        assert shares.sum() == pytest.approx(max(sum(granted), min(total, sum(most))))


def test_past_use_lowers_a_share():
    queues = [KaiQueue("a", deserved=0, usage=0.5), KaiQueue("b", deserved=0, usage=0.0)]
    # w = 1/2 each; f = 1/2 + (1/2 - use): 0.5 and 1, so thirds of 9.
    assert fair_shares(queues, [9, 9], 9, 1.0).tolist() == [3.0, 6.0]


def active_after(nodes, queues, jobs, rounds):
    state = kai_state(nodes, queues, jobs)
    for _ in range(rounds):
        kai_round(state)
        settle(state)
    return state.jobs[:, col.JOB_ACTIVE].tolist()


def test_a_gang_starts_whole_or_not_at_all():
    queues = [KaiQueue("q")]
    gang = KaiJob("gang", "q", 2, (None, None, None), 3)
    assert active_after({"n1": 4, "n2": 1}, queues, [gang], 1) == [0]
    assert active_after({"n1": 4, "n2": 2}, queues, [gang], 1) == [3]


def test_an_elastic_job_grows_into_what_is_left():
    job = KaiJob("e", "q", 1, (None,) * 4, 2)
    assert active_after({"n1": 3}, [KaiQueue("q")], [job], 1) == [3]
    assert active_after({"n1": 1}, [KaiQueue("q")], [job], 1) == [0]


def test_a_fuller_node_is_filled_first():
    jobs = [KaiJob("old", "q", 1, ("n2",), 1), KaiJob("new", "q", 1, created=1)]
    state = kai_state({"n1": 2, "n2": 2}, [KaiQueue("q")], jobs)
    kai_round(state)
    assert state.tasks[1, col.TASK_NODE] == 1


def test_what_is_not_preemptible_stays():
    queues = [KaiQueue("q", deserved=2)]
    old = KaiJob("old", "q", 2, ("n1",), priority=100)
    new = KaiJob("new", "q", 2, priority=125, created=1)
    assert active_after({"n1": 2}, queues, [old, new], 2) == [1, 0]


PENDING_JOBS = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from([50, 75, 125]), st.integers(1, 3),
              st.integers(1, 3), st.integers(1, 3)),
    min_size=1, max_size=8,
)  # fmt: skip


@given(PENDING_JOBS, st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_no_node_is_overbooked_and_no_gang_runs_in_part(rows, count):
    queues = [KaiQueue("a", deserved=3), KaiQueue("b", deserved=3, created=1)]
    jobs = [
        KaiJob(f"j{i}", queue, size, (None,) * tasks, min(least, tasks), priority, created=i)
        for i, (queue, priority, size, tasks, least) in enumerate(rows)
    ]
    state = kai_state({f"n{i}": 4 for i in range(count)}, queues, jobs)
    for turn in range(4):
        if turn:  # more jobs of b come while those of a run
            kai_round(state)
        settle(state)
        assert (state.nodes[:, col.IDLE] >= 0).all()
        assert (state.nodes[:, col.FUTURE] == state.nodes[:, col.IDLE]).all()
        for j, job in enumerate(jobs):
            active = state.jobs[j, col.JOB_ACTIVE]
            assert active == 0 or active >= job.min_tasks
        held = sum(
            job.gpus_per_task * int(active)
            for job, active in zip(jobs, state.jobs[:, col.JOB_ACTIVE], strict=True)
        )
        assert held + state.nodes[:, col.IDLE].sum() == 4 * count
    assert (state.tasks[:, col.TASK_STATE] <= 1).all()
