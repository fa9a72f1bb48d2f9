"""A replay from the middle: what runs and waits at an instant is put there, not replayed."""

import numpy as np
import pytest

from gpuplan.simkit.twin.jobs import SiteJobs
from gpuplan.simkit.twin.simulator import replay_site
from gpuplan.simkit.twin.site import (
    SchedulerConfig,
    SiteAssociation,
    SiteCluster,
    SiteJob,
    SiteNode,
    SitePartition,
    SiteQos,
)
from gpuplan.simkit.twin.snapshot import (
    NodesDown,
    RunningJobs,
    first_start,
    selected,
    with_down,
)
from gpuplan.simkit.twin.tables import kernel_input

pytestmark = pytest.mark.compiled
EMPTY = np.empty(0, np.int64)
NONE_DOWN = NodesDown(EMPTY, EMPTY, EMPTY, EMPTY)
SITE = SiteCluster(
    (SiteNode("a", 4), SiteNode("b", 4), SiteNode("c", 2)),
    (SitePartition("p", ("a", "b", "c")), SitePartition("q", ("b", "c"))),
    (SiteQos("normal", user_gpus=5),),
    (SiteAssociation("x", grp_gpus=7),),
)


def from_middle(site, jobs, config, running, now, job, down=NONE_DOWN):
    """Return the start of a job; ``running`` are (position, start, nodes by name)."""
    tables = kernel_input(site, jobs, config)
    names = {node.name: i for i, node in enumerate(site.nodes)}
    at_work = [position for position, _, _ in running]
    others = [i for i in range(jobs.id.size) if i not in at_work]
    order = np.array([*at_work, *others], np.int64)
    table = selected(tables.jobs, order, tie=np.arange(order.size))
    held = RunningJobs(
        np.array([start for _, start, _ in running], np.int64),
        np.array([names[name] for _, _, nodes in running for name in nodes], np.int64),
    )
    seen = with_down(tables.site, down, now)
    return first_start(tables, table, seen, held, now, int(np.flatnonzero(order == job)[0]))


def test_a_job_that_runs_keeps_its_nodes_and_its_real_end():
    # Node a is full until 1000; b has 1 GPU free, since a 3-GPU job from 100 on runs 500 s there.
    jobs = SiteJobs.of(
        [SiteJob(1, 0, 1, 4, 1000, 1000), SiteJob(2, 100, 1, 3, 900, 500),
         SiteJob(3, 150, 1, 4, 300, 300)]
    )  # fmt: skip
    running = [(0, 0, ["a"]), (1, 100, ["b"])]
    config = SchedulerConfig(backfill="easy")
    assert from_middle(SITE, jobs, config, running, 200, 2) == 600
    # The same jobs on other nodes: the large one ends first there.
    assert from_middle(SITE, jobs, config, [(0, 0, ["b"]), (1, 500, ["a"])], 600, 2) == 1000


def test_a_node_that_is_down_takes_no_job_until_it_is_back():
    jobs = SiteJobs.of([SiteJob(1, 0, 1, 4, 1000, 1000), SiteJob(2, 0, 1, 4, 100, 100)])
    down = NodesDown(*(np.array([value]) for value in (1, 50, 700, 1 << 60)))
    config = SchedulerConfig(backfill="easy", events=True)
    assert from_middle(SITE, jobs, config, [], 100, 1) == 100  # node b is free
    assert from_middle(SITE, jobs, config, [], 100, 1, down) == 700


def test_a_job_that_may_never_start_says_why():
    jobs = SiteJobs.of([SiteJob(1, 0, 1, 6, 1000, 1000)])
    with pytest.raises(ValueError, match="shape"):
        from_middle(SITE, jobs, SchedulerConfig(), [], 100, 0)


@pytest.mark.parametrize("backfill", ["none", "easy", "conservative"])
@pytest.mark.parametrize("seed", range(12))
def test_a_replay_from_any_instant_agrees_with_the_one_from_the_beginning(backfill, seed):
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.integers(0, 3000, 40))
    jobs = SiteJobs.of(
        SiteJob(
            i, int(submit[i]), *((1, int(rng.integers(1, 5))) if i % 4 else (2, 2)),
            limit, max(1, int(limit * rng.random())),
            user=f"u{rng.integers(3)}", account="x" if rng.random() < 0.5 else "y",
            partition="p" if rng.random() < 0.7 else "q",
        )
        for i, limit in enumerate(int(limit) for limit in rng.integers(50, 900, 40))
    )  # fmt: skip
    config = SchedulerConfig(backfill=backfill, limits=True, sched_interval=0)
    whole = replay_site(SITE, jobs, config)
    names = [node.name for node in SITE.nodes]
    compared = 0
    for now in rng.integers(500, 3500, 4).tolist():
        over = (whole.end >= 0) & (whole.end <= now)
        at_work = (whole.start >= 0) & (whole.start <= now) & ~over
        left = jobs.kept(~over)
        position = np.cumsum(~over) - 1
        running = [
            (int(position[i]), int(whole.start[i]), [names[node] for node in whole.nodes(i)])
            for i in np.flatnonzero(at_work)
        ]
        for i in np.flatnonzero(~over & ~at_work)[:5]:
            expected = int(whole.start[i])
            if expected < 0:
                continue
            found = from_middle(SITE, left, config, running, now, int(position[i]))
            assert found == expected
            compared += 1
    assert compared
