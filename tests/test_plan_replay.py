"""The joint replay against its plain twin, laws, and the kernels of single levers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support_boa_replay import paths_of, rules_of
from support_plan_replay import PlainJob, held_gpu_us, joint_jobs, plain_pool, plain_spot

from gpuplan.simkit.cluster.parameters import Cluster
from gpuplan.simkit.cluster.simulator import run_cluster
from gpuplan.simkit.elastic.simulator import run_widths
from gpuplan.simkit.plan.losses import draw_losses
from gpuplan.simkit.plan.policies import QUEUE_POLICIES
from gpuplan.simkit.plan.simulator import JointCluster, run_plan
from gpuplan.simkit.time import FOREVER, MICROS
from gpuplan.simkit.workload import Workload

pytestmark = pytest.mark.kernels


def leases_of(run):
    """Return single leases as (begin, end), sorted."""
    rows = zip(run.rented.begin_us, run.rented.end_us, run.rented.gpus, strict=True)
    return sorted((int(begin), int(end)) for begin, end, gpus in rows for _ in range(gpus))


@st.composite
def pool_jobs(draw):
    """A few jobs on the pool, some out of containers, some deferred; many at one instant."""
    time = st.integers(0, 12)
    submits = sorted(draw(st.lists(time, min_size=1, max_size=14)))
    jobs = []
    for submit in submits:
        kind = draw(st.sampled_from(["base", "base", "container", "defer"]))
        gpus = draw(st.sampled_from([0.5, 1, 2, 3, 4]))
        job = PlainJob(submit, draw(st.integers(0, 9)), gpus)
        if kind == "container":
            job.outside = draw(st.integers(1, 5))
        if kind == "defer":
            job.due = submit + draw(st.integers(0, 8))
        jobs.append(job)
    return jobs


@given(
    jobs=pool_jobs(),
    fixed=st.integers(0, 5),
    more=st.none() | st.integers(4, 9),
    node=st.sampled_from([1, 1, 2, 4]),
    provision=st.integers(0, 4),
    release=st.integers(0, 4),
    policy=st.sampled_from(QUEUE_POLICIES),
)
def test_the_pool_agrees_with_its_twin(jobs, fixed, more, node, provision, release, policy):
    most = None if more is None else fixed + more
    start, leases = plain_pool(
        jobs, fixed, most=most, node=node, provision=provision, release=release, policy=policy
    )
    cluster = JointCluster(fixed, most, node, provision, release, policy=policy)
    run = run_plan(joint_jobs(jobs), cluster)
    assert run.pool_start_us.tolist() == [start[i] for i in range(len(jobs))]
    assert leases_of(run) == leases


@given(
    work=st.integers(0, 40),
    submit=st.integers(0, 9),
    tau=st.sampled_from([1, 3, 7, FOREVER]),
    checkpoint=st.integers(0, 2),
    restart=st.integers(0, 3),
    losses=st.lists(st.integers(0, 60), max_size=8),
    gone=st.lists(st.integers(0, 60), max_size=4, unique=True),
)
def test_spot_gangs_agree_with_their_twin(work, submit, tau, checkpoint, restart, losses, gone):
    edges = sorted(gone)[: len(gone) // 2 * 2]
    outages = list(zip(edges[::2], edges[1::2], strict=True))
    job = PlainJob(submit, work, spot=True, tau=tau, losses=sorted(losses))
    table = np.array(outages, np.int64).reshape(-1, 2)
    cluster = JointCluster(0, checkpoint_us=checkpoint, restart_us=restart, gone_us=table)
    run = run_plan(joint_jobs([job]), cluster)
    values = (run.start_us, run.finish_us, run.spot_held_us, run.checkpoints, run.stops)
    expected = plain_spot(job, checkpoint, restart, outages)
    assert tuple(int(value[0]) for value in values) == expected


@given(jobs=pool_jobs(), fixed=st.integers(0, 6))
def test_without_delays_leases_are_the_demand_above_the_pool(jobs, fixed):
    """Law: without start-up, release and billing steps, GPU time on demand = area above O + K."""
    jobs = [job for job in jobs if job.due < 0]
    for job in jobs:
        job.gpus = max(1, int(job.gpus))
    run = run_plan(joint_jobs(jobs), JointCluster(fixed))
    joined = [job.submit + job.outside for job in jobs]
    assert run.pool_start_us.tolist() == joined
    demand = [
        sum(job.gpus for job, at in zip(jobs, joined, strict=True) if at <= second < at + job.run)
        for second in range(40)
    ]
    assert run.billed_gpu_us() == sum(max(0, gpus - fixed) for gpus in demand)


@given(jobs=pool_jobs(), fixed=st.integers(0, 6), release=st.integers(0, 4))
def test_gpu_time_is_conserved(jobs, fixed, release):
    """Jobs hold what the pool and leases give; leases are for no less than what is above it."""
    run = run_plan(joint_jobs(jobs), JointCluster(fixed, release_us=release, provision_us=2))
    held = sum(job.run * job.gpus + job.outside * job.gpus for job in jobs)
    assert held_gpu_us(run).sum() == pytest.approx(held)
    ends = run.pool_start_us + [job.run for job in jobs]
    above = 0.0
    for second in range(200):
        used = sum(
            job.gpus
            for job, begin, end in zip(jobs, run.pool_start_us, ends, strict=True)
            if begin <= second < end
        )
        above += max(0.0, used - fixed)
    assert run.rented.gpu_us >= above - 1e-9
    parts = run.billed_gpu_us(0, 7) + run.billed_gpu_us(7)
    assert parts == run.billed_gpu_us() == run.rented.gpu_us


def drawn_jobs(size=400, seed=0):
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.integers(0, 20_000, size)) * MICROS
    run = rng.integers(1, 900, size) * MICROS
    gpus = rng.choice([1, 1, 2, 4, 8], size)
    return submit, run, gpus


@pytest.mark.parametrize(
    ("policy", "order", "skipping"),
    [("first-fit", "arrival", True), ("fifo", "arrival", False), ("sjf", "duration", True)],
)
def test_the_pool_alone_is_a_cluster_under_the_policy(policy, order, skipping):
    submit, run_us, gpus = drawn_jobs()
    jobs = [
        PlainJob(*row) for row in zip(submit.tolist(), run_us.tolist(), gpus.tolist(), strict=True)
    ]
    run = run_plan(joint_jobs(jobs), JointCluster(24, 24, policy=policy))
    cluster = Cluster(gpus=24, order=order, preemptive=False, skipping=skipping)
    never = np.full(submit.size, FOREVER)
    other = run_cluster(Workload(submit, run_us, gpus, never, gpus.astype(float)), cluster)
    assert (run.waited_us > 0).sum() > 50
    assert run.start_us.tolist() == other.start_us.tolist()
    assert run.finish_us.tolist() == other.finish_us.tolist()


@pytest.mark.parametrize(
    ("one_gpu", "provision_s", "most"), [(False, 0, 1 << 40), (True, 90, 1 << 40), (True, 90, 6)]
)
def test_leases_alone_are_the_rented_nodes_of_fixed_widths(one_gpu, provision_s, most):
    submit, run_us, gpus = drawn_jobs()
    gpus = np.ones_like(gpus) if one_gpu else gpus
    rows = zip(submit.tolist(), run_us.tolist(), gpus.tolist(), strict=True)
    delays = {"provision_us": provision_s * MICROS, "release_us": 30 * MICROS}
    bound = None if most > 100 else most
    run = run_plan(joint_jobs([PlainJob(*row) for row in rows]), JointCluster(0, bound, **delays))
    widths = np.unique(gpus)
    paths = paths_of(*(((int(width),), (0,), ((1.0,),), 0) for width in widths))
    rules = rules_of(max_nodes=most, **delays)
    path = np.searchsorted(widths, gpus)
    other = run_widths(submit, path, run_us.astype(float), paths, rules)
    assert run.start_us.tolist() == other.start_us.tolist()
    assert run.finish_us.tolist() == other.finish_us.tolist()
    held = run.rented.end_us - run.rented.begin_us
    assert sorted(np.repeat(held, run.rented.gpus).tolist()) == sorted(
        np.repeat(other.lease_us, other.lease_gpus).tolist()
    )


def test_losses_are_a_poisson_process_for_each_gang():
    gangs, begin = np.arange(3000), np.full(3000, 7)
    until, mean = np.full(3000, 7 + 1_000_000), np.full(3000, 100_000.0)
    loss, first = draw_losses(gangs, begin, until, mean, 1)
    counts = np.diff(first)
    assert counts.mean() == pytest.approx(10, rel=0.03)
    assert counts.var() == pytest.approx(10, rel=0.1)
    gaps = np.diff(loss)[np.diff(np.repeat(gangs, counts)) == 0]
    assert gaps.min() >= 0 and np.median(gaps) < 100_000 * np.log(2)
    ends = loss[first[:-1][counts > 0]] - 7
    assert (ends < 100_000).mean() == pytest.approx(1 - np.exp(-1), rel=0.05)
    assert abs(np.corrcoef(counts[:-1], counts[1:])[0, 1]) < 0.06


def test_a_gang_has_its_draws_whatever_the_others_and_the_hazard():
    begin, until, mean = np.zeros(4, np.int64), np.full(4, 10**9), np.full(4, 1e7)
    loss, first = draw_losses(np.arange(4), begin, until, mean, 5)
    alone, _ = draw_losses(np.array([2]), begin[:1], until[:1], mean[:1], 5)
    assert alone.tolist() == loss[first[2] : first[3]].tolist()
    twice, _ = draw_losses(np.array([2]), begin[:1], until[:1] // 2, mean[:1] / 2, 5)
    assert twice == pytest.approx(alone / 2, abs=1)
    other, _ = draw_losses(np.array([2]), begin[:1], until[:1], mean[:1], 6)
    assert other.tolist() != alone.tolist()
    greatest, _ = draw_losses(np.array([2]), begin[:1], until[:1], mean[:1], 2**64 - 1)
    assert greatest.size and greatest.tolist() != alone.tolist()
    never, first = draw_losses(np.arange(4), begin, until, mean * np.inf, 5)
    assert never.size == 0 and first.tolist() == [0] * 5


def test_a_job_wider_than_what_can_be_had_is_refused():
    jobs = joint_jobs([PlainJob(0, 5, 6)])
    with pytest.raises(ValueError, match="a job holds 6 GPUs, but at most 5 can be had"):
        run_plan(jobs, JointCluster(2, 5))
