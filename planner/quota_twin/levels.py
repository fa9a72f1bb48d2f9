"""The rules of Kueue as levels: each has the rules of the ones before it, and one more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpuplan.simkit.quota.site import (
    STRICT_FIFO,
    Quota,
    QuotaFlavor,
    QuotaJobs,
    QuotaQueue,
    QuotaSite,
)

FIFO, QUOTAS, BORROWING, PREEMPTION, FAIR = LEVELS = (
    "fifo", "quotas", "borrowing", "preemption", "fair",
)  # fmt: skip
ADDED = {
    FIFO: "first in, first out",
    QUOTAS: "quotas and priorities",
    BORROWING: "borrowing in cohorts",
    PREEMPTION: "preemption",
    FAIR: "fair sharing",
}
FAIR_IS_OFF = "the controller's configuration does not turn fair sharing on"
NOT_CONFIGURED = "no configuration of the controller is given: taken to be off"
ADD_CONFIGURATION = (
    "the dump has no configuration of the controller, which turns fair sharing on; add it: kubectl "
    "get configmap kueue-manager-config -n kueue-system -o json >> kueue.json"
)
NEVER = "Never"
NO_QUOTA = 1 << 40
"""Of a resource that only other flavors have a quota for: it limits nothing."""


def skipped_levels(site: QuotaSite, *, is_configured: bool = True) -> dict[str, str]:
    """Return the levels that would equal the one before, and why.

    Args:
        site: the queues.
        is_configured: whether the controller's configuration is known.
    """
    skipped = {}
    if all(queue.cohort is None for queue in site.queues):
        skipped[BORROWING] = "no queue is in a cohort"
    if all(_evicts_nobody(queue) for queue in site.queues):
        skipped[PREEMPTION] = "no queue may preempt"
    if not site.fair_sharing:
        skipped[FAIR] = FAIR_IS_OFF if is_configured else NOT_CONFIGURED
    elif BORROWING in skipped:
        skipped[FAIR] = skipped[BORROWING]
    return skipped


def _evicts_nobody(queue: QuotaQueue) -> bool:
    return queue.within_queue == NEVER and queue.reclaim_within_cohort == NEVER


def level_site(site: QuotaSite, level: str) -> QuotaSite:
    """Return the site with the rules of a level alone."""
    if level == FIFO:
        return QuotaSite((_one_queue(site),))
    if level == QUOTAS:
        queues = tuple(_alone(queue) for queue in site.queues)
        return replace(site, queues=queues, cohorts=(), fair_sharing=False)
    if level == BORROWING:
        queues = tuple(_without_preemption(queue) for queue in site.queues)
        return replace(site, queues=queues, fair_sharing=False)
    return site if level == FAIR else replace(site, fair_sharing=False)


def level_jobs(jobs: QuotaJobs, level: str) -> QuotaJobs:
    """Return the jobs as the rules of a level see them."""
    if level != FIFO:
        return jobs
    none = np.zeros(jobs.queue.size, np.int64)
    return replace(jobs, queue=none, priority=none)


def _without_preemption(queue: QuotaQueue) -> QuotaQueue:
    return replace(
        queue, within_queue=NEVER, reclaim_within_cohort=NEVER, borrow_policy=NEVER,
        borrow_threshold=None,
    )  # fmt: skip


def _alone(queue: QuotaQueue) -> QuotaQueue:
    return replace(_without_preemption(queue), cohort=None)


def _one_queue(site: QuotaSite) -> QuotaQueue:
    """Return one queue with all quotas."""
    resources: list[set[str]] = []
    totals: dict[tuple[str, str], int] = {}
    for queue in site.queues:
        for group in queue.groups:
            names = {name for flavor in group for name in flavor.quotas}
            joined = [part for part in resources if part & names]
            resources = [part for part in resources if not part & names]
            resources.append(names.union(*joined))
            for flavor in group:
                for name, quota in flavor.quotas.items():
                    key = flavor.name, name
                    totals[key] = totals.get(key, 0) + quota.nominal
    for cohort in site.cohorts:
        for key, quota in cohort.quotas.items():
            totals[key] = totals.get(key, 0) + quota.nominal
    groups = []
    for names in resources:
        flavors = dict.fromkeys(flavor for flavor, name in totals if name in names)
        groups.append(
            tuple(
                QuotaFlavor(
                    flavor,
                    {name: Quota(totals.get((flavor, name), NO_QUOTA)) for name in sorted(names)},
                )
                for flavor in flavors
            )
        )
    return QuotaQueue("all", tuple(groups), strategy=STRICT_FIFO)
