"""Laws of the replay under KAI's rules, and schedules worked out by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_quota import lines

from gpuplan.simkit.cluster.parameters import Cluster
from gpuplan.simkit.cluster.simulator import run_cluster
from gpuplan.simkit.quota.kai_simulator import KaiJobs, KaiSite, replay_kai
from gpuplan.simkit.quota.kai_site import KaiQueue
from gpuplan.simkit.workload import Workload

pytestmark = pytest.mark.kernels

CONSOLIDATION, RECLAIM, PREEMPT = range(3)


def kai_jobs(rows):
    """Return jobs from rows (queue, priority, fixed, submit, run, GPUs of a task, tasks, least)."""
    return KaiJobs(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))


@given(lines())
@settings(max_examples=30, deadline=None)
def test_one_queue_and_node_without_preemption_is_first_fit(line):
    submit, run, gpus = line
    zeros, ones = np.zeros_like(submit), np.ones_like(submit)
    jobs = KaiJobs(zeros, zeros, ones, submit, run, gpus, ones, ones)
    got = replay_kai(KaiSite((8,), (KaiQueue("q"),)), jobs)
    workload = Workload.from_seconds(submit, run, gpus, submit + run)
    want = run_cluster(workload, Cluster(8, skipping=True))
    assert got.start_s[np.argsort(got.job)].tolist() == (want.start_us // 1_000_000).tolist()


@st.composite
def crowds(draw):
    """Jobs of three queues, two of them in a department, on a few nodes."""
    queues = (
        KaiQueue("d"),
        KaiQueue("a", "d", deserved=draw(st.sampled_from([0.0, 4.0, -1.0])), created=1),
        KaiQueue("b", "d", deserved=draw(st.sampled_from([0.0, 4.0])), created=2,
                 limit=draw(st.sampled_from([-1.0, 6.0]))),
        KaiQueue("c", None, deserved=draw(st.sampled_from([2.0, 4.0])), created=3),
    )  # fmt: skip
    tasks = st.integers(1, 3)
    rows = draw(
        st.lists(
            st.tuples(st.integers(1, 3), st.sampled_from([50, 75, 100]), st.integers(0, 60),
                      st.integers(0, 40), st.integers(1, 4), tasks, tasks, st.booleans()),
            min_size=1, max_size=15,
        )
    )  # fmt: skip
    jobs = kai_jobs(
        [
            (queue, priority, fixed and priority == 100, submit, run, size, count,
             min(count, least))
            for queue, priority, submit, run, size, count, least, fixed in rows
        ]
    )  # fmt: skip
    nodes = draw(st.lists(st.sampled_from([4, 4, 8]), min_size=1, max_size=3))
    weight = draw(st.sampled_from([0.0, 1.0]))
    return KaiSite(tuple(nodes), queues, weight, 20, draw(st.sampled_from([0, 30]))), jobs


@given(crowds(), st.sampled_from([1, 5]), st.sampled_from([0, 7]))
@settings(max_examples=30, deadline=None)
def test_gpus_time_and_gangs_are_conserved(case, grace, checkpoint):
    site, jobs = case
    run = replay_kai(site, jobs, grace_s=grace, checkpoint_s=checkpoint, most_evictions=6)
    until = np.where(run.reason < 0, run.end_s, run.end_s + grace)
    for now in np.unique(run.start_s):
        here = (run.start_s <= now) & (now < until)
        assert run.gpus[here].sum() <= sum(site.node_gpus)
    done = run.reason < 0
    assert (run.start_s >= jobs.submit[run.job]).all()
    assert not jobs.fixed[run.job[~done]].any()  # what is fixed is never evicted
    assert (run.cause >= 0).tolist() == (~done).tolist()
    length, whole = run.end_s - run.start_s, jobs.run[run.job]
    assert (length[~done] < whole[~done]).all()
    if checkpoint == 0:
        assert (length[done] == whole[done]).all()
    finished = np.bincount(run.job[done], run.gpus[done], minlength=jobs.queue.size)
    everything = jobs.size * jobs.tasks
    assert (finished <= everything).all()
    assert np.flatnonzero(finished < everything).tolist() == run.unfinished.tolist()
    gang = (jobs.least == jobs.tasks)[run.job]
    assert (run.gpus[gang] == everything[run.job[gang]]).all()  # they start and end together
    books = run.accounts()
    hours = ((until - run.start_s) * run.gpus).sum() / 3600
    assert books.within.sum() + books.above.sum() == pytest.approx(hours)


@given(crowds())
@settings(max_examples=20, deadline=None)
def test_jobs_of_fixed_queues_stay_within_limits(case):
    site, jobs = case
    run = replay_kai(site, jobs, grace_s=3, most_evictions=6)
    limits = {i: queue.limit for i, queue in enumerate(site.queues) if queue.limit >= 0}
    for now in np.unique(run.start_s):
        here = (run.start_s <= now) & (now < run.end_s)  # those told to stop count no more
        for queue, limit in limits.items():
            assert run.gpus[here & (jobs.queue[run.job] == queue)].sum() <= limit


def starts(run, job):
    return run.start_s[run.job == job].tolist()


def test_a_queue_reclaims_what_it_deserves_after_the_grace_time():
    # a holds all 8 GPUs; b deserves 4 and asks for them at 10. The last job of a stops at 10 and
    # holds its GPUs until 40; then b starts, and that job waits until b ends at 60.
    site = KaiSite((8,), (KaiQueue("a", deserved=4.0), KaiQueue("b", deserved=4.0, created=1)))
    rows = [(0, 50, 0, 0, 100, 4, 1, 1), (0, 50, 0, 0, 100, 4, 1, 1), (1, 50, 0, 10, 20, 4, 1, 1)]
    run = replay_kai(site, kai_jobs(rows), grace_s=30)
    assert starts(run, 2) == [40]
    assert starts(run, 1) == [0, 60]
    assert run.reason[run.job == 1].tolist() == [RECLAIM, -1]
    assert run.cause[run.job == 1].tolist() == [2, -1]
    books = run.accounts()
    assert books.evictions.tolist() == [[0, 0], [1, 0]]
    # Until the victim has stopped, and from 60 to 100.
    assert books.lent[1, 0, 0] == pytest.approx(4 * 80 / 3600)


def test_a_higher_priority_preempts_in_its_queue():
    site = KaiSite((8,), (KaiQueue("a", deserved=8.0),))
    rows = [(0, 50, 0, 0, 100, 8, 1, 1), (0, 100, 1, 5, 10, 8, 1, 1)]
    run = replay_kai(site, kai_jobs(rows), grace_s=5, checkpoint_s=2)
    assert starts(run, 1) == [10]
    assert run.reason[run.job == 0].tolist() == [PREEMPT, -1]
    assert run.end_s[run.job == 0].tolist() == [5, 20 + 100 - 4]  # 4 of 5 s were saved


@pytest.mark.parametrize(("shield", "start"), [(None, 15), (12, 17), (40, 30)])
def test_a_job_that_started_a_short_time_ago_is_not_preempted(shield, start):
    # The job ends at 30. What is shielded for 12 s from 0 on is told to stop at 12 and stops at 17.
    queues = (KaiQueue("d", preempt_min_runtime=shield), KaiQueue("a", "d", deserved=8.0))
    rows = [(1, 50, 0, 0, 30, 8, 1, 1), (1, 100, 1, 10, 10, 8, 1, 1)]
    run = replay_kai(KaiSite((8,), queues), kai_jobs(rows), grace_s=5)
    assert starts(run, 1) == [start]


def test_a_queue_has_its_own_shield_from_reclaim():
    # b asks at 10 for what a borrows; jobs of a run at least 20 s, not 50 as those above it.
    queues = (
        KaiQueue("d", deserved=0.0, reclaim_min_runtime=50),
        KaiQueue("a", "d", deserved=0.0, reclaim_min_runtime=20, preempt_min_runtime=90),
        KaiQueue("b", deserved=8.0, created=1),
    )
    rows = [(1, 50, 0, 0, 100, 8, 1, 1), (2, 50, 0, 10, 10, 8, 1, 1)]
    run = replay_kai(KaiSite((8,), queues), kai_jobs(rows), grace_s=5)
    assert starts(run, 1) == [25]
    assert starts(run, 0) == [0, 35]


def test_a_consolidation_moves_a_task_once_it_has_stopped():
    # Two nodes of 4 with 2 free each: job 2 wants 4 on one node. The younger of the two stops,
    # holds its GPUs until 15, and goes on beside the other while job 2 takes its node.
    site = KaiSite((4, 4), (KaiQueue("a"),))
    rows = [(0, 50, 0, 0, 50, 2, 1, 1), (0, 50, 0, 0, 20, 2, 1, 1), (0, 50, 0, 0, 60, 2, 1, 1),
            (0, 50, 0, 25, 10, 4, 1, 1)]  # fmt: skip
    # Jobs 0 and 1 share a node until 20, job 2 has the other.
    run = replay_kai(site, kai_jobs(rows), grace_s=5)
    moved = np.flatnonzero(run.reason == CONSOLIDATION)
    assert run.job[moved].tolist() == [2]
    assert run.cause[moved].tolist() == [3]
    assert starts(run, 3) == [30]
    assert starts(run, 2) == [0, 30]


def test_a_gang_waits_for_all_of_its_tasks():
    site = KaiSite((4, 4), (KaiQueue("a"),))
    rows = [(0, 100, 1, 0, 30, 2, 1, 1), (0, 100, 1, 1, 10, 4, 2, 2)]
    run = replay_kai(site, kai_jobs(rows))
    assert starts(run, 1) == [30]


def test_parts_of_a_job_start_as_room_comes():
    site = KaiSite((4,), (KaiQueue("a"),))
    run = replay_kai(site, kai_jobs([(0, 100, 1, 0, 10, 2, 3, 1)]))
    assert starts(run, 0) == [0, 10]
    assert run.gpus.tolist() == [4, 2]


def test_past_use_lowers_a_share():
    # a used 8 GPUs for 100 s; then both ask for 8. With past use b gets all, as its share is
    # larger: w = 1/2 each, f = max(0, 1/2 + 2 (1/2 - use)).
    queues = (KaiQueue("a", deserved=0.0), KaiQueue("b", deserved=0.0, created=1))
    rows = [(0, 50, 0, 0, 100, 8, 1, 1)]
    rows += [(q, 50, 0, 100, 50, 1, 1, 1) for q in (0, 1) for _ in range(8)]
    for weight, split in ((0.0, 4), (2.0, 0)):
        run = replay_kai(KaiSite((8,), queues, weight, 0, 0), kai_jobs(rows))
        first = run.job[run.start_s == 100]
        assert (first <= 8).sum() == split


@pytest.mark.parametrize("option", [{"grace_s": 0}, {"checkpoint_s": -1}, {"most_evictions": 0}])
def test_settings_out_of_range_are_refused(option):
    with pytest.raises(ValueError, match="at least"):
        replay_kai(KaiSite((8,), (KaiQueue("a"),)), kai_jobs([(0, 0, 0, 0, 1, 1, 1, 1)]), **option)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((2, 0, 0, 0, 1, 1, 1, 1), "queue must be"),
        ((0, 0, 0, 0, 1, 1, 1, 1), "queues below it"),
        ((1, 0, 0, 0, 1, 0, 1, 1), "size"),
        ((1, 0, 0, 0, 1, 1, 1, 2), "least"),
    ],
)
def test_jobs_that_make_no_sense_are_refused(row, message):
    queues = (KaiQueue("d"), KaiQueue("a", "d"))
    with pytest.raises(ValueError, match=message):
        replay_kai(KaiSite((8,), queues), kai_jobs([row]))
