"""From the jobs of a trace to workloads in the queues of a site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from gpuplan.analysis.base.errors import UsageError
from gpuplan.analysis.base.words import counted, listed
from gpuplan.analysis.quota.amounts import gpus_of
from gpuplan.planner.quota.kai_model import KaiModel
from gpuplan.planner.quota.model import QuotaModel
from gpuplan.planner.runs.trace_jobs import (
    OF_QUEUES,
    PREEMPTIBLE,
    QUEUE_COLUMNS,
    RECORDED_PRIORITY,
    TraceJobs,
)
from gpuplan.simkit.arrays import BoolArray, IntArray
from gpuplan.simkit.quota.kai_simulator import KaiJobs
from gpuplan.simkit.quota.site import PodSet, QuotaJobs
from gpuplan.simkit.time import MICROS

SPOT = "spot"
TRAIN_PRIORITY = 50
"""Of KAI's class for training jobs, which may be evicted."""
MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class QueuedJobs:
    """The jobs of a trace in the queues of a site.

    Attributes:
        jobs: workloads in the order of the trace, in whole seconds after its first submission.
        gpus: GPUs of each.
        never: jobs that no quota of their queue could hold.
        notes: what was assumed, one sentence each.
        gpus_by_type: GPUs of each GPU type that jobs keep to, of a site of several; else empty.
        usable_gpus: GPUs of the quotas of all flavors that a job may run on.
    """

    jobs: QuotaJobs
    gpus: IntArray
    never: BoolArray
    notes: tuple[str, ...]
    gpus_by_type: Mapping[str, int]
    usable_gpus: int


def queued_jobs(jobs: TraceJobs, model: QuotaModel, *, any_type: bool = False) -> QueuedJobs:
    """Return the workloads of a trace.

    Args:
        jobs: with the columns of `OF_QUEUES`.
        model: the site.
        any_type: whether jobs may run on every flavor, not only on those of their GPU type.

    Raises:
        UsageError: a job names no queue of the site.
    """
    work, table = jobs.workload, _table(jobs)
    queue, notes = _queues(table, model, jobs.job_id)
    priority, about_priority = _priorities(table)
    types = table["gpu_type"].to_list()
    flavors = {
        kind: None if any_type else model.flavors_of_type(kind) for kind in dict.fromkeys(types)
    }
    strange = sorted(kind for kind, allowed in flavors.items() if kind and allowed is None)
    if len(model.flavor_types) < 2:
        flavors = dict.fromkeys(flavors)  # no choice, and nothing to say of it
    elif strange and not any_type:
        count = sum(kind in strange for kind in types)
        notes.append(
            f"{counted(count, 'job')} of {listed(strange[:MOST_NAMED])} may run on any flavor: "
            "none is of that GPU type"
        )
    elif any(flavors.values()):
        notes.append(
            "jobs run on flavors of the GPU type that they had; flavor=any lets them choose"
        )
    shapes: dict[tuple[int, int, int, str | None], int] = {}
    pods = np.empty(work.size, np.int64)
    never = np.zeros(work.size, np.bool_)
    sets: list[tuple[PodSet, ...]] = []
    unfit: list[bool] = []
    usable: set[str] = set()
    workers = table["num_workers"].fill_null(1).to_list()
    rows = zip(queue.tolist(), work.gpus.tolist(), workers, types, strict=True)
    for i, (number, gpus, count, kind) in enumerate(rows):
        key = (number, gpus, count, kind)
        at = shapes.get(key)
        if at is None:
            at = shapes[key] = len(sets)
            sets.append(_pod_sets(model, number, gpus, count, flavors[kind]))
            unfit.append(not all(model.fits(number, pods) for pods in sets[-1]))
            usable |= model.flavors_of(number, flavors[kind])
        pods[i], never[i] = at, unfit[at]
    submit = -(-work.submit_us // MICROS)
    quota_jobs = QuotaJobs(
        queue, priority, submit, submit, -(-work.service_us // MICROS), pods,
        np.arange(work.size), tuple(sets),
    )  # fmt: skip
    kept_to = {model.flavor_types[name] for allowed in flavors.values() for name in allowed or ()}
    gpus_of_type = {kind: gpus for kind, gpus in model.gpus_of_type.items() if kind in kept_to}
    if len(model.gpus_of_type) < 2:
        gpus_of_type = {}
    notes += _unusable(model, usable)
    return QueuedJobs(
        quota_jobs, work.gpus, never, (*notes, *about_priority), gpus_of_type,
        model.gpus_of_flavors(usable),
    )  # fmt: skip


def _unusable(model: QuotaModel, usable: set[str]) -> list[str]:
    """Return which GPUs of a site no job may run on, which are not counted; nothing for none."""
    rest = sorted(model.gpus_of_flavor.keys() - usable)
    gpus = model.gpus_of_flavors(rest)
    if not gpus:
        return []
    return [f"{counted(gpus, 'GPU')} of {listed(rest[:MOST_NAMED])} do not count: no job may run "
            "on them"]  # fmt: skip


def kai_jobs(
    jobs: TraceJobs, model: KaiModel, fixed_priority: int
) -> tuple[KaiJobs, BoolArray, tuple[str, ...]]:
    """Return the jobs of a trace as gangs for KAI, with ``never`` and ``notes`` of `QueuedJobs`.

    Args:
        jobs: with the columns of `OF_QUEUES`.
        model: the site.
        fixed_priority: jobs of this priority or a higher one cannot be evicted, where the trace
            does not say of a job whether it can.

    Raises:
        UsageError: a job names no queue of the site.
    """
    work, table = jobs.workload, _table(jobs)
    queue, notes = _queues(table, model, jobs.job_id)
    priority, about_priority = _priorities(table)
    if table[RECORDED_PRIORITY].null_count() == table.height:
        priority = priority + TRAIN_PRIORITY
    fixed = priority >= fixed_priority
    preemptible = table[PREEMPTIBLE].fill_null("").to_numpy()
    fixed = (fixed & (preemptible != "true")) | (preemptible == "false")
    sizes = np.array(model.site.node_gpus)
    made = KaiJobs.of_gpus(
        queue, priority, fixed.astype(np.int64), -(-work.submit_us // MICROS),
        -(-work.service_us // MICROS), work.gpus, int(sizes.max()),
    )  # fmt: skip
    workers = table["num_workers"].fill_null(1).to_numpy().astype(np.int64)
    has_workers = (workers > made.tasks) & (work.gpus % np.maximum(workers, 1) == 0)
    tasks = np.where(has_workers, workers, made.tasks)
    made = replace(made, size=work.gpus // tasks, tasks=tasks, least=tasks)
    most = np.array([model.most.get(at, 0.0) for at in range(len(model.site.queues))])
    deserved = np.array([model.deserved.get(at, 0.0) for at in range(len(model.site.queues))])
    shapes, of = np.unique(np.stack((made.size, made.tasks), axis=1), axis=0, return_inverse=True)
    room = np.array([int((sizes // size).sum()) >= tasks for size, tasks in shapes.tolist()])
    never = ~room[of.reshape(-1)] | (work.gpus > most[queue])
    never |= fixed & (work.gpus > deserved[queue])
    return made, never, (*notes, *about_priority)


def _table(jobs: TraceJobs) -> pl.DataFrame:
    """Return the columns of queues; those that were not read are null."""
    table = pl.DataFrame({"at": np.arange(jobs.workload.size)})
    if jobs.queues is not None:
        table = table.with_columns(jobs.queues)
    kinds = {"num_workers": pl.Int64, RECORDED_PRIORITY: pl.Int64}
    return table.with_columns(
        (pl.col(name) if name in table.columns else pl.lit(None)).cast(kinds.get(name, pl.String))
        .alias(name)
        for name in OF_QUEUES
    )  # fmt: skip


def _queues(
    table: pl.DataFrame, model: QuotaModel | KaiModel, job_id: pl.Series
) -> tuple[IntArray, list[str]]:
    """Return the number of the queue of each job, and how it was found."""
    names = table.select(QUEUE_COLUMNS)
    kinds = names.unique(maintain_order=True)
    queues, by = [], dict[str, int]()
    for row in kinds.iter_rows(named=True):
        column, queue = queue_of(row, model)
        queues.append(-1 if queue is None else model.number[queue])
        if column:
            by[column] = by.get(column, 0) + 1
    keyed = kinds.with_columns(pl.Series("queue_number", queues, pl.Int64))
    number = names.join(
        keyed, on=QUEUE_COLUMNS, how="left", nulls_equal=True, maintain_order="left"
    )["queue_number"].to_numpy()
    lost = np.flatnonzero(number < 0)
    if lost.size and len(model.number) > 1:
        at = int(lost[0])
        row = names.row(at, named=True)
        cells = [f"{name} {row[name]!r}" for name in QUEUE_COLUMNS if row[name] is not None]
        raise UsageError(
            f"--site: {counted(int(lost.size), 'job')} of no queue of the site, such as job "
            f"{job_id[at]} ({', '.join(cells) or 'without group, user and partition'}); "
            f"expected one of {listed(model.queues[:12])}, a LocalQueue or its namespace\n"
            "  next: --map group=COLUMN names the column that has the queue"
        )
    if lost.size:
        only = next(iter(model.number.values()))
        return np.full(number.size, only), ["all jobs wait in the only queue of the site"]
    column = max(by, key=lambda name: by[name])
    return number.astype(np.int64).copy(), [f"queues are those that the column {column} names"]


def queue_of(row: Mapping[str, str | None], model: QuotaModel | KaiModel) -> tuple[str, str | None]:
    """Return the column that names the ClusterQueue of a job, and the queue; None for none."""
    namespace = row.get("group") or ""
    for column in QUEUE_COLUMNS:
        name = row.get(column)
        if not name:
            continue
        if name in model.number:
            return column, name
        local = model.of_local.get(name) or model.of_local.get(f"{namespace}/{name}")
        if local is None:
            leads = {
                queue for key, queue in model.of_local.items() if key.partition("/")[2] == name
            }
            if len(leads) != 1:
                leads = set(model.of_namespace.get(name, ()))
            local = next(iter(leads)) if len(leads) == 1 else None
        if local is not None:
            return column, local
    return "", None


def _priorities(table: pl.DataFrame) -> tuple[IntArray, list[str]]:
    """Return the priority of each job; without any all are equal but those of spot jobs."""
    recorded = table[RECORDED_PRIORITY]
    if recorded.null_count() < table.height:
        return recorded.fill_null(0).to_numpy().astype(np.int64), []
    is_spot = (table["priority"] == SPOT).fill_null(False).to_numpy()
    if is_spot.any():
        return -is_spot.astype(np.int64), ["spot jobs have a lower priority than all others"]
    return np.zeros(table.height, np.int64), ["the trace has no priorities: all jobs are equal"]


def _pod_sets(
    model: QuotaModel, queue: int, gpus: int, count: int, flavors: frozenset[str] | None
) -> tuple[PodSet, ...]:
    """Return the pods of a job: equal ones where its GPUs can be parted so, else one."""
    names = model.gpu_resources[model.queues[queue]]
    resource = next((name for name in names if gpus_of(name) == 1), names[0] if names else "gpu")
    count = count if count > 0 and gpus % count == 0 else 1
    return (PodSet({resource: gpus // count}, count, flavors=flavors),)
