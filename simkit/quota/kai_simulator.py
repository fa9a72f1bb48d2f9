"""Replay jobs under KAI's rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpuplan.simkit.arrays import IntArray
from gpuplan.simkit.heap import sections
from gpuplan.simkit.quota import kai_columns as col
from gpuplan.simkit.quota.accounts import NodeQuotas, QuotaAccounts, QuotaHolds, account
from gpuplan.simkit.quota.kai_kernel import (
    CLOCK,
    DONE,
    FULL,
    NEXT_COMING,
    NOW,
    PAST_COLUMNS,
    ROUND_AT,
    ROW_COLUMNS,
    ROWS,
    USED_UNTIL,
    WINDOW_FROM,
    run_kai,
)
from gpuplan.simkit.quota.kai_round import settle
from gpuplan.simkit.quota.kai_site import KaiQueue, empty_state
from gpuplan.simkit.quota.simulator import (
    DEFAULT_MOST_EVICTIONS,
    LARGEST,
    EvictionLoop,
    check_columns,
    check_settings,
    eviction_loop,
)
from gpuplan.simkit.quota.site import DEFAULT_GRACE_S

KAI_REASONS = ("Consolidation", "Reclaim", "Preempt")
"""Why a task was told to stop: to place all with less waste, for another queue, for a priority."""
DAY_S = 86_400
DEFAULT_HALF_LIFE_S = 600
DEFAULT_WINDOW_S = 7 * DAY_S
DEFAULT_MOST_MOVED = 16
"""That of KAI's scheduler."""
INSTANTS = 20_000


@dataclass(frozen=True, slots=True)
class KaiSite:
    """Nodes, queues and settings of KAI.

    Attributes:
        node_gpus: GPUs of each node, in the order of the nodes' names.
        queues: all of them; jobs go to those that are nobody's parent.
        usage_weight: k of time-based fair share: how much past use lowers a share. 0: not at all.
        half_life_s: after this time past use counts half; 0: it does not decay.
        window_s: only use of so long ago counts; 0: all.
        most_moved: most victims that a consolidation looks at, the first in their order; -1: all.
    """

    node_gpus: tuple[int, ...]
    queues: tuple[KaiQueue, ...]
    usage_weight: float = 0.0
    half_life_s: int = DEFAULT_HALF_LIFE_S
    window_s: int = DEFAULT_WINDOW_S
    most_moved: int = DEFAULT_MOST_MOVED


@dataclass(frozen=True, slots=True)
class KaiJobs:
    """Jobs as arrays of shape (n,), times in whole seconds.

    Attributes:
        queue: position of the queue of each in the site.
        priority: the highest first. ``fixed``: whether it cannot be evicted.
        submit: when each comes; older jobs go first, then by position.
        run: how long each task runs.
        size: GPUs of a task. ``tasks``: number of its tasks. ``least``: how many start together;
            the others start, and are evicted, one by one.
    """

    queue: IntArray
    priority: IntArray
    fixed: IntArray
    submit: IntArray
    run: IntArray
    size: IntArray
    tasks: IntArray
    least: IntArray

    @classmethod
    def of_gpus(
        cls, queue: IntArray, priority: IntArray, fixed: IntArray, submit: IntArray, run: IntArray,
        gpus: IntArray, node_gpus: int,
    ) -> KaiJobs:  # fmt: skip
        """Return gangs: as few tasks of equal size as fit nodes of so many GPUs."""
        tasks = -(-gpus // node_gpus)
        while (uneven := gpus % tasks != 0).any():
            tasks = tasks + uneven
        return cls(queue, priority, fixed, submit, run, gpus // tasks, tasks, tasks)


@dataclass(frozen=True, slots=True)
class KaiRun:
    """What happened: tasks of a job that start and end together are one entry, by start, then job.

    Attributes:
        jobs: what was replayed.
        job, start_s, end_s, gpus: job, start, end and GPUs of each entry.
        reason: why it was evicted, a position in `KAI_REASONS`; -1 where it finished.
        cause: the job for which it was evicted; -1 where it finished.
        evictions: in how many rounds each job was evicted, or a part of it.
        unfinished: jobs with tasks that never finished.
        grace_s: how long evicted tasks held their GPUs after their end.
        queue: queue of each job as a position in ``nodes``.
        nodes, quotas: names of the queues that take jobs, then of those above them, then "" for the
            cluster; and what each deserves.
    """

    jobs: KaiJobs
    job: IntArray
    start_s: IntArray
    end_s: IntArray
    gpus: IntArray
    reason: IntArray
    cause: IntArray
    evictions: IntArray
    unfinished: IntArray
    grace_s: int
    queue: IntArray
    nodes: tuple[str, ...]
    quotas: NodeQuotas

    def loop(self) -> EvictionLoop | None:
        """Return the jobs that were evicted again and again; None where there are none."""
        return eviction_loop(self.evictions, self.queue, self.job, self.cause)

    def accounts(self) -> QuotaAccounts:
        """Return what each queue held, borrowed, lent, waited and lost, in ``nodes``' order.

        A queue that deserves all has no quota that could be idle: NaN.
        """
        until = np.where(self.reason < 0, self.end_s, self.end_s + self.grace_s)
        held = QuotaHolds(
            self.queue, self.jobs.submit, self.job, self.start_s, self.end_s, until,
            self.cause, np.zeros((self.job.size, 1), np.int64), self.gpus[:, None],
        )  # fmt: skip
        books = account(self.quotas, held)
        for hours in (books.idle, books.idle_wanted):
            hours[self.quotas.lendable[:, 0] == 0] = np.nan
        return books


def replay_kai(
    site: KaiSite, jobs: KaiJobs, *, grace_s: int = DEFAULT_GRACE_S, checkpoint_s: int = 0,
    most_evictions: int = DEFAULT_MOST_EVICTIONS,
    progress: Callable[[float], None] = lambda share: None,
) -> KaiRun:  # fmt: skip
    """Replay jobs under KAI's rules.

    Args:
        site: nodes, queues and settings.
        jobs: the jobs.
        grace_s: seconds between an eviction and the release of the GPUs; at least 1.
        checkpoint_s: seconds between checkpoints; what was done since the last one is lost in an
            eviction. 0: all is lost.
        most_evictions: a job evicted in so many rounds is given up: its loop might never end.
        progress: called with the share of the jobs that have come.

    Raises:
        ValueError: a queue, a number or a setting is out of range, or queues lie in a ring.
    """
    check_settings(grace_s, checkpoint_s, most_evictions)
    if site.usage_weight < 0 or site.half_life_s < 0 or site.window_s < 0:
        raise ValueError("usage_weight, half_life_s and window_s must be at least 0")
    _check(site, jobs)
    n = jobs.queue.size
    ends = np.cumsum(jobs.tasks)
    age = np.empty(n, np.int64)
    arrivals = np.argsort(jobs.submit, kind="stable")
    age[arrivals] = np.arange(n)
    table = np.column_stack((
        jobs.queue, jobs.priority, jobs.fixed, jobs.size, jobs.least, ends - jobs.tasks, ends, age,
    )).astype(np.int64)  # fmt: skip
    owner = np.repeat(np.arange(n), jobs.tasks)
    tasks = np.full((owner.size, 4), -1, np.int64)
    tasks[:, 0], tasks[:, 3] = col.TASK_GONE, 0
    capacity = np.array(site.node_gpus, np.int64)
    state = empty_state(capacity, site.queues, table, tasks)
    state.tasks[:, col.TASK_JOB], state.tasks[:, col.TASK_REST] = owner, jobs.run[owner]
    settle(state)
    if site.most_moved >= 0:
        state.count[col.MOST_MOVED] = site.most_moved
    clock = np.zeros(CLOCK, np.int64)
    clock[[NOW, USED_UNTIL, WINDOW_FROM]] = jobs.submit.min(initial=LARGEST)
    clock[ROUND_AT] = -LARGEST - 1
    past = np.zeros((len(site.queues) + 1, PAST_COLUMNS))
    runs = np.zeros((2 * owner.size + 16, ROW_COLUMNS), np.int64)
    changes = np.zeros((2 * (n + owner.size) + 16, 3), np.int64)
    events = (sections([owner.size]), np.zeros((owner.size, 1), np.int64))
    decay = np.log(2) / site.half_life_s if site.half_life_s else 0.0
    limits = (grace_s, checkpoint_s, most_evictions, INSTANTS)
    sharing = (float(site.usage_weight), float(decay), site.window_s)
    lists = (jobs.submit, arrivals, changes)
    while (how := run_kai(state, clock, past, runs, events, lists, limits, sharing)) != DONE:
        if how == FULL:
            runs = np.concatenate((runs, np.zeros_like(runs)))
            changes = np.concatenate((changes, np.zeros_like(changes)))
            lists = (jobs.submit, arrivals, changes)
        progress(float(clock[NEXT_COMING]) / max(n, 1))
    return _run_of(
        site, jobs, runs[: clock[ROWS]], state.jobs[:, col.JOB_EVICTIONS].copy(), grace_s
    )


def _run_of(
    site: KaiSite, jobs: KaiJobs, rows: IntArray, evictions: IntArray, grace_s: int
) -> KaiRun:
    """Put tasks of a job that start and end together together."""
    order = np.lexsort((*rows.T[[4, 3, 2, 0]], rows[:, 1]))
    rows = rows[order]
    is_first = np.ones(len(rows), np.bool_)
    is_first[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    group = np.cumsum(is_first) - 1
    counts = np.bincount(group, minlength=int(is_first.sum()))
    job, start, end, reason, cause = rows[is_first].T.copy()
    done = np.bincount(job[reason < 0], counts[reason < 0], minlength=jobs.queue.size)
    quotas, nodes = _quotas(site)
    number = np.array([nodes.index(queue.name) for queue in site.queues])
    return KaiRun(
        jobs, job, start, end, counts * jobs.size[job], reason, cause, evictions,
        np.flatnonzero(done < jobs.tasks), grace_s, number[jobs.queue], nodes, quotas,
    )  # fmt: skip


def _quotas(site: KaiSite) -> tuple[NodeQuotas, tuple[str, ...]]:
    """Return what each queue deserves, for accounts, and the names: leaves, others, the cluster.

    What a queue above others, or the cluster, has beyond what those below deserve is its own. A
    queue that deserves all is within its quota with whatever it holds, and lends nothing.
    """
    above = {queue.parent for queue in site.queues}
    queues = sorted(site.queues, key=lambda queue: queue.name in above)
    leaves = sum(queue.name not in above for queue in queues)
    position = {queue.name: i for i, queue in enumerate(queues)}
    root, total = len(queues), float(sum(site.node_gpus))
    parent = [root if q.parent is None else position[q.parent] for q in queues] + [-1]
    deserved = np.array([q.deserved for q in queues] + [total])
    is_leaf = np.arange(root + 1) < leaves
    nominal = np.where(deserved < 0, np.where(is_leaf, total, 0.0), deserved)
    unshared = nominal.copy()
    for node, node_above in enumerate(parent[:-1]):
        if deserved[node] >= 0:
            unshared[node_above] -= nominal[node]
    lendable = np.where(deserved < 0, 0.0, np.inf)
    most = np.array([q.limit for q in queues] + [-1.0])
    borrowable = np.where((most < 0) | (deserved < 0), np.inf, np.maximum(most - deserved, 0.0))
    quotas = NodeQuotas(
        np.array(parent), leaves, np.maximum(unshared, 0.0)[:, None], lendable[:, None],
        borrowable[:, None],
        np.ones((leaves, 1), np.bool_),
    )  # fmt: skip
    return quotas, (*(queue.name for queue in queues), "")


def _check(site: KaiSite, jobs: KaiJobs) -> None:
    columns = ("priority", "fixed", "submit", "run", "size", "tasks", "least")
    check_columns(jobs, columns, len(site.queues))
    if not site.node_gpus or min(site.node_gpus) < 0:
        raise ValueError("node_gpus must name at least one node, each of at least 0 GPUs")
    if not jobs.queue.size:
        return
    leaves = {q.name for q in site.queues} - {q.parent for q in site.queues}
    for q in np.unique(jobs.queue).tolist():
        if site.queues[q].name not in leaves:
            raise ValueError(f"queue {site.queues[q].name} has queues below it: it takes no jobs")
    if jobs.run.min() < 0 or jobs.size.min() < 1 or jobs.least.min() < 1:
        raise ValueError("run must be at least 0, size and least at least 1")
    if (jobs.least > jobs.tasks).any():
        raise ValueError("least must be at most tasks")
