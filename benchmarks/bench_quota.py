"""Quota schedulers of Kubernetes: 100,000 workloads on 50 queues in 10 cohorts at load 0.95.

Each cohort has five queues of 64 GPUs; queues borrow from each other, reclaim what they lent and
evict lower priorities. KAI has the same queues on nodes of 8 GPUs, and the first of the workloads;
those of priority 100 and more cannot be evicted there. Gangs of 16 need two empty nodes: with the
work that evictions lose, this is more than the nodes can do, and the backlog grows; with
checkpoints it does not. Times are CPU times of this process, kernels compiled before.
"""

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.bars import Row
from gpuplan.simkit.quota.kai_simulator import KaiJobs, KaiSite, replay_kai
from gpuplan.simkit.quota.kai_site import KaiQueue
from gpuplan.simkit.quota.simulator import QuotaRun, replay_quota
from gpuplan.simkit.quota.site import Quota, QuotaFlavor, QuotaJobs, QuotaQueue, QuotaSite

WORKLOADS, COHORTS, MEMBERS, GPUS, LOAD = 100_000, 10, 5, 64, 0.95
MEAN_RUN_S, SIGMA = 3600, 1.2
SIZES = {1: 0.5, 2: 0.15, 4: 0.15, 8: 0.15, 16: 0.05}
PRIORITIES = {0: 0.6, 100: 0.3, 200: 0.1}
KAI_WORKLOADS, NODE_GPUS = {20_000: "-", 50_000: "-", 100_000: "<= 10 s"}, 8
CHECKPOINT_S = 600
UNPREEMPTIBLE_PRIORITY = 100


def site(*, fair_sharing: bool) -> QuotaSite:
    """Return cohorts of equal queues that borrow, reclaim and evict."""
    flavor = (QuotaFlavor("h100", {"gpu": Quota(GPUS)}),)
    queues = tuple(
        QuotaQueue(
            f"team-{number:02}", (flavor,), f"cohort-{number // MEMBERS}",
            within_queue="LowerPriority", reclaim_within_cohort="Any",
        )
        for number in range(COHORTS * MEMBERS)
    )  # fmt: skip
    return QuotaSite(queues, fair_sharing=fair_sharing)


def workloads(seed: int = 0) -> QuotaJobs:
    """Return workloads that ask for this load of all GPUs, some teams for more than theirs."""
    rng = np.random.default_rng(seed)
    queues = COHORTS * MEMBERS
    queue = rng.choice(queues, WORKLOADS, p=rng.dirichlet(np.full(MEMBERS, 5.0), COHORTS).ravel()
                       / COHORTS)  # fmt: skip
    gpus = rng.choice(list(SIZES), WORKLOADS, p=list(SIZES.values()))
    priority = rng.choice(list(PRIORITIES), WORKLOADS, p=list(PRIORITIES.values()))
    run = rng.lognormal(np.log(MEAN_RUN_S) - SIGMA**2 / 2, SIGMA, WORKLOADS).astype(np.int64) + 1
    span = int((run * gpus).sum() / (LOAD * queues * GPUS))
    submit = np.sort(rng.integers(0, span, WORKLOADS))
    return QuotaJobs.of_gpus(queue, priority, submit, run, gpus)


def kai_site() -> KaiSite:
    """Return the same queues and GPUs for KAI, in nodes of 8."""
    departments = tuple(KaiQueue(f"cohort-{i}", created=i) for i in range(COHORTS))
    teams = tuple(
        KaiQueue(f"team-{i:02}", f"cohort-{i // MEMBERS}", deserved=GPUS, created=i)
        for i in range(COHORTS * MEMBERS)
    )
    return KaiSite((NODE_GPUS,) * (COHORTS * MEMBERS * GPUS // NODE_GPUS), departments + teams)


def kai_workloads(count: int) -> KaiJobs:
    """Return the first workloads as gangs of KAI."""
    jobs = workloads()
    sizes = np.array([pods[0].requests["gpu"] for pods in jobs.shapes])
    fixed = (jobs.priority >= UNPREEMPTIBLE_PRIORITY).astype(np.int64)
    columns = (jobs.queue + COHORTS, jobs.priority, fixed, jobs.submit, jobs.run, sizes[jobs.pods])
    queue, priority, fixed, submit, run_s, gpus = (column[:count] for column in columns)
    return KaiJobs.of_gpus(queue, priority, fixed, submit, run_s, gpus, NODE_GPUS)


def cpu_s(work: Callable[[], object]) -> float:
    """Return the CPU time of a call."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def run() -> list[Row]:
    """Measure the replay by order."""
    jobs = workloads()
    rows = []
    for order, fair_sharing in (("classical", False), ("fair sharing", True)):
        replayed: QuotaRun | None = None

        def replay(fair_sharing: bool = fair_sharing) -> None:
            nonlocal replayed
            replayed = replay_quota(site(fair_sharing=fair_sharing), jobs)

        replay()
        assert replayed is not None and replayed.evictions.sum() > 1000  # quotas decide something
        rows.append(
            {
                "work": f"Kueue, {order}: {WORKLOADS:,} workloads, {COHORTS * MEMBERS} queues, CPU",
                "ours_s": min(cpu_s(replay) for _ in range(2)),
                "bar": "<= 5 s" if not fair_sharing else "-",
            }
        )
    replay_kai(kai_site(), kai_workloads(200))
    for count, bar in KAI_WORKLOADS.items():
        gangs = kai_workloads(count)
        rows.append(
            {
                "work": f"KAI: {count:,} workloads, {COHORTS * MEMBERS} queues, CPU",
                "ours_s": cpu_s(partial(replay_kai, kai_site(), gangs)),
                "bar": bar,
            }
        )
    gangs = kai_workloads(WORKLOADS)
    rows.append(
        {
            "work": f"KAI: {WORKLOADS:,} workloads with checkpoints every {CHECKPOINT_S} s, CPU",
            "ours_s": cpu_s(lambda: replay_kai(kai_site(), gangs, checkpoint_s=CHECKPOINT_S)),
            "bar": "<= 10 s",
        }
    )
    return rows
