"""Whether a model of GPU pools may speak: each pool replayed on today's GPUs, beside the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.characterize.today import Today
from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.runs.recorded_waits import WaitPairs, joined, paired_waits
from gpuplan.planner.site.fidelity import (
    Fidelity,
    TodayReplay,
    fidelity_of,
    least_faithful,
    replay_today,
    unknown,
)
from gpuplan.planner.sizing.pools import JobPool, without_growth
from gpuplan.planner.sizing.targets import whole_multiple


@dataclass(frozen=True, slots=True)
class PoolReplays:
    """How the pools of a log are replayed today.

    Attributes:
        policy: with its settings, but for its size.
        rng: random values come from a copy for each pool.
        growth: of arrivals in the pools, which today is without.
        is_part: whether other jobs of the log are left out.
    """

    policy: PolicySpec
    rng: np.random.Generator
    growth: float = 0.0
    is_part: bool = False

    def fidelity(
        self, pools: Sequence[JobPool], seen: Today
    ) -> tuple[Fidelity, tuple[Fidelity, ...]]:
        """Return how replays of today compare with the log: of all pools, and of each.

        Today's cluster is as given, or else the most GPUs held at once, in whole nodes; no more
        than the nodes that the log names have.

        Args:
            pools: the jobs by GPU type.
            seen: what the log shows of all pools.
        """
        replays = [self._replay(pool) for pool in pools]
        each = tuple(fidelity for fidelity, _ in replays)
        if len(pools) == 1:
            return each[0], each
        match = joined([waits for _, waits in replays]).summary()
        gpus = sum(fidelity.cluster_gpus or 0 for fidelity in each)
        today = TodayReplay(self.policy.policy, gpus, match, seen.usage.peak_gpus, self.is_part)
        names = [pool.gpu_type or "unknown" for pool in pools]
        return least_faithful(fidelity_of(today), list(zip(names, each, strict=True))), each

    def _replay(self, pool: JobPool) -> tuple[Fidelity, WaitPairs]:
        peak, node = pool.peak_gpus, pool.gpus_per_node
        given = None if pool.shape is None else pool.shape.gpus
        gpus = given or whole_multiple(peak, node or 1)
        jobs = without_growth(pool.jobs, self.growth)
        widest = int(jobs.workload.gpus.max())
        if widest > gpus:
            why = f"a job needs {widest:,} GPUs at once, more than today's {gpus:,}"
            return unknown(why), paired_waits(jobs, np.full(jobs.workload.size, np.nan))
        waits = replay_today(jobs, self.policy, gpus, node, self.rng)
        today = TodayReplay(self.policy.policy, gpus, waits.summary(), peak, self.is_part)
        return fidelity_of(today), waits
