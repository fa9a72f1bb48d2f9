"""One replay at one cluster size: waits, targets, and how sure both are.

Confidence: the jobs keep the waits that they had in the replay, and blocks of consecutive jobs are
resampled (moving blocks, see `analysis.statistics`; their length follows the memory of the
waits themselves). That is how far the waits of other weeks of the same load may be from these. The
interval of a percentile inverts that of the share of jobs below it (Woodruff, "Confidence intervals
for medians and other position measures", JASA 47, 1952).
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.base.plain import fields_of
from gpuplan.analysis.statistics.block_length import block_length
from gpuplan.analysis.statistics.bootstrap import Blocks, draw_blocks, expanded_tail, interval
from gpuplan.planner.compare import PolicySpec
from gpuplan.planner.runs.gpu_intervals import Resampling
from gpuplan.planner.runs.group_waits import GroupWaits, group_waits
from gpuplan.planner.runs.trace_jobs import TraceJobs
from gpuplan.planner.sized_policy import sized_policy
from gpuplan.planner.sizing.targets import SLOWDOWN, Target
from gpuplan.simkit.arrays import BoolArray, FloatArray
from gpuplan.simkit.metrics import distribution
from gpuplan.simkit.run import Run
from gpuplan.simkit.time import MICROS

PERCENTILES = (50, 90, 95, 99)
FEWEST_JOBS = 20
"""Fewer jobs have no interval."""
MOST_BLOCKS = 2000
"""In a resample: longer blocks of a long log are as good, and a million jobs fit into memory."""


@dataclass(frozen=True, slots=True)
class UnclearSizes:
    """Sizes that the error of a model cannot tell apart.

    Attributes:
        low_gpus, high_gpus: the ends, which are candidates; the high end is null where the largest
            one that was tried is not sure either.
    """

    low_gpus: int
    high_gpus: int | None


@dataclass(frozen=True, slots=True)
class ReplayTerms:
    """What the replays of all sizes share.

    Attributes:
        policy: with its settings, but for its size.
        rng: random values come from a copy for each size.
        gpus_per_node: GPUs of a node; None where nodes do not matter.
        targets: to judge.
        confidence: of the intervals; None for none.
        option: that sizes come from, for messages.
    """

    policy: PolicySpec
    rng: np.random.Generator
    gpus_per_node: int | None
    targets: tuple[Target, ...]
    confidence: Resampling | None
    option: str = "--gpus"


@dataclass(frozen=True, slots=True)
class SizedReplay:
    """What a replay at one size shows; times in seconds.

    Attributes:
        gpus: of the cluster.
        waits: mean, median, P90, P95 and P99 of the waits by name.
        mean_slowdown: JCT over run time, mean over jobs that run; None where none runs.
        utilization: GPU time of jobs over that of the cluster, as `gpuplan simulate` counts it;
            under a site's rules of the nodes that are counted.
        target_values: the statistic of each target.
        meets: whether all targets are met.
        target_errors: how far each of them may be off, where the model tells; empty where not.
        could_meet, could_miss: whether the targets may be met, or missed, within these errors.
        met_share: share of the resamples that meet all targets; None without confidence.
        tail: share of the resamples beyond each end of an interval, for its number of blocks.
        mean_wait_interval, p95_wait_interval: None without confidence.
        groups: waits by group, where requested.
        mean_waits_s: mean wait of each of several replays; empty where there is one.
    """

    gpus: int
    waits: dict[str, float]
    mean_slowdown: float | None
    utilization: float | None
    target_values: tuple[float, ...]
    meets: bool
    target_errors: tuple[float, ...] = ()
    could_meet: bool = False
    could_miss: bool = False
    met_share: float | None = None
    tail: float = 0.0
    mean_wait_interval: tuple[float, float] | None = None
    p95_wait_interval: tuple[float, float] | None = None
    groups: tuple[GroupWaits, ...] = ()
    mean_waits_s: tuple[float, ...] = ()

    @property
    def may_meet(self) -> bool:
        """Whether the answer of a resample may be this size or a smaller one."""
        if self.could_meet:
            return True
        return self.meets if self.met_share is None else self.met_share >= self.tail

    @property
    def surely_meets(self) -> bool:
        """Whether hardly a resample needs more than this size."""
        if self.could_miss:
            return False
        return self.meets if self.met_share is None else self.met_share >= 1 - self.tail


@dataclass(frozen=True, slots=True)
class Judgment:
    """What resamples of the jobs of a replay give; the fields are those of a `SizedReplay`."""

    met_share: float
    tail: float
    mean_wait_interval: tuple[float, float] | None
    p95_wait_interval: tuple[float, float] | None


def replay_at(gpus: int, jobs: TraceJobs, terms: ReplayTerms) -> SizedReplay:
    """Replay jobs on a cluster of so many GPUs, as ``gpuplan simulate`` does.

    Raises:
        UsageError: settings that no run can have, or a job that the policy cannot run.
    """
    sized = sized_policy(terms.policy, gpus, terms.gpus_per_node, terms.option)
    run, utilization = _ran(sized, jobs, terms)
    wait_s = run.waited_us / MICROS
    del run  # what follows needs the room
    run_s = jobs.workload.service_us / MICROS
    runs = run_s > 0
    slowdown = (wait_s[runs] + run_s[runs]) / run_s[runs]
    values = tuple(
        target.value(slowdown if target.quantity == SLOWDOWN else wait_s)
        for target in terms.targets
    )
    groups = group_waits(jobs, wait_s, run_s * jobs.workload.gpus) if jobs.by else ()
    mean_slowdown = float(slowdown.mean()) if slowdown.size else None
    del run_s
    judged: Judgment | None = None
    if terms.confidence is not None and wait_s.size >= FEWEST_JOBS:
        if all(target.quantity != SLOWDOWN for target in terms.targets):
            slowdown, runs = np.empty(0), np.empty(0, np.bool_)
        excesses = (excess_of(target, wait_s, slowdown, runs) for target in terms.targets)
        judged = judgment_of(wait_s, excesses, terms.confidence)
    return SizedReplay(
        gpus=gpus,
        waits=distribution(wait_s, "wait", "s", PERCENTILES),
        mean_slowdown=mean_slowdown,
        utilization=utilization,
        target_values=values,
        meets=all(
            target.is_met(value) for target, value in zip(terms.targets, values, strict=True)
        ),
        groups=groups,
        **({} if judged is None else fields_of(judged)),
    )


def excess_of(
    target: Target, wait_s: FloatArray, slowdown: FloatArray, runs: BoolArray
) -> FloatArray:
    """Return `Target.excess` of each job; a job of 0 s has no slowdown, and counts for none.

    Args:
        target: of waits or slowdowns.
        wait_s: of the jobs; shape (n,).
        slowdown: of the jobs that run; shape (m,).
        runs: which jobs these are; shape (n,).
    """
    if target.quantity != SLOWDOWN:
        return target.excess(wait_s)
    excess = np.zeros(wait_s.size)
    excess[runs] = target.excess(slowdown)
    return excess


def _ran(policy: PolicySpec, jobs: TraceJobs, terms: ReplayTerms) -> tuple[Run, float | None]:
    """Return a replay, without its rows, and the utilization."""
    simulation = policy.run(jobs, deepcopy(terms.rng), is_alone=True)
    return simulation.run, simulation.results.get("utilization")


def judgment_of(
    wait_s: FloatArray, excesses: Iterable[FloatArray], resampling: Resampling
) -> Judgment:
    """Return what resamples of the jobs give.

    Args:
        wait_s: of the jobs; shape (n,).
        excesses: `Target.excess` of each target, by job.
        resampling: how.
    """
    block = max(block_length(wait_s), -(-wait_s.size // MOST_BLOCKS))
    rng = np.random.default_rng(resampling.seed)
    blocks = draw_blocks(wait_s.size, block, resampling.resamples, rng)
    met = np.ones(resampling.resamples, np.bool_)
    for excess in excesses:
        met &= blocks.sums(excess) <= 1e-9 * wait_s.size
    level, means = resampling.level, blocks.sums(wait_s) / wait_s.size
    return Judgment(
        met_share=float(met.mean()),
        tail=expanded_tail(level, blocks.count) / 100,
        mean_wait_interval=interval(means, level, blocks.count),
        p95_wait_interval=_percentile_interval(wait_s, 0.95, blocks, level),
    )


def _percentile_interval(
    values: FloatArray, share: float, blocks: Blocks, level: float
) -> tuple[float, float] | None:
    """Return the interval of a percentile, by that of the share of values up to it."""
    point = float(np.percentile(values, 100 * share))
    below = (values <= point).astype(np.float64)
    ends = interval(blocks.sums(below) / values.size, level, blocks.count)
    if ends is None:
        return None
    center = float(below.mean())
    low, high = (min(max(share + end - center, 0.0), 1.0) for end in ends)
    bottom, top = np.percentile(values, [100 * low, 100 * high]).tolist()
    return min(bottom, point), max(top, point)
