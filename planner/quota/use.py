"""What queues did with their quotas in a replay: within and above it, borrowing, preemptions, idle.

Between two events everything is constant. What a queue holds of a flavor above its nominal quota
comes from the idle nominal quotas of its tree, of each in proportion to what is idle there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gpuplan.analysis.base.time_units import HOUR_S
from gpuplan.analysis.quota.quantities import gpus_of
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.quota.simulator import QuotaRun
from gpuplan.simkit.quota.site import QuotaSite
from gpuplan.simkit.quota.tables import QuotaNames, names_of, tree_of

CHUNK = 4096
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
            waited.
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


def site_use(case: str, site: QuotaSite, run: QuotaRun, until: int) -> SiteUse:
    """Return what the queues of a site did until a time.

    Args:
        case: what the replay is called.
        site: as it was replayed.
        run: the replay; its queues are those of the site.
        until: seconds, the end of the log: later runs do not count.
    """
    names = names_of(site, run.jobs.shapes)
    worth = np.array([float(gpus_of(resource)) for resource in names.resources])
    nominal = _nominal(site, names, worth)
    root = tree_of(site, names).root
    queues, flavors = len(site.queues), len(names.flavors)
    totals = _Totals(queues, nominal)
    for length, held, waiting in _stretches(run, names, worth, queues, flavors, until):
        totals.add(length, held, waiting, root)
    caused = np.zeros(queues, np.int64)
    pairs: dict[tuple[int, int], int] = {}
    evicted = np.flatnonzero(run.reason >= 0)
    queue_of = run.jobs.queue
    for at in evicted.tolist():
        victim = int(queue_of[run.job[at]])
        by = int(queue_of[run.cause[at]]) if run.cause[at] >= 0 else victim
        caused[by] += 1
        pairs[by, victim] = pairs.get((by, victim), 0) + 1
    suffered = np.bincount(queue_of[run.job[evicted]], minlength=queues)
    gpus = _gpus_of_runs(run, names, worth).sum(axis=1)
    lost = np.bincount(
        queue_of[run.job[evicted]],
        weights=((run.end_s - run.start_s) * gpus)[evicted],
        minlength=queues,
    )
    told = [queue.name for queue in site.queues]
    rows = tuple(
        QueueUse(
            case, told[at], float(nominal[at].sum()), totals.within[at] / HOUR_S,
            totals.above[at] / HOUR_S, float(totals.loans[:, at].sum()) / HOUR_S,
            totals.idle[at] / HOUR_S, int(caused[at]), int(suffered[at]), float(lost[at]) / HOUR_S,
        )
        for at in range(queues)
    )  # fmt: skip
    loans = [
        Loan(
            case,
            told[borrower],
            names.nodes[lender],
            float(totals.loans[borrower, lender]) / HOUR_S,
        )
        for borrower, lender in zip(*np.nonzero(totals.loans), strict=True)
    ]
    evictions = [Eviction(case, told[by], told[of], count) for (by, of), count in pairs.items()]
    return SiteUse(
        rows,
        tuple(
            sorted(
                (loan for loan in loans if loan.gpu_h >= LEAST_GPU_H),
                key=lambda loan: (-loan.gpu_h, loan.borrower, loan.lender),
            )
        ),
        tuple(sorted(evictions, key=lambda row: (-row.count, row.by, row.of))),
    )


class _Totals:
    """Sums over stretches of time, in GPU-seconds; by node, queues first."""

    def __init__(self, queues: int, nominal: FloatArray) -> None:
        self.queues, self.nominal = queues, nominal
        nodes = nominal.shape[0]
        self.within, self.above = np.zeros(queues), np.zeros(queues)
        self.idle = np.zeros(nodes)
        self.loans = np.zeros((queues, nodes))

    def add(self, length: FloatArray, held: FloatArray, waiting: IntArray, root: IntArray) -> None:
        """Add stretches.

        Args:
            length: seconds of each; shape (k,).
            held: GPUs held by each queue of each flavor; (k, queues, flavors).
            waiting: workloads of each queue that wait; (k, queues).
            root: the root of each node.
        """
        queues = self.queues
        over = np.maximum(held - self.nominal[:queues], 0)
        self.above += np.einsum("k,kqf->q", length, over)
        self.within += np.einsum("k,kqf->q", length, held - over)
        unused = np.broadcast_to(self.nominal, (length.size, *self.nominal.shape)).copy()
        unused[:, :queues] = np.maximum(self.nominal[:queues] - held, 0)
        lent = np.zeros_like(unused)
        for tree in np.unique(root):
            nodes = np.flatnonzero(root == tree)
            inside = nodes[nodes < queues]
            total = unused[:, nodes].sum(axis=1)
            wanted = over[:, inside].sum(axis=1)
            share = np.divide(
                unused[:, nodes], total[:, None], out=np.zeros_like(unused[:, nodes]),
                where=total[:, None] > 0,
            )  # fmt: skip
            taken = np.minimum(wanted, total)
            lent[:, nodes] = share * taken[:, None]
            part = np.divide(
                over[:, inside], wanted[:, None], out=np.zeros_like(over[:, inside]),
                where=wanted[:, None] > 0,
            )  # fmt: skip
            self.loans[np.ix_(inside, nodes)] += np.einsum(
                "k,kbf,klf->bl", length, part, lent[:, nodes], optimize=True
            )
        others = waiting.sum(axis=1, keepdims=True) - waiting
        waits = np.ones((length.size, self.nominal.shape[0]))
        waits[:, :queues] = others > 0
        waits[:, queues:] = (waiting.sum(axis=1) > 0)[:, None]
        self.idle += np.einsum("k,kn,knf->n", length, waits, unused - lent)


def _nominal(site: QuotaSite, names: QuotaNames, worth: FloatArray) -> FloatArray:
    """Return the GPUs of the nominal quotas of each node by flavor."""
    nominal = np.zeros((len(names.nodes), len(names.flavors)))
    resources = {name: worth[at] for at, name in enumerate(names.resources)}
    for at, queue in enumerate(site.queues):
        for flavor in (flavor for group in queue.groups for flavor in group):
            for resource, quota in flavor.quotas.items():
                gpus = quota.nominal * resources[resource]
                nominal[at, names.flavors.index(flavor.name)] += gpus
    for cohort in site.cohorts:
        at = names.nodes.index(cohort.name, len(site.queues))
        for (flavor_name, resource), quota in cohort.quotas.items():
            nominal[at, names.flavors.index(flavor_name)] += quota.nominal * resources[resource]
    return nominal


def _gpus_of_runs(run: QuotaRun, names: QuotaNames, worth: FloatArray) -> FloatArray:
    """Return the GPUs that each run holds by flavor; (runs, flavors)."""
    resources = len(names.resources)
    gpus = np.zeros((run.job.size, len(names.flavors)))
    for slot in range(run.pair.shape[1]):
        pair, amount = run.pair[:, slot], run.amount[:, slot]
        has = np.flatnonzero(pair >= 0)
        np.add.at(gpus, (has, pair[has] // resources), amount[has] * worth[pair[has] % resources])
    return gpus


def _stretches(
    run: QuotaRun, names: QuotaNames, worth: FloatArray, queues: int, flavors: int, until: int
) -> Iterator[tuple[FloatArray, FloatArray, IntArray]]:
    """Yield stretches between events: lengths, GPUs held, and workloads waiting."""
    jobs, gpus = run.jobs, _gpus_of_runs(run, names, worth)
    queue = jobs.queue[run.job]
    back = run.reason >= 0
    end = run.end_s + np.where(back, run.grace_s, 0)
    zero = np.zeros((jobs.queue.size, flavors))
    time = np.concatenate((jobs.submit, run.start_s, end))
    who = np.concatenate((jobs.queue, queue, queue))
    more = np.concatenate((zero, gpus, -gpus))
    wait = np.concatenate((np.ones_like(jobs.queue), -np.ones_like(queue), back.astype(np.int64)))
    order = np.argsort(time, kind="stable")
    time, who, more, wait = time[order], who[order], more[order], wait[order]
    inside = time < until
    time, who, more, wait = time[inside], who[inside], more[inside], wait[inside]
    length = np.diff(time, append=until).astype(np.float64)
    held, waiting = np.zeros((queues, flavors)), np.zeros(queues, np.int64)
    for begin in range(0, time.size, CHUNK):
        part = slice(begin, min(begin + CHUNK, time.size))
        k = part.stop - part.start
        change, queued = np.zeros((k, queues, flavors)), np.zeros((k, queues), np.int64)
        rows = np.arange(k)
        change[rows, who[part]] = more[part]
        queued[rows, who[part]] = wait[part]
        now, line = held + change.cumsum(axis=0), waiting + queued.cumsum(axis=0)
        held, waiting = now[-1], line[-1]
        takes = length[part] > 0
        yield length[part][takes], now[takes], line[takes]


def all_uses(uses: Sequence[SiteUse]) -> SiteUse:
    """Return the uses of several replays as one."""
    return SiteUse(
        tuple(row for use in uses for row in use.queues),
        tuple(row for use in uses for row in use.loans),
        tuple(row for use in uses for row in use.evictions),
    )
