"""Schedules of one cluster worked by hand, each of which one policy alone produces."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.planner.policies.cluster_settings import SCHEDULERS
from gpuplan.simkit.cluster.parameters import Cluster
from gpuplan.simkit.cluster.simulator import enough_gpus, gittins_levels, run_cluster
from gpuplan.simkit.cluster_shape import GpuPool
from gpuplan.simkit.time import MICROS
from gpuplan.simkit.workload import Workload

pytestmark = pytest.mark.kernels


def workload(*rows):
    """Jobs as (submit, run time, GPUs, deadline), seconds."""
    submit, service, gpus, deadline = (
        np.array(column) for column in zip(*((*row, 99)[:4] for row in rows), strict=True)
    )
    return Workload.from_seconds(submit, service, gpus, deadline)


def run(policy, gpus, jobs, gpus_per_node=None, **settings):
    """Run with free stops, and a limit of 2 s or GPU-seconds where a policy has limits."""
    scheduler = SCHEDULERS[policy]
    usual = {key: (2.0,) for key in scheduler.settings if key.startswith("limits")}
    usual |= {"checkpoint_s": 0.0, "restore_s": 0.0}
    values = scheduler.complete(usual | settings)
    return run_cluster(jobs, scheduler.cluster(values, GpuPool(gpus, gpus_per_node)))


def finishes(policy, gpus, jobs, **settings):
    return (run(policy, gpus, jobs, **settings).finish_us / MICROS).tolist()


BY_HAND = {
    # Job 0 holds 3 of 4 until 10; job 1 wants all 4; job 2 would fit, may not pass.
    "fifo": (4, [(0, 10, 3), (1, 5, 4), (2, 2, 1)], [10, 15, 17]),
    # Jobs 2, 3 and 4 pass job 1 on the third GPU, in the order in which they came.
    "first-fit": (
        3,
        [(0, 40, 2), (1, 5, 3), (2, 9, 1), (3, 4, 1), (4, 1, 1, 5)],
        [40, 45, 11, 15, 16],
    ),
    # Job 1 is narrower, so it stops job 0 at once although it is longer.
    "smallest": (2, [(0, 10, 2, 30), (0.5, 20, 1)], [30, 20.5]),
    # Nobody is stopped, and at 10 the shorter of two begins.
    "sjf": (1, [(0, 10, 1, 30), (1, 8, 1, 40), (2, 5, 1)], [10, 23, 15]),
    # At 1 job 0 has 9 s left, job 1 8 s on twice the GPUs.
    "srtf": (2, [(0, 10, 1, 30), (1, 8, 2)], [18, 9]),
    # At 1 job 0 has 9 s x 2 left, job 1 12 s x 1; at 31 job 2 19 s x 1, job 3 5 s x 2.
    "srsf": (2, [(0, 10, 2, 30), (1, 12, 1), (30, 20, 1, 70), (31, 5, 2)], [22, 13, 55, 36]),
    # Job 1 is longer, and due before.
    "edf": (1, [(0, 10, 1, 50), (1, 12, 1, 40)], [22, 13]),
    # Job 0 falls at 2, when it has run for 2 s, and job 1 is new. It falls at 4, and goes on.
    "las": (2, [(0, 10, 2, 30), (0.5, 20, 1)], [30, 22]),
    # The same jobs; with 2 GPUs job 0 falls at 1.
    "2d-las": (2, [(0, 10, 2, 30), (0.5, 20, 1)], [30, 21]),
    # Half of the jobs end after 1 s, so job 0 is worse than a new one from then on.
    "gittins": (
        1,
        [(0, 10, 1, 30), (0.5, 1, 1), (20, 10, 1, 50), (25, 1, 1)],
        [11, 2, 31, 26],
    ),
}


@pytest.mark.parametrize("policy", SCHEDULERS)
def test_a_schedule_that_only_this_policy_produces(policy):
    gpus, rows, expected = BY_HAND[policy]
    jobs = workload(*rows)
    assert finishes(policy, gpus, jobs) == expected
    same = [other for other in SCHEDULERS if finishes(other, gpus, jobs) == expected]
    assert same == [policy]


def test_a_stopped_job_pays_when_it_starts_again():
    jobs = workload((0, 10, 1), (4, 1, 1))
    stopped = run("srtf", 1, jobs, checkpoint_s=2.0, restore_s=0.5)
    assert (stopped.finish_us / MICROS).tolist() == [13.5, 5]
    assert stopped.stops.tolist() == [1, 0]
    assert (stopped.jqt_us / MICROS).tolist() == [1, 0]
    assert (stopped.held_us / MICROS).tolist() == [12.5, 1]


def test_what_resuming_costs_counts_as_time_left():
    # At 4 job 0 has 6 s left. Stopped, it would need 6 + 5: so job 2, of 8 s, goes first.
    jobs = workload((0, 10, 1), (4, 1, 1), (4, 8, 1))
    assert finishes("srtf", 1, jobs, restore_s=5.0) == [24, 5, 13]
    assert finishes("srtf", 1, jobs) == [11, 5, 19]


def test_a_job_that_still_fits_after_a_stop_goes_on():
    # Job 2 needs 4: jobs 1 (1 GPU) and 0 (8) are stopped, and job 1 fits beside it again.
    jobs = workload((0, 10, 8), (1, 9, 1), (2, 3, 4))
    found = run("srtf", 9, jobs, restore_s=1.0)
    assert (found.finish_us / MICROS).tolist() == [14, 10, 5]
    assert found.stops.tolist() == [1, 0, 0]


def test_starvation_makes_a_job_new_again():
    rows = [(0, 10, 1), *((at, 2, 1) for at in (1, 3, 5, 7, 9))]
    assert finishes("las", 1, workload(*rows)) == [20, 4, 6, 8, 10, 12]
    # Job 0 ran for 2 s and waits since 2: at 6 it is new, and the oldest; at 8 it falls again.
    assert finishes("las", 1, workload(*rows), starvation=2.0) == [20, 4, 6, 10, 12, 14]


def test_a_queue_of_the_published_simulator_is_a_list():
    # Jobs 0 and 2 fall at 2 s, job 1 at 4 s: it goes behind both, and they stop it.
    jobs = workload((0, 10, 1), (0, 3, 2), (0, 10, 1))
    published = run("las", 2, jobs, reference=True)
    assert (published.finish_us / MICROS).tolist() == [12, 13, 12]
    assert published.stops.tolist() == [1, 1, 1]
    # Without reference a job that runs is not stopped by jobs of its own queue.
    assert finishes("las", 2, jobs) == [13, 5, 13]


def test_switches():
    passing = workload((0, 10, 3), (1, 5, 4), (2, 2, 1))
    assert finishes("fifo", 4, passing, skipping=True) == finishes("first-fit", 4, passing)
    blocked = workload((0, 10, 3), (1, 2, 4), (2, 5, 1))
    assert finishes("sjf", 4, blocked, skipping=False) == [10, 12, 17]
    jobs = workload((0, 10, 1), (1, 8, 1), (2, 5, 1))
    assert finishes("srtf", 1, jobs, preemptive=False) == finishes("sjf", 1, jobs)
    # By whole run time job 2 stops job 1, although that has less left.
    assert finishes("sjf", 1, workload((0, 8, 1), (6, 5, 1)), preemptive=True) == [13, 11]
    # Job 2 passed job 1, and makes room for it when it fits.
    passed = workload((0, 4, 1), (1, 5, 2), (2, 20, 1))
    assert finishes("first-fit", 2, passed) == [4, 27, 22]


def test_gangs_stay_within_nodes():
    # Two nodes of 4: jobs 0 and 1 leave 1 GPU each, so job 2 waits although 2 are idle.
    jobs = workload((0, 10, 3), (0, 20, 3), (1, 5, 2), (2, 1, 5))
    assert finishes("first-fit", 8, jobs) == [10, 20, 6, 11]
    nodes = run("first-fit", 8, jobs, gpus_per_node=4)
    assert (nodes.finish_us / MICROS).tolist() == [10, 20, 15, 16]
    assert nodes.fragmented_gpu_us / MICROS == 9 * 2  # from 10 on job 3 is too wide for 3 GPUs


def test_a_gang_takes_the_fullest_node_it_fits_in():
    # Job 2 goes beside job 0, so that job 3 finds a whole node.
    jobs = workload((0, 10, 2), (1, 9, 1), (2, 8, 1), (3, 1, 4))
    assert finishes("fifo", 8, jobs, gpus_per_node=4) == [10, 10, 10, 4]


def test_gittins_index_by_hand():
    # Sizes 1 and 10: from 0 P = 1/2 within 1 unit, or 1 within 5.5; from 1 on 1 within 9.
    limits, ranks = gittins_levels(np.array([1, 10, 1, 10]), 8)
    assert limits.tolist() == [1, 10]
    assert ranks.tolist() == [0, 1, 2]
    # Equal sizes: the older, the nearer to its end.
    assert gittins_levels(np.full(5, 7), 3)[0].tolist() == [7]
    assert gittins_levels(np.zeros(3, np.int64), 3)[1].tolist() == [0]


def index_of(sizes, limits, at):
    """The index of a job that has attained ``limits[at]``, by its definition."""
    later = [size for size in sizes if size > limits[at]]
    return max(
        (
            Fraction(
                sum(size <= limit for size in later),
                sum(min(size, limit) - limits[at] for size in later),
            )
            for limit in limits[at + 1 :]
            if later
        ),
        default=Fraction(0),
    )


@given(st.lists(st.integers(0, 40), min_size=1, max_size=30), st.integers(1, 12))
def test_the_gittins_index_is_the_best_chance_to_end_per_service(sizes, levels):
    limits, ranks = gittins_levels(np.array(sizes), levels)
    edges = [0, *limits.tolist()]
    found = [index_of(sizes, edges, at) for at in range(len(edges))]
    order = sorted(set(found), reverse=True)
    assert ranks.tolist() == [order.index(index) for index in found]


def test_the_older_of_uniform_sizes_come_first():
    # The chance to end within the next second rises with age: 1/9 at first, 1 at the last.
    limits, ranks = gittins_levels(np.arange(1, 10), 9)
    assert limits[-1] == 9 and ranks[:-1].tolist() == list(range(limits.size))[::-1]


def test_equal_jobs_are_never_stopped_by_gittins():
    jobs = workload(*((at, 10, 1) for at in range(5)))
    assert run("gittins", 2, jobs).stops.sum() == 0


def test_peak_is_what_lets_nobody_wait():
    jobs = workload((0, 10, 3), (5, 10, 2), (10, 1, 2), (11, 0, 9))
    assert enough_gpus(jobs, Cluster(1)) == 11
    assert (run("fifo", 11, jobs).jqt_us == 0).all()
    assert (run("first-fit", 10, jobs).jqt_us > 0).any()


def test_whole_nodes_that_let_nobody_wait():
    # 16 GPUs are enough for 5 + 5 + 6, but no two of these gangs fit into one node of 8.
    jobs = workload((0, 10, 5), (0, 10, 5), (1, 9, 6), (10, 1, 16))
    assert enough_gpus(jobs, Cluster(8, gpus_per_node=8)) == 24
    assert enough_gpus(jobs, Cluster(8)) == 16


@pytest.mark.compiled
@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9), st.integers(1, 11)), min_size=1),
    st.sampled_from(list(SCHEDULERS)),
)
def test_fewest_nodes_are_found_by_trying(rows, policy):
    jobs = workload(*sorted(rows))

    def on(nodes):
        return run(policy, 4 * nodes, jobs, gpus_per_node=4)

    nodes = -(-int(jobs.gpus.max()) // 4)
    while (tried := on(nodes)).jqt_us.any() or tried.stops.any():
        nodes += 1
    assert enough_gpus(jobs, replace(tried.cluster, gpus=4)) == 4 * nodes
