"""The twin: 100,000 jobs on 128 nodes under EASY, and under all rules of a site."""

import time

import numpy as np

from benchmarks.bars import Row
from gpuplan.simkit.twin.jobs import NEVER, SiteJobs
from gpuplan.simkit.twin.simulator import replay_site
from gpuplan.simkit.twin.site import (
    SchedulerConfig,
    SiteAssociation,
    SiteCluster,
    SiteNode,
    SitePartition,
    SiteQos,
)

JOBS, NODES, GPUS, LOAD = 100_000, 128, 8, 0.97
ACCOUNTS, USERS = 12, 120
FULL = SchedulerConfig(
    order="multifactor", tiers=True, backfill="slurm", limits=True, events=True, w_age=1000,
    w_fairshare=10_000, w_size=100, w_partition=1000, w_qos=2000,
)  # fmt: skip


def site() -> SiteCluster:
    """Return three partitions on the same nodes and on a half of them, with limits."""
    nodes = tuple(SiteNode(f"n{i:03}", GPUS) for i in range(NODES))
    names = tuple(node.name for node in nodes)
    half = names[: NODES // 2]
    parts = (
        SitePartition("main", names),
        SitePartition("short", half),
        SitePartition("all", names),
    )
    qos = (SiteQos("normal", 0), SiteQos("high", 10))
    accounts = tuple(SiteAssociation(f"a{i}", grp_gpus=400) for i in range(ACCOUNTS))
    users = tuple(SiteAssociation(f"a{i % ACCOUNTS}", f"u{i}") for i in range(USERS))
    return SiteCluster(nodes, parts, qos, (*accounts, *users))


def jobs(seed: int = 0) -> SiteJobs:
    """Return jobs of one to 32 GPUs with limits of 1.2 to 5 times their run time."""
    rng = np.random.default_rng(seed)
    total = rng.choice([1, 2, 4, 8, 16, 32], JOBS, p=[0.5, 0.15, 0.15, 0.13, 0.05, 0.02])
    nodes = np.maximum(1, total // GPUS)
    run = np.maximum(1, rng.lognormal(7, 1.8, JOBS)).clip(max=7 * 86_400).astype(np.int64)
    span = float((run * total).sum()) / (LOAD * NODES * GPUS)
    submit = np.sort(rng.uniform(0, span, JOBS)).astype(np.int64)
    user, never = rng.integers(0, USERS, JOBS), np.full(JOBS, NEVER)
    zero = np.zeros(JOBS, np.int64)
    return SiteJobs(
        id=np.arange(JOBS), submit=submit, ready=submit, nodes=nodes, gpus=total // nodes,
        limit=(run * rng.uniform(1.2, 5, JOBS)).astype(np.int64) + 60, runtime=run, cancel=never,
        pinned=never, nice=zero, billing=total.astype(np.float64), user=user,
        account=user % ACCOUNTS, partition=rng.choice(3, JOBS, p=[0.7, 0.2, 0.1]),
        qos=(rng.uniform(size=JOBS) < 0.1).astype(np.int64), gpu_type=zero,
        users=tuple(f"u{i}" for i in range(USERS)),
        accounts=tuple(f"a{i}" for i in range(ACCOUNTS)), partitions=("main", "short", "all"),
        qoses=("normal", "high"), gpu_types=("",),
    )  # fmt: skip


def run() -> list[Row]:
    """Measure CPU time on one core after a first run."""
    cluster, every = site(), jobs()
    few = every.kept(np.arange(JOBS) < 500)
    rows = []
    for name, config, bar in (
        ("EASY", SchedulerConfig(backfill="easy"), "<= 2 s"),
        ("all rules", FULL, "<= 5 s"),
    ):
        replay_site(cluster, few, config)
        begin = time.process_time()
        found = replay_site(cluster, every, config)
        taken = time.process_time() - begin
        assert (found.start >= 0).all()
        rows.append(
            {
                "work": f"twin: {JOBS:,} jobs on {NODES} nodes, {name}, CPU",
                "ours_s": taken,
                "bar": bar,
            }
        )
    return rows
