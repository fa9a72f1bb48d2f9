"""Laws of the replay under Kueue's rules, and schedules worked out by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_quota import crowds, gpu_queue, jobs_of, lines
from support_quota_state import as_jobs

from gpuplan.simkit.cluster.parameters import Cluster
from gpuplan.simkit.cluster.simulator import run_cluster
from gpuplan.simkit.quota.simulator import replay_quota
from gpuplan.simkit.quota.site import (
    PodSet,
    Quota,
    QuotaCohort,
    QuotaJobs,
    QuotaSite,
)
from gpuplan.simkit.workload import Workload

pytestmark = pytest.mark.kernels


def held(run):
    """Return rows (queue, GPUs, from, until) of the quota held; evicted runs hold it longer."""
    sizes = np.array([sum(p.count * p.requests["gpu"] for p in pods) for pods in run.jobs.shapes])
    until = np.where(run.reason < 0, run.end_s, run.end_s + run.grace_s)
    return run.jobs.queue[run.job], sizes[run.jobs.pods[run.job]], run.start_s, until


@given(lines(), st.booleans())
@settings(max_examples=30, deadline=None)
def test_one_queue_without_preemption_is_fifo_or_first_fit(line, is_strict):
    submit, run, gpus = line
    site = QuotaSite((gpu_queue("q", 8, strategy="StrictFIFO" if is_strict else "BestEffortFIFO"),))
    zeros = np.zeros(submit.size, np.int64)
    got = replay_quota(site, QuotaJobs.of_gpus(zeros, zeros, submit, run, gpus))
    order = np.argsort(got.job)
    workload = Workload.from_seconds(submit, run, gpus, submit + run)
    want = run_cluster(workload, Cluster(8, skipping=not is_strict))
    assert got.start_s[order].tolist() == (want.start_us // 1_000_000).tolist()


@given(crowds())
@settings(max_examples=30, deadline=None)
def test_a_finished_job_runs_its_whole_time_and_an_evicted_one_only_part(case):
    run = replay_quota(*case, most_evictions=6)
    done = run.reason < 0
    length = run.end_s - run.start_s
    assert (length[done] == run.jobs.run[run.job[done]]).all()
    assert (length[~done] < run.jobs.run[run.job[~done]]).all()
    assert np.bincount(run.job[done], minlength=run.jobs.queue.size).max() <= 1
    assert (np.bincount(run.job[~done], minlength=run.jobs.queue.size) == run.evictions).all()
    n = run.jobs.queue.size
    assert np.union1d(run.job[done], run.unfinished).tolist() == list(range(n))


@st.composite
def lenders(draw):
    """Queues of one cohort with limits; no job shrinks."""
    members = [
        gpu_queue(f"q{i}", draw(st.integers(1, 6)), "c", draw(st.sampled_from([None, 0, 3])),
                  draw(st.sampled_from([None, 0, 2])), reclaim_within_cohort=reclaim,
                  within_queue=draw(st.sampled_from(["Never", "LowerPriority"])))
        for i, reclaim in enumerate(draw(st.lists(st.sampled_from(["Never", "Any"]), min_size=2,
                                                  max_size=4)))
    ]  # fmt: skip
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, len(members) - 1), st.integers(0, 2), st.integers(0, 50),
                      st.integers(1, 50), st.integers(1, 6)),
            min_size=1, max_size=20,
        )
    )  # fmt: skip
    return QuotaSite(tuple(members), fair_sharing=draw(st.booleans())), jobs_of(rows)


@given(lenders())
@settings(max_examples=40, deadline=None)
def test_no_queue_exceeds_its_quota_and_what_it_may_borrow(case):
    site, _ = case
    run = replay_quota(*case, most_evictions=6)
    queue, gpus, start, until = held(run)
    for now in np.unique(start):
        here = (start <= now) & (now < until)
        for number, member in enumerate(site.queues):
            quota = member.groups[0][0].quotas["gpu"]
            used = gpus[here & (queue == number)].sum()
            if quota.borrowing_limit is not None:
                assert used <= quota.nominal + quota.borrowing_limit


@given(lenders())
@settings(max_examples=40, deadline=None)
def test_without_evictions_a_cohort_never_exceeds_what_its_queues_have(case):
    site, jobs = case
    members = tuple(
        gpu_queue(q.name, q.groups[0][0].quotas["gpu"].nominal, "c") for q in site.queues
    )
    run = replay_quota(QuotaSite(members, fair_sharing=site.fair_sharing), jobs)
    _, gpus, start, until = held(run)
    total = sum(q.groups[0][0].quotas["gpu"].nominal for q in members)
    for now in np.unique(start):
        assert gpus[(start <= now) & (now < until)].sum() <= total


@st.composite
def nested(draw, may_preempt=False):
    """Queues of one flavor in cohorts of up to three levels, with limits at every level."""

    def quota(most):
        limits = [draw(st.sampled_from([None, None, 0, 1, 3])) for _ in range(2)]
        return Quota(draw(st.integers(0, most)), *limits)

    parents = draw(
        st.sampled_from(
            [
                {"a": None},
                {"a": "r", "b": "r", "r": None},
                {"a": "m", "b": "r", "m": "r", "r": None},
            ]
        )
    )
    cohorts = tuple(
        QuotaCohort(name, parent, 1.0, {("h100", "gpu"): quota(2)})
        for name, parent in parents.items()
    )
    rules = {}
    if may_preempt:
        rules = {"reclaim_within_cohort": "Any", "within_queue": "LowerPriority"}
    members = []
    for number in range(draw(st.integers(2, 4))):
        limits = quota(5)
        cohort = draw(st.sampled_from(list(parents)))
        members.append(gpu_queue(f"q{number}", limits.nominal, cohort, limits.borrowing_limit,
                                 limits.lending_limit, **rules))  # fmt: skip
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, len(members) - 1), st.integers(0, 2), st.integers(0, 30),
                      st.integers(1, 40), st.integers(1, 5)),
            min_size=1, max_size=20,
        )
    )  # fmt: skip
    return QuotaSite(tuple(members), cohorts, fair_sharing=draw(st.booleans())), jobs_of(rows)


def over_quota(site, used):
    """Return the cohorts and queues that use more than their quotas, and those around, allow.

    What a member does not lend is for itself alone; all else, and what it takes beyond, is of the
    cohort above it, up to its borrowing limit. Written as recursion over the tree, as no kernel is.
    """
    above = {cohort.name: cohort.parent for cohort in site.cohorts}
    quotas = {cohort.name: cohort.quotas["h100", "gpu"] for cohort in site.cohorts}
    faults = []

    def whole(name):
        """Return the quota of a cohort's subtree, and what the subtree uses of it."""
        quota, use = quotas[name].nominal, 0
        children = [
            (queue.name, queue.groups[0][0].quotas["gpu"], None)
            for queue in site.queues if queue.cohort == name
        ]  # fmt: skip
        children += [
            (child, quotas[child], whole(child)) for child in above if above[child] == name
        ]
        for child, limits, inner in children:
            have, taken = inner or (limits.nominal, used[child])
            lent = have if limits.lending_limit is None else min(limits.lending_limit, have)
            if limits.borrowing_limit is not None and taken > have + limits.borrowing_limit:
                faults.append(child)
            quota += lent
            use += max(0, taken - (have - lent))
        if above[name] is None and use > quota:
            faults.append(name)
        return quota, use

    for name, parent in above.items():
        if parent is None:
            whole(name)
    return faults


def used_by(site, run, now):
    queue, gpus, start, until = held(run)
    here = (start <= now) & (now < until)
    return {member.name: gpus[here & (queue == at)].sum() for at, member in enumerate(site.queues)}


@pytest.mark.parametrize("may_preempt", [False, True])
@given(st.data())
@settings(max_examples=40, deadline=None)
def test_limits_of_nested_cohorts_hold_at_every_start(may_preempt, data):
    site, jobs = data.draw(nested(may_preempt))
    run = replay_quota(site, jobs, most_evictions=6)
    for now in np.unique(run.start_s):
        assert over_quota(site, used_by(site, run, now)) == []


def test_the_law_of_nested_cohorts_sees_what_breaks_it():
    cohorts = tuple(
        QuotaCohort(name, parent, 1.0, {("h100", "gpu"): Quota(0, limit)})
        for name, parent, limit in (("a", "r", 1), ("b", "r", None), ("r", None, None))
    )
    site = QuotaSite((gpu_queue("x", 4, "a"), gpu_queue("y", 4, "b", lent=2)), cohorts)
    assert over_quota(site, {"x": 5, "y": 3}) == []
    assert over_quota(site, {"x": 6, "y": 0}) == ["a"]  # a may borrow one
    assert over_quota(site, {"x": 5, "y": 4}) == ["r"]  # 9 of 8
    assert over_quota(site, {"x": 0, "y": 8}) == []
    assert over_quota(site, {"x": 7, "y": 0}) == ["a", "r"]  # y lends two


def starts(run, job):
    return run.start_s[run.job == job].tolist()


def test_a_borrower_gives_back_after_the_grace_time():
    # b lends its 4 GPUs to job 0 of a; job 1 of b reclaims them at 10 and starts at 40.
    site = QuotaSite((gpu_queue("a", 4, "c"), gpu_queue("b", 4, "c", reclaim_within_cohort="Any")))
    run = replay_quota(site, jobs_of([(0, 0, 0, 100, 8), (1, 0, 10, 20, 4)]), grace_s=30)
    assert starts(run, 1) == [40]
    assert run.end_s[run.job == 0].tolist() == [10, 160]
    assert run.reason[run.job == 0].tolist() == [1, -1]
    assert starts(run, 0) == [0, 60]


def test_a_checkpoint_keeps_work():
    site = QuotaSite((gpu_queue("a", 4, "c"), gpu_queue("b", 4, "c", reclaim_within_cohort="Any")))
    rows = [(0, 0, 0, 100, 8), (1, 0, 25, 20, 4)]
    run = replay_quota(site, jobs_of(rows), grace_s=5, checkpoint_s=10)
    assert run.end_s[run.job == 0].tolist() == [25, 50 + 80]


def test_a_lending_limit_keeps_quota_at_home():
    # a may take 4 of its own and the 1 that b lends; 6 GPUs never fit.
    site = QuotaSite((gpu_queue("a", 4, "c"), gpu_queue("b", 4, "c", lent=1)))
    run = replay_quota(site, jobs_of([(0, 0, 0, 10, 5), (0, 0, 0, 10, 6), (1, 0, 1, 10, 4)]))
    assert starts(run, 0) == [0]
    assert run.unfinished.tolist() == [1]
    assert starts(run, 2) == [10]  # 4 wait until a gives back what b lent


def test_a_workload_that_takes_fewer_pods_shrinks_to_what_fits():
    site = QuotaSite((gpu_queue("a", 6),))
    zeros = [0, 0]
    columns = {"queue": zeros, "priority": zeros, "submit": [0, 1], "created": [0, 1],
               "run": [10, 10], "pods": [0, 1], "uid": [0, 1]}  # fmt: skip
    shapes = [(PodSet({"gpu": 1}, 4),), (PodSet({"gpu": 1}, 8, 2),)]
    assert starts(replay_quota(site, as_jobs(columns, shapes)), 1) == [1]


def test_a_loop_of_evictions_is_reported_and_ends():
    # Job 5 reclaims what job 4 borrows, job 4 comes back when job 3 has been evicted for it, ...
    members = (
        gpu_queue("q1", 16, "c", within_queue="LowerPriority", reclaim_within_cohort="Any"),
        gpu_queue("q2", 8, "c", 16, within_queue="LowerPriority", reclaim_within_cohort="Any"),
        gpu_queue("q3", 8, "c", within_queue="LowerPriority", reclaim_within_cohort="Any"),
    )
    rows = [(0, 200, 0, 1800, 14), (1, 200, 1, 1800, 4), (2, 200, 2, 1800, 6),
            (2, 0, 10, 900, 1), (1, 100, 20, 300, 8), (2, 100, 30, 300, 8)]  # fmt: skip
    run = replay_quota(QuotaSite(members), jobs_of(rows))
    loop = run.loop()
    assert loop.jobs.size >= 2
    assert loop.evictions[0] > 10
    assert set(loop.queues.tolist()) == {1, 2}
    short = replay_quota(QuotaSite(members), jobs_of(rows), most_evictions=5)
    assert short.evictions.max() == 5
    assert short.unfinished.size > 0


def test_a_cycle_counts_quota_of_its_victims_as_free_before_they_stop():
    # As section 5.4 says: job 1 evicts job 0 (8 of 10 GPUs) for 3; jobs 2 and 3 then fit with job 0
    # gone, and start at once: 12 GPUs are held until 40.
    site = QuotaSite(
        (
            gpu_queue("q1", 4, "c"),
            gpu_queue("q2", 3, "c", reclaim_within_cohort="Any"),
            gpu_queue("q3", 3, "c"),
            gpu_queue("q4", 0, "c"),
        )
    )
    rows = [(0, 0, 0, 500, 8), (1, 0, 10, 50, 3), (2, 0, 10, 50, 2), (3, 0, 10, 50, 2)]
    run = replay_quota(site, jobs_of(rows), grace_s=30)
    assert [starts(run, job) for job in range(4)] == [[0, 90], [40], [10], [10]]


def test_no_loop_without_evictions():
    run = replay_quota(QuotaSite((gpu_queue("a", 4),)), jobs_of([(0, 0, 0, 5, 2)]))
    assert run.loop() is None


def test_cohorts_in_a_ring_are_refused():
    cohorts = (QuotaCohort("a", "b"), QuotaCohort("b", "a"))
    with pytest.raises(ValueError, match="ring"):
        replay_quota(QuotaSite((gpu_queue("q", 4, "a"),), cohorts), jobs_of([(0, 0, 0, 5, 2)]))


@pytest.mark.parametrize("option", [{"grace_s": 0}, {"checkpoint_s": -1}, {"most_evictions": 0}])
def test_settings_out_of_range_are_refused(option):
    with pytest.raises(ValueError, match="at least"):
        replay_quota(QuotaSite((gpu_queue("q", 4),)), jobs_of([(0, 0, 0, 5, 2)]), **option)


def test_a_queue_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="queue"):
        replay_quota(QuotaSite((gpu_queue("q", 4),)), jobs_of([(1, 0, 0, 5, 2)]))
