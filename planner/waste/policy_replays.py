"""The waits without waste under a policy, on the GPUs of each type that the log holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpuplan.analysis.base.time_units import HOUR_S, MONTH_H
from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.engine import THREADS
from gpuplan.planner.parallel import run_all
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.planner.site.effects import QUANTILES, GroupEffect, effect_on_all
from gpuplan.planner.site.fidelity import CONTRADICTS, Fidelity
from gpuplan.planner.site.pool_replays import pool_gpus, pool_waits_s
from gpuplan.planner.sizing.pools import JobPool
from gpuplan.planner.sizing.search import Sizes, smallest_below
from gpuplan.planner.sizing.sized_replay import ReplayTerms
from gpuplan.planner.sizing.targets import MEAN, PERCENTILE, WAIT, Target
from gpuplan.planner.waste.remedies import ALL, JobWaste, changed_workload
from gpuplan.planner.waste.results import (
    Counterfactual,
    FreedGpus,
    RemedyEffect,
    counterfactual_of,
)
from gpuplan.simkit.arrays import BoolArray, IntArray
from gpuplan.simkit.time import MICROS

TODAY = "today"
MANY_JOBS = 50_000
"""More jobs are replayed in as few pairs as have an error."""
BYTES_PER_JOB = 400


@dataclass(frozen=True, slots=True)
class PoolReplay:
    """How pools are replayed without waste.

    Attributes:
        pools: the jobs by GPU type.
        rows: place of each job of each pool among those of the log.
        waste: of all jobs of the log.
        policy: with its settings, but for its size.
        fidelity: how a replay of today compares with the log.
        end_idle_after_s: when idle jobs are ended.
    """

    pools: tuple[JobPool, ...]
    rows: tuple[IntArray, ...]
    waste: JobWaste
    policy: PolicySpec
    fidelity: Fidelity
    end_idle_after_s: float

    def run(self) -> Counterfactual | None:
        """Replay the jobs with and without each kind of waste, in pairs.

        None where nothing can be changed, or no wait is known.
        """
        names, all_remedies = self.waste.replayed()
        waits: dict[str, list[IntArray]] = {name: [] for name in (TODAY, *names)}
        cases = {name: self._jobs(name) for name in waits}
        effects: dict[str, GroupEffect] = {}
        for count in QUANTILES if names else ():
            self._grow(waits, cases, count)
            effects = self._effects(waits)
            if self.size > MANY_JOBS or all(row.is_precise(count) for row in effects.values()):
                break
        if not effects:
            return None
        rows = [_row(name, self.waste.jobs_of(name), each) for name, each in effects.items()]
        if all_remedies != ALL:
            rows += [replace(row, name=ALL) for row in rows if row.name == all_remedies]
        todays_waits, counts = self._todays_waits(waits)
        base = todays_waits[counts].astype(np.float64)
        submit_s = self._submit_s()
        answer = counterfactual_of(
            rows,
            rules=self.policy.policy,
            jobs=int(counts.sum()),
            pairs=len(waits[TODAY]),
            end_idle_after_s=self.end_idle_after_s,
            months=float(submit_s.max() - submit_s.min()) / HOUR_S / MONTH_H,
            today_s=(float(base.mean()), float(np.percentile(base, 95))),
            fidelity=self.fidelity,
        )
        if not answer.is_shorter:
            return answer
        freed = zip(self.pools, cases[TODAY], cases[all_remedies], strict=True)
        return replace(answer, freed=tuple(self._freed(*each) for each in freed))

    @property
    def size(self) -> int:
        """How many jobs are replayed."""
        return sum(row.size for row in self.rows)

    def _jobs(self, remedy: str) -> tuple[TraceJobs, ...]:
        each = zip(self.pools, self.rows, strict=True)
        return tuple(changed_workload(pool.jobs, self.waste, rows, remedy) for pool, rows in each)

    def _grow(
        self,
        waits: dict[str, list[IntArray]],
        cases: Mapping[str, tuple[TraceJobs, ...]],
        count: int,
    ) -> None:
        """Replay each case until there are so many replays of it."""
        items = [
            (name, number) for name in waits for number in range(len(waits[name]), count)
        ]  # fmt: skip
        size = BYTES_PER_JOB * self.size
        replayed = run_all(_waits_s, items, shared=(self, cases), bytes_each=size)
        for (name, _), wait in zip(items, replayed, strict=True):
            waits[name].append(wait)

    def _effects(self, waits: Mapping[str, list[IntArray]]) -> dict[str, GroupEffect]:
        todays_waits, counts = self._todays_waits(waits)
        effects = {}
        for name, changed in waits.items():
            pairs = zip(waits[TODAY], changed, strict=True)
            effect = effect_on_all(
                self._submit_s()[counts], todays_waits[counts],
                [(before[counts], after[counts]) for before, after in pairs],
            )  # fmt: skip
            if name != TODAY and effect is not None:
                effects[name] = effect
        return effects

    def _submit_s(self) -> IntArray:
        submit_us = [_first_us(pool) + pool.jobs.workload.submit_us for pool in self.pools]
        seconds: IntArray = np.concatenate(submit_us) // MICROS
        return seconds

    def _todays_waits(self, waits: Mapping[str, list[IntArray]]) -> tuple[IntArray, BoolArray]:
        """Return the waits of today, and whose are known: recorded, else replayed."""
        by_pool = [
            np.full(rows.size, np.nan)
            if pool.jobs.recorded_wait_s is None
            else pool.jobs.recorded_wait_s
            for pool, rows in zip(self.pools, self.rows, strict=True)
        ]
        recorded_wait_s = np.concatenate(by_pool)
        if np.isnan(recorded_wait_s).all():
            recorded_wait_s = waits[TODAY][0].astype(np.float64)
        has_wait = ~np.isnan(recorded_wait_s)
        return np.where(has_wait, np.nan_to_num(recorded_wait_s), -1).astype(np.int64), has_wait

    def _freed(self, pool: JobPool, before: TraceJobs, after: TraceJobs) -> FreedGpus:
        """Return the GPUs of a pool that waits of today do not need without the waste."""
        gpus, node = pool_gpus(pool), pool.gpus_per_node
        wait_s = pool_waits_s(before, np.arange(before.workload.size), self.policy, gpus, node, 0)
        targets = (
            Target("mean_wait", WAIT, MEAN, 0.0, float(wait_s.mean())),
            Target("p95_wait", WAIT, PERCENTILE, 95.0, float(np.percentile(wait_s, 95))),
        )
        terms = ReplayTerms(self.policy, np.random.default_rng(0), node, targets, None)
        enough, needed = (
            smallest_below(Sizes(jobs, terms, node or 1, THREADS), gpus) for jobs in (before, after)
        )
        freed = max((enough or gpus) - (needed or gpus), 0)
        return FreedGpus(pool.gpu_type or "all", gpus, enough or gpus, freed, None)


def _waits_s(
    item: tuple[str, int], replay: PoolReplay, cases: Mapping[str, tuple[TraceJobs, ...]]
) -> IntArray:
    """Return the waits of all jobs in a replay, pool after pool."""
    name, chance = item
    waits = [
        pool_waits_s(
            jobs, np.arange(jobs.workload.size), replay.policy, pool_gpus(pool),
            pool.gpus_per_node, chance,
        )
        for pool, jobs in zip(replay.pools, cases[name], strict=True)
    ]  # fmt: skip
    return np.nan_to_num(np.concatenate(waits), nan=-1.0).astype(np.int64)


def _row(name: str, changed_jobs: int, effect: GroupEffect) -> RemedyEffect:
    return RemedyEffect(
        name=name,
        changed_jobs=changed_jobs,
        mean_wait_s=max(effect.recorded_mean_wait_s + effect.effect_s, 0.0),
        p95_wait_s=max(effect.recorded_p95_wait_s + effect.p95_effect_s, 0.0),
        effect_s=effect.effect_s,
        p95_effect_s=effect.p95_effect_s,
        mean_error_s=effect.error_s,
        error_s=effect.p95_error_s,
        mean_verdict=effect.verdict,
        verdict=effect.p95_verdict,
    )


def within_cluster(
    pools: Sequence[JobPool], policy: str, fidelity: Fidelity, option: str = "--cluster"
) -> Fidelity:
    """Return the fidelity, which is none where jobs held more GPUs at once than a pool has.

    Args:
        pools: the jobs by GPU type, with today's GPUs where they are stated.
        policy: that is replayed.
        fidelity: of the waits.
        option: that states the GPUs.
    """
    for pool in pools:
        if pool.shape is not None and pool.above is not None:
            kind = "GPUs" if pool.gpu_type is None else f"{pool.gpu_type} GPUs"
            why = (
                f"the log shows {pool.above.peak_gpus:,.0f} {kind} held at once, more than the "
                f"{pool.shape.gpus:,} of {option}"
            )
            return Fidelity(CONTRADICTS, why, policy, sum(map(pool_gpus, pools)))
    return fidelity


def _first_us(pool: JobPool) -> int:
    """Return when the first job of a pool came, microseconds since 1970."""
    window_us = pool.jobs.window_us
    return pool.begin_us - (0 if window_us is None else window_us[0])
