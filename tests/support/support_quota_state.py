"""Plain values of tests as the tables of the simulators of quotas, of Kueue and of KAI."""

from dataclasses import dataclass

import numpy as np

from gpuplan.simkit.arrays import for_kernels
from gpuplan.simkit.quota import kai_columns as col
from gpuplan.simkit.quota.kai_round import settle
from gpuplan.simkit.quota.kai_share import divide
from gpuplan.simkit.quota.kai_site import ages, empty_state, queue_table
from gpuplan.simkit.quota.site import QuotaJobs

UNPREEMPTIBLE_PRIORITY = 100
"""From this priority on a job is not preemptible unless it says so."""


@dataclass(frozen=True, slots=True)
class KaiJob:
    """A job of KAI: tasks of equal size, of which so many start together.

    Attributes:
        nodes: node of each task that runs; None for one that waits.
    """

    name: str
    queue: str
    gpus_per_task: int
    nodes: tuple[str | None, ...] = (None,)
    min_tasks: int = 1
    priority: int = 50
    preemptible: bool | None = None
    created: int = 0


def fair_shares(queues, requested, total, k=0.0):
    """Return the fair share of each queue of one level."""
    table = queue_table(queues)
    table[:, col.REQUESTED] = requested
    level = np.lexsort(ages(queues)).astype(np.int64)
    divide(table, level, float(total), float(k))
    return table[:, col.FAIR].copy()


def kai_state(nodes, queues, jobs):
    """Return the tables of a site with what runs and waits on it."""
    names = sorted(nodes)
    position = {queue.name: i for i, queue in enumerate(queues)}
    ages = np.lexsort((
        np.argsort(np.argsort([job.name for job in jobs], kind="stable")),
        np.array([job.created for job in jobs]),
    ))  # fmt: skip
    table = np.zeros((len(jobs), 8), np.int64)
    tasks = []
    for age, j in enumerate(ages.tolist()):
        job = jobs[j]
        fixed = not job.preemptible
        if job.preemptible is None:
            fixed = job.priority >= UNPREEMPTIBLE_PRIORITY
        first = len(tasks)
        for node in job.nodes:
            at = -1 if node is None else names.index(node)
            tasks.append((col.TASK_PENDING if at < 0 else col.TASK_RUNNING, at, -1, 0))
        table[j] = (
            position[job.queue], job.priority, fixed, job.gpus_per_task, job.min_tasks, first,
            len(tasks), age,
        )  # fmt: skip
    capacity = np.array([nodes[name] for name in names], np.int64)
    running = [len(job.nodes) - job.nodes.count(None) for job in jobs]
    is_uniform = all(count in (0, len(job.nodes)) for count, job in zip(running, jobs, strict=True))
    rows = np.array(tasks, np.int64).reshape(-1, 4)
    state = empty_state(capacity, queues, table, rows, is_uniform=is_uniform)
    settle(state)
    return state


def as_jobs(columns, shapes):
    """Return workloads from sequences of numbers by the names of `QuotaJobs`."""
    arrays = {name: for_kernels(np.array(values, np.int64)) for name, values in columns.items()}
    return QuotaJobs(**arrays, shapes=tuple(shapes))
