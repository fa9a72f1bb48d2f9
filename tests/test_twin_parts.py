"""Jobs that go on as new ones after a limit, and jobs that move elsewhere after a wait."""

import numpy as np
import pytest

from gpuplan.simkit.twin.jobs import NEVER, SiteJobs
from gpuplan.simkit.twin.simulator import replay_site
from gpuplan.simkit.twin.site import (
    SchedulerConfig,
    SiteCluster,
    SiteNode,
    SitePartition,
)
from gpuplan.simkit.twin.site import SiteJob as J

pytestmark = pytest.mark.compiled
FOUR = SiteCluster((SiteNode("n0", 4),), (SitePartition("p", ("n0",)),))
EIGHT = SiteCluster((SiteNode("a", 4), SiteNode("b", 4)), (SitePartition("p", ("a", "b")),))
SLURM = {"backfill": "slurm", "bf_resolution": 1}
BACKFILLS = [{}, {"backfill": "easy"}, {"backfill": "conservative"}, SLURM]


def run(where, jobs, rest=None, patience=None, **settings):
    table = SiteJobs.of(jobs)
    arrays = {"rest": rest, "patience": patience}
    given = {name: np.array(values) for name, values in arrays.items() if values is not None}
    return replay_site(where, table.changed(**given), SchedulerConfig(**settings))


@pytest.mark.parametrize("settings", BACKFILLS)
def test_the_rest_of_a_job_queues_again_when_its_first_part_ends(settings):
    # 4 GPUs. Job 1 holds all for 100 s and has 150 s left. Job 2 came at 10 and goes first.
    # Parts of job 1: 0-100, then after job 2 (100-150) 150-250, then at once 250-300. Job 3, of
    # second 260, waits for it.
    jobs = [J(1, 0, 1, 4, 100, 100), J(2, 10, 1, 4, 50, 50), J(3, 260, 1, 4, 10, 10)]
    went = run(FOUR, jobs, rest=[150, 0, 0], **settings)
    assert went.start.tolist() == [0, 100, 300]
    assert went.end.tolist() == [100, 150, 310]  # of the first part
    assert went.wait.tolist() == [0, 90, 40]


def test_parts_are_as_long_as_the_first_and_the_last_has_what_is_left():
    table = SiteJobs.of([J(1, 0, 1, 1, 100, 100), J(2, 0, 1, 1, 60, 60), J(3, 0, 1, 1, 9, 9)])
    parts, follower = table.changed(rest=np.array([250, 0, 9])).parts()
    assert parts.runtime.tolist() == [100, 60, 9, 100, 100, 50, 9]
    assert follower.tolist() == [3, -1, 6, 4, 5, -1, -1]
    assert parts.id.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert parts.limit.tolist() == [100, 60, 9, 100, 100, 100, 9]
    asked = table.changed(rest=np.array([250, 0, 9]), rest_limit=np.array([260, 0, 5]))
    assert asked.parts()[0].limit.tolist() == [100, 60, 9, 100, 100, 60, 5]


@pytest.mark.parametrize("settings", BACKFILLS)
def test_a_job_without_patience_moves_elsewhere_and_holds_nothing(settings):
    # Job 2 would wait until 100; it leaves at 10 + 30 and runs 50 s elsewhere, so that job 3,
    # which came behind it, starts when job 1 ends. Job 1 starts at once and never moves.
    jobs = [J(1, 0, 1, 4, 100, 100), J(2, 10, 1, 4, 50, 50), J(3, 20, 1, 4, 10, 10)]
    went = run(FOUR, jobs, patience=[30, 30, NEVER], **settings)
    assert went.start.tolist() == [0, 40, 100]
    assert went.end.tolist() == [100, 90, 110]
    assert went.elsewhere_gpu_s.tolist() == [0, 200, 0]
    assert [went.nodes(i) for i in range(3)] == [[0], [], [0]]
    assert went.reason(1) == ""


def test_the_rest_of_a_job_that_moves_runs_elsewhere_too():
    jobs = [J(1, 0, 1, 4, 100, 100), J(2, 0, 1, 2, 50, 50), J(3, 20, 1, 4, 10, 10)]
    went = run(FOUR, jobs, rest=[0, 25, 0], patience=[NEVER, 30, NEVER])
    assert went.start.tolist() == [0, 30, 100]
    assert went.elsewhere_gpu_s.tolist() == [0, 2 * 75, 0]


def test_a_cancelled_job_moves_only_where_it_waits_so_long_and_its_run_time_is_known():
    # Job 2 is given up at 60 after it would have moved at 30, job 3 before; job 4 never ran.
    jobs = [
        J(1, 0, 1, 4, 100, 100),
        J(2, 0, 1, 4, 50, 50, cancel=60),
        J(3, 0, 1, 4, 50, 50, cancel=20),
        J(4, 0, 1, 4, 50, 0, cancel=60),
    ]
    went = run(FOUR, jobs, patience=[30] * 4)
    assert went.start.tolist() == [0, 30, -1, -1]
    assert [went.reason(i) for i in range(4)] == ["", "", "cancelled", "cancelled"]
    assert went.elsewhere_gpu_s.tolist() == [0, 200, 0, 0]


@pytest.mark.parametrize("seed", [0, 3])
def test_no_rest_and_endless_patience_change_nothing(seed):
    rng = np.random.default_rng(1)
    jobs = [
        J(i, int(rng.integers(0, 4000)), 1, int(rng.integers(1, 5)), 400, int(rng.integers(1, 400)))
        for i in range(60)
    ]
    settings = {**SLURM, "tie_seed": seed}
    plain = run(EIGHT, jobs, **settings)
    same = run(EIGHT, jobs, rest=[0] * 60, patience=[10**6] * 60, **settings)
    assert (plain.start == same.start).all() and not same.elsewhere_gpu_s.any()
