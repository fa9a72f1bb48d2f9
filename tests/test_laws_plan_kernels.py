"""Laws: with one lever on, the joint replay of a plan is that lever's own kernel, job by job.

Containers against Allpass', spot gangs against GFS'. What each has that the other has not is set so
that it does nothing:

- Allpass rents workers at ticks and lets no job overtake the head of its queue. Here its workers
  are always there, as many as the pool has GPUs, and jobs that may have to wait are of one width.
- GFS takes spot GPUs back for tasks of high priority, and its checkpoints take no time. Here such
  tasks hold the whole pool, and stand for times without spot GPUs. A loss after which a gang may go
  on at once is such a task of one second, which the restart is shorter by. At the very instant at
  which a restart or checkpoint ends, a loss takes nothing in the joint replay, but GFS restarts the
  task: no loss is at such an instant here.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support_plan import jobs_from, market
from support_plan_replay import PlainJob, held_gpu_us, joint_jobs

from gpuplan.planner.plan.assignment import assigned_jobs
from gpuplan.planner.plan.columns import route_columns
from gpuplan.planner.plan.replay import RentingTerms, replay_plan
from gpuplan.simkit.allpass.parameters import Allpass, Draws
from gpuplan.simkit.allpass.simulator import run_allpass
from gpuplan.simkit.plan.simulator import JointCluster, run_plan
from gpuplan.simkit.spot.parameters import SCHEDULERS
from gpuplan.simkit.spot.simulator import SpotWorkload, simulate_spot
from gpuplan.simkit.time import MICROS
from gpuplan.simkit.workload import Workload

pytestmark = pytest.mark.kernels

NO_TIME = np.zeros(1, np.int64)


def in_containers(submit_s, run_s, gpus, *, leave_s, workers, save_s, load_s):
    """Return Allpass' run of jobs that leave containers for workers which are always there."""
    micros = [np.asarray(times, np.int64) * MICROS for times in (submit_s, run_s)]
    gpus = np.asarray(gpus, np.int64)
    workload = Workload(*micros, gpus, np.full(gpus.size, 10**12), gpus.astype(float))
    rules = Allpass(
        controller="fixed", threshold_s=leave_s, threshold_rule="admission",
        scaling="utilization", min_workers=workers, capacity=workers, queue_order="submission",
        checkpoint_s=save_s, restore_s=load_s,
    )  # fmt: skip
    return run_allpass(workload, rules, Draws(np.zeros_like(gpus), NO_TIME, NO_TIME))


def containers_then_pool(submit, run, gpus, *, leave, save, load):
    """Return the same job as the joint replay takes it."""
    if run <= leave:
        return PlainJob(submit * MICROS, gpus=gpus, pool=False, outside=run * MICROS)
    rest = (load + run - leave) * MICROS
    return PlainJob(submit * MICROS, rest, gpus, outside=(leave + save) * MICROS)


def same_as_allpass(run, other, gpus):
    assert run.finish_us.tolist() == other.finish_us.tolist()
    assert run.start_us.tolist() == other.start_us.tolist()
    assert run.jobs.outside_us.tolist() == other.container_us.tolist()
    assert run.waited_us.tolist() == other.queue_us.tolist()
    workers = np.maximum(run.jobs.pool_us, 0) * gpus
    assert workers.tolist() == other.worker_us.tolist()
    assert held_gpu_us(run).tolist() == other.held_gpu_us.tolist()


@given(
    times=st.lists(st.tuples(st.integers(0, 300), st.integers(1, 200)), min_size=1, max_size=25),
    width=st.integers(1, 3),
    room=st.integers(1, 6),
    leave=st.integers(1, 120),
    save=st.integers(0, 50),
    load=st.integers(0, 50),
)
def test_containers_before_a_pool_are_those_of_allpass(times, width, room, leave, save, load):
    submit, run = zip(*sorted(times, key=lambda job: job[0]), strict=True)
    gpus = np.full(len(submit), width)
    rules = {"leave_s": leave, "workers": width * room, "save_s": save, "load_s": load}
    other = in_containers(submit, run, gpus, **rules)
    jobs = [
        containers_then_pool(*job, width, leave=leave, save=save, load=load)
        for job in zip(submit, run, strict=True)
    ]
    joint = run_plan(joint_jobs(jobs), JointCluster(width * room, width * room))
    same_as_allpass(joint, other, gpus)


@given(
    jobs=st.lists(
        st.tuples(st.integers(0, 300), st.integers(1, 200), st.integers(1, 9)),
        min_size=1,
        max_size=25,
    ),
    leave=st.integers(1, 120),
)
def test_containers_before_a_pool_for_all_are_those_of_allpass(jobs, leave):
    """Jobs of all widths, none of which waits."""
    submit, run, gpus = zip(*sorted(jobs, key=lambda job: job[0]), strict=True)
    room = sum(gpus)
    other = in_containers(submit, run, gpus, leave_s=leave, workers=room, save_s=42, load_s=42)
    plain = [
        containers_then_pool(*job, leave=leave, save=42, load=42)
        for job in zip(submit, run, gpus, strict=True)
    ]
    same_as_allpass(run_plan(joint_jobs(plain), JointCluster(room, room)), other, np.array(gpus))


@pytest.mark.parametrize("route", ["serverless 60", "serverless 300", "serverless never"])
def test_a_plan_with_containers_alone_is_a_run_of_allpass(route):
    rng = np.random.default_rng(8)
    submit = np.sort(rng.integers(0, 6000, 400)).astype(float)
    submit -= submit[0]
    run_s = rng.lognormal(5, 1.5, 400).round() + 1
    jobs = jobs_from(submit, run_s, np.ones(400))
    columns = route_columns(jobs, {"": market(0.9, 1.29, serverless_usd=2.1)})
    share = np.array([float(each.name == route) for each in columns.routes])
    assigned = assigned_jobs(columns, share)
    pool = 12
    run = (
        replay_plan(columns, assigned, np.array([pool]), RentingTerms(), caps={"": float(pool)})
        .types[0]
        .run
    )
    leave_s = {"60": 60.0, "300": 300.0}.get(route.split()[1], np.inf)
    rules = {"leave_s": leave_s, "workers": pool, "save_s": 42.0, "load_s": 42.0}
    other = in_containers(submit, run_s, np.ones(400), **rules)
    assert other.demoted.any() == (route != "serverless never")
    assert (other.queue_us > 0).any() == (route != "serverless never")
    same_as_allpass(run, other, 1)
    held = run.gpu_us_outside().sum()
    assert held * 2.1 / MICROS / 3600 == pytest.approx(other.serverless_usd.sum())


def gfs_run(tasks, urgent, *, gpus, tau, restart):
    """Return GFS' run of spot tasks (submit, run, GPUs), and of tasks that take the whole pool.

    ``urgent`` are (begin, seconds), none before the one before it has ended.
    """
    rows = [(submit, run, False, held) for submit, run, held in tasks]
    rows += [(begin, lasting, True, gpus) for begin, lasting in urgent]
    order = sorted(range(len(rows)), key=lambda i: rows[i][0])
    submit, run, is_urgent, held = (
        np.array(x) for x in zip(*(rows[i] for i in order), strict=True)
    )
    workload = SpotWorkload(submit, run, is_urgent, np.ones_like(submit), 1000 * held)
    rules = replace(
        SCHEDULERS["first-fit"], grace_s=0, checkpoint_s=tau, restart_s=restart,
        restart_gang_s=restart,
    )  # fmt: skip
    other = simulate_spot(np.array([gpus]), workload, rules, horizon_s=1_000_000)
    place = np.argsort(order)[: len(tasks)]
    begun = [other.first_start_s[place], other.finish_s[place], other.evictions[place]]
    held_s = np.bincount(other.run_task, other.run_stop_s - other.run_start_s, len(rows))[place]
    return [values.tolist() for values in (*begun, held_s)]


@given(
    tasks=st.lists(
        st.tuples(st.integers(0, 40), st.integers(1, 60), st.integers(1, 8)),
        min_size=1,
        max_size=6,
    ),
    edges=st.lists(st.integers(0, 120), max_size=12, unique=True),
    tau=st.integers(1, 25),
    restart=st.integers(0, 9),
)
def test_gangs_without_spot_gpus_for_a_time_are_evicted_tasks_of_gfs(tasks, edges, tau, restart):
    edges = sorted(edges)[: len(edges) // 2 * 2]
    gone = list(zip(edges[::2], edges[1::2], strict=True))
    tasks = sorted(tasks, key=lambda task: task[0])
    urgent = [(begin, end - begin) for begin, end in gone]
    other = gfs_run(tasks, urgent, gpus=sum(task[2] for task in tasks), tau=tau, restart=restart)
    jobs = [PlainJob(submit, run, gpus, spot=True, tau=tau) for submit, run, gpus in tasks]
    table = np.array(gone, np.int64).reshape(-1, 2)
    cluster = JointCluster(0, checkpoint_us=0, restart_us=restart, gone_us=table)
    run = run_plan(joint_jobs(jobs), cluster)
    values = (run.start_us, run.finish_us, run.stops, run.spot_held_us)
    assert [value.tolist() for value in values] == other


@given(
    work=st.integers(1, 30),
    tau=st.integers(1, 12),
    restart=st.integers(1, 4),
    losses=st.lists(st.integers(0, 40), max_size=8, unique=True),
)
def test_losses_of_a_gang_are_evictions_of_gfs_for_a_second(work, tau, restart, losses):
    """All in thousands of seconds, and the k-th loss k seconds later: none is as something ends."""
    unit = 1000
    losses = [unit * at + k for k, at in enumerate(sorted(losses), start=1)]
    restart_s = unit * restart
    (start, finish, stops, _) = gfs_run(
        [(0, unit * work, 4)],
        [(at, 1) for at in losses],
        gpus=4,
        tau=unit * tau,
        restart=restart_s - 1,
    )
    job = PlainJob(0, unit * work, 4, spot=True, tau=unit * tau, losses=losses)
    run = run_plan(joint_jobs([job]), JointCluster(0, checkpoint_us=0, restart_us=restart_s))
    assert run.start_us.tolist() == start and run.finish_us.tolist() == finish
    assert run.stops.tolist() == stops
    assert run.spot_held_us.tolist() == [finish[0] - start[0]]
