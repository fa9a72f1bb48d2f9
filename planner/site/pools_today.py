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
    replayed_waits,
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
        if len(pools) == 1:
            replay = self._replay(pools[0], is_alone=True)
            return replay.fidelity, (replay.fidelity,)
        replays = [self._replay(pool, is_alone=False) for pool in pools]
        each = tuple(replay.fidelity for replay in replays)
        match = joined([replay.waits for replay in replays]).summary()
        gpus = sum(replay.gpus for replay in replays)
        today = TodayReplay(self.policy.policy, gpus, match, seen.usage.peak_gpus, self.is_part)
        names = [pool.gpu_type or "unknown" for pool in pools]
        return least_faithful(fidelity_of(today), list(zip(names, each, strict=True))), each

    def _replay(self, pool: JobPool, *, is_alone: bool) -> _PoolReplay:
        """Replay a pool; one of few jobs too where others count with it."""
        peak, node = pool.peak_gpus, pool.gpus_per_node
        given = None if pool.shape is None else pool.shape.gpus
        gpus = given or whole_multiple(peak, node or 1)
        jobs = without_growth(pool.jobs, self.growth)
        widest = int(jobs.workload.gpus.max())
        if widest > gpus:
            why = f"a job needs {widest:,} GPUs at once, more than today's {gpus:,}"
            waits = paired_waits(jobs, np.full(jobs.workload.size, np.nan))
            return _PoolReplay(unknown(why), waits, 0)
        replayed = replay_today if is_alone else replayed_waits
        waits = replayed(jobs, self.policy, gpus, node, self.rng)
        today = TodayReplay(self.policy.policy, gpus, waits.summary(), peak, self.is_part)
        return _PoolReplay(fidelity_of(today), waits, gpus)


@dataclass(frozen=True, slots=True)
class _PoolReplay:
    """How a replay of a pool compares with the log, its waits, and the GPUs replayed; 0 if none."""

    fidelity: Fidelity
    waits: WaitPairs
    gpus: int
