"""Replays of jobs on pools of GPUs under a policy: of today beside the log, and moved by chance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuplan.analysis.characterize.today import Today
from gpuplan.analysis.job_table.gpu_names import UNNAMED
from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.runs.recorded_waits import joined, paired_waits
from gpuplan.planner.runs.trace_jobs import TraceJobs, chosen_jobs
from gpuplan.planner.site.fidelity import (
    Fidelity,
    TodayReplay,
    fidelity_of,
    least_faithful,
    of_whole_gpus,
    replay_today,
    replayed_waits,
    unknown,
)
from gpuplan.planner.sized_policy import sized_policy
from gpuplan.planner.sizing.pools import JobPool, without_growth
from gpuplan.planner.sizing.targets import whole_multiple
from gpuplan.planner.twin.workload import JITTER_S
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.time import MICROS


def pool_gpus(pool: JobPool) -> int:
    """Return today's GPUs of a pool: as given, or the most held at once, in whole nodes."""
    node = pool.gpus_per_node or 1
    stated = None if pool.shape is None else pool.shape.gpus
    widest = int(pool.jobs.workload.gpus.max())
    return max(stated or whole_multiple(pool.peak_gpus, node), whole_multiple(widest, node))


def pool_waits_s(
    jobs: TraceJobs,
    chosen: IntArray,
    policy: PolicySpec,
    gpus: int,
    gpus_per_node: int | None,
    chance: int,
) -> FloatArray:
    """Return the waits of some jobs of a pool, in seconds; NaN of all others; shape (n,).

    Args:
        jobs: of the pool.
        chosen: places of those that are replayed, ascending.
        policy: with its settings, but for its size.
        gpus, gpus_per_node: of the pool.
        chance: number of the draw by which each is submitted up to a minute later; 0 moves none. A
            job moves alike whichever others are replayed.
    """
    submit_us = jobs.workload.submit_us
    later_us = np.zeros(submit_us.size, np.int64)
    if chance:
        draws = np.random.default_rng([chance, 0])
        later_us = draws.integers(0, JITTER_S * MICROS + 1, submit_us.size)
    places = chosen[np.argsort((submit_us + later_us)[chosen], kind="stable")]
    some = chosen_jobs(jobs, places, later_us[places])
    sized = sized_policy(policy, gpus, gpus_per_node, "--cluster")
    run = sized.run(some, np.random.default_rng(chance), is_alone=True)
    waits = np.full(submit_us.size, np.nan)
    waits[places] = run.run.waited_us / MICROS
    return waits


def fidelity_of_pools(
    pools: Sequence[JobPool],
    seen: Today,
    policy: PolicySpec,
    rng: np.random.Generator,
    *,
    growth: float = 0.0,
    is_part: bool = False,
) -> tuple[Fidelity, tuple[Fidelity, ...]]:
    """Return how replays of today compare with the log: of all pools, and of each.

    Today's cluster is as given, or else the most GPUs held at once, in whole nodes; no more than
    the nodes that the log names have.

    Args:
        pools: the jobs by GPU type.
        seen: what the log shows of all pools.
        policy: with its settings, but for its size.
        rng: random values come from a copy for each pool.
        growth: of arrivals in the pools, which today is without.
        is_part: whether other jobs of the log are left out.
    """
    replay_pool = replay_today if len(pools) == 1 else replayed_waits  # with others few jobs count
    each, waits_of_pools, replayed_gpus = [], [], 0
    for pool in pools:
        peak, node = pool.peak_gpus, pool.gpus_per_node
        stated = None if pool.shape is None else pool.shape.gpus
        gpus = stated or whole_multiple(peak, node or 1)
        jobs = without_growth(pool.jobs, growth)
        widest = int(jobs.workload.gpus.max())
        if widest > gpus:
            why = f"a job needs {widest:,} GPUs at once, more than today's {gpus:,}"
            each.append(unknown(why))
            waits_of_pools.append(paired_waits(jobs, np.full(jobs.workload.size, np.nan)))
            continue
        waits = replay_pool(jobs, policy, gpus, node, rng)
        today = TodayReplay(policy.policy, gpus, waits.summary(), peak, is_part)
        each.append(of_whole_gpus(fidelity_of(today), jobs.workload))
        waits_of_pools.append(waits)
        replayed_gpus += gpus
    if len(pools) == 1:
        return each[0], tuple(each)
    match = joined(waits_of_pools).summary()
    today = TodayReplay(policy.policy, replayed_gpus, match, seen.usage.peak_gpus, is_part)
    names = [pool.gpu_type or UNNAMED for pool in pools]
    whole = fidelity_of(today)
    for pool in pools:
        whole = of_whole_gpus(whole, pool.jobs.workload)
    return least_faithful(whole, list(zip(names, each, strict=True))), tuple(each)
