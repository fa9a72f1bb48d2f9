"""The replay under KAI's rules against a plain one, event by event."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_kai_twin import PlainKaiReplay
from support_quota import kai_crowds

from gpuplan.simkit.quota.kai_simulator import replay_kai

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


@pytest.mark.slow
@given(kai_crowds(gangs=None, most=16), st.sampled_from([1, 5]), st.sampled_from([0, 7]))
@settings(max_examples=1000, deadline=None)
def test_kernel_and_plain_replay_agree_on_many_more(case, grace, checkpoint):
    agree(case, grace, checkpoint)
