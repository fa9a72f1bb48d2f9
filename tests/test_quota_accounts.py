"""What each queue held, borrowed, lent, waited and lost: worked out by hand, and laws."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from support_quota import crowds, gpu_queue, jobs_of

from gpuplan.simkit.quota.simulator import replay_quota
from gpuplan.simkit.quota.site import Quota, QuotaCohort, QuotaFlavor, QuotaSite

pytestmark = pytest.mark.kernels


def test_a_loan_that_is_reclaimed():
    # a holds 8 GPUs from 0 to 3600 and until 3630 while it stops: 4 of its own, 4 lent by b. b asks
    # for 4 at 3600, waits 30 s, and runs until 7230; a waits for 8 from 3630 to 7230.
    site = QuotaSite((gpu_queue("a", 4, "c"), gpu_queue("b", 4, "c", reclaim_within_cohort="Any")))
    run = replay_quota(site, jobs_of([(0, 0, 0, 7200, 8), (1, 0, 3600, 3600, 4)]), grace_s=30)
    books = run.accounts()
    assert books.wait_s.tolist() == [0, 30]
    assert books.again_s.tolist() == [3600, 0]
    assert books.evictions.tolist() == [[0, 0], [1, 0]]
    assert books.lost[:, 0].tolist() == [8.0, 0.0]
    held_h = 3630 / 3600 + 2
    assert books.within[:, 0] == pytest.approx([4 * held_h, 4])
    assert books.above[:, 0] == pytest.approx([4 * held_h, 0])
    assert books.lent[1, 0, 0] == pytest.approx(4 * held_h)
    assert books.lent.sum() == pytest.approx(4 * held_h)
    assert books.idle[:, 0] == pytest.approx([4, 0, 0])  # a could not use its own 4 alone
    assert books.idle_wanted[:, 0].tolist() == [0, 0, 0]  # nobody else waited
    assert books.span_s == (0, 14430)


def test_idle_quota_that_the_limits_keep_from_those_who_wait_is_not_wanted():
    # b may borrow nothing, so its second job waits an hour while a is idle.
    site = QuotaSite((gpu_queue("a", 4, "c"), gpu_queue("b", 2, "c", 0)))
    books = replay_quota(site, jobs_of([(1, 0, 0, 3600, 2), (1, 0, 0, 3600, 2)])).accounts()
    assert books.idle[:, 0].tolist() == [8.0, 0.0, 0.0]
    assert books.idle_wanted[:, 0].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("borrow", "lend", "wanted"), [(None, None, 4), (3, None, 3), (1, None, 1), (None, 3, 3)]
)
def test_idle_quota_is_wanted_as_far_as_it_may_be_borrowed(borrow, lend, wanted):
    # 9 GPUs for b's job are more than there are for the hour in which its first one runs on 2.
    site = QuotaSite((gpu_queue("a", 4, "c", None, lend), gpu_queue("b", 2, "c", borrow)))
    jobs = jobs_of([(1, 0, 0, 3600, 2), (1, 0, 0, 3600, 9)])
    books = replay_quota(site, jobs).accounts()
    assert books.idle_wanted[:, 0] == pytest.approx([wanted, 0, 0])


def test_limits_of_cohorts_hold_for_idle_quota():
    # near may borrow 1 of top's d, while a may borrow all of its sister b: 2 + 1 of 8.
    def site(borrow):
        near = QuotaCohort("near", "top", 1.0, {("h100", "gpu"): Quota(0, borrow)})
        queues = (gpu_queue("a", 2, "near"), gpu_queue("b", 2, "near"), gpu_queue("d", 8, "top"))
        return QuotaSite(queues, (near, QuotaCohort("top", None)))

    jobs = jobs_of([(0, 0, 0, 3600, 2), (0, 0, 0, 3600, 99)])
    for borrow, of_d in ((1, 1), (None, 8)):
        run = replay_quota(site(borrow), jobs)
        wanted = dict(zip(run.names.nodes, run.accounts().idle_wanted[:, 0].tolist(), strict=True))
        assert wanted == pytest.approx({"a": 0, "b": 2, "d": of_d, "near": 0, "top": 0})


def test_a_window_cuts_hours_and_keeps_waits():
    # a runs 4 jobs of 4 GPUs one after another, an hour each; the window ends in the second.
    site = QuotaSite((gpu_queue("a", 4, "c", 0), gpu_queue("b", 2, "c")))
    run = replay_quota(site, jobs_of([(0, 0, 0, 3600, 4)] * 4))
    books = run.accounts(5400)
    assert books.within[:, 0].tolist() == [6.0, 0.0]
    assert books.idle[:, 0].tolist() == [0.0, 3.0, 0.0]
    assert books.span_s == (0, 5400)
    assert sorted(books.wait_s.tolist()) == [0, 3600, 7200, 10800]
    whole = run.accounts()
    assert [part.tolist() for part in (run.accounts(10**9).idle, run.accounts(10**9).within)] == [
        whole.idle.tolist(), whole.within.tolist(),
    ]  # fmt: skip


def test_the_nearest_cohort_lends_first_and_no_more_than_it_may():
    # a borrows 6: the 2 of its sister b, then from the cohort above: the 3 that d may lend of its
    # 8, and the cohort's own 5, in proportion: 4 x 3/8 and 4 x 5/8.
    site = QuotaSite(
        (gpu_queue("a", 2, "near"), gpu_queue("b", 2, "near"), gpu_queue("d", 8, "top", None, 3)),
        (
            QuotaCohort("near", "top"),
            QuotaCohort("top", None, 1.0, {("h100", "gpu"): Quota(5)}),
        ),
    )
    run = replay_quota(site, jobs_of([(0, 0, 0, 3600, 8)]))
    lent = dict(zip(run.names.nodes, run.accounts().lent[:, 0, 0].tolist(), strict=True))
    assert lent == pytest.approx({"a": 0, "b": 2, "d": 1.5, "near": 0, "top": 2.5})


def test_a_job_that_never_starts_waits_to_the_end():
    run = replay_quota(
        QuotaSite((gpu_queue("a", 4),)), jobs_of([(0, 0, 0, 10, 8), (0, 0, 5, 1, 1)])
    )
    books = run.accounts()
    assert books.wait_s.tolist() == [-1, 0]
    assert books.lent.sum() == 0


def test_nothing_to_account():
    run = replay_quota(QuotaSite((gpu_queue("a", 4),)), jobs_of([(0, 0, 0, 10, 8)]))
    assert run.accounts().within.sum() == 0


@given(crowds())
@settings(max_examples=30, deadline=None)
def test_hours_add_up(case):
    run = replay_quota(*case, most_evictions=6)
    books = run.accounts()
    until = np.where(run.reason < 0, run.end_s, run.end_s + run.grace_s)
    hours = ((until - run.start_s)[:, None] * np.where(run.pair >= 0, run.amount, 0)).sum() / 3600
    assert books.within.sum() + books.above.sum() == pytest.approx(hours)
    assert (books.lent.sum(axis=0) <= books.above + 1e-9).all()
    span = books.span_s[1] - books.span_s[0]
    quota = run.quotas.nominal * span / 3600
    queues = len(case[0].queues)
    used = np.zeros_like(quota)
    used[:queues] = books.within
    # What a node has was used by itself, lent, or idle.
    assert used + books.lent.sum(axis=1) + books.idle == pytest.approx(quota, abs=1e-6)
    assert (books.idle_wanted <= books.idle + 1e-9).all()
    assert books.evictions.sum() == run.evictions.sum()
    assert (books.again_s[run.evictions == 0] == 0).all()
    assert (books.wait_s >= -1).all()


def test_quota_that_waiting_queues_cannot_use_is_not_wanted():
    # b has no quota of a's flavor, so a's idle GPUs are of no use to its job that waits.
    queue = gpu_queue("a", 4, "c")
    flavor = QuotaFlavor("other", dict(queue.groups[0][0].quotas))
    site = QuotaSite((replace(queue, groups=((flavor,),)), gpu_queue("b", 2, "c")))
    books = replay_quota(site, jobs_of([(1, 0, 0, 3600, 2), (1, 0, 0, 3600, 2)])).accounts()
    assert books.idle.sum() == 8.0
    assert books.idle_wanted.sum() == 0.0
