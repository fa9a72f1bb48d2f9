"""Replays of jobs on pools of GPUs under a policy, each with submissions moved by chance."""

from __future__ import annotations

import numpy as np

from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.runs.trace_jobs import TraceJobs, chosen_jobs
from gpuplan.planner.sized_policy import sized_policy
from gpuplan.planner.sizing.pools import JobPool
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
