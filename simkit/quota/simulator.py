"""Replay workloads under Kueue's rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.heap import sections
from gpuplan.simkit.quota import columns as col
from gpuplan.simkit.quota.accounts import NodeQuotas, QuotaAccounts, QuotaHolds, account
from gpuplan.simkit.quota.cycle import ROW_SLOTS, SLOT_COLUMNS
from gpuplan.simkit.quota.kernel import DONE, FULL, run
from gpuplan.simkit.quota.site import DEFAULT_GRACE_S, QuotaJobs, QuotaSite
from gpuplan.simkit.quota.state import NEXT_COMING, ROWS
from gpuplan.simkit.quota.tables import (
    QuotaNames,
    names_of,
    new_state,
    node_quotas,
    rules_of,
    run_table,
    tree_of,
    workload_table,
)

REASONS = (
    "InClusterQueue", "InCohortReclamation", "InCohortReclaimWhileBorrowing", "InCohortFairSharing",
)  # fmt: skip
LARGEST = 1 << 40
"""Number that no time and no amount exceeds."""
DEFAULT_MOST_EVICTIONS = 1000
LOOP_EVICTIONS = 3
"""A workload that is evicted more often than this is in a loop of evictions."""
INSTANTS = 20_000


@dataclass(frozen=True, slots=True)
class EvictionLoop:
    """Workloads that evict each other again and again.

    Attributes:
        jobs: workloads evicted more than `LOOP_EVICTIONS` times, the most often evicted first.
        evictions: how often each was.
        queues: the queues involved, as numbers: those of these workloads, and of the workloads
            for which they were evicted.
    """

    jobs: IntArray
    evictions: IntArray
    queues: IntArray


@dataclass(frozen=True, slots=True)
class QuotaRun:
    """What happened: one entry per run of a workload, in the order of their starts.

    Attributes:
        jobs: what was replayed.
        job, start_s, end_s: workload, start and end of each run.
        reason: why it was evicted, a position in `REASONS`; -1 where it finished.
        evictions: how often each workload was evicted; shape (n,).
        unfinished: workloads that never finished: they do not fit, or were evicted too often.
        grace_s: how long an evicted workload held its quota after its end.
        cause: the workload for which it was evicted; -1 where it finished.
        pair, amount: what each run holds: a number of flavor and resource (`QuotaNames`), -1 for
            none, and how much of it; shape (runs, most slots of a workload).
        site: what it ran on. ``names``: of its nodes, flavors and resources.
    """

    jobs: QuotaJobs
    job: IntArray
    start_s: IntArray
    end_s: IntArray
    reason: IntArray
    evictions: IntArray
    unfinished: IntArray
    grace_s: int
    cause: IntArray
    pair: IntArray
    amount: IntArray
    site: QuotaSite
    names: QuotaNames

    @property
    def quotas(self) -> NodeQuotas:
        """What each node of the site has by itself and may lend."""
        return node_quotas(self.site, self.names)

    def loop(self) -> EvictionLoop | None:
        """Return the workloads that were evicted again and again; None where there are none."""
        return eviction_loop(self.evictions, self.jobs.queue, self.job, self.cause)

    def accounts(self, until_s: int | None = None) -> QuotaAccounts:
        """Return what each queue held, borrowed, lent, waited and lost, before ``until_s``."""
        until = np.where(self.reason < 0, self.end_s, self.end_s + self.grace_s)
        held = QuotaHolds(
            self.jobs.queue, self.jobs.submit, self.job, self.start_s, self.end_s, until,
            self.cause, self.pair, self.amount,
        )  # fmt: skip
        return account(self.quotas, held, until_s)


def eviction_loop(
    evictions: IntArray, queue: IntArray, job: IntArray, cause: IntArray
) -> EvictionLoop | None:
    """Return the workloads that were evicted again and again; None where there are none.

    Args:
        evictions, queue: of each workload. ``job``, ``cause``: of each run.
    """
    often = np.flatnonzero(evictions > LOOP_EVICTIONS)
    if not often.size:
        return None
    often = often[np.lexsort((often, -evictions[often]))]
    causes = cause[np.isin(job, often) & (cause >= 0)]
    queues = np.unique(queue[np.concatenate((often, causes))])
    return EvictionLoop(often, evictions[often], queues)


def replay_quota(
    site: QuotaSite, jobs: QuotaJobs, *, grace_s: int = DEFAULT_GRACE_S, checkpoint_s: int = 0,
    most_evictions: int = DEFAULT_MOST_EVICTIONS,
    progress: Callable[[float], None] = lambda share: None,
) -> QuotaRun:  # fmt: skip
    """Replay workloads under Kueue's rules.

    Args:
        site: queues, cohorts and settings.
        jobs: the workloads.
        grace_s: seconds between an eviction and the release of the quota; at least 1.
        checkpoint_s: seconds between checkpoints; what was done since the last one is lost in an
            eviction. 0: all is lost.
        most_evictions: a workload evicted so often is given up: its loop might never end.
        progress: called with the share of the workloads that have come.

    Raises:
        ValueError: a queue, a number or a setting is out of range, or cohorts lie in a ring.
    """
    check_settings(grace_s, checkpoint_s, most_evictions)
    _check(site, jobs)
    names = names_of(site, jobs.shapes)
    tree = tree_of(site, names)
    rules, group_of = rules_of(site, names)
    table, shape_queue = workload_table(jobs, names, group_of)
    state = new_state(tree, table, shape_queue)
    n = jobs.queue.size
    runs = run_table(2 * n + 2 * len(site.queues) + 16, table)
    events = (sections([n]), np.zeros((n, 1), np.int64))
    arrivals = np.lexsort((table.works[:, col.W_UID], table.works[:, col.W_ARRIVAL]))
    lists = (arrivals, shape_queue, np.zeros(2 * n + len(site.queues) + 1, np.int64))
    limits = (grace_s, checkpoint_s, most_evictions, INSTANTS)
    tables = (tree, rules, table, state)
    while (how := run(tables, runs, events, lists, limits)) != DONE:
        if how == FULL:
            runs = np.concatenate((runs, np.full_like(runs, -1)))
        progress(float(state.count[NEXT_COMING]) / max(n, 1))
    runs = runs[: state.count[ROWS]]
    finished = np.zeros(n, np.bool_)
    job, start, end, reason, cause = runs[:, :ROW_SLOTS].T.copy()
    finished[job[reason < 0]] = True
    most_slots = (runs.shape[1] - ROW_SLOTS) // SLOT_COLUMNS
    slots = runs[:, ROW_SLOTS:].reshape(job.size, most_slots, SLOT_COLUMNS)
    return QuotaRun(
        jobs, job, start, end, reason, state.works[:, col.EVICTIONS].copy(),
        np.flatnonzero(~finished), grace_s, cause, slots[:, :, 0].copy(), slots[:, :, 1].copy(),
        site, names,
    )  # fmt: skip


def check_settings(grace_s: int, checkpoint_s: int, most_evictions: int) -> None:
    """Raise `ValueError` where a setting of a replay is out of range."""
    if grace_s < 1 or most_evictions < 1 or checkpoint_s < 0:
        raise ValueError("grace_s and most_evictions must be at least 1, checkpoint_s at least 0")


def check_columns(jobs: Any, columns: tuple[str, ...], queues: int) -> None:
    """Raise `ValueError` where columns of jobs differ in length or have numbers out of range."""
    n = jobs.queue.size
    for name in columns:
        values = getattr(jobs, name)
        if values.shape != (n,):
            raise ValueError(f"{name} must have shape ({n},), got {values.shape}")
        if n and max(-int(values.min()), int(values.max())) > LARGEST:
            raise ValueError(f"{name} must be within {LARGEST} of 0")
    if n and (jobs.queue.min() < 0 or jobs.queue.max() >= queues):
        raise ValueError(f"queue must be from 0 to {queues - 1}")


def _check(site: QuotaSite, jobs: QuotaJobs) -> None:
    check_columns(jobs, ("priority", "submit", "created", "run", "pods", "uid"), len(site.queues))
    if jobs.queue.size and jobs.run.min() < 0:
        raise ValueError("run must be at least 0")
