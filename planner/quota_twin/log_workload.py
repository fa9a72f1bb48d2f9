"""From the Workloads of a dump to jobs that a site's queues replay, and what is not scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gpuplan.analysis.base.errors import InputError
from gpuplan.analysis.base.words import listed
from gpuplan.analysis.kubernetes.gpus import is_gpu
from gpuplan.analysis.quota.kueue_site import QuotaDocument
from gpuplan.analysis.quota.pod_sets import PodSetShape
from gpuplan.analysis.quota.schema import ResourceFlavor
from gpuplan.analysis.quota.workloads import KueueLog
from gpuplan.planner.quota.model import QuotaModel, quota_model
from gpuplan.planner.twin.workload import SiteWorkload
from gpuplan.simkit.arrays import FloatArray, IntArray
from gpuplan.simkit.quota.site import PODS, PodSet, QuotaJobs, QuotaQueue, QuotaSite
from gpuplan.simkit.twin.jobs import NEVER, SiteJobs

GROUPINGS = ("queue", "namespace", "priority", "size")
"""What waits may be split by; a queue is a ClusterQueue."""
COLUMN_OF = {"queue": "partition", "namespace": "account", "priority": "qos"}
LEAST_ADMISSION_S = 1.0
TAINTED = ("NoSchedule", "NoExecute")

GONE = "a queue that is gone"
"""Where workloads wait whose queue a changed site does not have."""


@dataclass(frozen=True, slots=True)
class QuotaWorkload(SiteWorkload):
    """Workloads ready for a replay: as a site has them, a partition for each ClusterQueue.

    Attributes:
        quota: what is replayed.
        gpus: GPUs of each, parts of one counted as such; shape (n,).
        queues: names of the ClusterQueues by number.
        left_out: workloads that are not replayed, by reason.
        rows: of each in the table of the dump; shape (n,).
    """

    GROUPS: ClassVar[tuple[str, ...]] = GROUPINGS

    quota: QuotaJobs
    gpus: FloatArray
    queues: tuple[str, ...]
    left_out: Mapping[str, int]
    rows: IntArray

    def names(self, by: str) -> NDArray[np.object_]:
        """Return the group of every job: by queue, namespace, priority or size."""
        return SiteWorkload.names(self, COLUMN_OF.get(by, by))


def at_submits(quota: QuotaJobs, jobs: SiteJobs, tie: int | None = None) -> QuotaJobs:
    """Return what is replayed where jobs come as in ``jobs``, with ties shuffled by a number."""
    uid = quota.uid
    if tie is not None:
        uid = np.random.default_rng([tie, 2]).permutation(uid.size)
    return replace(quota, submit=jobs.submit, created=jobs.submit, uid=uid)


def quota_workload(
    log: KueueLog, document: QuotaDocument, model: QuotaModel, warmup_s: int | None = None
) -> QuotaWorkload:
    """Return the workloads of a dump in the queues of a site.

    Args:
        log: the dump.
        document: the site.
        model: the same as the simulator takes it.
        warmup_s: seconds after the first submission whose jobs are not scored; None: a tenth.

    Raises:
        InputError: no workload is of a queue of the site.
    """
    left_out, notes = dict(log.left_out), list(log.notes)
    table = log.jobs
    queue = _queues(table, model)
    strange = Counter(
        row["cluster_queue"] or f"{row['namespace']}/{row['local_queue']}"
        for row in table.filter(pl.Series(queue < 0)).iter_rows(named=True)
    )
    if strange:
        left_out["of a queue that the site does not have"] = strange.total()
    pods, shapes, fits, dropped = _pods(table, queue, log.shapes, document, model)
    if dropped:
        notes.append(
            f"requests of {listed(sorted(dropped))} count for nothing: their queues have no quota "
            "for them"
        )
    unfit = (queue >= 0) & ~fits
    if unfit.any():
        left_out["too large for the quotas of today"] = int(unfit.sum())
    keep = (queue >= 0) & fits
    if not keep.any():
        raise InputError(
            log.path,
            "no Workload is of a queue of the site" if not unfit.any()
            else "no Workload fits the quotas of the site",
            expected=f"one of {listed(model.queues[:12])}, as "
            f"{listed([name for name, _ in strange.most_common(3)]) or 'their quotas'} are not",
            hint="give the site of the same cluster: --site FILE",
        )  # fmt: skip
    rows = np.flatnonzero(keep)
    table, queue, pods = table[rows], queue[keep], pods[keep]
    n = table.height
    submit, start, run = (
        table[name].to_numpy().astype(np.int64) for name in ("submit", "start", "run_s")
    )
    first, last = int(submit[0]), int(submit[-1])
    until = first + ((last - first) // 10 if warmup_s is None else warmup_s)
    gpus = table["gpus"].to_numpy()
    priorities = table["priority"].to_numpy().astype(np.int64)
    named = table.select(
        pl.col("priority_class").fill_null("").alias("class"), pl.col("priority").cast(pl.String)
    ).with_columns(
        pl.when(pl.col("class") != "").then("class").otherwise("priority").alias("name")
    )["name"]
    namespaces, account = _codes(table["namespace"])
    classes, qos = _codes(named)
    flavors, flavor = _codes(table["flavor"].fill_null(""))
    zero, never = np.zeros(n, np.int64), np.full(n, NEVER, np.int64)
    whole_gpus = np.maximum(np.ceil(gpus), 1).astype(np.int64)
    ones = np.ones(n, np.int64)
    jobs = SiteJobs(
        np.arange(n), submit, submit, ones, whole_gpus, np.maximum(run, 1), run, never, never, zero,
        gpus, account, account, queue, qos, flavor,
        namespaces, namespaces, tuple(model.queues), classes, flavors,
    )  # fmt: skip
    quota = QuotaJobs(queue, priorities, submit, submit, run, pods, np.arange(n), shapes)
    notes += _admission_note(table)
    scored = submit >= until
    counts: dict[str, int] = {}
    forgotten = ~table["is_first"].to_numpy()
    if hit := int((scored & forgotten).sum()):
        counts["evicted (the dump keeps only the last start)"] = hit
    if early := int((~scored).sum()):
        part = "first tenth of the log" if warmup_s is None else "warm-up"
        notes.append(_scored_note(n, early, hit, part))
    return QuotaWorkload(
        jobs, tuple(table["job_id"].to_list()), start, scored & ~forgotten,
        np.zeros(n, np.bool_), counts, until, tuple(notes), quota, gpus, tuple(model.queues),
        left_out, rows,
    )  # fmt: skip


def requeued(
    log: KueueLog, work: QuotaWorkload, today: QuotaModel, document: QuotaDocument
) -> tuple[QuotaSite, QuotaJobs]:
    """Return another site, and the same workloads in its queues.

    Workloads whose LocalQueue leads to another ClusterQueue there go to that one. Those of a queue
    that it does not have never start.

    Args:
        log: the dump.
        work: its workloads in the queues of today.
        today: the site of today.
        document: the other site.

    Raises:
        InputError: the other site has no queue.
    """
    model = quota_model(document)
    table = log.jobs[work.rows]
    names = np.array(work.queues, object)[work.quota.queue].tolist()
    local = (table["namespace"] + "/" + table["local_queue"].fill_null("")).to_list()
    numbers = []
    for queue, name in zip(names, local, strict=True):
        leads = model.of_local.get(name, queue) if today.of_local.get(name) == queue else queue
        numbers.append(model.number.get(leads, -1))
    number = np.array(numbers, np.int64)
    site = model.site
    if (number < 0).any():
        number = np.where(number < 0, len(site.queues), number)
        site = replace(site, queues=(*site.queues, QuotaQueue(GONE, ())))
        model = replace(model, site=site)
    pods, shapes, _, _ = _pods(table, number, log.shapes, document, model)
    return site, replace(work.quota, queue=number, pods=pods, shapes=shapes)


def _scored_note(jobs: int, early: int, evicted: int, part: str) -> str:
    """Return how many jobs are scored, and why the others are not.

    Args:
        jobs: that are replayed.
        early: jobs of the warm-up.
        evicted: later ones whose first start the dump has not.
        part: what the warm-up is of the log.
    """
    first = f"the {early:,} of the {part} are" if early > 1 else f"the first one, of the {part}, is"
    rest = ""
    if evicted:
        was = "was" if evicted == 1 else "were"
        rest = f", nor {evicted:,} that {was} evicted, as the dump keeps only the last start"
    return (
        f"waits are of {jobs - early - evicted:,} of {jobs:,} jobs: {first} not scored, as the "
        f"replay begins with an empty cluster{rest}; gpuplan waits and compare count them, and "
        "compare leaves out those still running"
    )


def _admission_note(table: pl.DataFrame) -> list[str]:
    """Return how long workloads waited after their quota was reserved; nothing where they did not.

    Only a first admission is known together with the reservation before it.
    """
    later = table.filter("is_first").select(pl.col("admitted") - pl.col("start"))["admitted"]
    seconds = later.drop_nulls().to_numpy()
    if not seconds.size or seconds.mean() < LEAST_ADMISSION_S:
        return []
    return [
        f"after the reservation of quota workloads waited {seconds.mean():.0f} s more on average "
        "for their admission (checks of the queue): that part is not replayed"
    ]


def _codes(names: pl.Series) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    values, code = np.unique(names.to_numpy().astype(str), return_inverse=True)
    return tuple(map(str, values)), code.reshape(-1).astype(np.int64)


def _queues(table: pl.DataFrame, model: QuotaModel) -> NDArray[np.int64]:
    """Return the number of the ClusterQueue of each workload; -1 where the site has it not."""
    columns = ("cluster_queue", "namespace", "local_queue")
    kinds = table.select(columns).unique(maintain_order=True)
    numbers = []
    for queue, namespace, local in kinds.iter_rows():
        name = queue or model.of_local.get(f"{namespace}/{local}") or ""
        numbers.append(model.number.get(name, -1))
    keyed = kinds.with_columns(pl.Series("number", numbers, pl.Int64))
    joined = table.select(columns).join(
        keyed, on=columns, how="left", nulls_equal=True, maintain_order="left"
    )
    return joined["number"].to_numpy().astype(np.int64).copy()


def _pods(
    table: pl.DataFrame,
    queue: NDArray[np.int64],
    groups: Sequence[tuple[PodSetShape, ...]],
    document: QuotaDocument,
    model: QuotaModel,
) -> tuple[
    NDArray[np.int64], tuple[tuple[PodSet, ...], ...], NDArray[np.bool_], set[str]
]:  # fmt: skip
    """Return the pod sets of each workload, whether they ever fit, and resources without quota."""
    flavors = document.settings.flavor
    names = sorted(model.flavor_types)
    allowed = {pods: eligible_flavors(pods, names, flavors) for shape in groups for pods in shape}
    covered = [
        {name for group in queue.groups for flavor in group for name in flavor.quotas}
        for queue in model.site.queues
    ]
    made: dict[tuple[PodSet, ...], int] = {}
    of: dict[tuple[int, int], tuple[int, bool]] = {}
    dropped: set[str] = set()
    number, fits = np.zeros(table.height, np.int64), np.zeros(table.height, np.bool_)
    sets: list[tuple[PodSet, ...]] = []
    for at, key in enumerate(zip(queue.tolist(), table["shape"].to_list(), strict=True)):
        if key[0] < 0:
            continue
        if key not in of:
            pods = tuple(
                _pod_set(group, covered[key[0]], allowed[group]) for group in groups[key[1]]
            )
            for group in groups[key[1]]:
                dropped |= {
                    name for name, _ in group.requests
                    if name not in covered[key[0]] and name != PODS and not is_gpu(name)
                }  # fmt: skip
            shape = made.get(_key(pods))
            if shape is None:
                shape = made[_key(pods)] = len(sets)
                sets.append(pods)
            of[key] = shape, all(model.fits(key[0], pod_set, pod_set.least) for pod_set in pods)
        number[at], fits[at] = of[key]
    return number, tuple(sets), fits, dropped


def _key(pods: tuple[PodSet, ...]) -> tuple[PodSet, ...]:
    return tuple(
        (tuple(sorted(pod_set.requests.items())), pod_set.count, pod_set.least, pod_set.flavors)  # type: ignore[misc]
        for pod_set in pods
    )


def _pod_set(group: PodSetShape, covered: set[str], flavors: frozenset[str] | None) -> PodSet:
    requests = {
        name: amount
        for name, amount in group.requests
        if name != PODS and (name in covered or is_gpu(name))
    }
    return PodSet(requests, group.count, group.least, flavors)


def eligible_flavors(
    pods: PodSetShape, names: Sequence[str], flavors: Mapping[str, ResourceFlavor]
) -> frozenset[str] | None:
    """Return the flavors that a pod set may run on; None for all.

    A flavor is out where the pods do not tolerate a taint, or where their node selector or required
    affinity contradicts a label of it; labels that it does not have count for nothing.
    """
    able = frozenset(name for name in names if name not in flavors or _may_run(pods, flavors[name]))
    return None if len(able) == len(names) else able


def _may_run(pods: PodSetShape, flavor: ResourceFlavor) -> bool:
    tolerations = [*pods.tolerations]
    tolerations += [(t.key, t.operator, t.value, t.effect) for t in flavor.tolerations]
    for taint in flavor.nodeTaints:
        if taint.effect in TAINTED and not any(
            (not key or key == taint.key)
            and (operator == "Exists" or value == taint.value)
            and effect in ("", taint.effect)
            for key, operator, value, effect in tolerations
        ):
            return False
    labels = flavor.nodeLabels
    if any(labels.get(key, value) != value for key, value in pods.selector):
        return False
    return not pods.terms or any(all(_holds(labels, *rule) for rule in term) for term in pods.terms)


def _holds(labels: Mapping[str, str], key: str, operator: str, values: Sequence[str]) -> bool:
    if key not in labels:
        return True
    if operator == "In":
        return labels[key] in values
    if operator == "NotIn":
        return labels[key] not in values
    return operator != "DoesNotExist"
