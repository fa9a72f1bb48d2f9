"""The kernel of one cluster against its slow twin, and laws that hold for every schedule."""

from dataclasses import replace
from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support_cluster import run_twin, segments_of, without_repeats

from gpuplan.simkit.cluster.parameters import ORDERS, PUBLISHED, Cluster
from gpuplan.simkit.cluster.simulator import run_cluster
from gpuplan.simkit.time import MICROS
from gpuplan.simkit.workload import Workload

pytestmark = pytest.mark.kernels

GPUS = 8


@st.composite
def workloads(draw, most=14):
    """Jobs that crowd 8 GPUs: many at one instant, some of no length, some with equal keys."""
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, 12),
                st.integers(0, 20),
                st.sampled_from([1, 1, 2, 3, 4, 5, 8]),
                st.integers(0, 60),
                st.sampled_from([0, 0, 1, 4]),
            ),
            min_size=1,
            max_size=most,
        )
    )
    columns = (np.array(column) for column in zip(*sorted(rows), strict=True))
    submit, service, gpus, slack, overhead = columns
    part = draw(st.sampled_from([1, 1, 4]))  # what as_published rounds is not whole
    submit, service, slack = submit / part, service / part, slack / part
    jobs = Workload.from_seconds(submit, service, gpus, submit + slack)
    own = [draw(st.sampled_from([None, None, overhead * MICROS // part])) for part in (1, 2)]
    return replace(jobs, checkpoint_us=own[0], restore_us=own[1])


@st.composite
def clusters(draw):
    if draw(st.integers(0, 3)) == 0:
        order = draw(st.sampled_from(["arrival", *PUBLISHED]))
        limits = draw(st.sampled_from([(3.0, 9.0), (2.5,), (1.0, 2.0, 30.0)]))
        first = order == "arrival"
        return Cluster(
            GPUS, order, preemptive=not first, skipping=not first, limits=limits, as_published=True
        )
    order = draw(st.sampled_from(ORDERS))
    return Cluster(
        gpus=GPUS,
        order=order,
        preemptive=draw(st.booleans()),
        skipping=draw(st.booleans()),
        checkpoint_s=draw(st.sampled_from([0.0, 0.0, 1.0, 2.5])),
        restore_s=draw(st.sampled_from([0.0, 1.0])),
        gpus_per_node=draw(st.sampled_from([None, None, 2, 4, 8])),
        limits=draw(st.sampled_from([(3.0, 9.0), (2.5,), (1.0, 2.0, 30.0)])),
        levels=draw(st.integers(1, 6)),
        starvation=draw(st.sampled_from([None, None, 0.5, 2.0])),
    )


def cases(most=14):
    """A workload and its cluster; stops as published cost nothing."""

    def fitting(case):
        workload, cluster = case
        if cluster.as_published:
            workload = replace(workload, checkpoint_us=None, restore_us=None)
        return workload, cluster

    return st.tuples(workloads(most), clusters()).map(fitting)


def rows(run):
    columns = (run.start_us, run.finish_us, run.held_us, run.stops)
    timeline = zip(run.time_us.tolist(), run.used.tolist(), run.waiting.tolist(), strict=True)
    return [tuple(map(int, row)) for row in zip(*columns, strict=True)], without_repeats(
        list(timeline)
    )


@pytest.mark.compiled
@settings(max_examples=60)
@given(cases())
def test_the_kernel_does_what_its_twin_does(case):
    assert rows(run_cluster(*case)) == run_twin(*case)


@pytest.mark.slow
@settings(max_examples=1000)
@given(cases(most=20))
def test_the_kernel_does_what_its_twin_does_in_many_more_cases(case):
    assert rows(run_cluster(*case)) == run_twin(*case)


@settings(max_examples=50)
@given(
    workloads(most=30),
    st.sampled_from(["attained", "attained_gpu"]),
    st.sampled_from([(3.0, 9.0), (1.0, 2.0, 30.0), (7.0,)]),
)
def test_the_queues_of_the_published_simulator_do_what_their_twin_does(workload, order, limits):
    free = replace(workload, checkpoint_us=None, restore_us=None)
    cluster = Cluster(GPUS, order, True, True, limits=limits, as_published=True)
    assert rows(run_cluster(free, cluster)) == run_twin(free, cluster)


@pytest.mark.compiled
@settings(max_examples=60)
@given(cases(most=30))
def test_laws_of_every_schedule(case):
    run, cluster = run_cluster(*case), case[1]
    workload = run.workload  # as_published in whole seconds
    assert (run.start_us >= workload.submit_us).all()
    assert (run.jct_us >= run.held_us).all() and (run.held_us >= workload.service_us).all()
    overhead_us = sum(workload.overheads_us(cluster.checkpoint_s, cluster.restore_s))
    assert (run.held_us - workload.service_us <= run.stops * overhead_us).all()
    # Little's law, and its like for GPUs, hold to the microsecond.
    lasts = np.diff(np.append(run.time_us, run.finish_us.max()))
    assert (run.waiting * lasts).sum() == run.jqt_us.sum()
    assert (run.used * lasts).sum() == (run.held_us * workload.gpus).sum()
    if not cluster.preemptive:
        assert not run.stops.any()


@pytest.mark.compiled
@settings(max_examples=40)
@given(cases(most=20))
def test_no_gpu_is_held_twice_and_none_is_idle_that_a_waiting_job_could_have(case):
    check_who_holds(case)


@pytest.mark.slow
@settings(max_examples=1000)
@given(cases(most=25))
def test_no_gpu_is_held_twice_in_a_thousand_cases(case):
    check_who_holds(case)


def check_who_holds(case):
    """No GPU is held twice, and none is idle that a waiting job could have."""
    run, cluster = run_cluster(*case), case[1]
    workload, segments = run.workload, segments_of(*case)
    held_us = np.zeros(workload.size, np.int64)
    for job, begin, end, _ in segments:
        held_us[job] += end - begin
    assert (held_us == run.held_us).all()
    for now, used, waiting in zip(run.time_us, run.used, run.waiting, strict=True):
        holds = [part for part in segments if part[1] <= now < part[2]]
        running = {job for job, *_ in holds}
        there = np.flatnonzero((workload.submit_us <= now) & (now < run.finish_us))
        waits = [job for job in there.tolist() if job not in running]
        if now in run.finish_us[workload.service_us == 0]:
            continue  # some last no time here
        assert len(running) == len(holds) and running <= set(there.tolist())
        assert workload.gpus[sorted(running)].sum() == used <= cluster.gpus
        assert len(waits) == waiting
        free = room_left(cluster, holds, workload.gpus)
        could = [finds_room(free, int(workload.gpus[job]), cluster.gpus_per_node) for job in waits]
        # Where nobody passes only the first must lack room.
        assert not waits or not (any(could) if cluster.skipping else all(could))
        key = static_key(cluster, workload)
        if key is None or cluster.gpus_per_node:
            continue
        if not cluster.skipping:
            waits = sorted(waits, key=lambda job: (key[job], job))[:1]
        for job in waits:  # nor with what running jobs of a worse key hold
            worse = [other for other in running if key[other] > key[job] and cluster.preemptive]
            assert workload.gpus[job] > sum(free) + workload.gpus[worse].sum()


def room_left(cluster, holds, gpus):
    """Return the free GPUs of each node, from who holds what; of one node where none are given."""
    each = cluster.gpus_per_node
    if not each:
        return [cluster.gpus - sum(gpus[job] for job, *_ in holds)]
    free = [each] * (cluster.gpus // each)
    for job, _, _, nodes in holds:
        assert sum(part for _, part in nodes) == gpus[job]
        assert len(nodes) == -(-gpus[job] // each)  # a gang is in as few as can hold it
        for node, part in nodes:
            free[node] -= part
    assert min(free) >= 0
    return free


def finds_room(free, width, each):
    whole, rest = divmod(width, each or width)
    if not each:
        return free[0] >= width
    left = sorted(free)[: len(free) - whole]
    return free.count(each) >= whole and (rest == 0 or max(left, default=0) >= rest)


def static_key(cluster, workload):
    """Return what jobs are sorted by where that never changes, else None."""
    return {
        "arrival": np.zeros(workload.size),
        "width": workload.gpus,
        "duration": workload.service_us,
        "deadline": workload.deadline_us,
    }.get(cluster.order)


@pytest.mark.compiled
@settings(max_examples=50)
@given(workloads(most=30), clusters())
def test_least_time_left_first_is_best_on_one_gpu(workload, cluster):
    alone = replace_gpus(workload)
    free = replace(
        cluster, gpus=1, gpus_per_node=None, checkpoint_s=0.0, restore_s=0.0, as_published=False
    )
    alone = replace(alone, checkpoint_us=None, restore_us=None)
    best = run_cluster(alone, replace(free, order="remaining", preemptive=True))
    assert best.jct_us.sum() <= run_cluster(alone, free).jct_us.sum()


@pytest.mark.compiled
@settings(max_examples=60)
@given(workloads(most=8))
def test_nearest_deadline_first_meets_every_deadline_that_can_be_met(workload):
    alone = replace(replace_gpus(workload), checkpoint_us=None, restore_us=None)
    run = run_cluster(alone, Cluster(1, "deadline", preemptive=True))
    submit, due = alone.submit_us, alone.deadline_us
    fits = all(
        alone.service_us[(submit >= begin) & (due <= end)].sum() <= end - begin
        for begin in submit
        for end in due[due >= begin]
    )  # the demand bound function is never above the capacity
    assert (run.finish_us <= due).all() == fits


def replace_gpus(workload):
    ones = np.ones(workload.size, np.int64)
    return replace(workload, gpus=ones, billed_gpus=ones.astype(float))


def poisson(rate, service_s, seed):
    submit = np.cumsum(np.random.default_rng(seed).exponential(1 / rate, service_s.size))
    return Workload.from_seconds(submit, service_s, np.ones(service_s.size, int), submit)


def mean_wait_s(run):
    """Return the mean wait, and four standard errors of it from 50 batches."""
    batches = run.jqt_us[: run.jqt_us.size // 50 * 50].reshape(50, -1).mean(1) / MICROS
    return batches.mean(), 4 * batches.std(ddof=1) / np.sqrt(50)


@pytest.mark.compiled
def test_mean_wait_of_many_servers():
    servers, rate, jobs = 4, 3.2, 200_000
    run = run_cluster(
        poisson(rate, np.random.default_rng(1).exponential(1.0, jobs), 2), Cluster(servers)
    )
    terms = [rate**k / factorial(k) for k in range(servers)]
    last = rate**servers / factorial(servers) / (1 - rate / servers)
    erlang_c = last / (sum(terms) + last)
    wait, margin = mean_wait_s(run)
    assert wait == pytest.approx(erlang_c / (servers - rate), abs=margin)


@pytest.mark.compiled
def test_mean_wait_by_pollaczek_and_khinchine():
    service = np.random.default_rng(3).lognormal(-0.5, 1.0, 200_000)  # mean 1, second moment e
    rate = 0.6
    wait, margin = mean_wait_s(run_cluster(poisson(rate, service, 4), Cluster(1)))
    assert wait == pytest.approx(rate * np.e / (2 * (1 - rate)), abs=margin)


@pytest.mark.compiled
def test_mean_time_by_shortest_left():
    # M/M/1 under SRPT at load 0.5, Schrage and Miller (1966): by quadrature.
    rate = 0.5
    run = run_cluster(
        poisson(rate, np.random.default_rng(5).exponential(1.0, 100_000), 6),
        Cluster(1, "remaining", preemptive=True),
    )
    x = np.linspace(0, 40, 400_001)
    step = x[1]
    density, tail = np.exp(-x), np.exp(-x)
    load = rate * np.cumsum(x * density) * step
    second = np.cumsum(x**2 * density) * step
    waits = rate * (second + x**2 * tail) / (2 * (1 - load) ** 2)
    stays = np.cumsum(1 / (1 - load)) * step
    expected = ((waits + stays) * density).sum() * step
    assert run.jct_us.mean() / MICROS == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"order": "luck"}, "order must be one of arrival"),
        ({"gpus": 0}, "1 to 16,777,216"),
        ({"gpus_per_node": 3}, "whole nodes"),
        ({"order": "deadline", "as_published": True}, "has no order"),
        ({"order": "width", "as_published": True}, "is preemptive and skips"),
        ({"preemptive": True, "as_published": True}, "is not preemptive"),
        ({"restore_s": 1.0, "as_published": True}, "without checkpoint_s"),
    ],
)
def test_clusters_that_cannot_be(changes, problem):
    with pytest.raises(ValueError, match=problem):
        Cluster(**{"gpus": GPUS} | changes)


def test_what_a_stop_costs_is_the_jobs_own():
    # The job of 10 s is stopped at 1, 3 and 5 s for jobs of 1 s, and pays 2 + 1 s each time;
    # stopped while it pays, after 1 of 3 s, it pays again.
    jobs = Workload.from_seconds([0, 1, 3, 5], [10, 1, 1, 1], [1] * 4, [99] * 4)
    zero = np.zeros(4, np.int64)
    own = replace(
        jobs, checkpoint_us=zero + 2 * MICROS, restore_us=np.array([1, 50, 50, 50]) * MICROS
    )
    cluster = Cluster(1, "remaining", preemptive=True, checkpoint_s=9.0, restore_s=9.0)
    run = run_cluster(own, cluster)
    assert (run.finish_us / MICROS).tolist() == [18, 2, 4, 6]
    assert run.held_us[0] == (1 + 1 + 1 + 3 + 9) * MICROS
    same = run_cluster(jobs, replace(cluster, checkpoint_s=2.0, restore_s=1.0))
    assert (same.finish_us == run.finish_us).all()


def test_runs_that_cannot_be():
    wide = Workload.from_seconds([0], [1], [9], [1])
    with pytest.raises(ValueError, match="holds 9 GPUs, the cluster has 8"):
        run_cluster(wide, Cluster(GPUS))
    long = Workload.from_seconds([0, 0], [9e11, 9e11], [1, 1], [1, 1])
    with pytest.raises(ValueError, match="36,000 years"):
        run_cluster(long, Cluster(GPUS))
    one = np.ones(1, np.int64)
    own = replace(Workload.from_seconds([0], [1], [1], [1]), checkpoint_us=one)
    with pytest.raises(ValueError, match="without checkpoint and restore"):
        run_cluster(own, Cluster(GPUS, as_published=True))
