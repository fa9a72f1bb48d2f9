"""What queues did with their quotas in a replay, and the loops of evictions in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpuplan.analysis.base.words import counted, listed
from gpuplan.analysis.quota.amounts import gpus_of
from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.quota.simulator import LOOP_EVICTIONS, QuotaRun

if TYPE_CHECKING:
    from gpuplan.simkit.quota.kai_simulator import KaiRun

MOST_NAMED = 5
LEAST_GPU_H = 0.05
"""Less is left out of the table of loans."""


@dataclass(frozen=True, slots=True)
class QueueUse:
    """What one queue did with its quotas.

    Attributes:
        case: ``today``, or the change.
        queue: the ClusterQueue.
        nominal_gpus: GPUs of its nominal quotas.
        within_gpu_h: GPU-hours held within its nominal quotas.
        above_gpu_h: GPU-hours held above them: borrowed.
        lent_gpu_h: GPU-hours of its nominal quotas that others held.
        idle_gpu_h: GPU-hours of its nominal quotas that nobody held while workloads of other queues
            waited that could have borrowed them under the limits in force.
        preemptions_caused: times that a workload of it evicted one, of any queue.
        preemptions_suffered: times that a workload of it was evicted.
        lost_gpu_h: GPU-hours of its workloads that evictions undid.
    """

    case: str
    queue: str
    nominal_gpus: float
    within_gpu_h: float
    above_gpu_h: float
    lent_gpu_h: float
    idle_gpu_h: float
    preemptions_caused: int
    preemptions_suffered: int
    lost_gpu_h: float


@dataclass(frozen=True, slots=True)
class Loan:
    """GPU-hours that one queue held out of the quota of another.

    Attributes:
        case: ``today``, or the change.
        borrower: the ClusterQueue that held them.
        lender: the ClusterQueue or Cohort whose nominal quota was idle.
        gpu_h: how many.
    """

    case: str
    borrower: str
    lender: str
    gpu_h: float


@dataclass(frozen=True, slots=True)
class Eviction:
    """Preemptions of the workloads of one queue by those of another.

    Attributes:
        case: ``today``, or the change.
        by: the queue that evicted.
        of: the queue whose workloads were evicted.
        count: how often.
    """

    case: str
    by: str
    of: str
    count: int


@dataclass(frozen=True, slots=True)
class SiteUse:
    """What all queues did with their quotas in one replay.

    Attributes:
        queues: one entry per ClusterQueue.
        loans: the largest first.
        evictions: the most often first.
    """

    queues: tuple[QueueUse, ...]
    loans: tuple[Loan, ...]
    evictions: tuple[Eviction, ...]


def site_use(case: str, run: QuotaRun, until_s: int | None = None) -> SiteUse:
    """Return what the queues of a site did from the first submission on.

    Args:
        case: what the replay is called.
        run: the replay.
        until_s: end of the time that all numbers are of; None for the last end of the replay.
    """
    books, names, queues = run.accounts(until_s), run.names, run.names.queues
    worth = np.tile([float(gpus_of(name)) for name in names.resources], len(names.flavors))
    nominal = run.quotas.nominal @ worth
    within, above, lost = books.within @ worth, books.above @ worth, books.lost @ worth
    lent, idle = books.lent @ worth, books.idle_wanted @ worth
    rows = tuple(
        QueueUse(
            case, names.nodes[at], float(nominal[at]), float(within[at]), float(above[at]),
            float(lent[at].sum()), float(idle[at]), int(books.evictions[at].sum()),
            int(books.evictions[:, at].sum()), float(lost[at]),
        )
        for at in range(queues)
    )  # fmt: skip
    loans = [
        Loan(case, names.nodes[borrower], names.nodes[lender], float(lent[lender, borrower]))
        for lender, borrower in zip(*np.nonzero(lent >= LEAST_GPU_H), strict=True)
    ]
    evictions = [
        Eviction(case, names.nodes[by], names.nodes[of], int(books.evictions[by, of]))
        for by, of in zip(*np.nonzero(books.evictions), strict=True)
    ]
    return SiteUse(
        rows,
        tuple(sorted(loans, key=lambda loan: (-loan.gpu_h, loan.borrower, loan.lender))),
        tuple(sorted(evictions, key=lambda row: (-row.count, row.by, row.of))),
    )


def all_uses(uses: Sequence[SiteUse]) -> SiteUse:
    """Return the uses of several replays as one."""
    return SiteUse(
        tuple(row for use in uses for row in use.queues),
        tuple(row for use in uses for row in use.loans),
        tuple(row for use in uses for row in use.evictions),
    )


def loop_notes(
    run: QuotaRun | KaiRun, names: Sequence[str], queues: Sequence[str]
) -> tuple[str, ...]:
    """Return what to say of a loop of evictions; nothing without one."""
    loop = run.loop()
    if loop is None:
        return ()
    worst, often = names[int(loop.jobs[0])], int(loop.evictions[0])
    of = listed([queues[int(at)] for at in loop.queues][:MOST_NAMED])
    return (
        f"a loop of evictions: {counted(loop.jobs.size, 'job')} of {of} evicted more than "
        f"{LOOP_EVICTIONS} times, job {worst} {often:,} times; under these preemption policies "
        "queues take turns in evicting each other",
    )


def unfinished_notes(unfinished: IntArray, names: Sequence[str]) -> tuple[str, ...]:
    """Return what to say of jobs that the quotas never let finish."""
    if not unfinished.size:
        return ()
    some = listed([names[int(at)] for at in unfinished[:MOST_NAMED]])
    return (
        f"{counted(int(unfinished.size), 'job')} never finish under these quotas ({some}); they "
        "count with the time until they were given up",
    )
