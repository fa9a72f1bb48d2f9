"""The replay under Kueue's rules against a plain one, event by event."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_quota import cases, crowds
from support_quota_twin import PlainReplay

from gpuplan.simkit.quota.simulator import replay_quota

pytestmark = pytest.mark.kernels
MOST_EVICTIONS = 6


def rows(run):
    cells = (run.job, run.start_s, run.end_s, run.reason)
    return sorted(map(list, zip(*(cell.tolist() for cell in cells), strict=True)))


def agree(case, grace, checkpoint):
    site, jobs = case
    plain = PlainReplay(site, jobs, grace, checkpoint, MOST_EVICTIONS)
    run = replay_quota(
        site, jobs, grace_s=grace, checkpoint_s=checkpoint, most_evictions=MOST_EVICTIONS
    )
    assert rows(run) == plain.replay()
    assert run.evictions.tolist() == [work.evictions for work in plain.works]


@given(cases() | crowds(), st.sampled_from([1, 5]), st.sampled_from([0, 7]))
@settings(max_examples=60, deadline=None)
def test_kernel_and_plain_replay_agree_on_every_event(case, grace, checkpoint):
    agree(case, grace, checkpoint)


@pytest.mark.slow
@given(cases(most=30) | crowds(most=40), st.sampled_from([1, 5, 30]), st.sampled_from([0, 7]))
@settings(max_examples=700, deadline=None)
def test_kernel_and_plain_replay_agree_on_many_more(case, grace, checkpoint):
    agree(case, grace, checkpoint)
