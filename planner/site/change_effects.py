"""What pairs of replays say of changes of a site: effects by group, and growth for gates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec import UNSET, UnsetType

from gpuplan.analysis.base.plain import Hidden
from gpuplan.planner.quota.use import Eviction, Loan, QueueUse
from gpuplan.planner.runs.recorded_waits import WaitPairs
from gpuplan.planner.site.effects import LOST_SHARE, UNCLEAR, PairedWaits
from gpuplan.planner.twin.workload import SiteWorkload
from gpuplan.simkit.arrays import FloatArray

LEAST_WAIT_S = 60.0
"""Growth counts from a wait of at least this: from 1 s to 3 s is no growth of 200%."""


@dataclass(frozen=True, slots=True)
class GroupEffect:
    """The waits of one group under a change, in seconds.

    Attributes:
        name: the group.
        jobs: scored jobs that start in the record and in both replays of a pair, on average.
        lost_jobs: those that start today and never with the change, on average. Where they are over
            1% of the group they count as waiting to the end of the log, else they are left out.
        recorded_mean_wait_s, recorded_p95_wait_s: as recorded, of the same jobs.
        replayed_mean_wait_s, replayed_p95_wait_s: replayed under the rules of today.
        changed_mean_wait_s, changed_p95_wait_s: replayed with the change.
        effect_s, p95_effect_s: changed - replayed.
        noise_s, p95_noise_s: standard deviation of the effect over the pairs.
        error_s, p95_error_s: how far the effect may be from what the change would have done, from
            the pairs, from leaving out each block of days, and from the model, which resolves 5%
            of a wait.
        verdict: ``longer``, ``shorter``, ``too small to tell`` or ``no change``, by the means.
        p95_verdict: the same by the 95th percentiles.
        under_s, p95_under_s: what the size of an effect that is too small to tell is below; null
            where it is told.
        stands_out, p95_stands_out: whether the effect is told even as the largest of all groups'.
    """

    name: str
    jobs: int
    lost_jobs: int
    recorded_mean_wait_s: float
    recorded_p95_wait_s: float
    replayed_mean_wait_s: float
    replayed_p95_wait_s: float
    changed_mean_wait_s: float
    changed_p95_wait_s: float
    effect_s: float
    p95_effect_s: float
    noise_s: float
    p95_noise_s: float
    error_s: float
    p95_error_s: float
    verdict: str
    p95_verdict: str
    under_s: float | None
    p95_under_s: float | None
    stands_out: bool
    p95_stands_out: bool

    @classmethod
    def of(cls, waits: PairedWaits) -> GroupEffect:
        """Return a group as results have it."""
        mean, p95 = waits.mean, waits.p95

        def both(name: str) -> tuple[float, float]:
            return getattr(mean, name), getattr(p95, name)

        return cls(
            waits.name, waits.jobs, round(waits.lost), *both("recorded"), *both("replayed"),
            *both("changed"), *both("effect"), *both("spread"), *both("error"), mean.verdict,
            p95.verdict, mean.under, p95.under, mean.stands_out, p95.stands_out,
        )  # fmt: skip

    @property
    def counts_lost(self) -> bool:
        """Whether jobs that never start with the change count."""
        return self.lost_jobs > 0 and self.lost_jobs > LOST_SHARE * self.jobs


@dataclass(frozen=True, slots=True)
class SplitJobs:
    """Jobs that a shorter limit ends before they are done.

    Attributes:
        requeued: jobs that go on as new ones, which queue again.
        cut: jobs whose work beyond the limit is lost.
        cut_gpu_h: GPU-hours of that work.
        whole: effect on the waits of all jobs where all parts of a job count, not the first alone;
            null where no job goes on.
    """

    requeued: int
    cut: int
    cut_gpu_h: float
    whole: GroupEffect | None


@dataclass(frozen=True, slots=True)
class ChangeEffect:
    """What one change does.

    Attributes:
        name: the change.
        replicas: pairs of replays.
        effect_s, p95_effect_s: on the mean and the P95 wait of all jobs; null where no scored job
            starts in every pair, as those below.
        error_s, p95_error_s, verdict, p95_verdict: as of the group of all jobs.
        is_explained: whether the calibration explains the changed rules; if not, errors hold the
            distance between today's replay and the record too.
        given_up: jobs that are given up more than today, on average over the pairs; null where the
            log does not tell users' patience.
        rejected: jobs that start in the base replay and not with the change, by reason.
        rejected_jobs: their ids, at most 100.
        groups: all jobs first, then the groups by name.
        split: jobs that the change ends before they are done; null without any.
        elsewhere_gpu_s: GPU-seconds that each job runs on GPUs elsewhere, on average.
        usd_per_month: dollars more than today, of GPUs added and of those elsewhere; only with a
            price. Less are negative.
    """

    name: str
    replicas: int
    effect_s: float | None
    p95_effect_s: float | None
    error_s: float | None
    p95_error_s: float | None
    verdict: str | None
    p95_verdict: str | None
    is_explained: bool
    given_up: float | None
    rejected: dict[str, int]
    rejected_jobs: tuple[str, ...]
    groups: tuple[GroupEffect, ...]
    split: SplitJobs | None = None
    elsewhere_gpu_s: Hidden[FloatArray] = field(default_factory=lambda: np.zeros(0))
    usd_per_month: float | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class WaitGrowth:
    """Growth of the waits of a group, the greatest over the changes; for gates.

    Attributes:
        name: the group; ``any team`` is the greatest of all groups but all jobs, of those that
            stand out among so many.
        mean_wait_growth: effect on the mean wait over the wait of today, at least 60 s; 0 where it
            is too small to tell.
        p95_wait_growth: the same of the P95 wait.
    """

    name: str
    mean_wait_growth: float
    p95_wait_growth: float


@dataclass(frozen=True, slots=True)
class CalibratedError:
    """How well the rules explain the waits of the log that they were calibrated on.

    Attributes:
        within: jobs replayed within 5 minutes or 20% of their recorded wait, of 1.
        mae_s: mean absolute error of the waits.
    """

    within: float | None
    mae_s: float | None


@dataclass(frozen=True, slots=True)
class WhatIfResults:
    """What changes do to waits.

    Attributes:
        level: the rules that are replayed.
        by: what groups are.
        base_rejected: jobs that never start under the rules of today either, by reason.
        changes: one entry per change, in their order.
        growth: growth of waits by group.
        calibration: the error of the calibration.
        work: the jobs.
        given_up: jobs of the log from whose cancellation in the queue users' patience is told; null
            where they are too few, and nobody gives up.
        today: the waits of the scored jobs in a replay of today without chance, and as recorded.
        unused: changed settings that the replayed rules do not use, one sentence each.
        queues: what each ClusterQueue does with its quotas, today and with each change; of Kueue.
        loans: which queue holds GPUs out of the quota of which, today and with each change.
        evictions: which queue evicts workloads of which, today and with each change.
        doubt: why the replays cannot tell what changes do; empty where they can.
        notes: how the changes were read, and what the replays show, one sentence each.
    """

    level: str
    by: str
    base_rejected: dict[str, int]
    changes: tuple[ChangeEffect, ...]
    growth: tuple[WaitGrowth, ...]
    calibration: CalibratedError
    given_up: int | None
    work: Hidden[SiteWorkload]
    today: Hidden[WaitPairs]
    unused: Hidden[tuple[str, ...]] = ()
    queues: tuple[QueueUse, ...] | UnsetType = UNSET
    loans: tuple[Loan, ...] | UnsetType = UNSET
    evictions: tuple[Eviction, ...] | UnsetType = UNSET
    doubt: Hidden[str] = ""
    notes: Hidden[tuple[str, ...]] = ()


def wait_growth(by: str, changes: Sequence[ChangeEffect], strict: bool) -> tuple[WaitGrowth, ...]:
    """Return the growth of waits by group for gates, the greatest over the changes.

    A growth that is too small to tell counts as none; with ``strict`` the error is added to the
    effect. ``any team`` is the greatest of all groups, and counts only what stands out among them.
    """
    most: dict[str, WaitGrowth] = {}

    def count(name: str, mean: float, p95: float) -> None:
        row = most.get(name, WaitGrowth(name, mean, p95))
        most[name] = WaitGrowth(
            name, max(row.mean_wait_growth, mean), max(row.p95_wait_growth, p95)
        )

    for change in changes:
        for group in change.groups:
            figures = (
                (group.effect_s, group.error_s, group.verdict, group.replayed_mean_wait_s),
                (group.p95_effect_s, group.p95_error_s, group.p95_verdict,
                 group.replayed_p95_wait_s),
            )  # fmt: skip
            growth = [_growth(*figure, strict) for figure in figures]
            if group is not change.groups[0]:
                is_told = (strict or group.stands_out, strict or group.p95_stands_out)
                of_many = [grown * told for grown, told in zip(growth, is_told, strict=True)]
                for name in dict.fromkeys(("any team", f"any {by}")):
                    count(name, *of_many)
            count(group.name, *growth)
    return tuple(most.values())


def _growth(effect_s: float, error_s: float, verdict: str, today_s: float, strict: bool) -> float:
    counted = 0.0 if verdict == UNCLEAR else effect_s
    return (effect_s + error_s if strict else counted) / max(today_s, LEAST_WAIT_S)
