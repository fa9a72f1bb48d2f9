"""Logs whose waits a scheduler of known rules made: EASY on free GPUs, or a limit per user."""

from __future__ import annotations

import numpy as np
from support_traces import write_trace

from gpuplan.simkit.twin.jobs import NEVER, SiteJobs
from gpuplan.simkit.twin.simulator import replay_site
from gpuplan.simkit.twin.site import (
    SchedulerConfig,
    SiteCluster,
    SiteNode,
    SitePartition,
    SiteQos,
)

GPUS = 32
USERS = 6


def write_waits(path, *, user_gpus=None, jobs=600, load=0.95, gpus=GPUS, seed=1, **columns):
    """Write a trace whose waits EASY made on some GPUs, under a limit of GPUs per user or none.

    Args:
        path: of the trace.
        user_gpus: GPUs that a user may hold at once; None for no limit.
        jobs: how many.
        load: GPU time of the jobs over that of the cluster while they come.
        gpus: of the cluster.
        seed: of the jobs.
        columns: more columns of the trace.
    """
    rng = np.random.default_rng(seed)
    width = rng.choice([1, 2, 4, 8], jobs, p=[0.5, 0.2, 0.2, 0.1])
    run_s = np.maximum(rng.lognormal(np.log(3600), 1.2, jobs), 60).astype(np.int64)
    run_s = np.minimum(run_s, 86_400)
    span_s = float((run_s * width).sum()) / gpus / load
    submit_s = np.sort(rng.uniform(0, span_s, jobs)).astype(np.int64)
    user = rng.choice(USERS, jobs, p=[0.5, 0.1, 0.1, 0.1, 0.1, 0.1])
    none, zero = np.full(jobs, NEVER, np.int64), np.zeros(jobs, np.int64)
    limit_s = (run_s * rng.choice([1.2, 2.0, 5.0], jobs)).astype(np.int64)
    names = tuple(f"user{i}" for i in range(USERS))
    workload = SiteJobs(
        np.arange(jobs), submit_s, submit_s, np.ones(jobs, np.int64), width, limit_s, run_s, none,
        none, zero, width.astype(np.float64), user, zero, zero, zero, zero,
        names, ("lab",), ("all",), ("normal",), ("",),
    )  # fmt: skip
    site = SiteCluster(
        (SiteNode("n1", gpus),),
        (SitePartition("all", ("n1",)),),
        (SiteQos("normal", user_gpus=user_gpus),),
    )
    config = SchedulerConfig(backfill="easy", limits=user_gpus is not None)
    run = replay_site(site, workload, config)
    assert (run.start >= 0).all()
    return write_trace(
        path,
        submit_s,
        run_s.astype(float),
        width.astype(float).tolist(),
        job_id=[f"job-{i}" for i in range(jobs)],
        queue_s=(run.start - submit_s).astype(float),
        user=[names[i] for i in user],
        limit_s=limit_s.astype(float),
        state=["completed"] * jobs,
        **columns,
    )
