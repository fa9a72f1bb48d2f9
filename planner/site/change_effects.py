"""What changes of a site do: effects by group of jobs, growth for gates, dollars a month."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

import numpy as np
from msgspec import UNSET, UnsetType

from gpuplan.analysis.base.plain import Hidden
from gpuplan.analysis.base.time_units import HOUR_S, MONTH_H
from gpuplan.analysis.site.document import SiteDocument
from gpuplan.planner.money.price_book import Prices
from gpuplan.planner.quota.use import Eviction, Loan, QueueUse
from gpuplan.planner.runs.recorded_waits import WaitPairs
from gpuplan.planner.site.effects import UNCLEAR, GroupEffect
from gpuplan.planner.twin.settings import site_of
from gpuplan.planner.twin.site_changes import SiteChange
from gpuplan.planner.twin.workload import SiteWorkload
from gpuplan.simkit.arrays import FloatArray
from gpuplan.simkit.twin.site import SiteCluster

LEAST_WAIT_S = 60.0
"""Growth counts from a wait of at least this: from 1 s to 3 s is no growth of 200%."""
NO_TYPE = "gpu"
"""What a site calls GPUs whose type is not known."""


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
        mean_wait_growth_with, p95_wait_growth_with: the change of which that is; empty where there
            is one only.
    """

    name: str
    mean_wait_growth: float
    p95_wait_growth: float
    mean_wait_growth_with: str
    p95_wait_growth_with: str


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
        on_no_node: change -> GPUs that it adds to quotas and that no node has; of Kueue.
        caveats: what the effects leave out, one sentence each, part of the answer.
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
    on_no_node: Hidden[dict[str, int]] = field(default_factory=dict)
    caveats: Hidden[tuple[str, ...]] = ()
    notes: Hidden[tuple[str, ...]] = ()


def wait_growth(by: str, changes: Sequence[ChangeEffect], strict: bool) -> tuple[WaitGrowth, ...]:
    """Return the growth of waits by group for gates, the greatest over the changes.

    A growth that is too small to tell counts as none; with ``strict`` the error is added to the
    effect. ``any team`` is the greatest of all groups, and counts only what stands out among them.
    """
    most: dict[str, WaitGrowth] = {}

    def count(name: str, change: str, mean: float, p95: float) -> None:
        row = most.setdefault(name, WaitGrowth(name, mean, p95, change, change))
        if mean > row.mean_wait_growth:
            row = replace(row, mean_wait_growth=mean, mean_wait_growth_with=change)
        if p95 > row.p95_wait_growth:
            row = replace(row, p95_wait_growth=p95, p95_wait_growth_with=change)
        most[name] = row

    for change in changes:
        change_name = change.name if len(changes) > 1 else ""
        for group in change.groups:
            figures = (
                (group.effect_s, group.error_s, group.verdict, group.replayed_mean_wait_s),
                (group.p95_effect_s, group.p95_error_s, group.p95_verdict,
                 group.replayed_p95_wait_s),
            )  # fmt: skip
            growth = [_growth(*figure, strict) for figure in figures]
            if group is not change.groups[0]:
                counts = (strict or group.stands_out, strict or group.p95_stands_out)
                of_many = [
                    grown * is_counted for grown, is_counted in zip(growth, counts, strict=True)
                ]
                for name in dict.fromkeys(("any team", f"any {by}")):
                    count(name, change_name, *of_many)
            count(group.name, change_name, *growth)
    return tuple(most.values())


def _growth(effect_s: float, error_s: float, verdict: str, today_s: float, strict: bool) -> float:
    counted = 0.0 if verdict == UNCLEAR else effect_s
    return (effect_s + error_s if strict else counted) / max(today_s, LEAST_WAIT_S)


@dataclass(frozen=True, slots=True)
class ChangeCost:
    """What a change costs more than today.

    Attributes:
        gpus_added: by GPU type; fewer are negative.
        burst_gpu_h_per_month: GPU-hours elsewhere.
        usd_per_month: of both.
    """

    gpus_added: dict[str, int]
    burst_gpu_h_per_month: float
    usd_per_month: float


def change_cost(
    effect: ChangeEffect,
    change: SiteChange,
    document: SiteDocument,
    work: SiteWorkload,
    prices: Prices,
) -> ChangeCost:
    """Return what a change costs; raises `UsageError` where a GPU type has no price."""
    site = site_of(document)
    before, after = site.gpus_of_type, changed_site(document, change).gpus_of_type
    added = {
        kind: gpus
        for kind in {**before, **after}
        if (gpus := after.get(kind, 0) - before.get(kind, 0))
    }
    paid_before, paid_after = (_above_pools(prices, gpus) for gpus in (before, after))
    paid = {
        kind: gpus for kind in added if (gpus := paid_after.get(kind, 0) - paid_before.get(kind, 0))
    }
    months = months_of(work)
    burst = burst_gpu_h(work, effect.elsewhere_gpu_s, site)
    per_month = {kind: hours / months for kind, hours in burst.items()} if months else {}
    prices.check([None if kind == NO_TYPE else kind for kind in {**paid, **per_month}])
    usd = sum((_usd(prices, kind) * gpus * MONTH_H for kind, gpus in paid.items()), 0.0)
    usd += sum(_usd(prices, kind) * hours for kind, hours in per_month.items())
    return ChangeCost(added, sum(per_month.values()), usd)


def changed_site(document: SiteDocument, change: SiteChange) -> SiteCluster:
    """Return the site with a change. Raises `UsageError`."""
    changed = deepcopy(document)
    if change.document is not None:
        change.document(changed)
    site = site_of(changed)
    return site if change.site is None else change.site(site)


def burst_gpu_h(
    work: SiteWorkload, elsewhere_gpu_s: FloatArray, site: SiteCluster
) -> dict[str, float]:
    """Return the GPU-hours of jobs that ran elsewhere, by GPU type.

    A job that names no type has the most common one of its partition.
    """
    jobs, size = work.jobs, {node.name: node for node in site.nodes}
    usual = {}
    for partition in site.partitions:
        kinds: Counter[str] = Counter()
        for name in partition.nodes:
            kinds[size[name].gpu_type] += size[name].gpus
        usual[partition.name] = kinds.most_common(1)[0][0] if kinds else NO_TYPE
    hours: dict[str, float] = {}
    for i in np.flatnonzero(elsewhere_gpu_s):
        kind = jobs.gpu_types[jobs.gpu_type[i]] or usual[jobs.partitions[jobs.partition[i]]]
        hours[kind] = hours.get(kind, 0.0) + float(elsewhere_gpu_s[i]) / HOUR_S
    return dict(sorted(hours.items()))


def months_of(work: SiteWorkload) -> float:
    """Return the months of 730.5 hours in which the scored jobs were submitted."""
    submit = work.jobs.submit
    return max(int(submit.max()) - work.warmup_until, 0) / HOUR_S / MONTH_H if submit.size else 0.0


def _above_pools(prices: Prices, gpus_by_type: Mapping[str, int]) -> dict[str, int]:
    """Return the GPUs of each type that are paid by use; those owned or committed cost anyway."""
    named = {None if kind == NO_TYPE else kind: gpus for kind, gpus in gpus_by_type.items()}
    return {kind or NO_TYPE: gpus for kind, gpus in prices.above_pools(named).items()}


def _usd(prices: Prices, kind: str) -> float:
    """Return the dollars of a GPU-hour of a type. Raises `UsageError` where nothing gives them."""
    return prices.of(None if kind == NO_TYPE else kind).usd_per_gpu_h
