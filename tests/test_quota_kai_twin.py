"""The replay under KAI's rules against a plain one, event by event."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_kai_twin import PlainKaiReplay
from support_quota import kai_crowds

from gpuplan.simkit.quota.kai_simulator import KaiJobs, KaiSite, replay_kai
from gpuplan.simkit.quota.kai_site import KaiQueue

pytestmark = pytest.mark.kernels
MOST_EVICTIONS = 4


def rows(run):
    """Return job, start, end, reason and cause of every run of a task."""
    count = run.gpus // run.jobs.size[run.job]
    columns = (run.job, run.start_s, run.end_s, run.reason, run.cause)
    return sorted(zip(*(np.repeat(column, count).tolist() for column in columns), strict=True))


def agree(case, grace, checkpoint):
    site, jobs = case
    plain = PlainKaiReplay(site, jobs, grace, checkpoint, MOST_EVICTIONS)
    run = replay_kai(
        site, jobs, grace_s=grace, checkpoint_s=checkpoint, most_evictions=MOST_EVICTIONS
    )
    assert rows(run) == plain.replay()
    assert run.evictions.tolist() == [job.evictions for job in plain.jobs]


@given(kai_crowds(gangs=True), st.sampled_from([1, 5]), st.sampled_from([0, 7]))
@settings(max_examples=40, deadline=None)
def test_kernel_and_plain_replay_agree_on_gangs(case, grace, checkpoint):
    agree(case, grace, checkpoint)


@given(kai_crowds(gangs=False), st.sampled_from([1, 5]), st.sampled_from([0, 7]))
@settings(max_examples=40, deadline=None)
def test_kernel_and_plain_replay_agree_on_jobs_that_run_in_part(case, grace, checkpoint):
    agree(case, grace, checkpoint)


def test_victims_that_swap_places_are_put_back_one_after_the_other():
    """A choice in vain on nodes of 20: putting all of one victim back first held 38 of 20 GPUs.

    As plain Python the room of such a node was then looked up outside of its table.
    """
    rng, count = np.random.default_rng(36), 60
    tasks, priority = rng.choice([1, 1, 2, 3], count), rng.choice([50, 75, 100], count)
    columns = (np.zeros(count), priority, priority >= 100, rng.integers(0, 50, count),
               rng.integers(50, 2000, count), rng.choice([1, 1, 2, 3, 4, 8], count), tasks, tasks,
               )  # fmt: skip
    queue = KaiQueue("all", None, deserved=4.0, over_quota_weight=0.0)
    jobs = KaiJobs(*(np.asarray(column, np.int64) for column in columns))
    agree((KaiSite((20, 4, 20, 8, 4, 4, 4), (queue,)), jobs), 1, 0)


@pytest.mark.slow
@given(kai_crowds(gangs=None, most=16), st.sampled_from([1, 5]), st.sampled_from([0, 7]))
@settings(max_examples=350, deadline=None)
def test_kernel_and_plain_replay_agree_on_many_more(case, grace, checkpoint):
    agree(case, grace, checkpoint)
