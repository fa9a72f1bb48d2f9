"""Shortcuts of the kernel of Allpass, tables of one size and predicted ends, change no result."""

from dataclasses import replace

import numpy as np
import pytest
from support_allpass import as_lists, run_twin

from gpuplan.simkit.allpass import simulator as module
from gpuplan.simkit.allpass.kernel import AHEAD
from gpuplan.simkit.allpass.parameters import Allpass, Draws, StartUp
from gpuplan.simkit.allpass.simulator import run_allpass
from gpuplan.simkit.workload import Workload


def agree(workload, rules):
    draws = Draws.sample(rules, workload.size, np.random.default_rng(0))
    found, twin = as_lists(run_allpass(workload, rules, draws)), run_twin(workload, rules, draws)
    assert all(found[name] == getattr(twin, name) for name in found)
    return found


@pytest.mark.kernels
def test_a_run_that_needs_larger_buffers_begins_again_and_is_the_same(monkeypatch):
    # One overdue job of 10 days under the published rules: 481 rentals, a tick each minute.
    workload = Workload.from_seconds([0], [864_000], [1], [60])
    rules = Allpass(controller="fixed", threshold_s=0, scaling="literal", tick_s=600)
    whole = run_allpass(workload, rules, np.random.default_rng(0))
    sizes = []

    def counted(*arguments):
        sizes.append(arguments[-1].bills.size)
        return replay(*arguments)

    replay = module.replay
    monkeypatch.setattr(module, "replay", counted)
    monkeypatch.setattr(module, "LEAST_SIZE", 1)
    again = run_allpass(workload, rules, np.random.default_rng(0))
    assert as_lists(again) == as_lists(whole)
    assert whole.rentals.offer.size > 256
    assert sizes[:3] == [2, 8, 32]
    assert sizes[-1] >= max(whole.rentals.offer.size, whole.timeline.time_us.size)


@pytest.mark.kernels
def test_ends_beyond_what_is_foreseen_and_below_it_are_the_same():
    # 900 s and 2500 s that nothing can move, at a tick a second: the second is seen as it comes.
    assert 900 < AHEAD < 2500
    workload = Workload.from_seconds([0, 0, 5], [900, 2500, 1100], [1, 2, 4], [0, 0, 0])
    rules = Allpass(controller="fixed", threshold_s=np.inf, tick_s=1)
    found = agree(workload, rules)
    assert max(row[6] for row in found["timeline"]) == 7
    # Under a limit that binds, every end counts at once: the third job waits for the first.
    limited = agree(workload, replace(rules, serverless_limit=6))
    assert limited["jobs"][2][3] > 890_000_000


@pytest.mark.kernels
def test_a_job_that_may_just_be_moved_is_watched():
    """The threshold falls by 30 s at each tick from 200 s: to 140 s at 120 s, to 110 s at 180 s.

    All start at 0. 139 s end below it, 140 s end while it is 140 s, and 141 s are moved at 140 s.
    """
    rules = Allpass(
        threshold_s=200,
        gain_down_s=30,
        min_threshold_s=0,
        serverless_startup=StartUp(0, 0),
    )
    workload = Workload.from_seconds([0] * 3, [139, 140, 141], [1] * 3, [9000] * 3)
    found = agree(workload, rules)
    assert [row[4] for row in found["jobs"]] == [False, False, True]
    assert found["jobs"][2][2] == 140_000_000
    # With a lower limit of 141 s, the threshold cannot reach the third.
    kept = agree(workload, replace(rules, min_threshold_s=141))
    assert [row[4] for row in kept["jobs"]] == [False, False, False]


@pytest.mark.parametrize("spread", [1, 10**6])
def test_deadlines_are_counted_alike_whether_dense_or_sparse(spread):
    rng = np.random.default_rng(3)
    deadline = rng.integers(-50, 50, 40) * 7 * spread
    edges, bucket = module._buckets(deadline, 60)
    rounded = -(-deadline // 60) * 60
    assert (edges == np.unique(rounded)).all()
    assert (edges[bucket] == rounded).all()
    assert edges.dtype == bucket.dtype == np.int64
